"""Joins."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from deltaproduce.stages.sql.algebra.relations import Join
from deltaproduce.stages.sql.operators.computing import Computing
from deltaproduce.stages.sql.operators.pairs import Side, beside, marked, matching, rows_at


def whole(join: Join, left: pa.Table, right: pa.Table, computing: Computing) -> pa.Table:
    """Return all rows of a join."""
    sides = Side(left, join.left.fields), Side(right, join.right.fields)
    ones, others = matching(*sides, join.equal, join.rest, computing)
    if join.kind in {"semi", "anti"}:
        has = marked(ones, len(left))
        return left.filter(pa.array(has if join.kind == "semi" else ~has))
    alone, unmatched = np.zeros(0, np.int64), np.zeros(0, np.int64)
    if join.kind in {"left", "full"}:
        alone = np.flatnonzero(~marked(ones, len(left)))
    if join.kind in {"right", "full"}:
        unmatched = np.flatnonzero(~marked(others, len(right)))
    return beside(
        rows_at(left, np.concatenate([ones, alone]), nulls=len(unmatched)),
        pa.concat_tables([rows_at(right, others, nulls=len(alone)), rows_at(right, unmatched)]),
    )
