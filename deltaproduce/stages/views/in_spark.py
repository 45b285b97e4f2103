"""Views in Spark: the query's own text over temporary views of its feeders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deltaproduce.engines.spark.columns import cols
from deltaproduce.engines.spark.data_types import frame_struct, in_spark
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.engines.spark.sessions.on_demand import spark_errors
from deltaproduce.errors import DefinitionError
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import Layout
from deltaproduce.stages.sql.in_spark import numbered, temporary_views
from deltaproduce.stages.sql.resolve import Resolved
from deltaproduce.types.columns import NO_KEY
from deltaproduce.types.data_types import DataType, StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLACE = "_place"


def types_of(stage: Stage, query: Resolved, spark: SparkSession) -> list[DataType]:
    """Return the types of a query's columns, which Spark finds without any data.

    Raises:
        DefinitionError: Spark refuses the query; with `stage`.
    """
    empty = {
        feeder.name: _seen(feeder, spark.createDataFrame([], in_spark(_struct(feeder))))
        for feeder in stage.feeders
    }
    with temporary_views(empty, spark) as views:
        try:
            found = frame_struct(spark.sql(query.sql(views)))
        except spark_errors("AnalysisException", "ParseException") as error:
            message = f"stage {stage.name!r}: Spark refuses its query: {error}"
            raise DefinitionError(message, stage=stage.name) from error
    return [field.dataType for field in found]


@contextmanager
def queried(
    stage: Stage, query: Resolved, rows: Mapping[str, DataFrame], spark: SparkSession
) -> Iterator[DataFrame]:
    """Run a query over rows, lazily, while the context lasts.

    Args:
        rows: for each feeder its key and value columns, perhaps with others.

    Yields:
        The columns of the stage's content. ``_ordinal`` counts the rows of a key: in the order of
        the query's ORDER BY, then of the values.
    """
    layout = Layout.of(stage)
    seen = {feeder.name: _seen(feeder, rows[feeder.name]) for feeder in stage.feeders}
    with temporary_views(seen, spark) as views:
        found = spark.sql(query.sql(views)).toDF(*query.names)
        if layout.key == NO_KEY.columns:
            found = found.withColumn(NO_KEY.names[0], f.lit(True))
        for column in layout.states:  # the driver makes them when it first changes a group
            found = found.withColumn(column.name, f.lit(None).cast(in_spark(column.data_type)))
        if query.order:  # rows are sorted, so this counts up in their order
            found = found.withColumn(_PLACE, f.monotonically_increasing_id())
        yield numbered(found, layout, [_PLACE] if query.order else [])


def _struct(stage: Stage) -> StructType:
    return StructType([*stage.schema.key.struct, *stage.schema.value.struct])


def _seen(feeder: Stage, rows: DataFrame) -> DataFrame:
    """Return the columns of a feeder that queries see."""
    own = (*feeder.schema.key, *feeder.schema.value)
    return rows.select(*cols([column for column in own if not column.is_hidden]))
