"""Methods of aggregates that take one row or state at a time, as Python values.

The invariant: a method gets values as storing and reading returns them, so it cannot tell a stored
state from one that it has just made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any, Final

import pyarrow as pa

from deltaproduce.engines.local.arrays import Numbers
from deltaproduce.stages.sql.states.measures import GroupError
from deltaproduce.stages.sql.states.own_aggregates import OwnAggregate
from deltaproduce.types.atoms import Misfit
from deltaproduce.types.columns import Column, Columns
from deltaproduce.types.data_types import DataType
from deltaproduce.types.excerpts import described
from deltaproduce.types.forms import Form
from deltaproduce.types.row_readers import UnreadableError, row_reader

_NOTHING: Final = object()
"""Stands for the state of a group that has no row yet."""


@dataclass(frozen=True, slots=True)
class ByValue:
    """See `states.Methods`.

    Attributes:
        types: the types of the arguments.
        zone: the clock of timestamps.
        form: the form of states.
    """

    aggregate: OwnAggregate
    types: Sequence[DataType]
    zone: tzinfo
    form: Form

    @staticmethod
    def of(aggregate: OwnAggregate, types: Sequence[DataType], zone: tzinfo) -> ByValue:
        """Return the methods of an aggregate."""
        return ByValue(aggregate, types, zone, Form.of(aggregate.state, zone))

    def zero(self) -> pa.Array:
        """See `Methods.zero`."""
        return self._written([self._zero(0)])

    def added(self, columns: Sequence[pa.Array], groups: Numbers, size: int) -> pa.Array:
        """See `Methods.added`."""
        states: list[Any] = [_NOTHING] * size
        for row, group in zip(self._rows(columns, groups), groups.tolist(), strict=True):
            before = states[group]
            state = self._zero(group) if before is _NOTHING else before
            states[group] = self._state("add", group, state, *row)
        return self._written(
            [self._zero(n) if state is _NOTHING else state for n, state in enumerate(states)]
        )

    def merged(self, states: pa.Array, groups: Numbers, size: int) -> pa.Array:
        """See `Methods.merged`."""
        merged_states: list[Any] = [_NOTHING] * size
        for state, group in zip(self.form.read(states), groups.tolist(), strict=True):
            before = merged_states[group]
            merged = before is not _NOTHING
            merged_states[group] = self._state("merge", group, before, state) if merged else state
        return self._written(merged_states)

    def subtracted(self, states: pa.Array, gone: pa.Array) -> pa.Array:
        """See `Methods.subtracted`."""
        pairs = zip(self.form.read(states), self.form.read(gone), strict=True)
        return self._written(
            [self._state("subtract", group, *pair) for group, pair in enumerate(pairs)]
        )

    def values(self, states: pa.Array) -> pa.Array:
        """See `Methods.values`."""
        read = enumerate(self.form.read(states))
        values = [self._called("result", group, state) for group, state in read]
        return _written(Form.of(self.aggregate.value, self.zone), values)

    def _rows(self, columns: Sequence[pa.Array], groups: Numbers) -> list[tuple[Any, ...]]:
        """Return the arguments of each row."""
        several = len(columns) > 1
        named = Columns(tuple(Column(f"argument {n + 1}", one) for n, one in enumerate(self.types)))
        read = row_reader(named, self.zone)
        try:
            return list(read(columns)) if several else [(value,) for value in read(columns)]
        except UnreadableError:
            for row, group in enumerate(groups.tolist()):
                try:
                    read([array.slice(row, 1) for array in columns])
                except UnreadableError as error:
                    raise GroupError(f"cannot be made: {error}", group) from None
            raise

    def _zero(self, group: int) -> Any:  # noqa: ANN401 as the user's
        """Return a fresh state, even if the user's method returns the same object each time."""
        return deepcopy(self._state("zero", group))

    def _state(self, method: str, group: int, *given: Any) -> Any:  # noqa: ANN401 as the user's
        state = self._called(method, group, *given)
        try:
            return self.form.seen(state)
        except Misfit as misfit:
            raise GroupError(f"failed in {method}: {misfit}", group) from misfit.__cause__

    def _called(self, method: str, group: int, *given: Any) -> Any:  # noqa: ANN401 as the user's
        function: Callable[..., Any] = getattr(self.aggregate.methods, method)
        try:
            return function(*given)
        except (Exception, SystemExit) as error:
            raise GroupError(f"failed in {method}: {described(error)}", group) from error

    def _written(self, states: Sequence[Any]) -> pa.Array:
        return _written(self.form, states)


def _written(form: Form, values: Sequence[Any]) -> pa.Array:
    """Write the values of groups as they are stored.

    Raises:
        GroupError: a value is not of the type.
    """
    try:
        return form.written(values)
    except Misfit as misfit:
        for group, value in enumerate(values):
            try:
                form.written([value])
            except Misfit as error:
                raise GroupError(f"does not fit: {error}", group) from error.__cause__
        raise GroupError(f"does not fit: {misfit}", 0) from misfit.__cause__
