"""Scheduled stages: the protocol of kinds whose rows tasks make, and the agenda of a date.

An `Agenda` goes through the scheduled stages of a graph, feeders first, and is told what became of
each task. The invariant: a task is made only if it is due, and only when all that it depends on is
there as it should be.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import Marks, Numbers
from deltaproduce.engines.local.kernels.row_hashes import Hashes
from deltaproduce.errors import NotFoundError
from deltaproduce.model.graph import Stage
from deltaproduce.shown.tasks import FailedTask, Partition, Run, Task
from deltaproduce.stages.batches import Batch
from deltaproduce.stages.inputs import StageInput
from deltaproduce.stages.kind import unfit
from deltaproduce.stages.productions import DerivedKind, Production
from deltaproduce.storage.stored import Stored


class Listed(Protocol):
    """The tasks of a stage that are to exist, as an agenda sees them: by columns, in order.

    Attributes:
        stage: its name.
        partitions: those that they make, in the partition columns.
        present: which are as they should be.
        missing: which were never made.
        waits: which have a dependency that is not there as it should be.
        stuck: which of them wait for one that no task which is left can bring.
        inputs: of each a hash of the rows that it reads.
        inputs_before: the same before this version.
    """

    @property
    def stage(self) -> str: ...  # noqa: D102 see the class

    @property
    def partitions(self) -> pa.Table: ...  # noqa: D102 see the class

    @property
    def present(self) -> Marks: ...  # noqa: D102 see the class

    @property
    def missing(self) -> Marks: ...  # noqa: D102 see the class

    @property
    def waits(self) -> Marks: ...  # noqa: D102 see the class

    @property
    def stuck(self) -> Marks: ...  # noqa: D102 see the class

    @property
    def inputs(self) -> Hashes: ...  # noqa: D102 see the class

    @property
    def inputs_before(self) -> Hashes: ...  # noqa: D102 see the class

    def __len__(self) -> int: ...

    def named(self, rows: Numbers) -> Sequence[Partition]:
        """The partitions of some of them, by their places."""

    def tasks(self, rows: Numbers) -> Iterator[Task]:
        """Some of them as users see them, by their places."""

    def among(self, partitions: pa.Table) -> Marks:
        """Which are of some partitions, in the partition columns."""

    def rows_of(self, rows: Numbers) -> int:
        """How many rows some of them made when they were last made."""

    def reading(self, partitions: Mapping[str, pa.Table]) -> Marks:
        """Which read one of some partitions, by feeder."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which tasks of a stage run now.

    Attributes:
        rows: their places, in order.
        waiting: which of all tasks are not there as they should be until they ran.
        stuck: those of ``waiting`` that no task which is left for later can bring.
    """

    rows: Numbers
    waiting: Marks
    stuck: Marks

    def after(self, made: Numbers) -> tuple[Marks, Marks]:
        """``waiting`` and ``stuck`` when some of the tasks are made."""
        waiting, stuck = self.waiting.copy(), self.stuck.copy()
        waiting[made] = stuck[made] = False
        return waiting, stuck


@dataclass
class Agenda:
    """What is to be done for a date, and what was.

    Attributes:
        moment: the date that is scheduled, in UTC.
        limit: how many tasks are made at most.
        makes: whether tasks are made at all, or only looked at.
        rehearses: nothing is made; what would be counts as if it were, with the rows that it has.
        marked: stage -> partitions whose tasks are made whatever their state, and no others are.
        changed_only: only tasks are made whose inputs this version changes.
        passed: tasks that failed before, and are not tried again.
        raises: whether the first task that fails ends all.
        present: source -> its partitions that there are, with or without rows.
        fed: stage -> what is known of its partitions, for those that read it.
        listed: stage -> its tasks that are to exist.
        outcomes: stage -> what became of its tasks.
        known: what does not depend on rows, which agendas of one run share.
    """

    moment: datetime
    limit: int | None = None
    makes: bool = True
    rehearses: bool = False
    marked: Mapping[str, pa.Table] | None = None
    changed_only: bool = False
    passed: Collection[Partition] = ()
    raises: bool = False
    present: Mapping[str, pa.Table] = field(default_factory=dict)
    fed: dict[str, Any] = field(default_factory=dict)
    listed: dict[str, Listed] = field(default_factory=dict)
    done: list[Partition] = field(default_factory=list)
    failed: list[FailedTask] = field(default_factory=list)
    dropped: list[Partition] = field(default_factory=list)
    outcomes: dict[str, Tasked] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)
    _blocked: dict[str, Numbers] = field(default_factory=dict)
    _left: dict[str, Numbers] = field(default_factory=dict)
    _taken: int = 0

    @property
    def reason(self) -> str:
        """Why stages are looked at, in words."""
        date = self.moment.strftime("%Y-%m-%d %H:%M").removesuffix(" 00:00")
        return f"tasks of {date}" if self.marked is None else "tasks that are marked"

    @property
    def scheduled(self) -> str:
        """The date as text."""
        return self.moment.isoformat()

    @property
    def leaves(self) -> bool:
        """Whether there are tasks that were not made because there were too many."""
        return any(len(rows) for rows in self._left.values())

    @property
    def run(self) -> Run:
        """What was done."""
        return Run(
            tuple(self.done),
            tuple(self.failed),
            self._named(self._blocked),
            tuple(self.dropped),
            self._named(self._left),
        )

    def tasks(self) -> list[Task]:
        """All tasks that were looked at."""
        return [
            task for listed in self.listed.values() for task in listed.tasks(np.arange(len(listed)))
        ]

    def chosen(self, listed: Listed) -> Chosen:
        """Decide which tasks of a stage run now, and which run later."""
        self.listed[listed.stage] = listed
        waiting = listed.missing if self.marked is not None else ~listed.present
        if self.marked is not None:
            wanted = self.marked.get(listed.stage)
            due = np.zeros(len(listed), bool) if wanted is None else listed.among(wanted)
        else:
            due = ~listed.present
            if self.changed_only:
                due &= listed.inputs_before != listed.inputs
        if not self.makes:
            return Chosen(np.flatnonzero(due & ~due), waiting, waiting)
        waiting = waiting | due
        if self.passed:
            mine = np.flatnonzero(due)
            tried = [of in self.passed for of in listed.named(mine)]
            due[mine[np.array(tried, bool)]] = False
        blocked = due & listed.stuck
        rows = np.flatnonzero(due & ~listed.waits)
        most = len(rows) if self.limit is None else max(self.limit - self._taken, 0)
        left = due & ~blocked
        left[rows[:most]] = False
        self._blocked[listed.stage] = np.flatnonzero(blocked)
        self._left[listed.stage] = np.flatnonzero(left)
        self._taken += len(rows[:most])
        return Chosen(rows[:most], waiting, waiting & ~left)

    def has_failed(self, of: Partition, error: Exception) -> None:
        """A task failed: what it would have made stays as it was.

        Raises:
            Exception: the error, if it is to end all.
        """
        if self.raises:
            raise error
        self.failed.append(FailedTask(of, error))

    def _named(self, rows: Mapping[str, Numbers]) -> tuple[Partition, ...]:
        return tuple(of for stage, some in rows.items() for of in self.listed[stage].named(some))


@dataclass(frozen=True, slots=True)
class Tasked:
    """What became of a stage's tasks in a version.

    Attributes:
        rows: what takes the place of the partitions that were made or dropped; None if none was.
        records: what the stage that keeps records is told; None if there is nothing new.
        made: the names of the partitions that were made.
    """

    rows: Batch | None
    records: Batch | None
    made: tuple[str, ...]


class MadeByTasks(DerivedKind):
    """What a stage is that no step reaches: only tasks make its rows, its own or another's."""

    __slots__ = ()

    @property
    def scheduled(self) -> bool:
        """See `Kind.scheduled`."""
        return True

    def produced(self, production: Production, inputs: Sequence[StageInput]) -> None:
        """See `DerivedKind.produced`: only tasks make rows."""
        del production, inputs

    def changed(
        self,
        production: Production,
        inputs: Sequence[StageInput],
        content: Stored | None,
        mappings: Callable[[], Stored | None],
    ) -> None:
        """See `DerivedKind.changed`: only tasks make rows."""
        del production, inputs, content, mappings

    def sampled(
        self,
        production: Production,
        inputs: Sequence[StageInput],
        content: Stored | None,
        mappings: Callable[[], Stored | None],
        keys: Callable[[], object],
    ) -> None:
        """See `DerivedKind.sampled`: only tasks make rows."""
        del production, inputs, content, mappings, keys


