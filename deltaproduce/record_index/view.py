"""The view: an index that is caught up in memory with the newest Delta version of its table.

The log tells what others have committed since: the files that were added or removed are *touched*.
Their file groups end, and touched files that exist now are new groups. Only these are read; removed
files may be gone. The invariant: a view has for every key what the table has at one Delta version,
or it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from deltaproduce.engines.delta_tables import BrokenLogError
from deltaproduce.engines.local.arrays import (
    Numbers,
    distinct,
    empty,
    isin_rows,
    sorting,
    taken,
)
from deltaproduce.errors import CorruptStoreError, InvalidChangesError
from deltaproduce.model.machine import cores
from deltaproduce.record_index import table
from deltaproduce.record_index.decisions.buckets import HashFunction, buckets_of
from deltaproduce.record_index.decisions.entries import (
    GROUP,
    NOWHERE,
    doubled,
    entries,
    groups_of,
    newest,
    no_entries,
    sorted_by_key,
    together,
)
from deltaproduce.record_index.runs import Runs, State
from deltaproduce.record_index.seeking import entries_of, keys_in
from deltaproduce.types.columns import Column
from deltaproduce.types.excerpts import shown

BUCKET: Final = "_bucket"
"""The column with the buckets of entries, where they have one."""

_MIXED_ENTRIES: Final = 1 << 16
"""A run of at most this many entries is one file, not one for each bucket."""
SHOWN: Final = 10
"""An error names this many keys."""


@dataclass(frozen=True, slots=True)
class Keying:
    """How an index identifies and hashes records.

    Attributes:
        columns: the key columns.
        hashed: the hash function.
    """

    columns: tuple[Column, ...]
    hashed: str | HashFunction

    @property
    def names(self) -> list[str]:
        """The names of the key columns."""
        return [column.name for column in self.columns]

    @property
    def unique(self) -> str | None:
        """A column in which no two rows have the same value: the key, if it is one column."""
        return self.columns[0].name if len(self.columns) == 1 else None

    @property
    def types(self) -> tuple[str, ...]:
        """The types of the key columns."""
        return tuple(column.data_type.simpleString() for column in self.columns)

    @property
    def no_bucketed(self) -> pa.Table:
        """Return no entries, with a column of their buckets."""
        return self.bucketed(no_entries(self.columns, empty(self.columns)), 1)

    def bucketed(self, found: pa.Table, buckets: int) -> pa.Table:
        """Return entries with a column of their buckets."""
        of = buckets_of(found.drop_columns([GROUP]), self.hashed, buckets)
        return found.append_column(BUCKET, pa.array(of, pa.int64()))

    def files(self, bucketed: pa.Table) -> Mapping[int | None, pa.Table]:
        """Return entries as the files of a run, sorted by bucket and key."""
        of = np.asarray(bucketed.column(BUCKET), np.int64)
        found, order = bucketed.drop_columns([BUCKET]), sorting([of])
        by_bucket, there = taken(found, order), np.unique(of)
        ends = np.searchsorted(of[order], there, side="right").tolist()
        with ThreadPoolExecutor(cores()) as threads:
            sliced = (by_bucket.slice(a, b - a) for a, b in pairwise([0, *ends]))
            parts = [*threads.map(lambda part: sorted_by_key(part, self.columns), sliced)]
        if 0 < len(found) <= _MIXED_ENTRIES:
            return {None: together(parts)}
        return dict(zip(there.tolist(), parts, strict=True))


@dataclass(frozen=True, slots=True)
class View:
    """An index, and the entries that are newer than it.

    Attributes:
        state: the state that the index would have if it were written now.
        groups: the path of each file group.
        newer: entries that override the entries of all runs.
    """

    runs: Runs
    keying: Keying
    snapshot: table.Snapshot
    state: State
    groups: Mapping[int, str]
    newer: pa.Table

    @property
    def is_written(self) -> bool:
        """Whether the stored index has everything in the view."""
        return self.state == self.runs.state

    def groups_of(self, keys: pa.Table) -> Numbers:
        """Return the file group of each distinct key; `NOWHERE` if there is no such key."""
        buckets = buckets_of(keys, self.keying.hashed, self.state.descriptor.buckets)
        found = entries_of(self.runs, keys, buckets, self.keying.columns)
        return groups_of(keys, together([*found, self._newer_of(keys)]))

    def _newer_of(self, keys: pa.Table) -> pa.Table:
        return self.newer.filter(pa.array(isin_rows(self.newer.select(keys.column_names), keys)))

    def changed(self, state: State, groups: Mapping[int, str], newer: pa.Table) -> View:
        """Return the view with other groups, and with entries that are newer than its own."""
        every = newest(together([self.newer, newer]), self.keying.names)
        return replace(self, state=state, groups=groups, newer=every)


def caught_up(runs: Runs, keying: Keying, snapshot: table.Snapshot) -> View:
    """Return an index, caught up with the newest Delta version of its table.

    Raises:
        CorruptStoreError: the log does not tell what has changed, or it is another table.
        InvalidChangesError: the table has a key twice.
    """
    groups, none = runs.groups(), no_entries(keying.columns, empty(keying.columns))
    view = View(runs, keying, snapshot, runs.state, groups, none)
    _check_table(runs, keying, snapshot)
    now = snapshot.delta_version
    if now == runs.state.delta_version:
        return view
    try:
        touched = table.touched(snapshot.directory, runs.state.delta_version, now)
    except BrokenLogError as error:
        raise _astray(
            runs, f"the log does not say what was committed after {runs.state.delta_version}"
        ) from error
    return _with(view, touched)


def _with(view: View, touched: frozenset[str]) -> View:
    """Return a view after files were added or removed."""
    state, snapshot = view.state, view.snapshot
    ended = {group for group, path in view.groups.items() if path in touched}
    begun = dict(enumerate(sorted(touched & snapshot.files.keys()), state.next_group))
    added = keys_of(snapshot, begun, view.keying.columns)
    new_keys = added.drop_columns([GROUP])
    others = _of_others(view, new_keys, ended)
    twice = np.union1d(doubled(new_keys), others)
    refuse_doubled(new_keys.take(pa.array(twice[:SHOWN])), len(twice), snapshot)
    gone = _keys_of_groups(view, ended)
    tombstones = gone.filter(pa.array(~isin_rows(gone, new_keys)))
    nowhere = np.full(len(tombstones), NOWHERE)
    now = snapshot.delta_version
    return view.changed(
        replace(
            state,
            delta_version=now,
            mark=table.mark(snapshot.directory, now),
            records=state.records - len(gone) + len(added),
            next_group=state.next_group + len(begun),
        ),
        {group: path for group, path in view.groups.items() if group not in ended} | begun,
        together([added, entries(tombstones, nowhere)]),
    )


def keys_of(snapshot: table.Snapshot, groups: Mapping[int, str], key: Sequence[Column]) -> pa.Table:
    """Return the entries of all rows in some files."""
    found = [no_entries(key, empty(key))]
    for group, path in groups.items():
        rows = snapshot.rows(path, key)
        found.append(entries(rows, np.full(len(rows), group)))
    return together(found)


def refuse_doubled(keys: pa.Table, rows: int, snapshot: table.Snapshot) -> None:
    """Refuse a table that has duplicate keys.

    Args:
        keys: keys that occur more than once, or the first of them.
        rows: the number of rows that repeat a key.

    Raises:
        InvalidChangesError: there are duplicate keys.
    """
    if rows:
        found = keys_as_given(keys.slice(0, SHOWN))
        raise InvalidChangesError(
            f"table {snapshot.directory.path!r} has {rows} rows with a key that another row "
            f"has at delta version {snapshot.delta_version}, of keys {shown(found)}: delete one of "
            "each",
            column=keys.column_names[0],
            columns=tuple(keys.column_names),
            keys=found,
        )


def keys_as_given(keys: pa.Table) -> tuple[object, ...]:
    """Return keys as Python values: a bare value for one column, a tuple for several."""
    rows = [tuple(row.values()) for row in keys.to_pylist()]
    return tuple(row[0] for row in rows) if keys.num_columns == 1 else tuple(rows)


def _of_others(view: View, keys: pa.Table, ended: set[int]) -> Numbers:
    """Return the positions of keys that also have rows outside the touched files."""
    if not len(keys):
        return np.zeros(0, np.int64)
    once = distinct(keys)
    groups = view.groups_of(once)
    others = (groups != NOWHERE) & ~np.isin(groups, [*ended])
    return np.flatnonzero(isin_rows(keys, once.filter(pa.array(others))))


def _keys_of_groups(view: View, groups: set[int]) -> pa.Table:
    """Return the keys whose newest entries are in these file groups."""
    wanted = np.array(sorted(groups), np.int64)
    none = empty(view.keying.columns)
    if not len(wanted):
        return none
    once = distinct(together([none, *keys_in(view.runs, wanted, view.keying.columns)]))
    return once.filter(pa.array(np.isin(view.groups_of(once), wanted)))


def _check_table(runs: Runs, keying: Keying, snapshot: table.Snapshot) -> None:
    """Refuse a table that is not the one that the index was built for.

    Raises:
        CorruptStoreError: it is another table.
    """
    state = runs.state
    then = table.mark(snapshot.directory, state.delta_version)
    if (
        snapshot.table_id != state.table_id
        or snapshot.delta_version < state.delta_version
        or (then is not None and state.mark is not None and then != state.mark)
    ):
        raise _astray(runs, f"there is another table at {snapshot.directory.path!r}")
    if keying.types != state.descriptor.types:
        raise _astray(runs, "the key columns of the table have other types now")


def _astray(runs: Runs, why: str) -> CorruptStoreError:
    return CorruptStoreError(
        f"the record index at {runs.place.path!r} does not fit its table: {why}; build it again",
        table=runs.place.path,
    )
