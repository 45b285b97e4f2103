"""Tasks: the partitions of a stage that are made one by one, and what is known of each.

Pure. The invariant: a partition is named by its stage and the values of its partition columns; two
that are equal have equal names.
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
"""The values of a stage's partition columns, in their order; none of a stage without any."""

State: TypeAlias = Literal["present", "missing", "dirty"]
"""Whether a partition was made, and whether what it was made of is still the same."""

Typed: TypeAlias = tuple[tuple[str, Any, str], ...]
"""Names, values and the names of their types."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of a stage, or all of a stage that has none.

    Attributes:
        values: the partition columns, and their values.
    """

    stage: str
    values: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return "/".join([self.stage, *(f"{name}={told(value)}" for name, value in self.values)])


@dataclass(frozen=True, slots=True, repr=False)
class Task:
    """One partition that is to exist at a date.

    Attributes:
        partition: its partition columns, and their values.
        scope: what the names in its query stand for.
        dependencies: the partitions that it reads, whether they are there or not.
        state: ``present``, ``missing``, or ``dirty``: made of other rows, or by another definition.
        partition_types: the types of its partition columns.
        scope_types: those of the names in its scope.
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
        """The partition that it makes."""
        return Partition(self.stage, tuple(self.partition.items()))

    def as_tables(self) -> tuple[Table, ...]:
        """Its evaluation scope, partition columns and dependencies."""
        scope = sorted(self.scope)
        return (
            Table(
                "Evaluation Scope",
                ("name", "value", "type"),
                tuple((name, told(self.scope[name]), self.scope_types[name]) for name in scope),
            ),
            Table(
                "Partition columns",
                ("column", "value", "type"),
                tuple(
                    (name, told(value), self.partition_types[name])
                    for name, value in self.partition.items()
                ),
            ),
            Table(
                "Dependencies", ("partition",), tuple((str(each),) for each in self.dependencies)
            ),
        )

    def show(self) -> None:
        """Print its scope, partition columns and dependencies in three tables."""
        print(text(self.as_tables()))  # noqa: T201 that is what it is for


@dataclass(frozen=True, slots=True)
class Size:
    """What there is of some tasks of a stage.

    Attributes:
        tasks: how many they are.
        rows: how many rows they made when they were last made.
        bytes: about how many bytes these have in memory.
    """

    stage: str
    tasks: int
    rows: int
    bytes: int


class Backfill(Tabular, tuple[Task, ...]):
    """The tasks that a backfill has made again, or would: feeders first, as they were before.

    Attributes:
        number: that of the version that it has published; None of one that would be.
        sizes: how much that is, by stage.
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
        """How much it is, by stage; the rows are those before it."""
        rows = tuple((one.stage, one.tasks, one.rows, one.bytes) for one in self.sizes)
        did = "would make" if self.number is None else "has made"
        return (Table(f"a backfill {did}", ("stage", "tasks", "rows", "bytes"), rows),)


@dataclass(frozen=True, slots=True)
class FailedTask:
    """A task that failed.

    Attributes:
        of: the partition that it would have made.
        error: why.
    """

    of: Partition
    error: Exception

    def __str__(self) -> str:
        return str(self.of)


@dataclass(frozen=True, slots=True, repr=False)
class Run:
    """What a run of tasks has done.

    Attributes:
        done: the tasks that were made, in order.
        failed: those that failed, and why.
        blocked: those that wait for a failed task, or for a partition that has not arrived.
        dropped: the partitions that no task asks for any more, and are gone.
        left: those that are still to be made, as there were more than the run was to make.
    """

    done: tuple[Partition, ...] = ()
    failed: tuple[FailedTask, ...] = ()
    blocked: tuple[Partition, ...] = ()
    dropped: tuple[Partition, ...] = ()
    left: tuple[Partition, ...] = ()

    def __repr__(self) -> str:
        parts = ("done", "failed", "blocked", "dropped", "left")
        return one_line(self, **{name: len(getattr(self, name)) for name in parts})


def told(value: object) -> str:
    """A value as people read it: a time in UTC, a date in ISO 8601, null as ``null``."""
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
