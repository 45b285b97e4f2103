"""Delta in Spark: its spelling of the operations on tables.

Only this module names Delta's options, settings, statements and errors. The invariant: commits are
made in sessions of the library; the user's session only reads. And no path is read as a pattern.
Delta's package comes with a session, so it is imported where a session is used: stores without
Spark do not need it.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from typing_extensions import override

from deltaproduce.engines.delta.log import LOG, commit_file
from deltaproduce.engines.delta.tables import (
    APP_ID,
    MARKS_ROWS,
    ROWS_PER_FILE,
    UNTOLD,
    DeltaTables,
    LoggedCommit,
    Place,
    RefusedError,
    TableWrite,
    Written,
    packed,
)
from deltaproduce.engines.spark.columns import cols, struct_of
from deltaproduce.engines.spark.engine import SparkEngine
from deltaproduce.engines.spark.file_systems import remove_table
from deltaproduce.engines.spark.kernels.clustering import CUT, cut, in_places
from deltaproduce.engines.spark.predicates import of_partitions
from deltaproduce.engines.spark.sessions import settings
from deltaproduce.engines.spark.sessions.error_texts import is_missing_path
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.engines.spark.sessions.on_demand import spark_errors
from deltaproduce.engines.spark.sessions.remote import is_remote, prepare
from deltaproduce.model.limits import Limits
from deltaproduce.types.columns import Column
from deltaproduce.types.ddl import identifier, sql_of
from deltaproduce.types.excerpts import one_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession

PLAIN_PATH: Final = re.compile(r"[A-Za-z0-9_./:=@+~-]+")
"""Paths that Spark neither reads as patterns nor encodes."""

_USER_METADATA: Final = "spark.databricks.delta.commitInfo.userMetadata"  # for statements
_MOST_RETRIES: Final = "spark.databricks.delta.maxCommitAttempts"
_MARKED_ROWS: Final = "spark.databricks.delta.delete.deletionVectors.persistent"
# Delta passes these to Parquet only from settings, not from options of a write.
_GROUP_ROWS: Final = "parquet.block.row.count.limit"
_ENCODINGS: Final = {
    "parquet.writer.version": "PARQUET_2_0",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
_CODECS: Final = {"lz4": "lz4_raw"}
_DICTIONARY: Final = "parquet.enable.dictionary#"
_UNKNOWN_COLUMN: Final = "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"

_UNWRITABLE: Final = re.compile(
    "No space left on device|Disk quota exceeded|Read-only file system|Permission denied|"
    "Access ?Denied|403 Forbidden"
)

_SETTINGS: Final = {
    # Quoted names are names, whatever the user's session takes them for.
    "spark.sql.parser.quotedRegexColumnNames": "false",
    # Delta would re-check each written row against the predicate: quadratic in a list of literals.
    "spark.databricks.delta.replaceWhere.constraintCheck.enabled": "false",
    # Commit metrics that nobody here reads, for several Spark jobs (delta-io/delta#2718).
    "spark.databricks.delta.commitStats.collect": "false",
    # The names of all files next to each commit, which only Delta's own checks read: to write them,
    # Delta reads back the file list of a table whose newest commit has none, as after a commit of
    # another engine.
    "spark.databricks.delta.allFilesInCrc.enabled": "false",
    # A vacuum removes files that no version needs, however new they are.
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.vacuum.logging.enabled": "false",  # it would commit to the table
    # Compaction: files below the first size are merged into files up to the second.
    "spark.databricks.delta.optimize.minFileSize": str(16 << 20),
    "spark.databricks.delta.optimize.maxFileSize": str(128 << 20),
}
"""The settings of the sessions that write tables."""


@dataclass(frozen=True, slots=True)
class Detail:
    """Delta's description of a table.

    Attributes:
        id: Delta's id; another table at the same place has another id.
        format: ``delta``, or another format.
        location: the table's directory.
    """

    id: str
    format: str
    location: str
    partition_columns: tuple[str, ...]
    properties: Mapping[str, str]


class SparkDelta(DeltaTables):
    """Delta tables in Spark, and operations that only Spark has.

    Args:
        spark: the user's session.
        limits: how rows from the driver are sent.
    """

    def __init__(self, spark: SparkSession, limits: Limits | None = None) -> None:
        prepare(spark)
        self._spark = spark
        self._limits = limits or Limits()
        self._sessions = settings.Sessions(spark, _SETTINGS)

    def many_effects(self) -> AbstractContextManager[None]:
        """Return a context for many commits, in which the user's settings are read only once."""
        return self._sessions.read_once()

    def exists(self, place: Place) -> bool:
        """Return whether there is a Delta table."""
        if place.in_catalog:
            return self._spark.catalog.tableExists(place.address)
        if is_remote(self._spark):
            detail = self.describe(place)
            return detail is not None and detail.format == "delta"
        from delta.tables import DeltaTable

        return bool(DeltaTable.isDeltaTable(self._spark, place.address))

    def describe(self, place: Place) -> Detail | None:
        """Return Delta's description of a table; None if there is none. One Spark job."""
        try:
            detail = self._spark.sql(f"DESCRIBE DETAIL {place.sql}").collect()[0]
        except spark_errors("AnalysisException"):
            return None
        return Detail(
            detail.id,
            detail.format,
            detail.location,
            tuple(detail.partitionColumns or ()),
            detail.properties or {},
        )

    def history(self, place: Place, limit: int) -> tuple[LoggedCommit, ...]:
        """Return the newest ``limit`` commits, newest first; none without a table. One job."""
        try:
            commits = (
                self._history(place, limit)
                .selectExpr(
                    "version", "userMetadata", "operation", "unix_micros(timestamp) AS micros"
                )
                .collect()
            )
        except spark_errors("AnalysisException"):
            if self.exists(place):
                raise
            return ()
        return tuple(
            LoggedCommit(row.version, row.userMetadata, row.operation or UNTOLD, row.micros)
            for row in commits
        )

    def _history(self, place: Place, limit: int) -> DataFrame:
        if is_remote(self._spark):  # Delta's builder needs a plugin in the server
            return self._spark.sql(f"DESCRIBE HISTORY {place.sql} LIMIT {limit}")
        from delta.tables import DeltaTable

        table = (
            DeltaTable.forName(self._spark, place.address)
            if place.in_catalog
            else DeltaTable.forPath(self._spark, place.address)
        )
        return table.history(limit)

    def read(self, place: Place, delta_version: int | None = None) -> DataFrame:
        """Return the rows at a delta version; without one, at the newest."""
        reader = self._spark.read
        if delta_version is not None:
            reader = reader.option("versionAsOf", delta_version)
        return _loaded(reader, place)

    def change_feed(self, place: Place, first: int, last: int) -> DataFrame:
        """Return the change data feed between two delta versions, both included.

        Delta finds out whether it has all of it when the rows are used.
        """
        reader = self._spark.read.option("readChangeFeed", "true")
        return _loaded(reader.option("startingVersion", first).option("endingVersion", last), place)

    def from_files(self, rows: DataFrame) -> DataFrame:
        """Return the rows of a delta version without deleted rows, from its files.

        This takes one Spark job instead of Delta's three, or seven: Delta plans each read with jobs
        over its list of files, to prune some by their statistics; if files are few, Parquet's own
        statistics do that.

        Returns:
            The rows from their files; from Delta, if the files cannot be read by name.
        """
        addresses = tuple(rows.inputFiles())
        if not addresses or not all(PLAIN_PATH.fullmatch(address) for address in addresses):
            return rows
        return self._spark.read.schema(rows.schema).parquet(*addresses)

    def tables_in(self, schema: str) -> tuple[str, ...]:
        """Return the names of the tables of a catalog's schema; one Spark job."""
        rows = self._spark.sql(f"SHOW TABLES IN {schema}").collect()
        return tuple(row.tableName for row in rows if not row.isTemporary)

    def tables_below(self, root: str, below: str) -> tuple[str, ...]:
        """Return the directories of Delta tables at a depth below a root; one Spark job.

        A log has its first commit, or a checkpoint.

        Args:
            below: the depth, as a pattern, such as ``*/*``.

        Returns:
            Their paths, as Spark names them.
        """
        begun = f"{{{commit_file(0)},{LOG}/*.checkpoint*}}"
        try:
            files = self._spark.read.format("binaryFile").load(f"{globbed(root)}/{below}/{begun}")
            paths = [row.path for row in files.select("path").collect()]
        except spark_errors("AnalysisException") as error:
            if not is_missing_path(error):
                raise
            return ()
        return tuple(sorted({path.rpartition(f"/{LOG}/")[0] for path in paths}))

    def create_schema(self, schema: str) -> None:
        """Create a catalog's schema if it is missing."""
        self._spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")

    def create(
        self, place: Place, columns: Sequence[Column], properties: Mapping[str, str]
    ) -> None:
        """Create an empty table if there is none, or if one was begun and has no commit."""
        with self._session() as session:
            try:
                _create(session, place, columns, properties)
            except spark_errors("AnalysisException"):
                if self.exists(place):
                    raise
                # A process ended before the first commit. The builder takes an empty log for a
                # table, and then does not find it; a write creates one, with just one file too
                # many.
                writer = session.createDataFrame([], struct_of(columns)).write.format("delta")
                _save(writer.options(**properties).mode("ignore"), place)

    @override
    def write(self, place: Place, write: TableWrite) -> Written:
        """Only the log tells which commit it was."""
        with self._session() as session:
            given = _framed(write, session, self._limits)
            with (
                settings.temporary(session, _layout(write)),
                settings.handed_over(given, session) as rows,
            ):
                plain = _plain(rows, write.columns)
                if write.within is None:
                    _written(plain, place, write)
                else:
                    _written_within(plain, place, write, write.within)
        return Written()

    def delete(self, place: Place, predicate: str, metadata: str) -> None:
        """Delete rows by rewriting the files that contain them; no commit if there are none."""
        statement = f"DELETE FROM {place.sql} WHERE {predicate}"
        self._run(statement, {_USER_METADATA: metadata, _MARKED_ROWS: "false"})

    def merge(self, statement: str, changes: DataFrame, metadata: str) -> None:
        """Run a ``MERGE``, whose commit directly follows the delta version that it has read.

        Args:
            statement: the statement, in which ``{changes}`` are the changes.

        Raises:
            RefusedError: another commit came between, and changed the same rows.
        """
        options = {_USER_METADATA: metadata, _MOST_RETRIES: "0"}
        with (
            self._session() as session,
            settings.temporary(session, options),
            settings.handed_over(changes, session) as rows,
        ):
            session.sql(statement, changes=rows)

    def restore(self, place: Place, delta_version: int, metadata: str) -> None:
        """Restore the rows of an earlier delta version; no commit if they are the current ones."""
        statement = f"RESTORE TABLE {place.sql} TO VERSION AS OF {delta_version}"
        self._run(statement, {_USER_METADATA: metadata})

    def set_property(self, place: Place, name: str, value: str, metadata: str) -> None:
        """Set one of the table's properties, in a commit that changes no row."""
        statement = f"ALTER TABLE {place.sql} SET TBLPROPERTIES ('{name}' = '{value}')"
        self._run(statement, {_USER_METADATA: metadata})

    def optimize(self, place: Place) -> None:
        """Compact small files into large ones; the rows of a file stay in order."""
        self._run(f"OPTIMIZE {place.sql}")  # Delta's builder does not quote the path

    def remove_files(self, place: Place, files: DataFrame) -> None:
        """Remove files of a table, whatever Delta's retention is; the table's current files stay.

        Args:
            files: an inventory for ``VACUUM``: ``path``, ``length``, ``isDir`` and
                ``modificationTime`` (milliseconds).
        """
        view = f"{APP_ID}_{uuid.uuid4().hex}"
        statement = f"VACUUM {place.sql} USING INVENTORY (SELECT * FROM {view}) RETAIN 0 HOURS"
        with self._session() as session, settings.handed_over(files, session) as paths:
            paths.createTempView(view)
            try:
                session.sql(statement)
            finally:
                session.catalog.dropTempView(view)

    def drop(self, place: Place) -> None:
        """Remove a table and all of its files."""
        with self._session() as session:
            if place.in_catalog:
                session.sql(f"DROP TABLE IF EXISTS {place.sql}")
            else:
                remove_table(session, place.address)

    def _run(self, statement: str, options: Mapping[str, str] | None = None) -> None:
        with self._session() as session, settings.temporary(session, options or {}):
            session.sql(statement)

    @contextmanager
    def _session(self) -> Iterator[SparkSession]:
        """Yield a session that no other thread uses meanwhile.

        Raises:
            RefusedError: Delta refuses a commit because of another writer.
        """
        try:
            with self._sessions.one() as session:
                yield session
        except _conflicts() as error:
            raise RefusedError(one_line(error)) from error


