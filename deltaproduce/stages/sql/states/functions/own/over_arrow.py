"""Methods of aggregates that take whole columns, of many groups at once.

The invariant: a method returns one item, of the declared type, for each group that it was called
for. Which groups share a call is arbitrary; a failing group is found by calling again with fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Numbers
from deltaproduce.stages.sql.states.measures import GroupError
from deltaproduce.stages.sql.states.own_aggregates import OwnAggregate
from deltaproduce.types.atoms import Misfit, arrow_type
from deltaproduce.types.columns import Column
from deltaproduce.types.conversions import conformed
from deltaproduce.types.excerpts import described, shown

_Given: TypeAlias = Callable[[int, int], tuple[Any, ...]]
"""Returns the arguments of a method for the groups from one number up to another."""


@dataclass(frozen=True, slots=True)
class OverArrow:
    """See `states.Methods`.

    Attributes:
        inputs: the columns that it takes.
        zone: the clock of returned timestamps without a zone.
    """

    aggregate: OwnAggregate
    inputs: Sequence[Column]
    zone: tzinfo

    def zero(self) -> pa.Array:
        """See `Methods.zero`."""
        columns = [pa.nulls(0, arrow_type(column.data_type)) for column in self.inputs]
        return self.added(columns, np.empty(0, np.int64), 1)

    def added(self, columns: Sequence[pa.Array], groups: Numbers, size: int) -> pa.Array:
        """See `Methods.added`."""
        named = zip(columns, self.inputs, strict=True)
        of_type = [conformed(array, column.data_type) for array, column in named]

        def given(low: int, high: int) -> tuple[Any, ...]:
            return _of_groups(of_type, groups, size, low, high)

        return self._called("add", self.aggregate.state, size, given)

    def merged(self, states: pa.Array, groups: Numbers, size: int) -> pa.Array:
        """See `Methods.merged`."""

        def given(low: int, high: int) -> tuple[Any, ...]:
            return _of_groups([states], groups, size, low, high)

        return self._called("merge", self.aggregate.state, size, given)

    def subtracted(self, states: pa.Array, gone: pa.Array) -> pa.Array:
        """See `Methods.subtracted`."""

        def given(low: int, high: int) -> tuple[Any, ...]:
            return states.slice(low, high - low), gone.slice(low, high - low)

        return self._called("subtract", self.aggregate.state, len(states), given)

    def values(self, states: pa.Array) -> pa.Array:
        """See `Methods.values`."""

        def given(low: int, high: int) -> tuple[Any, ...]:
            return (states.slice(low, high - low),)

        return self._called("result", self.aggregate.value, len(states), given)

    def _called(self, method: str, column: Column, size: int, given: _Given) -> pa.Array:
        """Return a method's result for all groups.

        Raises:
            GroupError: it fails; with the first group that fails on its own, if there is one.
        """

        def once(low: int, high: int) -> pa.Array:
            returned = getattr(self.aggregate.methods, method)(*given(low, high))
            return of_groups(returned, high - low, column, self.zone)

        try:
            return once(0, size)
        except (Exception, SystemExit) as error:  # noqa: BLE001 any of the user's
            is_misfit = isinstance(error, Misfit)
            message = str(error) if is_misfit else described(error)
            group = _first_failing(once, size)
            cause = error.__cause__ if is_misfit else error
            raise GroupError(f"failed in {method}: {message}", group) from cause


def of_groups(returned: object, size: int, column: Column, zone: tzinfo) -> pa.Array:
    """Return a method's result for ``size`` groups as it is stored.

    Raises:
        Misfit: it has another form.
    """
    if isinstance(returned, pa.ChunkedArray):
        returned = returned.combine_chunks()
    if not isinstance(returned, pa.Array):
        raise Misfit(f"it returned {shown(returned)}; return a pyarrow Array")
    if len(returned) != size:
        raise Misfit(f"it returned {len(returned)} items for {size} groups; return one for each")
    return conformed(returned, column.data_type, clock=zone)


def _of_groups(
    arrays: Sequence[pa.Array], groups: Numbers, size: int, low: int, high: int
) -> tuple[Any, ...]:
    """Return the group number of each row in a range of groups; their count; and the rows."""
    if high - low < size:
        inside = (groups >= low) & (groups < high)
        arrays, groups = [array.filter(pa.array(inside)) for array in arrays], groups[inside] - low
    return pa.array(groups, pa.int64()), high - low, *arrays


def _first_failing(call: Callable[[int, int], object], size: int) -> int:
    """Return the first group that fails alone, or the first of the smallest range that fails."""

    def fails(low: int, high: int) -> bool:
        try:
            call(low, high)
        except (Exception, SystemExit):  # noqa: BLE001 any of the user's
            return True
        return False

    low, high = 0, size
    while high - low > 1:
        middle = (low + high) // 2
        if fails(low, middle):
            high = middle
        elif fails(middle, high):
            low = middle
        else:
            break
    return low
