"""Files: finds the files of a table that no needed delta version has.

They are found by name: a file is needed at each delta version from the commit that adds it up to
the one that removes it, by the table's log. The invariant: it finds no file of a needed delta
version, nor of the newest one, nor one that a writer may be about to commit. It finds only files in
the table's directory: those that the log names, and those next to them; none in a foreign folder,
and none behind a symbolic link. On a local file system `local.files` finds them, by the same rules.

The files that a table's log can do without are found, too (`decisions.trimming`).
"""

from __future__ import annotations

import logging
import posixpath
import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from deltaproduce.engines.delta.log import LOG, commit_file
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.paths import is_linked, links_below
from deltaproduce.engines.spark.checkpoints import checkpoint
from deltaproduce.engines.spark.delta import globbed
from deltaproduce.engines.spark.log_actions import actions
from deltaproduce.engines.spark.sessions.error_texts import is_missing_path
from deltaproduce.engines.spark.sessions.on_demand import Window, spark_errors
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.storage.decisions.trimming import Trim, trim
from deltaproduce.storage.locations import StoreTable
from deltaproduce.storage.tables.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_LOGGER: Final = logging.getLogger(__name__)

_INVENTORY: Final = "path string, length bigint, isDir boolean, modificationTime bigint"
_SCHEME: Final = "^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?"


@dataclass(frozen=True, slots=True)
class Unneeded:
    """The files of a table that no version needs.

    Attributes:
        inventory: ``path``, ``length``, ``isDir``, ``modificationTime`` (milliseconds since 1970).
        files: the number of files.
        bytes: their size in bytes.
    """

    inventory: Rows
    files: int
    bytes: int


def unneeded(
    tables: Tables, table: StoreTable, needed: Collection[int], unfinished_since: datetime
) -> Unneeded | None:
    """Find the files of a table that no version needs now.

    Args:
        needed: the delta versions that are read, apart from the newest one.
        unfinished_since: files that no commit names are found if they are older than this.

    Returns:
        None if there are none. None for a table behind a link below the store's root.
    """
    directory = tables.access.directory(table)
    if _is_behind_a_link(tables, table, directory):
        return None
    here = tables.maintenance.unneeded(table, needed, unfinished_since)
    if here is not None:
        unneeded_files = Unneeded(here, len(here), sum(here.column("length").to_pylist()))
    else:
        listed = _in_spark(tables.spark, directory, needed, unfinished_since)
        inventory, counts = checkpoint(listed, {"files": f.count("*"), "bytes": f.sum("length")})
        unneeded_files = Unneeded(inventory, counts["files"], counts["bytes"] or 0)
    return unneeded_files if unneeded_files.files else None


def outdated(
    tables: Tables, table: StoreTable, needed: Collection[int], since: datetime
) -> Trim | None:
    """Find the files that a table's log can do without.

    The store's newest commit stays in any case: it says whose the table is, and has the fencing
    token of a version log.

    Args:
        needed: the delta versions that are read.
        since: files that are not older than this stay.

    Returns:
        None if there are none; for a table behind a link below the store's root; for a table in a
        catalog, and wherever only Spark removes files; and, with a warning, if the log's checkpoint
        and its commits say different things, or a feature of the table may protect its log.
    """
    if table.in_catalog or _is_behind_a_link(tables, table, table.address):
        return None
    log = tables.maintenance.log_files(table)
    if log is None:
        return None
    log_files = trim(log, min((*needed, _newest_of_ours(tables, table))), since)
    if log_files is None or tables.maintenance.may_begin(table, log_files.checkpoint):
        return log_files
    _LOGGER.warning(
        "the log of table %r keeps all of its files: checkpoint %d differs from the commits before "
        "it, or a feature of the table may need these",
        table.name,
        log_files.checkpoint,
    )
    return None


def _newest_of_ours(tables: Tables, table: StoreTable) -> int:
    """Return the delta version of the store's newest commit to a table; 0 if there is none."""
    for since in (None, 0):
        for commit in tables.reader.recent_commits(table, since):
            if commit.attempt is not None and commit.attempt.table == table.name:
                return commit.delta_version
    return 0


