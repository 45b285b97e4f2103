"""Parts of tables that are too large to be worked on at once: as they lie, or by ranges of a key.

Rows are put into ranges as a distributed sort does it: keys that are sampled from all tables bound
the ranges, so that each has about as many rows (DeWitt, Naughton, Schneider: "Parallel sorting on a
shared-nothing architecture using probabilistic splitting", 1991). What is made of a part lies in a
file as soon as it is more than one part (`spilling`). The invariant: all rows of a key are in one
range, in the order that they had, and ranges come in the order of the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Numbers, order_codes, sorting, taken
from deltaproduce.engines.local.large.spilling import Spill
from deltaproduce.model.limits import Limits
from deltaproduce.types.columns import Column

_SAMPLED = 100
"""How many keys are sampled for each range."""


def slices(rows: pa.Table, limits: Limits) -> Iterator[pa.Table]:
    """All rows, in tables of which each fits in memory; one without rows if there are none."""
    size = -(-len(rows) // limits.parts(len(rows), rows.nbytes)) or 1
    for start in range(0, max(len(rows), 1), size):
        yield rows.slice(start, size)


def gathered(made: Iterator[pa.Table], limits: Limits) -> pa.Table:
    """Tables of the same columns as one, which lies in a file if it is large; at least one."""
    spill = spill_of(limits)
    for rows in made:
        spill.add(rows)
    return spill.table()


def spill_of(limits: Limits) -> Spill:
    """A place for rows that are too many for memory."""
    return Spill(limits.local_bytes, limits.local_rows)


def by_slices(rows: pa.Table, function: Callable[[pa.Table], pa.Table], limits: Limits) -> pa.Table:
    """What a function makes of rows, which looks at each row alone."""
    return gathered(map(function, slices(rows, limits)), limits)


def by_ranges(
    tables: Sequence[pa.Table],
    columns: Sequence[Column],
    limits: Limits,
    names: Sequence[Sequence[str]] | None = None,
) -> Iterator[tuple[pa.Table, ...]]:
    """The rows of some tables by ranges of a key, in its order: each time those of one range.

    Args:
        columns: the key.
        names: what its columns are called in each table, if it is not as the key's.
    """
    own = [column.name for column in columns]
    keys = [
        table.select(list(called)).rename_columns(own)
        for table, called in zip(tables, names or [own] * len(tables), strict=True)
    ]
    bounds = _bounds(tables, keys, columns, limits)
    split = [
        _split(table, key, columns, bounds, limits) for table, key in zip(tables, keys, strict=True)
    ]
    for number in range(len(bounds) + 1):
        yield tuple(part(number) for part in split)


def _bounds(
    tables: Sequence[pa.Table], keys: Sequence[pa.Table], columns: Sequence[Column], limits: Limits
) -> pa.Table:
    """The keys that ranges begin with, in order; the first one begins before them."""
    rows = sum(map(len, tables))
    count = limits.parts(rows, sum(table.nbytes for table in tables))
    step = max(1, rows // (_SAMPLED * count))
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
    for found in numbers:
        differs[1:] |= found[wanted[1:]] != found[wanted[:-1]]
    return taken(sampled, wanted[differs])


def _split(
    table: pa.Table,
    keys: pa.Table,
    columns: Sequence[Column],
    bounds: pa.Table,
    limits: Limits,
) -> Callable[[int], pa.Table]:
    """Finds the rows of a range by its number."""
    found = _ends(keys, columns, bounds, limits)
    if found is not None:
        ends = found
        return lambda number: table.slice(ends[number], ends[number + 1] - ends[number])
    spill, pieces = spill_of(limits), [list[int]() for _ in range(len(bounds) + 1)]
    spill.add(table.slice(0, 0))
    start = 0
    for part in slices(keys, limits):
        numbers = _numbers(part, columns, bounds)
        rows = taken(table.slice(start, len(part)), sorting([numbers]))
        ends = np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=len(pieces)))])
        for number, of_range in enumerate(pieces):
            of_range += spill.add(rows.slice(ends[number], ends[number + 1] - ends[number]))
        start += len(part)
    return lambda number: spill.of(pieces[number])


def _ends(
    keys: pa.Table, columns: Sequence[Column], bounds: pa.Table, limits: Limits
) -> Numbers | None:
    """Where each range begins and the last one ends, in rows that are in order; None if not."""
    counts, last = np.zeros(len(bounds) + 1, np.int64), 0
    for part in slices(keys, limits):
        numbers = _numbers(part, columns, bounds)
        if len(numbers) and (numbers[0] < last or (numbers[1:] < numbers[:-1]).any()):
            return None
        counts += np.bincount(numbers, minlength=len(counts))
        last = int(numbers[-1]) if len(numbers) else last
    return np.concatenate([[0], np.cumsum(counts)])


def _numbers(keys: pa.Table, columns: Sequence[Column], bounds: pa.Table) -> Numbers:
    """In which range each key is."""
    order = sorting(order_codes(pa.concat_tables([bounds, keys]), columns))
    found = np.empty(len(order), np.int64)
    found[order] = np.cumsum(order < len(bounds))  # a bound comes before the keys equal to it
    return found[len(bounds) :]
