"""Entries: map keys to file groups over several runs, the newest of which wins.

Pure. An entry without a group is a tombstone: the key is gone, unless a newer entry brings it back.
So is an entry of a group that has ended. The invariant: for each key, only the newest entry counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Numbers, factorize, in_order, taken
from deltaproduce.types.columns import Column

GROUP: Final = "_group"
"""The column of entries with the number of the file group."""

NOWHERE: Final = -1
"""Stands for a group: there is no such key."""


def entries(keys: pa.Table, groups: Numbers) -> pa.Table:
    """Return entries for keys and their groups."""
    there = groups != NOWHERE
    return keys.append_column(GROUP, pa.array(groups, pa.int64(), mask=~there))


def no_entries(key: Sequence[Column], empty: pa.Table) -> pa.Table:
    """Return no entries.

    Args:
        empty: a table of the key columns without rows.
    """
    return entries(empty.select([column.name for column in key]), np.zeros(0, np.int64))


def groups_in(found: pa.Table) -> Numbers:
    """Return the groups of entries; `NOWHERE` for tombstones."""
    return np.asarray(found.column(GROUP).fill_null(NOWHERE), np.int64)


def together(tables: Iterable[pa.Table]) -> pa.Table:
    """Concatenate tables with the same columns."""
    return pa.concat_tables([*tables])


def groups_of(keys: pa.Table, oldest_first: pa.Table) -> Numbers:
    """Return the group of each key by its newest entry; `NOWHERE` if there is none.

    Args:
        oldest_first: entries of these keys, and perhaps of others.
    """
    found = oldest_first.drop_columns([GROUP])
    numbers = factorize(together([keys, found]).columns)
    newest = np.full(int(numbers.max(initial=0)) + 1, NOWHERE)
    newest[numbers[len(keys) :]] = groups_in(oldest_first)  # the last of several entries wins
    return newest[numbers[: len(keys)]]


def newest(oldest_first: pa.Table, key: Iterable[str]) -> pa.Table:
    """Return the newest entry of each key, including tombstones, in any order."""
    numbers = factorize(oldest_first.select([*key]).columns)
    last = np.full(int(numbers.max(initial=-1)) + 1, 0)
    last[numbers] = np.arange(len(numbers))
    return taken(oldest_first, np.sort(last))


def alive(found: pa.Table, groups: Iterable[int]) -> pa.Table:
    """Return the entries of keys that exist: of these groups, which are all that have not ended."""
    return found.filter(pa.array(np.isin(groups_in(found), [*groups])))


def sorted_by_key(found: pa.Table, key: Iterable[Column]) -> pa.Table:
    """Return entries sorted by key."""
    return in_order(found, key)


def doubled(keys: pa.Table) -> Numbers:
    """Return the positions of repeated keys: all but the first row of each."""
    numbers = factorize(keys.columns)
    _, firsts = np.unique(numbers, return_index=True)
    others = np.ones(len(numbers), bool)
    others[firsts] = False
    return np.flatnonzero(others)
