"""One stage's step: from what changed in its feeder to what changes in itself.

A step finds the rows that the changed source keys have produced, through the key mappings and never
by producing again (S4), puts the newly produced ones in their place, and compares per target key.
The invariant: only affected keys are read and compared, unless the stage has to be produced in
full, or is so small that reading all of it costs no more.

It stands apart because it is the heart of the library, as three functions from rows to a
`Comparison`; where the rows come from and what is then written is for others to say. Each works
on the driver while all its rows are there, and in Spark otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from deltaproduce import arrow_changes, limits
from deltaproduce.arrays import Marks, distinct, empty, fetched, in_order, row_bytes
from deltaproduce.batches import Batch
from deltaproduce.changes import (
    AFTER,
    BEFORE,
    SIDE,
    all_new,
    cols,
    compare,
    content_columns,
    order,
    same,
    sources_of,
)
from deltaproduce.checkpoints import checkpoint
from deltaproduce.comparisons import Comparison, LocalComparison, WideComparison
from deltaproduce.ddl import identifier
from deltaproduce.edits import file_count
from deltaproduce.pipeline import Producer, Source
from deltaproduce.producers import produce
from deltaproduce.schemas import ORDINAL, ORDINAL_COLUMN, Column, RowSchema
from deltaproduce.selections import Rows, Selection, as_frame, united
from deltaproduce.stored import Stored

_GONE: Final = "_gone"
_ROWS_OF_ONE_TASK: Final = 5_000


def source_step(source: Source, batch: Batch, content: Stored | None) -> Comparison:
    """Put a batch's rows in the place of its keys' rows (S1, S9).

    Args:
        content: the source's rows; None if there are none yet.
    """
    schema, keys = source.schema, batch.keys()
    if content is None:
        return _first(batch.upserts(), batch.count, schema, (), batch.spark)
    if content.small and keys.few:
        return _replaced(content.fetched(), keys, batch.upserts(), schema, (), complete=True)
    return _replaced(content.of(keys), keys, batch.upserts(), schema, (), sought=keys.few)


def producer_step(
    stage: Producer,
    feeder: Comparison,
    content: Stored | None,
    mappings: Callable[[], Stored | None],
    time_zone: str,
) -> Comparison:
    """Produce the feeder's changed keys again, and only these.

    Args:
        feeder: the feeder's own step in this version.
        content: the stage's rows; None if there are none.
        mappings: the stage's key mappings, which a small stage does not need.
        time_zone: the session's, for timestamps.
    """
    schema, sources, spark = stage.schema, sources_of(stage), feeder.spark
    if content is None:
        emitted, count = _emitted(feeder.upserts(), stage, time_zone, spark)
        return _first(emitted, count, schema, sources, spark)
    changed = feeder.changed_keys.renamed(sources)
    if content.small and changed.few:
        emitted, _ = _emitted(feeder.upserts(), stage, time_zone, spark)
        return _replaced(content.fetched(), changed, emitted, schema, sources, complete=True)

    @inheritable_thread_target(spark)
    def were_produced() -> Rows:
        produced = mappings()
        assert produced is not None  # content has rows, and each has its pair
        return produced.of(changed)

    with ThreadPoolExecutor(1) as beside:  # the function leaves cores free, and Spark much waiting
        before = beside.submit(were_produced)
        emitted, _ = _emitted(feeder.upserts(), stage, time_zone, spark)
    key = schema.key.columns
    targets = united(before.result(), emitted, spark, key)
    affected = Selection.of(targets, key, spark)
    sought = changed.few and affected.few
    return _replaced(content.of(affected), changed, emitted, schema, sources, sought=sought)


def full_step(
    stage: Producer,
    feeder_content: Rows,
    content: Stored | None,
    time_zone: str,
    spark: SparkSession,
) -> Comparison:
    """Produce every key of the feeder.

    Args:
        feeder_content: all rows of the feeder, as they are in this version.
        content: the stage's rows; None if there are none yet.
    """
    schema, sources = stage.schema, sources_of(stage)
    emitted, count = _emitted(_in_key_order(feeder_content, stage), stage, time_zone, spark)
    if content is None:
        return _first(emitted, count, schema, sources, spark)
    if content.small and isinstance(emitted, pa.Table):
        before = content.fetched()
        none = np.zeros(len(before), bool)
        return _local(before, none, emitted, schema, sources, spark, complete=True)
    before = content.all().withColumn(SIDE, f.lit(BEFORE))
    new = as_frame(emitted, spark, content_columns(schema, sources))
    rows = _union(before, new, schema, sources)
    return WideComparison.of(compare(rows, schema, sources), schema, sources, complete=True)


def _emitted(rows: Rows, stage: Producer, time_zone: str, spark: SparkSession) -> tuple[Rows, int]:
    """What the stage's function makes of the rows of some keys, computed once, and its count."""
    columns = content_columns(stage.schema, sources_of(stage))
    if isinstance(rows, pa.Table):
        if not len(rows):
            return empty(columns), 0
        rows = _in_tasks(rows, stage.feeders[0].schema, spark)
    produced = produce(rows, stage, time_zone)
    size = f.coalesce(f.sum(row_bytes(columns)), f.lit(0))
    counted = {"rows": f.count(f.lit(1)), "bytes": size}
    computed, counts = checkpoint(produced, counted, stage=stage.name)
    few = counts["rows"] <= limits.LOCAL_ROWS and counts["bytes"] <= limits.LOCAL_BYTES
    return (fetched(computed, columns) if few else computed), counts["rows"]


