"""Schedules: which tasks are due at a date, and which of them run now.

Pure: a schedule says what is chosen among the tasks of a stage, and records nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Marks, Numbers
from deltaproduce.engines.local.kernels.row_hashes import Hashes
from deltaproduce.shown.tasks import Partition, Task
from deltaproduce.times.zones import moment_on_clock, name_of

_Remembered = TypeVar("_Remembered")


class ListedTasks(Protocol):
    """The expected tasks of a stage, by columns and in order, as a schedule reads them.

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
class Absent:
    """The tasks that are not present.

    Attributes:
        only_changed: whether only those are made whose inputs this version changes.
    """

    only_changed: bool = False

    @property
    def of_other_dates(self) -> bool:
        """Whether tasks that were made for other dates count, too."""
        return False

    @property
    def drops(self) -> bool:
        """Whether partitions that no task makes any more are dropped."""
        return not self.only_changed

    def due(self, listed: ListedTasks) -> Marks:
        """Return which tasks are to be made."""
        due = ~listed.present
        return due & (listed.inputs_before != listed.inputs) if self.only_changed else due

    def waiting(self, listed: ListedTasks) -> Marks:
        """Return which tasks are not present before any is made."""
        return ~listed.present


@dataclass(frozen=True, slots=True)
class Marked:
    """Tasks that are made whatever their state; no others are. Those that are not stay marked.

    Attributes:
        partitions: stage -> those of its tasks.
        resumes: whether those that a version has marked are made, too.
        finished: those that are made already.
    """

    partitions: Mapping[str, pa.Table]
    resumes: bool = False
    finished: Collection[Partition] = ()

    @property
    def of_other_dates(self) -> bool:
        """See `Absent.of_other_dates`."""
        return True

    @property
    def drops(self) -> bool:
        """See `Absent.drops`."""
        return False

    def due(self, listed: ListedTasks) -> Marks:
        """See `Absent.due`."""
        wanted = self.partitions.get(listed.stage)
        due = np.zeros(len(listed), bool) if wanted is None else listed.among(wanted)
        if self.resumes:
            due = due | listed.marked
        return due & ~_among(listed, due, self.finished)

    def waiting(self, listed: ListedTasks) -> Marks:
        """See `Absent.waiting`."""
        return listed.missing


@dataclass(frozen=True, slots=True)
class Looking:
    """No tasks: they are only looked at."""

    of_other_dates: bool = False

    @property
    def drops(self) -> bool:
        """See `Absent.drops`."""
        return False

    def due(self, listed: ListedTasks) -> Marks:
        """See `Absent.due`."""
        return np.zeros(len(listed), bool)

    def waiting(self, listed: ListedTasks) -> Marks:
        """See `Absent.waiting`."""
        return listed.missing if self.of_other_dates else ~listed.present


Wanted: TypeAlias = Absent | Marked | Looking


@dataclass(frozen=True, slots=True)
class ChosenTasks:
    """The tasks of a stage that run now.

    Attributes:
        rows: their positions, in order.
        due: which of all tasks are due, now or later.
        waiting: which of all tasks are not present until these have run.
        stuck: those of ``waiting`` that no task left for later can make.
        blocked: the positions of due tasks that no task left for later can free.
        left: the positions of due tasks that are left for later.
    """

    rows: Numbers
    due: Marks
    waiting: Marks
    stuck: Marks
    blocked: Numbers
    left: Numbers

    def after(self, computed: Numbers) -> tuple[Marks, Marks]:
        """Return ``waiting`` and ``stuck`` once the given tasks are made."""
        waiting, stuck = self.waiting.copy(), self.stuck.copy()
        waiting[computed] = stuck[computed] = False
        return waiting, stuck


@dataclass
class Memory:
    """What kinds remember of their stages during one run; none of it depends on rows."""

    _stages: dict[str, object] = field(default_factory=dict)

    def of(self, stage: str, sort: type[_Remembered]) -> _Remembered:
        """Return what is remembered of a stage; a new ``sort()`` at first."""
        memory = self._stages.setdefault(stage, sort())
        assert isinstance(memory, sort)  # a stage has one kind
        return memory


@dataclass(frozen=True, slots=True)
class Schedule:
    """The tasks to make at a date.

    Attributes:
        moment: the scheduled date, on the clock of the store.
        wanted: which tasks are due.
        present: source -> its present partitions, with or without rows.
        limit: the most tasks to make; None for all.
        passed: tasks that failed before, and are not retried.
        raises: whether the first failing task ends the run.
        memory: shared by the schedules of one run.
    """

    moment: datetime
    wanted: Wanted
    present: Mapping[str, pa.Table] = field(default_factory=dict)
    limit: int | None = None
    passed: Collection[Partition] = ()
    raises: bool = False
    memory: Memory = field(default_factory=Memory, compare=False)

    @property
    def reason(self) -> str:
        """Why stages are looked at, in words."""
        date = self.moment.strftime("%Y-%m-%d %H:%M").removesuffix(" 00:00")
        return "tasks that are marked" if self.wanted.of_other_dates else f"tasks of {date}"

    @property
    def scheduled(self) -> str:
        """The date as text."""
        return self.moment.isoformat()

    def at(self, scheduled: str) -> datetime:
        """Return the date that a text of `scheduled` says, on the clock of the store."""
        return moment_on_clock(scheduled, name_of(self.moment))

    def chosen(self, listed: ListedTasks, taken: int) -> ChosenTasks:
        """Choose the tasks of a stage that run now, and leave the rest for later.

        Args:
            taken: how many tasks of other stages run before them.
        """
        wanted, waiting = self.wanted.due(listed), self.wanted.waiting(listed)
        waiting = waiting | wanted
        due = wanted & ~_among(listed, wanted, self.passed)
        blocked = due & listed.stuck
        rows = np.flatnonzero(due & ~listed.waits)
        most = len(rows) if self.limit is None else max(self.limit - taken, 0)
        left = due & ~blocked
        left[rows[:most]] = False
        stuck = waiting & ~left
        return ChosenTasks(
            rows[:most], wanted, waiting, stuck, np.flatnonzero(blocked), np.flatnonzero(left)
        )


def _among(listed: ListedTasks, due: Marks, partitions: Collection[Partition]) -> Marks:
    """Return which of the due tasks are some of those that are named."""
    marks = np.zeros(len(listed), bool)
    if partitions:
        mine = np.flatnonzero(due)
        marks[mine] = [of in partitions for of in listed.named(mine)]
    return marks
