"""Inputs: the rows that a stage's function reads, from one feeder or several.

A `StageInput` is one feeder in a version: its rows before, and the result of its own step. The keys
to produce again are the union of the inputs' changed keys; for each of them every input supplies
its current values, changed or not (S10). The invariant: `changed_rows` and `all_rows` keep the rows
of a key together, those of the first input first, and within an input those of its first feeder
first, in (source key, emission) order (S6); of an unchanged input they read only the rows of these
keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final

import pyarrow as pa

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.comparisons import Comparison
from deltaproduce.engines.engine import FeederPart, Filling, Rows
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.marks import (
    ALIVE,
    KEY_DIFFERS,
    ROWS_OF_CHANGED_PAIRS,
)
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.kernels.ranges import rows_within
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import CONTENT, Layout
from deltaproduce.model.limits.machine import cores
from deltaproduce.model.partitions import Ranges
from deltaproduce.storage.parquet.shared_lookups import SharedLookups, unshared
from deltaproduce.storage.stored import Stored
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import IntegerType

_INPUT: Final = Column("_input", IntegerType())
"""In the rows of a join, the number of the iterator that gets a row's values."""


@dataclass(frozen=True, slots=True)
class StageInput:
    """One feeder of a stage in a version.

    Attributes:
        before: finds its rows before; None if there were none.
        step: its own step; None if the version did not reach it.
        is_after: whether `before` finds the rows after the step, also of keys that it changed.
        by_states: whether the stage reads the states of its rows, too (`Upkeep.reads_states`).
        role: what a hidden stage is to the stage that reads it; empty for its other feeders.
        looked_up: the rows before that have been looked up in this version.
    """

    stage: Stage
    before: Callable[[], Stored | None]
    step: Comparison | None
    is_after: bool = False
    by_states: bool = False
    role: str = ""
    looked_up: SharedLookups = field(default_factory=unshared)

    @property
    def changed(self) -> Comparison | None:
        """Its step, if a key changed; or a state, if the stage reads states."""
        if self.step is None:
            return None
        counts = self.step.counts
        is_changed = counts.pairs_changed if self.by_states else counts.keys_changed
        return self.step if is_changed else None

    @property
    def content(self) -> tuple[Column, ...]:
        """The columns of its content."""
        return Layout.of(self.stage).content

    @property
    def count(self) -> int:
        """How many rows its content has after the step."""
        before = None if self.step is not None and self.step.complete else self.before()
        count = 0 if before is None else before.count
        if self.step is None:
            return count
        counts = self.step.counts
        return count + counts.rows_after - (0 if before is None else counts.rows_before)

    def moved(self, columns: Sequence[Column] | None = None) -> tuple[Rows, Rows]:
        """Return the removed and the added rows of its changed keys; see `Comparison.moved`."""
        assert self.step is not None
        return self.step.moved(columns, by_states=self.by_states)

    def all_rows(
        self, columns: Sequence[Column] | None = None, *, for_spark: bool = False
    ) -> Rows | None:
        """Return its content after the step, unsorted; None if there is none.

        Args:
            columns: those that are wanted, perhaps beside others; all of its content if None.
            for_spark: whether Spark processes the rows, so that it had better read many of them.
        """
        wanted = self.content if columns is None else tuple(columns)
        if self.step is not None and self.step.complete:
            return self.step.content_after(None, wanted)
        before = self.before()
        if before is None:
            return None if self.step is None else self.step.content_after(None, wanted)
        stored = before.narrowed((*wanted, *Layout.of(self.stage).pair))
        read = stored.for_spark if for_spark else stored.rows
        return read() if self.step is None else self.step.content_after(read, wanted)

    def reduced(
        self, columns: Sequence[Column], function: Callable[[pa.Table], pa.Table]
    ) -> pa.Table | None:
        """Return what a function makes of parts of its content, if the driver reads it in parts.

        Args:
            columns: the columns that the function gets.

        Returns:
            None if it is read all at once, with `all_rows`.
        """
        before = None if self.step is not None and self.step.complete else self.before()
        if self.step is None:
            return None if before is None else before.reduced(columns, function)
        new = self.step.select(columns, ALIVE if before is None else ROWS_OF_CHANGED_PAIRS)
        if not isinstance(new, pa.Table):
            return None
        engines, step = self.step.engines, self.step
        rows = engines.of(new).here(new, columns)
        if before is None:
            return engines.by_slices(rows, function, threads=cores())
        read = tuple(dict.fromkeys((*columns, *step.layout.pair)))
        staying = step.staying(columns)
        stays = before.reduced(read, lambda part: function(staying(part)))
        return None if stays is None else pa.concat_tables([stays, function(rows)])

    def within(self, column: Column, values: Ranges) -> Rows | None:
        """Return its content after the step with a value in the ranges; None if there is none.

        Args:
            column: a column of its key.
        """
        narrowed = self._after(lambda before: before.within(column, values))
        return None if narrowed is None else rows_within(narrowed, column, values)

    def having(self, keys: Selection) -> Rows | None:
        """Return its content after the step for the keys, perhaps with more rows; None if empty.

        Args:
            keys: in columns of its key, perhaps not all of them.
        """
        return self._after(lambda before: before.of(keys))

    def _after(self, read: Callable[[Stored], Rows]) -> Rows | None:
        """Return rows of its content after the step, perhaps with others that the step changed.

        Args:
            read: finds rows in stored ones; either all rows of a pair or none.
        """
        before = None if self.step is not None and self.step.complete else self.before()
        old = None if before is None else read(before)
        if self.step is None or (self.is_after and before is not None):
            return old
        return self.step.content_after(None if old is None else lambda: old)

    def rows_of(self, keys: Selection, engines: Engines) -> Rows | None:
        """Return its content of the keys after the step, unsorted; None if there is none.

        Args:
            keys: in its own key columns; they include all keys that it changed.
        """
        changed = self.changed
        if changed is not None and changed.complete:
            return keys.semi_join(changed.select(self.content, ALIVE), self.content)
        unchanged = keys if changed is None else keys.anti_join(changed.changed_keys)
        before = None if unchanged.empty else self.before()
        old = None if before is None else unchanged.exactly(before.of(unchanged))
        if changed is None:
            return old
        new = changed.select(self.content, {**ALIVE, KEY_DIFFERS: True})
        return new if old is None else engines.concat(old, new, self.content)


