"""Scheduled stages: the protocol of kinds whose rows tasks make, and the agenda of a date.

An `Agenda` goes through the scheduled stages of a graph, feeders first, and records the outcome of
each task. The invariant: a task runs only if it is due, and only when all its dependencies are
present.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeAlias

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
from deltaproduce.times.zones import moment_on_clock, name_of

ForeignFunction: TypeAlias = Callable[[pa.Table, Task], pa.Table]
"""A user function: takes the rows of its query, and the task; returns the partition's rows."""


class Listed(Protocol):
    """The expected tasks of a stage, by columns and in order, as an agenda reads them.

    Attributes:
        stage: its name.
        partitions: the partitions that they make, in the partition columns.
        present: which tasks are made and clean.
        missing: which were never made.
        marked: which a backfill has marked, and nobody has made since.
        waits: which have a dependency that is not present.
        stuck: which of them wait for a dependency that no remaining task can make.
        inputs: for each task a hash of the rows that it reads.
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
    def marked(self) -> Marks: ...  # noqa: D102 see the class

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
        """Return the partitions of tasks, by position."""

    def tasks(self, rows: Numbers) -> Iterator[Task]:
        """Yield tasks as users see them, by position."""

    def among(self, partitions: pa.Table) -> Marks:
        """Return which tasks make one of the partitions, given in the partition columns."""

    def rows_of(self, rows: Numbers) -> int:
        """Return how many rows the tasks made when they last ran."""

    def reading(self, partitions: Mapping[str, pa.Table]) -> Marks:
        """Return which tasks read one of the partitions, by feeder."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The tasks of a stage that run now.

    Attributes:
        rows: their positions, in order.
        due: which of all tasks are due, now or later.
        waiting: which of all tasks are not present until these have run.
        stuck: those of ``waiting`` that no task left for later can make.
    """

    rows: Numbers
    due: Marks
    waiting: Marks
    stuck: Marks

    def after(self, made: Numbers) -> tuple[Marks, Marks]:
        """Return ``waiting`` and ``stuck`` once the given tasks are made."""
        waiting, stuck = self.waiting.copy(), self.stuck.copy()
        waiting[made] = stuck[made] = False
        return waiting, stuck


@dataclass
class Agenda:
    """The work for a date, done and to do.

    Attributes:
        moment: the scheduled date, on the clock of the store.
        limit: the most tasks to make.
        makes: whether tasks are made, or only looked at.
        rehearses: whether to make nothing, but to count due tasks as made, with the rows that they
            have.
        marked: stage -> partitions whose tasks are made whatever their state; no other tasks are.
            Those that are due and not made stay marked.
        resumes: whether those that a version has marked are made, too, and no other tasks.
        changed_only: whether to make only tasks whose inputs this version changes.
        finished: marked tasks that are made already.
        passed: tasks that failed before, and are not retried.
        raises: whether the first failing task ends the run.
        present: source -> its present partitions, with or without rows.
        fed: stage -> the state of its partitions, for the stages that read it.
        listed: stage -> its expected tasks.
        outcomes: stage -> the outcomes of its tasks.
        known: results that do not depend on rows, shared by the agendas of one run.
    """

    moment: datetime
    limit: int | None = None
    makes: bool = True
    rehearses: bool = False
    marked: Mapping[str, pa.Table] | None = None
    resumes: bool = False
    changed_only: bool = False
    finished: Collection[Partition] = ()
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

    def at(self, scheduled: str) -> datetime:
        """Return the date that a text of `scheduled` says, on the clock of the store."""
        return moment_on_clock(scheduled, name_of(self.moment))

    @property
    def leaves(self) -> bool:
        """Whether the limit left tasks for later."""
        return any(len(rows) for rows in self._left.values())

    @property
    def run(self) -> Run:
        """The outcome of the run."""
        return Run(
            tuple(self.done),
            tuple(self.failed),
            self._named(self._blocked),
            tuple(self.dropped),
            self._named(self._left),
        )

    def tasks(self) -> list[Task]:
        """Return all tasks that were looked at."""
        return [
            task for listed in self.listed.values() for task in listed.tasks(np.arange(len(listed)))
        ]

    def chosen(self, listed: Listed) -> Chosen:
        """Choose the tasks of a stage that run now, and leave the rest for later."""
        self.listed[listed.stage] = listed
        waiting = listed.missing if self.marked is not None else ~listed.present
        if self.marked is not None:
            wanted = self.marked.get(listed.stage)
            due = np.zeros(len(listed), bool) if wanted is None else listed.among(wanted)
            if self.resumes:
                due |= listed.marked
        else:
            due = ~listed.present
            if self.changed_only:
                due &= listed.inputs_before != listed.inputs
        if not self.makes:
            return Chosen(np.flatnonzero(due & ~due), due & ~due, waiting, waiting)
        due &= ~self._among(listed, due, self.finished)
        waiting, wanted_now = waiting | due, due.copy()
        due &= ~self._among(listed, due, self.passed)
        blocked = due & listed.stuck
        rows = np.flatnonzero(due & ~listed.waits)
        most = len(rows) if self.limit is None else max(self.limit - self._taken, 0)
        left = due & ~blocked
        left[rows[:most]] = False
        self._blocked[listed.stage] = np.flatnonzero(blocked)
        self._left[listed.stage] = np.flatnonzero(left)
        self._taken += len(rows[:most])
        return Chosen(rows[:most], wanted_now, waiting, waiting & ~left)

    def _among(self, listed: Listed, due: Marks, some: Collection[Partition]) -> Marks:
        """Return which of the due tasks are some of those that are named."""
        found, mine = np.zeros(len(listed), bool), np.flatnonzero(due if some else due & ~due)
        found[mine] = [of in some for of in listed.named(mine)]
        return found

    def has_failed(self, of: Partition, error: Exception) -> None:
        """Record that a task failed; its partition stays unchanged.

        Raises:
            Exception: the error, if it ends the run.
        """
        if self.raises:
            raise error
        self.failed.append(FailedTask(of, error))

    def _named(self, rows: Mapping[str, Numbers]) -> tuple[Partition, ...]:
        return tuple(of for stage, some in rows.items() for of in self.listed[stage].named(some))


@dataclass(frozen=True, slots=True)
class Tasked:
    """The outcome of a stage's tasks in a version.

    Attributes:
        rows: the replacement of partitions that were made or dropped; None if none was.
        records: the changes for the stage that keeps records; None if there are none.
        made: the names of the partitions that were made.
    """

    rows: Batch | None
    records: Batch | None
    made: tuple[str, ...]


class MadeByTasks(DerivedKind):
    """The kind of a stage that no step reaches: only tasks make its rows, its own or another's."""

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
    """The kind of a stage whose own tasks make its rows."""

    __slots__ = ()

    @property
    @abstractmethod
    def drops(self) -> bool:
        """Whether partitions that no task makes any more are dropped."""

    @abstractmethod
    def records(self, stage: Stage) -> Stage:
        """Return the stage that keeps records of its tasks, which follows it in the graph."""

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
            version: the version number that they are made for.
            anew: the stage has other columns than its tables, so that nothing in them counts.

        Raises:
            ProducerError: a task failed, and the agenda ends the run.
        """

    def pairs(self, stage: Stage, feeder: Stage, rows: Rows, engines: Engines) -> Rows:
        """See `DerivedKind.pairs`: partitions are made of partitions, and no key of a key.

        Raises:
            NotFoundError: always.
        """
        raise NotFoundError(
            f"{stage.name!r} is made by tasks, of whole partitions of {feeder.name!r}: its keys "
            "have no lineage; store.tasks tells what each partition was made of"
        )


def scheduled_kind(stage: Stage) -> ScheduledKind:
    """Return the kind of a stage whose rows tasks make.

    Raises:
        DefinitionError: tasks do not make its rows; with `stage`.
    """
    if not isinstance(stage.kind, ScheduledKind):
        raise unfit(stage, "ScheduledKind")
    return stage.kind
