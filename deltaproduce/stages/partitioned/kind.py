"""Stages made one partition at a time: by a query, or by a function of a query's rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import pyarrow as pa
from typing_extensions import override

from deltaproduce.engines.choice import needs_spark
from deltaproduce.errors import DefinitionError
from deltaproduce.model.fingerprints import described
from deltaproduce.model.graph import HiddenInput, Producer, Stage
from deltaproduce.model.kind import Definition, TaskPartitions
from deltaproduce.stages.partitioned.digests import digests_of, digests_stage
from deltaproduce.stages.partitioned.in_spark import query_types
from deltaproduce.stages.partitioned.making import Before, Looked, Tasks, foreseen, tasked
from deltaproduce.stages.partitioned.query import TaskQuery, read_query
from deltaproduce.stages.partitioned.records import records_stage
from deltaproduce.stages.scheduled.kinds import (
    ForeignFunction,
    ScheduledKind,
    TaskArguments,
)
from deltaproduce.stages.scheduled.outcomes import Tasked
from deltaproduce.stages.sql.scopes.clauses import Scopes
from deltaproduce.stages.sql.scopes.partitions import ExpectedPartitions, are_kept
from deltaproduce.stages.sql.text import QueryText
from deltaproduce.stages.sql.zoned import depends_on_zone, types_of
from deltaproduce.storage.stored import Stored
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.times.zones import OF_UTC
from deltaproduce.types.columns import (
    Column,
    RowSchema,
    named_columns,
    row_schema,
    unknown_schema,
)
from deltaproduce.types.data_types import DataType, NullType, StructField, StructType
from deltaproduce.types.ddl import DESCENDING, struct_from_ddl


@dataclass(frozen=True, slots=True, repr=False)
class Partitioned(ScheduledKind):
    """A stage whose partitions are made by one task each.

    Attributes:
        query: the rows that a task reads, or makes.
        partitions: the expected partitions.
        key: the names of the result's key columns, and whether each sorts descending.
        keeps: whether partitions that are no longer expected are kept, and not dropped.
        function: makes the partition's rows from the query's rows; None if the query makes them.
    """

    query: TaskQuery
    partitions: ExpectedPartitions
    key: tuple[tuple[str, bool], ...]
    keeps: bool = True
    function: ForeignFunction | None = None

    @property
    @override
    def word(self) -> str:
        return "partitioned"

    @property
    @override
    def tasks(self) -> TaskPartitions:
        return TaskPartitions(self.partitions.names, make_rows=True)

    @property
    def feeders(self) -> tuple[str, ...]:
        """The names of the stages that its query reads."""
        return self.query.feeders

    @property
    @override
    def drops(self) -> bool:
        return not self.keeps

    @property
    @override
    def definition(self) -> Definition:
        """The names in its query have the values of an arbitrary date."""
        text, scopes = self.query.text, self.partitions.scopes
        functions = () if self.function is None else (self.function,)
        identity = (text, self.partitions.text, scopes.text, *functions)
        return Definition(identity, functions, text, scopes.sample)

    @override
    def depends_on_zone(self, schema: RowSchema, feeders: Sequence[RowSchema]) -> bool:
        """By the text of its query, or as its function does."""
        if self.function is not None and ScheduledKind.depends_on_zone(self, schema, feeders):
            return True
        types = {**types_of(feeders), **self.partitions.scopes.types}
        return depends_on_zone(QueryText.read(self.query.text).tree, types)

    @override
    def resolved(self, stage: Stage, tables: Tables) -> Stage:
        """Spark finds the types, if there is a session."""
        if tables.engines.session is None:
            if all(column.is_known for column in (*stage.schema.key, *stage.schema.value)):
                return stage
            raise needs_spark()
        types = query_types(stage, self.query, self.partitions.scopes.sample, tables.spark)
        if self.function is not None:
            return stage
        return replace(stage, schema=self._schema(types, stage=stage.name))

    @override
    def records(self, stage: Stage) -> Producer:
        return records_stage(stage, self.partitions.types)

    @override
    def tasked(self, given: TaskArguments, content: Stored | None, version: int) -> Tasked:
        before = Before(content=content, rebuilds=given.rebuilds)
        return tasked(self._looked(given), before, version)

    @override
    def foreseen(self, given: TaskArguments) -> Tasked:
        return foreseen(self._looked(given))

    def _looked(self, given: TaskArguments) -> Looked:
        """Return the tasks of a stage, and those that are to run."""
        stage = given.production.stage
        text = "" if self.function is None else described(self.function)
        if isinstance(stage, Producer) and stage.revision is not None:
            text = stage.revision
        zone = given.production.engines.time_zone
        feeders = [one.schema for one in stage.merged]
        if zone != OF_UTC and self.depends_on_zone(stage.schema, feeders):
            text = f"{text}\nin {zone}"
        tasks = Tasks(
            stage,
            self.query,
            self.partitions,
            self.keeps,
            self.function,
            f"{stage.schema.key.ddl}\n{stage.schema.value.ddl}\n{text}",
        )
        return Looked.at(
            tasks, given, None if given.rebuilds else given.records(self.records(stage))
        )

    def schema(self, *, stage: str) -> RowSchema:
        """Return the columns of such a stage, without types if only Spark knows some.

        Raises:
            DefinitionError: a column is refused; with `stage` and `column`.
        """
        types = dict(self.query.outputs)
        schema = self._schema(types, stage=stage)
        return schema

    def declared(self, schema: str, *, stage: str) -> RowSchema:
        """Return the columns of a stage whose function makes its rows.

        Args:
            schema: the columns that the function makes, as DDL.

        Raises:
            DefinitionError: a column is refused; with `stage` and `column`.
        """
        fields = struct_from_ddl(schema).fields
        return self._schema({field.name: field.dataType for field in fields}, stage=stage)

    def _schema(self, types: dict[str, DataType], *, stage: str) -> RowSchema:
        own = dict(self.partitions.types)
        taken = next((name for name in types if name.lower() in map(str.lower, own)), None)
        if taken is not None:
            raise DefinitionError(
                f"stage {stage!r}: its query selects {taken!r}, which is a partition column; "
                "leave it out, its values are those of the task",
                stage=stage,
                column=taken,
            )
        keys = dict(self.key)
        values = [name for name in types if name not in keys]
        if not values:
            raise DefinitionError(
                f"stage {stage!r}: all columns of its query are in its key; select another one",
                stage=stage,
            )
        names = {**dict.fromkeys(own, False), **keys}
        if any(_is_unknown(kind) for kind in types.values()):
            return unknown_schema(names, values)
        known = {**own, **types}
        key = [
            StructField(name, known[name], metadata={DESCENDING: True} if descending else {})
            for name, descending in names.items()
        ]
        value = [StructField(name, known[name]) for name in values]
        return row_schema(StructType(key), StructType(value), stage=stage)


@dataclass(frozen=True, slots=True)
class PartitionClauses:
    """The texts that say which partitions a stage has; see `Pipeline.partitioned`.

    Attributes:
        retention: whether partitions stay that are no longer expected.
    """

    partition: str
    scopes: str | None
    retention: str


def partitioned(
    query: str,
    feeders: Iterable[Stage],
    clauses: PartitionClauses,
    *,
    key: Callable[[Sequence[str]], dict[str, bool]],
    stage: str,
    function: ForeignFunction | None = None,
    schema: str | None = None,
) -> Partitioned:
    """Build the kind of a stage from its definition.

    Args:
        feeders: the stages that the query may read.
        key: finds the key among the names of the columns.
        function: a user function over the query's rows; the query makes the rows if None.
        schema: the columns that the function makes, as DDL.

    Raises:
        DefinitionError: the definition is wrong; with `stage`.
    """
    try:
        keeps = are_kept(clauses.retention)
        scopes = Scopes.read(clauses.scopes or "")
        partitions = ExpectedPartitions.read(clauses.partition, scopes)
        known = {feeder.name: feeder for feeder in feeders}
        task_query = read_query(
            query,
            {name: feeder.schema for name, feeder in known.items()},
            {name: feeder.kind.tasks.columns for name, feeder in known.items()},
            partitions.scopes.sample,
        )
        names = [name for name, _ in task_query.outputs]
        if schema is not None:
            names = struct_from_ddl(schema).names
        keys = key(names)
    except DefinitionError as error:
        said = str(error).removeprefix(f"stage {stage!r}: ")
        raise DefinitionError(
            f"stage {stage!r}: {said}", stage=stage, column=error.column, line=error.line
        ) from None
    return Partitioned(task_query, partitions, tuple(keys.items()), keeps, function)


def digests_for(stages: Iterable[Stage]) -> tuple[HiddenInput, ...]:
    """Return the stages that hold digests of what tasks read and do not make."""
    kept = (one for one in stages if not one.kind.tasks.make_rows)
    return tuple(HiddenInput(digests_of(one.name), digests_stage(one)) for one in kept)


def source_partitions(
    partition: str, scopes: str | None, schema: RowSchema, *, stage: str
) -> tuple[tuple[str, ...], Callable[[datetime], pa.Table] | None]:
    """Return a source's partition columns, and the function that finds its expected partitions.

    Raises:
        DefinitionError: a column does not exist, or the scopes are refused; with `stage`.
    """
    try:
        if scopes is None:
            names, expecting = _listed(partition), None
        else:
            partitions = ExpectedPartitions.read(partition, Scopes.read(scopes))
            names, expecting = partitions.names, partial(_expected, partitions, stage)
        columns = {c.name: c for c in (*schema.key, *schema.value)}
        for name in names:
            _check_partition(name, columns)
    except DefinitionError as error:
        raise DefinitionError(
            f"source {stage!r}: {error}", stage=stage, column=error.column, line=error.line
        ) from None
    if scopes is not None:
        for name, kind in partitions.types:
            declared = columns[name].data_type
            if kind != declared:
                raise DefinitionError(
                    f"source {stage!r}: partition column {name!r} is {declared.simpleString()}, "
                    f"and {kind.simpleString()} in its scopes; cast it there",
                    stage=stage,
                    column=name,
                )
    return names, expecting


def _listed(partition: str) -> tuple[str, ...]:
    listed = named_columns(partition)
    if listed is None or any(column.descending for column in listed):
        raise DefinitionError(
            f"partition {partition!r} is not a list of columns, such as 'day, store'"
        )
    return listed.names


def _expected(partitions: ExpectedPartitions, stage: str, moment: datetime) -> pa.Table:
    return partitions.at(moment, stage=stage).partitions


def _check_partition(name: str, columns: Mapping[str, Column]) -> None:
    if name not in columns:
        raise DefinitionError(
            f"its partition column {name!r} is none of its columns {', '.join(columns)}",
            column=name,
        )
    if not columns[name].is_known:
        raise DefinitionError(
            f"its partition column {name!r} has no type; declare it, as {name + ' string'!r}",
            column=name,
        )


def _is_unknown(kind: DataType) -> bool:
    return isinstance(kind, NullType)
