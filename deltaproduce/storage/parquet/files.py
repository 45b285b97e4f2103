"""The Parquet files of a table: their footers, and rows read from them without Spark.

The invariant: rows are those that Spark would read. If that is not certain, there is no answer, and
the caller asks Spark: for files that are not seen without it, and for files that are gone or
damaged (Spark says so).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local.arrays import Marks, Numbers, empty
from deltaproduce.engines.local.large.spilling import Spill
from deltaproduce.engines.local.large.threads import side_by_side
from deltaproduce.errors import CorruptStoreError, StorageError
from deltaproduce.model.limits.machine import cores
from deltaproduce.model.partitions import Ranges
from deltaproduce.storage.parquet.batching import PartReader, parts, shared_out, together
from deltaproduce.storage.parquet.file_ranges import FilePaths, FileRanges, unknown
from deltaproduce.storage.parquet.marked_rows import MarkedRows
from deltaproduce.storage.parquet.neighbours import NUMBER
from deltaproduce.storage.parquet.places import LookupCache
from deltaproduce.storage.parquet.readings import NOTHING_READ, ReadAmount, Readings
from deltaproduce.storage.parquet.row_groups import (
    FileFooter,
    Footers,
    RowGroup,
    amount_of,
    place_of,
)
from deltaproduce.types.columns import VERSION, VERSION_COLUMN, Column
from deltaproduce.types.conversions import in_arrow_types
from deltaproduce.types.pandas_on_demand import in_numpy

_SOUGHT_AT_A_TIME: Final = 1 << 18
"""About the most rows of row groups that a thread reads to find keys in."""
_LEAST_AT_A_TIME: Final = 1 << 16
"""The fewest, unless there are no more: fewer are not worth another thread."""
_FOOTERS_AT_A_TIME: Final = 16
"""How many footers are read in parallel: for remote files nearly all of the time is waiting."""
UNREADABLE: Final = (OSError, KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError)
"""Files are gone or broken, lack a column, or have one of another type."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a table.

    Attributes:
        number: its place in the listing.
        rows: the number of its rows, with those that are marked as deleted.
        marked: the number of these.
        partition: a number that it shares with the files of the same partition.
    """

    number: int
    rows: int
    marked: int = 0
    partition: int = 0

    @property
    def alive(self) -> int:
        """The number of its rows that count."""
        return self.rows - self.marked


@dataclass(frozen=True, slots=True)
class Sieve:
    """Tells which rows a scan is for.

    Attributes:
        columns: the columns that tell them; not all that the scan reads.
        marks: marks these rows, given the columns.
    """

    columns: tuple[Column, ...]
    marks: Callable[[pa.Table], Marks]


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
        paths: FilePaths,
        table: str | None = None,
        readings: Readings | None = None,
        ranges: FileRanges | None = None,
        spill: Callable[[], Spill] = Spill,
    ) -> None:
        self._directory = directory
        self.paths = paths
        self._table = table
        self.readings = readings or Readings()
        self.ranges = ranges or unknown(len(paths))
        self.spill = spill
        self._known: dict[int, FileFooter] = {}
        self.last_lookups = LookupCache()
        self.marked = MarkedRows.listed(self.ranges.statistics)

    def know(self, others: ParquetFiles) -> None:
        """Take over the footers that another version of the table's files has read."""
        known = {others.paths[number]: footer for number, footer in others._known.items()}
        for number in self.paths.places([*known]):
            self._known[number] = known[self.paths[number]]

    def to_merge(self, full: int) -> Iterator[DataFile]:
        """Yield the files that have fewer rows than a full one, or marked rows."""
        rows = np.maximum(self.ranges.rows, 0)
        marked = self.marked.counts(len(self.paths))
        codes = dict[tuple[tuple[str, str], ...], int]()
        for number in np.flatnonzero((rows - marked < full) | (marked > 0)).tolist():
            values = self.ranges.values(number).items()
            part = tuple(sorted((name, str(value)) for name, value in values))
            code = codes.setdefault(part, len(codes))
            yield DataFile(number, int(rows[number]), int(marked[number]), code)

    @property
    def statistics(self) -> pa.Table | None:
        """What the log says of the files; see `FileRanges.statistics`."""
        return self.ranges.statistics

    @property
    def size(self) -> tuple[int, int] | None:
        """How many rows and bytes they have, by the log; None if that is not known."""
        return self.ranges.size

    def without_spark(self, table: str) -> ParquetFiles:
        """The same files, where Spark is not asked: what cannot be read is damaged.

        Args:
            table: the table's name, for messages.
        """
        return ParquetFiles(
            self._directory, self.paths, table, self.readings, self.ranges, self.spill
        )

    def among(self, numbers: Numbers) -> ParquetFiles:
        """Return some of the files, by their numbers."""
        listed = (
            None
            if self.ranges.statistics is None
            else self.ranges.statistics.take(pa.array(numbers))
        )
        return ParquetFiles(
            self._directory,
            self.paths.among(numbers),
            self._table,
            self.readings,
            FileRanges(listed, len(numbers)),
            self.spill,
        )

    @property
    def are_apart(self) -> bool:
        """Whether they are in several partitions, which a reader of few rows need not all open."""
        return len(self.paths) > 1 and self.ranges.has_partitions

    def in_partitions(self, partitions: pa.Table) -> ParquetFiles:
        """Return the files of some partitions; see `FileRanges.in_partitions`."""
        return self.among(np.flatnonzero(self.ranges.in_partitions(partitions)))

    def read_numbered(
        self, footers: Footers, groups: Sequence[RowGroup], columns: Sequence[Column]
    ) -> tuple[pa.Table, Numbers]:
        """Return the rows of row groups of one file, marked ones too, and their numbers in it."""
        file, numbers = groups[0].file, [group.number for group in groups]
        names = self.names_in(file, columns)
        rows = self.read_groups(footers.files, groups, names, all_rows=True)
        return in_arrow_types(rows, columns), footers.files[file].row_numbers(numbers)

    def sifted(
        self,
        footers: Footers,
        groups: Sequence[RowGroup],
        columns: Sequence[Column],
        sieve: Sieve,
    ) -> tuple[pa.Table, Numbers, ReadAmount]:
        """Return the rows of row groups of one file that count and that a sieve marks.

        Its columns are read first, and then the other columns of row groups that have such rows.

        Returns:
            The rows; their numbers in the file; and the amount that is read.
        """
        number, chosen = groups[0].file, [group.number for group in groups]
        footer, own = footers.files[number], self.names_in(number, sieve.columns)
        first = self.read_groups(footers.files, groups, own, all_rows=True)
        places = np.flatnonzero(sieve.marks(in_arrow_types(first, sieve.columns)))
        holders, numbers = footer.located(chosen, places)
        is_alive = self.marked.are_alive([number], [numbers], np.ones(len(places), bool))
        places, holders, numbers = places[is_alive], holders[is_alive], numbers[is_alive]
        has_some = np.bincount(holders, minlength=len(groups)) > 0
        wanted = [group for group, has in zip(groups, has_some, strict=True) if has]
        rest = [group for group, has in zip(groups, has_some, strict=True) if not has]
        amount = self.amount_of(footers, wanted, (*sieve.columns, *columns))
        amount = amount.and_(self.amount_of(footers, rest, sieve.columns))
        if not wanted:
            return empty(columns), numbers, amount
        marks = np.zeros(len(first), bool)
        marks[places] = True
        rows = first.filter(pa.array(marks))
        others = [name for name in self.names_in(number, columns) if name not in own]
        if others:
            sizes = [footer.said.row_group(one).num_rows for one in chosen]
            more = self.read_groups(footers.files, wanted, others, all_rows=True).select(others)
            more = more.filter(pa.array(marks[np.repeat(has_some, sizes)]))
            for name in others:
                rows = rows.append_column(name, more.column(name))
        return in_arrow_types(rows, columns), numbers, amount

    def amount_of(
        self, footers: Footers, groups: Sequence[RowGroup], columns: Sequence[Column] | None
    ) -> ReadAmount:
        """Return the amount that is read with some columns, or all, of row groups of one file."""
        if not groups:
            return NOTHING_READ
        number = groups[0].file
        names = None if columns is None else self.names_in(number, columns)
        return footers.files[number].amount_of([group.number for group in groups], names)

    @property
    def all_files(self) -> Marks:
        """Marks all files."""
        return np.ones(len(self.paths), bool)

    def each_part(
        self,
        footers: Footers,
        groups: Numbers,
        read: PartReader,
        columns: Sequence[Column],
        most: int | None,
    ) -> pa.Table | None:
        """Read row groups in parallel, and stop once there are more than ``most`` rows.

        Args:
            read: reads some row groups, which are of one file or of small ones.
        """
        of_each = -(-int(footers.rows[groups].sum()) // cores())
        size = min(max(of_each, _LEAST_AT_A_TIME), _SOUGHT_AT_A_TIME)
        spilled, count = self.spill(), 0
        read_together = (
            chosen for part in parts(footers, groups, size) for chosen in together(footers, part)
        )
        spilled.add(empty(columns))
        try:
            with self.readings.measured():
                for rows, amount in side_by_side(read, read_together):
                    self.readings.add(*amount)
                    spilled.add(rows)
                    count += len(rows)
                    if most is not None and count > most:
                        break
        except UNREADABLE as error:
            self._check_answer(error)
            return None
        return spilled.table()

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
        spilled = self.spill()
        spilled.add(empty(columns))
        try:
            for number in range(len(self.paths)):
                for rows in self._parts_of(number, columns, versions):
                    spilled.add(_within(rows, versions))
        except UNREADABLE as error:
            if self._table is None:
                return None
            raise unreadable_here(self._table, self._directory, error) from error
        return spilled.table()

    def sample_rows(self, columns: Sequence[Column], version: int, most: int) -> pa.Table | None:
        """Return at most ``most`` rows of one version, in no order; None to ask Spark.

        Reads no more row groups than necessary; otherwise like `rows`.
        """
        holding = self.ranges.within(VERSION_COLUMN, Ranges(((version, version),)))
        sampled = empty(columns)
        try:
            for number in np.flatnonzero(holding).tolist():
                for rows in self._parts_of(number, columns, (version, version)):
                    sampled = pa.concat_tables([sampled, _within(rows, (version, version))])
                    if len(sampled) >= most:
                        return sampled.slice(0, most)
        except UNREADABLE as error:
            if self._table is None:
                return None
            raise unreadable_here(self._table, self._directory, error) from error
        return sampled

    def each(self, columns: Sequence[Column]) -> Iterator[pa.Table]:
        """Yield the rows of one file after the other, in the order of the file.

        Raises:
            CorruptStoreError: files are gone or broken.
        """
        try:
            for number in range(len(self.paths)):
                yield pa.concat_tables([empty(columns), *self._parts_of(number, columns)])
        except UNREADABLE as error:
            if self._table is None:
                raise
            raise unreadable_here(self._table, self._directory, error) from error

    def batches(self, columns: Sequence[Column], rows: int) -> Iterator[pa.Table]:
        """Yield all rows, in the order of the files, with ``rows`` rows in memory at a time.

        Raises:
            CorruptStoreError: files are gone or broken.
        """
        try:
            for number, path in enumerate(self.paths):
                names = self.names_in(number, columns)
                with self._directory.parquet(path) as file:
                    self._count(file.metadata, range(file.num_row_groups), names)
                    first = 0
                    for batch in file.iter_batches(rows, columns=names, use_threads=False):
                        read = pa.Table.from_batches([batch])
                        part = self.marked.alive_from(read, number, first)
                        first += len(read)
                        yield in_arrow_types(_beside(part, self.ranges.values(number)), columns)
        except UNREADABLE as error:
            if self._table is None:
                raise
            raise unreadable_here(self._table, self._directory, error) from error

    def footers(self, files: Marks) -> Footers | None:
        """Return the footers of some files; None if they cannot be read here."""
        numbers = np.flatnonzero(files).tolist()
        try:
            missing = [number for number in numbers if number not in self._known]
            if missing:
                paths = map(self.paths.__getitem__, missing)
                said = side_by_side(self._directory.footer, paths, _FOOTERS_AT_A_TIME)
                values = (self.ranges.values(number) for number in missing)
                self._known |= zip(missing, map(FileFooter, said, values), strict=True)
        except UNREADABLE as error:
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

    def read_groups(
        self,
        footers: Mapping[int, FileFooter],
        groups: Sequence[RowGroup],
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
        with self._directory.parquet(self.paths[number], said) as file:
            rows = file.read_row_groups(chosen, names, use_threads=False)
        if numbers is not None:
            rows = rows.append_column(NUMBER.name, pa.array(numbers))
        if not all_rows:
            rows = self.marked.alive(rows, number, chosen, said)
        return _beside(rows, self.ranges.values(number))

    def names_in(self, number: int, columns: Sequence[Column]) -> list[str]:
        """Return the names of the columns that a file has: not those it is partitioned by."""
        return [column.name for column in columns if column.name not in self.ranges.values(number)]

    def _parts_of(
        self, number: int, columns: Sequence[Column], versions: tuple[int, int] | None = None
    ) -> Iterator[pa.Table]:
        """Yield a file's rows of some versions, and others that share a row group with them."""
        values = self.ranges.values(number)
        with self._directory.parquet(self.paths[number]) as file:
            groups, names = _groups_of(file.metadata, versions), self.names_in(number, columns)
            self._count(file.metadata, groups, names)
            for shared in shared_out(groups, file.metadata):
                read = file.read_row_groups(shared, names)
                rows = self.marked.alive(read, number, shared, file.metadata)
                yield in_arrow_types(_beside(rows, values), columns)

    def _count(self, footer: pq.FileMetaData, groups: Sequence[int], names: Sequence[str]) -> None:
        """Count the given columns of row groups as read."""
        for group in groups:
            self.readings.add(*amount_of(footer, group, names))


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
    beside = rows.drop_columns([name for name in values if name in rows.column_names])
    for name, value in values.items():
        beside = beside.append_column(name, pa.repeat(value, len(beside)))
    return beside
