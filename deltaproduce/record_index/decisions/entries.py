"""Entries: map keys to file groups over several runs, the newest of which wins.

Pure. An entry without a group is a tombstone: the key is gone, unless a newer entry brings it back.
So is an entry of a group that has ended. An entry may *remember* a delete: by its ordering, it wins
over older rows once the key is gone. The invariant: for each key, only the newest entry counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.local.arrays import Marks, Numbers, factorize, in_order, taken
from deltaproduce.types.columns import Column
from deltaproduce.types.pandas_on_demand import in_numpy

GROUP: Final = "_group"
"""The column of entries with the number of the file group."""

ORDER: Final = "_deleted_order"
"""The column of entries with the ordering of a remembered delete."""
AT: Final = "_deleted_at"
"""The column of entries with the time at which a remembered delete was given."""

NOWHERE: Final = -1
"""Stands for a group: there is no such key."""


@dataclass(frozen=True, slots=True)
class KnownEntries:
    """What an index has of some keys.

    Attributes:
        groups: the file group of each key; `NOWHERE` if there is no such key.
        deletes: `ORDER` and `AT` of the remembered delete of each key, null if none is; no columns
            if the index remembers no deletes.
    """

    groups: Numbers
    deletes: Mapping[str, pa.ChunkedArray]

    @property
    def orders(self) -> pa.ChunkedArray | None:
        """The ordering of the remembered delete of each key; None if none is ever remembered."""
        return self.deletes.get(ORDER)

    def filtered(self, which: Marks) -> Mapping[str, pa.ChunkedArray]:
        """Return the remembered deletes of some of the keys."""
        marks = pa.array(which)
        return {name: column.filter(marks) for name, column in self.deletes.items()}

    def drop(self, which: Marks) -> KnownEntries:
        """Return what is known of the other keys."""
        return KnownEntries(self.groups[~which], self.filtered(~which))

    @property
    def gone(self) -> Marks:
        """Mark the keys that do not exist."""
        is_gone: Marks = self.groups == NOWHERE
        return is_gone

    @property
    def remembers(self) -> Marks:
        """Mark the keys with a remembered delete."""
        if self.orders is None:
            return np.zeros(len(self.groups), bool)
        is_remembered: Marks = in_numpy(self.orders.is_valid(), bool)
        return is_remembered


def entries(keys: pa.Table, groups: Numbers) -> pa.Table:
    """Return entries for keys and their groups."""
    there = groups != NOWHERE
    return keys.append_column(GROUP, pa.array(groups, pa.int64(), mask=~there))


def remembering(stored: pa.Table, orders: pa.ChunkedArray, at: datetime) -> pa.Table:
    """Return entries that remember deletes with these orderings, where they are not null."""
    then = pa.scalar(at, pa.timestamp("us", "UTC"))
    times = pc.if_else(orders.is_valid(), then, pa.scalar(None, then.type))
    return stored.append_column(ORDER, orders).append_column(AT, times)


def groups_in(stored: pa.Table) -> Numbers:
    """Return the groups of entries; `NOWHERE` for tombstones."""
    return np.asarray(stored.column(GROUP).fill_null(NOWHERE), np.int64)


def together(tables: Iterable[pa.Table]) -> pa.Table:
    """Concatenate tables with the same columns."""
    return pa.concat_tables([*tables])


def known(keys: pa.Table, oldest_first: pa.Table) -> KnownEntries:
    """Return what the newest entry of each key says.

    Args:
        oldest_first: entries of these keys, and perhaps of others.
    """
    numbers = factorize(together([keys, oldest_first.select(keys.column_names)]).columns)
    newest = np.full(int(numbers.max(initial=0)) + 1, -1)
    newest[numbers[len(keys) :]] = np.arange(len(oldest_first))  # the last of several entries wins
    places = newest[numbers[: len(keys)]]
    rows = pa.array(places, mask=places < 0)
    groups = np.asarray(oldest_first.column(GROUP).take(rows).fill_null(NOWHERE), np.int64)
    columns = [name for name in (ORDER, AT) if name in oldest_first.column_names]
    return KnownEntries(groups, {name: oldest_first.column(name).take(rows) for name in columns})


def newest(oldest_first: pa.Table, key: Iterable[str]) -> pa.Table:
    """Return the newest entry of each key, including tombstones, in any order."""
    numbers = factorize(oldest_first.select([*key]).columns)
    last = np.full(int(numbers.max(initial=-1)) + 1, 0)
    last[numbers] = np.arange(len(numbers))
    return taken(oldest_first, np.sort(last))


def alive(stored: pa.Table, groups: Iterable[int]) -> pa.Table:
    """Return the entries of keys that exist: of these groups, which are all that have not ended."""
    return stored.filter(pa.array(np.isin(groups_in(stored), [*groups])))


def counting(stored: pa.Table, groups: Iterable[int], since: datetime | None) -> pa.Table:
    """Return the entries of keys that exist, and those that remember a delete.

    Args:
        groups: the groups that have not ended.
        since: deletes that were given before are forgotten; None if none is.
    """
    there = np.isin(groups_in(stored), [*groups])
    if ORDER not in stored.column_names:
        return stored.filter(pa.array(there))
    if since is not None:
        kept = pc.greater_equal(stored.column(AT), pa.scalar(since, pa.timestamp("us", "UTC")))
        for name in (ORDER, AT):
            of = stored.column(name)
            cut = pc.if_else(kept.fill_null(False), of, pa.scalar(None, of.type))
            stored = stored.set_column(stored.schema.get_field_index(name), name, cut)
    remembered = in_numpy(stored.column(ORDER).is_valid(), bool)
    left = stored.filter(pa.array(there | remembered))
    groups_left = groups_in(left)
    ended = ~np.isin(groups_left, [*groups])
    group = pa.array(groups_left, pa.int64(), mask=ended)
    return left.set_column(left.schema.get_field_index(GROUP), GROUP, group)


def sorted_by_key(stored: pa.Table, key: Iterable[Column]) -> pa.Table:
    """Return entries sorted by key."""
    return in_order(stored, key)


def doubled(keys: pa.Table) -> Numbers:
    """Return the positions of repeated keys: all but the first row of each."""
    numbers = factorize(keys.columns)
    _, firsts = np.unique(numbers, return_index=True)
    others = np.ones(len(numbers), bool)
    others[firsts] = False
    return np.flatnonzero(others)
