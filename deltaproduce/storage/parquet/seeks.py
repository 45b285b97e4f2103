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

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby, islice
from operator import attrgetter
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local.arrays import (
    Marks,
    Numbers,
    empty,
    isin_rows,
)
from deltaproduce.engines.local.large.parting import side_by_side
from deltaproduce.engines.local.large.spilling import Spill
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.kernels.ranges import rows_within
from deltaproduce.errors import CorruptStoreError, StorageError
from deltaproduce.model.machine import cores
from deltaproduce.model.partitions import Ranges
from deltaproduce.storage.parquet.file_ranges import FileRanges, unknown
from deltaproduce.storage.parquet.lookups import LookedUp, Strategy, chosen, reaches
from deltaproduce.storage.parquet.marked_rows import MarkedRows
from deltaproduce.storage.parquet.merging import DataFile
from deltaproduce.storage.parquet.nearest import Nearest
from deltaproduce.storage.parquet.neighbours import MOST, NUMBER, Neighbours
from deltaproduce.storage.parquet.places import FILE, PLACE, Found, places
from deltaproduce.storage.parquet.readings import Readings
from deltaproduce.storage.parquet.row_groups import FileFooter, Footers, Group, amount_of, place_of
from deltaproduce.types.columns import VERSION, VERSION_COLUMN, Column
from deltaproduce.types.conversions import in_arrow_types
from deltaproduce.types.pandas_on_demand import in_numpy

_SOUGHT_AT_A_TIME: Final = 1 << 18
"""About the most rows of row groups that a thread reads to find keys in."""
_LEAST_AT_A_TIME: Final = 1 << 16
"""The fewest, unless there are no more: fewer are not worth another thread."""
_SMALL: Final = 1 << 12
"""The most rows of a small file, whose row groups are read together with those of others."""
_SMALL_FILES: Final = 64
"""The most row groups of small files that are read together."""
_ROWS_AT_A_TIME: Final = 1 << 20
_AT_A_TIME: Final = 8
"""How many parts are read in parallel."""
_FOOTERS_AT_A_TIME: Final = 16
"""How many footers are read in parallel: for remote files nearly all of the time is waiting."""
_UNREADABLE: Final = (OSError, KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError)
"""Files are gone or broken, lack a column, or have one of another type."""


class _UnreadError(Exception):
    """A part of the files could not be read; its cause says why."""


