"""Seeks: read the rows of some keys from the Parquet files of a sorted table, without Spark.

A step looks up keys that lie anywhere in a table. Spark reads every file and row group whose range
contains one of them, so with large row groups a look-up of a thousand keys reads more, the larger
the table is. Tables in which steps look up keys are written with small row groups
(`Limits.group_rows`), and this module reads only the row groups whose range, by the files' footers,
contains one of the keys: at most one row group per key if keys are unique, however many rows there
are, and no Spark job. This is the sparse index of a sorted file that SSTables have (Chang et al.,
"Bigtable", 2006).

The invariant: an answer has all rows of the keys, as Spark would read them. If that is not certain,
there is no answer, and the caller asks Spark: for files that are not seen without it, keys of a
type without one plain order, footers without ranges, files that are gone or damaged (Spark says
so), and for more rows than are faster to read here (`Limits.seek_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.local.arrays import Marks, Numbers, empty, isin_rows
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.kernels.ranges import rows_within
from deltaproduce.model.partitions import Ranges
from deltaproduce.storage.parquet.batching import of_files, one_by_one
from deltaproduce.storage.parquet.files import ParquetFiles, Sieve
from deltaproduce.storage.parquet.lookups import LookedUp, Strategy, chosen, reaches
from deltaproduce.storage.parquet.nearest import Nearest
from deltaproduce.storage.parquet.neighbours import MOST, NUMBER, Neighbours
from deltaproduce.storage.parquet.places import FILE, PLACE, places
from deltaproduce.storage.parquet.readings import NOTHING_READ, ReadAmount
from deltaproduce.storage.parquet.row_groups import Footers, RowGroup
from deltaproduce.types.columns import Column
from deltaproduce.types.conversions import in_arrow_types
from deltaproduce.types.pandas_on_demand import in_numpy

_AS_MUCH: Final = 1.25
"""The most row groups that a look-up for others, too, may read, to those of one for the keys."""
_SIFTED: Final = 16
"""From so many row groups on the key is read first: many keys of new rows are in none."""


def rows_of(
    files: ParquetFiles,
    keys: Selection,
    columns: Sequence[Column],
    most: int | None,
    partitions: pa.Table | None = None,
    neighbours: Neighbours | None = None,
) -> pa.Table | None:
    """Return exactly the rows of these keys, which are on the driver; None to ask Spark.

    Args:
        columns: the table's columns; the rows have them in the types of `arrow_type`.
        most: the most rows wanted; beyond it the result may be incomplete.
        partitions: those that have the rows, by some of their columns; None if any may.
        neighbours: holds the rows of the keys' groups that are in the same row groups.
    """
    holding_keys = files.ranges.holding(keys)
    if partitions is not None:
        holding_keys &= files.ranges.in_partitions(partitions)
    footers = files.footers(holding_keys)
    if footers is None:
        return None
    holding = _holding(footers, keys)
    if holding is None or not _reads(files, footers, holding, keys, columns):
        return None
    held = _held_rows(neighbours, files, footers, holding, keys, columns)
    if held is not None:
        return held
    rows = _rows_in(files, footers, holding, keys, columns, most, with_places=True)
    if rows is None:
        return None
    if most is None or len(rows) <= most:
        files.last_lookups.add(rows)
    return rows.drop_columns([FILE.name, NUMBER.name])


def places_of(
    files: ParquetFiles,
    pairs: pa.Table,
    columns: Sequence[Column],
    lookup: Sequence[Column],
    engines: Engines,
) -> dict[str, Numbers] | None:
    """Return where the rows of some pairs are: their numbers in each file, by its path.

    Args:
        pairs: distinct values of some columns of the table.
        columns: these columns.
        lookup: those of them by which the files are sorted; none if they are all in the partition.

    Returns:
        None if the files cannot be read.
    """
    held = files.last_lookups.of(pairs)
    if held is not None:
        return _by_path(files, held)
    keys = None
    if lookup:
        sought = Selection.of(pairs.select([c.name for c in lookup]), lookup, engines)
        keys = sought if sought.is_here else None
    footers = files.footers(files.all_files if keys is None else files.ranges.holding(keys))
    if footers is None:
        return None
    holding = None if keys is None else _holding(footers, keys)
    groups = np.arange(len(footers.rows)) if holding is None else holding

    def read(chosen: Sequence[RowGroup]) -> tuple[pa.Table, ReadAmount]:
        file = chosen[0].file
        rows, numbers = files.read_numbered(footers, chosen, columns)
        among = files.marked.are_alive([file], [numbers], isin_rows(rows, pairs))
        amount = files.amount_of(footers, chosen, columns)
        return places([file], [numbers[among]]), amount

    found_places = files.each_part(footers, groups, one_by_one(read), PLACE, None)
    return None if found_places is None else _by_path(files, found_places)


def are_held(files: ParquetFiles, keys: Selection, neighbours: Neighbours) -> bool:
    """Return whether earlier look-ups hold all rows of these keys, which are on the driver."""
    footers = files.footers(files.ranges.holding(keys))
    holding = None if footers is None else _holding(footers, keys)
    if footers is None or holding is None:
        return False
    return neighbours.holds(files, keys, footers.codes(holding))


def reads_as_much(files: ParquetFiles, keys: Selection, others: Selection) -> bool:
    """Return whether a seek reads at most a quarter more row groups for some keys than for others.

    Args:
        keys: keys on the driver, like the others.
    """
    numbers = list[int]()
    for each in (keys, others):
        footers = files.footers(files.ranges.holding(each))
        holding = None if footers is None else _holding(footers, each)
        if holding is None:
            return False
        numbers.append(len(holding))
    return numbers[0] <= _AS_MUCH * numbers[1]


def reads_nearly_all(files: ParquetFiles, keys: Selection) -> bool:
    """Return whether a seek of keys, which are on the driver, reads nearly all row groups."""
    footers = files.footers(files.all_files)
    holding = None if footers is None else _holding(footers, keys)
    if footers is None or holding is None:
        return False
    return len(footers.rows) <= _AS_MUCH * len(holding)


def looked_up(
    files: ParquetFiles,
    keys: Selection,
    columns: Sequence[Column],
    strategy: Strategy,
    most: int | None,
) -> LookedUp | None:
    """Return exactly the rows of these keys, which are on the driver; None if no file is seen.

    Args:
        columns: as for `rows_of`, like ``most``.
    """
    footers = files.footers(files.all_files)
    if footers is None:
        return None
    groups, way = chosen(footers, keys, strategy)
    rows = None
    if way == "seek" or _reads(files, footers, groups, keys, columns):
        rows = _rows_in(files, footers, groups, keys, columns, most)
    if rows is None or (most is not None and len(rows) > most):
        return LookedUp(None, "scan", len(footers.rows), len(footers.rows))
    return LookedUp(rows, way, len(groups), len(footers.rows))


def first_rows(
    files: ParquetFiles,
    keys: Selection,
    by: Sequence[Column],
    count: int,
    columns: Sequence[Column],
    alive: Callable[[pa.Table], Marks],
    neighbours: Neighbours | None = None,
) -> pa.Table | None:
    """Return the first rows of each of these keys, which are on the driver; None to ask Spark.

    Reads row groups from the near end on, until no other can have a row that comes before.

    Args:
        by: the order of a key's rows; the place of nulls in its first column is left open.
        count: the most rows wanted of a key.
        columns: as for `rows_of`.
        alive: marks the rows that count.
        neighbours: as for `rows_of`.
    """
    footers = files.footers(files.ranges.holding(keys))
    ranges = None if footers is None else footers.ranges_in(by[0].name)
    if footers is None or ranges is None:
        return None
    near = ranges.greatest if by[0].descending else ranges.least
    read, parts = 0, [empty(columns)]
    for part, reach in reaches(footers, keys):
        if reach is None:
            return None
        assert isinstance(part.keys, pa.Table)
        search = Nearest(part.keys, reach, near, by, count)
        while len(groups := search.groups()):
            read += int(footers.rows[groups].sum())
            if not keys.engines.reads_groups(len(part.keys), read):
                return None
            rows = _held_rows(neighbours, files, footers, groups, part, columns)
            if rows is None:
                rows = _rows_in(files, footers, groups, part, columns)
            if rows is None:
                return None
            search.take(rows.filter(pa.array(alive(rows))))
        parts.append(search.rows(columns))
    return pa.concat_tables(parts)


def rows_in_ranges(
    files: ParquetFiles, column: Column, values: Ranges, columns: Sequence[Column], most: int | None
) -> pa.Table | None:
    """Return exactly the rows with a value in the ranges; None to ask Spark.

    Args:
        values: as whole numbers, as footers have them.
        columns: the wanted ones of the table's, with this one; no others are read.
        most: as for `rows_of`.
    """
    footers = files.footers(files.ranges.within(column, values))
    if footers is None:
        return None

    def read(groups: Sequence[RowGroup]) -> tuple[pa.Table, ReadAmount]:
        names = files.names_in(groups[0].file, columns)
        rows = in_arrow_types(files.read_groups(footers.files, groups, names), columns)
        amount = files.amount_of(footers, groups, columns)
        return rows_within(rows, column, values), amount

    holding = footers.groups_within(column, values)
    return files.each_part(footers, holding, one_by_one(read), columns, most)


def least_within(files: ParquetFiles, column: Column, values: Ranges) -> int:
    """Return a lower bound of the rows that `rows_within` finds, from the log; open no file."""
    inside, rows = files.ranges.rows_inside(column, values)
    return int(rows[inside].sum())


def count_within(files: ParquetFiles, column: Column, values: Ranges) -> int | None:
    """Return the number of rows in the row groups that `rows_within` reads; None like there.

    Files with values only in the ranges, by the log, are not opened for it.
    """
    inside, rows = files.ranges.rows_inside(column, values)
    footers = files.footers(files.ranges.within(column, values) & ~inside)
    if footers is None:
        return None
    others = footers.rows[footers.groups_within(column, values)]
    return int(rows[inside].sum() + others.sum())


def _reads(
    files: ParquetFiles,
    footers: Footers,
    groups: Numbers,
    keys: Selection,
    columns: Sequence[Column],
) -> bool:
    """Return whether the driver reads row groups for some keys, which are there, or Spark does."""
    assert isinstance(keys.keys, pa.Table)
    engines, rows = keys.engines, int(footers.rows[groups].sum())
    if engines.costs is None:
        return engines.reads_groups(len(keys.keys), rows)
    parts = of_files([*footers.groups(groups)])
    size = sum(files.amount_of(footers, part, columns).size for part in parts)
    return engines.reads_groups(len(keys.keys), rows, files.readings.seconds(size))


def _rows_in(
    files: ParquetFiles,
    footers: Footers,
    groups: Numbers,
    keys: Selection,
    columns: Sequence[Column],
    most: int | None = None,
    *,
    with_places: bool = False,
) -> pa.Table | None:
    """Return the rows of some keys in some row groups; None if they cannot be read.

    Args:
        with_places: whether they also have the columns of `PLACE`.
    """
    output = (*columns, *PLACE) if with_places else columns
    is_sifted = len(groups) >= _SIFTED and len(columns) > len(keys.columns) + 1
    sieve = Sieve(tuple(keys.columns), keys.holds) if is_sifted else None

    def read(chosen: Sequence[RowGroup]) -> tuple[pa.Table, ReadAmount]:
        tables, numbers, file_numbers = list[pa.Table](), list[Numbers](), list[int]()
        amount = NOTHING_READ
        for of_file in of_files(chosen):
            if sieve is None:
                rows, of_rows = files.read_numbered(footers, of_file, columns)
                more = files.amount_of(footers, of_file, columns)
            else:
                rows, of_rows, more = files.sifted(footers, of_file, columns, sieve)
            amount = amount.and_(more)
            tables.append(rows)
            numbers.append(of_rows)
            file_numbers.append(of_file[0].file)
        matches = pa.concat_tables(tables)
        if with_places:
            located = places(file_numbers, numbers)
            for column in PLACE:
                matches = matches.append_column(column.name, located.column(column.name))
        if sieve is None:
            among = files.marked.are_alive(file_numbers, numbers, keys.holds(matches))
            matches = matches.filter(pa.array(among))
        return matches, amount

    return files.each_part(footers, groups, read, output, most)


def _held_rows(
    neighbours: Neighbours | None,
    files: ParquetFiles,
    footers: Footers,
    groups: Numbers,
    keys: Selection,
    columns: Sequence[Column],
) -> pa.Table | None:
    """Return the rows of some keys in some row groups as `neighbours` hold them; None if not."""
    if neighbours is None:
        return None
    return neighbours.rows_of(
        files,
        keys,
        footers.codes(groups),
        lambda wanted, among: _numbered(files, footers, groups[among], wanted, columns),
    )


def _numbered(
    files: ParquetFiles,
    footers: Footers,
    groups: Numbers,
    keys: Selection,
    columns: Sequence[Column],
) -> pa.Table | None:
    """Return what `Neighbours` holds of some keys in some row groups."""
    codes = dict(zip(footers.groups(groups), footers.codes(groups).tolist(), strict=True))
    sizes = dict(zip(codes, footers.rows[groups].tolist(), strict=True))

    def read(chosen: Sequence[RowGroup]) -> tuple[pa.Table, ReadAmount]:
        numbers = np.repeat([codes[group] for group in chosen], [sizes[group] for group in chosen])
        rows = files.read_groups(footers.files, chosen, numbers=numbers)
        matches = keys.exactly(in_arrow_types(rows, (*columns, NUMBER)))
        return matches, files.amount_of(footers, chosen, None)

    return files.each_part(footers, groups, one_by_one(read), (*columns, NUMBER), MOST)


def _by_path(files: ParquetFiles, located: pa.Table) -> dict[str, Numbers]:
    numbers, rows = (in_numpy(located.column(column.name), np.int64) for column in PLACE)
    return {files.paths[file]: np.sort(rows[numbers == file]) for file in np.unique(numbers)}


def _holding(footers: Footers, keys: Selection) -> Numbers | None:
    """Return the row groups that may have some keys; None if nothing is known of them."""
    marks = np.zeros(len(footers.rows), bool)
    for _, reach in reaches(footers, keys):
        if reach is None:
            return None
        marks |= reach.first < reach.last
    return np.flatnonzero(marks)