def globbed(path: str) -> str:
    """Return a path as Spark takes it where patterns are allowed."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)


def unwritable(error: BaseException) -> str | None:
    """Return an error's words for missing space or write permission; None if it has none."""
    match = _UNWRITABLE.search(str(error))
    return None if match is None else match.group()


def _loaded(reader: DataFrameReader, place: Place) -> DataFrame:
    if place.in_catalog:
        return reader.table(place.address)
    return reader.format("delta").load(place.address)


def _save(writer: DataFrameWriter, place: Place) -> None:
    if place.in_catalog:
        writer.saveAsTable(place.address)
    else:
        writer.save(place.address)


def _layout(write: TableWrite) -> dict[str, str]:
    """Return the settings for Parquet's writer.

    Its second version writes differences where there is no dictionary, also for timestamps stored
    as whole numbers.
    """
    undictionaried = {f"{_DICTIONARY}{name}": "false" for name in packed(write.columns)}
    groups = {} if write.group_rows is None else {_GROUP_ROWS: str(write.group_rows)}
    return {**_ENCODINGS, **undictionaried, **groups}


def _framed(write: TableWrite, session: SparkSession, limits: Limits) -> DataFrame:
    """Return the rows to write, in Spark; rows from the driver in one partition per file."""
    engine = SparkEngine(session, limits)
    if not isinstance(write.rows, pa.Table):
        return engine.here(write.rows, write.columns)
    ends = write.file_ends
    if len(ends) <= 1 and not limits.is_held(len(write.rows), write.rows.nbytes):
        ends = (*range(ROWS_PER_FILE, len(write.rows), ROWS_PER_FILE), len(write.rows))
    if len(ends) > 1:
        rows = engine.here(cut(write.rows, ends), (*write.columns, *CUT))
        return in_places(rows, write.columns, len(ends))
    return engine.here(write.rows, write.columns).coalesce(1)


