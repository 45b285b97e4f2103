"""Clustering: the partitions that a stage's content is stored by, if windows are over it.

A window reads some partitions of its feeder. So the feeder's content is sorted by the window's
column first, and cut into files where partitions end. Pure. The invariant: how content is stored
decides how many rows are read, never which result they give; a table written before the window was
added stays unchanged until it is rewritten whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from deltaproduce.model.graph import Graph
from deltaproduce.model.partitions import Partitioning
from deltaproduce.model.windows import planned
from deltaproduce.types.columns import Column

_STEPS: Final = {"day": 1, "week": 7, "month": 28}
"""The fewest days in each step."""


@dataclass(frozen=True, slots=True)
class Clustering:
    """How the content of one stage is stored.

    Attributes:
        column: a column of its key.
        partitions: where files are cut.
    """

    column: Column
    partitions: Partitioning

    def order(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Return the columns to sort by, in place of the given ones."""
        others = (column for column in columns if column.name != self.column.name)
        return (self.column, *others)

    def fits(self, key: Sequence[Column]) -> bool:
        """Return whether a table has the column: a table of another definition may lack it."""
        return self.column in key

    @property
    def _size(self) -> int:
        step = self.partitions.step
        return step if isinstance(step, int) else _STEPS[step]


def clusterings(graph: Graph, zone: str) -> Mapping[str, Clustering]:
    """Return how the feeders of windows are stored, by name.

    If windows are over several columns of a feeder, the column of most windows wins, and of equally
    many, the first window's; if the steps of windows differ, the shortest wins; if the time zones
    of their days differ, the first window's. Windows of other zones read the files that overlap.

    Args:
        zone: the time zone whose days divide timestamps.
    """
    by_stage: dict[str, list[Clustering]] = {}
    for stage in graph.producers:
        window = stage.kind.upkeep.window
        if window is None:
            continue
        over = planned(window, stage.feeders[0].schema.key, zone, stage=stage.name)
        for feeder in stage.merged:
            column = feeder.schema.key.columns[over.position]
            by_stage.setdefault(feeder.name, []).append(Clustering(column, over.partitions))
    return {name: _chosen(wanted) for name, wanted in by_stage.items()}


def file_ends(counts: NDArray[np.int64], least: int) -> NDArray[np.int64]:
    """Return the partitions after which a file ends.

    A partition of at least ``least`` rows has its own file; smaller ones share a file until it has
    that many rows.

    Args:
        counts: the number of rows of each partition.
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
    over = [one for one in wanted if one.column.name == most]
    shortest, first = min(over, key=lambda one: one._size), over[0].partitions
    days = replace(shortest.partitions, zone=first.zone, of_place=first.of_place)
    return replace(shortest, partitions=days)
