"""Rows as Arrow columns on the driver: which of them are equal, and in what order they stand.

Equality and order are Spark's: null equals null, NaN equals NaN and 0.0 equals -0.0, a map is the
set of its entries, text and binary are ordered by bytes, nulls come first where a column ascends
and last where it descends (S13). The invariant: what these functions say of two rows is what Spark
says of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltaproduce.types.atoms import arrow_schema
from deltaproduce.types.columns import Column

Numbers = NDArray[np.int64]
Marks = NDArray[np.bool_]

_NULL: Final = -1


def empty(columns: Sequence[Column]) -> pa.Table:
    """No rows in these columns."""
    return arrow_schema(columns).empty_table()


def factorize(arrays: Iterable[pa.ChunkedArray]) -> Numbers:
    """For each row of some columns a number from 0, the same for equal rows only."""
    found: Numbers | None = None
    for array in arrays:
        column = _codes(array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array)
        found = _dense(column if found is None else found * (column.max(initial=0) + 2) + column)
    assert found is not None
    return found


def distinct(table: pa.Table) -> pa.Table:
    """Each row once."""
    _, first = np.unique(factorize(table.columns), return_index=True)
    return table.take(pa.array(first))


def isin_rows(rows: pa.Table, keys: pa.Table) -> Marks:
    """Which rows are equal to one of ``keys``, column by column in their order."""
    marks = _may_be_among(rows, keys)
    if not marks.any():
        return marks
    some = rows.filter(pa.array(marks))
    others = keys.filter(pa.array(_may_be_among(keys, some)))
    together = (
        pa.chunked_array([*a.chunks, *b.chunks], type=a.type)
        for a, b in zip(some.columns, others.columns, strict=True)
    )
    numbers = factorize(together)
    marks[marks] = np.isin(numbers[: len(some)], numbers[len(some) :])
    return marks


def same_rows(some: pa.Table, others: pa.Table) -> bool:
    """Whether two tables of the same columns have the same rows, each as often, in any order."""
    numbers = factorize(pa.concat_tables([some, others]).columns)
    one, other = numbers[: len(some)], numbers[len(some) :]
    return np.array_equal(np.sort(one), np.sort(other))


def dense_ranks(table: pa.Table, columns: Iterable[Column]) -> list[Numbers]:
    """For each column the place of each row's value in the column's order; equal values share it.

    Sorting by them, the first the most significant, sorts rows as the columns say.
    """
    return [_ranks(table.column(c.name), c) for c in columns]


def in_order(table: pa.Table, columns: Iterable[Column]) -> pa.Table:
    """The rows sorted by some columns, in their directions."""
    return table.take(pa.array(np.lexsort(dense_ranks(table, columns)[::-1])))


def _may_be_among(rows: pa.Table, keys: pa.Table) -> Marks:
    """Which rows have in each column a value that one of ``keys`` has there, where Arrow can tell.

    It takes a hundredth of the time of `factorize`; often one side is small and the other large.
    """
    marks = np.ones(len(rows), bool)
    for column, values in zip(rows.columns, keys.columns, strict=True):
        if not (pa.types.is_nested(column.type) or pa.types.is_floating(column.type)):
            marks &= _is_in(column, values)
    return marks


def _is_in(column: pa.ChunkedArray, values: pa.ChunkedArray) -> Marks:
    """Which rows of a column have one of the values; null is among them if one is null.

    Whole numbers and dates in order, as those of a table's first key column are, are searched for
    the values: to look each row up among them takes several times as long.
    """
    plain = pa.types.is_integer(column.type) or pa.types.is_date(column.type)
    rows = column.to_numpy() if plain and not column.null_count else None
    if rows is None or (rows[1:] < rows[:-1]).any():
        return np.asarray(pc.is_in(column, value_set=values), bool)
    sought = values.drop_null().to_numpy()
    first, last = (rows.searchsorted(sought, side) for side in ("left", "right"))
    there = first < last
    steps = np.zeros(len(rows) + 1, np.int8)
    steps[first[there]] = 1
    steps[last[there]] -= 1  # to 0 where the rows of another value begin
    return steps[:-1].cumsum(dtype=np.int8).astype(bool)


def _ranks(array: pa.ChunkedArray, column: Column) -> Numbers:
    order = ("descending", "at_end") if column.descending else ("ascending", "at_start")
    return np.asarray(pc.rank(array, sort_keys=[("", *order)], tiebreaker="dense"), np.int64)


def _dense(numbers: Numbers) -> Numbers:
    return np.unique(numbers, return_inverse=True)[1].astype(np.int64)


def _codes(array: pa.Array) -> Numbers:
    """Numbers from 0, the same for equal values only; -1 for null."""
    if pa.types.is_struct(array.type):
        found = factorize(array.flatten())
    elif pa.types.is_map(array.type):
        found = _codes_of_maps(array)
    elif pa.types.is_list(array.type):
        found = _codes_of_lists(array.offsets.to_numpy(), _codes(array.values))
    elif pa.types.is_floating(array.type):
        found = _codes_of_floats(array)
    else:
        return np.asarray(pc.fill_null(array.dictionary_encode().indices, _NULL), np.int64)
    found[np.asarray(array.is_null())] = _NULL
    return found


def _codes_of_floats(array: pa.Array) -> Numbers:
    floats = array.to_numpy(zero_copy_only=False) + 0.0  # makes -0.0 0.0
    floats[np.isnan(floats)] = np.nan  # of the many that there are
    return _dense(floats.view(np.int32 if floats.itemsize == 4 else np.int64))


def _codes_of_lists(offsets: NDArray[np.int32], items: Numbers) -> Numbers:
    known: dict[bytes, int] = {}
    parts = (items[a:b].tobytes() for a, b in pairwise(offsets))
    return np.fromiter((known.setdefault(part, len(known)) for part in parts), np.int64)


def _codes_of_maps(array: pa.MapArray) -> Numbers:
    offsets = array.offsets.to_numpy()
    rows = np.repeat(np.arange(len(array)), np.diff(offsets))
    entries = array.values.slice(offsets[0], offsets[-1] - offsets[0])
    keys, items = (_codes(field) for field in entries.flatten())
    order = np.lexsort((keys, rows))
    pairs = np.stack([keys, items], axis=1)[order]
    return _codes_of_lists(offsets - offsets[0], pairs)
