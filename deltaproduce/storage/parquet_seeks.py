"""Seeks: the rows of some keys, from the Parquet files of a table that is in order, without Spark.

A step looks up keys that lie anywhere in a table. Spark reads every file and row group whose range
holds one of them, so in files with large groups a look-up of a thousand keys reads the more the
larger the table is. Tables in which steps look keys up are written with small row groups
(`Limits.group_rows`), and only those are read here whose range, as the files' footers say, holds
one of the keys: at most one a key where keys are unique, however many rows there are, and no Spark
job. This is the sparse index of a sorted file that SSTables have (Chang et al., "Bigtable", 2006).

The invariant: an answer has all rows of the keys, as Spark would read them; where that is not
certain there is none, and Spark is asked: for files that are not seen without it, keys that
are null or of a type without one plain order, footers that say nothing of ranges, files that are
gone or damaged (Spark says so), and for more rows than are quicker read here (`Limits.seek_rows`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql.types import StringType

from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local.arrays import (
    Marks,
    Numbers,
    empty,
    factorize,
    order_codes,
    places,
    sorting,
    taken,
)
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.ranges import rows_within
from deltaproduce.errors import CorruptStoreError, StorageError
from deltaproduce.model.partitions import Ranges
from deltaproduce.types.atoms import in_arrow_types
from deltaproduce.types.catalogue import atom
from deltaproduce.types.columns import VERSION, Column

Values = NDArray[np.generic]

_GROUPS_AT_A_TIME: Final = 64
_UNREADABLE: Final = (OSError, KeyError, pa.ArrowInvalid)


class _Group(NamedTuple):
    """A row group: which file it is in, and which of its groups it is."""

    file: int
    number: int


class _Ranges(NamedTuple):
    """The least and the greatest value of each row group in one column."""

    least: Values
    greatest: Values


class Reach(NamedTuple):
    """Which of some keys each row group may have.

    Attributes:
        in_order: the places of the keys in the order of the ranges.
        first: of each row group the first key in that order that it may have.
        last: the key after the last one.
    """

    in_order: Numbers
    first: Numbers
    last: Numbers


class _Bound(NamedTuple):
    """One column of the keys that are sought: which row groups may have them.

    Attributes:
        keys: each key's value, in the form and order of the ranges.
        ranges: of the table's row groups.
    """

    keys: Values
    ranges: _Ranges


class _Footers:
    """What the footers of a table's files say of its row groups."""

    def __init__(self, files: Sequence[pq.FileMetaData]) -> None:
        self.files = files
        self.groups = [
            _Group(number, group)
            for number, file in enumerate(files)
            for group in range(file.num_row_groups)
            if file.row_group(group).num_rows
        ]
        counts = [files[number].row_group(group).num_rows for number, group in self.groups]
        self.rows: Numbers = np.array(counts, np.int64)
        self._ranges: dict[str, _Ranges | None] = {}

    def bounds(self, keys: Selection) -> list[_Bound]:
        """Of the keys' columns those before the first that is not plain or has no ranges."""
        assert isinstance(keys.keys, pa.Table)
        bounds = []
        for column, values in zip(keys.columns, keys.keys.columns, strict=True):
            found = plain(values, column)
            ranges = None if found is None else self.ranges_in(column.name)
            if found is None or ranges is None:
                break
            bounds.append(_Bound(found, ranges))
        return bounds

    def groups_within(self, column: Column, values: Ranges) -> Numbers:
        """The row groups that may have a value in some ranges; all if their own are not known."""
        known = atom(column.data_type)
        is_number = known is not None and known.in_footers == "number"
        ranges = self.ranges_in(column.name) if is_number else None
        if ranges is None:
            return np.arange(len(self.groups))
        firsts, lasts = np.array(values.pairs, np.int64).reshape(-1, 2).T
        at = lasts.searchsorted(ranges.least, "left")  # the first range that does not end before
        reaches = np.append(firsts, np.iinfo(np.int64).max)[at] <= ranges.greatest
        return np.flatnonzero((at < len(lasts)) & reaches)

    def ranges_in(self, name: str) -> _Ranges | None:
        """The ranges of one column; None if a footer does not say them."""
        if name not in self._ranges:
            self._ranges[name] = self._read_ranges(name)
        return self._ranges[name]

    def _read_ranges(self, name: str) -> _Ranges | None:
        places = [_place(file, name) for file in self.files]
        ranges = []
        for number, group in self.groups:
            place = places[number]
            if place is None:
                return None
            known = self.files[number].row_group(group).column(place).statistics
            if known is None or not known.has_min_max:
                return None
            ranges.append((known.min_raw, known.max_raw))
        least, greatest = zip(*ranges, strict=True) if ranges else ((), ())
        return _Ranges(_values(least), _values(greatest))


