"""Tasks in Spark: one task's query over the partitions that it depends on.

The invariant: a task sees the rows of its dependencies and no others, so its result does not depend
on any other rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.spark.columns import cols, same, struct_of
from deltaproduce.engines.spark.data_types import frame_struct, in_spark
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.engines.spark.sessions.on_demand import spark_errors
from deltaproduce.errors import DefinitionError
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import Layout
from deltaproduce.shown.tasks import Values
from deltaproduce.stages.partitioned.entries import ExpectedTask
from deltaproduce.stages.partitioned.query import TaskQuery
from deltaproduce.stages.scheduled.outcomes import Fed
from deltaproduce.stages.sql.in_spark import numbered as in_order
from deltaproduce.stages.sql.in_spark import temporary_views
from deltaproduce.stages.sql.scopes.clauses import Scope
from deltaproduce.stages.sql.scopes.tables import table_of
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import DataType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LINE: Final = re.compile(r"\bline ([0-9]+),? pos [0-9]+")
"""Where Spark locates an error in a query."""


def query_types(
    stage: Stage, query: TaskQuery, sample: Scope, spark: SparkSession
) -> dict[str, DataType]:
    """Return the types of a query's columns, which Spark finds without any data.

    Raises:
        DefinitionError: Spark refuses the query; with `stage`.
    """
    empty = {
        feeder.name: spark.createDataFrame(
            [], in_spark(StructType([StructField(c.name, c.data_type) for c in _visible(feeder)]))
        )
        for feeder in stage.merged
    }
    with temporary_views(empty, spark) as views:
        try:
            struct = frame_struct(spark.sql(query.sql(views, sample)))
        except spark_errors("AnalysisException") as error:
            said = str(error).partition("\n")[0]
            message = f"stage {stage.name!r}: Spark refuses its query: {said}"
            line = _LINE.search(said)
            at = None if line is None else int(line[1])
            raise DefinitionError(message, stage=stage.name, line=at) from error
    return {field.name: field.dataType for field in struct}


@contextmanager
def queried(
    query: TaskQuery,
    entry: ExpectedTask,
    feeders: Mapping[str, tuple[Fed, Stage, Rows | None]],
    engines: Engines,
) -> Iterator[DataFrame]:
    """Run a task's query over its dependencies, lazily, while the context lasts.

    Args:
        feeders: each with all its rows.
    """
    spark = engines.spark
    frames = {}
    for name, (fed, stage, rows) in feeders.items():
        wanted = [values for of, values in entry.dependencies if of == name]
        frames[name] = _dependency(stage, fed, rows, wanted, engines)
    with temporary_views(frames, spark) as views:
        yield spark.sql(query.sql(views, entry.scope))


def numbered(rows: DataFrame, stage: Stage, entry: ExpectedTask) -> DataFrame:
    """Return a query's rows in the columns of the stage's content.

    ``_ordinal`` counts the rows of a key in the order of their values.
    """
    layout = Layout.of(stage)
    given = dict(entry.of.values)
    for column in layout.key:
        if column.name in given:
            value = f.lit(given[column.name]).cast(in_spark(column.data_type))
            rows = rows.withColumn(column.name, value)
    return in_order(rows, layout, [])


def _dependency(
    stage: Stage, fed: Fed, rows: Rows | None, wanted: Sequence[Values], engines: Engines
) -> DataFrame:
    """Return the rows of partitions of a feeder, in the columns that queries see."""
    columns = _visible(stage)
    if rows is None or not wanted:
        return engines.spark.createDataFrame([], struct_of(columns))
    frame = engines.frame(rows, columns)
    if not fed.columns:
        return frame
    by = [Column(name, kind) for name, kind in fed.columns]
    keys = engines.frame(table_of(wanted, fed.columns).select([c.name for c in by]), by)
    keys = f.broadcast(keys)
    return frame.join(keys, same(frame, keys, by), "left_semi").select(*cols(columns))


def _visible(stage: Stage) -> tuple[Column, ...]:
    return (*stage.schema.key, *stage.schema.value)
