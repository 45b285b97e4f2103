"""Outcomes: what became of the tasks of stages, and the states of the stages that they read.

The invariant: an outcome is a value; whoever makes tasks returns it, and the next stage gets it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Marks, Numbers
from deltaproduce.engines.local.kernels.row_hashes import Hashes
from deltaproduce.shown.tasks import FailedTask, Partition, Run, Task
from deltaproduce.stages.batches import Batch
from deltaproduce.stages.scheduled.schedules import ChosenTasks, ListedTasks
from deltaproduce.stages.sql.scopes.tables import values_at
from deltaproduce.types.data_types import DataType


@dataclass(frozen=True, slots=True)
class Fed:
    """A feeder as tasks see it.

    Attributes:
        columns: its partition columns, with their types.
        table: its expected partitions, one row each, in its columns and a column of nulls.
        digests: the sums of their rows' hashes; 0 for an empty partition.
        before: the same before this version.
        waiting: which of them are not present.
        stuck: which of these no task left for later can make.
        drops: whether partitions that are no longer expected are dropped.
    """

    stage: str
    columns: tuple[tuple[str, DataType], ...]
    table: pa.Table
    digests: Hashes
    before: Hashes
    waiting: Marks
    stuck: Marks
    drops: bool = False

    @property
    def partitions(self) -> pa.Table:
        """The partition columns."""
        return self.table.select([name for name, _ in self.columns])

    @property
    def factor(self) -> np.uint64:
        """The factor of its digests, which distinguishes equal digests of two feeders."""
        number = int.from_bytes(sha256(self.stage.encode()).digest()[:8], "big")
        return np.uint64(number | 1)

    def named(self, rows: Numbers) -> list[Partition]:
        """Return its partitions at the given positions."""
        names = [name for name, _ in self.columns]
        return [
            Partition(self.stage, tuple(zip(names, values, strict=True)))
            for values in values_at(self.partitions, rows)
        ]


@dataclass(frozen=True, slots=True)
class Tasked:
    """The outcome of a stage's tasks in a version.

    Attributes:
        listed: its expected tasks.
        chosen: those that were to run.
        fed: the stages that they read, and the stage itself as its readers see it, by name.
        done: the partitions that were made.
        failed: the tasks that failed; their partitions stay unchanged.
        dropped: the partitions that were dropped.
        rows: the replacement of partitions that were made or dropped; None if none was.
        records: the changes for the stage that keeps records; None if there are none.
    """

    listed: ListedTasks
    chosen: ChosenTasks
    fed: Mapping[str, Fed]
    done: tuple[Partition, ...] = ()
    failed: tuple[FailedTask, ...] = ()
    dropped: tuple[Partition, ...] = ()
    rows: Batch | None = None
    records: Batch | None = None


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The outcomes of the stages that have been looked at, feeders first.

    Attributes:
        stages: by the stages' names.
    """

    stages: Mapping[str, Tasked] = field(default_factory=dict)

    def beside(self, tasked: Tasked) -> Outcomes:
        """Return them with one more."""
        return Outcomes({**self.stages, tasked.listed.stage: tasked})

    @property
    def taken(self) -> int:
        """How many tasks were to run."""
        return sum(len(one.chosen.rows) for one in self.stages.values())

    @property
    def fed(self) -> dict[str, Fed]:
        """The states of stages as tasks see them, by name."""
        return {name: state for one in self.stages.values() for name, state in one.fed.items()}

    @property
    def leaves(self) -> bool:
        """Whether the limit left tasks for later."""
        return any(len(one.chosen.left) for one in self.stages.values())

    @property
    def run(self) -> Run:
        """The outcome as users see it."""
        every = self.stages.values()
        return Run(
            tuple(chain.from_iterable(one.done for one in every)),
            tuple(chain.from_iterable(one.failed for one in every)),
            _named((one.listed, one.chosen.blocked) for one in every),
            tuple(chain.from_iterable(one.dropped for one in every)),
            _named((one.listed, one.chosen.left) for one in every),
        )

    def tasks(self) -> list[Task]:
        """Return all tasks that were looked at."""
        every = (one.listed for one in self.stages.values())
        return [task for listed in every for task in listed.tasks(np.arange(len(listed)))]


def _named(groups: Iterable[tuple[ListedTasks, Numbers]]) -> tuple[Partition, ...]:
    return tuple(of for listed, rows in groups for of in listed.named(rows))
