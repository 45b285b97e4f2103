"""Inputs: the rows that a stage's function is called with, from one feeder or from many.

A `StageInput` is one feeder in a version: the rows it had before, and what its own step found out.
The keys to be produced again are the union of the inputs' changed keys; for each of them every
input has its current values, changed or not (S10). The invariant: what `changed_rows` and
`all_rows` return has a key's rows together, those of the first input first, and within an input
those of its first feeder first, in (source key, emission) order (S6); and of an input that did not
change it has read the rows of these keys only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql.types import IntegerType

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.comparisons import Comparison
from deltaproduce.engines.engine import Filling, Part, Rows
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.marks import AFTER, ALIVE, BEFORE, KEY_DIFFERS, ROW_DIFFERS, SIDE
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.kernels.ranges import rows_within
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import CONTENT, Layout
from deltaproduce.model.partitions import Ranges
from deltaproduce.storage.stored import Stored
from deltaproduce.types.columns import Column

_INPUT: Final = Column("_input", IntegerType())
"""In the rows of a join, which iterator a row's values are for."""


@dataclass(frozen=True, slots=True)
class StageInput:
    """One feeder of a stage in a version.

    Attributes:
        before: finds the rows that it had; None if there were none.
        step: its own step; None if the version did not reach it.
        is_after: what `before` finds are the rows after the step, of keys that it changed too.
        by_states: the stage goes by the states of its rows, too (`Kind.reads_states`).
    """

    stage: Stage
    before: Callable[[], Stored | None]
    step: Comparison | None
    is_after: bool = False
    by_states: bool = False

    @property
    def changed(self) -> Comparison | None:
        """Its step, if any key changed; or the states of any, for a stage that goes by them."""
        if self.step is None:
            return None
        counts = self.step.counts
        is_changed = counts.pairs_changed if self.by_states else counts.keys_changed
        return self.step if is_changed else None

    @property
    def content(self) -> tuple[Column, ...]:
        """The columns of its content."""
        return Layout.of(self.stage).content

    def moved(self) -> tuple[Rows, Rows]:
        """The rows of its changed keys that are gone, and those that have come, unsorted.

        Rows that stay what they are, in their places, are in neither; those whose states alone are
        others are in both, for a stage that goes by them.
        """
        assert self.step is not None
        differ = {ROW_DIFFERS: True} if self.by_states else {ROW_DIFFERS: True, KEY_DIFFERS: True}
        gone, come = (
            self.step.pick(self.content, {SIDE: side, **differ}) for side in (BEFORE, AFTER)
        )
        return gone, come

    def all_rows(self) -> Rows | None:
        """Its content after the step, unsorted; None if there is none."""
        if self.step is not None and self.step.complete:
            return self.step.content_after(None)
        before = self.before()
        if self.step is not None:
            return self.step.content_after(None if before is None else before.rows)
        return None if before is None else before.rows()

    def within(self, column: Column, values: Ranges) -> Rows | None:
        """Its content after the step that has a value in some ranges; None if there is none.

        Args:
            column: one of its key.
        """
        found = self._after(lambda before: before.within(column, values))
        return None if found is None else rows_within(found, column, values)

    def having(self, keys: Selection) -> Rows | None:
        """Its content after the step that has some values, and perhaps more; None if there is none.

        Args:
            keys: in columns of its key, perhaps not in all of them.
        """
        return self._after(lambda before: before.of(keys))

    def _after(self, read: Callable[[Stored], Rows]) -> Rows | None:
        """Some rows of its content after the step, and perhaps others that the step changed.

        Args:
            read: finds the rows of stored ones; all of a pair, or none.
        """
        before = None if self.step is not None and self.step.complete else self.before()
        old = None if before is None else read(before)
        if self.step is None or (self.is_after and before is not None):
            return old
        return self.step.content_after(None if old is None else lambda: old)

    def rows_of(self, keys: Selection, engines: Engines) -> Rows | None:
        """Its content of some keys after the step, unsorted; None if there is none.

        Args:
            keys: in its own key columns; all that it changed are among them.
        """
        changed = self.changed
        if changed is not None and changed.complete:
            return keys.only(changed.pick(self.content, ALIVE), self.content)
        unchanged = keys if changed is None else keys.without(changed.changed_keys)
        before = None if unchanged.empty else self.before()
        old = None if before is None else unchanged.exactly(before.of(unchanged))
        if changed is None:
            return old
        new = changed.pick(self.content, {**ALIVE, KEY_DIFFERS: True})
        return new if old is None else engines.united(old, new, self.content)