class ScheduledKind(MadeByTasks):
    """What a stage is whose rows its own tasks make."""

    __slots__ = ()

    @property
    @abstractmethod
    def drops(self) -> bool:
        """Whether partitions that no task asks for any more are dropped."""

    @abstractmethod
    def records(self, stage: Stage) -> Stage:
        """The stage that keeps records of its tasks, which comes right after it."""

    @abstractmethod
    def tasked(
        self,
        production: Production,
        inputs: Sequence[StageInput],
        content: Stored | None,
        records: Callable[[Stage], Stored | None],
        agenda: Agenda,
        *,
        version: int,
        anew: bool,
    ) -> Tasked:
        """Make the tasks that are due.

        Args:
            content: the stage's rows; None if there are none.
            records: finds the rows of the stage that keeps records.
            version: the number of the version that they are made for.
            anew: the stage has other columns than its tables, so that nothing in them counts.

        Raises:
            ProducerError: a task failed, and the agenda says that this ends all.
        """

    def pairs(self, stage: Stage, feeder: Stage, rows: Rows, engines: Engines) -> Rows:
        """See `DerivedKind.pairs`: a partition is made of partitions, and no key of a key.

        Raises:
            NotFoundError: always.
        """
        raise NotFoundError(
            f"{stage.name!r} is made by tasks, of whole partitions of {feeder.name!r}: its keys "
            "have no lineage; store.tasks tells what each partition was made of"
        )


def scheduled_kind(stage: Stage) -> ScheduledKind:
    """A stage's kind, whose rows tasks make.

    Raises:
        DefinitionError: they do not; with `stage`.
    """
    if not isinstance(stage.kind, ScheduledKind):
        raise unfit(stage, "ScheduledKind")
    return stage.kind
