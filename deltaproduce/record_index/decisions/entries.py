"""Entries: which file group has a key, over runs of which the newest one counts.

Pure. An entry without a group is a tombstone: the key is gone, unless a newer entry brings it back.
The invariant: of each key the newest entry counts, and no other.
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
"""In place of a group: there is no such key."""


def entries(keys: pa.Table, groups: Numbers) -> pa.Table:
    """Entries of some keys."""
    there = groups != NOWHERE
    return keys.append_column(GROUP, pa.array(groups, pa.int64(), mask=~there))


def no_entries(key: Sequence[Column], empty: pa.Table) -> pa.Table:
    """No entries.

    Args:
        empty: no rows, of the key columns.
    """
    return entries(empty.select([column.name for column in key]), np.zeros(0, np.int64))


def groups_in(found: pa.Table) -> Numbers:
    """The groups of entries; `NOWHERE` in tombstones."""
    return np.asarray(found.column(GROUP).fill_null(NOWHERE), np.int64)


def together(tables: Iterable[pa.Table]) -> pa.Table:
    """Rows of several tables of the same columns, with their key columns as they are."""
    return pa.concat_tables([*tables])


def groups_of(keys: pa.Table, oldest_first: pa.Table) -> Numbers:
    """For each key its group by the newest entry; `NOWHERE` if there is none.

    Args:
        oldest_first: entries of these keys, and maybe of others.
    """
    found = oldest_first.drop_columns([GROUP])
    numbers = factorize(together([keys, found]).columns)
    newest = np.full(int(numbers.max(initial=0)) + 1, NOWHERE)
    newest[numbers[len(keys) :]] = groups_in(oldest_first)  # of several the last one stays
    return newest[numbers[: len(keys)]]


def newest(oldest_first: pa.Table, key: Iterable[str]) -> pa.Table:
    """Of each key the newest entry, tombstones too; in no order."""
    numbers = factorize(oldest_first.select([*key]).columns)
    last = np.full(int(numbers.max(initial=-1)) + 1, 0)
    last[numbers] = np.arange(len(numbers))
    return taken(oldest_first, np.sort(last))


def without_tombstones(found: pa.Table) -> pa.Table:
    """The entries of keys that are there."""
    return found.filter(found.column(GROUP).is_valid())


def sorted_by_key(found: pa.Table, key: Iterable[Column]) -> pa.Table:
    """Entries in the order of their keys."""
    return in_order(found, key)


def doubled(keys: pa.Table) -> Numbers:
    """The rows of keys that are there more than once, but for the first of each."""
    numbers = factorize(keys.columns)
    _, firsts = np.unique(numbers, return_index=True)
    others = np.ones(len(numbers), bool)
    others[firsts] = False
    return np.flatnonzero(others)
