"""SQL producers: Spark runs a stage's query over the rows of the affected source keys.

`key_local` has checked that each row of the query comes from rows of one source key, and made the
query return that key. This module needs a session: Spark finds the types of the columns, and runs
the query. The invariant: over the rows of any set of source keys, the rows for a key, and their
order, do not depend on the other source keys.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, StructField, StructType

from deltaproduce.engines.spark.columns import col, cols, comparable, typed
from deltaproduce.errors import DefinitionError
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import Layout
from deltaproduce.stages.queries.query import Query
from deltaproduce.types.columns import ORDINAL, RowSchema, row_schema
from deltaproduce.types.ddl import DESCENDING, identifier


def query_schema(stage: Stage, query: Query, spark: SparkSession) -> RowSchema:
    """Return the columns of a stage with their types, which Spark finds without any data.

    Raises:
        DefinitionError: Spark refuses the query, or a column has a type that cannot be stored; with
            `stage`.
    """
    empty = {
        feeder.name: spark.createDataFrame([], _struct(feeder.schema)) for feeder in stage.feeders
    }
    with _views(stage, empty, spark) as views:
        try:
            found = spark.sql(query.sql(views)).schema
        except AnalysisException as error:
            message = f"stage {stage.name!r}: Spark refuses its query: {error}"
            raise DefinitionError(message, stage=stage.name) from error
    return typed_schema(stage, {field.name: field.dataType for field in found})


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
    return row_schema(StructType(key), StructType(value), stage=stage.name)


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
    layout = Layout.of(stage)
    with _views(stage, rows, spark) as views:
        found = spark.sql(query.sql(views))
        values = {
            f"_value_{n}": comparable(col(c.name), c.data_type) for n, c in enumerate(layout.value)
        }
        pair = ", ".join(identifier(c.name) for c in layout.pair)
        order = ", ".join([query.order, *values] if query.order else values)
        place = f.expr(f"row_number() OVER (PARTITION BY {pair} ORDER BY {order})")
        numbered = found.withColumns(values).withColumn(ORDINAL, place - 1)
        yield numbered.select(*(typed(col(c.name), c) for c in layout.content))


def _struct(schema: RowSchema) -> StructType:
    return StructType([*schema.key.struct, *schema.value.struct])


@contextmanager
def _views(
    stage: Stage, rows: Mapping[str, DataFrame], spark: SparkSession
) -> Iterator[dict[str, str]]:
    """Create temporary views of the feeders' rows, under unique names."""
    views = {feeder.name: f"_deltaproduce_{uuid.uuid4().hex}" for feeder in stage.feeders}
    try:
        for feeder in stage.feeders:
            columns = cols((*feeder.schema.key, *feeder.schema.value))
            rows[feeder.name].select(*columns).createOrReplaceTempView(views[feeder.name])
        yield views
    finally:
        for view in views.values():
            spark.catalog.dropTempView(view)
