"""Parts of tables that are too large to process at once: slices, or ranges of a key.

Rows are split into ranges as in a distributed sort: keys sampled from all tables bound the ranges,
so that each has about equally many rows (DeWitt, Naughton, Schneider: "Parallel sorting on a
shared-nothing architecture using probabilistic splitting", 1991); a range of large rows is split
again. If there is more than one part, results are in a file (`spilling`). The invariant: all rows
of a key are in one range, in their order, and ranges come in key order.

Kernels of Arrow and NumPy release Python's lock, so threads process parts in parallel. The threads
share the memory limit of one part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import (
    Numbers,
    order_codes,
    reordered,
    single,
    sorting,
    taken,
)
from deltaproduce.engines.local.large.spilling import Spill
from deltaproduce.engines.local.large.threads import side_by_side
from deltaproduce.model.limits import Limits
from deltaproduce.model.limits.machine import cores
from deltaproduce.types.columns import Column

THREAD_ROWS: Final = 1 << 18
"""Fewer rows are not worth another thread; parts have at most twice as many."""
_SAMPLED: Final = 100
"""The number of keys sampled for each range."""
_Part = TypeVar("_Part")
_Result = TypeVar("_Result")


def are_many(rows: int) -> bool:
    """Return whether this many rows are processed in parallel even if they fit in memory."""
    return rows >= 2 * THREAD_ROWS


def rows_of_part(rows: int, total_bytes: int, limits: Limits, threads: int) -> int:
    """Return the rows of each of equal parts, at least one, and not too many for caches.

    Args:
        threads: the number of parts that have to fit in memory together.
    """
    equal = -(-rows // _parts(rows, total_bytes, limits, threads))
    return max(1, min(equal, 2 * THREAD_ROWS))  # what larger ones compute leaves a core's caches


def slices(rows: pa.Table, limits: Limits, threads: int = 1) -> Iterator[pa.Table]:
    """Yield all rows, in tables that each fit in memory; an empty table if there are no rows.

    Args:
        threads: the number of tables that have to fit there together.
    """
    size = rows_of_part(len(rows), rows.nbytes, limits, threads)
    for start in range(0, max(len(rows), 1), size):
        yield from _halved(rows.slice(start, size), limits)


def _halved(rows: pa.Table, limits: Limits) -> Iterator[pa.Table]:
    """Yield rows in one table, or, if they are large ones, in several."""
    if len(rows) < 2 or _fit(rows.nbytes, limits):
        yield rows
        return
    middle = len(rows) // 2
    yield from _halved(rows.slice(0, middle), limits)
    yield from _halved(rows.slice(middle), limits)


def _fit(total_bytes: int, limits: Limits) -> bool:
    """Return whether a part may have this many bytes; where rows are alike it has half of that."""
    return total_bytes <= 2 * max(limits.local_bytes, 1)


def gathered(tables: Iterator[pa.Table], limits: Limits) -> pa.Table:
    """Return tables of the same columns, at least one, as one table; a large one is in a file."""
    spill = spill_of(limits)
    for rows in tables:
        spill.add(rows)
    return spill.table()


def gathered_in_place(tables: Iterable[tuple[pa.Table, bool]], spill: Spill) -> pa.Table:
    """Return tables of the same columns, at least one, as one.

    Args:
        tables: a table, and whether it stays where it is; otherwise it goes to the spill.
    """
    pieces = [_piece(rows, spill, stays=stays) for rows, stays in tables]
    return pa.concat_tables(piece() for piece in pieces)


def _piece(rows: pa.Table, spill: Spill, *, stays: bool) -> Callable[[], pa.Table]:
    """Return a function that returns rows, once no more go to the spill; to it go those that do."""
    return rows.slice if stays else partial(spill.of, spill.add(rows))


def spill_of(limits: Limits) -> Spill:
    """Return a place for rows that are too many for memory."""
    return Spill(limits.local_bytes, limits.local_rows)


def by_slices(
    rows: pa.Table, function: Callable[[pa.Table], pa.Table], limits: Limits, threads: int = 1
) -> pa.Table:
    """Return the result of a function over rows that looks at each row alone.

    Args:
        threads: the number of threads that call it in parallel.
    """
    return gathered(side_by_side(function, slices(rows, limits, threads), threads), limits)


def by_ranges(
    tables: Sequence[pa.Table],
    columns: Sequence[Column],
    limits: Limits,
    names: Sequence[Sequence[str]] | None = None,
    threads: int = 1,
) -> Iterator[tuple[pa.Table, ...]]:
    """Yield the rows of some tables by ranges of a key, in key order, one range at a time.

    Args:
        columns: the key.
        names: the names of the key's columns in each table, if not the key's own.
        threads: the number of ranges whose rows have to fit in memory together.
    """
    own = [column.name for column in columns]
    keys = [
        table.select(list(called)).rename_columns(own)
        for table, called in zip(tables, names or [own] * len(tables), strict=True)
    ]
    rows = sum(map(len, tables))
    count = _parts(rows, sum(table.nbytes for table in tables), limits, threads)
    if count > 1 and threads > 1:  # many ranges balance well, and each is quick to sort
        count = max(count, rows // THREAD_ROWS)
    bounds = _bounds(keys, columns, count, limits)
    if not len(bounds):
        yield tuple(tables)
        return
    split = [
        _split(table, key, columns, bounds, limits) for table, key in zip(tables, keys, strict=True)
    ]
    for number in range(len(bounds) + 1):
        parts = tuple(part(number) for part in split)
        has_others = sum(map(len, parts)) < rows
        if has_others and not _fit(sum(table.nbytes for table in parts), limits):
            yield from by_ranges(parts, columns, limits, names, threads)
        else:
            yield parts


def _parts(rows: int, total_bytes: int, limits: Limits, threads: int) -> int:
    """Return the number of parts in which threads process rows; each thread holds one part."""
    count = limits.parts(rows, total_bytes)
    return count * threads if count > 1 else max(1, min(threads, rows // THREAD_ROWS))


def _bounds(
    keys: Sequence[pa.Table], columns: Sequence[Column], count: int, limits: Limits
) -> pa.Table:
    """Return the keys that start about ``count`` ranges, in order, except the first range."""
    step = max(1, sum(map(len, keys)) // (_SAMPLED * count))
    sampled = pa.concat_tables(
        part.take(pa.array(np.arange(0, len(part), step)))
        for key in keys
        for part in slices(key, limits)
    )
    numbers = order_codes(sampled, columns)
    order = sorting(numbers)
    wanted = order[np.arange(1, count) * len(order) // count]
    differs = np.zeros(len(wanted), bool)
    differs[:1] = True
    for numbers_of_part in numbers:
        differs[1:] |= numbers_of_part[wanted[1:]] != numbers_of_part[wanted[:-1]]
    return taken(sampled, wanted[differs])


def _split(
    table: pa.Table,
    keys: pa.Table,
    columns: Sequence[Column],
    bounds: pa.Table,
    limits: Limits,
) -> Callable[[int], pa.Table]:
    """Return a function that finds the rows of a range by its number.

    Rows in the order of the ranges, or in blocks that are, stay in place; others are copied.
    """
    pieces = [list[Callable[[], pa.Table]]() for _ in range(len(bounds) + 1)]
    spill = spill_of(limits)
    spill.add(table.slice(0, 0))

    def apart(first: int) -> tuple[pa.Table, bool, Numbers]:
        """Return a slice in the order of ranges, whether it stays, and the ends of ranges in it."""
        numbers = _numbers(keys.slice(first, size), columns, bounds)
        ends = np.cumsum(np.bincount(numbers, minlength=len(pieces)))
        return (*reordered(table.slice(first, size), sorting([numbers])), ends)

    fits = -(-len(table) // _parts(len(table), table.nbytes, limits, cores()))
    size = max(1, min(fits, THREAD_ROWS))
    for rows, stays, ends in side_by_side(apart, range(0, len(table), size)):
        for number in np.flatnonzero(np.diff(ends, prepend=0)).tolist():
            begin, end = int(ends[number - 1]) if number else 0, int(ends[number])
            pieces[number].append(_piece(rows.slice(begin, end - begin), spill, stays=stays))

    def of_range(number: int) -> pa.Table:
        return pa.concat_tables([table.slice(0, 0), *(piece() for piece in pieces[number])])

    return of_range


def _numbers(keys: pa.Table, columns: Sequence[Column], bounds: pa.Table) -> Numbers:
    """Return the range of each key; a bound is in the range that it starts."""
    numbers = single(order_codes(pa.concat_tables([bounds, keys]), columns))
    return numbers[: len(bounds)].searchsorted(numbers[len(bounds) :], "right")