def _is_behind_a_link(tables: Tables, table: StoreTable, directory: str) -> bool:
    root = directory if table.in_catalog else tables.location.address
    return is_linked(root, f"{directory}/{LOG}")


def _in_spark(
    spark: SparkSession, directory: str, needed: Collection[int], unfinished_since: datetime
) -> DataFrame:
    """Return the files of a table that no version needs, as a lazy inventory."""
    nothing = spark.createDataFrame([], _INVENTORY)
    place = globbed(directory)
    listed = (
        spark.read.format("binaryFile")
        .option("recursiveFileLookup", "true")
        .load(place)
        .select("path", "length", "modificationTime", _base_name(f.col("path")).alias("name"))
        .withColumn("inside", _inside(directory))
        .where(~_is_behind(links_below(directory)))
    )
    named = _named(spark, place, needed)
    is_old = f.col("modificationTime") < f.lit(unfinished_since)
    if not _has(spark, f"{place}/{commit_file(0)}"):  # the log may have dropped old files
        is_old = f.lit(False)
    is_unneeded = ~f.col("needed") & f.array_contains("paths", f.col("inside"))
    folders = named.select(f.explode("paths").alias("path")).select(_folder("path")).distinct()
    is_known = (f.col("folder") == "") | f.col("is_known")
    is_left = f.col("needed").isNull() & is_old & f.coalesce(is_known, f.lit(False))
    listed_files = listed.withColumn("folder", _folder("inside"))
    beside = listed_files.join(folders.withColumn("is_known", f.lit(True)), "folder", "left_outer")
    files = beside.join(named, "name", "left_outer").where(is_unneeded | is_left)
    inventory = files.select(
        "path", "length", f.lit(False), f.unix_millis("modificationTime").alias("modificationTime")
    )
    return nothing.union(inventory)


def _inside(directory: str) -> Column:
    """Return the path of a file relative to a directory; null if it is elsewhere."""
    top = posixpath.normpath(re.sub(_SCHEME, "", directory))
    path = f.regexp_replace("path", _SCHEME, "")
    rest = f.substr(path, f.lit(len(top) + 2))
    return f.when(f.startswith(path, f.lit(f"{top}/")), rest)


def _is_behind(links: Collection[str]) -> Column:
    """Return whether a file is a link, or is reached through one."""
    way, folders = f.concat("inside", f.lit("/")), f.array(*(f.lit(f"{link}/") for link in links))
    return f.exists(folders, lambda link: f.startswith(way, link)) if links else f.lit(False)


def _named(spark: SparkSession, place: str, needed: Collection[int]) -> DataFrame:
    """Return the names and paths of all files in a table's log, and whether each is needed."""
    commits = actions(spark, f"{place}/{LOG}/*.json").withColumnRenamed("path", "file")
    one = Window.partitionBy("file", "mark", "vector").orderBy("commit", "adds")
    spans = commits.select(
        "file",
        "vector",
        f.when(f.col("adds"), f.col("commit")).alias("first"),
        f.when(f.col("adds"), f.lead("commit").over(one)).otherwise(f.col("commit")).alias("end"),
        (f.col("adds") | f.lag("commit").over(one).isNull()).alias("counts"),
    )
    read = f.array(*(f.lit(number).cast("bigint") for number in sorted(needed)))
    is_read = f.exists(
        read, lambda number: (number >= f.coalesce("first", f.lit(0))) & (number < f.col("end"))
    )
    is_needed = f.col("counts") & (f.col("end").isNull() | is_read)
    names = f.explode(f.array_compact(f.array("file", "vector")))
    of_spans = spans.select(names.alias("path"), is_needed.alias("needed"))
    return of_spans.groupBy(_base_name(f.col("path")).alias("name")).agg(
        f.max("needed").alias("needed"), f.collect_set("path").alias("paths")
    )


def _base_name(path: Column) -> Column:
    return f.substring_index(path, "/", -1)


def _folder(path: str) -> Column:
    return f.regexp_extract(path, "^(?:(.*)/)?[^/]*$", 1).alias("folder")


def _has(spark: SparkSession, path: str) -> bool:
    """Return whether a file exists; no Spark job."""
    try:
        spark.read.format("binaryFile").load(path)
    except spark_errors("AnalysisException") as error:
        if not is_missing_path(error):
            raise
        return False
    return True