def _in_tasks(rows: pa.Table, feeder: RowSchema, spark: SparkSession) -> DataFrame:
    """Rows from the driver, in order: in one task if they are few, otherwise in many by key."""
    columns = (*feeder.key, *feeder.value)
    if len(rows) <= _ROWS_OF_ONE_TASK:
        return as_frame(rows, spark, columns).coalesce(1)
    numbered = rows.append_column(ORDINAL, pa.array(np.arange(len(rows))))
    clustered = as_frame(numbered, spark, (*columns, ORDINAL_COLUMN)).repartition(*cols(feeder.key))
    return clustered.sortWithinPartitions(ORDINAL).select(*cols(columns))


def _first(
    rows: Rows, count: int, schema: RowSchema, sources: Sequence[Column], spark: SparkSession
) -> Comparison:
    """The comparison for a table without rows: sorted over disjoint ranges, ready to be written."""
    if isinstance(rows, pa.Table):
        nothing = empty(content_columns(schema, sources))
        return _local(nothing, np.empty(0, bool), rows, schema, sources, spark, complete=True)
    files = file_count(rows, count)
    ranged = rows.coalesce(1) if files == 1 else rows.repartitionByRange(files, *order(schema.key))
    new = all_new(ranged, schema, sources)
    return WideComparison.of(new, schema, sources, complete=True, ranged=True)


def _replaced(
    before: Rows,
    changed: Selection,
    new: Rows,
    schema: RowSchema,
    sources: Sequence[Column],
    *,
    complete: bool = False,
    sought: bool = True,
) -> Comparison:
    """Compare with what is there after ``new`` took the place of the changed keys' rows."""
    spark, columns = changed.spark, content_columns(schema, sources)
    if isinstance(before, pa.Table) and isinstance(new, pa.Table) and changed.few:
        stays = ~changed.holds(before)
        return _local(before, stays, new, schema, sources, spark, complete=complete)
    sides = _both_sides(as_frame(before, spark, columns), changed)
    rows = _union(sides, as_frame(new, spark, columns), schema, sources)
    return WideComparison.of(
        compare(rows, schema, sources), schema, sources, complete=complete, sought=sought
    )


def _local(
    before: pa.Table,
    stays: Marks,
    new: pa.Table,
    schema: RowSchema,
    sources: Sequence[Column],
    spark: SparkSession,
    *,
    complete: bool,
) -> Comparison:
    new = new.select(before.schema.names)
    rows = arrow_changes.compare(before, stays, new, schema, sources)
    key = list(schema.key.names)
    touched = pa.concat_tables([before.filter(pa.array(~stays)).select(key), new.select(key)])
    affected = len(distinct(touched))
    return LocalComparison.of(rows, schema, sources, spark, affected, complete=complete)


def _in_key_order(content: Rows, stage: Producer) -> Rows:
    """A feeder's content as its stage reads it: a key's rows together and in order (S6)."""
    feeder = stage.feeders[0]
    read = (*feeder.schema.key, *feeder.schema.value)
    placed = (*feeder.schema.key, *sources_of(feeder), ORDINAL_COLUMN)
    if isinstance(content, pa.Table):
        return in_order(content, placed).select([c.name for c in read])
    clustered = content.repartition(*cols(feeder.schema.key))
    return clustered.sortWithinPartitions(*order(placed)).select(*cols(read))


def _both_sides(rows: DataFrame, gone: Selection) -> DataFrame:
    """Each row as it was before and, unless its (source) key is one of ``gone``, as it stays."""
    marks = gone.frame.withColumn(_GONE, f.lit(True))
    marked = rows.join(marks, same(rows, marks, gone.columns), "left_outer")
    sides = f.when(marks[_GONE], f.array(f.lit(BEFORE))).otherwise(
        f.array(f.lit(BEFORE), f.lit(AFTER))
    )
    return marked.select(
        *(rows[identifier(name)] for name in rows.columns), f.explode(sides).alias(SIDE)
    )


def _union(
    before: DataFrame, new: DataFrame, schema: RowSchema, sources: Sequence[Column]
) -> DataFrame:
    columns = [*cols(schema.key), *cols(sources), f.col(ORDINAL), *cols(schema.value), f.col(SIDE)]
    return before.select(*columns).union(new.withColumn(SIDE, f.lit(AFTER)).select(*columns))
