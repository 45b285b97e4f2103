"""Existing tables: Delta tables that others write, their state and their changes.

They are read, never written. `state` describes such a table now; `changed_keys` finds the keys
whose rows differ between two of its Delta versions, without reading what both share: from its
change data feed, or from the files that its log adds or removes. The invariant: it finds every such
key, and perhaps others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final

from deltaproduce.engines.delta.log import commit_file
from deltaproduce.engines.spark.columns import col, cols
from deltaproduce.engines.spark.data_types import frame_struct, in_spark
from deltaproduce.engines.spark.delta import PLAIN_PATH
from deltaproduce.engines.spark.kernels.comparing import unmatched
from deltaproduce.engines.spark.log_actions import actions
from deltaproduce.engines.spark.sessions.error_texts import raise_interrupt
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.engines.spark.sessions.on_demand import spark_errors
from deltaproduce.storage.locations import StoreTable
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.types import data_types as t
from deltaproduce.types.catalogue import atom
from deltaproduce.types.columns import Column

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession

_COMMITS: Final = 500
"""The most commits whose log files are read; beyond, comparing all rows costs little more."""

_FILES: Final = 1_000
"""The most files that are selected by name."""

_ACTIONS: Final = 10 * _FILES

_FILE: Final = "_file"
_ROW: Final = "_row"


@dataclass(frozen=True, slots=True)
class ExternalTableState:
    """The current state of a Delta table.

    Attributes:
        id: Delta's table id; a table that replaces it has another one.
        micros: the time of its newest commit, in microseconds since 1970.
        location: its directory.
        has_feed: whether its change data feed is on.
        partitioned_by: its partition columns.
        is_plain: whether its files name columns as the table does (no column mapping).
    """

    id: str
    delta_version: int
    micros: int
    location: str
    has_feed: bool
    partitioned_by: tuple[str, ...]
    is_plain: bool


def state(tables: Tables, table: StoreTable) -> ExternalTableState | None:
    """Return the current state of a table; None if there is no Delta table. Two Spark jobs."""
    detail = tables.access.detail(table)
    if detail is None or detail.format != "delta":
        return None
    commits = tables.reader.recent_commits(table)
    if not commits:
        return None
    properties = detail.properties
    return ExternalTableState(
        id=detail.id,
        delta_version=commits[0].delta_version,
        micros=commits[0].micros,
        location=detail.location,
        has_feed=properties.get("delta.enableChangeDataFeed", "").lower() == "true",
        partitioned_by=detail.partition_columns,
        is_plain=properties.get("delta.columnMapping.mode", "none") == "none",
    )


def changed_keys(
    tables: Tables,
    table: StoreTable,
    now: ExternalTableState,
    since: int,
    key: Sequence[Column],
    columns: Sequence[Column],
) -> DataFrame | None:
    """Return keys whose rows differ since a Delta version, perhaps others or duplicates; lazily.

    Args:
        now: the table's state.
        columns: the columns that are compared, including the key.

    Returns:
        None if only a comparison of all rows can tell.
    """
    fed = _fed(tables, table, now, since) if now.has_feed else None
    if fed is not None:
        return fed.select(*cols(key))
    files = _changed_files(tables.spark, now, since)
    if files is None:
        return None
    before, after = (tables.reader.read(table, version) for version in (since, now.delta_version))
    alive = frozenset(after.inputFiles())
    if not files.added <= alive:  # the log spells paths differently
        return None
    earlier = frozenset(before.inputFiles())
    sides = _rows_of(files, earlier, before, now), _rows_of(files, alive, after, now)
    return unmatched(*sides, columns).select(*cols(key))


def _fed(
    tables: Tables, table: StoreTable, now: ExternalTableState, since: int
) -> DataFrame | None:
    """Read the table's change data feed; None if it was ever off since then, or is gone."""
    try:
        fed = tables.reader.feed(table, since + 1, now.delta_version)
        fed.isEmpty()
    except Exception as error:  # noqa: BLE001 the files tell the same
        raise_interrupt(error)
        return None
    return fed


