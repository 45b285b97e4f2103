"""Nearest: find the first rows of some keys in as few row groups as possible.

The invariant: a row group is skipped only if all its rows of a key come after as many rows of that
key as are wanted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import (
    Numbers,
    empty,
    factorize,
    order_codes,
    places,
    sorting,
    taken,
)
from deltaproduce.storage.parquet.row_groups import Reach, Values, plain
from deltaproduce.types.columns import Column


class Nearest:
    """The search for the first rows of some keys.

    It reads the row groups that may have the nearest rows first, and more at a time in each round.

    Args:
        near: for each row group, its bound in the first column of ``by``: none of its rows comes
            before this value.
    """

    def __init__(
        self, keys: pa.Table, reach: Reach, near: Values, by: Sequence[Column], count: int
    ) -> None:
        self._keys = keys.take(pa.array(reach.in_order))
        self._by, self._count, self._near = by, count, near
        sizes = np.maximum(reach.last - reach.first, 0)
        self._group = np.repeat(np.arange(len(sizes)), sizes)
        self._key = reach.first[self._group] + places([self._group])
        rank = np.unique(near, return_inverse=True)[1]
        order = np.lexsort(((-rank if by[0].descending else rank)[self._group], self._key))
        self._group, self._key = self._group[order], self._key[order]
        self._is_open = np.ones(len(keys), bool)
        self._is_read = np.zeros(len(sizes), bool)
        self._most = 1
        self._rows: pa.Table | None = None

    def groups(self) -> Numbers:
        """Return the groups to read next; none if nothing can come before the found rows."""
        waiting = self._waiting()
        near = waiting[places([self._key[waiting]]) < self._most]
        groups = np.unique(self._group[near])
        self._is_read[groups] = True
        self._most *= 2
        return groups

    def take(self, rows: pa.Table) -> None:
        """Take the rows that were found in these groups."""
        together = rows if self._rows is None else pa.concat_tables([self._rows, rows])
        names = self._keys.column_names
        numbers = factorize(pa.concat_tables([self._keys, together.select(names)]).columns)
        key_of = np.argsort(numbers[: len(self._keys)])  # each key appears once
        key = key_of[numbers[len(self._keys) :]]
        order = sorting([key, *order_codes(together, self._by)])
        place = places([key[order]])
        order, place = order[place < self._count], place[place < self._count]
        self._rows = taken(together, order)
        self._close(key[order], place)

    def rows(self, columns: Sequence[Column]) -> pa.Table:
        """Return the first rows of each key."""
        return empty(columns) if self._rows is None else self._rows

    def _close(self, key: Numbers, place: Numbers) -> None:
        """Close the keys for which no other group has a row before the last wanted one."""
        assert self._rows is not None
        last = np.flatnonzero(place == self._count - 1)
        column = self._by[0]
        values = plain(self._rows.column(column.name).take(pa.array(last)), column)
        waiting = self._waiting()
        first = waiting[places([self._key[waiting]]) == 0]
        nearest = np.full(len(self._is_open), -1)
        nearest[self._key[first]] = self._group[first]
        if values is not None:
            group = nearest[key[last]]
            near = self._near[group]
            is_past = values > near if column.descending else values < near
            self._is_open[key[last[is_past & (group >= 0)]]] = False

    def _waiting(self) -> Numbers:
        """Return the pairs of key and group still to read, the nearest of each key first."""
        return np.flatnonzero(self._is_open[self._key] & ~self._is_read[self._group])
