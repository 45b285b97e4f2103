"""States of rows that are in Spark, and what becomes of them: by its own aggregation.

Rows are never seen by Python; their states are, once for each key, where they become rows of the
stage as on the driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StructField, StructType

from deltaproduce.engines.failures import in_worker
from deltaproduce.engines.local.arrays import key_ends
from deltaproduce.engines.spark.columns import col, cols, order
from deltaproduce.model.layouts import Layout
from deltaproduce.stages.aggregates.folding import folded, state_columns
from deltaproduce.stages.aggregates.grouping import Grouping

_SIGN = "_sign"
_Batches = Iterator[pa.RecordBatch]


def states_of(
    parts: Sequence[tuple[DataFrame, int]], key: Sequence[str], grouping: Grouping, layout: Layout
) -> DataFrame:
    """The states of some rows, one row a key; see `on_driver.states_of`."""
    signed = (rows.withColumn(_SIGN, f.lit(sign).cast("bigint")) for rows, sign in parts)
    rows = reduce(DataFrame.union, signed)
    keys = [col(name).alias(c.name) for name, c in zip(key, layout.key, strict=True)]
    states = (
        measure.in_spark(
            None if measure.argument is None else col(grouping.arguments[measure.argument]),
            f.col(_SIGN),
        ).alias(column.name)
        for measure, column in zip(grouping.measures, layout.states, strict=True)
    )
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
    if not once:
        states = states.repartition(*cols(layout.key)).sortWithinPartitions(*order(layout.key))
    columns = state_columns(layout)
    names, keys = [c.name for c in columns], [c.name for c in layout.key]

    def run(batches: _Batches) -> _Batches:
        tables = (pa.Table.from_batches([b]).rename_columns(names) for b in batches)
        for part in tables if once else _whole_keys(tables, keys):
            yield from folded(part, grouping, layout, stage, zone).to_batches()

    plain = states.select(*cols(columns))
    numbered = plain.toDF(*map(str, range(len(columns))))  # Spark misreads names with dots
    struct = StructType([StructField(c.name, c.data_type) for c in layout.content])
    return numbered.mapInArrow(in_worker(run), struct)


def _whole_keys(tables: Iterator[pa.Table], keys: Sequence[str]) -> Iterator[pa.Table]:
    """Rows that are sorted by key, in parts that end with a key; one has two rows at most."""
    rest: pa.Table | None = None
    for table in tables:
        rows = table if rest is None else pa.concat_tables([rest, table])
        ends = key_ends(rows.select(list(keys))).tolist() if len(rows) else []
        end = ends[-2] if len(ends) > 1 else 0
        if end:
            yield rows.slice(0, end)
        rest = rows.slice(end)
    if rest is not None and len(rest):
        yield rest
