"""The most frequent values of a group, by mergeable counters.

A state holds up to ``tracked`` values with their counts, in the order of the values; if a group has
no more distinct values, all of them. Otherwise the count of the most frequent value without a place
is subtracted from all counts, and a value whose count reaches zero loses its place. So a count is
too low by at most a share of ``1 / (tracked + 1)`` of all values, whatever the order of merges.

Source of the algorithm and of its error: Misra and Gries, "Finding repeated elements", 1982; of
merging: Agarwal et al., "Mergeable summaries", 2012.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from deltaproduce.engines.local.arrays import Marks, Numbers, order_codes, places, sorted_by
from deltaproduce.stages.sql.states.functions.encodings import decoded, encoded, encoded_type
from deltaproduce.stages.sql.states.functions.plans import Plan, Planned
from deltaproduce.stages.sql.states.measures import Measure
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.catalogue import atom
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import ArrayType, DataType, LongType, StructField, StructType
from deltaproduce.types.pandas_on_demand import in_numpy

TRACKED: Final = 10_000
"""The number of values with a count; Spark's default."""
_GROUP, _ITEM, _COUNT = "group", "item", "count"


@dataclass(frozen=True, slots=True)
class Frequent(Measure):
    """Counts of the most frequent values, without null.

    Attributes:
        of: the type of the values.
        tracked: the most values with a count.
    """

    of: DataType
    tracked: int = TRACKED

    @property
    @override
    def data_type(self) -> DataType:
        return _counts_of(encoded_type(self.of))

    @property
    @override
    def subtracts(self) -> bool:
        return False

    @override
    def here(self, values: pa.Array | None, signs: Numbers, groups: Numbers, size: int) -> pa.Array:
        """Rows are only added."""
        assert values is not None
        del signs
        there = values.is_valid()
        items = encoded(values.filter(there), self.of)
        ones = np.ones(len(items), np.int64)
        return self._states(_counted(groups[in_numpy(there)], items, ones), size)

    @override
    def added(self, states: pa.Array, groups: Numbers, size: int) -> pa.Array:
        rows = _rows(states)
        of_rows = groups[in_numpy(rows.column(_GROUP))]
        return self._states(_counted(of_rows, rows.column(_ITEM), rows.column(_COUNT)), size)

    @override
    def turned(self, states: pa.Array, turned: Marks) -> pa.Array:
        """No sign is ever flipped."""
        assert not turned.any()
        return states

    def _states(self, counted: pa.Table, size: int) -> pa.Array:
        """Return the states of groups.

        Args:
            counted: group, item and count, in any order.
        """
        rows = counted.group_by([_GROUP, _ITEM], use_threads=False).aggregate([(_COUNT, "sum")])
        rows = rows.rename_columns([_GROUP, _ITEM, _COUNT])
        stored = Column(_ITEM, encoded_type(self.of))
        rows = sorted_by(rows, order_codes(rows, (Column(_GROUP, LongType()), stored)))
        counts = _lowered(rows, size, self.tracked)
        kept = pa.array(counts > 0)
        rows = rows.set_column(2, _COUNT, pa.array(counts)).filter(kept)
        return _lists(rows, rows.column(_ITEM).combine_chunks(), size, self.data_type)


def approx_top_k(k: int) -> Plan:
    """Plan an estimate of the ``k`` most frequent values with counts, most frequent first."""

    def plan(argument: int, data_type: DataType) -> Planned | None:
        if atom(data_type) is None:
            return None
        stored, result = encoded_type(data_type), _counts_of(data_type)

        def finish(states: Sequence[pa.Array]) -> pa.Array:
            rows = _rows(states[0])
            by_count = Column(_COUNT, LongType(), descending=True)
            order = (Column(_GROUP, LongType()), by_count, Column(_ITEM, stored))
            rows = sorted_by(rows, order_codes(rows, order))
            first = places([in_numpy(rows.column(_GROUP))]) < k
            rows = rows.filter(pa.array(first))
            items = decoded(rows.column(_ITEM).combine_chunks(), data_type)
            return _lists(rows, items, len(states[0]), result)

        return Planned(result, (Frequent(argument, data_type),), finish)

    return plan


def _counts_of(data_type: DataType) -> ArrayType:
    """Return the type of values with counts, as Spark's function returns them."""
    return ArrayType(StructType([StructField(_ITEM, data_type), StructField(_COUNT, LongType())]))


def _counted(groups: Numbers, items: pa.Array, counts: pa.Array) -> pa.Table:
    return pa.table([pa.array(groups), items, counts], [_GROUP, _ITEM, _COUNT])


def _rows(states: pa.Array) -> pa.Table:
    """Return the counts in states; a state's position is its group."""
    inside = states.flatten()
    groups = np.repeat(np.arange(len(states)), in_numpy(pc.list_value_length(states), np.int64))
    return _counted(groups, pc.struct_field(inside, [0]), pc.struct_field(inside, [1]))


def _lowered(rows: pa.Table, size: int, tracked: int) -> Numbers:
    """Return the counts; in groups with too many items, minus the first count without a place."""
    groups = in_numpy(rows.column(_GROUP))
    counts: Numbers = in_numpy(rows.column(_COUNT)).copy()
    bounds = np.searchsorted(groups, np.arange(size + 1))
    for group in np.flatnonzero(np.diff(bounds) > tracked):
        part = counts[bounds[group] : bounds[group + 1]]
        part -= np.partition(part, -tracked - 1)[-tracked - 1]
    return counts


def _lists(rows: pa.Table, items: pa.Array, size: int, data_type: DataType) -> pa.Array:
    """Return rows with a group, in their order, as one list per group."""
    ends = np.searchsorted(in_numpy(rows.column(_GROUP)), np.arange(size + 1)).astype(np.int32)
    counts = rows.column(_COUNT).combine_chunks()
    lists = pa.StructArray.from_arrays([items, counts], [_ITEM, _COUNT])
    return pa.ListArray.from_arrays(pa.array(ends), lists).cast(arrow_type(data_type))