def _plain(rows: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Return the rows with strings of Spark's plain type, as the log of a new table should name it.

    A Connect client adds a collation to a type. It is the default one, but Spark then logs ``string
    collate UTF8_BINARY``, which readers other than Spark do not know.
    """
    if not is_remote(rows.sparkSession):
        return rows
    names = ((identifier(c.name), sql_of(c.data_type)) for c in columns)
    return rows.selectExpr(*(f"CAST({name} AS {data_type}) AS {name}" for name, data_type in names))


def _conflicts() -> tuple[type[Exception], ...]:
    """Return the errors that Delta raises when another commit came between."""
    from delta import exceptions as conflicts

    return (
        conflicts.ConcurrentAppendException,
        conflicts.ConcurrentDeleteDeleteException,
        conflicts.ConcurrentDeleteReadException,
        conflicts.ConcurrentTransactionException,
        conflicts.ConcurrentWriteException,
        conflicts.DeltaConcurrentModificationException,
        conflicts.MetadataChangedException,
        conflicts.ProtocolChangedException,
    )


def _create(
    session: SparkSession, place: Place, columns: Sequence[Column], properties: Mapping[str, str]
) -> None:
    """Create an empty table if there is none."""
    if is_remote(session):  # Delta's builder needs a plugin in the server
        typed = ", ".join(f"{identifier(c.name)} {sql_of(c.data_type)}" for c in columns)
        properties_text = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        statement = f"CREATE TABLE IF NOT EXISTS {place.sql} ({typed}) USING delta"
        session.sql(f"{statement} TBLPROPERTIES ({properties_text})")
        return
    from delta.tables import DeltaTable

    builder = DeltaTable.createIfNotExists(session)
    named = (
        builder.tableName(place.address) if place.in_catalog else builder.location(place.address)
    )
    for name, value in properties.items():
        named = named.property(name, value)
    named.addColumns(struct_of(columns)).execute()


def _written(rows: DataFrame, place: Place, write: TableWrite) -> None:
    """Write rows, in their own session."""
    if write.mode == "create":
        return _created(rows, place, write)
    if write.predicate is not None:
        rows = rows.where(write.predicate)
    writer = rows.write.format("delta").options(**_commit_options(write))
    if write.fence is not None:
        writer = writer.option("txnAppId", APP_ID).option("txnVersion", write.fence)
    if write.mode == "append":
        return _save(writer.mode("append"), place)
    writer = writer.mode("overwrite")
    if write.predicate is not None:
        _mark_rows(rows.sparkSession, place)
        return _save(writer.option("replaceWhere", write.predicate), place)
    if write.properties is not None:
        writer = writer.option("overwriteSchema", "true").options(**write.properties)
        if write.partition:
            writer = writer.partitionBy(*(c.name for c in write.partition))
    try:
        return _save(writer, place)
    except spark_errors("AnalysisException") as error:
        # A table that is overwritten keeps its properties, which name columns it loses.
        if write.properties is None or error.getCondition() != _UNKNOWN_COLUMN:
            raise
    return _created(rows, place, write)


def _written_within(rows: DataFrame, place: Place, write: TableWrite, within: pa.Table) -> None:
    """Overwrite some partitions: Delta removes their files whole, and marks no rows."""
    replaced = of_partitions(write.partition, within)
    if place.in_catalog:  # where to save a table is to replace it in the catalog, too
        rows.writeTo(place.sql).options(**_commit_options(write)).overwrite(f.expr(replaced))
        return
    writer = rows.write.format("delta").options(**_commit_options(write)).mode("overwrite")
    _save(writer.option("replaceWhere", replaced), place)


def _commit_options(write: TableWrite) -> dict[str, str | int]:
    """Return the options that all commits have."""
    options: dict[str, str | int] = {"userMetadata": write.metadata}
    if write.compression is not None:
        options["compression"] = _CODECS.get(write.compression, write.compression)
    if write.file_rows is not None:
        options["maxRecordsPerFile"] = write.file_rows
    return options


def _created(rows: DataFrame, place: Place, write: TableWrite) -> None:
    """Replace a table's rows, columns and properties, in one commit; its history stays."""
    writer = rows.writeTo(place.sql).using("delta").options(**_commit_options(write))
    if write.partition:
        writer = writer.partitionedBy(*cols(write.partition))
    for name, value in (write.properties or {}).items():
        writer = writer.tableProperty(name, value)
    writer.createOrReplace()


def _mark_rows(session: SparkSession, place: Place) -> None:
    """Let a table mark rows as replaced (deletion vectors), or each write would copy its files.

    No Spark job; and no commit, except for a table created for merge on read: one that changes no
    row.
    """
    shown = session.sql(f"SHOW TBLPROPERTIES {place.sql} ('{MARKS_ROWS}')").collect()
    if shown[0].value != "true":
        session.sql(f"ALTER TABLE {place.sql} SET TBLPROPERTIES ('{MARKS_ROWS}' = 'true')")
