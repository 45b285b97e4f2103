"""Scalar subqueries: the one row that a subquery has for each row of the input."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from deltaproduce.stages.sql.algebra.relations import Single
from deltaproduce.stages.sql.operators.changes.keys import (
    JoinKey,
    LookupKeys,
    across,
    links,
    turned,
)
from deltaproduce.stages.sql.operators.changes.rules import EachRow, RelationChanges, both
from deltaproduce.stages.sql.operators.changes.signed import Signed
from deltaproduce.stages.sql.operators.computing import Computing, QueryError
from deltaproduce.stages.sql.operators.joins.pairs import Side, matching


def whole(
    single: Single,
    rows: pa.Table,
    subquery: pa.Table,
    otherwise: pa.Table | None = None,
    *,
    computing: Computing,
) -> pa.Table:
    """Return all rows of the input with the subquery's value.

    Raises:
        QueryError: the subquery has several rows for a row.
    """
    if not single.equal and len(subquery) > 1:
        raise _several(single)
    sides = Side(rows, single.input.fields), Side(subquery, single.subquery.fields)
    ones, others = matching(*sides, single.equal, (), computing)
    if len(ones) and bool((ones[1:] == ones[:-1]).any()):
        raise _several(single)
    values = subquery.select([single.taken.id])
    if otherwise is not None:
        values = pa.concat_tables([values, otherwise.rename_columns([single.taken.id])])
    missing = len(subquery) if otherwise is not None and len(otherwise) else -1
    places = np.full(len(rows), missing)
    places[ones] = others
    taken = values.combine_chunks().take(pa.array(places, mask=places < 0))
    return rows.append_column(single.taken.id, taken.column(0))


def change(single: Single, changes: RelationChanges) -> Signed:
    """Return the change: rows that change, and those whose subquery changes."""
    linked = linked_fields(single)
    otherwise = None if single.otherwise is None else changes.before(single.otherwise)
    touched = changes.change(single.subquery)
    if not single.equal and len(touched):  # fails though there may be no row
        _, after = both(single.subquery, None, touched, changes)
        if len(after) > 1:
            raise _several(single)
    rule = EachRow(
        single.input,
        single.subquery,
        lambda rows, others: whole(single, rows, others, otherwise, computing=changes.computing),
        lambda rows: across(rows, linked),
        lambda rows: across(rows, turned(linked)),
    )
    return rule.change(single, changes)


def looked_up(single: Single, keys: LookupKeys, changes: RelationChanges) -> pa.Table:
    """Return the rows before that have one of the keys."""
    linked = linked_fields(single)
    rows = changes.before(single.input, keys.within(single.input.fields))
    subquery = changes.before(single.subquery, across(rows, linked))
    otherwise = None if single.otherwise is None else changes.before(single.otherwise)
    matched = whole(single, rows, subquery, otherwise, computing=changes.computing)
    return keys.of_rows(matched)


def linked_fields(single: Single) -> tuple[JoinKey, ...]:
    """Return what links the subquery."""
    return links(single.equal, single.input.fields, single.subquery.fields)


def _several(single: Single) -> QueryError:
    message = (
        "[SCALAR_SUBQUERY_TOO_MANY_ROWS] More than one row returned by a subquery used as an "
        "expression."
    )
    return QueryError(single.label, message)
