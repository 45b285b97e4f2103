"""Checkpoints: results that are computed once, counted on the way, and then only read.

S4 demands that no retry mixes two runs of a produce function. A cached frame does not give that:
Spark computes a lost block again. A local checkpoint cuts the lineage, so a lost block fails the
update instead, and the next try starts anew. Counts come from the same Spark job as the rows.

Running a job in the middle of DataFrame algebra is an effect; only this module does it. The
blocks live on the executors' disks until the frame is garbage-collected.

What is little is wanted on the driver. It comes in the same job: each task keeps all of its rows,
and sends the first ones; where those are all there are, they need not be fetched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as f

from deltaproduce.engines.spark.failures import raised_by_producer
from deltaproduce.engines.spark.frames import fetched, row_bytes
from deltaproduce.engines.spark.sessions.error_texts import explained
from deltaproduce.engines.spark.sessions.remote import is_remote, kept
from deltaproduce.types.columns import Column

_FIRST_TASKS: Final = 64
_FIRST_ROWS: Final = 1_000
_FIRST_BYTES: Final = 4_096
"""The driver gets at most so many rows, of so many bytes each, of so many tasks: 256 MiB."""
_PLACE: Final = "_place"
_OF_TASK: Final = 1 << 33
"""Spark numbers the rows of each task from a multiple of it on."""


def checkpoint(
    rows: DataFrame, counts: Mapping[str, Expression], *, stage: str | None = None
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
    aggregates = _named(counts)
    with _explaining(stage):
        if is_remote(rows.sparkSession):  # which does not observe a checkpoint
            computed = kept(rows, eager=True)
            return computed, computed.agg(*aggregates).collect()[0].asDict()
        observation = Observation()
        observed = rows.observe(observation, *aggregates)
        return kept(observed, eager=True), dict(observation.get)


def checkpoint_of_few(
    rows: DataFrame, counts: Mapping[str, Expression], columns: Sequence[Column]
) -> tuple[DataFrame, dict[str, int], pa.Table | None]:
    """The same as `checkpoint`, and the rows on the driver if they are few; in one job.

    The rows come from no function of a stage.

    Args:
        counts: the count of all ``rows`` is among them.
        columns: all columns of the rows.

    Returns:
        The frame, the aggregates, and all rows in their order; None for these if there are more.
    """
    with _explaining(None):
        observation = Observation()
        computed = kept(rows, eager=False)
        observed = computed.observe(observation, *_named(counts))
        numbered = observed.withColumn(_PLACE, f.monotonically_increasing_id())
        is_first = f"{_PLACE} < {_FIRST_TASKS * _OF_TASK} AND {_PLACE} % {_OF_TASK} < {_FIRST_ROWS}"
        first = fetched(numbered.where(is_first).where(row_bytes(columns) <= _FIRST_BYTES), columns)
        found = dict(observation.get)
    return computed, found, first if len(first) == found["rows"] else None


def computed_once(rows: DataFrame) -> DataFrame:
    """Rows that are computed where they are first read, partition by partition, and kept then."""
    return kept(rows, eager=False)


def _named(counts: Mapping[str, Expression]) -> list[Expression]:
    return [count.alias(name) for name, count in counts.items()]


@contextmanager
def _explaining(stage: str | None) -> Iterator[None]:
    """What is raised within is said in our words, if we know what it means."""
    try:
        yield
    except Exception as error:
        failure = raised_by_producer(error, stage)
        if failure is not None:
            raise failure from failure.__cause__
        unfit = explained(error)
        if unfit is not None:
            raise unfit from error
        raise
