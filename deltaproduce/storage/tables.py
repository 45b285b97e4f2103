"""Delta tables: the only module that reads and writes them.

A store's tables are named by a `Location` and changed by an `Edit`, in one Delta commit that
carries its attempt. The invariant: `Tables.commit` returns only when the table moved by exactly one
commit, ours, from the delta version that the write was computed from, compactions aside, which
change no row; every other case is a `ConflictError`, or, if someone else has written to it, a
`CorruptStoreError`, and what was written stays invisible, because readers resolve delta versions
through the version log. Which commit is ours is read from the commits, which carry their attempt.
And every effect has a session of its own: the user's session is read with, and never written with.

Nothing else knows how Delta spells things: options, properties, history, `RESTORE`, paths against
catalog names.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Final

from delta import exceptions as conflicts
from delta.tables import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, Row, SparkSession
from pyspark.sql import types as t

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.spark import settings
from deltaproduce.engines.spark.damage import tells_of_damage, unreadable
from deltaproduce.engines.spark.file_systems import is_linked, is_local, local_path, remove_table
from deltaproduce.errors import StorageError
from deltaproduce.storage.delta_log import newest_commits
from deltaproduce.storage.edits import Deletion, Edit, Restore
from deltaproduce.storage.failpoints import effect
from deltaproduce.storage.locations import Location, Table, commit_file
from deltaproduce.storage.parquet_seeks import ParquetFiles
from deltaproduce.storage.recovery import current, landed, overtaken
from deltaproduce.storage.versions import Attempt, Commit
from deltaproduce.types.ddl import identifier

_APP_ID = "deltaproduce"
_COMMITS_A_CHECKPOINT = 50  # one costs as much as five commits; Delta makes one every ten
_RECENT_COMMITS = 3  # asked for at first: ours, and what a table service may add behind it
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"  # for what takes no options
_MARKED_ROWS = "spark.databricks.delta.delete.deletionVectors.persistent"
_MARKS_ROWS = "delta.enableDeletionVectors"
_GROUP_ROWS = "parquet.block.row.count.limit"  # Delta passes it to Parquet as a setting only
_UNKNOWN_COLUMN = "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"
_FOR_EVER = "interval 36500 days"
# By default Delta reads no delta version that is a week old and not the newest, lets VACUUM remove
# its files, and forgets it after a month; but versions pin it.
# A session may want deletion vectors in all new tables, but delta-rs makes no pandas or Arrow table
# of a table that may have them; so only those have them whose rows are replaced.
_KEPT: Final = {
    _MARKS_ROWS: "false",
    "delta.checkpointInterval": str(_COMMITS_A_CHECKPOINT),
    "delta.deletedFileRetentionDuration": _FOR_EVER,
    "delta.logRetentionDuration": _FOR_EVER,
}
_UNWRITABLE: Final = re.compile(
    "No space left on device|Disk quota exceeded|Read-only file system|Permission denied|"
    "Access ?Denied|403 Forbidden"
)
PLAIN_PATH: Final = re.compile(r"[A-Za-z0-9_./:=@+~-]+")
"""Paths that Spark neither takes for patterns nor encodes."""

# Data skipping on other types is refused by Delta (DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_TYPE).
_WITHOUT_STATISTICS = (t.BooleanType, t.BinaryType)

_CONFLICTS: Final = (
    conflicts.ConcurrentAppendException,
    conflicts.ConcurrentDeleteDeleteException,
    conflicts.ConcurrentDeleteReadException,
    conflicts.ConcurrentTransactionException,
    conflicts.ConcurrentWriteException,
    conflicts.DeltaConcurrentModificationException,
    conflicts.MetadataChangedException,
    conflicts.ProtocolChangedException,
)

_SETTINGS: Final = {
    # Delta would re-check each written row against the predicate: quadratic in a list of literals.
    "spark.databricks.delta.replaceWhere.constraintCheck.enabled": "false",
    # Metrics about the commit that nobody here reads, for several Spark jobs (delta-io/delta#2718).
    "spark.databricks.delta.commitStats.collect": "false",
    # A vacuum removes files that no version needs, however young they are.
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.vacuum.logging.enabled": "false",  # it would commit to the table
    # When files are put together: those below the one size, to files up to the other.
    "spark.databricks.delta.optimize.minFileSize": str(16 << 20),
    "spark.databricks.delta.optimize.maxFileSize": str(128 << 20),
}
"""What the sessions have in which tables are written."""


class Tables:
    """The tables of one store, as effects: each method is one read or one commit."""

    def __init__(self, engines: Engines, location: Location) -> None:
        self.engines = engines
        self.spark = spark = engines.spark
        self.location = location
        self._sessions = settings.Sessions(spark, _SETTINGS)
        self._written_whole: dict[Table, tuple[int, DataFrame, ParquetFiles | None]] = {}

    def existing(self, text: str) -> Table:
        """A table of someone else, by its path or name.

        A name means what it means when this is asked first, as a store is opened.
        """
        table = Table.existing(text)
        return table.within(*self._current) if table.in_catalog else table

    @cached_property
    def _current(self) -> tuple[str, str]:
        """The catalog and the schema that are current, before someone goes to others."""
        catalog = self.spark.catalog
        return catalog.currentCatalog(), catalog.currentDatabase()

    def read(self, table: Table, delta_version: int | None = None) -> DataFrame:
        """The table's rows at a delta version (the newest without one).

        Raises:
            CorruptStoreError: it is one of the store's, and is not there, or not at that version.
        """
        with self._whole(table):
            reader = self.spark.read
            if delta_version is not None:
                reader = reader.option("versionAsOf", delta_version)
            return _loaded(reader, table)

    def feed(self, table: Table, first: int, last: int) -> DataFrame:
        """What the table's change data feed says of some delta versions, both among them.

        Delta finds out whether it has all of it when the rows are used.
        """
        reader = self.spark.read.option("readChangeFeed", "true")
        return _loaded(reader.option("startingVersion", first).option("endingVersion", last), table)

    def read_whole(self, table: Table, delta_version: int) -> tuple[DataFrame, ParquetFiles | None]:
        """The rows at a delta version that was written whole: in order, and none of them deleted.

        They come from the files: one Spark job instead of Delta's three, or seven. Delta plans each
        read with jobs over its list of files, to leave some out by their statistics; these files
        are few, and Parquet's own statistics do.

        Returns:
            The rows, and their files if those can be read by name.

        Raises:
            CorruptStoreError: as `read`.
        """
        known = self._written_whole.get(table)
        if known is not None and known[0] == delta_version:
            return known[1:]
        rows, files = self.read(table, delta_version), None
        if table.in_catalog:
            return rows, None
        with self._whole(table):
            addresses = rows.inputFiles()
            if addresses and all(PLAIN_PATH.fullmatch(address) for address in addresses):
                rows = self.spark.read.schema(rows.schema).parquet(*addresses)
                files = ParquetFiles(addresses)
        self._written_whole[table] = delta_version, rows, files
        return rows, files

    def _layout(self, edit: Edit) -> dict[str, str]:
        """The settings of a session in which Parquet lays out an edit's files as they are read."""
        small = edit.sought and self._local
        return {_GROUP_ROWS: str(self.engines.limits.group_rows)} if small else {}

    @cached_property
    def _local(self) -> bool:
        """Whether the store's files are on this machine, where a small row group costs little."""
        return not self.location.in_catalog and is_local(self.spark, self.location.address)

    def exists(self, table: Table) -> bool:
        """Whether there is a Delta table."""
        if table.in_catalog:
            return self.spark.catalog.tableExists(table.address)
        with self._whole(table):
            return bool(DeltaTable.isDeltaTable(self.spark, table.address))

    def places(self, tables: Iterable[Table]) -> dict[str, str]:
        """The directories of those of some tables that are there, by name.

        One Spark job a table in a catalog.
        """
        found = {}
        for table in tables:
            with suppress(AnalysisException):  # there is no such table
                found[table.name] = self.directory(table)
        return found

    @contextmanager
    def _whole(self, table: Table, *, but: type[Exception] | tuple[()] = ()) -> Iterator[None]:
        """Says that one of the store's tables has lost its log, or some of it.

        Args:
            but: errors that may mean that there is no table.
        """
        try:
            yield
        except but:
            raise
        except Exception as error:
            if not self.location.has(table) or not tells_of_damage(error):
                raise
            raise unreadable(table.name, error) from error

    def recent_commits(self, table: Table, since: int | None = None) -> tuple[Commit, ...]:
        """A table's newest commits, newest first; none when there is no table.

        Of a store at a path on this machine, no Spark job; else one, or two if more than a few were
        made since.

        Args:
            since: a delta version; all commits from it on are returned, as far as Delta keeps them.
        """
        path = local_path(table.address) if self._local and self.location.has(table) else None
        found = None if path is None else newest_commits(Path(path), since)
        if found is not None:
            return found
        commits = self._commits(table, _RECENT_COMMITS)
        if since is not None and commits and commits[-1].delta_version > since:
            return self._commits(table, commits[0].delta_version - since + 1)
        return commits

    def _commits(self, table: Table, limit: int) -> tuple[Commit, ...]:
        try:
            with self._whole(table, but=AnalysisException):
                rows = _delta_table(self.spark, table).history(limit)
                found = rows.selectExpr(
                    "version", "userMetadata", "operation", "unix_micros(timestamp) AS micros"
                ).collect()
        except AnalysisException:
            if self.exists(table):
                raise
            return ()
        return tuple(
            Commit(row.version, Attempt.parse(row.userMetadata), row.operation, row.micros)
            for row in found
        )

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
        self._written_whole.pop(table, None)
        with self._effect("commit", table, attempt, base) as session:
            match edit:
                case Edit():
                    is_known = base is not None or not self.exists(table)
                    given = Engines(session, self.engines.limits).frame(edit.rows, edit.columns)
                    layout = settings.temporary(session, self._layout(edit))
                    with layout, settings.handed_over(given, session) as rows:
                        self._write(rows, table, edit, attempt, is_known=is_known)
                case Restore():
                    self._set_back(session, table, edit.delta_version, attempt, base)
                case Deletion():
                    self._delete(session, table, edit.predicate, attempt)
        commits = self.recent_commits(table, base)
        made = landed(attempt, base, commits)
        if made is not None and isinstance(edit, Restore):
            # What was set back stands on nothing that came between, not even on a compaction.
            made = made if made.delta_version - 1 == base else None
        if made is not None:
            # Tables may be compacted at any time, by Delta itself right behind a commit too.
            return current(made.delta_version, commits) or made.delta_version
        unmoved = None if base is None else current(base, commits)
        if isinstance(edit, Deletion) and unmoved is not None:
            return unmoved  # there was no row to delete
        raise overtaken(table.name, attempt, base, commits)

    def _write(
        self, rows: DataFrame, table: Table, edit: Edit, attempt: Attempt, *, is_known: bool
    ) -> None:
        """Write an edit's rows, in the session that they belong to.

        Args:
            is_known: what is overwritten is new, or was made as tables are here; anything else may
                have any properties, and a write would keep them.
        """
        if not isinstance(edit.rows, DataFrame):
            rows = rows.coalesce(1)
        if edit.predicate is not None:
            rows = rows.where(edit.predicate)
        writer = self._writer(rows, table, attempt)
        if edit.predicate is not None:
            self._mark_rows(rows.sparkSession, table)
            writer = writer.mode("overwrite").option("replaceWhere", edit.predicate)
        elif edit.overwrite:
            writer = writer.mode("overwrite").option("overwriteSchema", "true")
            writer = writer.options(**_properties(edit))
        else:
            writer = writer.mode("append")
        if edit.file_rows is not None:
            writer = writer.option("maxRecordsPerFile", edit.file_rows)
        if is_known or not edit.overwrite:
            try:
                return _save(writer, table)
            except AnalysisException as error:
                # A table that is overwritten keeps its properties, which name columns it loses.
                if not edit.overwrite or error.getCondition() != _UNKNOWN_COLUMN:
                    raise
        return _replace(rows, table, edit, attempt)

    def _mark_rows(self, session: SparkSession, table: Table) -> None:
        """Let a table mark rows as replaced (deletion vectors), or each write would copy its files.

        No Spark job; and no commit, but for a table that was made for merge on read: one that
        changes no row.
        """
        shown = session.sql(f"SHOW TBLPROPERTIES {table.sql} ('{_MARKS_ROWS}')").collect()
        if shown[0].value != "true":
            session.sql(f"ALTER TABLE {table.sql} SET TBLPROPERTIES ('{_MARKS_ROWS}' = 'true')")

    def _set_back(
        self,
        session: SparkSession,
        table: Table,
        delta_version: int,
        attempt: Attempt,
        base: int | None,
    ) -> None:
        """Give a table the rows of an earlier delta version, in a commit of its own.

        Restoring a table to where it is makes none. There a property is set, because a fold of a
        version that is no longer to count may be under way, and must find the table moved.
        """
        if base == delta_version:
            said = f"SET TBLPROPERTIES ('{_APP_ID}.rolledBackBy' = '{attempt.version}')"
            statement = f"ALTER TABLE {table.sql} {said}"
        else:
            statement = f"RESTORE TABLE {table.sql} TO VERSION AS OF {delta_version}"
        with settings.temporary(session, {_USER_METADATA: attempt.metadata(table.name)}):
            session.sql(statement)

    def _delete(
        self, session: SparkSession, table: Table, predicate: str, attempt: Attempt
    ) -> None:
        """Delete rows, and write the files anew that had some; no commit if there are none."""
        told = {_USER_METADATA: attempt.metadata(table.name), _MARKED_ROWS: "false"}
        with settings.temporary(session, told):
            session.sql(f"DELETE FROM {table.sql} WHERE {predicate}")

    @contextmanager
    def _effect(
        self, name: str, table: Table, attempt: Attempt | None = None, base: int | None = None
    ) -> Iterator[SparkSession]:
        """An effect on a table, between its fail points; what prevents it is said.

        Yields:
            A session that nothing else is done in meanwhile.

        Raises:
            ConflictError: Delta refuses it because of another writer.
            CorruptStoreError: or because of someone else.
            StorageError: there is no space, or no right to write.
        """
        try:
            with effect(name, table.name), self._sessions.one() as session:
                yield session
        except _CONFLICTS as error:
            commits = self.recent_commits(table, base)
            raise overtaken(table.name, attempt, base, commits) from error
        except Exception as error:
            found = _UNWRITABLE.search(str(error))
            if found is None:
                raise
            raise StorageError(
                f"table {table.name!r} cannot be written ({found.group()}): nothing of this is "
                f"visible. Make room or give the right to write at {table.address}, and run it "
                "again",
                table=table.name,
            ) from error

    def put_together(self, table: Table) -> None:
        """Write small files as large ones: no row changes, and rows of a file stay in order."""
        with self._effect("optimize", table) as session:
            session.sql(f"OPTIMIZE {table.sql}")  # Delta's builder does not quote the path

    def create(self, table: Table, columns: str) -> None:
        """Make an empty table if there is none, or one that was begun and has no commit."""
        with self._effect("create", table) as session:
            builder = DeltaTable.createIfNotExists(session)
            named = (
                builder.tableName(table.address)
                if table.in_catalog
                else builder.location(table.address)
            )
            for name, value in _KEPT.items():
                named = named.property(name, value)
            rows = session.createDataFrame([], columns)
            try:
                named.addColumns(rows.schema).execute()
            except AnalysisException:
                if self.exists(table):
                    raise
                # A process ended before the first commit. The builder takes an empty log for a
                # table, and then does not find it; a write makes one, if only one file too many.
                _save(rows.write.format("delta").options(**_KEPT).mode("ignore"), table)

    def commit_fenced(
        self,
        table: Table,
        rows: Sequence[Row],
        columns: str,
        attempt: Attempt,
        *,
        overwrite: bool = False,
    ) -> None:
        """Append to a table, or overwrite it: of those with one fencing token, one takes effect.

        Delta refuses a concurrent one with the same token, and skips a later one silently; so the
        table's commits are to be asked which it was.

        Args:
            rows: a few.
            columns: theirs, as DDL.

        Raises:
            ConflictError: refused.
        """
        name = "drop versions" if overwrite else "publish"
        with self._effect(name, table, attempt) as session:
            frame = session.createDataFrame(list(rows), columns).coalesce(1)
            writer = self._writer(frame, table, attempt).option("txnAppId", _APP_ID)
            writer = writer.option("txnVersion", attempt.fencing_token)
            _save(writer.mode("overwrite" if overwrite else "append"), table)

    def restore(self, table: Table, delta_version: int, attempt: Attempt) -> int:
        """Set a table that ran ahead back to what the head pins; returns its new delta version.

        The commit says whose it is, but not that it is of what the attempt was given to do.
        """
        told = replace(attempt, given=None, part=None)
        with self._effect("restore", table, told) as session:
            self._set_back(session, table, delta_version, told, None)
        commits = self.recent_commits(table, delta_version)
        for commit in commits:
            if commit.attempt == told:
                return commit.delta_version
        raise overtaken(table.name, told, delta_version, commits)

    def directory(self, table: Table) -> str:
        """The directory that a table's files are in; one Spark job in a catalog."""
        if not table.in_catalog:
            return table.address
        detail = self.spark.sql(f"DESCRIBE DETAIL {table.sql}").collect()[0]
        return str(detail.location)

    def found(self) -> tuple[Table, ...]:
        """The tables that are where the store's are, whoever made them; one Spark job.

        Those of a store in a folder below are not there, and neither is what is behind a link.
        """
        location = self.location
        if location.in_catalog:
            rows = self.spark.sql(f"SHOW TABLES IN {location.address}").collect()
            return tuple(location.named(row.tableName) for row in rows if not row.isTemporary)
        try:
            first_commits = globbed(location.address) + f"/*/*/{commit_file(0)}"
            files = self.spark.read.format("binaryFile").load(first_commits).select("path")
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            return ()
        tables = location.among("/".join(row.path.split("/")[-4:-2]) for row in files.collect())
        return tuple(t for t in tables if not is_linked(location.address, t.address))

    def remove_files(self, table: Table, files: DataFrame) -> None:
        """Remove files of a table, whatever Delta's retention says; those that it has now stay.

        Args:
            files: those, as an inventory for `VACUUM`: ``path``, ``length``, ``isDir`` and
                ``modificationTime`` (milliseconds).
        """
        view = f"{_APP_ID}_{uuid.uuid4().hex}"
        statement = f"VACUUM {table.sql} USING INVENTORY (SELECT * FROM {view}) RETAIN 0 HOURS"
        vacuum = self._effect("vacuum", table)
        with vacuum as session, settings.handed_over(files, session) as found:
            found.createTempView(view)
            try:
                session.sql(statement)
            finally:
                session.catalog.dropTempView(view)

    def drop(self, table: Table) -> None:
        """Remove a table with all of its files."""
        with self._effect("drop", table) as session:
            if table.in_catalog:
                session.sql(f"DROP TABLE IF EXISTS {table.sql}")
            else:
                remove_table(session, table.address)

    def ensure_schema(self) -> None:
        """Make the catalog's schema if it is missing; a path needs nothing."""
        if self.location.in_catalog:
            with effect("create schema", self.location.address):
                self.spark.sql(f"CREATE SCHEMA IF NOT EXISTS {self.location.address}")

    def many_effects(self) -> AbstractContextManager[None]:
        """For an operation of many effects: the user's settings are read once, not for each."""
        return self._sessions.read_once()

    def _writer(self, rows: DataFrame, table: Table, attempt: Attempt) -> DataFrameWriter:
        return rows.write.format("delta").option("userMetadata", attempt.metadata(table.name))


