"""Remote sessions: those of Spark Connect, and what is done in another way with them.

Such a session has no Java process beside it and no SparkContext: a plan is sent to a server. The
invariant: this is the only place that tells sessions apart. Whatever else asks `is_remote` has two
ways to the same result; what has only one is refused by name.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from pyspark.sql import SparkSession

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


def parallelism(spark: SparkSession) -> int:
    """How many tasks a session runs side by side, or, if it does not say, has a shuffle."""
    if is_remote(spark):
        return int(spark.conf.get(_PARTITIONS) or 1)
    return int(spark.sparkContext.defaultParallelism)
