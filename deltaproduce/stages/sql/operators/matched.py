"""EXISTS and IN: whether a subquery has a row for each row of the input."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.local.arrays import Marks
from deltaproduce.stages.sql.algebra.relations import Matched
from deltaproduce.stages.sql.operators.computing import Computing
from deltaproduce.stages.sql.operators.pairs import Side, marked, matching
from deltaproduce.types.pandas_on_demand import in_numpy


def whole(matched: Matched, rows: pa.Table, subquery: pa.Table, computing: Computing) -> pa.Table:
    """Return all rows of the input with the field."""
    sides = Side(rows, matched.input.fields), Side(subquery, matched.subquery.fields)
    equal = (*matched.equal, *matched.among)
    ones, _ = matching(*sides, equal, matched.rest, computing)
    found = marked(ones, len(rows))
    unknown = np.zeros(len(rows), bool)
    if matched.among:
        unknown = _unknown(matched, *sides, computing) & ~found
    return rows.append_column(matched.found.id, pa.array(found, pa.bool_(), mask=unknown))


def _unknown(matched: Matched, left: Side, right: Side, computing: Computing) -> Marks:
    """Return the rows for which a null is compared: their own, or one of the subquery's."""
    (among,) = matched.among
    values = computing.sides(among, (left.rows, left.fields), (right.rows, right.fields))
    null, nulls = (in_numpy(pc.is_null(side), bool) for side in values)
    own = left.only(null)
    found = np.zeros(len(left.rows), bool)
    found[null] = _has(matched, own, right, computing)
    return found | _has(matched, left, right.only(nulls), computing)


def _has(matched: Matched, left: Side, right: Side, computing: Computing) -> Marks:
    """Return which rows the subquery has any row for, whatever its values are."""
    if not (matched.equal or matched.rest):
        return np.full(len(left.rows), bool(len(right.rows)))
    ones, _ = matching(left, right, matched.equal, matched.rest, computing)
    return marked(ones, len(left.rows))
