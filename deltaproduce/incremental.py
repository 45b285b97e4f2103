"""One stage's step: from what changed in its feeder to what changes in itself.

A step finds the rows that the changed source keys have produced, through the key mappings and never
by producing again (S4), puts the newly produced ones in their place, and compares per target key.
The
invariant: only affected keys are read and compared, unless the stage has to be produced in full.

It stands apart because it is the heart of the library, as three functions from DataFrames to a
`Comparison`; where the frames come from and what is then written is for others to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from deltaproduce.batches import Batch
from deltaproduce.changes import (
    AFTER,
    BEFORE,
    SIDE,
    all_new,
    cols,
    compare,
    order,
    same,
    source_columns,
)
from deltaproduce.checkpoints import checkpoint
from deltaproduce.comparisons import Comparison
from deltaproduce.ddl import identifier
from deltaproduce.edits import file_count
from deltaproduce.pipeline import Producer, Source
from deltaproduce.producers import produce
from deltaproduce.schemas import ORDINAL, Column, RowSchema
from deltaproduce.selections import Selection

_GONE: Final = "_gone"


def source_step(source: Source, batch: Batch, content: DataFrame | None) -> Comparison:
    """Put a batch's rows in the place of its keys' rows (S1, S9).

    Args:
        content: the source's rows; None if there are none yet.
    """
    schema = source.schema
    upserts = batch.upserts()
    if content is None:
        return _first(upserts, batch.count, schema, ())
    keys = batch.keys()
    before = _both_sides(keys.rows_of(content), keys)
    rows = _union(before, upserts, schema, ())
    return Comparison.of(compare(rows, schema, ()), schema, (), sought=keys.table is not None)


def producer_step(
    stage: Producer,
    feeder: Comparison,
    content: DataFrame | None,
    mappings: DataFrame | None,
    time_zone: str,
) -> Comparison:
    """Produce the feeder's changed keys again, and only these.

    Args:
        feeder: the feeder's own step in this version.
        content: the stage's rows; None if there are none.
        mappings: the stage's key mappings; None if there are none.
        time_zone: the session's, for timestamps.
    """
    schema, sources = stage.schema, _sources(stage)
    emitted, count = _emitted(feeder.upserts(), stage, time_zone)
    if content is None or mappings is None:
        return _first(emitted, count, schema, sources)
    changed = feeder.changed_keys().renamed(sources)
    key = cols(schema.key)
    targets = changed.rows_of(mappings).select(*key).union(emitted.select(*key))
    affected = Selection.of(targets, schema.key.columns)
    before = _both_sides(affected.rows_of(content), changed)
    rows = _union(before, emitted, schema, sources)
    sought = changed.table is not None and affected.table is not None
    return Comparison.of(compare(rows, schema, sources), schema, sources, sought=sought)


def full_step(
    stage: Producer, feeder_content: DataFrame, content: DataFrame | None, time_zone: str
) -> Comparison:
    """Produce every key of the feeder.

    Args:
        feeder_content: all rows of the feeder, as they are in this version.
        content: the stage's rows; None if there are none yet.
    """
    schema, sources = stage.schema, _sources(stage)
    rows = _in_key_order(feeder_content, stage)
    emitted, count = _emitted(rows, stage, time_zone)
    if content is None:
        return _first(emitted, count, schema, sources)
    before = content.withColumn(SIDE, f.lit(BEFORE))
    rows = _union(before, emitted, schema, sources)
    return Comparison.of(compare(rows, schema, sources), schema, sources, whole=True)


def _sources(stage: Producer) -> tuple[Column, ...]:
    return source_columns(stage.feeders[0].schema.key)


def _emitted(rows: DataFrame, stage: Producer, time_zone: str) -> tuple[DataFrame, int]:
    produced = produce(rows, stage, time_zone)
    computed, counts = checkpoint(produced, {"rows": f.count(f.lit(1))}, stage=stage.name)
    return computed, counts["rows"]


def _first(rows: DataFrame, count: int, schema: RowSchema, sources: Sequence[Column]) -> Comparison:
    """The comparison for a table without rows: sorted over disjoint ranges, ready to be written."""
    files = file_count(rows, count)
    ranged = rows.coalesce(1) if files == 1 else rows.repartitionByRange(files, *order(schema.key))
    new = all_new(ranged, schema, sources)
    return Comparison.of(new, schema, sources, whole=True, ranged=True)


def _in_key_order(content: DataFrame, stage: Producer) -> DataFrame:
    """A feeder's content as its stage reads it: a key's rows together and in order (S6)."""
    feeder = stage.feeders[0]
    origin = source_columns(feeder.feeders[0].schema.key) if feeder.feeders else ()
    in_order = [*order(feeder.schema.key), *order(origin), f.col(ORDINAL)]
    key = cols(feeder.schema.key)
    clustered = content.repartition(*key).sortWithinPartitions(*in_order)
    return clustered.select(*key, *cols(feeder.schema.value))


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
