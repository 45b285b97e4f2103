"""The tables of a store: each edit becomes one Delta commit, or an error.

A `Location` names a store's tables, and an `Edit` changes one, in one Delta commit that carries its
attempt. The invariant: `Tables.commit` returns only if the table moved by exactly one commit, ours,
from the delta version that the write was computed from; compactions do not count, because they
change no row. Every other case is a `ConflictError`, or a `CorruptStoreError` if someone else has
written to the table. What was written then stays invisible, because readers resolve delta versions
through the version log. A commit of our own has the delta version that it was made for, or is
refused. Of others, the table's commits show which one is ours: each carries its attempt.

Only the engine knows Delta's syntax (`engines.spark.delta`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.delta_log import LOG, LogFiles
from deltaproduce.engines.delta_tables import (
    BrokenLogError,
    Place,
    RefusedError,
    TableSize,
    Write,
    Written,
    properties,
)
from deltaproduce.engines.deltas import Deltas
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local import commit_probe
from deltaproduce.engines.local.arrays import Numbers
from deltaproduce.engines.local.kernels import checks as here
from deltaproduce.engines.local.marked.listing import MARKED
from deltaproduce.engines.marks import FILE_COLUMN, MISPLACED_COLUMN
from deltaproduce.engines.paths import is_linked
from deltaproduce.engines.spark.columns import col
from deltaproduce.engines.spark.delta import Detail, unwritable
from deltaproduce.engines.spark.frames import fetched
from deltaproduce.engines.spark.kernels import checks as in_spark
from deltaproduce.engines.spark.sessions.damage import tells_of_damage, unreadable
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.errors import CorruptStoreError, DeltaProduceError, StorageError
from deltaproduce.storage.attempts import Attempt, Commit
from deltaproduce.storage.decisions.recovery import current, landed, overtaken
from deltaproduce.storage.edits import Deletion, Edit, Restore
from deltaproduce.storage.failpoints import effect
from deltaproduce.storage.locations import README, README_TEXT, Location, Table
from deltaproduce.storage.parquet.file_ranges import FileRanges
from deltaproduce.storage.parquet.readings import Readings
from deltaproduce.storage.parquet.seeks import ParquetFiles, unreadable_here
from deltaproduce.types.columns import VERSION, Column
from deltaproduce.types.data_types import StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROLLED_BACK: Final = "deltaproduce.rolledBackBy"
"""The property that gives a table a new commit if it is already at the restored version."""


class Tables:
    """The tables of one store, as effects: each method is one read or one commit."""

    def __init__(self, engines: Engines, location: Location) -> None:
        self.engines = engines
        self.location = location
        self._delta = Deltas(engines)
        self._files: dict[Table, tuple[int, ParquetFiles | None]] = {}
        self._frames: dict[Table, tuple[int, DataFrame]] = {}
        self._is_checked = False
        self.readings = Readings()

    def in_session(self, session: SparkSession) -> Tables:
        """Return the same tables in another session of the same Spark; names mean the same."""
        found = Tables(replace(self.engines, session=session), self.location)
        found._current = self._current
        return found

    @property
    def spark(self) -> SparkSession:
        """The user's session; see `Engines.spark`."""
        return self.engines.spark

    def existing(self, text: str) -> Table:
        """Return a table of someone else, by its path or name.

        A name keeps the meaning that it has at the first call, when a store is opened.
        """
        table = Table.existing(text)
        return table.within(*self._current) if table.in_catalog else table

    @cached_property
    def _current(self) -> tuple[str, str]:
        """The catalog and the schema that are current at the first call."""
        catalog = self.spark.catalog
        return catalog.currentCatalog(), catalog.currentDatabase()

    def read(self, table: Table, delta_version: int | None = None) -> DataFrame:
        """Return the table's rows at a delta version (by default the newest).

        Raises:
            CorruptStoreError: the table is one of the store's, but does not exist, or not at that
                version.
        """
        with self._whole(table):
            return self._delta.read(self._place(table), delta_version)

    def feed(self, table: Table, first: int, last: int) -> DataFrame:
        """Return the table's change data feed from one delta version to another, both included.

        Delta checks that the feed is complete when the rows are used.
        """
        return self._delta.spark.change_feed(table.place, first, last)

    def files(self, table: Table, delta_version: int) -> ParquetFiles | None:
        """Return the files of a delta version, to be read without Spark; None if only Spark can.

        Raises:
            SessionError: only Spark can, and the store has no session.
            CorruptStoreError: the store has no session, and the table does not exist.
        """
        known = self._files.get(table)
        if known is None or known[0] != delta_version:
            alone = table.name if self.engines.session is None else None
            place, found = self._place(table), None
            with self._whole(table):
                told = self._delta.files(place, delta_version, ranges=True)
            if place.directory is not None and told is not None:
                paths, ranges = told.column("path").to_pylist(), FileRanges(told, len(told))
                found = ParquetFiles(
                    place.directory, paths, alone, self.readings, ranges, self.engines.spill
                )
                if known is not None and known[1] is not None:
                    found.know(known[1])
            known = delta_version, found
            self._files[table] = known
        return known[1]

    def paths(self, table: Table, delta_version: int) -> tuple[str, ...] | None:
        """Return the full paths of a delta version's Parquet files, for engines other than Spark.

        None if rows of them are marked as deleted, or they are not seen without Spark.

        Raises:
            CorruptStoreError: the table does not exist, or not at that version.
        """
        directory, told = self._seen(table).directory, self.listed(table, delta_version)
        if directory is None or told is None:
            return None
        return tuple(directory.at(path).uri for path in told.column("path").to_pylist())

    def uri(self, table: Table) -> str | None:
        """Return where a table is, for engines other than Spark; None if only Spark finds it."""
        directory = self._seen(table).directory
        return None if directory is None else directory.uri

    def listed(self, table: Table, delta_version: int) -> pa.Table | None:
        """Return what the log says of a delta version's files, in the form of `local.delta.files`.

        None in the same cases as `paths`.

        Raises:
            CorruptStoreError: the table does not exist, or not at that version.
        """
        with self._whole(table):
            told = self._delta.files(self._seen(table), delta_version)
        return None if told is None or MARKED in told.column_names else told

    def _seen(self, table: Table) -> Place:
        """Return a table's place; with its directory if that is seen, also for a catalog table."""
        place = self._place(table)
        if place.in_catalog:
            return self._delta.within(Place(self.directory(table), in_catalog=False))
        return place

    def rows(
        self,
        table: Table,
        delta_version: int,
        columns: Sequence[Column],
        versions: tuple[int, int] | None = None,
    ) -> pa.Table:
        """Return the rows of a small table at a delta version, on the driver.

        Args:
            versions: only rows whose ``_version`` is between these two, both included.
        """
        files = self.files(table, delta_version)
        found = None if files is None else files.rows(columns, versions)
        if found is not None:
            return found
        rows = self.read(table, delta_version)
        if versions is not None:
            rows = rows.where(f.col(VERSION).between(*versions))
        found = self.engines.table(rows, columns)
        self.readings.add(len(found), found.nbytes)
        return found

    def some_rows(
        self, table: Table, delta_version: int, columns: Sequence[Column], version: int, most: int
    ) -> pa.Table:
        """Return at most ``most`` rows of one version of the store, on the driver, in no order.

        One Spark job, or none if the driver reads the files.

        Raises:
            CorruptStoreError: as for `read`.
        """
        files = self.files(table, delta_version)
        found = None if files is None else files.some_rows(columns, version, most)
        if found is not None:
            return found
        rows = self.read(table, delta_version).where(f.col(VERSION) == version)
        return self.engines.table(rows.limit(most), columns)

    def size(self, table: Table, delta_version: int) -> TableSize | None:
        """Return the size of a delta version of a table; None if only Spark can tell. No Spark job.

        Raises:
            CorruptStoreError: the table does not exist, or not at that version.
        """
        with self._whole(table):
            return self._delta.size(self._place(table), delta_version)

    def stored(
        self,
        table: Table,
        delta_version: int,
        columns: Sequence[Column],
        versions: tuple[int, int] | None = None,
    ) -> Rows:
        """Return all rows at a delta version: on the driver if the table is small, else in Spark.

        Args:
            versions: only those whose ``_version`` is between these two, both included.

        Raises:
            CorruptStoreError: as for `read`.
        """
        if self._files_here(table, delta_version) is not None:
            return self.rows(table, delta_version, columns, versions)
        rows = self.read(table, delta_version)
        return rows if versions is None else rows.where(f.col(VERSION).between(*versions))

    def schema(self, table: Table, delta_version: int) -> StructType:
        """Return the columns of a table at a delta version.

        Raises:
            CorruptStoreError: as for `read`.
        """
        with self._whole(table):
            return self._delta.schema(self._place(table), delta_version)

    def file_ends(self, table: Table, delta_version: int, by: Sequence[Column]) -> pa.Table:
        """Return the first and the last row of each file of a delta version without deleted rows.

        One Spark job; none if the table is small, or without a session.

        Args:
            by: the expected order of the rows of a file.

        Returns:
            `marks.FILE` and `marks.MISPLACED`, and the columns ``by``.
        """
        files = self._files_here(table, delta_version)
        if files is not None:
            return here.file_ends(files.each(by), by)
        ends = in_spark.file_ends(self.read(table, delta_version), by)
        return fetched(ends, (FILE_COLUMN, MISPLACED_COLUMN, *by))

    def check_readable(self, table: Table, delta_version: int) -> None:
        """Read all rows and columns of a delta version; Spark jobs as for `file_ends`.

        Raises:
            Exception: files of it are gone or broken (`damage.tells_of_damage`, CorruptStoreError).
        """
        files = self._files_here(table, delta_version)
        if files is not None:
            fields = self.schema(table, delta_version).fields
            columns = [Column(field.name, field.dataType) for field in fields]
            deque(files.each(columns), maxlen=0)
            return
        rows = self.read(table, delta_version)
        rows.agg(*(f.count_if(col(name).isNull()) for name in rows.columns)).collect()

    def _files_here(self, table: Table, delta_version: int) -> ParquetFiles | None:
        """Return the files of a delta version if they are read without Spark."""
        files = self.files(table, delta_version)
        if files is None or self.engines.session is None:
            return files
        if files.size is None:
            return None
        rows, total_bytes = files.size
        is_small = self.engines.limits.is_small(rows, total_bytes // max(rows, 1))
        return files.without_spark(table.name) if is_small else None

    def read_whole(self, table: Table, delta_version: int) -> DataFrame:
        """Return the rows at a delta version that was written whole: in order, and none deleted.

        They are read from the files, which are few: see `SparkDelta.from_files`.

        Raises:
            CorruptStoreError: as for `read`.
        """
        known = self._frames.get(table)
        if known is not None and known[0] == delta_version:
            return known[1]
        rows = self.read(table, delta_version)
        if not table.in_catalog:
            with self._whole(table):
                rows = self._delta.spark.from_files(rows)
            self._frames[table] = delta_version, rows
        return rows

    def exists(self, table: Table) -> bool:
        """Return whether a Delta table exists."""
        with self._whole(table):
            return self._delta.exists(self._place(table))

    def _place(self, table: Table) -> Place:
        """Return a table's place; with its directory if it is the store's and seen."""
        return self._known(table.place) if self.location.has(table) else table.place

    def _known(self, place: Place) -> Place:
        """Return a place of the store's, with its directory if that is seen without Spark."""
        root = self._root.directory
        if root is None:
            return place
        inside = place.address.removeprefix(f"{self.location.address}/")
        return replace(place, directory=root.at(inside))

    def table_id(self, table: Table) -> str | None:
        """Return Delta's id of one of the store's tables, which never changes; None if no table."""
        with self._whole(table):
            return self._delta.table_id(self._place(table))

    def detail(self, table: Table) -> Detail | None:
        """Return Delta's description of a table; None if there is no table. One Spark job."""
        return self._delta.spark.describe(table.place)

    def places(self, tables: Iterable[Table]) -> dict[str, str]:
        """Return the directories of the tables that exist, by name.

        One Spark job for each table in a catalog.
        """
        found = ((table.name, self._directory(table)) for table in tables)
        return {name: directory for name, directory in found if directory is not None}

    def directory(self, table: Table) -> str:
        """Return the directory of a table's files; one Spark job in a catalog.

        Raises:
            CorruptStoreError: there is no such table.
        """
        found = self._directory(table)
        if found is None:
            raise CorruptStoreError(f"there is no table {table.address}", table=table.name)
        return found

    def _directory(self, table: Table) -> str | None:
        if not table.in_catalog:
            return table.address
        detail = self.detail(table)
        return None if detail is None else detail.location

    def found(self) -> tuple[Table, ...]:
        """Return the tables in the place of the store's tables, whoever made them.

        No Spark job on a local file system, else one. Leaves out the tables of a store in a
        subfolder, and everything behind a link.
        """
        location = self.location
        if location.in_catalog:
            return tuple(map(location.named, self._delta.spark.tables_in(location.address)))
        tables = location.among(self._delta.tables_below(self._root))
        return tuple(t for t in tables if not is_linked(location.address, t.address))

    def recent_commits(self, table: Table, since: int | None = None) -> tuple[Commit, ...]:
        """Return a table's newest commits, newest first; none if there is no table.

        No Spark job for a store at a local path; else one, or two if more than a few commits were
        made since.

        Args:
            since: a delta version; all commits from it on are returned, as far as Delta keeps them.
        """
        with self._whole(table):
            found = self._delta.history(self._place(table), since=since)
        return tuple(
            Commit(one.delta_version, Attempt.parse(one.metadata), one.operation, one.micros)
            for one in found
        )

    def has_moved(self, table: Table, delta_version: int) -> bool:
        """Return whether a table may have a commit after a delta version: see `Deltas`."""
        return self._delta.has_moved(self._place(table), delta_version)

    def commit(
        self, table: Table, edit: Edit | Restore | Deletion, attempt: Attempt, base: int | None
    ) -> int:
        """Make one data commit and return the table's new delta version.

        Args:
            base: the delta version that the edit was computed from; None for a table that no
                version has pinned, which the edit overwrites.

        Raises:
            ConflictError: the table moved from ``base`` by more than this commit and compactions.
            CorruptStoreError: it did, and not by a store.
        """
        at, written = base, Written()
        if isinstance(edit, Edit) and edit.replaced is not None and base is not None:
            at = self._compacted(table, attempt, base)
        places = self._places(table, edit, at) if isinstance(edit, Edit) else None
        self._frames.pop(table, None)
        with self._effect("commit", table, attempt, base):
            match edit:
                case Edit():
                    # A new table, or one that a version pins, has the properties that tables get
                    # here. Any other may have any properties, and an overwrite would keep them.
                    is_known = base is not None or not self.exists(table)
                    metadata = attempt.metadata(table.name)
                    write = self._write(edit, metadata, is_known=is_known)
                    write = replace(write, replaced=places, found_at=at)
                    written = self._delta.write(self._place(table), write)
                case Restore():
                    self._set_back(table, edit.delta_version, attempt, base)
                case Deletion():
                    metadata = attempt.metadata(table.name)
                    self._delta.delete(self._place(table), edit.predicate, metadata)
        if at is not None and written.delta_version == at + 1:
            return at + 1
        commits = self.recent_commits(table, base)
        made = landed(attempt, base, commits)
        if made is not None and isinstance(edit, Restore):
            # A restore must directly follow its base, without even a compaction in between.
            made = made if made.delta_version - 1 == base else None
        if made is not None:
            # Tables may be compacted at any time, even by Delta right after a commit.
            return current(made.delta_version, commits) or made.delta_version
        unmoved = None if base is None else current(base, commits)
        if isinstance(edit, Deletion) and unmoved is not None:
            return unmoved  # no row matched
        raise overtaken(table.name, attempt, base, commits)

    def commit_fenced(
        self,
        table: Table,
        rows: pa.Table,
        columns: Sequence[Column],
        attempt: Attempt,
        *,
        overwrite: bool = False,
    ) -> None:
        """Append to a table, or overwrite it; one commit per fencing token takes effect.

        Delta refuses a concurrent commit with the same token, and skips a later one silently; so
        the caller has to read the table's commits to find out which one took effect.

        Args:
            rows: a few rows.

        Raises:
            ConflictError: Delta refused the commit.
        """
        write = Write(
            rows,
            tuple(columns),
            "overwrite" if overwrite else "append",
            attempt.metadata(table.name),
            fence=attempt.fencing_token,
        )
        with self._effect("drop versions" if overwrite else "publish", table, attempt):
            self._delta.write(self._place(table), write)

    def merge(self, table: Table, edit: Edit, paths: Iterable[str], base: int) -> None:
        """Write the rows of some files again, in place of these files; change no row.

        Args:
            edit: adds these rows, in order.
            paths: the files' paths from the table's directory.
            base: the table's delta version.

        Raises:
            ConflictError: the table has moved since.
        """
        write = self._write(edit, "", is_known=True)
        write = replace(write, merged=frozenset(paths), found_at=base)
        with self._effect("optimize", table):
            self._delta.write(self._place(table), write)

    def restore(self, table: Table, delta_version: int, attempt: Attempt) -> int:
        """Restore a table that ran ahead to what the head pins; return its new delta version.

        The commit names its attempt, but does not count as part of the attempt's work.
        """
        told = replace(attempt, given=None, part=None)
        with self._effect("restore", table, told):
            self._set_back(table, delta_version, told, None)
        commits = self.recent_commits(table, delta_version)
        for commit in commits:
            if commit.attempt == told:
                return commit.delta_version
        raise overtaken(table.name, told, delta_version, commits)

    def create(self, table: Table, columns: Sequence[Column]) -> None:
        """Create an empty table if none exists, or only one that has no commit yet.

        Its files have no statistics: they would repeat long texts in the log, for each file twice.
        The store's folder gets its text, too, if it is seen without Spark.
        """
        with self._effect("create", table):
            wanted = properties((), marked=False)
            self._delta.create(self._place(table), columns, wanted)
            self._tell_people()

    def _tell_people(self) -> None:
        """Write the text of the store's folder where there is none, if it can be written."""
        directory = self._root.directory
        if directory is not None:
            with suppress(OSError):
                if not directory.exists(README):
                    directory.write(README, README_TEXT)

    def put_together(self, table: Table, *, in_order: bool = True) -> None:
        """Merge small files into large ones; change no row.

        Args:
            in_order: whether the rows of a file stay in order, if there is a session.
        """
        with self._effect("optimize", table):
            self._delta.optimize(self._place(table), in_order=in_order)

    def check_cleaned(self, table: Table) -> None:
        """Refuse a table whose files cannot be found and removed; see `Deltas.check_cleaned`."""
        self._delta.check_cleaned(self._place(table))

    def unneeded(
        self, table: Table, needed: Collection[int], unfinished_since: datetime
    ) -> pa.Table | None:
        """Return the files that no version needs; None if Spark finds them: see `storage.files`."""
        with self._whole(table):
            return self._delta.unneeded(self._place(table), needed, unfinished_since)

    def remove_files(self, table: Table, inventory: Rows) -> None:
        """Remove files of a table, regardless of Delta's retention; the table's current files stay.

        Args:
            inventory: see `Deltas.remove_files`.
        """
        with self._effect("vacuum", table):
            self._delta.remove_files(self._place(table), inventory)

    def log_files(self, table: Table) -> LogFiles | None:
        """Return the files of a table's log; None if Python does not remove files there."""
        with self._whole(table):
            return self._delta.log_files(self._place(table))

    def may_begin(self, table: Table, checkpoint: int) -> bool:
        """Return whether a table's log may begin with a checkpoint: see `Deltas.may_begin`."""
        with self._whole(table):
            return self._delta.may_begin(self._place(table), checkpoint)

    def named_log_files(self, table: Table, names: Iterable[str]) -> list[str]:
        """Return files of a table's log as Spark names them. Only where `log_files` returns some.

        Args:
            names: their names in the log's directory.
        """
        directory = self._place(table).directory
        return [] if directory is None else [directory.named(f"{LOG}/{name}") for name in names]

    def remove_log_files(self, table: Table, names: Sequence[str]) -> None:
        """Remove files of a table's log, one after the other: see `Deltas.remove_log_files`."""
        with self._effect("trim", table):
            self._delta.remove_log_files(self._place(table), names)

    def drop(self, table: Table) -> None:
        """Remove a table with all of its files."""
        with self._effect("drop", table):
            self._delta.drop(self._place(table))

    def has_others(self, table: Table) -> bool:
        """Return whether a table's directory contains other tables, at any depth."""
        return not table.in_catalog and self._delta.has_others(self._place(table))

    def ensure_schema(self, location: Location | None = None) -> None:
        """Create the catalog's schema if it is missing; a path needs nothing.

        Args:
            location: a location other than the store's.
        """
        place = self.location if location is None else location
        if place.in_catalog:
            with effect("create schema", place.address):
                self._delta.spark.create_schema(place.address)

    def many_effects(self) -> AbstractContextManager[None]:
        """Return a context for many effects, which reads the user's settings only once."""
        return self._delta.many_effects()

    def _write(self, edit: Edit, metadata: str, *, is_known: bool) -> Write:
        """Return an edit as a write of Delta's."""
        limits, small = self.engines.limits, edit.sought and self._root.directory is not None
        write = Write(
            edit.rows,
            edit.columns,
            "append",
            metadata,
            file_rows=edit.file_rows,
            group_rows=limits.rows_of_group(by_ends=edit.by_ends) if small else None,
            file_ends=edit.file_ends,
            lookup=edit.lookup,
            partition=edit.partition,
            compression=edit.compression,
            within=edit.within,
        )
        if edit.predicate is not None:
            return replace(write, mode="replace", predicate=edit.predicate)
        if not edit.overwrite:
            return write
        if edit.within is not None:
            return replace(write, mode="overwrite")
        made_with = properties(edit.lookup, marked=edit.marked, partitioned=bool(edit.partition))
        is_kept = is_known and not edit.apart
        return replace(write, mode="overwrite" if is_kept else "create", properties=made_with)

    def marks_rows(self, table: Table) -> bool:
        """Return whether the driver replaces rows of a table, by marking them as deleted."""
        return self._delta.marks_rows(self._place(table))

    def _compacted(self, table: Table, attempt: Attempt, base: int) -> int:
        """Return a table's newest delta version if nothing but compactions came after ``base``.

        Raises:
            ConflictError, CorruptStoreError: something did.
        """
        if not self.has_moved(table, base):
            return base
        commits = self.recent_commits(table, base)
        found = current(base, commits)
        if found is None:
            raise overtaken(table.name, attempt, base, commits)
        return found

    def _places(self, table: Table, edit: Edit, base: int | None) -> dict[str, Numbers] | None:
        """Return where the rows are that an edit replaces; None if it replaces none by pairs.

        Raises:
            CorruptStoreError: files of the table are gone or broken, or lack rows.
        """
        if edit.replaced is None:
            return None
        assert base is not None  # there are rows to replace
        files = self.files(table, base)
        columns = [c for c in edit.columns if c.name in edit.replaced.column_names]
        ordered = edit.replaced.select([c.name for c in columns])
        found = None
        if files is not None:
            found = files.places_of(ordered, columns, edit.lookup, self.engines)
        if found is None or sum(map(len, found.values())) < len(edit.replaced):
            raise CorruptStoreError(
                f"table {table.name!r} lacks rows that a version has, because files of it were "
                "removed or changed by someone else; store.verify() says what else is wrong, "
                "store.repair() mends it",
                table=table.name,
            )
        return found

    def _set_back(
        self, table: Table, delta_version: int, attempt: Attempt, base: int | None
    ) -> None:
        """Give a table the rows of an earlier delta version, in its own commit.

        Restoring a table to its current version makes no commit. Then a property is set instead,
        because a fold of a version that no longer counts may be under way, and must find that the
        table moved.
        """
        metadata = attempt.metadata(table.name)
        if base == delta_version:
            by = str(attempt.version)
            self._delta.set_property(self._place(table), _ROLLED_BACK, by, metadata)
        else:
            self._delta.restore(self._place(table), delta_version, metadata)

    @cached_property
    def _root(self) -> Place:
        """The store's place; with its directory if that is seen without Spark."""
        place = self.location.place
        return place if place.in_catalog else self._delta.within(place)

    @contextmanager
    def _whole(self, table: Table) -> Iterator[None]:
        """Turn damage of one of the store's logs into an error that names the table."""
        try:
            yield
        except BrokenLogError as error:
            raise self._unreadable(table, error) from error
        except Exception as error:
            if not self.location.has(table) or not tells_of_damage(error):
                raise
            raise unreadable(table.name, error) from error

    def _unreadable(self, table: Table, error: BrokenLogError) -> DeltaProduceError:
        """Return the error for a log that cannot be read: it is damaged, or cannot be reached."""
        root = self._root.directory
        return unreadable_here(table.name, root, error.__cause__ or error)

    def _check_commits(self) -> None:
        """Refuse a store where two writers could overwrite each other's commits; check once.

        Raises:
            StorageError: delta-rs would commit there, and the file system does not prevent that.
        """
        root = None if self._is_checked else self._delta.unproven(self._root)
        if root is None:
            return
        with effect("probe", self.location.address):
            fault = commit_probe.fault(root)
        if fault is not None:
            raise StorageError(
                f"no store can be written at {self.location.address} without a session: {fault}. "
                "Use a service that puts a file on the condition that it is not there "
                "(If-None-Match), or write all versions in one driver of Spark"
            )
        self._is_checked = True

    @contextmanager
    def _effect(
        self, name: str, table: Table, attempt: Attempt | None = None, base: int | None = None
    ) -> Iterator[None]:
        """Run an effect on a table between its fail points, and translate its errors.

        Raises:
            ConflictError: Delta refuses it because of another writer.
            CorruptStoreError: Delta refuses it because of someone else's commit.
            StorageError: there is no space, or no right to write.
        """
        try:
            self._check_commits()
            with effect(name, table.name):
                yield
        except RefusedError as refused:
            commits = self.recent_commits(table, base)
            raise overtaken(table.name, attempt, base, commits) from refused.__cause__
        except Exception as error:
            root = self._root.directory
            found = unwritable(error) or (root and root.file_system.silence(error))
            if found is None or isinstance(error, DeltaProduceError):
                raise
            raise StorageError(
                f"table {table.name!r} cannot be written ({found}): nothing of this is visible. "
                f"Make room or give the right to write at {table.address}, and run it again",
                table=table.name,
            ) from error
