"""States of users' own aggregates, as measures.

What a step adds to a group is a difference: a state of what has come, and one of what is gone. So
an aggregate is never asked for a state with its sign turned, only to take from a group what the
group has. The invariant: what is stored of a group is one state, that of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.types import DataType, StructField, StructType

from deltaproduce.engines.local.arrays import Marks, Numbers
from deltaproduce.model.own_aggregates import OwnAggregate
from deltaproduce.stages.aggregates.measures import GroupError, Measure
from deltaproduce.types.atoms import Misfit, arrow_type
from deltaproduce.types.columns import Column, Columns
from deltaproduce.types.excerpts import described
from deltaproduce.types.forms import Form
from deltaproduce.types.row_readers import UnreadableError, row_reader

_NOTHING: Final = object()
"""In place of a state of what is gone, where nothing is."""


@dataclass(frozen=True, slots=True)
class OwnStates(Measure):
    """What an aggregate of a user's own keeps of a group.

    Attributes:
        argument: None; the stage's arguments that it is of are `arguments`.
        aggregate: the user's.
        places: which of the stage's arguments it is of.
        types: theirs.
        which: tells objects apart that hold different things, but look the same to fingerprints.
        zone: the clock that moments are on.
    """

    aggregate: OwnAggregate
    places: tuple[int, ...] = ()
    types: tuple[DataType, ...] = ()
    which: int = 0
    zone: tzinfo = UTC

    @property
    def data_type(self) -> DataType:
        """See `Measure.data_type`: what has come, and what is gone of it, null where nothing is."""
        gone = StructType([StructField("state", self.aggregate.state.data_type)])
        return StructType(
            [StructField("has", self.aggregate.state.data_type), StructField("lost", gone)]
        )

    @property
    def subtracts(self) -> bool:
        """See `Measure.subtracts`."""
        return self.aggregate.subtracts

    @property
    def arguments(self) -> tuple[int, ...]:
        """See `Measure.arguments`."""
        return self.places

    @property
    def of_none(self) -> Measure:
        """See `Measure.of_none`."""
        return replace(self, places=(), types=(), which=0)

    def on_clock(self, zone: tzinfo) -> Measure:
        """See `Measure.on_clock`."""
        return replace(self, zone=zone)

    def here(self, values: pa.Array | None, signs: Numbers, groups: Numbers, size: int) -> pa.Array:
        """See `Measure.here`."""
        assert values is not None
        rows = self._rows(values, groups)
        calls, come = _Calls.of(self.aggregate, self.zone), signs > 0
        has = calls.added(_chosen(rows, come), groups[come], [_NOTHING] * size)
        lost = calls.added(_chosen(rows, ~come), groups[~come], [_NOTHING] * size)
        for group in range(size):
            if has[group] is _NOTHING:
                has[group] = calls.zero(group)
        return self._written(calls, has, lost)

    def added(self, states: pa.Array, groups: Numbers, size: int) -> pa.Array:
        """See `Measure.added`."""
        if len(states) == size:  # there is nothing to merge
            return states.take(pa.array(np.argsort(groups)))
        calls = _Calls.of(self.aggregate, self.zone)
        parts = (calls.merged(part, groups, size) for part in self._read(calls, states))
        return self._written(calls, *parts)

    def turned(self, states: pa.Array, turned: Marks) -> pa.Array:
        """See `Measure.turned`, of states as they are stored."""
        calls = _Calls.of(self.aggregate, self.zone)
        has, lost = self._read(calls, states)
        for place in np.flatnonzero(turned).tolist():
            has[place], lost[place] = calls.zero(0), has[place]  # what fails does in all groups
        return self._written(calls, has, lost)

    def settled(self, states: pa.Array) -> pa.Array:
        """See `Measure.settled`."""
        if states.flatten()[1].null_count == len(states):
            return states
        calls = _Calls.of(self.aggregate, self.zone)
        has, lost = self._read(calls, states)
        for group, gone in enumerate(lost):
            if gone is not _NOTHING:
                has[group] = calls.subtracted(has[group], gone, group)
        return self._written(calls, has, [_NOTHING] * len(has))

    def _rows(self, values: pa.Array, groups: Numbers) -> list[tuple[Any, ...]]:
        """The arguments of each row."""
        several = len(self.types) > 1
        arrays = values.flatten() if several else [values]
        columns = Columns(tuple(Column(f"x{n}", one) for n, one in enumerate(self.types)))
        read = row_reader(columns, self.zone)
        try:
            return list(read(arrays)) if several else [(value,) for value in read(arrays)]
        except UnreadableError:
            for row, group in enumerate(groups.tolist()):
                try:
                    read([array.slice(row, 1) for array in arrays])
                except UnreadableError as error:
                    raise GroupError(f"cannot be made: {error}", group) from None
            raise

    def _read(self, calls: _Calls, states: pa.Array) -> tuple[list[Any], list[Any]]:
        has, lost = states.flatten()
        there = iter(calls.form.read(lost.drop_null().flatten()[0]))
        marks = lost.is_valid().to_pylist()
        return calls.form.read(has), [next(there) if mark else _NOTHING for mark in marks]

    def _written(self, calls: _Calls, has: list[Any], lost: list[Any]) -> pa.Array:
        there = [place for place, state in enumerate(lost) if state is not _NOTHING]
        of_type = arrow_type(self.data_type)
        gone = _written(calls.form, [lost[place] for place in there], there)
        places = np.full(len(lost), len(there))
        places[there] = np.arange(len(there))
        inner = of_type.field(1).type
        some = pa.StructArray.from_arrays([gone], fields=[inner.field(0)])
        padded = pa.concat_arrays([some, pa.nulls(1, inner)]).take(pa.array(places))
        return pa.StructArray.from_arrays(
            [_written(calls.form, has, range(len(has))), padded], fields=list(of_type)
        )


def values_of(aggregate: OwnAggregate, states: pa.Array, zone: tzinfo) -> pa.Array:
    """The values of groups, from their states as they are stored."""
    calls = _Calls.of(aggregate, zone)
    of_groups = calls.form.read(states.flatten()[0])
    found = [calls.result(state, group) for group, state in enumerate(of_groups)]
    return _written(Form.of(aggregate.value, zone), found, range(len(found)))


def _written(form: Form, values: Sequence[Any], groups: Sequence[int]) -> pa.Array:
    """Values of groups as they are stored.

    Raises:
        GroupError: one is not of the type.
    """
    try:
        return form.written(values)
    except Misfit as misfit:
        for group, value in zip(groups, values, strict=True):
            try:
                form.written([value])
            except Misfit as found:
                raise GroupError(f"does not fit: {found}", group) from found.__cause__
        raise GroupError(f"does not fit: {misfit}", groups[0]) from misfit.__cause__


@dataclass(frozen=True, slots=True)
class _Calls:
    """The methods of an aggregate, called for groups.

    Attributes:
        form: that of states.
    """

    aggregate: OwnAggregate
    form: Form

    @staticmethod
    def of(aggregate: OwnAggregate, zone: tzinfo) -> _Calls:
        return _Calls(aggregate, Form.of(aggregate.state, zone))

    def zero(self, group: int) -> Any:  # noqa: ANN401 as the user's
        """A state of its own, also where the user's method gives the same object each time."""
        return deepcopy(self._state("zero", group))

    def added(
        self, rows: Iterable[tuple[Any, ...]], groups: Numbers, states: list[Any]
    ) -> list[Any]:
        """States to which rows are added; those of no rows begin with zero."""
        for row, group in zip(rows, groups.tolist(), strict=True):
            before = states[group]
            state = self.zero(group) if before is _NOTHING else before
            states[group] = self._state("add", group, state, *row)
        return states

    def merged(self, states: Iterable[Any], groups: Numbers, size: int) -> list[Any]:
        """The states of each group, merged."""
        found: list[Any] = [_NOTHING] * size
        for state, group in zip(states, groups.tolist(), strict=True):
            before = found[group]
            if before is _NOTHING:
                found[group] = state
            elif state is not _NOTHING:
                found[group] = self._state("merge", group, before, state)
        return found

    def subtracted(self, state: Any, gone: Any, group: int) -> Any:  # noqa: ANN401 as the user's
        return self._state("subtract", group, state, gone)

    def result(self, state: Any, group: int) -> Any:  # noqa: ANN401 as the user's
        return self._called("result", group, state)

    def _state(self, method: str, group: int, *given: Any) -> Any:  # noqa: ANN401 as the user's
        found = self._called(method, group, *given)
        try:
            return self.form.seen(found)
        except Misfit as misfit:
            raise GroupError(f"failed in {method}: {misfit}", group) from misfit.__cause__

    def _called(self, method: str, group: int, *given: Any) -> Any:  # noqa: ANN401 as the user's
        function: Callable[..., Any] = getattr(self.aggregate.methods, method)
        try:
            return function(*given)
        except (Exception, SystemExit) as error:
            raise GroupError(f"failed in {method}: {described(error)}", group) from error


def _chosen(rows: Sequence[tuple[Any, ...]], marks: Marks) -> Iterable[tuple[Any, ...]]:
    return (row for row, mark in zip(rows, marks.tolist(), strict=True) if mark)
