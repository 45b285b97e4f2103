"""Rows as Arrow columns on the driver: their equality and their order.

Equality and order are Spark's: null equals null, NaN equals NaN and 0.0 equals -0.0, a map is the
set of its entries, text and binary are ordered by bytes, nulls come first in an ascending column
and last in a descending one (S13). The invariant: these functions compare two rows as Spark does.

A column is encoded as whole numbers, and several columns are packed into one where their ranges
allow it, so that rows are sorted and looked up by single numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltaproduce.types.atoms import arrow_schema
from deltaproduce.types.columns import Column
from deltaproduce.types.pandas_on_demand import in_numpy

Numbers = NDArray[np.int64]
Marks = NDArray[np.bool_]

_NULL: Final = -1
_BEYOND: Final = 1 << 63
_MARKS_A_ROW: Final = 8
_COUNTED_BITS: Final = 16
_RADIX_BITS: Final = 3 * _COUNTED_BITS
"""Numbers of more bits take longer digit by digit than compared."""
_SEARCHED_SHARE: Final = 64
"""To search a value takes as long as to mark about this many rows."""
_SAME_ROWS: Final = 1 << 16
"""The rows of a chunk that others share."""
_BLOCK_ROWS: Final = 1 << 12
"""Blocks of fewer adjacent rows are copied row by row."""
_PLAIN_DIGITS: Final = 18
"""A decimal of at most this many digits is a 64-bit whole number."""


def empty(columns: Sequence[Column]) -> pa.Table:
    """Return a table of these columns without rows."""
    return _empty((*columns,))


@lru_cache(maxsize=1024)
def _empty(columns: tuple[Column, ...]) -> pa.Table:
    return without_rows(arrow_schema(columns))


def without_rows(schema: pa.Schema) -> pa.Table:
    """Return a table of a schema without rows; `empty_table` takes four times as long."""
    return pa.Table.from_arrays([_no_values(kind) for kind in schema.types], schema=schema)


@lru_cache(maxsize=1024)
def _no_values(kind: pa.DataType) -> pa.Array:
    return pa.nulls(0, kind)


def factorize(arrays: Iterable[pa.ChunkedArray]) -> Numbers:
    """Return for each row of the columns a number from 0, equal only for equal rows."""
    return numbered([codes(array) for array in arrays])


def numbered(columns: Sequence[Numbers]) -> Numbers:
    """Like `factorize`, for columns of numbers."""
    return _dense(single(columns))


def single(columns: Sequence[Numbers]) -> Numbers:
    """Return one column of numbers with the equality and order of rows of several columns."""
    packed = _packed(columns)
    while len(packed) > 1:
        packed = _packed([_dense(numbers) for numbers in packed])
    return packed[0]


def grouped(in_order: Sequence[Numbers]) -> Numbers:
    """Return the number of each row's group of equal rows, from 0, for sorted rows."""
    return np.cumsum(_begins(in_order)) - 1


def key_ends(keys: pa.Table) -> Numbers:
    """Return the rows before which a key ends; equal keys are adjacent."""
    begins = _begins([_row_codes(keys.columns)])
    return np.append(np.flatnonzero(begins)[1:], len(keys))


def whole_keys(tables: Iterable[pa.Table], keys: Sequence[str]) -> Iterator[pa.Table]:
    """Yield rows with adjacent equal keys, in tables that end with a key; none is empty."""
    rest: list[pa.Table] = []
    for table in tables:
        if not len(table):
            continue
        ends = key_ends(table.select(list(keys)))
        if rest and len(key_ends(_border(rest[-1], table).select(list(keys)))) > 1:
            yield pa.concat_tables(rest)
            rest = []
        if len(ends) > 1:
            yield pa.concat_tables([*rest, table.slice(0, ends[-2])])
            rest = []
        rest.append(table.slice(ends[-2] if len(ends) > 1 else 0))
    if rest:
        yield pa.concat_tables(rest)


def _border(one: pa.Table, other: pa.Table) -> pa.Table:
    return pa.concat_tables([one.slice(len(one) - 1), other.slice(0, 1)])


def places(in_order: Sequence[Numbers]) -> Numbers:
    """Return each row's position among the rows equal to it, from 0, for sorted rows."""
    index = np.arange(len(in_order[0]))
    return index - np.maximum.accumulate(np.where(_begins(in_order), index, 0))


def one_of_each(array: pa.Array) -> NDArray[np.floating]:
    """Return floats without nulls, with a single NaN and a single zero."""
    floats: NDArray[np.floating] = in_numpy(array) + 0.0  # turns -0.0 into 0.0
    floats[np.isnan(floats)] = np.nan
    return floats


