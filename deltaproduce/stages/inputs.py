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
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType

from deltaproduce.engines.comparisons import ALIVE, Comparison
from deltaproduce.engines.local.arrays import dense_ranks, empty, in_order
from deltaproduce.engines.marks import KEY_DIFFERS
from deltaproduce.engines.selections import Rows, Selection, as_frame, united
from deltaproduce.engines.spark.columns import col, cols, order
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import content_columns, sources_of
from deltaproduce.storage.stored import Stored
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import ORDINAL_COLUMN, Column

_INPUT: Final = Column("_input", IntegerType())
"""In the rows of a join, which iterator a row's values are for."""

_FEEDER: Final = Column("_feeder", IntegerType())
"""While a join's rows are sorted, which feeder a row is from."""

_Filling: TypeAlias = str | int | None
"""What a column is filled with: a feeder's column, a number, or null."""


@dataclass(frozen=True, slots=True)
class StageInput:
    """One feeder of a stage in a version.

    Attributes:
        before: finds the rows that it had; None if there were none.
        step: its own step; None if the version did not reach it.
    """

    stage: Stage
    before: Callable[[], Stored | None]
    step: Comparison | None

    @property
    def changed(self) -> Comparison | None:
        """Its step, if any key changed."""
        return self.step if self.step is not None and self.step.counts.keys_changed else None

    @property
    def content(self) -> tuple[Column, ...]:
        """The columns of its content."""
        return content_columns(self.stage.schema, sources_of(self.stage))

    def all_rows(self) -> Rows | None:
        """Its content after the step, unsorted; None if there is none."""
        if self.step is not None and self.step.complete:
            return self.step.content_after(None)
        before = self.before()
        if self.step is not None:
            return self.step.content_after(None if before is None else before.all)
        if before is None:
            return None
        return before.fetched() if before.small else before.all()

    def rows_of(self, keys: Selection, spark: SparkSession) -> Rows | None:
        """Its content of some keys after the step, unsorted; None if there is none.

        Args:
            keys: in its own key columns; all that it changed are among them.
        """
        changed = self.changed
        if changed is not None and changed.complete:
            return keys.only(changed.pick(self.content, ALIVE))
        unchanged = keys if changed is None else keys.without(changed.changed_keys)
        before = None if unchanged.empty else self.before()
        old = None if before is None else unchanged.exactly(before.of(unchanged))
        if changed is None:
            return old
        new = changed.pick(self.content, {**ALIVE, KEY_DIFFERS: True})
        return new if old is None else united(old, new, spark, self.content)


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
    found = _together(stage, changed_parts(inputs, keys), keys.spark)
    return empty(input_columns(stage)) if found is None else found


def all_rows(stage: Stage, inputs: Sequence[StageInput], spark: SparkSession) -> Rows | None:
    """What the function is called with for all keys, as `changed_rows`; None if there are none."""
    return _together(stage, all_parts(inputs), spark)


def changed_parts(inputs: Sequence[StageInput], keys: Selection) -> list[tuple[StageInput, Rows]]:
    """The content of the changed keys of each input that has some, unsorted."""
    parts = (
        (each, each.rows_of(keys.renamed(each.stage.schema.key.columns), keys.spark))
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
    stage: Stage, parts: Sequence[tuple[StageInput, Rows]], spark: SparkSession
) -> Rows | None:
    """The inputs' rows as the function reads them: a key's together and in order."""
    if not parts:
        return None
    key, columns = stage.feeders[0].schema.key, input_columns(stage)
    if all(isinstance(rows, pa.Table) for _, rows in parts):
        tables = [
            _filled(in_order(rows, _placed(each.stage)), columns, _fillings(stage, each.stage))
            for each, rows in parts
        ]
        together = pa.concat_tables(tables)
        by_key = np.lexsort(
            dense_ranks(together, key)[::-1]
        )  # stable: a key's rows stay in their order
        return together.take(pa.array(by_key))
    placed = [
        Column(f"_{place}_{number}", c.data_type, descending=c.descending)
        for place, (each, _) in enumerate(parts)
        for number, c in enumerate(_placed(each.stage))
    ]
    frames = []
    for place, (each, rows) in enumerate(parts):
        own = {f"_{place}_{number}": c.name for number, c in enumerate(_placed(each.stage))}
        fillings = [*_fillings(stage, each.stage), place, *(own.get(c.name) for c in placed)]
        frame = as_frame(rows, spark, each.content)
        frames.append(_selected(frame, (*columns, _FEEDER, *placed), fillings))
    together = reduce(DataFrame.union, frames).repartition(*cols(key))  # one shuffle for all
    in_place = together.sortWithinPartitions(*order((*key, _FEEDER, *placed)))
    return in_place.select(*cols(columns))


def _placed(feeder: Stage) -> tuple[Column, ...]:
    """What a feeder's rows are sorted by."""
    return (*feeder.schema.key, *sources_of(feeder), ORDINAL_COLUMN)


def _fillings(stage: Stage, feeder: Stage) -> list[_Filling]:
    """What each of `input_columns` is filled with in the rows of one feeder."""
    values = feeder.schema.value.names
    if len(stage.inputs) == 1:
        return [*feeder.schema.key.names, *values]
    own = next(n for n, merged in enumerate(stage.inputs) if any(feeder is x for x in merged))
    found: list[_Filling] = [*feeder.schema.key.names, own]
    for number, merged in enumerate(stage.inputs):
        found += values if number == own else [None] * len(merged[0].schema.value)
    return found


def _filled(rows: pa.Table, columns: Sequence[Column], fillings: Sequence[_Filling]) -> pa.Table:
    arrays = [
        rows.column(filling)
        if isinstance(filling, str)
        else pa.repeat(pa.scalar(filling, arrow_type(column.data_type)), len(rows))
        for column, filling in zip(columns, fillings, strict=True)
    ]
    return pa.Table.from_arrays(arrays, names=[column.name for column in columns])


def _selected(
    rows: DataFrame, columns: Sequence[Column], fillings: Sequence[_Filling]
) -> DataFrame:
    found = (col(filling) if isinstance(filling, str) else f.lit(filling) for filling in fillings)
    return rows.select(
        *(
            filled.cast(column.data_type).alias(column.name)
            for column, filled in zip(columns, found, strict=True)
        )
    )
