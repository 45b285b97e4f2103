"""UNION, INTERSECT and EXCEPT, by the counts of equal rows on both sides."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import factorize
from deltaproduce.stages.sql.algebra.relations import Relation, SetOperation
from deltaproduce.stages.sql.operators.changes.keys import LookupKeys
from deltaproduce.stages.sql.operators.changes.rules import RelationChanges, both, nothing
from deltaproduce.stages.sql.operators.changes.signed import (
    Signed,
    number_among_equals,
    together,
)
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
    number = number_among_equals(mine)
    if operation.is_all:
        kept = number < others if operation.kind == "intersect" else number >= others
    else:
        kept = (number == 0) & ((others > 0) == (operation.kind == "intersect"))
    return together.slice(0, len(left)).filter(pa.array(kept))


def change(operation: SetOperation, changes: RelationChanges) -> Signed:
    """Return the change: of the rows that either side changes, the counts before and after."""
    sides = [changes.change(one) for one in operation.inputs]
    names = [field.id for field in operation.fields]
    touched = [side.named(names) for side in sides]
    if operation.kind == "union" and operation.is_all:
        return Signed.concat(touched).net()
    if not any(map(len, sides)):
        return nothing(operation, changes)
    keys = LookupKeys.of(together([side.rows for side in touched]), names)
    assert keys is not None
    signed = [
        both(one, keys.named(renamed(operation, one)), side, changes)
        for one, side in zip(operation.inputs, sides, strict=True)
    ]
    before, after = (
        whole(operation, left, right, changes.computing)
        for left, right in zip(*signed, strict=True)
    )
    return Signed.between(before, after)


def looked_up(operation: SetOperation, keys: LookupKeys, changes: RelationChanges) -> pa.Table:
    """Return the rows before that have one of the keys."""
    left, right = (
        changes.before(one, keys.named(renamed(operation, one))) for one in operation.inputs
    )
    return whole(operation, left, right, changes.computing)


def renamed(operation: SetOperation, side: Relation) -> dict[str, str]:
    """Return the fields -> those of a side."""
    return {a.id: b.id for a, b in zip(operation.fields, side.fields, strict=True)}
