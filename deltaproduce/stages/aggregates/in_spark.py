"""States of rows that are in Spark, and what becomes of them.

Where Spark's own aggregation has all measures of a stage, no row is seen by Python. Else the
driver's kernel adds up parts of each partition, and then the states of each key, whole columns at a
time. Where states become rows of the stage, once for each key, it is done as on the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StructField, StructType

from deltaproduce.engines.failures import in_worker
from deltaproduce.engines.local.arrays import whole_keys
from deltaproduce.engines.spark.columns import col, cols, order
from deltaproduce.model.layouts import Layout
from deltaproduce.stages.aggregates.folding import folded, state_columns, states_added_up
from deltaproduce.stages.aggregates.grouping import Grouping
from deltaproduce.stages.aggregates.on_driver import signed_states
from deltaproduce.types.columns import Column

_SIGN = "_sign"
_Batches = Iterator[pa.RecordBatch]
_Tables = Iterator[pa.Table]
_PART_ROWS = 1 << 17
"""So many rows of a partition are added up at once."""


def states_of(
    parts: Sequence[tuple[DataFrame, int]], key: Sequence[str], grouping: Grouping, layout: Layout
) -> DataFrame:
    """The states of some rows, one row a key; see `on_driver.states_of`."""
    signed = (rows.withColumn(_SIGN, f.lit(sign).cast("bigint")) for rows, sign in parts)
    rows = reduce(DataFrame.union, signed)
    states = []
    for measure, column in zip(grouping.measures, layout.states, strict=True):
        place = measure.argument
        value = None if place is None else col(grouping.arguments[place])
        state = measure.in_spark(value, f.col(_SIGN))
        if state is None:
            return _by_kernel(rows, key, grouping, layout)
        states.append(state.alias(column.name))
    keys = [col(name).alias(c.name) for name, c in zip(key, layout.key, strict=True)]
    return rows.groupBy(*keys).agg(*states)


def rows_of(
    states: DataFrame,
    grouping: Grouping,
    layout: Layout,
    stage: str,
    zone: str,
    *,
    once: bool,
) -> DataFrame:
    """The rows of a stage, lazily.

    Args:
        states: in the columns of `state_columns`.
        once: each key is there once; else a key's states are brought together.
    """
    keys = [c.name for c in layout.key]

    def run(tables: _Tables) -> _Tables:
        for part in tables if once else whole_keys(tables, keys):
            yield folded(part, grouping, layout, stage, zone)

    return _mapped(states if once else _by_key(states, layout), run, layout.content)


def _by_kernel(
    rows: DataFrame, key: Sequence[str], grouping: Grouping, layout: Layout
) -> DataFrame:
    """The states of some rows with signs, one row a key, by the driver's kernel."""

    def of_parts(tables: _Tables) -> _Tables:
        for part in _in_parts(tables):
            signs = part.column(_SIGN).to_numpy()
            yield signed_states(part, signs, key, grouping, layout)

    def of_keys(tables: _Tables) -> _Tables:
        for part in whole_keys(tables, [c.name for c in layout.key]):
            yield states_added_up(part, grouping, layout)

    read = dict.fromkeys([*key, *grouping.arguments, _SIGN])
    columns = state_columns(layout)
    return _mapped(
        _by_key(_mapped(rows.select(*map(col, read)), of_parts, columns), layout), of_keys, columns
    )


def _by_key(states: DataFrame, layout: Layout) -> DataFrame:
    """Rows in partitions that have all rows of a key, sorted by it."""
    return states.repartition(*cols(layout.key)).sortWithinPartitions(*order(layout.key))


def _mapped(
    rows: DataFrame, run: Callable[[_Tables], _Tables], columns: Sequence[Column]
) -> DataFrame:
    """What a function makes of the rows of each partition, in some columns."""
    names = rows.columns

    def on_batches(batches: _Batches) -> _Batches:
        tables = (pa.Table.from_batches([batch]).rename_columns(names) for batch in batches)
        for table in run(tables):
            yield from table.to_batches()

    numbered = rows.toDF(*map(str, range(len(names))))  # Spark misreads names with dots
    struct = StructType([StructField(c.name, c.data_type) for c in columns])
    return numbered.mapInArrow(in_worker(on_batches), struct)


def _in_parts(tables: _Tables) -> _Tables:
    """Rows in larger parts, so that a key has fewer states."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(map(len, waiting)) >= _PART_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)
