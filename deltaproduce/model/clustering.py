"""Clustering: by which partitions a stage's content is stored, if windows are over it.

A window reads some partitions of its feeder. So the content of that is sorted by the window's
column first, and cut into files where partitions end. Pure. The invariant: how content is stored
decides how much is read, never what is read; a table that was written before there was a window
stays as it is until it is written whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from deltaproduce.model.graph import Graph
from deltaproduce.model.partitions import Partitioning
from deltaproduce.model.windows import planned
from deltaproduce.types.columns import Column

_STEPS: Final = {"day": 1, "week": 7, "month": 28}
"""How long they are at least."""


@dataclass(frozen=True, slots=True)
class Clustering:
    """How the content of one stage is stored.

    Attributes:
        column: one of its key.
        partitions: where files are cut.
    """

    column: Column
    partitions: Partitioning

    def order(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """What rows are sorted by that are otherwise sorted by these."""
        others = (column for column in columns if column.name != self.column.name)
        return (self.column, *others)

    def fits(self, key: Sequence[Column]) -> bool:
        """Whether a table has its column: one that another definition has made may have not."""
        return self.column in key

    @property
    def _size(self) -> int:
        step = self.partitions.step
        return step if isinstance(step, int) else _STEPS[step]


def clusterings(graph: Graph) -> Mapping[str, Clustering]:
    """How the feeders of windows are stored, by name.

    Where windows are over several columns of one, it goes by the column of most of them, and of as
    many by that of the first; where their steps differ, by the shortest.
    """
    found: dict[str, list[Clustering]] = {}
    for stage in graph.producers:
        window = stage.kind.window
        if window is None:
            continue
        over = planned(window, stage.feeders[0].schema.key, stage=stage.name)
        for feeder in stage.merged:
            column = feeder.schema.key.columns[over.position]
            found.setdefault(feeder.name, []).append(Clustering(column, over.partitions))
    return {name: _chosen(wanted) for name, wanted in found.items()}


def file_ends(counts: NDArray[np.int64], least: int) -> NDArray[np.int64]:
    """After which of some partitions a file ends.

    One of so many rows has a file of its own; others share one until that has as many.

    Args:
        counts: how many rows each has.
    """
    until, large = counts.cumsum(), np.flatnonzero(counts >= least)
    ends, at = [], 0
    while at < len(counts):
        if counts[at] >= least:
            end = at
        else:
            begun = until[at] - counts[at]
            full, next_large = until.searchsorted(begun + least), large.searchsorted(at)
            limit = large[next_large] - 1 if next_large < len(large) else len(counts) - 1
            end = int(min(full, limit))
        ends.append(end)
        at = end + 1
    return np.array(ends, np.int64)


def _chosen(wanted: Sequence[Clustering]) -> Clustering:
    names = Counter(one.column.name for one in wanted)
    most = max(names, key=lambda name: names[name])
    return min((one for one in wanted if one.column.name == most), key=lambda one: one._size)
