"""Parting: processes more entries than fit in memory, some buckets at a time.

Entries arrive table by table, are spilled to a file by the part of their bucket, and are then
processed part by part. So building, folding and verifying an index takes the memory of one part for
each processor; a part has at least one bucket. The invariant: all entries of a key are in one part,
in the order in which they came.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import sorting, taken
from deltaproduce.engines.local.large.spilling import Spill
from deltaproduce.model.machine import cores
from deltaproduce.record_index import runs as stored
from deltaproduce.record_index import table
from deltaproduce.record_index.decisions.buckets import ENTRIES_A_BUCKET
from deltaproduce.record_index.decisions.entries import together
from deltaproduce.record_index.seeking import read
from deltaproduce.record_index.view import BUCKET, Keying, View, keys_of

_MOST_BYTES: Final = 256 << 20
"""This much stays in memory; the rest spills to a file."""
_AHEAD: Final = 2
"""This many tables are read ahead of the one that is being split, for each processor."""

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


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
        self._spill = Spill(_MOST_BYTES)
        self._batches: list[list[int]] = [[] for _ in range(self.count)]
        self._spill.add(keying.no_bucketed)

    def fill(self, make: Callable[[_Given], pa.Table], of: Iterable[_Given]) -> Parts:
        """Fill the parts, once, with the tables made of each item, in parallel and in order."""

        def by_part(one: _Given) -> tuple[pa.Table, list[int]]:
            found = self._keying.bucketed(make(one), self._buckets)
            part = np.asarray(found.column(BUCKET)) * self.count // self._buckets
            ends = np.searchsorted(np.sort(part), np.arange(self.count), side="right")
            return taken(found, sorting([part])), ends.tolist()

        for found, ends in _each(by_part, of):
            for part, (first, end) in enumerate(zip([0, *ends], ends, strict=False)):
                if first < end:
                    self._batches[part] += self._spill.add(found.slice(first, end - first))
        self._spill.batches()  # nothing is added after this, so threads may read parts
        return self

    def part(self, number: int) -> pa.Table:
        """Return the entries of a part, with a column of their buckets."""
        return self._spill.of(self._batches[number])


def of_table(
    snapshot: table.Snapshot, groups: dict[int, str], keying: Keying, buckets: int, entries: int
) -> Parts:
    """Return the entries of all rows in these files of a table, in the order of the files."""

    def of_file(group: int) -> pa.Table:
        return keys_of(snapshot, {group: groups[group]}, keying.columns)

    return Parts(keying, buckets, entries).fill(of_file, groups)


def of_index(view: View, buckets: int) -> Parts:
    """Return all entries of an index, oldest first."""
    runs, columns = view.runs, view.keying.columns

    def of_files(files: list[stored.RunFile]) -> pa.Table:
        return together(read(runs, file, columns) for file in files) if files else view.newer

    count = sum(file.entries for file in runs.files) + len(view.newer)
    return Parts(view.keying, buckets, count).fill(of_files, [*_batches(runs.files), []])


def _batches(files: Iterable[stored.RunFile]) -> Iterator[list[stored.RunFile]]:
    """Yield files in order, in batches with about the entries of one bucket."""
    some, entries = list[stored.RunFile](), 0
    for file in files:
        if some and entries + file.entries > ENTRIES_A_BUCKET:
            yield some
            some, entries = [], 0
        some.append(file)
        entries += file.entries
    if some:
        yield some


def _each(make: Callable[[_Given], _Made], of: Iterable[_Given]) -> Iterator[_Made]:
    """Yield the result for each item, computed in parallel, in order, and not far ahead."""
    count = cores()
    with ThreadPoolExecutor(count) as threads:
        waiting = deque[Future[_Made]]()
        for one in of:
            waiting.append(threads.submit(make, one))
            if len(waiting) > _AHEAD * count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
