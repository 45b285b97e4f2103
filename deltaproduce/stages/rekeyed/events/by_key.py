"""Events by key: a hidden stage that finds the events of a key.

Its key is the key of the stages that read it, and then the events' own, so the events of a key are
adjacent, and a change of an event touches its own row alone. It is not needed where the events' key
begins with the key of the stage: then their own rows are adjacent. The invariant: it has one row
for each row of the events, in the same version.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import pyarrow as pa
from typing_extensions import override

from deltaproduce.engines.engine import Rows
from deltaproduce.engines.marks import BEFORE, KEY_DIFFERS, ROWS_OF_CHANGED_KEYS, SIDE
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.sessions.on_demand import spark_errors
from deltaproduce.model.graph import HiddenInput, Producer, Stage
from deltaproduce.model.hidden import Hidden, hidden_name
from deltaproduce.model.kind import Definition, Upkeep
from deltaproduce.model.layouts import CONTENT, RUNS, Layout
from deltaproduce.stages.inputs import StageInput
from deltaproduce.stages.productions import DerivedKind, Production, ProductionResult
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.projection import Projection, naming
from deltaproduce.stages.sql.zoned import depends_on_zone, types_of
from deltaproduce.storage.stored import Stored
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.types.columns import (
    ORDINAL_COLUMN,
    POSITION_COLUMN,
    Column,
    Columns,
    RowSchema,
    check_key_type,
    unknown_schema,
)
from deltaproduce.types.data_types import DataType, NullType

EVENTS: Final = "events"
"""The role of the stage."""


@dataclass(frozen=True, slots=True, repr=False)
class EventsByKey(DerivedKind):
    """A stage with the rows of another one under another key.

    Attributes:
        key: what its key begins with.
        widths: how many key and value columns the other stage has.
    """

    key: tuple[Expression, ...]
    widths: tuple[int, int]

    @property
    @override
    def word(self) -> str:
        return "events by key"

    @property
    @override
    def tables(self) -> tuple[str, ...]:
        return (CONTENT, RUNS)

    @property
    @override
    def definition(self) -> Definition:
        return Definition(tuple(one.text for one in self.key))

    @property
    @override
    def upkeep(self) -> Upkeep:
        return Upkeep(by_key=False, has_lineage=False, subtracts=True, by_all_columns=True)

    @override
    def depends_on_zone(self, schema: RowSchema, feeders: Sequence[RowSchema]) -> bool:
        """By the expressions of its key."""
        del schema
        types = types_of(feeders)
        return any(depends_on_zone(one.tree, types) for one in self.key)

    def schema(self, events: Stage, *, stage: str) -> RowSchema:
        """Return the columns of such a stage, without types if only Spark knows some.

        Raises:
            DefinitionError: no key may have the type of a column; with `stage` and `column`.
        """
        with naming(stage):
            types = self._projection.types(_columns(events))
            kinds = [types[name] for name in self._own]
            if any(isinstance(kind, NullType) for kind in kinds):
                names = (*self._own, *_places("event", self.widths[0]))
                value = _places("value", self.widths[1])
                return unknown_schema(dict.fromkeys(names, False), value)
            return self._typed(events, kinds)

    @override
    def resolved(self, stage: Stage, tables: Tables) -> Stage:
        """Types follow from the columns of the events."""
        (events,) = stage.feeders
        with naming(stage.owner):
            types = self._projection.resolved(_columns(events), tables.engines)
            schema = self._typed(events, [types[name] for name in self._own])
        return replace(stage, schema=schema)

    def _typed(self, events: Stage, kinds: Sequence[DataType]) -> RowSchema:
        for one, kind in zip(self.key, kinds, strict=True):
            check_key_type(one.name, kind)
        typed = zip(
            (*self._own, *_places("event", self.widths[0])),
            (*kinds, *(c.data_type for c in events.schema.key)),
            strict=True,
        )
        values = zip(_places("value", self.widths[1]), events.schema.value, strict=True)
        return RowSchema(
            Columns(tuple(Column(name, kind) for name, kind in typed)),
            Columns(tuple(Column(name, column.data_type) for name, column in values)),
        )

    @property
    def _projection(self) -> Projection:
        return Projection(tuple(zip(self._own, self.key, strict=True)))

    @property
    def _own(self) -> tuple[str, ...]:
        return _places("key", len(self.key))

    @override
    def produced(
        self, production: Production, inputs: Sequence[StageInput]
    ) -> tuple[Rows, int] | None:
        (each,) = inputs
        rows = each.all_rows()
        return None if rows is None else self._computed(rows, each.stage, production)

    @override
    def changed(
        self,
        production: Production,
        inputs: Sequence[StageInput],
        content: Stored | None,
        mappings: Callable[[], Stored | None],
    ) -> ProductionResult | None:
        """The rows of changed events are replaced."""
        del mappings
        (each,) = inputs
        step, stage, engines = each.changed, production.stage, production.engines
        if step is None:
            return None
        new, count = self._computed(
            step.select(each.content, ROWS_OF_CHANGED_KEYS), each.stage, production
        )
        if content is None:
            return production.first(new, count)
        gone, _ = self._computed(
            step.select(each.content, {SIDE: BEFORE, KEY_DIFFERS: True}), each.stage, production
        )
        layout = Layout.of(stage)
        touched = Selection.of(engines.concat(gone, new, layout.key), layout.key, engines)
        return ProductionResult(production.replaced_keys(content, touched, lambda _: new))

    def _computed(self, rows: Rows, events: Stage, production: Production) -> tuple[Rows, int]:
        """Return rows of the events in the columns of the content, and their number."""
        engines, layout = production.engines, Layout.of(events)
        place = ORDINAL_COLUMN
        if layout.sources:
            rows, place = engines.of(rows).with_positions(rows, layout), POSITION_COLUMN
        names = [*_places("event", self.widths[0]), *_places("value", self.widths[1])]
        given = (*events.schema.key, *events.schema.value, place)
        copied = zip([*names, ORDINAL_COLUMN.name], given, strict=True)
        others = ((name, Expression.of_column(column.name)) for name, column in copied)
        projection = Projection((*self._projection.outputs, *others))
        projected = projection.of(rows, given, engines, stage=production.stage.owner)
        if isinstance(projected, pa.Table):
            return projected, len(projected)
        try:
            return production.computed(projected)
        except spark_errors("PySparkException") as error:
            raise projection.failed(error, stage=production.stage.owner) from error


def begins_with(events: Stage, key: Sequence[Expression]) -> bool:
    """Return whether the key of the events begins with these columns, so that it finds them."""
    own = [column.name for column in events.schema.key]
    return [one.column for one in key] == own[: len(key)]


def events_by_key(
    events: Stage, key: tuple[Expression, ...], *, stage: str
) -> tuple[HiddenInput, ...]:
    """Return the hidden stage in which events are found by a key; none if they are already.

    Stages of the same events and the same key share it, so its name says both.

    Args:
        stage: the stage that reads it.

    Raises:
        DefinitionError: a column of the key has a type that no key may have.
    """
    if begins_with(events, key):
        return ()
    kind = EventsByKey(key, (len(events.schema.key), len(events.schema.value)))
    number = zlib.crc32(", ".join(one.text for one in key).encode())
    producer = Producer(
        hidden_name(EVENTS, number, events.name),
        ((events,),),
        kind.schema(events, stage=stage),
        kind,
        hidden=Hidden(EVENTS, (stage,)),
    )
    return (HiddenInput(EVENTS, producer),)


def as_given(rows: Rows, stored: Stage, events: Stage, production: Production) -> Rows:
    """Return events that a stage has, in the columns of the events' own stage.

    Args:
        stored: the hidden stage, or that of the events.
    """
    if stored.name == events.name:
        return rows
    columns = (*events.schema.key, *events.schema.value)
    names = chain(
        _places("event", len(events.schema.key)), _places("value", len(events.schema.value))
    )
    given: Rows = production.engines.of(rows).filled(rows, columns, list(names))
    return given


def _columns(events: Stage) -> tuple[Column, ...]:
    return (*events.schema.key, *events.schema.value)


def _places(word: str, count: int) -> tuple[str, ...]:
    return tuple(f"{word}_{n}" for n in range(count))
