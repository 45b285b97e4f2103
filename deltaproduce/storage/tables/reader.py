"""What is read of a store's tables: rows, files, sizes and commits, at a delta version.

Whether Spark or the driver reads is decided by `engines.deltas`, and by the size of the table.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from deltaproduce.engines.delta.tables import TableSize
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.kernels import checks as here
from deltaproduce.engines.local.marked.listing import MARKED
from deltaproduce.engines.marks import FILE_COLUMN, MISPLACED_COLUMN
from deltaproduce.engines.spark.columns import col
from deltaproduce.engines.spark.frames import fetched
from deltaproduce.engines.spark.kernels import checks as in_spark
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.storage.attempts import Attempt, Commit
from deltaproduce.storage.locations import StoreTable
from deltaproduce.storage.parquet.file_ranges import FilePaths, FileRanges
from deltaproduce.storage.parquet.files import ParquetFiles
from deltaproduce.storage.parquet.readings import Readings
from deltaproduce.storage.tables.access import TableAccess
from deltaproduce.types.columns import VERSION, Column
from deltaproduce.types.data_types import StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class TableReader:
    """Reads of the tables of one store. What the driver reads of files is counted (`readings`)."""

    def __init__(self, access: TableAccess) -> None:
        self._access = access
        self._files: dict[StoreTable, tuple[int, ParquetFiles | None]] = {}
        self._frames: dict[StoreTable, tuple[int, DataFrame]] = {}
        self.readings = Readings()

    def read(self, table: StoreTable, delta_version: int | None = None) -> DataFrame:
        """Return the table's rows at a delta version (by default the newest).

        Raises:
            CorruptStoreError: the table is one of the store's, but does not exist, or not at that
                version.
        """
        with self._access.readable(table):
            return self._access.delta.read(self._access.place(table), delta_version)

    def feed(self, table: StoreTable, first: int, last: int) -> DataFrame:
        """Return the table's change data feed from one delta version to another, both included.

        Delta checks that the feed is complete when the rows are used.
        """
        return self._access.delta.spark.change_feed(table.place, first, last)

    def files(self, table: StoreTable, delta_version: int) -> ParquetFiles | None:
        """Return the files of a delta version, to be read without Spark; None if only Spark can.

        Raises:
            SessionError: only Spark can, and the store has no session.
            CorruptStoreError: the store has no session, and the table does not exist.
        """
        known = self._files.get(table)
        if known is None or known[0] != delta_version:
            alone = table.name if self._access.engines.session is None else None
            place, files = self._access.place(table), None
            with self._access.readable(table):
                listed = self._access.delta.files(place, delta_version, ranges=True)
            if place.directory is not None and listed is not None:
                paths = FilePaths(listed.column("path").combine_chunks())
                ranges = FileRanges(listed, len(listed))
                files = ParquetFiles(
                    place.directory, paths, alone, self.readings, ranges, self._access.engines.spill
                )
                if known is not None and known[1] is not None:
                    files.know(known[1])
            known = delta_version, files
            self._files[table] = known
        return known[1]

    def paths(self, table: StoreTable, delta_version: int) -> tuple[str, ...] | None:
        """Return the full paths of a delta version's Parquet files, for engines other than Spark.

        None if rows of them are marked as deleted, or they are not seen without Spark.

        Raises:
            CorruptStoreError: the table does not exist, or not at that version.
        """
        directory, listed = self._access.seen(table).directory, self.listed(table, delta_version)
        if directory is None or listed is None:
            return None
        return tuple(directory.at(path).uri for path in listed.column("path").to_pylist())

    def uri(self, table: StoreTable) -> str | None:
        """Return where a table is, for engines other than Spark; None if only Spark finds it."""
        directory = self._access.seen(table).directory
        return None if directory is None else directory.uri

    def listed(self, table: StoreTable, delta_version: int) -> pa.Table | None:
        """Return the files of a delta version, as `local.delta.reads.files` has them.

        None in the same cases as `paths`.

        Raises:
            CorruptStoreError: the table does not exist, or not at that version.
        """
        with self._access.readable(table):
            listed = self._access.delta.files(self._access.seen(table), delta_version)
        return None if listed is None or MARKED in listed.column_names else listed

    def rows(
        self,
        table: StoreTable,
        delta_version: int,
        columns: Sequence[Column],
        versions: tuple[int, int] | None = None,
    ) -> pa.Table:
        """Return the rows of a small table at a delta version, on the driver.

        Args:
            versions: only rows whose ``_version`` is between these two, both included.
        """
        files = self.files(table, delta_version)
        fetched = None if files is None else files.rows(columns, versions)
        if fetched is not None:
            return fetched
        rows = self.read(table, delta_version)
        if versions is not None:
            rows = rows.where(f.col(VERSION).between(*versions))
        fetched = self._access.engines.table(rows, columns)
        self.readings.add(len(fetched), fetched.nbytes)
        return fetched

    def sample_rows(
        self,
        table: StoreTable,
        delta_version: int,
        columns: Sequence[Column],
        version: int,
        most: int,
    ) -> pa.Table:
        """Return at most ``most`` rows of one version of the store, on the driver, in no order.

        One Spark job, or none if the driver reads the files.

        Raises:
            CorruptStoreError: as for `read`.
        """
        files = self.files(table, delta_version)
        sampled = None if files is None else files.sample_rows(columns, version, most)
        if sampled is not None:
            return sampled
        rows = self.read(table, delta_version).where(f.col(VERSION) == version)
        return self._access.engines.table(rows.limit(most), columns)

    def size(self, table: StoreTable, delta_version: int) -> TableSize | None:
        """Return the size of a delta version of a table; None if only Spark can tell. No Spark job.

        Raises:
            CorruptStoreError: the table does not exist, or not at that version.
        """
        with self._access.readable(table):
            return self._access.delta.size(self._access.place(table), delta_version)

    def stored(
        self,
        table: StoreTable,
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

    def schema(self, table: StoreTable, delta_version: int) -> StructType:
        """Return the columns of a table at a delta version.

        Raises:
            CorruptStoreError: as for `read`.
        """
        with self._access.readable(table):
            return self._access.delta.schema(self._access.place(table), delta_version)

    def file_ends(self, table: StoreTable, delta_version: int, by: Sequence[Column]) -> pa.Table:
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

    def check_readable(self, table: StoreTable, delta_version: int) -> None:
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

    def _files_here(self, table: StoreTable, delta_version: int) -> ParquetFiles | None:
        """Return the files of a delta version if they are read without Spark."""
        files = self.files(table, delta_version)
        if files is None or self._access.engines.session is None:
            return files
        if files.size is None:
            return None
        rows, total_bytes = files.size
        is_small = self._access.engines.limits.is_small(rows, total_bytes // max(rows, 1))
        return files.without_spark(table.name) if is_small else None

    def read_whole(self, table: StoreTable, delta_version: int) -> DataFrame:
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
            with self._access.readable(table):
                rows = self._access.delta.spark.from_files(rows)
            self._frames[table] = delta_version, rows
        return rows

    def forget(self, table: StoreTable) -> None:
        """Forget the frames of a table, which is about to change."""
        self._frames.pop(table, None)

    def exists(self, table: StoreTable) -> bool:
        """Return whether a Delta table exists."""
        with self._access.readable(table):
            return self._access.delta.exists(self._access.place(table))

    def table_id(self, table: StoreTable) -> str | None:
        """Return Delta's id of one of the store's tables, which never changes; None if no table."""
        with self._access.readable(table):
            return self._access.delta.table_id(self._access.place(table))

    def recent_commits(self, table: StoreTable, since: int | None = None) -> tuple[Commit, ...]:
        """Return a table's newest commits, newest first; none if there is no table.

        No Spark job for a store at a local path; else one, or two if more than a few commits were
        made since.

        Args:
            since: a delta version; all commits from it on are returned, as far as Delta keeps them.
        """
        with self._access.readable(table):
            commits = self._access.delta.history(self._access.place(table), since=since)
        return tuple(
            Commit(one.delta_version, Attempt.parse(one.metadata), one.operation, one.micros)
            for one in commits
        )

    def has_moved(self, table: StoreTable, delta_version: int) -> bool:
        """Return whether a table may have a commit after a delta version: see `Deltas`."""
        return self._access.delta.has_moved(self._access.place(table), delta_version)

    def marks_rows(self, table: StoreTable) -> bool:
        """Return whether the driver replaces rows of a table, by marking them as deleted."""
        return self._access.delta.marks_rows(self._access.place(table))
