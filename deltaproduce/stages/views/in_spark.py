"""Views in Spark: the query's own text over temporary views of its feeders."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, StructType

from deltaproduce.engines.spark.columns import col, cols, comparable, typed
from deltaproduce.errors import DefinitionError
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import Layout
from deltaproduce.stages.sql.resolve import Resolved
from deltaproduce.types.columns import NO_KEY, ORDINAL
from deltaproduce.types.ddl import identifier

_PLACE = "_place"


def types_of(stage: Stage, query: Resolved, spark: SparkSession) -> list[DataType]:
    """Return the types of a query's columns, which Spark finds without any data.

    Raises:
        DefinitionError: Spark refuses the query; with `stage`.
    """
    empty = {feeder.name: spark.createDataFrame([], _struct(feeder)) for feeder in stage.feeders}
    with _views(stage.feeders, empty, spark) as views:
        try:
            found = spark.sql(query.sql(views)).schema
        except (AnalysisException, ParseException) as error:
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
    with _views(stage.feeders, rows, spark) as views:
        found = spark.sql(query.sql(views)).toDF(*query.names)
        if layout.key == NO_KEY.columns:
            found = found.withColumn(NO_KEY.names[0], f.lit(True))
        order = []
        if query.order:  # rows are sorted, so this counts up in their order
            found = found.withColumn(_PLACE, f.monotonically_increasing_id())
            order.append(_PLACE)
        values = {
            f"_value_{n}": comparable(col(c.name), c.data_type) for n, c in enumerate(layout.value)
        }
        key = ", ".join(identifier(c.name) for c in layout.key)
        by = ", ".join([*order, *values]) or "1"
        place = f.expr(f"row_number() OVER (PARTITION BY {key} ORDER BY {by})")
        numbered = found.withColumns(values).withColumn(ORDINAL, place - 1)
        yield numbered.select(*(typed(col(c.name), c) for c in layout.content))


def _struct(stage: Stage) -> StructType:
    return StructType([*stage.schema.key.struct, *stage.schema.value.struct])


@contextmanager
def _views(
    feeders: Sequence[Stage], rows: Mapping[str, DataFrame], spark: SparkSession
) -> Iterator[dict[str, str]]:
    """Create temporary views of the feeders' rows, under unique names."""
    views = {feeder.name: f"_deltaproduce_{uuid.uuid4().hex}" for feeder in feeders}
    try:
        for feeder in feeders:
            seen = [c for c in (*feeder.schema.key, *feeder.schema.value) if not c.is_hidden]
            rows[feeder.name].select(*cols(seen)).createOrReplaceTempView(views[feeder.name])
        yield views
    finally:
        for view in views.values():
            spark.catalog.dropTempView(view)
