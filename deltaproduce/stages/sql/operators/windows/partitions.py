"""The rows of partitions in order, and where the frames of each row begin and end.

Places count the rows in order: partition after partition. The invariant: rows that are equal in the
order, and in the ties of a window that is total, are *peers*; all other rows are before or after
each other whatever the order in which they came.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.local.arrays import (
    Marks,
    Numbers,
    factorize,
    order_codes,
    single,
    sorting,
)
from deltaproduce.stages.sql.algebra.scalars import Field
from deltaproduce.stages.sql.algebra.windows import Frame, FrameBound, OrderKey, WindowRelation
from deltaproduce.stages.sql.operators.computing import Computing, normal
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import ArrayType, DataType, NullType, StructType
from deltaproduce.types.pandas_on_demand import in_numpy

_VALUE = "value"


@dataclass(frozen=True, slots=True)
class Key:
    """What rows are sorted by: the values of an expression, in the order of rows, and numbers."""

    key: OrderKey
    values: pa.Array


@dataclass(frozen=True, slots=True)
class WindowPartitions:
    """The rows of an operator in order.

    Attributes:
        rows: the rows, in order.
        order: which of the given rows each of them is.
        begins: the place at which the partition of each row begins.
        ends: the place after its last row.
        peers_begin: the place of its first peer.
        peers_end: the place after its last peer.
        keys: what they are sorted by within a partition.
    """

    rows: pa.Table
    order: Numbers
    begins: Numbers
    ends: Numbers
    peers_begin: Numbers
    peers_end: Numbers
    keys: tuple[Key, ...]

    @staticmethod
    def of(window: WindowRelation, rows: pa.Table, computing: Computing) -> WindowPartitions:
        """Sort rows.

        Raises:
            QueryError: an expression fails for a row.
        """
        fields = window.input.fields
        by = [normal(computing.value(one, rows, fields)) for one in window.partition]
        parts = factorize(map(_chunked, by)) if by else np.zeros(len(rows), np.int64)
        values = [computing.value(key.scalar, rows, fields) for key in window.order]
        numbers = list[Numbers]()
        for key, array in zip(window.order, values, strict=True):
            numbers += _numbers_of(array, key)
        tied = [_in_order(rows, field) for field in window.ties]
        peers = [*numbers, *tied]
        order = np.zeros(0, np.int64)
        if len(rows):
            order = sorting([parts, *peers, *_last_ties(window, rows)])
        begins, ends = _runs([parts[order]])
        same = _runs([parts[order], *(one[order] for one in peers)])
        taken = rows.combine_chunks().take(pa.array(order))
        keys = (Key(k, v.take(pa.array(order))) for k, v in zip(window.order, values, strict=True))
        return WindowPartitions(taken, order, begins, ends, *same, tuple(keys))

    def __len__(self) -> int:
        return len(self.order)

    def as_given(self, values: pa.Array) -> pa.Array:
        """Return the values of rows in the order in which they were given."""
        back = np.empty(len(self), np.int64)
        back[self.order] = np.arange(len(self))
        return values.take(pa.array(back))

    def frames(
        self, frame: Frame, fields: Sequence[Field], computing: Computing
    ) -> tuple[Numbers, Numbers]:
        """Return where the frame of each row begins, and the place after its last row.

        A frame without rows ends where it begins.

        Raises:
            QueryError: the value at which a frame ends cannot be computed.
        """
        begin = self._bound(frame, frame.start, fields, computing, is_end=False)
        end = self._bound(frame, frame.end, fields, computing, is_end=True)
        begin = np.clip(begin, self.begins, self.ends)
        return begin, np.maximum(np.clip(end, self.begins, self.ends), begin)

    def _bound(
        self,
        frame: Frame,
        bound: FrameBound,
        fields: Sequence[Field],
        computing: Computing,
        *,
        is_end: bool,
    ) -> Numbers:
        if bound.kind == "unbounded":
            return self.ends if is_end else self.begins
        if frame.by_rows:
            return np.arange(len(self)) + bound.rows + is_end
        if bound.value is None:
            return self.peers_end if is_end else self.peers_begin
        values = computing.value(bound.value, self.rows, fields)
        return self._reached(values, is_end=is_end)

    def _reached(self, values: pa.Array, *, is_end: bool) -> Numbers:
        """Return where the order reaches a value of each row, of its partition.

        To a null only nulls belong.
        """
        (key,) = self.keys
        mine, kind = key.values.cast(values.type), key.key.scalar.data_type
        assert kind is not None
        both = pa.table({_VALUE: pa.concat_arrays([mine, values])})
        column = Column(_VALUE, kind, descending=key.key.descending)
        (codes,) = order_codes(both, [column])
        ranks = _dense(codes) + 1
        most = int(ranks.max(initial=0)) + 1
        null = in_numpy(pc.is_null(pa.concat_arrays([mine, values])), bool)
        ranks[null] = 0 if key.key.nulls_first else most
        part = self.begins * (most + 1)
        size = len(self)
        places = part + ranks[:size]
        reached: Numbers = places.searchsorted(part + ranks[size:], "right" if is_end else "left")
        return reached


def _chunked(array: pa.Array) -> pa.ChunkedArray:
    return pa.chunked_array([array])


def _runs(in_order: Sequence[Numbers]) -> tuple[Numbers, Numbers]:
    """Return for each row where the run of rows that are equal to it begins, and ends."""
    size = len(in_order[0])
    changes = np.zeros(size, bool)
    changes[:1] = True
    for numbers in in_order:
        changes[1:] |= numbers[1:] != numbers[:-1]
    starts = np.flatnonzero(changes)
    runs = np.cumsum(changes) - 1
    return starts[runs], np.append(starts, size)[runs + 1]


def _numbers_of(array: pa.Array, key: OrderKey) -> Iterator[Numbers]:
    """Yield numbers in the order of a key, the most significant first."""
    if array.null_count:
        nulls = in_numpy(array.is_null(), bool)
        yield (~nulls if key.nulls_first else nulls).astype(np.int64)
    kind = key.scalar.data_type
    if not isinstance(kind, NullType):
        assert kind is not None
        column = Column(_VALUE, kind, descending=key.descending)
        yield from order_codes(pa.table({_VALUE: array}), [column])


def _in_order(rows: pa.Table, field: Field) -> Numbers:
    """Return numbers in the order of a field, nulls first."""
    assert field.data_type is not None
    return in_order(rows.column(field.id).combine_chunks(), field.data_type)


def in_order(array: pa.Array | pa.ChunkedArray, kind: DataType) -> Numbers:
    """Return numbers in the order of values, nulls first; also of structs and arrays."""
    whole = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
    match kind:
        case NullType():
            return np.zeros(len(whole), np.int64)
        case StructType():
            parts = zip(whole.flatten(), kind, strict=True)
            codes = [in_order(part, field.dataType) for part, field in parts]
            there = in_numpy(whole.is_valid(), bool)
            return _dense(single([there.astype(np.int64), *(_dense(one) for one in codes)]))
        case ArrayType():
            return _codes_of_lists(whole, kind)
    return order_codes(pa.table({_VALUE: whole}), [Column(_VALUE, kind)])[0]


def _codes_of_lists(lists: pa.Array, kind: ArrayType) -> Numbers:
    """Return numbers in the order of lists: by their first items, and a beginning is less."""
    items = _dense(in_order(lists.values, kind.elementType)).astype(">u8").tobytes()
    ends = in_numpy(lists.offsets).tolist()
    texts = [items[8 * begin : 8 * end] for begin, end in pairwise(ends)]
    codes = pa.array(texts, pa.binary(), mask=in_numpy(lists.is_null(), bool))
    return order_codes(pa.table({_VALUE: codes}), [Column(_VALUE, kind)])[0]


def _dense(numbers: Numbers) -> Numbers:
    return np.unique(numbers, return_inverse=True)[1].astype(np.int64)


def _last_ties(window: WindowRelation, rows: pa.Table) -> Iterable[Numbers]:
    """Yield what orders the peers of a total window: their other fields, and the signs of zeros."""
    if not window.ties:
        return
    known = {field.id for field in window.ties}
    for field in window.input.fields:
        if field.id not in known:
            yield _in_order(rows, field)
    for field in window.input.fields:
        column = rows.column(field.id).combine_chunks()
        if pa.types.is_floating(column.type):
            yield signs_of_zeros(column)


def signs_of_zeros(column: pa.Array) -> Numbers:
    """Return numbers that order negative zeros before all other floats."""
    values = in_numpy(column.fill_null(1.0))
    negative: Marks = (values == 0) & np.signbit(values)
    return (~negative).astype(np.int64)
