"""Parting: processes more entries than fit in memory, some buckets at a time.

Entries arrive table by table, are spilled to a file by the part of their bucket, and are then
processed part by part. So building, folding and verifying an index, and catching up with a table,
take the memory of one part for each processor; a part has at least one bucket. The invariant: all
entries of a key are in one part, in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Numbers, isin_rows, sorting, taken
from deltaproduce.engines.local.large.spilling import Spill
from deltaproduce.engines.local.large.threads import side_by_side
from deltaproduce.record_index import table
from deltaproduce.record_index.decisions.buckets import ENTRIES_A_BUCKET
from deltaproduce.record_index.decisions.keying import BUCKET, Keying
from deltaproduce.record_index.runs import RunFile, Runs
from deltaproduce.record_index.seeking import read

_Given = TypeVar("_Given")

_MOST_BYTES: Final = 256 << 20
"""This much stays in memory; the rest spills to a file."""


class Parts:
    """Entries by part.

    Args:
        buckets: the number of buckets that keys are hashed into.
        entries: the expected number of entries, which sets the number of parts; it may be wrong.
    """

    def __init__(self, keying: Keying, buckets: int, entries: int) -> None:
        self._keying, self._buckets = keying, buckets
        self.expected = entries
        self.count = max(1, min(buckets, -(-entries // ENTRIES_A_BUCKET)))
        self._rows = 0
        self._spill = Spill(_MOST_BYTES)
        self._batches: list[list[int]] = [[] for _ in range(self.count)]
        self._spill.add(keying.bucketed(keying.no_entries, buckets))

    def __len__(self) -> int:
        """Return the number of entries."""
        return self._rows

    def fill(self, make: Callable[[_Given], pa.Table], of: Iterable[_Given]) -> Parts:
        """Fill the parts, once, with the tables made of each item, in parallel and in order."""

        def by_part(one: _Given) -> tuple[pa.Table, list[int]]:
            bucketed = self._keying.bucketed(make(one), self._buckets)
            part = self._parts_of(np.asarray(bucketed.column(BUCKET), np.int64))
            ends = np.searchsorted(np.sort(part), np.arange(self.count), side="right")
            return taken(bucketed, sorting([part])), ends.tolist()

        for keys_of_part, ends in side_by_side(by_part, of):
            self._rows += len(keys_of_part)
            for part, (first, end) in enumerate(zip([0, *ends], ends, strict=False)):
                if first < end:
                    self._batches[part] += self._spill.add(keys_of_part.slice(first, end - first))
        self._spill.batches()  # nothing is added after this, so threads may read parts
        return self

    def part(self, number: int) -> pa.Table:
        """Return the entries of a part, with a column of their buckets."""
        return self._spill.of(self._batches[number])

    def filter(self, number: int, bucketed: pa.Table) -> pa.Table:
        """Return those of other entries that belong to a part, with a column of their buckets."""
        of = self._parts_of(np.asarray(bucketed.column(BUCKET), np.int64))
        return bucketed.filter(pa.array(of == number))

    def of(self, keys: pa.Table) -> Iterator[pa.Table]:
        """Yield the entries of keys; one part is in memory at a time."""
        if not self._rows:
            return
        of = self._parts_of(self._keying.buckets(keys, self._buckets))
        for number in np.unique(of).tolist():
            rows = self.part(number).drop_columns([BUCKET])
            yield rows.filter(pa.array(isin_rows(rows.select(keys.column_names), keys)))

    def _parts_of(self, buckets: Numbers) -> Numbers:
        return buckets * self.count // self._buckets


def of_table(
    snapshot: table.TableSnapshot,
    groups: Mapping[int, str],
    keying: Keying,
    buckets: int,
    entries: int,
) -> Parts:
    """Return the entries of all rows in these files of a table, in the order of the files."""

    def of_file(group: int) -> pa.Table:
        return _entries_of_file(snapshot, group, groups[group], keying)

    return Parts(keying, buckets, entries).fill(of_file, groups)


def of_runs(
    runs: Runs, later: Sequence[Callable[[], pa.Table]], more: int, keying: Keying, buckets: int
) -> Parts:
    """Return all entries of an index, oldest first.

    Args:
        later: functions that return entries which are newer than those of all runs.
        more: the number of these entries.
    """

    def of_files(files: Sequence[RunFile]) -> Callable[[], pa.Table]:
        return lambda: pa.concat_tables([read(runs, file, keying) for file in files])

    every = [*map(of_files, _batches(runs.files)), *later]
    count = sum(file.entries for file in runs.files) + more
    return Parts(keying, buckets, count).fill(lambda make: make(), every)


def _entries_of_file(
    snapshot: table.TableSnapshot, group: int, path: str, keying: Keying
) -> pa.Table:
    """Return the entries of all rows in a file of a table."""
    rows = snapshot.rows(path, keying.columns)
    return keying.entries(rows, np.full(len(rows), group))


def _batches(files: Iterable[RunFile]) -> Iterator[list[RunFile]]:
    """Yield files in order, in batches with about the entries of one bucket."""
    group, count = list[RunFile](), 0
    for file in files:
        if group and count + file.entries > ENTRIES_A_BUCKET:
            yield group
            group, count = [], 0
        group.append(file)
        count += file.entries
    if group:
        yield group