class ParquetFiles:
    """The files of a table none of whose rows is deleted. Files never change: footers are kept.

    Args:
        directory: the table's.
        paths: from there.
        table: the table's name, if there is no Spark to be asked: what cannot be read is damaged.
    """

    def __init__(
        self, directory: Directory, paths: Sequence[str], table: str | None = None
    ) -> None:
        self._directory = directory
        self._paths = paths
        self._table = table

    def rows_of(self, keys: Selection, columns: Sequence[Column], most: int) -> pa.Table | None:
        """All rows of these keys, which are here, and of no others; None if Spark is to be asked.

        Args:
            columns: the table's columns; they come in the types of `arrow_type`.
            most: if there are more rows, some more than these are enough.
        """
        footers = self._footers
        if footers is None:
            return None
        bounds = footers.bounds(keys)
        if not bounds:
            return None
        reach = _reach(bounds)
        holding = np.flatnonzero(reach.first < reach.last)
        if footers.rows[holding].sum() > keys.engines.limits.seek_rows:
            return None
        return self._found_in(footers, holding, keys, columns, most)

    def first_rows(
        self,
        keys: Selection,
        by: Sequence[Column],
        count: int,
        columns: Sequence[Column],
        alive: Callable[[pa.Table], Marks],
    ) -> pa.Table | None:
        """The first rows of each of these keys, which are here; None if Spark is to be asked.

        Row groups are read from that end on, until no other can have a row that comes before.

        Args:
            by: what a key's rows are sorted by; where the first of it is null is left open.
            count: how many rows of a key are wanted at most.
            columns: as for `rows_of`.
            alive: which rows count.
        """
        footers = self._footers
        bounds = [] if footers is None else footers.bounds(keys)
        ranges = None if footers is None or not bounds else footers.ranges_in(by[0].name)
        if footers is None or ranges is None:
            return None
        assert isinstance(keys.keys, pa.Table)
        near = ranges.greatest if by[0].descending else ranges.least
        search = Nearest(keys.keys, _reach(bounds), near, by, count)
        left = keys.engines.limits.seek_rows
        while len(groups := search.groups()):
            left -= int(footers.rows[groups].sum())
            found = None if left < 0 else self._found_in(footers, groups, keys, columns)
            if found is None:
                return None
            search.take(found.filter(pa.array(alive(found))))
        return search.rows(columns)

    def _found_in(
        self,
        footers: _Footers,
        groups: Numbers,
        keys: Selection,
        columns: Sequence[Column],
        most: int | None = None,
    ) -> pa.Table | None:
        """The rows of some keys in some row groups; None if they cannot be read."""

        def read(some: Sequence[_Group]) -> pa.Table:
            return keys.exactly(in_arrow_types(self._read(footers.files, some), columns))

        return self._each_part((footers.groups[i] for i in groups.tolist()), read, columns, most)

    def _each_part(
        self,
        groups: Iterable[_Group],
        read: Callable[[Sequence[_Group]], pa.Table],
        columns: Sequence[Column],
        most: int | None,
    ) -> pa.Table | None:
        """What is read of row groups, side by side; if it is more than ``most`` rows, some more."""
        found, count = [empty(columns)], 0
        try:
            with ThreadPoolExecutor(os.cpu_count()) as threads:
                for rows in threads.map(read, _parts(groups)):
                    found.append(rows)
                    count += len(rows)
                    if most is not None and count > most:
                        threads.shutdown(cancel_futures=True)
                        break
        except (OSError, pa.ArrowInvalid) as error:
            self._check_answer(error)
            return None
        return pa.concat_tables(found)

    def rows_within(
        self, column: Column, values: Ranges, columns: Sequence[Column], most: int
    ) -> pa.Table | None:
        """All rows that have a value in some ranges, and no others; None if Spark is to be asked.

        Args:
            values: as whole numbers, as footers have them.
            columns: as for `rows_of`; and ``most``.
        """
        footers = self._footers
        if footers is None:
            return None

        def read(groups: Sequence[_Group]) -> pa.Table:
            rows = in_arrow_types(self._read(footers.files, groups), columns)
            return rows_within(rows, column, values)

        holding = footers.groups_within(column, values)
        return self._each_part((footers.groups[i] for i in holding.tolist()), read, columns, most)

    def count_within(self, column: Column, values: Ranges) -> int | None:
        """How many rows the row groups have that `rows_within` reads; None as there."""
        footers = self._footers
        if footers is None:
            return None
        return int(footers.rows[footers.groups_within(column, values)].sum())

    def rows(
        self,
        columns: Sequence[Column],
        versions: tuple[int, int] | None = None,
        most: int | None = None,
    ) -> pa.Table | None:
        """All rows, or those of some versions; None if Spark is to be asked.

        Args:
            columns: as for `rows_of`; the files may have others too.
            versions: only rows whose ``_version`` is between these two, both among them.
            most: as for `rows_of`; all are wanted if None.

        Raises:
            CorruptStoreError: files are gone or broken, and there is no Spark to be asked.
        """
        found, count = [empty(columns)], 0
        try:
            for path in self._paths:
                if most is not None and count > most:
                    break
                found.append(_within(self._rows_in(path, columns, versions), versions))
                count += len(found[-1])
        except _UNREADABLE as error:
            if self._table is None:
                return None
            raise unreadable_here(self._table, self._directory, error) from error
        return pa.concat_tables(found)

    @property
    def sizes(self) -> tuple[int, int] | None:
        """How many rows there are, and how many bytes without compression; None as for `rows`."""
        footers = self._footers
        if footers is None:
            return None
        groups = (footers.files[number].row_group(group) for number, group in footers.groups)
        return int(footers.rows.sum()), sum(group.total_byte_size for group in groups)

    def each(self, columns: Sequence[Column]) -> Iterator[pa.Table]:
        """The rows of one file after the other, in the order that they have there.

        Raises:
            CorruptStoreError: files are gone or broken.
        """
        try:
            for path in self._paths:
                yield self._rows_in(path, columns)
        except _UNREADABLE as error:
            if self._table is None:
                raise
            raise unreadable_here(self._table, self._directory, error) from error

    @cached_property
    def _footers(self) -> _Footers | None:
        """None if they are not to be had here."""
        try:
            return _Footers([self._directory.footer(path) for path in self._paths])
        except (OSError, pa.ArrowInvalid) as error:
            self._check_answer(error)
            return None

    def _check_answer(self, error: Exception) -> None:
        """Without Spark to be asked, say that the file system does not answer.

        Raises:
            StorageError: it does not.
        """
        if self._table is not None and self._directory.file_system.silence(error):
            raise unreadable_here(self._table, self._directory, error) from error

    def _read(self, footers: Sequence[pq.FileMetaData], groups: Sequence[_Group]) -> pa.Table:
        """Some row groups of one file."""
        number = groups[0].file
        with self._directory.parquet(self._paths[number], footers[number]) as file:
            return file.read_row_groups([group.number for group in groups], use_threads=False)

    def _rows_in(
        self, path: str, columns: Sequence[Column], versions: tuple[int, int] | None = None
    ) -> pa.Table:
        """The rows of a file, those of other versions only where a row group has some of these."""
        with self._directory.parquet(path) as file:
            groups = _groups_of(file.metadata, versions)
            rows = file.read_row_groups(groups, [column.name for column in columns])
        return in_arrow_types(rows, columns)


