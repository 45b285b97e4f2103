"""Sizes: how large PostgreSQL stores rows and keys, to name the ones that are too large.

Pure. A row must fit on a page; PostgreSQL compresses values and moves them out of line until it
does, but an address takes 18 bytes, too. An entry of an index is compressed only, and must fit on
the third part of a page. The invariant: no row of columns whose `least_size` is above `PAGE` can be
stored.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.postgres.holding import whole
from deltaproduce.postgres.rendering import text_of
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    TimestampNTZType,
    TimestampType,
)

PAGE: Final = 8160
"""The bytes of the largest row that fits on a page of PostgreSQL's usual size."""

_Sizes = npt.NDArray[np.int64]

_FIXED: Final[Mapping[type[DataType], int]] = MappingProxyType(
    {
        BooleanType: 1,
        ByteType: 2,
        ShortType: 2,
        IntegerType: 4,
        LongType: 8,
        FloatType: 4,
        DoubleType: 8,
        DateType: 4,
        TimestampType: 8,
        TimestampNTZType: 8,
    }
)
"""The bytes of types of which all values have the same size."""
_HEADER: Final = 23
_ALIGNMENT: Final = 8
_ADDRESS: Final = 18
_LARGEST_IN_LINE: Final = 24
"""A value of at most this many bytes is never moved out of line."""
_TRIED: Final = 100
"""The longest keys of a batch, which are compressed to find the largest."""


def least_size(columns: Sequence[Column]) -> int:
    """Return the least bytes of a row: nothing in columns that may be null, little in others."""
    none, one = np.zeros(1, np.int64), np.ones(1, np.int64)
    sizes = [none if c.nullable else one * _FIXED.get(type(c.data_type), 1) for c in columns]
    return int(_row_sizes(columns, sizes)[0])


def too_large(
    batches: Iterable[pa.Table], columns: Sequence[Column], key: Sequence[Column]
) -> pa.Table:
    """Return the keys of the rows that PostgreSQL has found too large, among those that it got.

    Returns:
        The keys of up to three rows that do not fit on a page; if all fit, the key that is largest
        when it is compressed.
    """
    names = [c.name for c in key]
    pages: list[pa.Table] = []
    longest: tuple[int, pa.Table] | None = None
    for rows in batches:
        sizes = _row_sizes(columns, [_value_sizes(whole(rows, c), c.data_type) for c in columns])
        pages.append(rows.select(names).filter(pa.array(sizes > PAGE)).slice(0, 3))
        for size, place in _compressed(rows, key):
            if longest is None or size > longest[0]:
                longest = (size, rows.select(names).slice(place, 1))
    too_large_rows = pa.concat_tables(pages).slice(0, 3)
    return too_large_rows if len(too_large_rows) or longest is None else longest[1]


def _row_sizes(columns: Sequence[Column], sizes: Sequence[_Sizes]) -> _Sizes:
    """Return the bytes of rows, from those of their values; 0 is null."""
    has_null = np.any([size == 0 for size in sizes], axis=0)
    ends = _aligned(_HEADER + has_null * -(-len(columns) // 8), _ALIGNMENT)
    for column, size in zip(columns, sizes, strict=True):
        start = _aligned(ends, _FIXED.get(type(column.data_type), 1))
        ends = np.where(size == 0, ends, start + size)
    return _aligned(ends, _ALIGNMENT)


def _value_sizes(array: pa.Array, data_type: DataType) -> _Sizes:
    """Return the bytes of values on a page, if none can be compressed; 0 for null."""
    there = array.is_valid().to_numpy(zero_copy_only=False)
    fixed = _FIXED.get(type(data_type))
    if fixed is not None:
        return np.where(there, fixed, 0)
    lengths = pc.binary_length(text_of(array, data_type)).fill_null(0).to_numpy() + 1
    return np.where(there, np.where(lengths > _LARGEST_IN_LINE, _ADDRESS, lengths), 0)


def _compressed(rows: pa.Table, key: Sequence[Column]) -> Iterator[tuple[int, int]]:
    """Yield the bytes of the key of some rows when it is compressed, the longest; and the row."""
    texts = [text_of(whole(rows, c), c.data_type).cast(pa.binary()) for c in key]
    if not texts:
        return
    joined = pc.binary_join_element_wise(*texts, b"", null_handling="replace", null_replacement=b"")
    lengths = pc.binary_length(joined).to_numpy()
    for place in np.argsort(-lengths)[:_TRIED].tolist():
        yield len(zlib.compress(joined[place].as_py())), place


def _aligned(ends: _Sizes, to: int) -> _Sizes:
    return np.asarray(-(-ends // to) * to, np.int64)
