"""Joins."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from deltaproduce.stages.sql.algebra.relations import Join, Relation
from deltaproduce.stages.sql.operators.changes.keys import (
    JoinKey,
    LookupKeys,
    across,
    links,
    turned,
)
from deltaproduce.stages.sql.operators.changes.rules import EachRow, RelationChanges, both, nothing
from deltaproduce.stages.sql.operators.changes.signed import Signed
from deltaproduce.stages.sql.operators.computing import Computing
from deltaproduce.stages.sql.operators.joins.pairs import Side, beside, marked, matching, rows_at


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


def change(join: Join, changes: RelationChanges) -> Signed:
    """Return the change, from the rows that belong to changed ones of either side.

    A join that keeps the rows of both sides is compared before and after, for all keys that change.
    """
    linked, computing = linked_fields(join), changes.computing
    if join.kind == "full":
        return _change_of_full(join, linked, changes)
    main, other = join.inputs
    if join.kind == "right":
        main, other, linked = other, main, turned(linked)

    def joined_rows(rows: pa.Table, others: pa.Table) -> pa.Table:
        sides = (others, rows) if join.kind == "right" else (rows, others)
        return whole(join, *sides, computing)

    rule = EachRow(
        main,
        other,
        joined_rows,
        lambda rows: across(rows, linked),
        lambda rows: across(rows, turned(linked)),
        join.kind == "inner",
    )
    return rule.change(join, changes)


def looked_up(join: Join, keys: LookupKeys, changes: RelationChanges) -> pa.Table:
    """Return the rows before that have one of the keys: those of one side, then their partners."""
    first = begin(join, keys)
    if first is None:
        sides = [changes.before(one) for one in join.inputs]
    else:
        linked = linked_fields(join)
        own = changes.before(first, keys.within(first.fields))
        if first is join.left:
            sides = [own, changes.before(join.right, across(own, linked))]
        else:
            sides = [changes.before(join.left, across(own, turned(linked))), own]
    left, right = sides
    return keys.of_rows(whole(join, left, right, changes.computing))


def begin(join: Join, keys: LookupKeys) -> Relation | None:
    """Return the side whose rows a look-up finds first; None if it needs all rows of both.

    Rows of a side without a partner have nulls for it. So that side cannot tell which they are, if
    nulls are looked up.
    """
    inputs = dict[int, tuple[int, Relation]]()
    for side, kinds in ((join.left, {"right", "full"}), (join.right, {"left", "full"})):
        own = keys.within(side.fields)
        if own is not None and not (join.kind in kinds and own.has_all_null):
            inputs.setdefault(-len(own.fields), (len(inputs), side))
    return inputs[min(inputs)][1] if inputs else None


def _change_of_full(join: Join, linked: tuple[JoinKey, ...], changes: RelationChanges) -> Signed:
    sides = [changes.change(one) for one in join.inputs]
    if not any(map(len, sides)):
        return nothing(join, changes)
    signed = []
    ways = ((0, 1, linked, turned(linked)), (1, 0, turned(linked), linked))
    for mine, theirs, own, back in ways:
        keys = LookupKeys.of(sides[mine].rows, (one.left.id for one in own))
        reached = across(sides[theirs].rows, back)
        if keys is not None and reached is not None:
            keys = keys.and_(reached)
        signed.append(both(join.inputs[mine], keys, sides[mine], changes))
    before, after = (
        whole(join, left, right, changes.computing) for left, right in zip(*signed, strict=True)
    )
    return Signed.between(before, after)


def linked_fields(join: Join) -> tuple[JoinKey, ...]:
    """Return the fields of both sides that must be equal."""
    return links(join.equal, join.left.fields, join.right.fields)
