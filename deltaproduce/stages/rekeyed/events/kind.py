"""Stages of change events: their definition, and how a step updates them.

`Latest` has one row per key, `History` one per key and state. Both make the rows of a key from all
its events, and a step reads the events of keys that a changed event has or had, and no others.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from typing_extensions import override

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.sessions.on_demand import spark_errors
from deltaproduce.errors import DefinitionError
from deltaproduce.model.graph import Producer, Source, Stage
from deltaproduce.model.kind import Definition, KeyUse
from deltaproduce.model.layouts import Layout, sources_of
from deltaproduce.shown.explanations import Operator
from deltaproduce.stages.inputs import StageInput, hidden_input
from deltaproduce.stages.productions import DerivedKind, Produced, Production, ProductionResult
from deltaproduce.stages.rekeyed.events import queries
from deltaproduce.stages.rekeyed.events.by_key import EVENTS, as_given, events_by_key
from deltaproduce.stages.rekeyed.events.columns import EventColumns, Named, event_columns
from deltaproduce.stages.rekeyed.events.rows import (
    VALID_FROM,
    VALID_TO,
    Blame,
    Making,
    rows_of_events,
)
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.projection import Projection, naming
from deltaproduce.stages.sql.zoned import depends_on_zone, types_of
from deltaproduce.storage.stored import Stored
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.types.columns import Column, Columns, RowSchema, row_schema, unknown_schema
from deltaproduce.types.data_types import DataType, NullType, StructField, StructType
from deltaproduce.types.stored_as import StoredAs


@dataclass(frozen=True, slots=True, repr=False)
class EventsKind(DerivedKind):
    """A stage made from all events of each of its keys.

    Attributes:
        columns: what its definition says of the events.
    """

    columns: EventColumns

    @property
    @abstractmethod
    def tracked(self) -> tuple[str, ...] | None:
        """The columns that tell one state of a key from the next; None if the last one counts."""

    @abstractmethod
    def _query(self, feeders: Sequence[str]) -> str:
        """Return a query that has the same rows."""

    @property
    @override
    def definition(self) -> Definition:
        own = self.columns
        named = (tuple((n, one.text) for n, one in part) for part in (own.key, own.sequence))
        values = tuple((name, one.text) for name, one in own.values)
        deleted = None if own.deleted is None else own.deleted.text
        return Definition((*named, deleted, values, self.tracked), written=self._query)

    @property
    @override
    def key_use(self) -> KeyUse:
        copied = ((name, one.column) for name, one in self.columns.key)
        return KeyUse(copied={name: of for name, of in copied if of is not None})

    @override
    def depends_on_zone(self, schema: RowSchema, feeders: Sequence[RowSchema]) -> bool:
        """By its expressions."""
        del schema
        types = types_of(feeders)
        return any(depends_on_zone(one.tree, types) for one in self.columns.places)

    def schema(self, events: Stage, *, stage: str) -> RowSchema:
        """Return the columns of such a stage, without types if only Spark knows some.

        Raises:
            DefinitionError: a column has a type that it cannot have; with `stage` and `column`.
        """
        with naming(stage):
            types = self.columns.projection.types(event_columns(events))
        if any(isinstance(kind, NullType) for kind in types.values()):
            names = [name for name, _ in self.columns.key]
            values = [name for name, _ in (*self.columns.values, *self._validity(None))]
            return unknown_schema(dict.fromkeys(names, False), values)
        return self._typed(types, stage=stage)

    @override
    def resolved(self, stage: Stage, tables: Tables) -> Stage:
        """Types follow from the columns of the events."""
        with naming(stage.name):
            types = self._types(stage.feeders[0], tables.engines)
        return replace(stage, schema=self._typed(types, stage=stage.name))

    def _types(self, events: Stage, engines: Engines) -> dict[str, DataType]:
        return self.columns.projection.resolved(event_columns(events), engines)

    def _typed(self, types: Mapping[str, DataType], *, stage: str) -> RowSchema:
        """Return the columns of such a stage, from the types of the columns of the projection."""
        self.columns.check_types(types, stage=stage)
        key, values, sequence = (
            [StructField(name, types[self.columns.places[one]]) for name, one in part]
            for part in (self.columns.key, self.columns.values, self.columns.sequence)
        )
        validity = dict(self._validity(sequence))
        taken = next((one.name for one in (*key, *values) if one.name.lower() in validity), None)
        if taken is not None:
            message = (
                f"stage {stage!r}: its events have a column {taken!r}, which is also the name of a "
                "column of a history; name its columns= without it, or as 'it AS another'"
            )
            raise DefinitionError(message, stage=stage, column=taken)
        values += [StructField(name, kind) for name, kind in validity.items()]
        return row_schema(StructType(key), StructType(values), stage=stage)

    def _validity(self, sequence: Sequence[StructField] | None) -> Iterator[tuple[str, DataType]]:
        """Yield the columns that say when a row is valid, if there are any, with their type."""
        if self.tracked is None:
            return
        kind: DataType = NullType()
        if sequence is not None:
            kind = sequence[0].dataType if len(sequence) == 1 else StructType([*sequence])
        yield from ((VALID_FROM, kind), (VALID_TO, kind))

    @override
    def produced(self, production: Production, inputs: Sequence[StageInput]) -> Produced | None:
        each = _events(inputs)
        rows = each.all_rows()
        return None if rows is None else self._rows(rows, each.stage, production)

    @override
    def changed(
        self,
        production: Production,
        inputs: Sequence[StageInput],
        content: Stored | None,
        mappings: Callable[[], Stored | None],
    ) -> ProductionResult | None:
        """The rows of keys that a changed event has or had are made again."""
        del mappings
        each, engines = _events(inputs), production.engines
        if each.changed is None:
            return None
        layout, theirs = Layout.of(production.stage), each.changed.changed_keys.keys
        own = each.stage.schema.key.columns[: len(self.columns.key)]
        keys = Selection.of(engines.of(theirs).here(theirs, own), own, engines)
        rows = each.having(keys)
        assert rows is not None  # it has changed
        of_keys = keys.semi_join(rows, each.content)
        new, count, ties, _ = self._rows(of_keys, each.stage, production)
        if content is None:
            return production.first(new, count, ties)
        affected = keys.renamed(layout.key)
        compared = production.replaced_keys(content, affected, lambda _: new)
        return ProductionResult(compared, ties=ties)

    def _rows(self, rows: Rows, stored: Stage, production: Production) -> Produced:
        """Return the rows of keys, from all their events as a stage has them."""
        stage, engines = production.stage, production.engines
        events, projection = stage.merged[0], self.columns.projection
        given = event_columns(events)
        projected = projection.of(
            as_given(rows, stored, events, production), given, engines, stage=stage.name
        )
        making = self._making(stage, self._types(events, engines), engines)
        try:
            return rows_of_events(projected, making, engines)
        except spark_errors("PySparkException") as error:
            raise projection.failed(error, stage=stage.name) from error

    def _making(self, stage: Stage, types: Mapping[str, DataType], engines: Engines) -> Making:
        own, events = self.columns, stage.merged[0]
        columns = {name: Column(name, kind) for name, kind in types.items()}
        every = (columns[own.places[Expression.of_column(name)]] for name in own.of_event)
        values = dict(self._places(own.values))
        source = events.name if isinstance(events, Source) else None
        key = Columns(event_columns(events)[: own.event_key])
        return Making(
            dict(self._places(own.key)),
            values,
            dict(self._places(own.sequence)),
            None if own.deleted is None else own.places[own.deleted],
            tuple(columns.values()),
            tuple(every),
            None if self.tracked is None else tuple(values[name] for name in self.tracked),
            Layout.of(stage).content,
            Blame(stage.name, source, key, engines.time_zone),
        )

    def _places(self, named: tuple[Named, ...]) -> Iterator[tuple[str, str]]:
        return ((name, self.columns.places[one]) for name, one in named)

    @override
    def operators(self, stage: Stage) -> tuple[Operator, ...]:
        """And the table in which the events of a key are found."""
        *scans, last = super(EventsKind, self).operators(stage)
        tables = ({"name": one.stage.name, "kind": one.role} for one in stage.hidden_inputs)
        return (*scans, replace(last, tables=tuple(tables)))

    @override
    def pairs(self, stage: Stage, feeder: Stage, rows: Rows, engines: Engines) -> Rows:
        """Maps the keys of events to the keys that they are of."""
        sources = sources_of(feeder.schema.key)
        copied = zip(sources, feeder.schema.key, strict=True)
        outputs = ((to.name, Expression.of_column(column.name)) for to, column in copied)
        projection = Projection((*outputs, *self.columns.key))
        return projection.of(rows, Layout.of(feeder).own, engines, stage=stage.name)


@dataclass(frozen=True, slots=True, repr=False)
class Latest(EventsKind):
    """The last state of each key, unless it is a delete."""

    @property
    @override
    def word(self) -> str:
        return "latest"

    @property
    @override
    def tracked(self) -> None:
        return None

    @override
    def _query(self, feeders: Sequence[str]) -> str:
        return queries.latest(self.columns, feeders)


@dataclass(frozen=True, slots=True, repr=False)
class History(EventsKind):
    """All states of each key, with the time from which and until which each is valid.

    Attributes:
        columns: what its definition says of the events.
        track: the columns that tell one state from the next.
    """

    track: tuple[str, ...]

    @property
    @override
    def word(self) -> str:
        return "history"

    @property
    @override
    def tracked(self) -> tuple[str, ...]:
        return self.track

    @override
    def _query(self, feeders: Sequence[str]) -> str:
        return queries.history(self.columns, self.track, feeders)


def stage_of_events(
    kind: EventsKind, name: str, events: Stage, stored: StoredAs | None
) -> Producer:
    """Return a stage, with the hidden stage in which it finds the events of a key.

    Args:
        stored: how files store its content.

    Raises:
        DefinitionError: a column has a type that it cannot have; with `stage` and `column`.
    """
    schema = kind.schema(events, stage=name)
    key = tuple(one for _, one in kind.columns.key)
    hidden = events_by_key(events, key, stage=name)
    return Producer(name, ((events,),), schema, kind, hidden_inputs=hidden, stored=stored)


def _events(inputs: Sequence[StageInput]) -> StageInput:
    """Return the input whose key begins with the stage's: the events, or the hidden stage."""
    return hidden_input(inputs, EVENTS) if len(inputs) > 1 else inputs[0]
