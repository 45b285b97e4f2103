"""Digests of partitions: whether rows that a task reads are those that it was made of.

The invariant: a digest depends on the rows of the partition and their order in each key alone,
wherever they are; partitions without rows have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import factorize, in_order
from deltaproduce.engines.local.digests import digest
from deltaproduce.engines.spark.columns import cols
from deltaproduce.engines.spark.frames import fetched
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import CONTENT, Layout
from deltaproduce.shown.tasks import Values
from deltaproduce.types.atoms import in_arrow_types
from deltaproduce.types.columns import Column

_DIGEST = Column("_digest", StringType())


def digests(rows: Rows | None, stage: Stage, engines: Engines) -> dict[Values, str]:
    """The digests of a stage's partitions that have rows; of all its rows if it has none.

    Costs a pass over the rows; in Spark a shuffle by partition.

    Args:
        rows: in the columns of its content.
    """
    if rows is None:
        return {}
    by = [c for c in _columns(stage) if c.name in stage.kind.partitioned_by]
    by.sort(key=lambda c: stage.kind.partitioned_by.index(c.name))
    if isinstance(rows, DataFrame):
        found = fetched(_in_spark(rows, stage, by), (*by, _DIGEST))
    else:
        found = _here(engines.table(rows, Layout.of(stage).content), stage, by)
    *values, told = (found.column(c.name).to_pylist() for c in (*by, _DIGEST))
    return {tuple(value): one for *value, one in zip(*values, told, strict=True)}


def _columns(stage: Stage) -> tuple[Column, ...]:
    return (*stage.schema.key, *stage.schema.value)


def _in_spark(rows: DataFrame, stage: Stage, by: Sequence[Column]) -> DataFrame:
    content = Layout.of(stage).content
    struct = StructType([StructField(c.name, c.data_type) for c in (*by, _DIGEST)])

    def told(table: pa.Table) -> pa.Table:
        return _here(in_arrow_types(table, content), stage, by)

    return rows.select(*cols(content)).groupBy(*cols(by)).applyInArrow(told, struct)


def _here(table: pa.Table, stage: Stage, by: Sequence[Column]) -> pa.Table:
    table = in_order(table, Layout.of(stage).order(CONTENT))
    names = [c.name for c in _columns(stage)]
    firsts, told = list[int](), list[str]()
    for first, part in _parts(table, by):
        firsts.append(first)
        told.append(digest(part.select(names)))
    found = table.select([c.name for c in by]).take(pa.array(firsts, pa.int64()))
    return found.append_column(_DIGEST.name, pa.array(told, pa.string()))


def _parts(table: pa.Table, by: Sequence[Column]) -> Iterator[tuple[int, pa.Table]]:
    """The partitions that rows are in, with a row of each, in the order of the rows."""
    if not len(table):
        return
    if not by:
        yield 0, table
        return
    numbers = factorize(table.column(c.name) for c in by)
    order: Any = np.argsort(numbers, kind="stable")
    ends = np.flatnonzero(np.diff(numbers[order])) + 1
    for places in np.split(order, ends):
        yield int(places[0]), table.take(pa.array(places))
