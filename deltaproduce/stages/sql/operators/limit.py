"""ORDER BY with LIMIT and OFFSET."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Numbers, order_codes, sorting
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
    return _sorted(limit, rows).slice(limit.offset, limit.count)


def change(limit: Limit, changes: RelationChanges) -> Signed:
    """Return the change: of the rows up to the end, and of those that are left out before them.

    As many rows are read as there are up to there, and as go.
    """
    touched = changes.change(limit.input)
    if not len(touched):
        return nothing(limit, changes)
    parts = [touched if limit.count is None else _of_first(limit, limit.end, touched, changes)]
    if limit.offset:
        parts.append(-_of_first(limit, limit.offset, touched, changes))
    return Signed.concat(parts).net()


def looked_up(limit: Limit, keys: LookupKeys, changes: RelationChanges) -> pa.Table:
    """Return the rows before that have one of the keys."""
    return keys.of_rows(before(limit, changes))


def before(limit: Limit, changes: RelationChanges) -> pa.Table:
    """Return the rows before."""
    is_all = limit.count is None
    rows = changes.before(limit.input) if is_all else changes.first(limit, limit.end)
    return whole(limit, rows, changes.computing)


def _of_first(limit: Limit, count: int, touched: Signed, changes: RelationChanges) -> Signed:
    """Return the change of the first rows.

    Args:
        touched: the change of all.
    """
    gone = touched.deleted
    least = count + int(gone.counts.sum())
    old = _sorted(limit, changes.first(limit, least)).slice(0, least)
    new = [bag_difference(old, gone, may_lack=True), touched.inserted.repeated]
    return Signed.between(old.slice(0, count), _sorted(limit, together(new)).slice(0, count))


def _sorted(limit: Limit, rows: pa.Table) -> pa.Table:
    return rows.combine_chunks().take(pa.array(ordered(rows, limit.order, limit.fields)))


def ordered(rows: pa.Table, keys: Sequence[SortKey], ties: Sequence[Field]) -> Numbers:
    """Return the positions of sorted rows.

    Args:
        ties: the fields that order rows with equal keys, nulls first.
    """
    every = [*keys, *(SortKey(field, descending=False, nulls_first=True) for field in ties)]
    numbers = order_numbers(rows, every)
    return sorting(numbers) if len(rows) else np.zeros(0, np.int64)


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
