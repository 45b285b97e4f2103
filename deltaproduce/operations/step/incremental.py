"""One stage's step: from what changed in its feeder to what changes in itself.

A step finds the rows that the changed source keys have produced, through the key mappings and never
by producing again (S4), puts the newly produced ones in their place, and compares per target key.
The invariant: only affected keys are read and compared, unless the stage has to be produced in
full, or is so small that reading all of it costs no more.

Each step works on the driver while all its rows are there, and in Spark otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from deltaproduce.engines.comparisons import Comparison, LocalComparison, SparkComparison
from deltaproduce.engines.local import comparing as arrow_changes
from deltaproduce.engines.local.arrays import Marks, distinct, empty
from deltaproduce.engines.marks import AFTER, BEFORE, SIDE
from deltaproduce.engines.selections import Rows, Selection, as_frame, united
from deltaproduce.engines.spark.columns import cols, same
from deltaproduce.engines.spark.comparing import all_different, compare
from deltaproduce.model.graph import Source, Stage
from deltaproduce.model.layouts import content_columns, sources_of
from deltaproduce.operations.step.edits import file_count, in_ranges
from deltaproduce.operations.step.redefinitions import Redefinition
from deltaproduce.stages.batches import Batch
from deltaproduce.stages.inputs import StageInput, changed_keys
from deltaproduce.stages.productions import Production
from deltaproduce.storage.stored import Stored
from deltaproduce.types.columns import ORDINAL, Column, RowSchema
from deltaproduce.types.ddl import identifier

_GONE: Final = "_gone"


@dataclass(frozen=True, slots=True)
class Found:
    """What a step found out.

    Attributes:
        surrogates: the last surrogate number that the stage has given out.
    """

    comparison: Comparison
    surrogates: int = 0


def source_step(
    source: Source,
    batch: Batch,
    content: Stored | None,
    redefined: Redefinition | None = None,
    *,
    anew: bool = False,
) -> Found | None:
    """Put a batch's rows in the place of its keys' rows (S1, S9), or a snapshot's in that of all.

    Args:
        content: the source's rows; None if there are none yet.
        redefined: if it has other columns than its tables; then the batch is a snapshot.
        anew: it had rows, which do not count, so that having none is a change.

    Returns:
        What it changes; None if no key's rows differ, and its columns neither.
    """
    schema, spark, upserts = source.schema, batch.spark, batch.upserts()
    if redefined is not None:
        before = _conformed(redefined, content)
        return Found(_made_anew(redefined, before, upserts, batch.count, spark))
    if content is None:
        compared = _first(upserts, batch.count, schema, (), spark)
    elif batch.is_snapshot:
        before = content.fetched() if content.small else content.all()
        compared = _all_replaced(before, upserts, schema, (), spark)
    else:
        keys = batch.keys()
        whole = content.small and keys.few
        rows = content.fetched() if whole else content.of(keys)
        compared = _replaced(rows, keys, upserts, schema, (), complete=whole, sought=keys.few)
    return Found(compared) if compared.counts.keys_changed or anew else None


def producer_step(
    production: Production,
    inputs: Sequence[StageInput],
    content: Stored | None,
    mappings: Callable[[], Stored | None],
) -> Found | None:
    """Produce the keys again that a feeder has changed, and only these.

    Args:
        production: runs the stage's function.
        inputs: what the stage reads.
        content: the stage's rows; None if there are none.
        mappings: the stage's key mappings, which a small stage does not need.

    Returns:
        What it changes; None if no feeder has changed a key.
    """
    changed = changed_keys(inputs, sources_of(production.stage))
    return (
        None if changed is None else selected_step(production, inputs, content, mappings, changed)
    )


def selected_step(
    production: Production,
    inputs: Sequence[StageInput],
    content: Stored | None,
    mappings: Callable[[], Stored | None],
    changed: Selection,
) -> Found:
    """Produce some source keys again, whether a feeder has changed them or not.

    Args:
        changed: the keys, in the columns of the stage's source key; all that a feeder has changed
            are among them. The rest is as for `producer_step`.
    """
    stage = production.stage
    schema, sources, spark = stage.schema, sources_of(stage), production.spark
    if content is None:
        return _first_of(production, *production.of_changed(inputs, changed))
    if content.small and changed.few:
        before: Rows = content.fetched()
        emitted, count = production.of_changed(inputs, changed)
        new, surrogates = production.kept(before, emitted, count)
        compared = _replaced(before, changed, new, schema, sources, complete=True)
        return Found(compared, surrogates)

    @inheritable_thread_target(spark)
    def were_produced() -> Rows:
        produced = mappings()
        assert produced is not None  # content has rows, and each has its pair
        return produced.of(changed)

    with ThreadPoolExecutor(1) as beside:  # the function leaves cores free, and Spark much waiting
        old = beside.submit(were_produced)
        emitted, count = production.of_changed(inputs, changed)
    key = schema.key.columns
    targets = united(old.result(), emitted, spark, key)
    affected = Selection.of(targets, key, spark)
    before = content.of(affected)
    new, surrogates = production.kept(before, emitted, count)
    sought = changed.few and affected.few
    return Found(_replaced(before, changed, new, schema, sources, sought=sought), surrogates)


def full_step(
    production: Production,
    inputs: Sequence[StageInput],
    content: Stored | None,
    redefined: Redefinition | None = None,
) -> Found | None:
    """Produce every key that a feeder has.

    Args:
        production: runs the stage's function.
        inputs: what the stage reads.
        content: the stage's rows; None if there are none yet.
        redefined: if the stage has other columns than its tables.

    Returns:
        What it changes; None if no feeder has ever had rows.
    """
    stage, spark = production.stage, production.spark
    schema, sources = stage.schema, sources_of(stage)
    found = production.of_all(inputs)
    if found is None and redefined is None:
        return None
    emitted, count = found or (empty(production.content), 0)
    if redefined is not None:
        old = _conformed(redefined, content)
        new, surrogates = production.kept(old if redefined.same_values else None, emitted, count)
        return Found(_made_anew(redefined, old, new, count, spark), surrogates)
    if content is None:
        return _first_of(production, emitted, count)
    before = content.fetched() if content.small else content.all()
    new, surrogates = production.kept(before, emitted, count)
    return Found(_all_replaced(before, new, schema, sources, spark), surrogates)


def difference(
    stage: Stage,
    before: Stored | None,
    after: Stored | None,
    keys: Callable[[], Selection] | None,
    spark: SparkSession,
) -> Comparison:
    """Compare the rows that a stage has in one version with those of another.

    Args:
        before: all rows that it had; None if there are none.
        after: all rows that it has; None if there are none.
        keys: finds all keys whose values may differ, which is asked for if there are many rows;
            None if nobody knows.
    """
    schema, sources = stage.schema, sources_of(stage)
    nothing = empty(content_columns(schema, sources))
    is_small = all(side is None or side.small for side in (before, after))
    sought = None if keys is None or is_small else keys()
    were, are = (nothing if side is None else _rows(side, sought) for side in (before, after))
    return _all_replaced(were, are, schema, sources, spark, complete=sought is None)


def stored_step(
    stage: Stage,
    before: Stored | None,
    after: Stored | None,
    keys: Callable[[], Selection],
    spark: SparkSession,
    redefined: Redefinition | None = None,
) -> Comparison:
    """What a step found out whose outcome is stored: nothing is produced.

    Args:
        before: the stage's rows; None if there are none yet.
        after: its rows after the step; None if there are none left.
        keys: finds all keys whose values differ.
        redefined: if the stage has other columns than its tables.
    """
    if redefined is not None:
        nothing = empty(content_columns(stage.schema, sources_of(stage)))
        rows, count = (nothing, 0) if after is None else (after.all(), after.count)
        return _made_anew(redefined, _conformed(redefined, before), rows, count, spark)
    return difference(stage, before, after, None if before is None else keys, spark)


def _first_of(production: Production, emitted: Rows, count: int) -> Found:
    """What comes into a stage without rows."""
    stage = production.stage
    new, surrogates = production.kept(None, emitted, count)
    compared = _first(new, count, stage.schema, sources_of(stage), production.spark)
    return Found(compared, surrogates)


def _first(
    rows: Rows, count: int, schema: RowSchema, sources: Sequence[Column], spark: SparkSession
) -> Comparison:
    """The comparison for a table without rows: sorted over disjoint ranges, ready to be written."""
    if isinstance(rows, pa.Table):
        nothing = empty(content_columns(schema, sources))
        return _local(nothing, np.empty(0, bool), rows, schema, sources, spark, complete=True)
    ranged = in_ranges(rows, file_count(rows, count), schema.key)
    return SparkComparison.of_new(ranged, schema, sources)


def _conformed(redefined: Redefinition, content: Stored | None) -> DataFrame | None:
    """The rows before in the columns of now; None if there are none with the same key columns."""
    if content is None or not redefined.same_key:
        return None
    return redefined.conformed(content.all())


def _made_anew(
    redefined: Redefinition, before: DataFrame | None, new: Rows, count: int, spark: SparkSession
) -> Comparison:
    """Compare with what is there after tables with other columns took the place of all."""
    schema, sources = redefined.new.schema, sources_of(redefined.new)
    if before is None:
        return _first(new, count, schema, sources, spark)
    differ = not redefined.same_values
    return _all_replaced(before, new, schema, sources, spark, all_differ=differ)


def _all_replaced(
    before: Rows,
    new: Rows,
    schema: RowSchema,
    sources: Sequence[Column],
    spark: SparkSession,
    *,
    complete: bool = True,
    all_differ: bool = False,
) -> Comparison:
    """Compare with what is there after ``new`` took the place of all of ``before``.

    Args:
        complete: these are all rows of the table.
        all_differ: no row before can be equal to one after.
    """
    if isinstance(before, pa.Table) and isinstance(new, pa.Table):
        none = np.zeros(len(before), bool)
        return _local(before, none, new, schema, sources, spark, complete=complete)
    columns = content_columns(schema, sources)
    old = as_frame(before, spark, columns).withColumn(SIDE, f.lit(BEFORE))
    rows = _union(old, as_frame(new, spark, columns), schema, sources)
    compared = compare(rows, schema, sources)
    if all_differ:
        compared = all_different(compared)
    return SparkComparison.of(compared, schema, sources, complete=complete)


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
    return SparkComparison.of(
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


def _rows(stored: Stored, keys: Selection | None) -> Rows:
    if keys is not None:
        return keys.exactly(stored.of(keys))
    return stored.fetched() if stored.small else stored.all()
