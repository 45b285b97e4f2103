"""A step of an aggregate stage: feeder rows become states, and states become the stage's rows.

Rows are processed where they are, on the driver or in Spark. The invariant: the rows that a step
makes for a key follow from its states and its multisets alone, so an update and a refresh make the
same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from deltaproduce.engines.choice import is_empty
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.sessions.on_demand import spark_errors
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import Layout
from deltaproduce.stages.aggregates import in_spark, on_driver
from deltaproduce.stages.aggregates.folding import Folding
from deltaproduce.stages.aggregates.grouping import Grouping
from deltaproduce.stages.aggregates.ordered.answers import Answers, RowsBefore
from deltaproduce.stages.aggregates.windowed import Part
from deltaproduce.stages.inputs import StageInput
from deltaproduce.stages.productions import Production, ProductionResult
from deltaproduce.stages.sql.projection import Projection
from deltaproduce.stages.sql.states.functions.ordered import DECIDER_PREFIX
from deltaproduce.stages.sql.states.functions.partials import Partials
from deltaproduce.storage.stored import Stored
from deltaproduce.types.columns import Column


@dataclass(frozen=True, slots=True)
class AggregateStep:
    """One step of a stage: its inputs, and what it computes.

    Attributes:
        inputs: the stage's inputs, with the multisets that it reads.
        projection: the expressions computed for a row of its feeders.
        columns: the columns of the projection.
        keys: the first of these columns, which are its key.
        counted: filters rows of the projection to those that count.
        partials: its feeders' values that it merges.
        grouping: what it computes for a group.
    """

    production: Production
    inputs: Sequence[StageInput]
    projection: Projection
    columns: tuple[Column, ...]
    keys: Sequence[str]
    counted: Callable[[Rows], Rows]
    partials: Partials
    grouping: Grouping

    @property
    def layout(self) -> Layout:
        """The stage's layout."""
        return Layout.of(self.production.stage)

    @property
    def folding(self) -> Folding:
        """The conversion of rows to states, and of states to rows."""
        stage, zone = self.production.stage, self.production.engines.time_zone
        return Folding(self.grouping, self.layout, stage.name, zone)

    def rows_of_parts(self, parts: Sequence[Part]) -> tuple[Rows, int]:
        """Return the stage's rows if it has only these feeder rows, and their number."""
        states = self._states(parts)
        assert states is not None  # there are parts
        return self._rows(states, None, once=True)

    def rows_of_all(self, fed: Sequence[StageInput]) -> tuple[Rows, int] | None:
        """Return the stage's rows if it has all rows of these feeders, and their number.

        What the driver reads in parts becomes states part by part, so memory has to hold a few
        parts and not the rows.

        Returns:
            None if no feeder has ever had rows.
        """
        states, parts = list[Rows](), list[Part]()
        for each in fed:
            of_all = self._in_parts(each)
            if of_all is not None:
                states.append(of_all)
            elif (rows := each.all_rows()) is not None:
                parts.append((rows, each.stage, 1))
        if not states:
            return self.rows_of_parts(parts) if parts else None
        others = self._states(parts)
        states += [] if others is None else [others]
        engine = self.production.engines.of(*states)
        return self._rows(engine.concat(states, self.folding.states), None, once=False)

    def _in_parts(self, each: StageInput) -> pa.Table | None:
        """Return the states of a feeder's rows, several of a key; None if they are read at once."""
        is_here = self.projection.is_here(self._read, self.production.engines)
        if self.grouping.calls or not is_here:
            return None
        columns = tuple(dict.fromkeys(self.columns_of(each.stage)))
        return each.reduced(columns, partial(self._folded, feeder=each.stage))

    def _folded(self, rows: pa.Table, feeder: Stage) -> pa.Table:
        """Return the states of some rows of a feeder on the driver, one row per key."""
        [(states, _)] = self._computed([(rows, feeder, 1)])
        assert isinstance(states, pa.Table)
        return self.folding.of_rows(states, np.ones(len(states), np.int64), self.keys)

    def changed(
        self,
        content: Stored | None,
        moved: Sequence[Part],
        after: Callable[[Selection], Sequence[Part]],
    ) -> ProductionResult | None:
        """Return what added and removed rows change; None if there are none.

        Args:
            content: the stage's rows; None if there are none.
            after: finds the rows of keys after the step, and perhaps other rows.
        """
        layout, engines = self.layout, self.production.engines
        lost = None if self.grouping.subtracts else self._lost(moved)
        states = (
            self._states(moved) if lost is None else self._states_again(moved, lost, after(lost))
        )
        if states is None or (lost is None and is_empty(states)):
            return None
        affected = Selection.of(engines.of(states).here(states, layout.key), layout.key, engines)
        if lost is not None:
            affected = affected.union(lost)
        if content is None:
            return self.production.first(*self._rows(states, None, once=True))

        def rows_after(before: Rows) -> Rows:
            known = affected.exactly(before)
            added_to = known if lost is None else self._anti_join(known, layout.content, lost)
            together = engines.concat(added_to, states, self.folding.states)
            return self._rows(together, RowsBefore(affected, known))[0]

        return ProductionResult(self.production.replaced_keys(content, affected, rows_after))

    def _lost(self, moved: Sequence[Part]) -> Selection | None:
        """Return the keys that have lost a row; None if there are none."""
        engines, key = self.production.engines, self.layout.key
        gone = [rows for rows, _ in self._computed([part for part in moved if part[2] < 0])]
        keys = [engines.of(rows).filled(rows, key, list(self.keys)) for rows in gone]
        if not keys:
            return None
        lost = Selection.of(engines.of(*keys).concat(keys, key), key, engines)
        return None if lost.empty else lost

    def _states_again(
        self, moved: Sequence[Part], lost: Selection, after: Sequence[Part]
    ) -> Rows | None:
        """Recompute states of keys that lost a row from all their rows; add new rows of others.

        Args:
            after: the rows of these keys after the step, and perhaps other rows.
        """
        columns = self.folding.states
        added = self._states([part for part in moved if part[2] > 0])
        again = self._states(after, lost)
        if added is None or again is None:
            return again
        return self.production.engines.concat(self._anti_join(added, columns, lost), again, columns)

    def _anti_join(self, rows: Rows, columns: Sequence[Column], keys: Selection) -> Rows:
        """Return the rows, in these columns, that have none of the stage's keys."""
        engine = self.production.engines.of(rows, keys.keys)
        left: Rows = engine.anti_join(rows, columns, keys.keys, keys.columns)
        return left

    def _states(self, parts: Sequence[Part], of: Selection | None = None) -> Rows | None:
        """Compute the states of rows, one row per key; None if there are no parts.

        Args:
            of: the stage's keys that are wanted; all if None.
        """
        read = self._computed(parts)
        if of is not None:
            keys = of.renamed(self.columns[: len(self.keys)])
            read = [(keys.semi_join(rows, self.columns), sign) for rows, sign in read]
        if not read:
            return None
        if all(isinstance(rows, pa.Table) for rows, _ in read):
            key = self.columns[: len(self.keys)]
            computed = on_driver.states_of(read, key, self.folding, self.production)
            if computed is not None:
                return computed
        there = [(self.production.engines.frame(rows, self.columns), sign) for rows, sign in read]
        frame = in_spark.states_of(there, self.keys, self.folding)
        try:
            states, _ = self.production.computed(frame, self.folding.states)
        except spark_errors("PySparkException") as error:
            raise self.projection.failed(error, stage=self._whose) from error
        return states

    def _computed(self, parts: Sequence[Part]) -> list[tuple[Rows, int]]:
        """Compute the rows that count, in `columns`, with their signs."""
        engine = self.production.engines.of(*(rows for rows, _, _ in parts))
        states = []
        for rows, feeder, sign in parts:
            own = self.columns_of(feeder)
            here = engine.here(rows, tuple(dict.fromkeys(own)))
            filled = engine.filled(here, self._read, [column.name for column in own])
            of_rows = self.projection.of(
                filled, self._read, self.production.engines, stage=self._whose
            )
            states.append((self.counted(of_rows), sign))
        return states

    def _rows(
        self, states: Rows, known: RowsBefore | None, *, once: bool = False
    ) -> tuple[Rows, int]:
        """Return the rows of the stage that states become, and their number.

        Args:
            states: all states of each key.
            known: what the stage had for the keys before.
            once: whether each key occurs once.
        """
        engines = self.production.engines
        answers = Answers(self.inputs, self.grouping, self.layout, engines)
        if isinstance(states, pa.Table):
            computed = on_driver.rows_of(states, self.folding, self.production)
            frame = None if computed is None else computed[0]
            if isinstance(frame, pa.Table):
                return answers.here(frame, known), len(frame)
        else:
            frame = None
        if frame is None:
            there = engines.frame(states, self.folding.states)
            frame = in_spark.rows_of(there, self.folding, once=once)
        return self.production.computed(answers.in_spark(frame, known))

    @property
    def _read(self) -> tuple[Column, ...]:
        """The columns that are read from the feeders, by the first feeder's names."""
        return (*self._named(self.production.stage.feeders[0]), *self.partials.read)

    def columns_of(self, feeder: Stage) -> tuple[Column, ...]:
        """Return the columns read from a feeder, in the same order."""
        number = [one.name for one in self.production.stage.merged].index(feeder.name)
        return (*self._named(feeder), *self.partials.of_feeder(number))

    def _named(self, feeder: Stage) -> tuple[Column, ...]:
        """Return the columns of a feeder that expressions read, at least one."""
        first, read = read_columns(self.production.stage.feeders[0]), self.projection.columns
        wanted = [c for c in first if c.name in read] or [first[0]]
        return alike(wanted, self.production.stage.feeders[0], feeder)

    @property
    def _whose(self) -> str:
        """The stage whose definition contains the expressions."""
        return self.production.stage.owner


def row_columns(stage: Stage) -> tuple[Column, ...]:
    """Return the columns of a feeder that expressions can name."""
    return (*stage.schema.key, *stage.schema.value)


def read_columns(stage: Stage) -> tuple[Column, ...]:
    """Return the same, and what decided on values, which merged functions read."""
    deciders = (c for c in stage.schema.states if c.name.startswith(DECIDER_PREFIX))
    return (*row_columns(stage), *deciders)


def alike(columns: Sequence[Column], first: Stage, feeder: Stage) -> tuple[Column, ...]:
    """Return the columns of a feeder that are read as these of the first one."""
    places = {column.name: place for place, column in enumerate(row_columns(first))}
    own, named = row_columns(feeder), {column.name: column for column in read_columns(feeder)}
    return tuple(own[places[c.name]] if c.name in places else named[c.name] for c in columns)