def globbed(path: str) -> str:
    """A path as Spark takes it where patterns are allowed."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)


def _loaded(reader: DataFrameReader, table: Table) -> DataFrame:
    if table.in_catalog:
        return reader.table(table.address)
    return reader.format("delta").load(table.address)


def _save(writer: DataFrameWriter, table: Table) -> None:
    if table.in_catalog:
        writer.saveAsTable(table.address)
    else:
        writer.save(table.address)


def _replace(rows: DataFrame, table: Table, edit: Edit, attempt: Attempt) -> None:
    """Give a table other rows, columns and properties, in one commit; its history stays."""
    writer = rows.writeTo(table.sql).using("delta")
    writer = writer.option("userMetadata", attempt.metadata(table.name))
    if edit.file_rows is not None:
        writer = writer.option("maxRecordsPerFile", edit.file_rows)
    for name, value in _properties(edit).items():
        writer = writer.tableProperty(name, value)
    writer.createOrReplace()


def _delta_table(session: SparkSession, table: Table) -> DeltaTable:
    if table.in_catalog:
        return DeltaTable.forName(session, table.address)
    return DeltaTable.forPath(session, table.address)


def _properties(edit: Edit) -> dict[str, str]:
    names = [
        identifier(c.name) for c in edit.lookup if not isinstance(c.data_type, _WITHOUT_STATISTICS)
    ]
    skipping = (
        {"delta.dataSkippingStatsColumns": ",".join(names)}
        if names
        else {"delta.dataSkippingNumIndexedCols": "0"}
    )
    marks = {_MARKS_ROWS: "true"} if edit.marked else {}
    return {**_KEPT, **marks, **skipping}
