"""Views in Spark: the query's own text over temporary views of its feeders, and hidden tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from deltaproduce.engines.spark.columns import col, cols, struct_of
from deltaproduce.engines.spark.data_types import frame_struct, in_spark
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.engines.spark.sessions.on_demand import spark_errors
from deltaproduce.errors import DefinitionError, ProducerError
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import Layout
from deltaproduce.stages.sql.algebra.binding import bound
from deltaproduce.stages.sql.expressions.terms import Constants
from deltaproduce.stages.sql.in_spark import numbered, temporary_views
from deltaproduce.stages.sql.operators_in_spark import frame_of, has_frame, in_order
from deltaproduce.stages.sql.resolve import Resolved
from deltaproduce.stages.views.kept import MaterializedRelation
from deltaproduce.types.columns import NO_KEY, ORDINAL_COLUMN
from deltaproduce.types.data_types import DataType, StructType
from deltaproduce.types.excerpts import escaped

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

_PLACE = "_place"


def types_of(
    stage: Stage, query: Resolved, spark: SparkSession, constants: Constants
) -> list[DataType]:
    """Return the types of a query's columns, which Spark finds without any data.

    Args:
        constants: the values of constants that it names.

    Raises:
        DefinitionError: Spark refuses the query; with `stage`.
    """
    empty = {
        feeder.name: _seen(feeder, spark.createDataFrame([], in_spark(_struct(feeder))))
        for feeder in stage.merged
    }
    with temporary_views(empty, spark) as views:
        try:
            struct = frame_struct(spark.sql(query.sql(views, constants)))
        except spark_errors("AnalysisException", "ParseException") as error:
            message = f"stage {stage.owner!r}: Spark refuses its query: {error}"
            raise DefinitionError(message, stage=stage.owner) from error
    return [field.dataType for field in struct]


@contextmanager
def queried(
    stage: Stage,
    query: Resolved,
    rows: Mapping[str, DataFrame],
    spark: SparkSession,
    constants: Constants,
) -> Iterator[DataFrame]:
    """Run a query over rows, lazily, while the context lasts.

    Args:
        rows: for each feeder its key and value columns, perhaps with others.
        constants: the values of constants that it names.

    Yields:
        The columns of the stage's content. ``_ordinal`` counts the rows of a key: in the order of
        the query's ORDER BY, then of the values.
    """
    layout = Layout.of(stage)
    seen = {feeder.name: _seen(feeder, rows[feeder.name]) for feeder in stage.merged}
    with temporary_views(seen, spark) as views:
        frame = _answered(query, seen, views, spark, constants)
        if layout.key == NO_KEY.columns:
            frame = frame.withColumn(NO_KEY.names[0], f.lit(True))
        for column in layout.states:  # the driver makes them when it first changes a group
            frame = frame.withColumn(column.name, f.lit(None).cast(in_spark(column.data_type)))
        if query.order:  # rows are sorted, so this counts up in their order
            frame = frame.withColumn(_PLACE, f.monotonically_increasing_id())
        yield numbered(frame, layout, [_PLACE] if query.order else [])


def runs_by_operators(query: Resolved) -> bool:
    """Return whether Spark has each operator of a query, also without its text."""
    return query.only_in_spark is None and has_frame(query.relation)


def _answered(
    query: Resolved,
    rows: Mapping[str, DataFrame],
    views: Mapping[str, str],
    spark: SparkSession,
    constants: Constants,
) -> DataFrame:
    """Return the rows of a query, in its order, in its columns.

    Its operators are run in place of its text where this does not tell Spark all of it, or Spark
    refuses it, as it does an aggregate in QUALIFY.

    Args:
        rows: the rows of its feeders, by name, as the views have them.
    """
    has_operators = runs_by_operators(query)
    if query.is_told or not has_operators:
        try:
            return spark.sql(query.sql(views, constants)).toDF(*query.names)
        except spark_errors("AnalysisException"):
            if not has_operators:
                raise
    frame = frame_of(bound(query.relation, constants), rows, spark)
    frame = in_order(frame, query.order, [one.field for one in query.columns])
    return frame.select(*(col(id_).alias(name) for name, id_ in query.fields.items()))


def kept_rows(
    kept: MaterializedRelation,
    layout: Layout,
    rows: Mapping[str, DataFrame],
    spark: SparkSession,
    constants: Constants,
) -> DataFrame:
    """Return all rows of a hidden table, lazily, in the columns of its content, without states.

    Args:
        rows: the content of the stages that it reads, by name.
        constants: the values of constants that it names.
    """
    frame = frame_of(bound(kept.relation, constants), rows, spark)
    if kept.order_columns:
        frame = _with_places(frame, kept, layout)
    else:
        frame = frame.select(*(col(id_).alias(name) for name, id_ in kept.fields.items()))
    if layout.key == NO_KEY.columns:
        frame = frame.withColumn(NO_KEY.names[0], f.lit(True))
    for column in layout.states:  # the driver makes them when it first changes a group
        frame = frame.withColumn(column.name, f.lit(None).cast(in_spark(column.data_type)))
    return numbered(frame, layout, [])


def _with_places(rows: DataFrame, kept: MaterializedRelation, layout: Layout) -> DataFrame:
    """Return the columns of a table that is in the order of some fields."""
    columns = [column for column in layout.content if column != ORDINAL_COLUMN]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            key_columns = kept.columns_of(pa.Table.from_batches([batch]))
            yield from key_columns.select([one.name for one in columns]).to_batches()

    return rows.mapInArrow(run, struct_of(columns))


def failed(stage: str, error: PySparkException) -> ProducerError:
    """Return what Spark raised for a query as the error of its stage."""
    said = escaped(str(error).partition("\n== ")[0])  # the rest is in the cause
    return ProducerError(f"stage {stage!r}: its query failed: {said}", stage=stage)


def _struct(stage: Stage) -> StructType:
    return StructType([*stage.schema.key.struct, *stage.schema.value.struct])


def _seen(feeder: Stage, rows: DataFrame) -> DataFrame:
    """Return the columns of a feeder that queries see."""
    own = (*feeder.schema.key, *feeder.schema.value)
    return rows.select(*cols([column for column in own if not column.is_hidden]))
