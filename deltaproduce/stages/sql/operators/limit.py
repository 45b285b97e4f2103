"""ORDER BY with LIMIT and OFFSET."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Numbers, factorize, order_codes, places, sorting
from deltaproduce.stages.sql.algebra.relations import Limit
from deltaproduce.stages.sql.algebra.scalars import Field, SortKey
from deltaproduce.stages.sql.operators.changes.keys import LookupKeys
from deltaproduce.stages.sql.operators.changes.rules import RelationChanges, nothing
from deltaproduce.stages.sql.operators.changes.signed import Signed, bag_difference, together
from deltaproduce.stages.sql.operators.computing import Computing
from deltaproduce.types.columns import Column
from deltaproduce.types.pandas_on_demand import in_numpy


def whole(limit: Limit, rows: pa.Table, computing: Computing) -> pa.Table:
    """Return the first rows in the order."""
    del computing
    return _first(limit, rows, limit.offset, limit.count)


def change(limit: Limit, changes: RelationChanges) -> Signed:
    """Return the change: of the rows up to the end, and of those that are left out before them.

    As many rows of a partition are read as there are up to there, and as go.
    """
    touched = changes.change(limit.input)
    if not len(touched):
        return nothing(limit, changes)
    parts = [touched if limit.count is None else _of_first(limit, limit.end, touched, changes)]
    if limit.offset:
        parts.append(-_of_first(limit, limit.offset, touched, changes))
    return Signed.concat(parts).net()


def looked_up(limit: Limit, keys: LookupKeys, changes: RelationChanges) -> pa.Table:
    """Return the rows before that have one of the keys, from the first rows of their partitions."""
    own = keys.within(limit.partition)
    if own is None or len(own.fields) < len(limit.partition):
        own = keys.within(limit.input.fields) if limit.partition else None
        if own is not None:
            own = LookupKeys.of(changes.before(limit.input, own), _partition(limit))
    return keys.of_rows(before(limit, changes, own))


def before(limit: Limit, changes: RelationChanges, keys: LookupKeys | None = None) -> pa.Table:
    """Return the rows before.

    Args:
        keys: the partitions whose rows are wanted; all if None.
    """
    is_all = limit.count is None
    rows = changes.before(limit.input) if is_all else changes.first(limit, limit.end, keys)
    return whole(limit, rows, changes.computing)


def _of_first(limit: Limit, count: int, touched: Signed, changes: RelationChanges) -> Signed:
    """Return the change of the first rows.

    Args:
        touched: the change of all.
    """
    gone = touched.deleted
    least = count + _most_of_one(limit, gone)
    keys = LookupKeys.of(touched.rows, _partition(limit))
    old = _first(limit, changes.first(limit, least, keys), 0, least)
    new = [bag_difference(old, gone, may_lack=True), touched.inserted.repeated]
    return Signed.between(_first(limit, old, 0, count), _first(limit, together(new), 0, count))


def _most_of_one(limit: Limit, gone: Signed) -> int:
    """Return how many rows of one partition go, at most."""
    if not limit.partition or not len(gone):
        return int(gone.counts.sum())
    return int(np.bincount(_partitions(limit, gone.rows), gone.counts).max())


def _first(limit: Limit, rows: pa.Table, start: int, count: int | None) -> pa.Table:
    """Return rows of each partition in the order, from a place on."""
    if not limit.partition:
        order = ordered(rows, limit.order, limit.fields)
        return rows.combine_chunks().take(pa.array(order)).slice(start, count)
    if not len(rows):
        return rows
    partitions = _partitions(limit, rows)
    order = sorting([partitions, *order_numbers(rows, _every(limit.order, limit.fields))])
    place = places([partitions[order]])
    is_wanted = (place >= start) & (place < (len(rows) if count is None else start + count))
    return rows.combine_chunks().take(pa.array(order[is_wanted]))


def _partition(limit: Limit) -> list[str]:
    return [field.id for field in limit.partition]


def _partitions(limit: Limit, rows: pa.Table) -> Numbers:
    """Return the number of each row's partition."""
    return factorize(rows.select(_partition(limit)).columns)


def ordered(rows: pa.Table, keys: Sequence[SortKey], ties: Sequence[Field]) -> Numbers:
    """Return the positions of sorted rows.

    Args:
        ties: the fields that order rows with equal keys, nulls first.
    """
    numbers = order_numbers(rows, _every(keys, ties))
    return sorting(numbers) if len(rows) else np.zeros(0, np.int64)


def _every(keys: Sequence[SortKey], ties: Sequence[Field]) -> list[SortKey]:
    return [*keys, *(SortKey(field, descending=False, nulls_first=True) for field in ties)]


def order_numbers(rows: pa.Table, keys: Sequence[SortKey]) -> list[Numbers]:
    """Return columns of numbers that sort rows by the keys, the most significant first."""
    return [one for key in keys for one in _codes(rows, key)]


def _codes(rows: pa.Table, key: SortKey) -> Iterator[Numbers]:
    """Yield numbers in the order of a key, the most significant first."""
    column = rows.column(key.field.id)
    if column.null_count:
        nulls = in_numpy(column.is_null(), bool)
        yield (~nulls if key.nulls_first else nulls).astype(np.int64)
    assert key.field.data_type is not None
    wanted = Column(key.field.id, key.field.data_type, descending=key.descending)
    yield from order_codes(rows, [wanted])