class ParquetFiles:
    """The files of a table. Files never change, so footers are kept.

    Rows that the log marks as deleted are not returned; counts of rows in row groups have them.

    Args:
        directory: the table's directory.
        paths: the files' paths, relative to it.
        table: the table's name if there is no Spark to ask: then unreadable files are damaged.
        readings: counts what is read.
        ranges: the statistics of the files in the log.
        spill: makes a place for the rows that are read.
    """

    def __init__(
        self,
        directory: Directory,
        paths: Sequence[str],
        table: str | None = None,
        readings: Readings | None = None,
        ranges: FileRanges | None = None,
        spill: Callable[[], Spill] = Spill,
    ) -> None:
        self._directory = directory
        self._paths = paths
        self._table = table
        self._readings = readings or Readings()
        self._ranges = ranges or unknown(len(paths))
        self._spill = spill
        self._known: dict[int, FileFooter] = {}
        self._placed = Found()
        self._values = self._ranges.values()
        self._marked = MarkedRows.told(self._ranges.told)

    def know(self, others: ParquetFiles) -> None:
        """Take over the footers that another version of the table's files has read."""
        known = {others._paths[number]: footer for number, footer in others._known.items()}
        for number, path in enumerate(self._paths):
            if path in known:
                self._known[number] = known[path]

    @property
    def paths(self) -> Sequence[str]:
        """The files' paths from the table's directory."""
        return self._paths

    @property
    def sizes(self) -> list[DataFile]:
        """The files by their numbers, with how many rows they have, and how many are marked."""
        parts = [tuple(sorted((k, str(v)) for k, v in values.items())) for values in self._values]
        codes = {part: code for code, part in enumerate(dict.fromkeys(parts))}
        rows = self._ranges.rows.tolist()
        marked = self._marked.counts(len(self._paths)).tolist()
        return [
            DataFile(number, max(rows[number], 0), marked[number], codes[part])
            for number, part in enumerate(parts)
        ]

    @property
    def told(self) -> pa.Table | None:
        """What the log says of the files; see `FileRanges.told`."""
        return self._ranges.told

    @property
    def size(self) -> tuple[int, int] | None:
        """How many rows and bytes they have, by the log; None if that is not known."""
        return self._ranges.size

    def without_spark(self, table: str) -> ParquetFiles:
        """The same files, where Spark is not asked: what cannot be read is damaged.

        Args:
            table: the table's name, for messages.
        """
        return ParquetFiles(
            self._directory, self._paths, table, self._readings, self._ranges, self._spill
        )

    def among(self, numbers: Numbers) -> ParquetFiles:
        """Return some of the files, by their numbers."""
        told = None if self._ranges.told is None else self._ranges.told.take(pa.array(numbers))
        return ParquetFiles(
            self._directory,
            [self._paths[number] for number in numbers.tolist()],
            self._table,
            self._readings,
            FileRanges(told, len(numbers)),
            self._spill,
        )

    @property
    def are_apart(self) -> bool:
        """Whether they are in several partitions, which a reader of few rows need not all open."""
        return len(self._values) > 1 and bool(self._values[0])

    def in_partitions(self, partitions: pa.Table) -> ParquetFiles:
        """Return the files of some partitions; see `FileRanges.in_partitions`."""
        return self.among(np.flatnonzero(self._ranges.in_partitions(partitions)))

    def rows_of(
        self,
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
        files = self._ranges.holding(keys)
        if partitions is not None:
            files &= self._ranges.in_partitions(partitions)
        footers = self._footers(files)
        if footers is None:
            return None
        holding = _holding(footers, keys)
        if holding is None or footers.rows[holding].sum() > keys.engines.limits.seek_rows:
            return None
        found = self._found_in(footers, holding, keys, columns, most, neighbours, placed=True)
        if found is None or FILE.name not in found.column_names:
            return found
        if most is None or len(found) <= most:
            self._placed.add(found)
        return found.drop_columns([FILE.name, NUMBER.name])

    def places_of(
        self,
        pairs: pa.Table,
        columns: Sequence[Column],
        lookup: Sequence[Column],
        engines: Engines,
    ) -> dict[str, Numbers] | None:
        """Return where the rows of some pairs are: their numbers in each file, by its path.

        Args:
            pairs: distinct values of some columns of the table.
            columns: these columns.
            lookup: those of them by which the table is sorted.

        Returns:
            None if the files cannot be read.
        """
        held = self._placed.of(pairs)
        if held is not None:
            return self._by_path(held)
        keys = Selection.of(pairs.select([c.name for c in lookup]), lookup, engines)
        footers = self._footers(self._ranges.holding(keys) if keys.is_here else self._all)
        if footers is None:
            return None
        holding = _holding(footers, keys) if keys.is_here else None
        groups = np.arange(len(footers.rows)) if holding is None else holding
        names = {number: self._names_in(number, columns) for number in footers.files}

        def read(some: Sequence[Group]) -> pa.Table:
            file = some[0].file
            rows, numbers = self._read_all(footers, some, names[file])
            rows = in_arrow_types(rows, columns)
            among = self._marked.are_alive([file], [numbers], isin_rows(rows, pairs))
            return places([file], [numbers[among]])

        found = self._each_part(footers, groups, _one_by_one(read), PLACE, None, names)
        return None if found is None else self._by_path(found)

    def _by_path(self, placed: pa.Table) -> dict[str, Numbers]:
        files, rows = (in_numpy(placed.column(column.name), np.int64) for column in PLACE)
        return {self._paths[file]: np.sort(rows[files == file]) for file in np.unique(files)}

    def _read_all(
        self, footers: Footers, groups: Sequence[Group], names: Sequence[str] | None = None
    ) -> tuple[pa.Table, Numbers]:
        """Return the rows of row groups of one file, marked ones too, and their numbers in it."""
        file, numbers = groups[0].file, [group.number for group in groups]
        rows = self._read(footers.files, groups, names, all_rows=True)
        return rows, footers.files[file].row_numbers(numbers)

    @property
    def _all(self) -> Marks:
        """Marks all files."""
        return np.ones(len(self._paths), bool)

    def are_held(self, keys: Selection, neighbours: Neighbours) -> bool:
        """Return whether earlier look-ups hold all rows of these keys, which are on the driver."""
        footers = self._footers(self._ranges.holding(keys))
        holding = None if footers is None else _holding(footers, keys)
        if footers is None or holding is None:
            return False
        return neighbours.holds(self, keys, footers.codes(holding))

    def looked_up(
        self, keys: Selection, columns: Sequence[Column], strategy: Strategy, most: int | None
    ) -> LookedUp | None:
        """Return exactly the rows of these keys, which are on the driver; None if no file is seen.

        Args:
            columns: as for `rows_of`, like ``most``.
        """
        footers = self._footers(self._all)
        if footers is None:
            return None
        groups, way = chosen(footers, keys, strategy)
        limits, alone = keys.engines.limits, keys.engines.session is None
        found = None
        if alone or way == "seek" or footers.rows[groups].sum() <= limits.seek_rows:
            found = self._found_in(footers, groups, keys, columns, most)
        if found is None or (most is not None and len(found) > most):
            return LookedUp(None, "scan", len(footers.rows), len(footers.rows))
        return LookedUp(found, way, len(groups), len(footers.rows))

    def first_rows(
        self,
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
        footers = self._footers(self._ranges.holding(keys))
        ranges = None if footers is None else footers.ranges_in(by[0].name)
        if footers is None or ranges is None:
            return None
        near = ranges.greatest if by[0].descending else ranges.least
        left, parts = keys.engines.limits.seek_rows, [empty(columns)]
        for part, reach in reaches(footers, keys):
            if reach is None:
                return None
            assert isinstance(part.keys, pa.Table)
            search = Nearest(part.keys, reach, near, by, count)
            while len(groups := search.groups()):
                left -= int(footers.rows[groups].sum())
                if left < 0:
                    return None
                found = self._found_in(footers, groups, part, columns, None, neighbours)
                if found is None:
                    return None
                search.take(found.filter(pa.array(alive(found))))
            parts.append(search.rows(columns))
        return pa.concat_tables(parts)

    def _found_in(
        self,
        footers: Footers,
        groups: Numbers,
        keys: Selection,
        columns: Sequence[Column],
        most: int | None = None,
        neighbours: Neighbours | None = None,
        *,
        placed: bool = False,
    ) -> pa.Table | None:
        """Return the rows of some keys in some row groups; None if they cannot be read.

        Args:
            placed: whether they also have the columns of `PLACE`, unless `neighbours` hold them.
        """

        def read(some: Sequence[Group]) -> pa.Table:
            of_files = [*_of_files(some)]
            told, numbers = zip(*(self._read_all(footers, one) for one in of_files), strict=True)
            rows = pa.concat_tables([in_arrow_types(one, columns) for one in told])
            files = [one[0].file for one in of_files]
            among = self._marked.are_alive(files, numbers, keys.holds(rows))
            found = rows.filter(pa.array(among))
            if placed:
                places_of_rows = places(files, numbers).filter(pa.array(among))
                for column in PLACE:
                    found = found.append_column(column.name, places_of_rows.column(column.name))
            return found

        if neighbours is not None:
            found = neighbours.rows_of(
                self,
                keys,
                footers.codes(groups),
                lambda wanted, among: self._numbered(footers, groups[among], wanted, columns),
            )
            if found is not None:
                return found
        told = (*columns, *PLACE) if placed else columns
        return self._each_part(footers, groups, read, told, most)

    def _numbered(
        self, footers: Footers, groups: Numbers, keys: Selection, columns: Sequence[Column]
    ) -> pa.Table | None:
        """Return what `Neighbours` holds of some keys in some row groups."""
        codes = dict(zip(footers.groups(groups), footers.codes(groups).tolist(), strict=True))
        sizes = dict(zip(codes, footers.rows[groups].tolist(), strict=True))

        def read(some: Sequence[Group]) -> pa.Table:
            numbers = np.repeat([codes[group] for group in some], [sizes[group] for group in some])
            rows = self._read(footers.files, some, numbers=numbers)
            return keys.exactly(in_arrow_types(rows, (*columns, NUMBER)))

        return self._each_part(footers, groups, _one_by_one(read), (*columns, NUMBER), MOST)

    def _each_part(
        self,
        footers: Footers,
        groups: Numbers,
        read: Callable[[Sequence[Group]], pa.Table],
        columns: Sequence[Column],
        most: int | None,
        names: Mapping[int, Sequence[str]] | None = None,
    ) -> pa.Table | None:
        """Read row groups in parallel, and stop once there are more than ``most`` rows.

        Args:
            read: reads some row groups, which are of one file or of small ones.
            names: the columns that are read of each file; all if None.
        """
        of_each = -(-int(footers.rows[groups].sum()) // cores())
        size = min(max(of_each, _LEAST_AT_A_TIME), _SOUGHT_AT_A_TIME)
        found, count, in_parts = self._spill(), 0, _parts(footers, groups, size)
        parts = (some for part in in_parts for some in _together(footers, part))
        found.add(empty(columns))
        try:
            with ThreadPoolExecutor(cores()) as threads:
                while some := [*islice(parts, _AT_A_TIME)]:
                    for part, rows in zip(some, threads.map(read, some), strict=True):
                        for of_file in _of_files(part):
                            file, numbers = of_file[0].file, [group.number for group in of_file]
                            read_of = None if names is None else names[file]
                            self._readings.add(*footers.files[file].amount_of(numbers, read_of))
                        found.add(rows)
                        count += len(rows)
                    if most is not None and count > most:
                        break
        except _UNREADABLE as error:
            self._check_answer(error)
            return None
        return found.table()

    def rows_within(
        self, column: Column, values: Ranges, columns: Sequence[Column], most: int | None
    ) -> pa.Table | None:
        """Return exactly the rows with a value in the ranges; None to ask Spark.

        Args:
            values: as whole numbers, as footers have them.
            columns: the wanted ones of the table's, with this one; no others are read.
            most: as for `rows_of`.
        """
        footers = self._footers(self._ranges.within(column, values))
        if footers is None:
            return None

        names = {number: self._names_in(number, columns) for number in footers.files}

        def read(groups: Sequence[Group]) -> pa.Table:
            rows = self._read(footers.files, groups, names[groups[0].file])
            return rows_within(in_arrow_types(rows, columns), column, values)

        holding = footers.groups_within(column, values)
        return self._each_part(footers, holding, _one_by_one(read), columns, most, names)

    def least_within(self, column: Column, values: Ranges) -> int:
        """Return a lower bound of the rows that `rows_within` finds, from the log; open no file."""
        inside, rows = self._ranges.rows_inside(column, values)
        return int(rows[inside].sum())

    def count_within(self, column: Column, values: Ranges) -> int | None:
        """Return the number of rows in the row groups that `rows_within` reads; None like there.

        Files with values only in the ranges, by the log, are not opened for it.
        """
        inside, rows = self._ranges.rows_inside(column, values)
        footers = self._footers(self._ranges.within(column, values) & ~inside)
        if footers is None:
            return None
        others = footers.rows[footers.groups_within(column, values)]
        return int(rows[inside].sum() + others.sum())

    def rows(
        self,
        columns: Sequence[Column],
        versions: tuple[int, int] | None = None,
    ) -> pa.Table | None:
        """Return all rows, or those of some versions; None to ask Spark.

        Args:
            columns: as for `rows_of`; the files may have other columns, too.
            versions: only rows whose ``_version`` is between these two, both included.

        Raises:
            CorruptStoreError: files are gone or broken, and there is no Spark to ask.
        """
        found = self._spill()
        found.add(empty(columns))
        try:
            for number in range(len(self._paths)):
                for rows in self._parts_of(number, columns, versions):
                    found.add(_within(rows, versions))
        except _UNREADABLE as error:
            if self._table is None:
                return None
            raise unreadable_here(self._table, self._directory, error) from error
        return found.table()

    def reduced(
        self, columns: Sequence[Column], rows: int, function: Callable[[pa.Table], pa.Table]
    ) -> pa.Table | None:
        """Return what a function makes of all rows, part by part on all cores; None to ask Spark.

        Args:
            columns: some of the table's, as for `rows_of`; no others are read.
            rows: about how many rows a part has; it has whole row groups.
        """
        footers = self._footers(self._all)
        if footers is None:
            return None

        names = {number: self._names_in(number, columns) for number in footers.files}

        def made(groups: Sequence[Group]) -> pa.Table:
            try:
                read = [
                    in_arrow_types(self._read(footers.files, some, names[some[0].file]), columns)
                    for some in _of_files(groups)
                ]
            except _UNREADABLE as error:
                raise _UnreadError from error
            return function(pa.concat_tables(read))

        found, parts = self._spill(), [*_parts(footers, np.arange(len(footers.rows)), rows)]
        found.add(function(empty(columns)))
        try:
            for part, rows_made in zip(parts, side_by_side(made, parts), strict=True):
                for some in _of_files(part):
                    file, of_part = some[0].file, [group.number for group in some]
                    self._readings.add(*footers.files[file].amount_of(of_part, names[file]))
                found.add(rows_made)
        except _UnreadError:
            return None
        return found.table()

    def some_rows(self, columns: Sequence[Column], version: int, most: int) -> pa.Table | None:
        """Return at most ``most`` rows of one version, in no order; None to ask Spark.

        Reads no more row groups than necessary; otherwise like `rows`.
        """
        holding = self._ranges.within(VERSION_COLUMN, Ranges(((version, version),)))
        found = empty(columns)
        try:
            for number in np.flatnonzero(holding).tolist():
                for rows in self._parts_of(number, columns, (version, version)):
                    found = pa.concat_tables([found, _within(rows, (version, version))])
                    if len(found) >= most:
                        return found.slice(0, most)
        except _UNREADABLE as error:
            if self._table is None:
                return None
            raise unreadable_here(self._table, self._directory, error) from error
        return found

    def each(self, columns: Sequence[Column]) -> Iterator[pa.Table]:
        """Yield the rows of one file after the other, in the order of the file.

        Raises:
            CorruptStoreError: files are gone or broken.
        """
        try:
            for number in range(len(self._paths)):
                yield pa.concat_tables([empty(columns), *self._parts_of(number, columns)])
        except _UNREADABLE as error:
            if self._table is None:
                raise
            raise unreadable_here(self._table, self._directory, error) from error

    def batches(self, columns: Sequence[Column], rows: int) -> Iterator[pa.Table]:
        """Yield all rows, in the order of the files, with ``rows`` rows in memory at a time.

        Raises:
            CorruptStoreError: files are gone or broken.
        """
        try:
            for number, path in enumerate(self._paths):
                names = self._names_in(number, columns)
                with self._directory.parquet(path) as file:
                    self._count(file.metadata, range(file.num_row_groups), names)
                    first = 0
                    for batch in file.iter_batches(rows, columns=names, use_threads=False):
                        read = pa.Table.from_batches([batch])
                        part = self._marked.alive_from(read, number, first)
                        first += len(read)
                        yield in_arrow_types(_beside(part, self._values[number]), columns)
        except _UNREADABLE as error:
            if self._table is None:
                raise
            raise unreadable_here(self._table, self._directory, error) from error

    def _footers(self, files: Marks) -> Footers | None:
        """Return the footers of some files; None if they cannot be read here."""
        numbers = np.flatnonzero(files).tolist()
        try:
            missing = [number for number in numbers if number not in self._known]
            if missing:
                with ThreadPoolExecutor(_FOOTERS_AT_A_TIME) as threads:
                    said = threads.map(
                        self._directory.footer, map(self._paths.__getitem__, missing)
                    )
                    values = (self._values[number] for number in missing)
                    self._known |= zip(missing, map(FileFooter, said, values), strict=True)
        except _UNREADABLE as error:
            self._check_answer(error)
            return None
        return Footers({number: self._known[number] for number in numbers})

    def _check_answer(self, error: Exception) -> None:
        """Without Spark to ask, report a file system that does not answer.

        Raises:
            StorageError: it does not answer.
        """
        if self._table is not None and self._directory.file_system.silence(error):
            raise unreadable_here(self._table, self._directory, error) from error

    def _read(
        self,
        footers: Mapping[int, FileFooter],
        groups: Sequence[Group],
        names: Sequence[str] | None = None,
        *,
        numbers: Numbers | None = None,
        all_rows: bool = False,
    ) -> pa.Table:
        """Read row groups of one file: the named columns of it, or all.

        Args:
            numbers: a number for each row of the row groups, to be returned as `NUMBER`.
            all_rows: whether rows that are marked as deleted are returned, too.
        """
        number, chosen = groups[0].file, [group.number for group in groups]
        said = footers[number].said
        with self._directory.parquet(self._paths[number], said) as file:
            found = file.read_row_groups(chosen, names, use_threads=False)
        if numbers is not None:
            found = found.append_column(NUMBER.name, pa.array(numbers))
        if not all_rows:
            found = self._marked.alive(found, number, chosen, said)
        return _beside(found, self._values[number])

    def _names_in(self, number: int, columns: Sequence[Column]) -> list[str]:
        """Return the names of the columns that a file has: not those it is partitioned by."""
        return [column.name for column in columns if column.name not in self._values[number]]

    def _parts_of(
        self, number: int, columns: Sequence[Column], versions: tuple[int, int] | None = None
    ) -> Iterator[pa.Table]:
        """Yield a file's rows of some versions, and others that share a row group with them."""
        values = self._values[number]
        with self._directory.parquet(self._paths[number]) as file:
            groups, names = _groups_of(file.metadata, versions), self._names_in(number, columns)
            self._count(file.metadata, groups, names)
            for some in _shared_out(groups, file.metadata):
                read = file.read_row_groups(some, names)
                rows = self._marked.alive(read, number, some, file.metadata)
                yield in_arrow_types(_beside(rows, values), columns)

    def _count(self, footer: pq.FileMetaData, groups: Sequence[int], names: Sequence[str]) -> None:
        """Count the given columns of row groups as read."""
        for group in groups:
            self._readings.add(*amount_of(footer, group, names))


def unreadable_here(
    table: str, directory: Directory | None, error: BaseException
) -> CorruptStoreError | StorageError:
    """Return the error for a table that a store without a session cannot read.

    Args:
        directory: the directory of the table or the store; None if only Spark knows it.
        error: the cause.
    """
    silence = None if directory is None else directory.file_system.silence(error)
    if silence is not None:
        return StorageError(
            f"table {table!r} cannot be reached ({silence}): see that the service is up, and that "
            "the environment has its address and a key that may read and write",
            table=table,
        )
    return CorruptStoreError(
        f"table {table!r} cannot be read as a version has it, because files of it were removed or "
        "changed by someone else; store.verify() says what else is wrong, store.repair() mends it",
        table=table,
    )


def _holding(footers: Footers, keys: Selection) -> Numbers | None:
    """Return the row groups that may have some keys; None if nothing is known of them."""
    marks = np.zeros(len(footers.rows), bool)
    for _, reach in reaches(footers, keys):
        if reach is None:
            return None
        marks |= reach.first < reach.last
    return np.flatnonzero(marks)


def _groups_of(footer: pq.FileMetaData, versions: tuple[int, int] | None) -> list[int]:
    """Return the row groups that may have rows of some versions."""
    every = range(footer.num_row_groups)
    place = None if versions is None else place_of(footer, VERSION)
    if versions is None or place is None:
        return [*every]
    first, last = versions

    def may_have(group: int) -> bool:
        known = footer.row_group(group).column(place).statistics
        return known is None or not known.has_min_max or (first <= known.max and known.min <= last)

    return [group for group in every if may_have(group)]


def _within(rows: pa.Table, versions: tuple[int, int] | None) -> pa.Table:
    if versions is None:
        return rows
    numbers = in_numpy(rows.column(VERSION))
    return rows.filter(pa.array((numbers >= versions[0]) & (numbers <= versions[1])))


def _beside(rows: pa.Table, values: Mapping[str, pa.Scalar]) -> pa.Table:
    """Return rows of a file with the values of its partition columns.

    Some writers leave these out of the files, others do not.
    """
    found = rows.drop_columns([name for name in values if name in rows.column_names])
    for name, value in values.items():
        found = found.append_column(name, pa.repeat(value, len(found)))
    return found


def _shared_out(groups: Sequence[int], footer: pq.FileMetaData) -> Iterator[list[int]]:
    """Yield the row groups of a file in chunks to read at a time."""
    found, rows = list[int](), 0
    for group in groups:
        found.append(group)
        rows += footer.row_group(group).num_rows
        if rows >= _ROWS_AT_A_TIME:
            yield found
            found, rows = [], 0
    if found:
        yield found


def _of_files(groups: Sequence[Group]) -> Iterator[list[Group]]:
    """Yield row groups by file."""
    for _, of_file in groupby(groups, attrgetter("file")):
        yield list(of_file)


def _together(footers: Footers, groups: Sequence[Group]) -> Iterator[list[Group]]:
    """Yield row groups by file, but those of small files together: most of their time is calls."""
    small = list[Group]()
    for of_file in _of_files(groups):
        footer = footers.files[of_file[0].file]
        if footer.said.num_rows > _SMALL:
            yield of_file
            continue
        small += of_file
        if len(small) >= _SMALL_FILES:
            yield small
            small = []
    if small:
        yield small


def _one_by_one(
    read: Callable[[Sequence[Group]], pa.Table],
) -> Callable[[Sequence[Group]], pa.Table]:
    """Return a reader of row groups of several files, given one for those of one file."""
    return lambda groups: pa.concat_tables([read(some) for some in _of_files(groups)])


def _parts(footers: Footers, groups: Numbers, rows: int) -> Iterator[list[Group]]:
    """Yield row groups in parts of about so many rows, in the order of the files."""
    before = np.cumsum(footers.rows[groups]) - footers.rows[groups]
    begins = np.flatnonzero(np.diff(before // max(rows, 1))) + 1
    for some in np.split(groups, begins) if len(groups) else ():
        yield [*footers.groups(some)]
