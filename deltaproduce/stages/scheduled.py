"""Scheduled stages: the protocol of kinds whose rows tasks make, and the agenda of a date.

An `Agenda` goes through the scheduled stages of a graph, feeders first, and is told what became of
each task. The invariant: a task is made only if it is due, and only when all that it depends on is
there as it should be.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.engine import Rows
from deltaproduce.errors import NotFoundError
from deltaproduce.model.graph import Stage
from deltaproduce.shown.tasks import FailedTask, Partition, Run, State, Task, Values
from deltaproduce.stages.batches import Batch
from deltaproduce.stages.inputs import StageInput
from deltaproduce.stages.kind import unfit
from deltaproduce.stages.productions import DerivedKind, Production
from deltaproduce.storage.stored import Stored


class Considered(Protocol):
    """A task as an agenda sees it.

    Attributes:
        of: the partition that it makes.
        inputs: the partitions with rows that it is made of, and their digests.
        waits: a dependency is not there as it should be.
    """

    @property
    def of(self) -> Partition: ...  # noqa: D102 see the class

    @property
    def values(self) -> Values: ...  # noqa: D102 see the class

    @property
    def state(self) -> State: ...  # noqa: D102 see the class

    @property
    def inputs(self) -> Mapping[str, str]: ...  # noqa: D102 see the class

    @property
    def waits(self) -> bool: ...  # noqa: D102 see the class


@dataclass
class Agenda:
    """What is to be done for a date, and what was.

    Attributes:
        moment: the date that is scheduled, in UTC.
        limit: how many tasks are made at most.
        makes: whether tasks are made at all, or only looked at.
        marked: stage -> tasks that are made whatever their state, and no others are.
        changed_only: only tasks are made whose inputs this version changes.
        passed: tasks that failed before, and are not tried again.
        raises: whether the first task that fails ends all.
        present: source -> its partitions that there are, with or without rows.
        extents: stage -> its partitions that are to exist, of those that were looked at.
        waiting: stage -> those that are not there as they should be.
        tasks: all that were looked at.
        outcomes: stage -> what became of its tasks.
        digests: feeder, and whether as it was before this version -> those of its partitions.
    """

    moment: datetime
    limit: int | None = None
    makes: bool = True
    marked: Mapping[str, Collection[Values]] | None = None
    changed_only: bool = False
    passed: Collection[Partition] = ()
    raises: bool = False
    present: Mapping[str, Collection[Values]] = field(default_factory=dict)
    extents: dict[str, Sequence[Values]] = field(default_factory=dict)
    waiting: dict[str, set[Values]] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)
    done: list[Partition] = field(default_factory=list)
    failed: list[FailedTask] = field(default_factory=list)
    blocked: list[Partition] = field(default_factory=list)
    dropped: list[Partition] = field(default_factory=list)
    left: list[Partition] = field(default_factory=list)
    outcomes: dict[str, Tasked] = field(default_factory=dict)
    digests: dict[tuple[str, bool], Mapping[Values, str]] = field(default_factory=dict)

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
    def run(self) -> Run:
        """What was done."""
        return Run(
            tuple(self.done),
            tuple(self.failed),
            tuple(self.blocked),
            tuple(self.dropped),
            tuple(self.left),
        )

    def chosen(self, entry: Considered, before: Considered | None) -> bool:
        """Whether a task is to be made now; what is not, is put where it belongs.

        Args:
            before: the same as it was before this version; None if it was not looked at.
        """
        stage = entry.of.stage
        if self.marked is not None:
            due = entry.values in self.marked.get(stage, ())
        else:
            due = entry.state != "present"
            if due and self.changed_only:
                due = before is None or before.inputs != entry.inputs
        if not due or not self.makes:
            if entry.state == "missing" or (entry.state == "dirty" and self.marked is None):
                self._put_off(entry)
            return False
        if entry.of in self.passed:
            return self._put_off(entry)
        if entry.waits:
            self.blocked.append(entry.of)
            return self._put_off(entry)
        if self.limit is not None and len(self.done) + len(self.failed) >= self.limit:
            self.left.append(entry.of)
            return self._put_off(entry)
        return True

    def has_failed(self, entry: Considered, error: Exception) -> None:
        """A task failed: what it would have made stays as it was.

        Raises:
            Exception: the error, if it is to end all.
        """
        if self.raises:
            raise error
        self.failed.append(FailedTask(entry.of, error))
        self._put_off(entry)

    def _put_off(self, entry: Considered) -> bool:
        self.waiting.setdefault(entry.of.stage, set()).add(entry.values)
        return False


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
