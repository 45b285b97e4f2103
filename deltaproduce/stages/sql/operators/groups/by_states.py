"""GROUP BY by states: what is kept of each group, so that a change costs its rows alone.

Sums and counts are states that changed rows are added to (`states.measures`). A least or greatest
value is its own state: it follows from added rows, until the row that has it goes; then the group
is made again from its rows. The invariant: states of a group depend on its rows alone, bit by bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Marks, Numbers, factorize, firsts_of, order_codes
from deltaproduce.stages.sql.algebra.calls import AggregateExpression
from deltaproduce.stages.sql.algebra.relations import AggregateRelation
from deltaproduce.stages.sql.algebra.scalars import NESTED
from deltaproduce.stages.sql.operators.changes.signed import together
from deltaproduce.stages.sql.operators.computing import Computing, QueryError, normal
from deltaproduce.stages.sql.operators.groups.by_rows import counted_arguments, ends, whole
from deltaproduce.stages.sql.states.functions.counts import count
from deltaproduce.stages.sql.states.functions.plans import Planned
from deltaproduce.stages.sql.states.measures import GroupError, Measure, Rows
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import BooleanType, DataType, NullType
from deltaproduce.types.pandas_on_demand import in_numpy

STATE: Final = "_state_"
"""The names of the columns with states begin so; the first one is the number of rows."""
_ROWS: Final = Rows()
_VALUE: Final = "value"


class NegativeCountError(Exception):
    """A group has fewer than no rows, so its states are not those of its rows."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One state of a group.

    Attributes:
        call: what it is a state of; None for the number of rows.
        measure: how it adds up; None for the least or greatest value, which is its own state.
    """

    call: AggregateExpression | None
    measure: Measure | None

    @property
    def data_type(self) -> DataType:
        """The type that it is stored as."""
        if self.measure is not None:
            return self.measure.data_type
        assert self.call is not None
        assert self.call.data_type is not None
        return self.call.data_type

    @property
    def argument(self) -> tuple[str, ...]:
        """What it is a state of, as text: equal for equal values of all rows."""
        if self.call is None:
            return ()
        where = () if self.call.where is None else ("where", self.call.where.expression.text)
        return (*(one.expression.text for one in self.call.arguments), *where)


@dataclass(frozen=True, slots=True)
class States:
    """The states that an operator keeps of each group.

    Rows of states have the key fields and the columns of states.
    """

    aggregate: AggregateRelation
    computing: Computing

    @staticmethod
    def are_kept(aggregate: AggregateRelation) -> bool:
        """Return whether all functions of an operator have states."""
        return all(_has_states(call) for _, call in aggregate.calls)

    @staticmethod
    def columns(aggregate: AggregateRelation) -> tuple[Column, ...]:
        """Return the columns of the states of such an operator."""
        parts = enumerate(_parts(aggregate))
        return tuple(Column(f"{STATE}{place}", part.data_type) for place, part in parts)

    @property
    def keys(self) -> list[str]:
        """The ids of the key fields."""
        return [key.field.id for key in self.aggregate.keys]

    def keys_of(self, rows: pa.Table) -> pa.Table:
        """Return the group of each row of the input."""
        fields = self.aggregate.input.fields
        arrays = {
            key.field.id: normal(self.computing.value(key.scalar, rows, fields))
            for key in self.aggregate.keys
        }
        return pa.table(arrays) if arrays else pa.table({_VALUE: pa.nulls(len(rows), pa.bool_())})

    def of(self, rows: pa.Table, signs: Numbers) -> pa.Table:
        """Return the states of signed rows of the input, one row per group.

        Args:
            signs: 1 for an added row, -1 for a removed one, which counts for no end.
        """
        keys = self.keys_of(rows)
        groups = factorize(keys.columns)
        firsts = firsts_of(groups)
        size = len(firsts)
        arrays = dict(zip(keys.column_names, keys.take(pa.array(firsts)).columns, strict=True))
        is_added = signs > 0
        arguments = dict[object, pa.Array | None]()
        measured = dict[object, pa.Array]()
        for name, part in self._named:
            of, what = part.argument, (part.argument, part.measure)
            if of not in arguments:
                arguments[of] = self._argument(part, rows)
            values = arguments[of]
            if part.measure is None:
                assert values is not None
                values = values.filter(pa.array(is_added))
                arrays[name] = self._ends(part, values, groups[is_added], size)
                continue
            if what not in measured:  # averages have the states of sums
                measured[what] = part.measure.here(values, signs, groups, size)
            arrays[name] = measured[what]
        return self._without_nothing(pa.table(arrays))

    def ends_lost(self, known: pa.Table, gone: pa.Table) -> Marks:
        """Mark the groups of which a removed row may have had the least or greatest value.

        Args:
            known: their states.
            gone: the removed rows of the input.
        """
        lost = np.zeros(len(known), bool)
        if not len(known) or not len(gone):
            return lost
        removed = self.of(gone, np.ones(len(gone), np.int64))
        place_of = _matched(known, removed, self.keys)
        for name, part in self._named:
            if part.measure is not None or part.call is None:
                continue
            old = known.column(name)
            other = removed.column(name).take(pa.array(place_of, mask=place_of < 0))
            lost |= _reaches(old, other, part)
        return lost

    def added(self, known: pa.Table, more: pa.Table) -> pa.Table:
        """Return the sums of two states of each group."""
        both = together([known, more.select(known.column_names)])
        groups = self._groups(both)
        firsts = firsts_of(groups)
        size = len(firsts)
        if size == len(both):  # no group has two
            return both
        arrays = {name: both.column(name).take(pa.array(firsts)) for name in self.keys}
        for name, part in self._named:
            states = both.column(name).combine_chunks()
            if part.measure is not None:
                arrays[name] = part.measure.added(states, groups, size)
            else:
                arrays[name] = self._ends(part, states, groups, size)
        return pa.table(arrays)

    def alive(self, states: pa.Table) -> pa.Table:
        """Return the states of groups that have rows.

        Raises:
            NegativeCountError: one has fewer than none.
        """
        counts = in_numpy(states.column(f"{STATE}0"), np.int64)
        if bool((counts < 0).any()):
            raise NegativeCountError
        kept = states.filter(pa.array(counts > 0))
        settled = {name: kept.column(name) for name in self.keys}
        for name, part in self._named:
            one = kept.column(name).combine_chunks()
            settled[name] = one if part.measure is None else part.measure.settled(one)
        return pa.table(settled)

    def rows(self, states: pa.Table) -> pa.Table:
        """Return the operator's rows of groups, in the order of their states.

        Args:
            states: as `alive` returns them.

        Raises:
            QueryError: a value does not fit its type.
        """
        arrays = {name: states.column(name) for name in self.keys}
        place = 1
        for field, call in self.aggregate.calls:
            function = _planned(call)
            width = 1 if function is None else len(function.measures)
            parts = [states.column(f"{STATE}{place + n}").combine_chunks() for n in range(width)]
            place += width
            if function is None:
                arrays[field.id] = parts[0]
                continue
            try:
                arrays[field.id] = function.finish(parts)
            except GroupError as error:
                raise QueryError(call.text, str(error)) from error
        return pa.table(arrays)

    def row_of_nothing(self, nothing: pa.Table) -> pa.Table:
        """Return the one row of an operator without keys over no rows, with states of null."""
        row = whole(self.aggregate, nothing, self.computing)
        for column in self.columns(self.aggregate):
            null = pa.nulls(len(row), arrow_type(column.data_type))
            row = row.append_column(column.name, null)
        return row

    @property
    def _named(self) -> list[tuple[str, _Part]]:
        return [(f"{STATE}{n}", part) for n, part in enumerate(_parts(self.aggregate))]

    def _groups(self, states: pa.Table) -> Numbers:
        if not self.keys:
            return np.zeros(len(states), np.int64)
        return factorize(states.select(self.keys).columns)

    def _argument(self, part: _Part, rows: pa.Table) -> pa.Array | None:
        """Return the values that a state is of, null where a row does not count."""
        if part.call is None:
            return None
        values = counted_arguments(part.call, rows, self.aggregate.input.fields, self.computing)
        return values[0] if values else None

    def _ends(self, part: _Part, values: pa.Array, groups: Numbers, size: int) -> pa.Array:
        assert part.call is not None
        return ends(values, groups, size, is_greatest=part.call.function == "max")

    def _without_nothing(self, states: pa.Table) -> pa.Table:
        return states if self.keys else states.drop_columns([_VALUE])


def _parts(aggregate: AggregateRelation) -> Iterator[_Part]:
    yield _Part(None, _ROWS)
    for _, call in aggregate.calls:
        function = _planned(call)
        if function is None:
            yield _Part(call, None)
        else:
            yield from (_Part(call, measure) for measure in function.measures)


def _planned(call: AggregateExpression) -> Planned | None:
    """Return how a function is computed from states; None for an end."""
    if call.function == "count" and call.where is not None and not call.arguments:
        return count(0, BooleanType())  # of the rows that fulfil the condition
    return None if call.is_end else call.planned


def _has_states(call: AggregateExpression) -> bool:
    if call.is_distinct or not call.is_plain or call.is_ordered or len(call.arguments) > 1:
        return False
    if any(isinstance(one.data_type, NullType) for one in call.arguments):
        return False
    if call.is_end:
        return not isinstance(call.data_type, NESTED)
    return all(measure.subtracts for measure in call.planned.measures)


def _matched(rows: pa.Table, others: pa.Table, keys: Sequence[str]) -> Numbers:
    """Return for each row the position of the other with its keys; -1 without one."""
    if not keys:
        return np.full(len(rows), 0 if len(others) else -1)
    groups = factorize(together([rows.select(keys), others.select(keys)]).columns)
    places = np.full(int(groups.max(initial=-1)) + 1, -1)
    places[groups[len(rows) :]] = np.arange(len(others))
    return places[groups[: len(rows)]]


def _reaches(old: pa.ChunkedArray, other: pa.ChunkedArray, part: _Part) -> Marks:
    """Mark where the other value is not within the old one, which is the least or the greatest."""
    assert part.call is not None
    both = pa.table({_VALUE: together([pa.table({_VALUE: old}), pa.table({_VALUE: other})])[0]})
    (codes,) = order_codes(both, [Column(_VALUE, part.data_type)])
    mine, theirs = codes[: len(old)], codes[len(old) :]
    beyond = theirs >= mine if part.call.function == "max" else theirs <= mine
    there: Marks = in_numpy(other.is_valid(), bool) & in_numpy(old.is_valid(), bool)
    return there & beyond
