"""Inference: column types that follow from the text of the stages' queries, without Spark.

The invariant: an inferred type is the type that Spark finds, and a query refused here is refused by
Spark; everything else is unknown until there is a session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from deltaproduce.errors import DefinitionError
from deltaproduce.model.graph import Stage
from deltaproduce.stages.kind import stage_kind
from deltaproduce.stages.sql.resolve import for_spark
from deltaproduce.types.columns import Columns, RowSchema
from deltaproduce.types.data_types import DataType


def inferred(stages: Iterable[Stage]) -> tuple[dict[str, RowSchema], list[DefinitionError]]:
    """Infer the columns of stages, and return errors of queries that do not fit them.

    Args:
        stages: feeders first.
    """
    schemas, errors = dict[str, RowSchema](), list[DefinitionError]()
    for stage in stages:
        try:
            types = _types(stage, schemas)
        except DefinitionError as error:
            said = f"stage {stage.name!r}: {error}"
            errors.append(
                DefinitionError(said, stage=stage.name, column=error.column, line=error.line)
            )
            types = {}
        schemas[stage.name] = _with_types(stage.schema, types)
    return schemas, errors


def _types(stage: Stage, known: Mapping[str, RowSchema]) -> dict[str, DataType]:
    """Infer the column types of a stage's query, by lower-case name.

    Args:
        known: the columns of the stages before it.

    Raises:
        DefinitionError: the query names no column, or does not fit the types of columns.
    """
    feeders = {one.name: known[one.name] for one in stage.merged}
    types = stage_kind(stage).over(feeders)
    if types is None:
        definition = stage.kind.definition
        if definition.sql is None or any(one.kind.intake.all_columns for one in stage.merged):
            return {}
        types = for_spark(definition.sql, feeders, definition.constants)
    return {name.lower(): kind for name, kind in types.types.items()}


def _with_types(schema: RowSchema, types: Mapping[str, DataType]) -> RowSchema:
    """Fill in inferred types where a column's type is unknown."""
    key, value = (
        Columns(
            tuple(
                column
                if column.is_known
                else replace(column, data_type=types.get(column.name.lower(), column.data_type))
                for column in columns
            )
        )
        for columns in (schema.key, schema.value)
    )
    return replace(schema, key=key, value=value)
