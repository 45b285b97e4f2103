"""Hashes of rows on the driver: a 64-bit number for each row, from its values alone.

Equal rows have equal hashes, different rows almost never; equality is that of `arrays`. The
invariant: a row's hash depends on no other row, so sums of hashes tell whether two multisets of
rows are the same, wherever the rows are and in whatever order; and it is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltaproduce.engines.local.arrays import Numbers, one_of_each
from deltaproduce.types.pandas_on_demand import in_numpy

Hashes: TypeAlias = NDArray[np.uint64]

_ROWS: Final = 1 << 16
"""The rows that are hashed at a time: each byte of text needs about eight of memory."""
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_NULL: Final = np.uint64(0x5851F42D4C957F2D)
_PLACES: Final = np.uint64(1 << 32)


def row_hashes(rows: pa.Table) -> Hashes:
    """Return the hash of each row; column names do not count, column order does."""
    parts = [_hashes(part) for part in _parts(rows)]
    return np.concatenate(parts) if parts else np.zeros(0, np.uint64)


def summed(hashes: Hashes, groups: Numbers, count: int) -> Hashes:
    """Return the sums of hashes by group, modulo 2**64.

    Args:
        groups: the group of each hash, from 0.
        count: the number of groups.
    """
    sums = np.zeros(count, np.uint64)
    np.add.at(sums, groups, hashes)
    return sums


def mixed(numbers: Hashes) -> Hashes:
    """Return each number mapped to a random-looking one (splitmix64, which is one to one)."""
    mixed_bits = numbers + _STEP
    mixed_bits = (mixed_bits ^ (mixed_bits >> np.uint64(30))) * _FIRST
    mixed_bits = (mixed_bits ^ (mixed_bits >> np.uint64(27))) * _SECOND
    return mixed_bits ^ (mixed_bits >> np.uint64(31))


def _parts(rows: pa.Table) -> Iterator[pa.Table]:
    for first in range(0, len(rows), _ROWS):
        yield rows.slice(first, _ROWS)


def _hashes(rows: pa.Table) -> Hashes:
    return _joined([_of(column.combine_chunks()) for column in rows.columns], len(rows))


def _joined(columns: Sequence[Hashes], size: int) -> Hashes:
    """Return the hashes of rows from those of their columns, each weighted by its position."""
    hashes = np.zeros(size, np.uint64)
    for place, column in enumerate(columns, 1):
        hashes += mixed(column + np.uint64(place * int(_STEP) % (1 << 64)))
    return mixed(hashes)


def _of(array: pa.Array) -> Hashes:
    """Return the hash of each value."""
    marks = in_numpy(array.is_valid())
    hashes = np.full(len(array), _NULL, np.uint64)
    there = array if marks.all() else array.filter(pa.array(marks))
    if len(there):
        hashes[marks] = _of_values(there)
    return hashes


def _of_values(array: pa.Array) -> Hashes:
    """Return the hashes of values without nulls."""
    kind = array.type
    if pa.types.is_struct(kind):
        return _joined([_of(field) for field in array.flatten()], len(array))
    if pa.types.is_map(kind):
        first, last = array.offsets[0].as_py(), array.offsets[len(array)].as_py()
        entries = array.values.slice(first, last - first)
        return _of_items(_of(entries), array.offsets, ordered=False)
    if pa.types.is_list(kind):
        return _of_items(_of(array.flatten()), array.offsets, ordered=True)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _of_bytes(array)
    return mixed(_bits(array))


def _of_items(items: Hashes, offsets: pa.Array, *, ordered: bool) -> Hashes:
    """Return the hashes of lists, or of sets, from those of their items."""
    ends = in_numpy(offsets, np.int64)
    ends = ends - ends[0]
    if ordered:
        sizes = np.diff(ends)
        places = np.arange(len(items)) - np.repeat(ends[:-1], sizes)
        items = mixed(items + places.astype(np.uint64) * _STEP)
    return _sums(items, ends)


def _of_bytes(array: pa.Array) -> Hashes:
    """Return the hashes of texts: each byte counts with its position."""
    _, buffer, data = array.buffers()
    offsets = np.frombuffer(buffer, np.int32)[array.offset : array.offset + len(array) + 1]
    ends = offsets.astype(np.int64)
    size = int(ends[-1] - ends[0])
    content = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]] if size else np.zeros(0, np.uint8)
    ends -= ends[0]
    places = np.arange(size) - np.repeat(ends[:-1], np.diff(ends))
    return _sums(mixed(content + (places.astype(np.uint64) + np.uint64(1)) * _PLACES), ends)


def _sums(items: Hashes, ends: Numbers) -> Hashes:
    """Return the hash of each run of items, from their sum and number."""
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(items, dtype=np.uint64)])
    return mixed(sums[ends[1:]] - sums[ends[:-1]] + np.diff(ends).astype(np.uint64) * _STEP)


def _bits(array: pa.Array) -> Hashes:
    """Return values without parts as numbers; equal only for equal values, or nearly so."""
    kind = array.type
    if pa.types.is_floating(kind):
        return one_of_each(array).astype(np.float64).view(np.uint64)
    if pa.types.is_decimal(kind):
        words = kind.byte_width // 8
        data = np.frombuffer(array.buffers()[1], np.uint64)
        data = data[words * array.offset : words * (array.offset + len(array))]
        hashes = np.zeros(len(array), np.uint64)
        for word in range(words):
            hashes = mixed(hashes) + data[word::words]
        return hashes
    if pa.types.is_date32(kind):
        return in_numpy(array.view(pa.int32())).astype(np.int64).view(np.uint64)
    return in_numpy(pc.cast(array, pa.int64()), np.int64).view(np.uint64)
