"""Aggregate stages: what they are, and how a step changes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from deltaproduce.engines.choice import Engines, is_empty
from deltaproduce.engines.comparisons import Comparison
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.selections import Selection
from deltaproduce.errors import DefinitionError
from deltaproduce.model.declarations import check_text
from deltaproduce.model.graph import Stage
from deltaproduce.model.kind import ModelOfAll
from deltaproduce.model.layouts import CONTENT, RUNS, UPDATES, Layout, sources_of
from deltaproduce.stages.aggregates import in_spark, on_driver
from deltaproduce.stages.aggregates.agg import AggregateCall
from deltaproduce.stages.aggregates.folding import folded, state_columns
from deltaproduce.stages.aggregates.grouping import Grouping
from deltaproduce.stages.aggregates.model import grouped
from deltaproduce.stages.inputs import StageInput, all_parts
from deltaproduce.stages.productions import DerivedKind, Found, Production
from deltaproduce.storage.stored import Stored
from deltaproduce.storage.tables import Tables
from deltaproduce.types.columns import Column, RowSchema, row_schema, unknown_schema


@dataclass(frozen=True, slots=True)
class Aggregate(DerivedKind):
    """A stage with one row for each key that its feeder's rows have.

    Attributes:
        key: the columns of the feeder that are the key.
        values: the names of the value columns, and what they are.
    """

    key: tuple[str, ...]
    values: tuple[tuple[str, AggregateCall], ...]

    @staticmethod
    def defined(
        key: str, values: Mapping[str, AggregateCall], feeder: RowSchema, *, stage: str
    ) -> Aggregate:
        """The kind of a stage, from what its definition says.

        Args:
            key: columns of the feeder, as ``"a, b"``.
            values: the names of the value columns -> what they are.

        Raises:
            DefinitionError: that is none; with `stage` and, if it is about one value, `column`.
        """
        check_text(key, "its key", stage=stage)
        if not isinstance(values, Mapping) or not values:
            message = f"stage {stage!r}: its values are {values!r}; give names and agg.… of each"
            raise DefinitionError(message, stage=stage)
        for name, call in values.items():
            if not isinstance(name, str) or not isinstance(call, AggregateCall):
                message = f"stage {stage!r}: value {name!r} is {call!r}; use one of agg's functions"
                raise DefinitionError(message, stage=stage, column=str(name))
        return Aggregate(
            tuple(_column(part, feeder, "its key", stage=stage) for part in key.split(",")),
            tuple((name, _named(name, call, feeder, stage=stage)) for name, call in values.items()),
        )

    @property
    def word(self) -> str:
        """See `Kind.word`."""
        return "aggregate"

    @property
    def tables(self) -> tuple[str, ...]:
        """See `Kind.tables`: no key mappings, since a row comes from many source keys."""
        return (CONTENT, UPDATES, RUNS)

    @property
    def made_by(self) -> object:
        """See `Kind.made_by`."""
        return self.key, tuple((name, call.sql) for name, call in self.values)

    @property
    def model_of_all(self) -> ModelOfAll:
        """See `Kind.model_of_all`."""
        return partial(grouped, key=self.key, values=self.values)

    def resolved(self, stage: Stage, tables: Tables) -> Stage:
        """See `StageKind.resolved`: with the types that its feeder's columns give."""
        del tables
        return replace(stage, schema=self.schema(stage.feeders[0].schema, stage=stage.name))

    def schema(self, feeder: RowSchema, *, stage: str) -> RowSchema:
        """The columns of such a stage.

        Raises:
            DefinitionError: a function does not take its argument; with `stage` and `column`.
        """
        columns = {c.name: c for c in (*feeder.key, *feeder.value)}
        read = {*self.key, *(name for _, call in self.values for name in call.arguments)}
        if not all(columns[name].is_known for name in read):
            return unknown_schema(dict.fromkeys(self.key, False), (name for name, _ in self.values))
        grouping = self.grouping(columns.values(), stage=stage)
        key = StructType([StructField(name, columns[name].data_type) for name in self.key])
        schema = row_schema(key, grouping.value.struct, stage=stage)
        return replace(schema, states=grouping.states)

    def produced(
        self, production: Production, inputs: Sequence[StageInput]
    ) -> tuple[Rows, int] | None:
        """See `DerivedKind.produced`."""
        parts = all_parts(inputs)
        if not parts:
            return None
        step = _Step(self, production)
        states = step.states([(rows, each.stage, 1) for each, rows in parts])
        return step.rows(states, once=True)

    def changed(
        self,
        production: Production,
        inputs: Sequence[StageInput],
        content: Stored | None,
        mappings: Callable[[], Stored | None],
    ) -> Found | None:
        """See `DerivedKind.changed`: what went is taken from the states, and what came is added."""
        del mappings
        moved = [
            (rows, each.stage, sign)
            for each in inputs
            if each.changed
            for rows, sign in zip(each.moved(), (-1, 1), strict=True)
        ]
        step = _Step(self, production)
        states = step.states(moved) if moved else None
        if states is None or is_empty(states):
            return None
        layout, engines = step.layout, production.engines
        affected = Selection.of(engines.of(states).here(states, layout.key), layout.key, engines)
        if content is None:
            return production.first(*step.rows(states, once=True))
        whole = content.small and affected.is_here
        before = content.fetched() if whole else content.of(affected)
        known = affected.exactly(before)
        together = engines.united(known, states, state_columns(layout))
        new, _ = step.rows(together, once=False)
        return Found(
            Comparison.of_some(
                before, affected, new, layout, complete=whole, sought=affected.is_here
            )
        )

    def pairs(self, stage: Stage, feeder: Stage, rows: Rows, engines: Engines) -> Rows:
        """See `DerivedKind.pairs`: which keys the rows of each of the feeder's are in."""
        layout = Layout(stage.schema, sources_of(feeder.schema.key))
        place = {name: at for at, name in enumerate(stage.feeders[0].schema.names)}
        own = [feeder.schema.names[place[name]] for name in self.key]
        engine = engines.of(rows)
        found: Rows = engine.filled(rows, layout.pair, [*feeder.schema.key.names, *own])
        return found

    def grouping(self, columns: Iterable[Column], *, stage: str) -> Grouping:
        """What is computed of rows in some columns.

        Raises:
            DefinitionError: a function does not take its argument; with `stage` and `column`.
        """
        types = {column.name: column.data_type for column in columns}
        return Grouping.of(dict(self.values), types, stage=stage)


