"""Index stages: one row for each row of the feeder, under other columns than its key.

The invariant: the rows of an index match those of its feeder in the same version one to one, each
with the key of the feeder's row; null is a key like any other. A row is added, removed and moved
with its feeder's row, because it follows the feeder's key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from typing_extensions import override

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.sessions.on_demand import spark_errors
from deltaproduce.errors import DefinitionError
from deltaproduce.model.graph import Stage
from deltaproduce.model.kind import Definition, KeyUse
from deltaproduce.model.layouts import Layout, sources_of
from deltaproduce.stages.inputs import StageInput, all_parts, changed_parts
from deltaproduce.stages.productions import Production
from deltaproduce.stages.rekeyed.indexes.columns import (
    IndexColumn,
    check_types,
    include_list,
    key_list,
)
from deltaproduce.stages.source_keys import ProducerKind
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.projection import Projection, naming
from deltaproduce.stages.sql.zoned import depends_on_zone, types_of
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.types.columns import (
    ORDINAL_COLUMN,
    POSITION_COLUMN,
    Column,
    RowSchema,
    row_schema,
    unknown_schema,
)
from deltaproduce.types.data_types import DataType, NullType, StringType, StructField, StructType
from deltaproduce.types.ddl import DESCENDING


@dataclass(frozen=True, slots=True, repr=False)
class Index(ProducerKind):
    """A stage with one row for each row of its feeder.

    Attributes:
        key: the key columns.
        value: the feeder's key columns that are not among them, and the included columns.
        read: the names of the feeder's key columns, and of its value columns.
    """

    key: tuple[IndexColumn, ...]
    value: tuple[IndexColumn, ...]
    read: tuple[tuple[str, ...], tuple[str, ...]]

    @staticmethod
    def defined(key: str, include: str | None, feeder: Stage, *, stage: str) -> Index:
        """Build the kind of a stage from its definition.

        Args:
            key: columns of the feeder, perhaps with types, or ``expression AS name``.
            include: further columns in the same form; none if None.

        Raises:
            DefinitionError: an argument is wrong; with `stage` and, if one column is at fault,
                `column`.
        """
        schema = feeder.schema
        keys = key_list(key, schema, stage=stage)
        included = () if include is None else include_list(include, schema, stage=stage)
        sought = {column.expression.column for column in keys}
        own = (c.name for c in schema.key if not c.is_hidden and c.name not in sought)
        values = (*(IndexColumn(name, Expression.of_column(name)) for name in own), *included)
        if not values:
            message = (
                f"stage {stage!r}: its key has all key columns of {feeder.name!r}, so it has no "
                "value; include a column"
            )
            raise DefinitionError(message, stage=stage)
        return Index(keys, values, (schema.key.names, schema.value.names))

    @property
    @override
    def word(self) -> str:
        return "index"

    @property
    @override
    def definition(self) -> Definition:
        identity = tuple(
            tuple((column.name, column.expression.text) for column in part)
            for part in (self.key, self.value)
        )
        return Definition(identity, written=self._query)

    def _query(self, feeders: Sequence[str]) -> str:
        named = ((c.name, c.expression.name) for c in (*self.key, *self.value))
        chosen = (text if text == name else f"{text} AS {name}" for name, text in named)
        lines = ["SELECT", ",\n".join(f"  {one}" for one in chosen), f"FROM {', '.join(feeders)}"]
        return "\n".join(lines)

    @override
    def depends_on_zone(self, schema: RowSchema, feeders: Sequence[RowSchema]) -> bool:
        """By its expressions."""
        del schema
        types = types_of(feeders)
        return any(
            depends_on_zone(column.expression.tree, types) for column in (*self.key, *self.value)
        )

    @property
    @override
    def key_use(self) -> KeyUse:
        columns = ((column.name, column.expression.column) for column in self.key)
        return KeyUse(is_index=True, copied={name: of for name, of in columns if of is not None})

    def schema(self, feeder: Stage, *, stage: str) -> RowSchema:
        """Return the columns of such a stage, without types if only Spark knows some.

        Raises:
            DefinitionError: a column's type differs from the declared one, or no key may have it;
                with `stage` and `column`.
        """
        with naming(stage):
            types = self._projection.types(_columns(feeder))
        if all(not isinstance(data_type, NullType) for data_type in types.values()):
            return self._typed(types, stage=stage)
        known = {n: StringType() if isinstance(t, NullType) else t for n, t in types.items()}
        check_types(self.key, types, stage=stage)
        names = replace(self, key=tuple(replace(column, declared=None) for column in self.key))
        schema = names._typed(known, stage=stage)  # checks the names
        return unknown_schema({c.name: c.descending for c in self.key}, schema.value.names)

    @override
    def resolved(self, stage: Stage, tables: Tables) -> Stage:
        """Types follow from the feeder's columns."""
        (feeder,) = stage.feeders
        with naming(stage.name):
            types = self._projection.resolved(_columns(feeder), tables.engines)
        return replace(stage, schema=self._typed(types, stage=stage.name))

    @override
    def emitted(
        self, production: Production, inputs: Sequence[StageInput], keys: Selection | None
    ) -> tuple[Rows, int] | None:
        """Each row of the feeder under its key in the index."""
        parts = all_parts(inputs) if keys is None else changed_parts(inputs, keys)
        if not parts:
            return None if keys is None else (empty(production.content), 0)
        ((feeder, rows),) = parts
        engines, stage = production.engines, production.stage.name
        rows, place = _numbered(rows, feeder.stage, engines)
        moved = zip(
            (*sources_of(feeder.stage.schema.key), ORDINAL_COLUMN),
            (*feeder.stage.schema.key, place),
            strict=True,
        )
        goes_with = ((c.name, Expression.of_column(of.name)) for c, of in moved)
        projection = Projection((*_outputs(self.key), *goes_with, *_outputs(self.value)))
        projected = projection.of(rows, (*_columns(feeder.stage), place), engines, stage=stage)
        if isinstance(projected, pa.Table):
            return projected, len(projected)
        try:
            return production.computed(projected)
        except spark_errors("PySparkException") as error:
            raise projection.failed(error, stage=stage) from error

    @override
    def indexed(self, stage: Stage, rows: Rows, keys: Selection) -> Rows:
        columns = Layout.of(stage.feeders[0]).content
        named = tuple(replace(c, name=f"_key_{n}") for n, c in enumerate(stage.schema.key))
        key = (
            (place.name, column.expression) for place, column in zip(named, self.key, strict=True)
        )
        projection = Projection(tuple(key)).beside(columns)
        projected = projection.of(rows, columns, keys.engines, stage=stage.name)
        return keys.renamed(named).semi_join(projected, (*named, *columns))

    @property
    def _projection(self) -> Projection:
        """The expressions computed for each row of its feeder."""
        return Projection((*_outputs(self.key), *_outputs(self.value)))

    def _typed(self, types: Mapping[str, DataType], *, stage: str) -> RowSchema:
        """Return the columns of such a stage, from the types of the columns of `_projection`."""
        check_types(self.key, types, stage=stage)
        key, value = (
            StructType([_field(column, types[column.name]) for column in columns])
            for columns in (self.key, self.value)
        )
        return row_schema(key, value, stage=stage)


def _columns(feeder: Stage) -> tuple[Column, ...]:
    """Return the columns of a feeder that expressions can name."""
    return (*feeder.schema.key, *feeder.schema.value)


def _numbered(rows: Rows, feeder: Stage, engines: Engines) -> tuple[Rows, Column]:
    """Return the rows of a feeder, with a column of numbers that increase in key order."""
    layout = Layout.of(feeder)
    if not layout.sources:
        return rows, ORDINAL_COLUMN
    return engines.of(rows).with_positions(rows, layout), POSITION_COLUMN


def _outputs(columns: Iterable[IndexColumn]) -> Iterator[tuple[str, Expression]]:
    return ((column.name, column.expression) for column in columns)


def _field(column: IndexColumn, data_type: DataType) -> StructField:
    direction = {DESCENDING: True} if column.descending else {}
    return StructField(column.name, data_type, metadata=direction)