@dataclass(frozen=True, slots=True)
class _Files:
    """Files added or removed between two Delta versions, as Spark names them.

    Attributes:
        paths: all of them.
        added: those that were not removed again.
        marked: those with rows that were marked as deleted.
        partitions: the values of their partition columns, as text.
    """

    paths: frozenset[str]
    added: frozenset[str]
    marked: frozenset[str]
    partitions: tuple[Mapping[str, str | None], ...]


def _changed_files(spark: SparkSession, now: ExternalTableState, since: int) -> _Files | None:
    """Return the files that the log names; None if it is too short, or names too many."""
    numbers = range(since + 1, now.delta_version + 1)
    if len(numbers) > _COMMITS or not PLAIN_PATH.fullmatch(now.location):
        return None
    logs = [f"{now.location}/{commit_file(number)}" for number in numbers]
    try:
        rows = actions(spark, logs).drop("vector").limit(_ACTIONS + 1).collect()
    except spark_errors("AnalysisException"):  # the log was cleaned up
        return None
    paths = {row.path: _absolute(row.path, now.location) for row in rows}
    if len(rows) > _ACTIONS or len(paths) > _FILES:
        return None
    if not all(PLAIN_PATH.fullmatch(path) for path in paths.values()):
        return None
    last = {row.path: row for row in sorted(rows, key=lambda row: (row.commit, row.adds))}
    return _Files(
        paths=frozenset(paths.values()),
        added=frozenset(paths[path] for path, row in last.items() if row.adds),
        marked=frozenset(paths[row.path] for row in rows if row.marked),
        partitions=tuple(row.partition or {} for row in rows),
    )


def _rows_of(
    files: _Files, alive: frozenset[str], rows: DataFrame, now: ExternalTableState
) -> DataFrame:
    """Return the rows of a Delta version that are in the files.

    Args:
        alive: all files of that Delta version.
    """
    file = f.col("_metadata.file_path")
    if now.partitioned_by or not now.is_plain:
        return rows.where(file.isin(*files.paths) & _in_partitions(files, now, rows))
    whole = _read(rows, files.paths & alive - files.marked)
    marked = _read(rows, files.paths & alive & files.marked)
    if not files.marked & alive:
        return whole
    if not _numbers_rows(rows):  # no row of this Delta version is marked as deleted
        return whole.union(marked)
    place = file.alias(_FILE), f.col("_metadata.row_index").alias(_ROW)
    stays = rows.where(file.isin(*files.marked)).select(*place)
    kept = marked.select("*", *place).join(stays, [_FILE, _ROW], "left_semi")
    return whole.union(kept.drop(_FILE, _ROW).select(*whole.columns))


def _read(rows: DataFrame, paths: Iterable[str]) -> DataFrame:
    """Read rows of the same columns in Parquet files, including those marked as deleted."""
    files, spark = sorted(paths), rows.sparkSession
    if not files:
        return spark.createDataFrame([], rows.schema)
    return spark.read.schema(rows.schema).parquet(*files)


def _numbers_rows(rows: DataFrame) -> bool:
    """Return whether Spark knows each row's number in its file, as with deletion vectors."""
    metadata = frame_struct(rows.select("_metadata"))["_metadata"].dataType
    return isinstance(metadata, t.StructType) and "row_index" in metadata.names


def _in_partitions(files: _Files, now: ExternalTableState, rows: DataFrame) -> Expression:
    """Return a filter that keeps all rows of the files, and lets Delta prune other partitions."""
    conditions, struct = [f.lit(True)], frame_struct(rows)
    for name in now.partitioned_by:
        data_type, values = struct[name].dataType, {values.get(name) for values in files.partitions}
        known = atom(data_type)
        if known is not None and known.prunes:
            texts = [
                f.lit(value).cast(in_spark(data_type)) for value in values if value is not None
            ]
            is_one = col(name).isin(*texts) if texts else f.lit(False)
            conditions.append(is_one | col(name).isNull() if None in values else is_one)
    return reduce(and_, conditions)


def _absolute(path: str, location: str) -> str:
    return path if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:|/", path) else f"{location}/{path}"
