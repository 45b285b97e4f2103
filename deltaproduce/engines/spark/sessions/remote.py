"""Remote sessions: sessions of Spark Connect, and the code that treats them differently.

Such a session has no Java process on the driver and no SparkContext: a plan is sent to a server.
The invariant: only this module tells sessions apart. Other code that asks `is_remote` has two ways
to the same result; an operation with only one way is refused by name.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

"""Where Spark keeps computed rows: its memory is for computing (decision 2)."""
_PARTITIONS: Final = "spark.sql.shuffle.partitions"


def is_remote(spark: SparkSession) -> bool:
    """Return whether a session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def prepare(spark: SparkSession) -> None:
    """Make Delta's errors from a server the same as from a session of this process."""
    if is_remote(spark):
        import_module("delta.connect")


def beside(spark: SparkSession) -> SparkSession:
    """Return another session of the same Spark, with settings of its own."""
    if is_remote(spark):
        return spark.cloneSession()  # type: ignore[attr-defined, no-any-return]
    return spark.newSession()


def release(session: SparkSession) -> None:
    """Release a session from `beside` that is not used again.

    What it was doing is cancelled. Otherwise its server would keep both for an hour; a session of
    this process is freed with its last reference.
    """
    if is_remote(session):
        client: Any = session.client
        with suppress(Exception):  # the server may be why it is not used again
            client.release_session()


def kept(rows: DataFrame, *, eager: bool) -> DataFrame:
    """Return rows that are computed once, now or on first read, and are on disk from then on.

    A Connect client assigns what its server keeps to the active session, whichever session keeps
    it: from there it can neither be read nor be released.
    """
    from pyspark.storagelevel import StorageLevel

    checkpointed = rows.localCheckpoint(eager=eager, storageLevel=StorageLevel.DISK_ONLY)
    session = rows.sparkSession
    if is_remote(session) and checkpointed.sparkSession is not session:
        remote: Any = checkpointed
        remote._session = remote._plan._spark_session = session
    return checkpointed


def parallelism(spark: SparkSession) -> int:
    """Return the number of a session's parallel tasks, or, if unknown, of shuffle partitions."""
    if is_remote(spark):
        return int(spark.conf.get(_PARTITIONS) or 1)
    return int(spark.sparkContext.defaultParallelism)