class _Step:
    """One step of an aggregate stage: from rows of its feeders to rows of its own."""

    def __init__(self, kind: Aggregate, production: Production) -> None:
        stage = production.stage
        self._kind, self._production = kind, production
        self._read = _row(stage.feeders[0])
        self._grouping = kind.grouping(self._read, stage=stage.name)
        self.layout = Layout.of(stage)

    def states(self, parts: Sequence[tuple[Rows, Stage, int]]) -> Rows:
        """The states of some rows, one row a key; computed."""
        engines = self._production.engines
        engine = engines.of(*(rows for rows, _, _ in parts))
        read = [
            (engine.filled(engine.here(rows, _row(stage)), self._read, stage.schema.names), sign)
            for rows, stage, sign in parts
        ]
        key, grouping = self._kind.key, self._grouping
        if all(isinstance(rows, pa.Table) for rows, _ in read):
            return on_driver.states_of(read, key, grouping, self.layout)
        found = in_spark.states_of(read, key, grouping, self.layout)
        computed, _ = self._production.computed(found, state_columns(self.layout))
        return computed

    def rows(self, states: Rows, *, once: bool) -> tuple[Rows, int]:
        """The rows of the stage that come of some states, and how many.

        Args:
            once: each key is there once.
        """
        engines, stage = self._production.engines, self._production.stage
        given = self._grouping, self.layout, stage.name, engines.time_zone
        if isinstance(states, DataFrame):
            return self._production.computed(in_spark.rows_of(states, *given, once=once))
        found = folded(states, *given)
        return found, len(found)


def _row(stage: Stage) -> tuple[Column, ...]:
    return (*stage.schema.key, *stage.schema.value)


def _named(name: str, call: AggregateCall, feeder: RowSchema, *, stage: str) -> AggregateCall:
    """A call with its arguments as the feeder calls them."""
    what = f"value {name!r}"
    arguments = (_column(text, feeder, what, stage=stage) for text in call.arguments)
    return replace(call, arguments=tuple(arguments))


def _column(text: str, feeder: RowSchema, what: str, *, stage: str) -> str:
    """A column of the feeder, which is named without regard to case."""
    named = text.strip().strip("`")
    found = [name for name in feeder.names if name.lower() == named.lower()]
    if len(found) != 1:
        message = (
            f"stage {stage!r}: {what} names {named!r}, and the feeder has the columns "
            f"{', '.join(feeder.names)}"
        )
        raise DefinitionError(message, stage=stage)
    return found[0]
