"""States of users' own aggregates, as measures.

What a step adds to a group is a difference: a state of what has come, and one of what is gone. So
an aggregate is never asked for a state with its sign turned, only to take from a group what the
group has. The invariant: what is stored of a group is one state, that of its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from typing import Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql.types import DataType, StructField, StructType

from deltaproduce.engines.local.arrays import Marks, Numbers
from deltaproduce.model.own_aggregates import OwnAggregate
from deltaproduce.stages.aggregates.functions.own.by_value import ByValue
from deltaproduce.stages.aggregates.functions.own.over_arrow import OverArrow
from deltaproduce.stages.aggregates.measures import GroupError, Measure
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.conversions import conformed


class Methods(Protocol):
    """The methods of an aggregate, for whole columns; what fails is a GroupError."""

    def zero(self) -> pa.Array:
        """The state of no rows."""

    def added(self, columns: Sequence[pa.Array], groups: Numbers, size: int) -> pa.Array:
        """The states of so many groups, of which some may have no rows.

        Args:
            columns: the arguments of each row.
            groups: of each row the number of its group.
        """

    def merged(self, states: pa.Array, groups: Numbers, size: int) -> pa.Array:
        """The states of so many groups, from some of each."""

    def subtracted(self, states: pa.Array, gone: pa.Array) -> pa.Array:
        """The states without what is gone of each."""

    def values(self, states: pa.Array) -> pa.Array:
        """What the groups' values are."""


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
        columns, come = values.flatten() if len(self.types) > 1 else [values], signs > 0
        has = self._methods.added(_chosen(columns, come), groups[come], size)
        losing, places = np.unique(groups[~come], return_inverse=True)
        if not len(losing):
            return self._stored(has)
        with _in_groups(losing):
            lost = self._methods.added(_chosen(columns, ~come), places, len(losing))
        return self._stored(has, lost, losing)

    def added(self, states: pa.Array, groups: Numbers, size: int) -> pa.Array:
        """See `Measure.added`."""
        if len(states) == size:  # there is nothing to merge
            return states.take(pa.array(np.argsort(groups)))
        has, lost, those = self._read(states)
        merged = self._methods.merged(has, groups, size)
        losing, places = np.unique(groups[those], return_inverse=True)
        if not len(losing):
            return self._stored(merged)
        with _in_groups(losing):
            gone = self._methods.merged(lost, places, len(losing))
        return self._stored(merged, gone, losing)

    def turned(self, states: pa.Array, turned: Marks) -> pa.Array:
        """See `Measure.turned`, of states as they are stored."""
        has, _, _ = self._read(states)
        losing = np.flatnonzero(turned)
        if not len(losing):
            return states
        zeros = self._methods.zero().take(pa.array(np.zeros(len(losing), np.int64)))
        return self._stored(_replaced(has, zeros, losing), has.take(pa.array(losing)), losing)

    def settled(self, states: pa.Array) -> pa.Array:
        """See `Measure.settled`."""
        has, lost, losing = self._read(states)
        if not len(losing):
            return states
        with _in_groups(losing):
            left = self._methods.subtracted(has.take(pa.array(losing)), lost)
        return self._stored(_replaced(has, left, losing))

    @property
    def _methods(self) -> Methods:
        return methods_of(self.aggregate, self.types, self.zone)

    def _read(self, states: pa.Array) -> tuple[pa.Array, pa.Array, Numbers]:
        """What has come; what is gone, where something is; and where that is."""
        has, lost = conformed(states, self.data_type).flatten()
        losing = np.flatnonzero(lost.is_valid().to_numpy(zero_copy_only=False))
        return has, lost.take(pa.array(losing)).flatten()[0], losing

    def _stored(
        self, has: pa.Array, lost: pa.Array | None = None, losing: Numbers | None = None
    ) -> pa.Array:
        """States as they are kept.

        Args:
            has: what has come of each group.
            lost: what is gone of some.
            losing: which groups these are.
        """
        of_type = arrow_type(self.data_type)
        gone = pa.nulls(len(has), of_type.field(1).type)
        if lost is not None and losing is not None:
            some = pa.StructArray.from_arrays([lost], fields=list(of_type.field(1).type))
            gone = _replaced(gone, some, losing)
        return pa.StructArray.from_arrays([has, gone], fields=list(of_type))


def methods_of(aggregate: OwnAggregate, types: Sequence[DataType], zone: tzinfo) -> Methods:
    """The methods of an aggregate, by what they take.

    Args:
        types: those of its arguments, if rows are to be added.
        zone: the clock that moments are on.
    """
    if aggregate.inputs is None:
        return ByValue.of(aggregate, types, zone)
    return OverArrow(aggregate, aggregate.inputs, zone)


def values_of(aggregate: OwnAggregate, states: pa.Array, zone: tzinfo) -> pa.Array:
    """The values of groups, from their states as they are stored."""
    of_groups = conformed(states, OwnStates(None, aggregate).data_type).flatten()[0]
    return methods_of(aggregate, (), zone).values(of_groups)


def _chosen(columns: Sequence[pa.Array], marks: Marks) -> list[pa.Array]:
    return [column.filter(pa.array(marks)) for column in columns]


def _replaced(array: pa.Array, some: pa.Array, places: Numbers) -> pa.Array:
    """An array with other items at some places."""
    taken = np.arange(len(array))
    taken[places] = len(array) + np.arange(len(places))
    return pa.concat_arrays([array, some]).take(pa.array(taken))


@contextmanager
def _in_groups(those: Numbers) -> Iterator[None]:
    """Says which of all groups an error is of, that was raised for some."""
    try:
        yield
    except GroupError as error:
        raise GroupError(str(error), int(those[error.group])) from error.__cause__
