"""Views in Spark: the query's own text over temporary views of its feeders, or its operators.

Hidden tables, and views that have some, are computed by operators: these read what the version has
made before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.spark.columns import col, cols, struct_of
from deltaproduce.engines.spark.data_types import frame_struct, in_spark
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.engines.spark.sessions.on_demand import spark_errors
from deltaproduce.errors import DefinitionError, ProducerError
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import Layout
from deltaproduce.stages.inputs import StageInput
from deltaproduce.stages.productions import Produced, Production
from deltaproduce.stages.sql.algebra.binding import bound
from deltaproduce.stages.sql.algebra.relations import Filter, Limit, ProjectRelation, Relation
from deltaproduce.stages.sql.expressions.terms import Constants
from deltaproduce.stages.sql.in_spark import numbered, temporary_views
from deltaproduce.stages.sql.operators_in_spark import frame_of, has_frame, in_order, sort_text
from deltaproduce.stages.sql.projection import check_ansi
from deltaproduce.stages.sql.resolve import Resolved
from deltaproduce.stages.views.dates import dated
from deltaproduce.stages.views.grouped import GroupedQuery
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
        are_unique = _are_unique(query.relation, query.fields, layout)
        if are_unique:  # no row comes before another one of its key
            query = query.without_order()
        frame = _completed(_answered(query, seen, views, spark, constants), layout)
        if query.order:  # rows are sorted, so this counts up in their order
            frame = frame.withColumn(_PLACE, f.monotonically_increasing_id())
        yield numbered(frame, layout, [_PLACE] if query.order else [], are_unique=are_unique)


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


def computed(
    kept: MaterializedRelation, production: Production, inputs: Sequence[StageInput]
) -> Produced:
    """Return all rows of a stage, from the stages that its operators read.

    Args:
        kept: what it keeps; Spark has each operator (`has_frame`).

    Raises:
        ProducerError: Spark fails for a row; with `stage`.
    """
    engines, layout = production.engines, Layout.of(production.stage)
    check_ansi(engines.spark)
    contents = ((each, each.all_rows(for_spark=True)) for each in inputs)
    frames = {
        each.stage.name: engines.frame(empty(each.content) if rows is None else rows, each.content)
        for each, rows in contents
    }
    rows = kept_rows(kept, layout, frames, engines.spark, dated(production.dates[1]))
    try:
        return production.computed_numbered(rows)
    except spark_errors("PySparkException") as error:
        raise failed(production.stage.owner, error) from error


def kept_rows(
    kept: MaterializedRelation,
    layout: Layout,
    rows: Mapping[str, DataFrame],
    spark: SparkSession,
    constants: Constants,
) -> DataFrame:
    """Return all rows of a stage, lazily, in the columns of its content, without states.

    Args:
        rows: the content of the stages that it reads, by name.
        constants: the values of constants that it names.
    """
    frame = frame_of(bound(kept.relation, constants), rows, spark)
    order = dict.fromkeys(key.field.id for key in kept.order)
    if kept.order_columns:
        frame = _with_places(frame, kept, layout)
    else:
        own = (col(id_).alias(name) for name, id_ in kept.fields.items())
        frame = frame.select(*own, *map(col, order))
    are_unique = _are_unique(kept.relation, kept.fields, layout)
    first = [*map(sort_text, kept.order)]
    return numbered(_completed(frame, layout), layout, first, are_unique=are_unique)


def _are_unique(relation: Relation, fields: Mapping[str, str], layout: Layout) -> bool:
    """Return whether no two rows have the same key, as they are groups, perhaps some of all.

    Args:
        relation: the rows.
        fields: their columns -> their fields.
    """
    own = () if layout.key == NO_KEY.columns else layout.key
    key = {column.name for column in own}
    return GroupedQuery.key_columns(_of_all(relation), fields, key) is not None


def _of_all(relation: Relation) -> Relation:
    """Return the rows of which some are left by the conditions and limits on groups."""
    match relation:
        case Filter() | Limit():
            return _of_all(relation.input)
        case ProjectRelation():
            return replace(relation, input=_of_all(relation.input))
    return relation


def _completed(rows: DataFrame, layout: Layout) -> DataFrame:
    """Return rows with the columns of the content that no query computes."""
    if layout.key == NO_KEY.columns:
        rows = rows.withColumn(NO_KEY.names[0], f.lit(True))
    nothing = {c.name: f.lit(None).cast(in_spark(c.data_type)) for c in layout.states}
    return rows.withColumns(nothing)  # the driver makes states when it first changes a group


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
