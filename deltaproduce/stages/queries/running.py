"""SQL producers: Spark runs a stage's query over the rows of the affected source keys.

`key_local` has checked that each row of the query comes from rows of one source key, and made the
query return that key. This module needs a session: Spark finds the types of the columns, and runs
the query. The invariant: over the rows of any set of source keys, the rows for a key, and their
order, do not depend on the other source keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deltaproduce.engines.spark.columns import cols
from deltaproduce.engines.spark.data_types import frame_struct, in_spark
from deltaproduce.engines.spark.sessions.on_demand import spark_errors
from deltaproduce.errors import DefinitionError
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import Layout
from deltaproduce.stages.queries.query import Query
from deltaproduce.stages.sql.in_spark import numbered, temporary_views
from deltaproduce.types.columns import RowSchema, row_schema
from deltaproduce.types.data_types import DataType, StructField, StructType
from deltaproduce.types.ddl import DESCENDING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def query_schema(stage: Stage, query: Query, spark: SparkSession) -> RowSchema:
    """Return the columns of a stage with their types, which Spark finds without any data.

    Raises:
        DefinitionError: Spark refuses the query, or a column has a type that cannot be stored; with
            `stage`.
    """
    empty = {
        feeder.name: spark.createDataFrame([], in_spark(_struct(feeder.schema)))
        for feeder in stage.feeders
    }
    with temporary_views(empty, spark) as views:
        try:
            struct = frame_struct(spark.sql(query.sql(views)))
        except spark_errors("AnalysisException") as error:
            message = f"stage {stage.name!r}: Spark refuses its query: {error}"
            raise DefinitionError(message, stage=stage.name) from error
    return typed_schema(stage, {field.name: field.dataType for field in struct})


def typed_schema(stage: Stage, types: Mapping[str, DataType]) -> RowSchema:
    """Return the columns of a stage with these types, by name.

    Raises:
        DefinitionError: a column has a type that cannot be stored; with `stage`.
    """
    key = [
        StructField(c.name, types[c.name], metadata={DESCENDING: True} if c.descending else {})
        for c in stage.schema.key
    ]
    value = [StructField(c.name, types[c.name]) for c in stage.schema.value]
    return row_schema(StructType(key), StructType(value), stage=stage.name, may_lack_values=True)


@contextmanager
def queried(
    stage: Stage, query: Query, rows: Mapping[str, DataFrame], spark: SparkSession
) -> Iterator[DataFrame]:
    """Run a stage's query over rows, lazily, while the context lasts.

    Args:
        rows: for each feeder its key and value columns, perhaps with others.

    Yields:
        The columns of the stage's content. ``_ordinal`` counts the rows of a pair: in the order of
        the query's ORDER BY, then of the values.
    """
    seen = {
        feeder.name: rows[feeder.name].select(*cols((*feeder.schema.key, *feeder.schema.value)))
        for feeder in stage.feeders
    }
    with temporary_views(seen, spark) as views:
        first = [query.order] if query.order else []
        yield numbered(spark.sql(query.sql(views)), Layout.of(stage), first)


def _struct(schema: RowSchema) -> StructType:
    return StructType([*schema.key.struct, *schema.value.struct])
