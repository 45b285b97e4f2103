"""States of keys: what events say of a key, one state for each point of the sequence.

Pure, over Arrow tables, for all keys at once. Events that are equal in the sequence are one state:
the greatest of them by all columns, from left to right, nulls first. The invariant: the states of a
key depend on the multiset of its events alone, and never on the order in which they came.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import (
    Marks,
    Numbers,
    codes,
    grouped,
    numbered,
    order_codes,
    places,
    sorting,
    taken,
)
from deltaproduce.engines.local.kernels.row_hashes import row_hashes
from deltaproduce.stages.sql.operators.windows.partitions import in_order, signs_of_zeros
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import ArrayType, DataType, MapType, StructType
from deltaproduce.types.pandas_on_demand import in_numpy


@dataclass(frozen=True, slots=True)
class KeyStates:
    """The states of some keys, in order: a key's are adjacent, and ascend by the sequence.

    Attributes:
        rows: the event that each state shows.
        keys: the number of each state's key, ascending.
        deleted: which states are deletes.
        ties: how many events are not shown because another one is equal in the sequence.
    """

    rows: pa.Table
    keys: Numbers
    deleted: Marks
    ties: int

    @staticmethod
    def of(
        events: pa.Table,
        key: Sequence[str],
        sequence: Sequence[Column],
        every: Sequence[Column],
        deleted: str | None,
    ) -> KeyStates:
        """Return the states of all keys of some events.

        Args:
            events: all events of these keys.
            key: the names of the key columns.
            sequence: the columns of the sequence, which have no nulls.
            every: all columns of an event.
            deleted: the column that says which are deletes; null is none.
        """
        numbers = [
            *(codes(events.column(name)) for name in key),
            *order_codes(events, sequence),
        ]
        order = sorting(numbers)
        ordered = [one[order] for one in numbers]
        states = grouped(ordered)
        ends = _ends(states)
        shown = order[ends]
        if len(ends) < len(order):
            shown = _greatest(events, order, states, every)
        rows = taken(events, shown)
        is_deleted = np.zeros(len(rows), bool)
        if deleted is not None:
            is_deleted = in_numpy(rows.column(deleted).fill_null(False), bool)
        keys = grouped([one[ends] for one in ordered[: len(key)]])
        return KeyStates(rows, keys, is_deleted, len(order) - len(ends))

    def latest(self) -> Numbers:
        """Return the place of the last state of each key that is not deleted."""
        ends = _ends(self.keys)
        return ends[~self.deleted[ends]]

    def spans(self, tracked: Sequence[str]) -> Spans:
        """Join the adjacent states of a key that are equal in some columns.

        Args:
            tracked: the names of these columns.
        """
        values = (
            numbered([codes(self.rows.column(name)) for name in tracked])
            if tracked
            else np.zeros(len(self.rows), np.int64)
        )
        alive = ~self.deleted
        follows = np.zeros(len(self.rows), bool)
        follows[1:] = (
            (self.keys[1:] == self.keys[:-1]) & (values[1:] == values[:-1]) & alive[1:] & alive[:-1]
        )
        begins = np.flatnonzero(alive & ~follows)
        lasts = np.flatnonzero(alive & ~np.append(follows[1:], False)[: len(follows)])
        nexts = np.minimum(lasts + 1, len(self.rows) - 1)
        has_next = (nexts > lasts) & (self.keys[nexts] == self.keys[lasts])
        return Spans(begins, lasts, np.where(has_next, nexts, -1), places([self.keys[begins]]))


@dataclass(frozen=True, slots=True)
class Spans:
    """Runs of joined states of a key, none of which is a delete.

    Attributes:
        begins: the place of the first state of each.
        lasts: the place of its last one.
        nexts: the place of the state that ends it; -1 if none does.
        numbers: its number within its key, from 0.
    """

    begins: Numbers
    lasts: Numbers
    nexts: Numbers
    numbers: Numbers


def _greatest(
    events: pa.Table, order: Numbers, states: Numbers, every: Sequence[Column]
) -> Numbers:
    """Return the event that each state shows, if some have several.

    Args:
        order: the events in order.
        states: the number of the state of each, in order.
        every: all columns of an event.
    """
    shown = order[_ends(states)]
    several = np.flatnonzero((np.bincount(states) > 1)[states])
    equal = events.select([column.name for column in every]).take(pa.array(order[several]))
    within = sorting([states[several], *_by_all(equal, every)])
    state = states[several][within]
    last = _ends(state)
    shown[state[last]] = order[several][within][last]
    return shown


def _by_all(events: pa.Table, every: Sequence[Column]) -> Iterator[Numbers]:
    """Yield what orders events by all columns, and then by what tells equal values apart."""
    for column in every:
        if _has_map(column.data_type):  # maps have no order, but the same one everywhere will do
            yield row_hashes(events.select([column.name])).view(np.int64)
        else:
            yield in_order(events.column(column.name).combine_chunks(), column.data_type)
    for column in every:
        array = events.column(column.name).combine_chunks()
        if pa.types.is_floating(array.type):
            yield signs_of_zeros(array)


def _has_map(kind: DataType) -> bool:
    match kind:
        case MapType():
            return True
        case ArrayType():
            return _has_map(kind.elementType)
        case StructType():
            return any(_has_map(field.dataType) for field in kind)
    return False


def _ends(in_order_: Numbers) -> Numbers:
    """Return the place of the last of each run of equal numbers."""
    return np.flatnonzero(np.append(in_order_[1:] != in_order_[:-1], True)[: len(in_order_)])
