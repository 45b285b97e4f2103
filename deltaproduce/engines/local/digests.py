"""Digests of rows on the driver: equal rows have equal digests, different rows almost never.

Equality is that of `arrays`: NaN equals NaN, 0.0 equals -0.0, and a map is the set of its entries.
The invariant: a digest depends on the values alone, never on their layout in Arrow: parts, chunks,
slices, and the bytes under a null.

Each column is told to several hashes, by Arrow's buffers: null marks, lengths and values apart. So
rows may come in parts, of which none has all of a column.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.local.arrays import Numbers, one_of_each
from deltaproduce.types.pandas_on_demand import in_numpy

_Tell: TypeAlias = Callable[[bytes], None]

_OFFSET: Final = np.dtype(np.int32)


def digest(parts: Iterable[pa.Table]) -> str:
    """Return the digest of rows in their order; their columns' names do not count.

    Args:
        parts: tables of the same columns, at least one.
    """
    column_hashes: list[_Hashes] = []
    for rows in parts:
        column_hashes = column_hashes or [_Hashes(column.type) for column in rows.columns]
        for hashes, column in zip(column_hashes, rows.columns, strict=True):
            for chunk in column.chunks:
                hashes.tell(chunk)
    return hashlib.sha256(b"".join(hashes.bytes for hashes in column_hashes)).hexdigest()


class _Hashes:
    """The hashes of a column, of which its type says how many there are, and what each is of."""

    def __init__(self, column_type: pa.DataType) -> None:
        self._hashes: list[Any] = []
        _tell(pa.array([], column_type), lambda _: self._hashes.append(hashlib.sha256()))

    def tell(self, values: pa.Array) -> None:
        """Tell the next values."""
        hashes = iter(self._hashes)
        _tell(values, lambda part: next(hashes).update(part))

    @property
    def bytes(self) -> bytes:
        """The hashes of all values."""
        return b"".join(one.digest() for one in self._hashes)


def _tell(array: pa.Array, tell: _Tell) -> None:
    """Tell values: as many parts for each array of a type."""
    nulls = in_numpy(array.is_null())
    tell(nulls.tobytes())
    there = array.take(pa.array(np.flatnonzero(~nulls)))
    if pa.types.is_map(array.type):
        there = _entries_in_order(there)
    if pa.types.is_struct(there.type):
        for field in there.flatten():
            _tell(field, tell)
    elif pa.types.is_list(there.type):
        tell(in_numpy(pc.list_value_length(there)).tobytes())
        _tell(there.flatten(), tell)
    else:
        _tell_atoms(there, tell)


def _tell_atoms(array: pa.Array, tell: _Tell) -> None:
    """Hash values without parts and without nulls."""
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        tell(in_numpy(pc.binary_length(array)).tobytes())
        tell(_text(array))
    elif pa.types.is_decimal(array.type):
        tell(_fixed(array, array.type.byte_width))
    elif pa.types.is_floating(array.type):
        tell(one_of_each(array).tobytes())
    else:
        tell(in_numpy(array).tobytes())


def _text(array: pa.Array) -> bytes:
    """Return all texts, one after the other."""
    _, offsets, data = array.buffers()
    if data is None or not len(array):
        return b""
    ends = np.frombuffer(offsets, _OFFSET)[array.offset : array.offset + len(array) + 1]
    return memoryview(data)[ends[0] : ends[-1]].tobytes()


def _fixed(array: pa.Array, width: int) -> bytes:
    """Return all values, which take ``width`` bytes each."""
    data = array.buffers()[1]
    first = array.offset * width
    return b"" if data is None else memoryview(data)[first : first + len(array) * width].tobytes()


def _entries_in_order(maps: pa.Array) -> pa.Array:
    """Return maps without nulls as lists of their entries, sorted by key.

    Any order will do, as long as it depends on the keys alone.
    """
    field = pa.struct([("key", maps.type.key_type), ("value", maps.type.item_type)])
    lists = maps.cast(pa.list_(field))
    entries, sizes = lists.flatten(), in_numpy(pc.list_value_length(lists))
    of_map = np.repeat(np.arange(len(lists)), sizes)
    order = np.lexsort((_places(entries.field("key")), of_map))
    offsets = pa.array(np.concatenate(([0], np.cumsum(sizes))), pa.int32())
    return pa.ListArray.from_arrays(offsets, entries.take(pa.array(order)), type=pa.list_(field))


def _places(array: pa.Array) -> Numbers:
    """Return each value's rank in an order of the values, equal for equal values; none is a map."""
    if pa.types.is_struct(array.type):
        numbers = _places_of_rows([_places(field) for field in array.flatten()])
    elif pa.types.is_list(array.type):
        numbers = _places_of_lists(array)
    else:
        if pa.types.is_floating(array.type):
            there = in_numpy(array.is_valid())
            array = pa.array(one_of_each(array.fill_null(0)), array.type, mask=~there)
        numbers = in_numpy(pc.rank(array, tiebreaker="dense"), np.int64)
    return np.where(in_numpy(array.is_null()), 0, numbers)


def _places_of_rows(columns: Sequence[Numbers]) -> Numbers:
    return np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)[1].ravel() + 1


def _places_of_lists(array: pa.Array) -> Numbers:
    sizes = in_numpy(pc.list_value_length(array).fill_null(0))
    items = np.split(_places(array.flatten()), np.cumsum(sizes)[:-1])
    values = [tuple(item.tolist()) for item in items]
    place = {value: number for number, value in enumerate(sorted(set(values)), 1)}
    return np.fromiter((place[value] for value in values), np.int64, len(values))