def changed_keys(inputs: Sequence[StageInput], columns: Sequence[Column]) -> Selection | None:
    """The keys that any of the inputs has changed, in these columns; None if none has any.

    Args:
        inputs: of one stage.
        columns: the stage's source key.
    """
    found = [each.changed.changed_keys.renamed(columns) for each in inputs if each.changed]
    return reduce(lambda one, other: one.union(other), found) if found else None


def changed_rows(stage: Stage, inputs: Sequence[StageInput], keys: Selection) -> Rows:
    """What the function is called with for the changed keys: the columns of `input_columns`."""
    if len(inputs) == 1 and (only := inputs[0].changed):
        return only.upserts()  # they are in order
    found = _together(stage, changed_parts(inputs, keys), keys.engines)
    return empty(input_columns(stage)) if found is None else found


def all_rows(stage: Stage, inputs: Sequence[StageInput], engines: Engines) -> Rows | None:
    """What the function is called with for all keys, as `changed_rows`; None if there are none."""
    return _together(stage, all_parts(inputs), engines)


def changed_parts(inputs: Sequence[StageInput], keys: Selection) -> list[tuple[StageInput, Rows]]:
    """The content of the changed keys of each input that has some, unsorted."""
    parts = (
        (each, each.rows_of(keys.renamed(each.stage.schema.key.columns), keys.engines))
        for each in inputs
    )
    return [(each, rows) for each, rows in parts if rows is not None]


def all_parts(inputs: Sequence[StageInput]) -> list[tuple[StageInput, Rows]]:
    """The content of each input that has some, unsorted."""
    parts = ((each, each.all_rows()) for each in inputs)
    return [(each, rows) for each, rows in parts if rows is not None]


def input_columns(stage: Stage) -> tuple[Column, ...]:
    """The source key, and the values of each input, with its number if there are several."""
    key = stage.feeders[0].schema.key
    if len(stage.inputs) == 1:
        return (*key, *stage.inputs[0][0].schema.value)
    values = (column for number in range(len(stage.inputs)) for column in _values(stage, number))
    return (*key, _INPUT, *values)


def _values(stage: Stage, number: int) -> Iterator[Column]:
    """The value columns of one of several inputs, which may have the same names."""
    for column in stage.inputs[number][0].schema.value:
        yield Column(f"_{number}_{column.name}", column.data_type)


def _together(
    stage: Stage, parts: Sequence[tuple[StageInput, Rows]], engines: Engines
) -> Rows | None:
    """The inputs' rows as the function reads them: a key's together and in order."""
    if not parts:
        return None
    found = [
        Part(
            rows,
            each.content,
            Layout.of(each.stage).order(CONTENT),
            tuple(_fillings(stage, each.stage)),
        )
        for each, rows in parts
    ]
    engine = engines.of(*(rows for _, rows in parts))
    together: Rows = engine.by_key(found, input_columns(stage), stage.feeders[0].schema.key.columns)
    return together


def _fillings(stage: Stage, feeder: Stage) -> list[Filling]:
    """What each of `input_columns` is filled with in the rows of one feeder."""
    values = feeder.schema.value.names
    if len(stage.inputs) == 1:
        return [*feeder.schema.key.names, *values]
    own = next(n for n, merged in enumerate(stage.inputs) if any(feeder is x for x in merged))
    found: list[Filling] = [*feeder.schema.key.names, own]
    for number, merged in enumerate(stage.inputs):
        found += values if number == own else [None] * len(merged[0].schema.value)
    return found
