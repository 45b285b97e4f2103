"""Views: an index, caught up with the newest Delta version of its table.

The log tells what others have committed since: the files that were added or removed are *touched*.
Their file groups end, and touched files that exist now are new groups. Only these are read; removed
files may be gone. Their keys are held in parts (`parting`), so that memory does not limit how far
an index is behind. The invariant: a view has for every key what the table has at one Delta version,
or it is refused; a view in which files wait has that for all other files, and is only written.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import accumulate
from typing import Final

import numpy as np
import pyarrow as pa

from deltaproduce.engines.delta.tables import BrokenLogError
from deltaproduce.engines.local.arrays import Numbers, distinct, isin_rows
from deltaproduce.errors import CorruptStoreError, InvalidChangesError
from deltaproduce.record_index import table
from deltaproduce.record_index.decisions.entries import (
    NOWHERE,
    KnownEntries,
    alive,
    counting,
    doubled,
    known,
    newest,
    together,
)
from deltaproduce.record_index.decisions.keying import BUCKET, Keying
from deltaproduce.record_index.parting import Parts, of_runs, of_table
from deltaproduce.record_index.runs import Part, Runs, State, opened, overtaken
from deltaproduce.record_index.seeking import entries_of
from deltaproduce.types.excerpts import shown
from deltaproduce.types.python_values import python_tuples

SHOWN: Final = 10
"""An error names this many keys."""

_RUN_BYTES: Final = 1 << 30
"""An index that catches up is written after this many bytes of new files."""
_RUN_SHARE: Final = 1.0
"""But not before they are this share of the files that it has: the keys of a run are looked up in
all earlier runs, so that runs have to grow."""


@dataclass(frozen=True, slots=True)
class IndexView:
    """An index, and the entries that are newer than it.

    Attributes:
        state: the state that the index would have if it were written now.
        groups: the path of each file group; entries of other groups do not count.
        arrived: the entries of files that came since the index was written.
        newer: entries that override all others.
        waiting: the paths of files whose keys the view does not have yet.
    """

    runs: Runs
    keying: Keying
    snapshot: table.TableSnapshot
    state: State
    groups: Mapping[int, str]
    arrived: Parts
    newer: pa.Table
    waiting: frozenset[str] = frozenset()

    @property
    def is_written(self) -> bool:
        """Whether the stored index has everything in the view."""
        return self.state == self.runs.state and not len(self.newer)

    @property
    def entries(self) -> int:
        """The number of entries, of which all count if there are as many keys."""
        of_runs = sum(file.entries for file in self.runs.files)
        return of_runs + len(self.arrived) + len(self.newer)

    @property
    def has_dead(self) -> bool:
        """Whether there are entries that a compaction removes, or that are in no file yet."""
        files = self.runs.files
        remembered = sum(file.remembered for file in files)
        tombstones = sum(file.tombstones for file in files)
        several = len({file.run for file in files}) > 1 and remembered > 0
        dead = self.entries - min(remembered, tombstones) - self.state.records
        return several or dead > 0 or len(self.arrived) > 0

    def has_deletes_before(self, since: datetime | None) -> bool:
        """Return whether a remembered delete was given before a time; False without a time."""
        if since is None:
            return False
        return any(file.oldest is not None and file.oldest < since for file in self.runs.files)

    def groups_of(self, keys: pa.Table) -> Numbers:
        """Return the file group of each distinct key; `NOWHERE` if there is no such key."""
        return self.known(keys).groups

    def known(self, keys: pa.Table) -> KnownEntries:
        """Return what the index has of distinct keys."""
        buckets = self.keying.buckets(keys, self.state.descriptor.buckets)
        stored = entries_of(self.runs, keys, buckets, self.keying)
        known_entries = known(
            keys, together([*stored, *self.arrived.of(keys), self._newer_of(keys)])
        )
        there = np.isin(known_entries.groups, [*self.groups])
        return replace(known_entries, groups=np.where(there, known_entries.groups, NOWHERE))

    def _newer_of(self, keys: pa.Table) -> pa.Table:
        return self.newer.filter(pa.array(isin_rows(self.newer.select(keys.column_names), keys)))

    def changed(self, state: State, groups: Mapping[int, str], newer: pa.Table) -> IndexView:
        """Return the view with other groups, and with entries that are newer than its own."""
        every = newest(together([self.newer, newer]), self.keying.names)
        return replace(self, state=state, groups=groups, newer=every)

    def every(self, buckets: int) -> Parts:
        """Return all entries, oldest first, by part for this many buckets."""

        def arrived(number: int) -> pa.Table:
            return self.arrived.part(number).drop_columns([BUCKET])

        later: list[Callable[[], pa.Table]] = [
            partial(arrived, n) for n in range(self.arrived.count)
        ]
        later.append(lambda: self.newer)
        more = len(self.arrived) + len(self.newer)
        return of_runs(self.runs, later, more, self.keying, buckets)

    def located(self, stored: pa.Table) -> pa.Table:
        """Return the entries of keys that exist, from all entries of some keys, oldest first."""
        return alive(newest(stored, self.keying.names), self.groups)

    def counting(self, stored: pa.Table, since: datetime | None = None) -> pa.Table:
        """Return the entries that count, from all entries of some keys, oldest first.

        Args:
            since: remembered deletes that were given before are forgotten; None if none is.
        """
        return counting(newest(stored, self.keying.names), self.groups, since)

    def reopened(self) -> IndexView:
        """Return the index as it is stored now, for the same Delta version of its table.

        Raises:
            ConflictError: another process has changed the table, or the index, meanwhile.
        """
        runs, place = opened(self.runs.place), self.runs.place
        if runs is None or runs.state.delta_version != self.state.delta_version:
            raise table.overtaken(self.snapshot.directory)
        if runs.state.descriptor != self.state.descriptor:
            raise overtaken(place)
        return caught_up(runs, self.keying, self.snapshot)

    def write(self) -> None:
        """Write what is newer to the index, as a run in one commit.

        Raises:
            RefusedError: another process was faster.
        """
        newer = self.keying.bucketed(self.newer, self.state.descriptor.buckets)

        def files_of_part(number: int) -> Mapping[int | None, pa.Table]:
            arrived = together([self.arrived.part(number), self.arrived.filter(number, newer)])
            return self.keying.files(newest(arrived, self.keying.names))

        parts: list[Part] = [partial(files_of_part, number) for number in range(self.arrived.count)]
        self.runs.append(self.state, self.groups, self.waiting, self.keying, parts)


def caught_up(
    runs: Runs, keying: Keying, snapshot: table.TableSnapshot, *, in_runs: bool = False
) -> IndexView:
    """Return an index, caught up with the newest Delta version of its table.

    Args:
        in_runs: whether files may wait, if there are so many that the index is to be written first.

    Raises:
        CorruptStoreError: the log does not tell what has changed, or it is another table.
        InvalidChangesError: the table has a key twice.
    """
    _check_table(runs, keying, snapshot)
    state, now = runs.state, snapshot.delta_version
    touched = _touched(runs, snapshot)
    known, waited = runs.paths()
    stay = snapshot.files.keys() - touched
    groups = {group: path for group, path in known.items() if path in stay}
    waiting = (waited & stay) | (touched & snapshot.files.keys())
    buckets = state.descriptor.buckets
    none = Parts(keying, buckets, 0)
    before = IndexView(runs, keying, snapshot, state, groups, none, keying.no_entries)
    if now == state.delta_version and not waiting:
        return before
    read = sorted(waiting)
    if in_runs:
        most = max(_RUN_BYTES, _RUN_SHARE * sum(_sizes(groups.values(), snapshot)))
        read = read[: max(1, bisect_right([*accumulate(_sizes(read, snapshot))], most))]
    begun = dict(enumerate(read, state.next_group))
    arrived = of_table(snapshot, begun, keying, buckets, snapshot.count(read))
    _refuse_keys_twice(before, arrived)
    every = groups | begun
    has_ended = len(groups) < len(known)
    return replace(
        before,
        state=replace(
            state,
            delta_version=now,
            mark=table.mark(snapshot.directory, now),
            records=snapshot.count(every.values()) if has_ended else state.records + len(arrived),
            next_group=state.next_group + len(begun),
        ),
        groups=every,
        arrived=arrived,
        waiting=waiting.difference(read),
    )


def _touched(runs: Runs, snapshot: table.TableSnapshot) -> frozenset[str]:
    """Return the paths of the files that were added or removed since the index was written.

    Raises:
        CorruptStoreError: the log does not tell.
    """
    since, now = runs.state.delta_version, snapshot.delta_version
    if since == now:
        return frozenset()
    try:
        return table.touched(snapshot.directory, since, now)
    except BrokenLogError as error:
        raise _astray(runs, f"the log does not say what was committed after {since}") from error


def _sizes(paths: Iterable[str], snapshot: table.TableSnapshot) -> Iterator[int]:
    """Yield the bytes of files."""
    return (snapshot.files[path].size for path in paths)


def _refuse_keys_twice(before: IndexView, arrived: Parts) -> None:
    """Refuse new entries whose keys are there already, or twice among them.

    Raises:
        InvalidChangesError: there are such keys.
    """
    first, rows = before.keying.no_keys, 0
    for number in range(arrived.count):
        keys = arrived.part(number).select(before.keying.names)
        places = np.union1d(doubled(keys), _of_others(before, keys))
        first, rows = together([first, keys.take(pa.array(places[:SHOWN]))]), rows + len(places)
    refuse_doubled(first, rows, before.snapshot)


def refuse_doubled(keys: pa.Table, rows: int, snapshot: table.TableSnapshot) -> None:
    """Refuse a table that has duplicate keys.

    Args:
        keys: keys that occur more than once, or the first of them.
        rows: the number of rows that repeat a key.

    Raises:
        InvalidChangesError: there are duplicate keys.
    """
    if rows:
        first = keys_as_given(keys.slice(0, SHOWN))
        raise InvalidChangesError(
            f"table {snapshot.directory.path!r} has {rows} rows with a key that another row "
            f"has at delta version {snapshot.delta_version}, of keys {shown(first)}: delete one of "
            "each",
            column=keys.column_names[0],
            columns=tuple(keys.column_names),
            keys=first,
        )


def keys_as_given(keys: pa.Table) -> tuple[object, ...]:
    """Return keys as Python values: a bare value for one column, a tuple for several."""
    rows = python_tuples(keys)
    return tuple(row[0] for row in rows) if keys.num_columns == 1 else tuple(rows)


def _of_others(view: IndexView, keys: pa.Table) -> Numbers:
    """Return the positions of keys that a view has already."""
    if not len(keys):
        return np.zeros(0, np.int64)
    once = distinct(keys)
    there = once.filter(pa.array(view.groups_of(once) != NOWHERE))
    return np.flatnonzero(isin_rows(keys, there))


def _check_table(runs: Runs, keying: Keying, snapshot: table.TableSnapshot) -> None:
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