def codes(array: pa.ChunkedArray) -> Numbers:
    """Return for each value of a column a number, equal only for equal values."""
    return _codes(_whole(array))


def bits(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column whose values are equal only if they are the same, bit by bit."""
    if not pa.types.is_floating(column.type):
        return column
    whole = _whole(column)
    whole = whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)
    floats = in_numpy(whole.fill_null(0.0))
    numbers = floats.view(np.int64 if floats.itemsize == 8 else np.int32)
    return pa.chunked_array([pa.array(numbers, mask=in_numpy(whole.is_null(), bool))])


def distinct(table: pa.Table) -> pa.Table:
    """Return each distinct row once: the first of equal rows."""
    firsts = firsts_of(_dense(_row_codes(table.columns)))
    if len(firsts) == len(table):
        return table
    is_first = np.zeros(len(table), bool)
    is_first[firsts] = True
    return table.filter(pa.array(is_first))


def firsts_of(groups: Numbers) -> Numbers:
    """Return the first row of each group; groups are numbered from 0 without gaps."""
    firsts = np.empty(int(groups.max(initial=-1)) + 1, np.int64)
    firsts[groups[::-1]] = np.arange(len(groups))[::-1]
    return firsts


def isin_rows(rows: pa.Table, keys: pa.Table) -> Marks:
    """Mark the rows that equal one of ``keys``, column by column in their order."""
    marks = _may_be_among(rows, keys)
    if not marks.any() or (rows.num_columns == 1 and _has_equality(rows.columns[0])):
        return marks
    marked = rows.filter(pa.array(marks))
    others = keys.filter(pa.array(_may_be_among(keys, marked)))
    together = (
        pa.chunked_array([*a.chunks, *b.chunks], type=a.type)
        for a, b in zip(marked.columns, others.columns, strict=True)
    )
    numbers = pa.array(_row_codes(together))
    there = pc.is_in(numbers[: len(marked)], value_set=numbers[len(marked) :])
    marks[marks] = in_numpy(there)
    return marks


def matched(rows: pa.Table, keys: pa.Table) -> Numbers:
    """Return for each row the position of the key that equals it; -1 if none does.

    Args:
        keys: distinct keys, in columns of the same types and order.
    """
    if not rows.num_columns:
        return np.zeros(len(rows), np.int64) if len(keys) else np.full(len(rows), -1)
    if _are_alike(rows, keys):
        return np.arange(len(rows))
    together = (
        pa.chunked_array([*a.chunks, *b.chunks], type=a.type)
        for a, b in zip(rows.columns, keys.columns, strict=True)
    )
    numbers = _row_codes(together)
    numbers -= numbers.min(initial=0)
    if numbers.max(initial=0) >= _MARKS_A_ROW * len(numbers):
        numbers = _dense(numbers)
    positions = np.full(int(numbers.max(initial=0)) + 1, -1)
    positions[numbers[len(rows) :]] = np.arange(len(keys))
    return positions[numbers[: len(rows)]]


def _are_alike(rows: pa.Table, others: pa.Table) -> bool:
    """Return whether tables have the same rows in the same order; a NaN equals none here."""
    pairs = zip(rows.columns, others.columns, strict=True)
    return len(rows) == len(others) and all(one.equals(other) for one, other in pairs)


def same_rows(rows: pa.Table, others: pa.Table) -> bool:
    """Return whether two tables have the same rows, equally often, in any order."""
    numbers = _row_codes(pa.concat_tables([rows, others]).columns)
    one, other = numbers[: len(rows)], numbers[len(rows) :]
    return np.array_equal(np.sort(one), np.sort(other))


def order_codes(table: pa.Table, columns: Iterable[Column]) -> list[Numbers]:
    """Return for each column numbers in the column's order, equal only for equal values.

    Sorting by them, the first the most significant, sorts rows as the columns say.
    """
    return [_order_codes(_whole(table.column(c.name)), c) for c in columns]


def sorting(numbers: Sequence[Numbers]) -> Numbers:
    """Return the positions of rows sorted by the numbers, most significant first; stable.

    The least significant numbers do not count if rows are in their order already: a stable sort by
    the others keeps it.
    """
    needed = len(numbers)
    while needed > 1 and _is_sorted(numbers[needed - 1]):
        needed -= 1
    packed = _packed(numbers[:needed])
    if len(packed) != 1:
        return np.lexsort(packed[::-1])
    (one,) = packed
    rows = len(one)
    if _is_sorted(one):
        return np.arange(rows)
    most = int(one.max())
    if most >= 1 << _COUNTED_BITS and _is_narrow(one):
        at = np.full(most + 1, rows)
        at[one] = np.arange(rows)
        places = at[at < rows]
        if len(places) == rows:  # all are distinct
            return places
    if most < 1 << _RADIX_BITS:
        return _radix_sorting(one, most)
    return np.argsort(one, kind="stable")


def _radix_sorting(numbers: Numbers, most: int) -> Numbers:
    """Return the positions of sorted numbers of at least 0, as `sorting`.

    Sorts by the least significant digits first; NumPy sorts numbers of 16 bits by counting.
    """
    order = numbers.astype(np.uint16).argsort(kind="stable")
    for shift in range(_COUNTED_BITS, most.bit_length(), _COUNTED_BITS):
        digits = (numbers >> shift).astype(np.uint16)[order]
        order = order[digits.argsort(kind="stable")]
    return order


def sorted_by(table: pa.Table, numbers: Sequence[Numbers]) -> pa.Table:
    """Return the rows sorted by the numbers; see `sorting`."""
    return taken(table, sorting(numbers))


def in_order(table: pa.Table, columns: Iterable[Column]) -> pa.Table:
    """Return the rows sorted by the columns, in their directions."""
    return sorted_by(table, order_codes(table, columns))


def constant(value: pa.Scalar, rows: int) -> pa.ChunkedArray:
    """Return a column with the same value in all rows; its chunks share the memory of one."""
    chunk = pa.repeat(value, min(rows, _SAME_ROWS))
    starts = range(0, rows, _SAME_ROWS)
    return pa.chunked_array([chunk.slice(0, rows - start) for start in starts], value.type)


def taken(table: pa.Table, rows: Numbers) -> pa.Table:
    """Return rows by position; a part of a table is copied, so that it does not hold the whole."""
    return reordered(table, rows)[0] if len(rows) == len(table) else _copied(table, rows)


def reordered(table: pa.Table, rows: Numbers) -> tuple[pa.Table, bool]:
    """Return as many rows by position, and whether they stay where they are in memory.

    They do if blocks of adjacent rows are moved as a whole. Rows of files, and of a query that runs
    in parallel, are often in order, or in blocks that are.
    """
    in_blocks = _moved(table, rows)
    return (_copied(table, rows), False) if in_blocks is None else (in_blocks, True)


def _copied(table: pa.Table, rows: Numbers) -> pa.Table:
    """Return rows by position. Arrow takes from one chunk many times faster than from many."""
    whole = table.combine_chunks() if len(table) else table
    return whole.take(pa.array(rows))


def _moved(table: pa.Table, rows: Numbers) -> pa.Table | None:
    """Return rows by position without copying any; None if their blocks are small ones."""
    begins = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
    if len(begins) > 1 + len(rows) // _BLOCK_ROWS:
        return None
    if len(begins) == 1 and len(rows) == len(table):
        return table
    sizes = np.diff(begins, append=len(rows)).tolist()
    blocks = zip(rows[begins].tolist(), sizes, strict=True)
    return pa.concat_tables([table.slice(0, 0), *(table.slice(*block) for block in blocks)])


def _begins(in_order: Sequence[Numbers]) -> Marks:
    """Mark the first row of each run of equal rows."""
    marks = np.zeros(len(in_order[0]), bool)
    marks[:1] = True
    for numbers in in_order:
        marks[1:] |= numbers[1:] != numbers[:-1]
    return marks


def _is_sorted(numbers: Numbers) -> bool:
    return bool((numbers[1:] >= numbers[:-1]).all())


def _whole(array: pa.ChunkedArray | pa.Array) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _has_equality(column: pa.ChunkedArray) -> bool:
    """Return whether Arrow can tell that two values of a column are equal."""
    return not (pa.types.is_nested(column.type) or pa.types.is_floating(column.type))


def _may_be_among(rows: pa.Table, keys: pa.Table) -> Marks:
    """Mark the rows that share each column's value with some key, where Arrow can tell.

    Often one side is small and the other large, and few rows remain.
    """
    marks = np.ones(len(rows), bool)
    for column, values in zip(rows.columns, keys.columns, strict=True):
        if _has_equality(column):
            marks &= _is_in(column, values)
    return marks


def _is_in(column: pa.ChunkedArray, values: pa.ChunkedArray) -> Marks:
    """Mark the rows of a column that have one of the values; a null matches a null.

    If whole numbers or dates are sorted, as those of a table's first key column are, and the values
    are few, a binary search finds the values. Otherwise, if values are dense, as consecutive
    numbers are, there is a mark for each: to look each row up by its hash takes several times as
    long.
    """
    plain = pa.types.is_integer(column.type) or pa.types.is_date(column.type)
    rows = in_numpy(column) if plain and not column.null_count else None
    if rows is None or not len(rows):
        return in_numpy(pc.is_in(column, value_set=values), bool)
    sought, is_sorted = in_numpy(values.drop_null()), _is_sorted(rows)
    if is_sorted:  # a part of a table has few of many values
        sought = sought[(sought >= rows[0]) & (sought <= rows[-1])]
    if not is_sorted or len(sought) * _SEARCHED_SHARE > len(rows):
        marked = _marked(rows.astype(np.int64, copy=False), sought.astype(np.int64, copy=False))
        if marked is not None:
            return marked
    if not is_sorted:
        return in_numpy(pc.is_in(column, value_set=values), bool)
    sought = np.unique(sought)  # sorted, so each search starts near the last one, in the cache
    first, last = (rows.searchsorted(sought, side) for side in ("left", "right"))
    marks, counts = np.zeros(len(rows), bool), last - first
    marks[np.repeat(last - counts.cumsum(), counts) + np.arange(counts.sum())] = True
    return marks


def _is_narrow(numbers: Numbers) -> bool:
    """Return whether the range of the numbers is narrow enough for a mark per number."""
    least, greatest = int(numbers.min(initial=0)), int(numbers.max(initial=0))
    return greatest - least < _MARKS_A_ROW * len(numbers)


def _marked(rows: Numbers, sought: Numbers) -> Marks | None:
    """Mark the rows among some numbers, by a mark per number of their range; None if it is wide.

    There is no mark at either end: numbers beyond the range have those, also where they overflow.
    """
    if not len(sought):
        return np.zeros(len(rows), bool)
    least, greatest = int(sought.min()), int(sought.max())
    if greatest - least >= _MARKS_A_ROW * (len(rows) + len(sought)):
        return None
    marks = np.zeros(greatest - least + 3, bool)
    marks[sought - least + 1] = True
    places = rows - least
    places += 1
    return marks.take(places, mode="clip")


def _order_codes(array: pa.Array, column: Column) -> Numbers:
    codes = _in_order_of_floats(array) if pa.types.is_floating(array.type) else plain_numbers(array)
    if codes is not None:
        return ~codes if column.descending else codes
    places = None
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        encoded = array.dictionary_encode()
        array, places = encoded.dictionary, encoded.indices
    order = ("descending", "at_end") if column.descending else ("ascending", "at_start")
    if places is not None and places.null_count:
        array = pa.concat_arrays([array, pa.nulls(1, array.type)])
        places = places.fill_null(len(array) - 1)
    ranks = in_numpy(pc.rank(array, sort_keys=[("", *order)], tiebreaker="dense"), np.int64)
    return ranks if places is None else ranks[in_numpy(places)]


def _in_order_of_floats(array: pa.Array) -> Numbers:
    """Return numbers in the order of floats: null first, then up to NaN."""
    floats = one_of_each(array.cast(pa.float64()).fill_null(0.0))
    bits = floats.view(np.int64)
    codes = np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)  # flips all but the sign bit
    codes[in_numpy(array.is_null())] = np.iinfo(np.int64).min
    return codes


def _row_codes(arrays: Iterable[pa.ChunkedArray]) -> Numbers:
    """Return for each row of the columns a number, equal only for equal rows."""
    return single([codes(array) for array in arrays])


def _packed(columns: Sequence[Numbers]) -> list[Numbers]:
    """Return fewer columns of non-negative numbers, with the same equality and order of rows."""
    packed: list[Numbers] = []
    room = 0
    for column in columns:
        least, greatest = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        size = greatest - least + 1
        if packed and room * size < _BEYOND:
            packed[-1] = packed[-1] * size + (column - least)
            room *= size
        else:
            packed.append(column - least if size < _BEYOND else _ranks(column))
            room = min(size, _BEYOND - 1)
    return packed


def _dense(numbers: Numbers) -> Numbers:
    """Return numbers from 0 in the order of the given ones."""
    if _is_narrow(numbers):
        least = int(numbers.min(initial=0))
        marks = np.zeros(int(numbers.max(initial=-1)) - least + 1, bool)
        marks[numbers - least] = True
        return (marks.cumsum() - 1)[numbers - least]
    order = sorting([numbers])
    dense = np.empty(len(numbers), np.int64)
    dense[order] = grouped([numbers[order]])
    return dense


def _ranks(numbers: Numbers) -> Numbers:
    return np.unique(numbers, return_inverse=True)[1].astype(np.int64)


def plain_numbers(array: pa.Array) -> Numbers | None:
    """Return values that are whole numbers, in their order; None for other types and with nulls."""
    if array.null_count:
        return None
    kind = array.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_timestamp(kind):
        return in_numpy(array.cast(pa.int64()), np.int64)
    if pa.types.is_date32(kind):
        return in_numpy(array.view(pa.int32()), np.int64)
    return unscaled(array) if pa.types.is_decimal128(kind) else None


def ascending_numbers(column: pa.ChunkedArray) -> Numbers | None:
    """Return the `plain_numbers` of a column if rows are in ascending order of it; None if not."""
    numbers = plain_numbers(_whole(column))
    return numbers if numbers is not None and _is_sorted(numbers) else None


def places_within(begins: Numbers, counts: Numbers) -> Numbers:
    """Return the positions in some ranges, one range after the other.

    Args:
        begins: the first position of each range.
        counts: how many positions it has.
    """
    places: Numbers = np.repeat(begins - counts.cumsum() + counts, counts)
    places += np.arange(len(places))
    return places


def unscaled(array: pa.Decimal128Array) -> Numbers | None:
    """Return decimals without nulls and without their points: 1.25 is 125.

    None if one exceeds 64 bits.
    """
    halves = np.frombuffer(array.buffers()[1] or b"", "<i8").reshape(-1, 2)
    low, high = halves[array.offset : array.offset + len(array)].T
    fits = array.type.precision <= _PLAIN_DIGITS or np.array_equal(high, low >> 63)
    return low if fits else None


def whole_numbers(values: pa.Array) -> Numbers | None:
    """Return values without their points, 0 for null: 1.25 is 125. None if one exceeds 64 bits.

    Args:
        values: integers, or decimals of 128 bits.
    """
    if pa.types.is_integer(values.type):
        numbers: Numbers = in_numpy(values.fill_null(0).cast(pa.int64()))
        return numbers
    return unscaled(values.fill_null(Decimal(0)) if values.null_count else values)


def greatest_size(numbers: Numbers) -> int:
    """Return the greatest absolute value."""
    return max(-int(numbers.min(initial=0)), int(numbers.max(initial=0)))


def decimals(numbers: Numbers, kind: pa.Decimal128Type) -> pa.Decimal128Array:
    """Return decimals that are these numbers without their points: the reverse of `unscaled`."""
    halves = np.stack([numbers, numbers >> 63], axis=1)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(halves)])


def _codes(array: pa.Array) -> Numbers:
    """Return for each value a number, equal only for equal values; a nested null is -1."""
    codes = plain_numbers(array)
    return _looked_up(array) if codes is None else codes


def _looked_up(array: pa.Array) -> Numbers:
    """Return numbers from 0, equal only for equal values; -1 for null."""
    if pa.types.is_struct(array.type):
        codes = factorize(array.flatten())
    elif pa.types.is_map(array.type):
        codes = _codes_of_maps(array)
    elif pa.types.is_list(array.type):
        codes = _codes_of_lists(in_numpy(array.offsets), _codes(array.values))
    elif pa.types.is_floating(array.type):
        codes = _codes_of_floats(array)
    else:
        return in_numpy(pc.fill_null(array.dictionary_encode().indices, _NULL), np.int64)
    codes[in_numpy(array.is_null())] = _NULL
    return codes


def _codes_of_floats(array: pa.Array) -> Numbers:
    floats = one_of_each(array)
    return _dense(floats.view(np.int32 if floats.itemsize == 4 else np.int64).astype(np.int64))


def _codes_of_lists(offsets: NDArray[np.int32], items: Numbers) -> Numbers:
    known: dict[bytes, int] = {}
    every = items.tobytes()
    width = len(every) // max(len(items), 1)
    parts = (every[a:b] for a, b in pairwise((offsets.astype(np.int64) * width).tolist()))
    return np.fromiter((known.setdefault(part, len(known)) for part in parts), np.int64)


def _codes_of_maps(array: pa.MapArray) -> Numbers:
    offsets = in_numpy(array.offsets)
    rows = np.repeat(np.arange(len(array)), np.diff(offsets))
    entries = array.values.slice(offsets[0], offsets[-1] - offsets[0])
    keys, items = (_codes(field) for field in entries.flatten())
    order = np.lexsort((keys, rows))
    pairs = np.stack([keys, items], axis=1)[order]
    return _codes_of_lists(offsets - offsets[0], pairs)
