"""Checkpoints: results that Spark computes once, counts on the way, and then only reads.

S4 demands that no retry mixes two runs of a produce function. A cached frame does not guarantee
that: Spark recomputes a lost block. A local checkpoint cuts the lineage, so a lost block fails the
update instead, and the next try starts from scratch. Counts come from the same Spark job as the
rows. With speculative execution two attempts of a task may each leave a block: rows that the user's
code computes then go through a shuffle first (`of_one_attempt`).

Running a job in the middle of DataFrame algebra is an effect; only this module does it. The blocks
stay on the executors' disks until the frame is garbage-collected.

Small results are needed on the driver. They come in the same job: each task keeps all of its rows,
and sends the first ones; if these are all rows, no fetch is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from deltaproduce.engines.spark.executors.failures import raised_by_producer
from deltaproduce.engines.spark.frames import fetched, in_files, row_bytes
from deltaproduce.engines.spark.sessions.error_texts import explained
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.engines.spark.sessions.remote import is_remote, kept
from deltaproduce.types.columns import Column

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

_FIRST_TASKS: Final = 64
_FIRST_ROWS: Final = 1_000
_FIRST_BYTES: Final = 4_096
"""The most rows per task, bytes per row and tasks that are sent to the driver: 256 MiB in all."""
_SPECULATES: Final = "spark.speculation"
_PLACE: Final = "_place"
_OF_TASK: Final = 1 << 33
"""Spark numbers the rows of each task from a multiple of this number."""


def checkpoint(
    rows: DataFrame, counts: Mapping[str, Expression], *, stage: str | None = None
) -> tuple[DataFrame, dict[str, int]]:
    """Compute the rows now, in their partitions and order, together with aggregates over them.

    Args:
        counts: name -> aggregate expression; at least one.
        stage: the stage whose function computes the rows, if there is one.

    Returns:
        The rows as a frame that is never recomputed, and the aggregates by name.

    Raises:
        ProducerError: a produce function behind the rows failed.
        CorruptStoreError: a function of the library found damaged rows in the store.
        SessionError: the session's Python workers cannot run the function.
    """
    aggregates = _named(counts)
    if stage is not None:
        rows = of_one_attempt(rows)
    with _explaining(stage):
        if is_remote(rows.sparkSession):  # Connect does not observe a checkpoint
            computed = kept(rows, eager=True)
            return computed, computed.agg(*aggregates).collect()[0].asDict()
        from pyspark.sql import Observation

        observation = Observation()
        observed = rows.observe(observation, *aggregates)
        return kept(observed, eager=True), dict(observation.get)


def checkpoint_of_few(
    rows: DataFrame, counts: Mapping[str, Expression], columns: Sequence[Column]
) -> tuple[DataFrame, dict[str, int], pa.Table | None]:
    """Like `checkpoint`, with the rows on the driver if they are few; in one job.

    The rows come from no function of a stage.

    Args:
        counts: includes the count of all ``rows``.
        columns: all columns of the rows.

    Returns:
        The frame, the aggregates, and all rows in their order, or None if there are too many rows.
    """
    with _explaining(None):
        from pyspark.sql import Observation

        observation = Observation()
        computed = kept(rows, eager=False)
        observed = computed.observe(observation, *_named(counts))
        numbered = observed.withColumn(_PLACE, f.monotonically_increasing_id())
        is_first = f"{_PLACE} < {_FIRST_TASKS * _OF_TASK} AND {_PLACE} % {_OF_TASK} < {_FIRST_ROWS}"
        first = fetched(numbered.where(is_first).where(row_bytes(columns) <= _FIRST_BYTES), columns)
        metrics = dict(observation.get)
    return computed, metrics, first if len(first) == metrics["rows"] else None


def checkpoint_in_files(
    rows: DataFrame,
    counts: Mapping[str, Expression],
    columns: Sequence[Column],
    comes: Callable[[Mapping[str, int]], bool],
) -> tuple[DataFrame | pa.Table, dict[str, int]]:
    """Like `checkpoint_of_few`, for many rows that are likely to come to the driver.

    Tasks write the rows to files of this machine, see `frames.in_files`. It takes half the time of
    a checkpoint that is read again.

    Args:
        comes: whether the rows come, given the aggregates; otherwise Spark reads the files.

    Returns:
        The rows on the driver, in ``columns``, or the frame; and the aggregates.
    """
    with _explaining(None):
        from pyspark.sql import Observation

        observation = Observation()
        with in_files(rows.observe(observation, *_named(counts))) as files:
            observed = dict(observation.get)
            if comes(observed):
                return files.table(columns), observed
            return kept(files.frame(), eager=True), observed


def of_one_attempt(rows: DataFrame, *, in_order: bool = False) -> DataFrame:
    """Return rows that a checkpoint takes from one attempt of each task that computes them.

    Code of the user may return other rows each time it runs. If the session's tasks may have
    several attempts at once, each of them would leave a block of the checkpoint, and readers would
    find the one or the other. Spark's shuffles have the output of one attempt alone.

    Args:
        in_order: rows stay in their order, which computes them twice; otherwise they have none.
    """
    if rows.sparkSession.conf.get(_SPECULATES, "false") != "true":
        return rows
    numbered = rows.withColumn(_PLACE, f.monotonically_increasing_id())
    shuffled = numbered.repartitionByRange(_PLACE) if in_order else numbered.repartition(_PLACE)
    return shuffled.sortWithinPartitions(_PLACE).drop(_PLACE)


def estimated_bytes(rows: DataFrame) -> int:
    """Return Spark's estimate of the size of rows; beyond any memory if it has none.

    It is that of the plan as written: to optimize it takes long, and jobs if it reads Delta tables.
    """
    plan = rows._jdf.queryExecution().analyzed()
    return int(str(plan.stats().sizeInBytes()))


def computed_once(rows: DataFrame) -> DataFrame:
    """Return rows that Spark computes when first read, partition by partition, and then keeps."""
    return kept(rows, eager=False)


def _named(counts: Mapping[str, Expression]) -> list[Expression]:
    return [count.alias(name) for name, count in counts.items()]


@contextmanager
def _explaining(stage: str | None) -> Iterator[None]:
    """Raise known errors of the block in the library's terms."""
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