def unreadable_here(
    table: str, directory: Directory | None, error: BaseException
) -> CorruptStoreError | StorageError:
    """What is said of a table of a store without a session that cannot be read.

    Args:
        directory: where it is, or the store; None if only Spark knows.
        error: what came of it.
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


def plain(keys: pa.ChunkedArray, column: Column) -> Values | None:
    """Keys in the form and order of a footer's ranges; None if any is null, or of other types."""
    if keys.null_count:
        return None
    known = atom(column.data_type)
    if known is not None and known.in_footers == "number":
        numbers = keys.cast(pa.int32()) if pa.types.is_date(keys.type) else keys
        found: Values = numbers.cast(pa.int64()).to_numpy()
        return found
    is_text = known is not None and known.in_footers == "bytes"
    if is_text and column.data_type == StringType():  # a collation has another order
        return _values(keys.cast(pa.binary()).to_pylist())
    return None


class Nearest:
    """Which row groups to read for the first rows of some keys.

    Those that may have the nearest rows come first, and more and more of them at a time.

    Args:
        near: of each row group the value in the first of ``by`` that none of its rows is before.
    """

    def __init__(
        self, keys: pa.Table, reach: Reach, near: Values, by: Sequence[Column], count: int
    ) -> None:
        self._keys = keys.take(pa.array(reach.in_order))
        self._by, self._count, self._near = by, count, near
        sizes = np.maximum(reach.last - reach.first, 0)
        self._group = np.repeat(np.arange(len(sizes)), sizes)
        self._key = reach.first[self._group] + places([self._group])
        rank = np.unique(near, return_inverse=True)[1]
        order = np.lexsort(((-rank if by[0].descending else rank)[self._group], self._key))
        self._group, self._key = self._group[order], self._key[order]
        self._is_open = np.ones(len(keys), bool)
        self._is_read = np.zeros(len(sizes), bool)
        self._some = 1
        self._found: pa.Table | None = None

    def groups(self) -> Numbers:
        """Those to be read next; none if nothing can come before what was found."""
        waiting = self._waiting()
        near = waiting[places([self._key[waiting]]) < self._some]
        groups = np.unique(self._group[near])
        self._is_read[groups] = True
        self._some *= 2
        return groups

    def take(self, rows: pa.Table) -> None:
        """Rows that were found in these groups."""
        found = rows if self._found is None else pa.concat_tables([self._found, rows])
        names = self._keys.column_names
        numbers = factorize(pa.concat_tables([self._keys, found.select(names)]).columns)
        key_of = np.argsort(numbers[: len(self._keys)])  # each is there once
        key = key_of[numbers[len(self._keys) :]]
        order = sorting([key, *order_codes(found, self._by)])
        place = places([key[order]])
        order, place = order[place < self._count], place[place < self._count]
        self._found = taken(found, order)
        self._close(key[order], place)

    def rows(self, columns: Sequence[Column]) -> pa.Table:
        """The first rows of each key."""
        return empty(columns) if self._found is None else self._found

    def _close(self, key: Numbers, place: Numbers) -> None:
        """Have no more read for keys of which no other group has a row before the last one."""
        assert self._found is not None
        last = np.flatnonzero(place == self._count - 1)
        column = self._by[0]
        values = plain(self._found.column(column.name).take(pa.array(last)), column)
        waiting = self._waiting()
        first = waiting[places([self._key[waiting]]) == 0]
        nearest = np.full(len(self._is_open), -1)
        nearest[self._key[first]] = self._group[first]
        if values is not None:
            group = nearest[key[last]]
            near = self._near[group]
            is_past = values > near if column.descending else values < near
            self._is_open[key[last[is_past & (group >= 0)]]] = False

    def _waiting(self) -> Numbers:
        """The pairs of key and group that may have to be read, the nearest of each key first."""
        return np.flatnonzero(self._is_open[self._key] & ~self._is_read[self._group])


