"""UNION, INTERSECT and EXCEPT, by the counts of equal rows on both sides."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Numbers, factorize
from deltaproduce.stages.sql.algebra.relations import SetOperation
from deltaproduce.stages.sql.operators.computing import Computing
from deltaproduce.stages.sql.operators.distinct import distinct, normalized


def whole(
    operation: SetOperation, left: pa.Table, right: pa.Table, computing: Computing
) -> pa.Table:
    """Return all rows of a set operation."""
    del computing
    names = [field.id for field in operation.fields]
    left, right = left.rename_columns(names), right.rename_columns(names)
    together = pa.concat_tables([left, right])
    if operation.kind == "union":
        return together if operation.is_all else distinct(together)
    together = normalized(together)
    codes = factorize(together.columns)
    mine, theirs = codes[: len(left)], codes[len(left) :]
    others = np.bincount(theirs, minlength=int(codes.max(initial=-1)) + 1)[mine]
    number = _number_among_equals(mine)
    if operation.is_all:
        kept = number < others if operation.kind == "intersect" else number >= others
    else:
        kept = (number == 0) & ((others > 0) == (operation.kind == "intersect"))
    return together.slice(0, len(left)).filter(pa.array(kept))


def _number_among_equals(codes: Numbers) -> Numbers:
    """Return for each row how many rows before it are equal to it."""
    order = np.argsort(codes, kind="stable")
    in_order = codes[order]
    begins = np.append(True, in_order[1:] != in_order[:-1])[: len(codes)]
    index = np.arange(len(codes))
    found = np.empty(len(codes), np.int64)
    found[order] = index - np.maximum.accumulate(np.where(begins, index, 0))
    return found
