"""Answers: the values of ordered functions in a step, for the keys whose rows it makes.

A stage's own rows hold the previous answers, and the steps of its multisets tell which groups have
changed; only these are looked up. The invariant: afterwards each row holds its function's value for
the multiset after the step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import Numbers, factorize
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.columns import cols
from deltaproduce.engines.spark.sessions.on_demand import is_frame
from deltaproduce.model.layouts import Layout
from deltaproduce.stages.aggregates.grouping import Grouping
from deltaproduce.stages.aggregates.ordered import in_spark
from deltaproduce.stages.aggregates.ordered.lookups import MOVED, MultisetLookup
from deltaproduce.stages.inputs import StageInput, hidden_input
from deltaproduce.stages.sql.states.functions.multisets import answers, nothing
from deltaproduce.stages.sql.states.functions.ordered import Ordered, Reach, role_of
from deltaproduce.types.columns import Column
from deltaproduce.types.pandas_on_demand import in_numpy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_Functions: TypeAlias = Mapping[str, Ordered]
"""Value columns, with their functions."""


@dataclass(frozen=True, slots=True)
class RowsBefore:
    """The rows that a stage had before a step.

    Attributes:
        keys: the keys of the step.
        rows: their previous content.
    """

    keys: Selection
    rows: Rows


@dataclass(frozen=True, slots=True)
class Answers:
    """The ordered functions of a stage in one step.

    Attributes:
        inputs: the stage's inputs, with the multisets that answer them.
    """

    inputs: Sequence[StageInput]
    grouping: Grouping
    layout: Layout
    engines: Engines

    def here(self, rows: pa.Table, known: RowsBefore | None) -> pa.Table:
        """Add answers to rows of the stage on the driver.

        Args:
            known: the stage's previous rows of these keys; if None, these are all of its keys, and
                previous rows do not count.
        """
        keys = rows.select([c.name for c in self.layout.key])
        for lookup, functions in self._shares():
            if known is None:
                answers = self._all_answers(lookup, functions, keys)
            else:
                answers = self._changed(lookup, functions, keys, known)
            for name, column in answers:
                rows = rows.set_column(rows.schema.get_field_index(name), name, column)
        return rows

    def in_spark(self, rows: DataFrame, known: RowsBefore | None) -> DataFrame:
        """Return the same for rows in Spark, lazily."""
        for lookup, functions in self._shares():
            for reach, group in _demands(functions).items():
                if known is None or reach != "changes":
                    keys = None if known is None else known.keys
                    answered = self._answered(lookup, keys, reach, group)
                    frame = self.engines.frame(answered, self._columns(group))
                    rows = in_spark.with_answers(rows, frame, self.layout.key, group)
                else:
                    before = self.engines.frame(known.rows, self.layout.content)
                    moved = self.engines.frame(lookup.moved(), (*lookup.group, MOVED))
                    for name in group:
                        rows = in_spark.with_count(rows, before, moved, self.layout.key, name)
        answered = any(each.role for each in self.inputs)
        return rows.select(*cols(self.layout.content)) if answered else rows

    def _all_answers(
        self, lookup: MultisetLookup, functions: _Functions, keys: pa.Table
    ) -> Iterator[tuple[str, pa.Array]]:
        """Compute the answers for all keys, from all rows."""
        for reach, group in _demands(functions).items():
            answered = self._answered_here(lookup, None, reach, group)
            places = _places(keys, answered)
            for name, function in group.items():
                yield name, _chosen([answered.column(name)], [places], function)

    def _changed(
        self, lookup: MultisetLookup, functions: _Functions, keys: pa.Table, known: RowsBefore
    ) -> Iterator[tuple[str, pa.Array]]:
        """Return the answers for keys: the previous ones, except for groups that have changed."""
        before = self.engines.table(known.rows, self.layout.content)
        moved = self.engines.table(lookup.moved(), (*lookup.group, MOVED))
        old, change = _places(keys, before), _places(keys, moved)
        changed = keys.filter(pa.array(change >= 0))
        sought = Selection(self.layout.key, changed, self.engines)
        demands = _demands(functions)
        if lookup.are_held(sought):
            demands = _at_once(demands)
        for reach, group in demands.items():
            if reach == "changes":
                for name in group:
                    numbers = _numbers(before.column(name), old)
                    yield name, pa.array(numbers + _numbers(moved.column(MOVED.name), change))
                continue
            answered = self._answered_here(lookup, sought, reach, group)
            places = np.where(change >= 0, _places(keys, answered), -1)
            kept = np.where(change >= 0, -1, old)
            for name, function in group.items():
                columns = [before.column(name), answered.column(name)]
                yield name, _chosen(columns, [kept, places], function)

    def _answered(
        self, lookup: MultisetLookup, groups: Selection | None, reach: Reach, functions: _Functions
    ) -> Rows:
        """Return the groups that have values, out of the given ones or all, with their answers.

        The rows have `_columns`: those of the multiset may be named as one of the functions.

        Args:
            reach: the part of a group that all of these functions read.
        """
        count = max(function.count for function in functions.values())
        rows = (
            lookup.rows(groups) if reach in ("all", "changes") else lookup.end(groups, reach, count)
        )
        columns = self._columns(functions)
        if is_frame(rows):
            return in_spark.answered(rows, lookup, functions, columns)
        names = [column.name for column in columns]

        def of_groups(part: pa.Table) -> pa.Table:
            answered = answers(part, lookup.group, lookup.values, lookup.counted.name, functions)
            return answered.rename_columns(names)

        return self.engines.by_ranges([rows], lookup.group, of_groups)

    def _answered_here(
        self, lookup: MultisetLookup, groups: Selection | None, reach: Reach, functions: _Functions
    ) -> pa.Table:
        answered = self._answered(lookup, groups, reach, functions)
        return self.engines.table(answered, self._columns(functions))

    def _columns(self, functions: _Functions) -> tuple[Column, ...]:
        """Return the stage's key, and a column for each function."""
        results = (Column(name, function.data_type) for name, function in functions.items())
        return (*self.layout.key, *results)

    def _shares(self) -> Iterator[tuple[MultisetLookup, dict[str, Ordered]]]:
        """Yield each multiset, and the value columns that it answers."""
        shares = dict[tuple[str, ...], dict[str, Ordered]]()
        for result in self.grouping.answers:
            function = result.function.ordered
            if function is not None:
                shares.setdefault(function.arguments, {})[result.name] = function
        width = len(self.layout.key)
        for arguments, functions in shares.items():
            given = hidden_input(self.inputs, role_of(arguments))
            yield MultisetLookup(given, width, self.engines), functions


