"""Checkpoints: results that are computed once, counted on the way, and then only read.

S4 demands that no retry mixes two runs of a produce function. A cached frame does not give that:
Spark computes a lost block again. A local checkpoint cuts the lineage, so a lost block fails the
update instead, and the next try starts anew. Counts come from the same Spark job as the rows.

Running a job in the middle of DataFrame algebra is an effect; only this module does it. The
blocks live on the executors' disks until the frame is garbage-collected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, Observation

from deltaproduce.engines.spark.failures import raised_by_producer
from deltaproduce.engines.spark.frames import KEPT
from deltaproduce.engines.spark.sessions.error_texts import explained
from deltaproduce.engines.spark.sessions.remote import is_remote


def checkpoint(
    rows: DataFrame, counts: Mapping[str, Column], *, stage: str | None = None
) -> tuple[DataFrame, dict[str, int]]:
    """Compute the rows now, in their partitions and order, together with aggregates over them.

    Args:
        counts: name -> aggregate expression; at least one.
        stage: the stage whose function computes the rows, if one does.

    Returns:
        The rows as a frame that is never computed again, and the aggregates by name.

    Raises:
        ProducerError: a produce function that the rows come from failed.
        CorruptStoreError: what is stored cannot be, as a function of the library found.
        SessionError: the session's Python workers cannot run it.
    """
    aggregates = [count.alias(name) for name, count in counts.items()]
    try:
        return _counted(rows, aggregates)
    except Exception as error:
        failure = raised_by_producer(error, stage)
        if failure is not None:
            raise failure from failure.__cause__
        unfit = explained(error)
        if unfit is not None:
            raise unfit from error
        raise


def computed_once(rows: DataFrame) -> DataFrame:
    """Rows that are computed where they are first read, partition by partition, and kept then."""
    return rows.localCheckpoint(eager=False)


def _counted(rows: DataFrame, aggregates: Sequence[Column]) -> tuple[DataFrame, dict[str, int]]:
    """The rows, computed, and aggregates over them: in one job, or in two of a remote session."""
    if is_remote(rows.sparkSession):  # which does not observe a checkpoint
        computed = rows.localCheckpoint(eager=True, storageLevel=KEPT)
        return computed, computed.agg(*aggregates).collect()[0].asDict()
    observation = Observation()
    observed = rows.observe(observation, *aggregates)
    return observed.localCheckpoint(eager=True, storageLevel=KEPT), dict(observation.get)
