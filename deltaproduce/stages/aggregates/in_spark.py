"""States of rows that are in Spark, and the rows that they become.

If Spark's aggregation has all measures of a stage, no row reaches Python. Otherwise the driver's
kernel, run in Spark's tasks, adds up parts of each partition, then the states of each key, whole
columns at a time. States become rows of the stage, once per key, as on the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from deltaproduce.engines.failures import in_worker
from deltaproduce.engines.local.arrays import whole_keys
from deltaproduce.engines.spark.columns import by_number, col, cols, order, struct_of
from deltaproduce.engines.spark.frames import union_all
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.stages.aggregates.folding import Folding
from deltaproduce.stages.aggregates.on_driver import SIGN, signed_states
from deltaproduce.types.columns import Column
from deltaproduce.types.conversions import in_arrow_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_Batches = Iterator[pa.RecordBatch]
_Tables = Iterator[pa.Table]
_PART_ROWS = 1 << 17
"""The number of rows of a partition that are added up at once."""


def states_of(
    parts: Sequence[tuple[DataFrame, int]], key: Sequence[str], folding: Folding
) -> DataFrame:
    """Return the states of rows, one row per key; see `on_driver.states_of`."""
    signed = (rows.withColumn(SIGN, f.lit(sign).cast("bigint")) for rows, sign in parts)
    rows = union_all(signed)
    states, grouping, layout = [], folding.grouping, folding.layout
    for measure, column in zip(grouping.measures, grouping.states, strict=True):
        place = measure.argument
        value = None if place is None else col(grouping.arguments[place])
        state = measure.in_spark(value, f.col(SIGN))
        if state is None:
            return _by_kernel(rows, key, folding)
        states.append(state.alias(column.name))
    keys = [col(name).alias(c.name) for name, c in zip(key, layout.key, strict=True)]
    return rows.groupBy(*keys).agg(*states)


def rows_of(states: DataFrame, folding: Folding, *, once: bool) -> DataFrame:
    """Return the rows of a stage, lazily.

    Args:
        states: in the columns of `Folding.states`.
        once: each key occurs once; otherwise a shuffle brings a key's states together.
    """
    keys = [c.name for c in folding.layout.key]

    def run(tables: _Tables) -> _Tables:
        for part in tables if once else whole_keys(tables, keys):
            yield folding.rows(part)

    return _mapped(states if once else _by_key(states, folding), run, folding.layout.content)


def _by_kernel(rows: DataFrame, key: Sequence[str], folding: Folding) -> DataFrame:
    """Return the states of signed rows, one row per key, by the driver's kernel."""

    def of_parts(tables: _Tables) -> _Tables:
        for part in _in_parts(tables):
            yield signed_states(part, key, folding)

    def of_keys(tables: _Tables) -> _Tables:
        for part in whole_keys(tables, [c.name for c in folding.layout.key]):
            yield folding.added_up(part)

    read = dict.fromkeys([*key, *folding.grouping.arguments, SIGN])
    parts = _mapped(rows.select(*map(col, read)), of_parts, folding.states)
    return _mapped(_by_key(parts, folding), of_keys, folding.states)


def _by_key(states: DataFrame, folding: Folding) -> DataFrame:
    """Partition rows by key, sorted by it."""
    key = folding.layout.key
    return states.repartition(*cols(key)).sortWithinPartitions(*order(key))


def _mapped(
    rows: DataFrame, run: Callable[[_Tables], _Tables], columns: Sequence[Column]
) -> DataFrame:
    """Apply a function to the rows of each partition; return its output columns."""
    names = rows.columns

    def on_batches(batches: _Batches) -> _Batches:
        tables = (pa.Table.from_batches([batch]).rename_columns(names) for batch in batches)
        for table in run(tables):
            yield from in_arrow_types(table, columns).to_batches()  # Spark's may differ in nulls

    return by_number(rows).mapInArrow(in_worker(on_batches), struct_of(columns))


def _in_parts(tables: _Tables) -> _Tables:
    """Merge batches into larger ones, so that a key has fewer states."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(map(len, waiting)) >= _PART_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)
