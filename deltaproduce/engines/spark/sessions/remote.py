"""Remote sessions: those of Spark Connect, and what is done in another way with them.

Such a session has no Java process beside it and no SparkContext: a plan is sent to a server. The
invariant: this is the only place that tells sessions apart. Whatever else asks `is_remote` has two
ways to the same result; what has only one is refused by name.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.storagelevel import StorageLevel

_KEPT: Final = StorageLevel.DISK_ONLY
"""Where Spark keeps what it has computed: its memory is for computing (decision 2)."""
_PARTITIONS: Final = "spark.sql.shuffle.partitions"


def is_remote(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def prepare(spark: SparkSession) -> None:
    """Let Delta's errors from a server be those that they are from a session of this process."""
    if is_remote(spark):
        import_module("delta.connect")


def beside(spark: SparkSession) -> SparkSession:
    """Another session of the same Spark, with settings of its own."""
    if is_remote(spark):
        return spark.cloneSession()  # type: ignore[attr-defined, no-any-return]
    return spark.newSession()


def kept(rows: DataFrame, *, eager: bool) -> DataFrame:
    """Rows that are computed once, now or when they are first read, and are on disk from then on.

    A client of Connect takes what its server keeps for the active session's, whichever session
    keeps it: from there it can neither be read nor be released.
    """
    found = rows.localCheckpoint(eager=eager, storageLevel=_KEPT)
    session = rows.sparkSession
    if is_remote(session) and found.sparkSession is not session:
        remote: Any = found
        remote._session = remote._plan._spark_session = session
    return found


def parallelism(spark: SparkSession) -> int:
    """How many tasks a session runs side by side, or, if it does not say, has a shuffle."""
    if is_remote(spark):
        return int(spark.conf.get(_PARTITIONS) or 1)
    return int(spark.sparkContext.defaultParallelism)