def _reach(bounds: Sequence[_Bound]) -> Reach:
    """Which keys are within the ranges of the row groups.

    A group that has one value in a column, and in those before it, is known by the next column as
    well. In a sorted table these are all groups but those at the border of two values, so keys are
    found as well where the first column has few values as where it has many.
    """
    in_order = np.lexsort([keys for keys, _ in reversed(bounds)])
    (keys, (least, greatest)), *others = [(keys[in_order], ranges) for keys, ranges in bounds]
    first, last = keys.searchsorted(least, "left"), keys.searchsorted(greatest, "right")
    alike = least == greatest
    for keys, (least, greatest) in others:
        for group in np.flatnonzero(alike & (first < last)).tolist():
            start, among = first[group], keys[first[group] : last[group]]
            first[group] = start + among.searchsorted(least[group], "left")
            last[group] = start + among.searchsorted(greatest[group], "right")
        alike = alike & (least == greatest)
    return Reach(in_order, first, last)


def _groups_of(footer: pq.FileMetaData, versions: tuple[int, int] | None) -> list[int]:
    """The row groups that may have rows of some versions."""
    every = range(footer.num_row_groups)
    place = None if versions is None else _place(footer, VERSION)
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
    numbers = rows.column(VERSION).to_numpy()
    return rows.filter(pa.array((numbers >= versions[0]) & (numbers <= versions[1])))


def _place(footer: pq.FileMetaData, name: str) -> int | None:
    """Which of a file's columns has this name; a part of another may have a path that is equal."""
    columns = (footer.schema.column(i) for i in range(footer.num_columns))
    return next((i for i, c in enumerate(columns) if c.name == c.path == name), None)


def _values(values: Sequence[object]) -> Values:
    """Whole numbers, or bytes as Python compares them: numpy's own bytes lose zeros at the end."""
    return np.array(values, object if values and isinstance(values[0], bytes) else np.int64)


def _parts(groups: Iterable[_Group]) -> Iterator[list[_Group]]:
    """Groups of one file each, so many as are read at a time."""
    for _, of_file in groupby(groups, attrgetter("file")):
        found = list(of_file)
        for first in range(0, len(found), _GROUPS_AT_A_TIME):
            yield found[first : first + _GROUPS_AT_A_TIME]
