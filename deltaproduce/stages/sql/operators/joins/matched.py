"""EXISTS and IN: whether a subquery has a row for each row of the input."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.local.arrays import Marks
from deltaproduce.stages.sql.algebra.relations import Matched
from deltaproduce.stages.sql.operators.changes.keys import (
    JoinKey,
    LookupKeys,
    across,
    links,
    turned,
)
from deltaproduce.stages.sql.operators.changes.rules import EachRow, RelationChanges
from deltaproduce.stages.sql.operators.changes.signed import Signed
from deltaproduce.stages.sql.operators.computing import Computing
from deltaproduce.stages.sql.operators.joins.pairs import Side, marked, matching
from deltaproduce.types.pandas_on_demand import in_numpy


def whole(matched: Matched, rows: pa.Table, subquery: pa.Table, computing: Computing) -> pa.Table:
    """Return all rows of the input with the field."""
    sides = Side(rows, matched.input.fields), Side(subquery, matched.subquery.fields)
    equal = (*matched.equal, *matched.among)
    ones, _ = matching(*sides, equal, matched.rest, computing)
    flags = marked(ones, len(rows))
    unknown = np.zeros(len(rows), bool)
    if matched.among:
        unknown = _unknown(matched, *sides, computing) & ~flags
    return rows.append_column(matched.flag.id, pa.array(flags, pa.bool_(), mask=unknown))


def change(matched: Matched, changes: RelationChanges) -> Signed:
    """Return the change: rows that change, and those that have the keys of subquery rows."""
    linked, compared = linked_fields(matched)
    rule = EachRow(
        matched.input,
        matched.subquery,
        lambda rows, others: whole(matched, rows, others, changes.computing),
        lambda rows: _reached(rows, linked, compared),
        lambda rows: _reached(rows, turned(linked), turned(compared)),
    )
    return rule.change(matched, changes)


def looked_up(matched: Matched, keys: LookupKeys, changes: RelationChanges) -> pa.Table:
    """Return the rows before that have one of the keys."""
    rows = changes.before(matched.input, keys.within(matched.input.fields))
    subquery = changes.before(matched.subquery, _reached(rows, *linked_fields(matched)))
    return keys.of_rows(whole(matched, rows, subquery, changes.computing))


def linked_fields(matched: Matched) -> tuple[tuple[JoinKey, ...], tuple[JoinKey, ...]]:
    """Return what links the subquery, and what IN compares."""
    sides = matched.input.fields, matched.subquery.fields
    return links(matched.equal, *sides), links(matched.among, *sides)


def _reached(
    rows: pa.Table, linked: tuple[JoinKey, ...], compared: tuple[JoinKey, ...]
) -> LookupKeys | None:
    """Return the keys of the other side's rows that count for rows of this side.

    To a null each value counts, and to each value a null.
    """
    fields = {one.right.id for one in linked}
    if not compared or compared[0].right.id in fields:
        return across(rows, linked)
    (among,) = compared
    if rows.column(among.left.id).null_count:
        return across(rows, linked)
    keys = across(rows, (*linked, among))
    assert keys is not None
    place, column = len(keys.fields) - 1, keys.rows.column(among.right.id)
    nulls = pa.nulls(len(keys.rows), column.type)
    return keys.and_(LookupKeys(keys.rows.set_column(place, among.right.id, nulls)))


def _unknown(matched: Matched, left: Side, right: Side, computing: Computing) -> Marks:
    """Return the rows for which a null is compared: their own, or one of the subquery's."""
    (among,) = matched.among
    values = computing.sides(among, (left.rows, left.fields), (right.rows, right.fields))
    null, nulls = (in_numpy(pc.is_null(side), bool) for side in values)
    own = left.filter(null)
    is_unknown = np.zeros(len(left.rows), bool)
    is_unknown[null] = _has(matched, own, right, computing)
    return is_unknown | _has(matched, left, right.filter(nulls), computing)


def _has(matched: Matched, left: Side, right: Side, computing: Computing) -> Marks:
    """Return which rows the subquery has any row for, whatever its values are."""
    if not (matched.equal or matched.rest):
        return np.full(len(left.rows), bool(len(right.rows)))
    ones, _ = matching(left, right, matched.equal, matched.rest, computing)
    return marked(ones, len(left.rows))
