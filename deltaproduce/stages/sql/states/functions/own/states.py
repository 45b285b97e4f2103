"""States of user-defined aggregates, as measures.

A step adds a difference to a group: one state of added rows, and one of removed rows. So an
aggregate never has to flip the sign of a state, but only to subtract rows from a group that has
them. The invariant: a group is stored as one state, that of its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from typing import Protocol

import numpy as np
import pyarrow as pa
from typing_extensions import override

from deltaproduce.engines.local.arrays import Marks, Numbers
from deltaproduce.stages.sql.states.functions.own.by_value import ByValue
from deltaproduce.stages.sql.states.functions.own.over_arrow import OverArrow
from deltaproduce.stages.sql.states.measures import GroupError, Measure
from deltaproduce.stages.sql.states.own_aggregates import OwnAggregate
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.conversions import conformed
from deltaproduce.types.data_types import DataType, StructField, StructType
from deltaproduce.types.pandas_on_demand import in_numpy


class Methods(Protocol):
    """The methods of an aggregate, over whole columns; a failure is a GroupError."""

    def zero(self) -> pa.Array:
        """Return the state of no rows."""

    def added(self, columns: Sequence[pa.Array], groups: Numbers, size: int) -> pa.Array:
        """Return the states of ``size`` groups; groups may have no rows.

        Args:
            columns: the arguments of each row.
            groups: the group number of each row.
        """

    def merged(self, states: pa.Array, groups: Numbers, size: int) -> pa.Array:
        """Return the states of ``size`` groups, each merged from at least one state."""

    def subtracted(self, states: pa.Array, gone: pa.Array) -> pa.Array:
        """Return the states, minus the removed rows of each."""

    def values(self, states: pa.Array) -> pa.Array:
        """Return the groups' values."""


@dataclass(frozen=True, slots=True)
class OwnStates(Measure):
    """The state that a user-defined aggregate keeps of a group.

    Attributes:
        argument: None; `arguments` are its arguments among the stage's.
        aggregate: the user's aggregate.
        places: the positions of its arguments among the stage's.
        types: their types.
        which: distinguishes objects with different content that have equal fingerprints.
        zone: the clock of timestamps.
    """

    aggregate: OwnAggregate
    places: tuple[int, ...] = ()
    types: tuple[DataType, ...] = ()
    which: int = 0
    zone: tzinfo = UTC

    @property
    @override
    def data_type(self) -> DataType:
        """The added rows' state and the removed rows', null if none."""
        gone = StructType([StructField("state", self.aggregate.state.data_type)])
        return StructType(
            [StructField("has", self.aggregate.state.data_type), StructField("lost", gone)]
        )

    @property
    @override
    def subtracts(self) -> bool:
        return self.aggregate.subtracts

    @property
    @override
    def arguments(self) -> tuple[int, ...]:
        return self.places

    @property
    @override
    def of_none(self) -> Measure:
        return replace(self, places=(), types=(), which=0)

    @override
    def on_clock(self, zone: tzinfo) -> Measure:
        return replace(self, zone=zone)

    @override
    def here(self, values: pa.Array | None, signs: Numbers, groups: Numbers, size: int) -> pa.Array:
        assert values is not None
        columns, is_added = values.flatten() if len(self.types) > 1 else [values], signs > 0
        has = self._methods.added(_chosen(columns, is_added), groups[is_added], size)
        losing, places = np.unique(groups[~is_added], return_inverse=True)
        if not len(losing):
            return self._stored(has)
        with _in_groups(losing):
            lost = self._methods.added(_chosen(columns, ~is_added), places, len(losing))
        return self._stored(has, lost, losing)

    @override
    def added(self, states: pa.Array, groups: Numbers, size: int) -> pa.Array:
        if len(states) == size:  # nothing to merge
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
        """See `Measure.turned`, for states as they are stored."""
        has, _, _ = self._read(states)
        losing = np.flatnonzero(turned)
        if not len(losing):
            return states
        zeros = self._methods.zero().take(pa.array(np.zeros(len(losing), np.int64)))
        return self._stored(_replaced(has, zeros, losing), has.take(pa.array(losing)), losing)

    @override
    def settled(self, states: pa.Array) -> pa.Array:
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
        """Return the added state, the removed state where there is one, and where that is."""
        has, lost = conformed(states, self.data_type).flatten()
        losing = np.flatnonzero(in_numpy(lost.is_valid()))
        return has, lost.take(pa.array(losing)).flatten()[0], losing

    def _stored(
        self, has: pa.Array, lost: pa.Array | None = None, losing: Numbers | None = None
    ) -> pa.Array:
        """Return states as they are stored.

        Args:
            has: the added state of each group.
            lost: the removed state of the losing groups.
            losing: which groups these are.
        """
        of_type = arrow_type(self.data_type)
        gone = pa.nulls(len(has), of_type.field(1).type)
        if lost is not None and losing is not None:
            items = pa.StructArray.from_arrays([lost], fields=list(of_type.field(1).type))
            gone = _replaced(gone, items, losing)
        return pa.StructArray.from_arrays([has, gone], fields=list(of_type))


def methods_of(aggregate: OwnAggregate, types: Sequence[DataType], zone: tzinfo) -> Methods:
    """Return the methods of an aggregate, by the form of its arguments.

    Args:
        types: the types of its arguments, if rows are to be added.
        zone: the clock of timestamps.
    """
    if aggregate.inputs is None:
        return ByValue.of(aggregate, types, zone)
    return OverArrow(aggregate, aggregate.inputs, zone)


def values_of(aggregate: OwnAggregate, states: pa.Array, zone: tzinfo) -> pa.Array:
    """Return the values of groups, from their stored states."""
    of_groups = conformed(states, OwnStates(None, aggregate).data_type).flatten()[0]
    return methods_of(aggregate, (), zone).values(of_groups)


def _chosen(columns: Sequence[pa.Array], marks: Marks) -> list[pa.Array]:
    return [column.filter(pa.array(marks)) for column in columns]


def _replaced(array: pa.Array, items: pa.Array, places: Numbers) -> pa.Array:
    """Replace the items of an array at the given places."""
    taken = np.arange(len(array))
    taken[places] = len(array) + np.arange(len(places))
    return pa.concat_arrays([array, items]).take(pa.array(taken))


@contextmanager
def _in_groups(those: Numbers) -> Iterator[None]:
    """Translate the group of an error, raised for a subset, to its number among all groups."""
    try:
        yield
    except GroupError as error:
        raise GroupError(str(error), int(those[error.group])) from error.__cause__