def _demands(functions: _Functions) -> dict[Reach, dict[str, Ordered]]:
    """Group functions by what they read; from one end, the longest reach serves all."""
    demands = dict[Reach, dict[str, Ordered]]()
    for name, function in functions.items():
        demands.setdefault(function.reach, {})[name] = function
    return demands


def _at_once(demands: Mapping[Reach, _Functions]) -> dict[Reach, dict[str, Ordered]]:
    """Let functions that read a part of a group read all of it, together."""
    merged_demands = dict[Reach, dict[str, Ordered]]()
    for reach, functions in demands.items():
        merged_demands.setdefault("changes" if reach == "changes" else "all", {}).update(functions)
    return merged_demands


def _places(keys: pa.Table, table: pa.Table) -> Numbers:
    """Return each key's position in a table whose first columns hold distinct keys; else -1."""
    known = table.select(range(keys.num_columns)).rename_columns(keys.column_names)
    numbers = factorize(pa.concat_tables([known, keys]).columns)
    places = np.full(int(numbers.max(initial=-1)) + 1, -1, np.int64)
    places[numbers[: len(known)]] = np.arange(len(known))
    return places[numbers[len(known) :]]


def _chosen(
    columns: Sequence[pa.ChunkedArray], places: Sequence[Numbers], function: Ordered
) -> pa.Array:
    """Return each row's value at its place in the column that has one; else `nothing`."""
    default = nothing(function)
    pool = pa.chunked_array(
        [chunk for column in columns for chunk in column.chunks] + [default], default.type
    ).combine_chunks()
    rows, start = np.full(len(places[0]), len(pool) - 1, np.int64), 0
    for column, place in zip(columns, places, strict=True):
        rows = np.where(place >= 0, start + place, rows)
        start += len(column)
    return pool.take(pa.array(rows))


def _numbers(column: pa.ChunkedArray, places: Numbers) -> Numbers:
    """Return each row's number at its place in a column; 0 if it has none."""
    known = np.append(in_numpy(column, np.int64), 0)
    return known[places]
