"""The protocol of kinds whose rows tasks make."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from typing_extensions import override

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.engine import Rows
from deltaproduce.errors import NotFoundError
from deltaproduce.model.graph import Stage
from deltaproduce.model.kind import TaskPartitions
from deltaproduce.shown.tasks import Task
from deltaproduce.stages.inputs import StageInput
from deltaproduce.stages.kind import unfit
from deltaproduce.stages.productions import DerivedKind, Production
from deltaproduce.stages.scheduled.outcomes import Outcomes, Tasked
from deltaproduce.stages.scheduled.schedules import Schedule
from deltaproduce.storage.stored import Stored

ForeignFunction: TypeAlias = Callable[[pa.Table, Task], pa.Table]
"""A user function: takes the rows of its query, and the task; returns the partition's rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskArguments:
    """What a stage's tasks are looked at with.

    Attributes:
        records: finds the rows of the stage that keeps records.
        so_far: what became of the tasks of the stages before it.
        rebuilds: the stage has other columns than its tables, so that nothing in them counts.
    """

    production: Production
    inputs: Sequence[StageInput]
    records: Callable[[Stage], Stored | None]
    schedule: Schedule
    so_far: Outcomes
    rebuilds: bool


class MadeByTasks(DerivedKind):
    """The kind of a stage that no step reaches: only tasks make its rows, its own or another's."""

    __slots__ = ()

    @property
    @override
    def tasks(self) -> TaskPartitions:
        return TaskPartitions(make_rows=True)

    @override
    def produced(self, production: Production, inputs: Sequence[StageInput]) -> None:
        """Only tasks make rows."""
        del production, inputs

    @override
    def changed(
        self,
        production: Production,
        inputs: Sequence[StageInput],
        content: Stored | None,
        mappings: Callable[[], Stored | None],
    ) -> None:
        """Only tasks make rows."""
        del production, inputs, content, mappings


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
    def tasked(self, given: TaskArguments, content: Stored | None, version: int) -> Tasked:
        """Make the tasks that are due.

        Args:
            content: the stage's rows; None if there are none.
            version: the version number that they are made for.

        Raises:
            ProducerError: a task failed, and the schedule ends the run.
        """

    @abstractmethod
    def foreseen(self, given: TaskArguments) -> Tasked:
        """Return the outcome as if all tasks that are due were made, with the rows they have."""

    @override
    def pairs(self, stage: Stage, feeder: Stage, rows: Rows, engines: Engines) -> Rows:
        """Partitions are made of partitions, and no key of a key.

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
