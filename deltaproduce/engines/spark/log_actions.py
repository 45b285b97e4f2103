"""Log actions: what the commits of a Delta table did to its files, read from its log in Spark.

The log is read as Delta's protocol defines it
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md): a JSON file for each commit, with
actions ``add`` and ``remove``; a deletion vector is in a file named by a UUID, which the action has
in Z85 (https://rfc.zeromq.org/spec/32).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from deltaproduce.engines.delta.log import COMMIT_NAME, Z85
from deltaproduce.engines.spark.sessions.on_demand import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_ACTION: Final = (
    "struct<path: string, "
    "deletionVector: struct<storageType: string, pathOrInlineDv: string, offset: int>, "
    "partitionValues: map<string, string>>"
)


def actions(spark: SparkSession, files: str | Sequence[str]) -> DataFrame:
    """Return the actions on files in some commits; lazily.

    Args:
        files: the commits' files, or a pattern of their paths. Files other than commits are
            skipped.

    Returns:
        ``commit`` (the delta version), ``adds`` (if not, it removes), ``path`` (as in the log),
        ``marked`` (rows of the file are marked as deleted), ``mark`` (what distinguishes the
        deletion vector from others of the file; empty if there is none), ``vector`` (the path of
        the file that contains the deletion vector; null if none does), ``partition`` (the values of
        its partition columns).
    """
    paths = [files] if isinstance(files, str) else list(files)
    log = spark.read.schema(f"add {_ACTION}, remove {_ACTION}").json(paths)
    action = f.coalesce("add", "remove")
    commit = f.regexp_extract("_metadata.file_name", f"^{COMMIT_NAME}$", 1)
    actions = log.where(action.isNotNull() & (commit != "")).select(
        commit.cast("bigint").alias("commit"),
        f.col("add").isNotNull().alias("adds"),
        action["path"].alias("path"),
        action["deletionVector"].alias("vector"),
        action["partitionValues"].alias("partition"),
    )
    marked = f.col("vector").isNotNull()
    parts = (f.col(f"vector.{part}") for part in ("storageType", "pathOrInlineDv", "offset"))
    mark = f.concat_ws("@", *parts)
    return actions.withColumns({"marked": marked, "mark": mark, "vector": _vector()})


def _vector() -> Column:
    """Return the path of the file with an action's deletion vector; null if it is in none.

    It is built as text, because as an expression each part would be a call to Spark.
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
    """Return SQL for four bytes, given as SQL for five digits of Z85, in hexadecimal."""
    values = (
        f"(instr('{Z85}', substring({block}, {place}, 1)) - 1) * {85 ** (5 - place)}L"
        for place in range(1, 6)
    )
    return f"lpad(lower(hex({' + '.join(values)})), 8, '0')"
