"""Tasks: the partitions of a stage that are computed one by one, and their states.

Pure. The invariant: a partition is named by its stage and the values of its partition columns;
equal partitions have equal names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Literal, TypeAlias

from deltaproduce.shown.table import Table
from deltaproduce.shown.tabular import Tabular, one_line
from deltaproduce.shown.text import text

Values: TypeAlias = tuple[Any, ...]
"""The values of a stage's partition columns, in order; empty for a stage without partitions."""

State: TypeAlias = Literal["present", "missing", "dirty"]
"""Whether a partition was computed, and whether its inputs are still the same."""

Typed: TypeAlias = tuple[tuple[str, Any, str], ...]
"""Names, values and the names of their types."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of a stage, or a whole stage without partitions.

    Attributes:
        values: the partition columns with their values.
    """

    stage: str
    values: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return "/".join(
            [self.stage, *(f"{name}={display_text(value)}" for name, value in self.values)]
        )


@dataclass(frozen=True, slots=True, repr=False)
class Task:
    """One partition that should exist at a date.

    Attributes:
        partition: its partition columns with their values.
        scope: the names that its query may use, with their values.
        dependencies: the partitions that it reads, whether they exist or not.
        state: ``present``, ``missing``, or ``dirty``: made from other rows, or with another
            definition.
        partition_types: the types of its partition columns.
        scope_types: the types of the names in its scope.
    """

    stage: str
    partition: Mapping[str, Any]
    scope: Mapping[str, Any]
    dependencies: tuple[Partition, ...]
    state: State
    partition_types: Mapping[str, str]
    scope_types: Mapping[str, str]

    def __str__(self) -> str:
        return str(self.of)

    def __repr__(self) -> str:
        return one_line(self, str(self), state=self.state)

    @property
    def of(self) -> Partition:
        """The partition that it computes."""
        return Partition(self.stage, tuple(self.partition.items()))

    def as_tables(self) -> tuple[Table, ...]:
        """Return its scope, partition columns and dependencies."""
        scope = sorted(self.scope)
        return (
            Table(
                "Evaluation Scope",
                ("name", "value", "type"),
                tuple(
                    (name, display_text(self.scope[name]), self.scope_types[name]) for name in scope
                ),
            ),
            Table(
                "Partition columns",
                ("column", "value", "type"),
                tuple(
                    (name, display_text(value), self.partition_types[name])
                    for name, value in self.partition.items()
                ),
            ),
            Table(
                "Dependencies", ("partition",), tuple((str(each),) for each in self.dependencies)
            ),
        )

    def show(self) -> None:
        """Print its scope, partition columns and dependencies in three tables."""
        print(text(self.as_tables()))  # noqa: T201 printing is its purpose


@dataclass(frozen=True, slots=True)
class Size:
    """The size of some tasks of a stage.

    Attributes:
        tasks: the number of tasks.
        rows: the number of rows that they had made before.
        bytes: about how many bytes these take in memory.
    """

    stage: str
    tasks: int
    rows: int
    bytes: int


class Backfill(Tabular, tuple[Task, ...]):
    """The tasks that a backfill ran again, or would run: feeders first, as they were before.

    Attributes:
        number: the number of the published version; None for a dry run.
        sizes: the sizes of the tasks, by stage.
    """

    number: int | None
    sizes: tuple[Size, ...]

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks."""
        return tuple(map(str, self))

    def __repr__(self) -> str:
        return one_line(self, tasks=len(self), version=self.number)

    def __reduce__(self) -> tuple[Any, ...]:
        return Backfill, (tuple(self),), self.__dict__

    def as_tables(self) -> tuple[Table, ...]:
        """Return the sizes by stage; rows are those before the backfill."""
        rows = tuple((one.stage, one.tasks, one.rows, one.bytes) for one in self.sizes)
        did = "would make" if self.number is None else "has made"
        return (Table(f"a backfill {did}", ("stage", "tasks", "rows", "bytes"), rows),)


@dataclass(frozen=True, slots=True)
class FailedTask:
    """A task that failed.

    Attributes:
        of: the partition that it computes.
        error: why it failed.
    """

    of: Partition
    error: Exception

    def __str__(self) -> str:
        return str(self.of)


@dataclass(frozen=True, slots=True, repr=False)
class Run:
    """What a run of tasks did.

    Attributes:
        done: the tasks that ran, in order.
        failed: the tasks that failed, and why.
        blocked: the tasks that wait for a failed task, or for a partition that has not arrived.
        dropped: the partitions that no task asks for any more, and that were removed.
        left: the tasks that remain because of ``max_tasks``, and those that wait only for them.
    """

    done: tuple[Partition, ...] = ()
    failed: tuple[FailedTask, ...] = ()
    blocked: tuple[Partition, ...] = ()
    dropped: tuple[Partition, ...] = ()
    left: tuple[Partition, ...] = ()

    def __repr__(self) -> str:
        parts = ("done", "failed", "blocked", "dropped", "left")
        return one_line(self, **{name: len(getattr(self, name)) for name in parts})


def display_text(value: object) -> str:
    """Return a value as people read it: a time in UTC, a date in ISO 8601, null as ``null``."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
    return str(value)