def inputs_of(stage: Stage, read: Callable[[Stage], StageInput]) -> list[StageInput]:
    """Return the inputs of a stage: its feeders in order, then the hidden stages that it reads."""
    hidden = (replace(read(one.stage), role=one.role) for one in stage.hidden_inputs)
    return [*map(read, stage.merged), *hidden]


def fed_by(inputs: Sequence[StageInput]) -> list[StageInput]:
    """Return the inputs that are no hidden stages, in order."""
    return [each for each in inputs if not each.role]


def hidden_input(inputs: Sequence[StageInput], role: str) -> StageInput:
    """Return the hidden stage that has a role for the stage that reads it."""
    return next(each for each in inputs if each.role == role)


def changed_keys(inputs: Sequence[StageInput], columns: Sequence[Column]) -> Selection | None:
    """Return the keys that any input has changed, in these columns; None if there are none.

    Args:
        inputs: the inputs of one stage.
        columns: the stage's source key.
    """
    keys = [each.changed.changed_keys.renamed(columns) for each in inputs if each.changed]
    return reduce(lambda one, other: one.union(other), keys) if keys else None


def changed_rows(stage: Stage, inputs: Sequence[StageInput], keys: Selection) -> Rows:
    """Return the function's input for the changed keys, in the columns of `input_columns`."""
    if len(inputs) == 1 and (changed_input := inputs[0].changed):
        return changed_input.upserts()  # already in order
    parts_read = _together(stage, changed_parts(inputs, keys), keys.engines)
    return empty(input_columns(stage)) if parts_read is None else parts_read


def all_rows(stage: Stage, inputs: Sequence[StageInput], engines: Engines) -> Rows | None:
    """Return the function's input for all keys, as `changed_rows`; None if there is none."""
    return _together(stage, all_parts(inputs), engines)


def changed_parts(inputs: Sequence[StageInput], keys: Selection) -> list[tuple[StageInput, Rows]]:
    """Return the content of the changed keys of each input that has some, unsorted."""
    parts = (
        (each, each.rows_of(keys.renamed(each.stage.schema.key.columns), keys.engines))
        for each in inputs
    )
    return [(each, rows) for each, rows in parts if rows is not None]


def all_parts(
    inputs: Sequence[StageInput], *, for_spark: bool = False
) -> list[tuple[StageInput, Rows]]:
    """Return the content of each input that has any, unsorted; see `StageInput.all_rows`."""
    parts = ((each, each.all_rows(for_spark=for_spark)) for each in inputs)
    return [(each, rows) for each, rows in parts if rows is not None]


def input_columns(stage: Stage) -> tuple[Column, ...]:
    """Return the source key, and each input's values; the input's number, too, if several."""
    key = stage.feeders[0].schema.key
    if len(stage.inputs) == 1:
        return (*key, *stage.inputs[0][0].schema.value)
    values = (column for number in range(len(stage.inputs)) for column in _values(stage, number))
    return (*key, _INPUT, *values)


def _values(stage: Stage, number: int) -> Iterator[Column]:
    """Yield the value columns of one of several inputs, which may share names."""
    for column in stage.inputs[number][0].schema.value:
        yield Column(f"_{number}_{column.name}", column.data_type)


def _together(
    stage: Stage, parts: Sequence[tuple[StageInput, Rows]], engines: Engines
) -> Rows | None:
    """Return the inputs' rows as the function reads them: sorted, a key's rows together."""
    if not parts:
        return None
    fed_parts = [
        FeederPart(
            rows,
            each.content,
            Layout.of(each.stage).order(CONTENT),
            tuple(_fillings(stage, each.stage)),
        )
        for each, rows in parts
    ]
    engine = engines.of(*(rows for _, rows in parts))
    together: Rows = engine.by_key(
        fed_parts, input_columns(stage), stage.feeders[0].schema.key.columns
    )
    return together


def _fillings(stage: Stage, feeder: Stage) -> list[Filling]:
    """Return the source of each of `input_columns` in the rows of one feeder."""
    values = feeder.schema.value.names
    if len(stage.inputs) == 1:
        return [*feeder.schema.key.names, *values]
    own = next(n for n, merged in enumerate(stage.inputs) if any(feeder is x for x in merged))
    fillings: list[Filling] = [*feeder.schema.key.names, own]
    for number, merged in enumerate(stage.inputs):
        fillings += values if number == own else [None] * len(merged[0].schema.value)
    return fillings
