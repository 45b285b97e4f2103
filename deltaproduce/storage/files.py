"""Files: which files of a table no delta version that is needed has.

They are found by name: a file is needed at each delta version from the commit that adds it up to
the one that removes it, as the table's log says. The invariant: no file that a needed delta version
has, or the newest one, is found, and none that a writer may be about to commit; and what is found
lies in the table's directory itself, where the log names it, or beside those that it names: not in
a folder of someone else's, and not behind a symbolic link.

Delta's log is read as its protocol lays it down
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md): a JSON file for each commit, with
actions ``add`` and ``remove``; a deletion vector is in a file named by a UUID, which the action has
in Z85 (https://rfc.zeromq.org/spec/32).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection
from datetime import datetime
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from deltaproduce.engines.spark.delta import globbed
from deltaproduce.engines.spark.file_systems import is_linked, links_below
from deltaproduce.storage.locations import Table, commit_file
from deltaproduce.storage.tables import Tables

_ACTION: Final = (
    "struct<path: string, deletionVector: struct<storageType: string, pathOrInlineDv: string>>"
)
_INVENTORY: Final = "path string, length bigint, isDir boolean, modificationTime bigint"
_SCHEME: Final = "^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?"
_Z85: Final = (
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
)


def unneeded(
    tables: Tables, table: Table, needed: Collection[int], unfinished_since: datetime
) -> DataFrame:
    """The files of a table that no version needs, as an inventory; lazily.

    Args:
        needed: the delta versions that are read, beside the newest one.
        unfinished_since: files that no commit names are found if they are older than this.

    Returns:
        ``path``, ``length``, ``isDir``, ``modificationTime`` (milliseconds since 1970). None are
        found of a table that is elsewhere, behind a link below the store's root.
    """
    spark, directory = tables.spark, tables.directory(table)
    root = directory if table.in_catalog else tables.location.address
    nothing = spark.createDataFrame([], _INVENTORY)
    if is_linked(root, f"{directory}/_delta_log"):
        return nothing
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
    if not _has(spark, f"{place}/{commit_file(0)}"):  # of old files it may not say any more
        is_old = f.lit(False)
    is_unneeded = ~f.col("needed") & f.array_contains("paths", f.col("inside"))
    is_left = f.col("needed").isNull() & is_old & (f.col("inside") == f.col("name"))
    found = listed.join(named, "name", "left_outer").where(is_unneeded | is_left)
    inventory = found.select(
        "path", "length", f.lit(False), f.unix_millis("modificationTime").alias("modificationTime")
    )
    return nothing.union(inventory)


def _inside(directory: str) -> Column:
    """The path of a file from a directory; null if it is elsewhere."""
    top = posixpath.normpath(re.sub(_SCHEME, "", directory))
    path = f.regexp_replace("path", _SCHEME, "")
    rest = f.substr(path, f.lit(len(top) + 2))
    return f.when(f.startswith(path, f.lit(f"{top}/")), rest)


def _is_behind(links: Collection[str]) -> Column:
    """Whether a file is one of some links, or is reached through one."""
    way, found = f.concat("inside", f.lit("/")), f.array(*(f.lit(f"{link}/") for link in links))
    return f.exists(found, lambda link: f.startswith(way, link)) if links else f.lit(False)


def _named(spark: SparkSession, place: str, needed: Collection[int]) -> DataFrame:
    """The names of all files that a table's log tells of, where, and whether each is needed."""
    log = spark.read.schema(f"add {_ACTION}, remove {_ACTION}").json(f"{place}/_delta_log/*.json")
    action = f.coalesce("add", "remove")
    commit = f.regexp_extract("_metadata.file_name", r"^(\d{20})\.json$", 1)
    actions = log.where(action.isNotNull() & (commit != "")).select(
        commit.cast("bigint").alias("commit"),
        f.col("add").isNotNull().alias("adds"),
        action["path"].alias("file"),
        action["deletionVector"].alias("vector"),
    )
    actions = actions.withColumn("vector", _vector())
    one = Window.partitionBy("file", "vector").orderBy("commit")
    spans = actions.select(
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


def _vector() -> Column:
    """The path of the file that an action's deletion vector is in; null if it is in none.

    Written as text, because Spark takes a call for each part of an expression otherwise.
    """
    blocks = (f"substring(vector.pathOrInlineDv, {start}, 5)" for start in (-20, -15, -10, -5))
    digits = f"concat({', '.join(map(_hex_sql, blocks))})"
    return f.expr(
        f"""CASE vector.storageType
            WHEN 'u' THEN concat(
                regexp_replace(regexp_replace(vector.pathOrInlineDv, '.{{20}}$', ''), '.$', '$0/'),
                'deletion_vector_', regexp_replace({digits},
                '^(.{{8}})(.{{4}})(.{{4}})(.{{4}})(.{{12}})$', '$1-$2-$3-$4-$5'), '.bin')
            WHEN 'p' THEN vector.pathOrInlineDv END"""
    )


def _hex_sql(block: str) -> str:
    """Four bytes, which are five digits of Z85, in hexadecimal; SQL of SQL."""
    values = (
        f"(instr('{_Z85}', substring({block}, {place}, 1)) - 1) * {85 ** (5 - place)}L"
        for place in range(1, 6)
    )
    return f"lpad(lower(hex({' + '.join(values)})), 8, '0')"


def _base_name(path: Column) -> Column:
    return f.substring_index(path, "/", -1)


def _has(spark: SparkSession, path: str) -> bool:
    """Whether there is such a file; no Spark job."""
    try:
        spark.read.format("binaryFile").load(path)
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return False
    return True
