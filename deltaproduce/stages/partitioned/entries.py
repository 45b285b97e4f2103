"""Entries: the tasks of a stage, what each depends on, and whether it is as it should be.

Pure. The invariant: a task is dirty if it was made by another definition, or of other rows than its
dependencies have now, and for no other reason.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import DataType

from deltaproduce.shown.tasks import Partition, State, Task, Values
from deltaproduce.stages.partitioned.conditions import Read
from deltaproduce.stages.partitioned.scope.clauses import Scope
from deltaproduce.stages.partitioned.scope.partitions import table_of
from deltaproduce.stages.partitioned.scope.scalars import type_name
from deltaproduce.types.json_fields import parsed


@dataclass(frozen=True, slots=True)
class Record:
    """What is kept of a task that was made.

    Attributes:
        definition: a digest of what made it.
        inputs: the partitions with rows that it was made of, by name, and their digests.
        scheduled: the date, or time, in ISO 8601, that it was last made for.
    """

    definition: str
    inputs: Mapping[str, str]
    scheduled: str


@dataclass(frozen=True, slots=True)
class Fed:
    """A feeder as tasks see it.

    Attributes:
        columns: its partition columns, with their types.
        extent: its partitions that are to exist.
        digests: those that have rows.
        waiting: those that are not there as they should be.
        drops: partitions that are not to exist any more are dropped.
    """

    stage: str
    columns: tuple[tuple[str, DataType], ...]
    extent: Sequence[Values]
    digests: Mapping[Values, str]
    waiting: Collection[Values]
    drops: bool = False

    @property
    def table(self) -> pa.Table:
        """The partitions that are to exist, a row each."""
        return table_of(self.extent, self.columns)

    def named(self, values: Values) -> Partition:
        """A partition of it."""
        names = (name for name, _ in self.columns)
        return Partition(self.stage, tuple(zip(names, values, strict=True)))


@dataclass(frozen=True, slots=True)
class Entry:
    """A task that is to exist.

    Attributes:
        dependencies: the partitions that it reads, by feeder.
        inputs: those that have rows, by name, and their digests.
        waits: a dependency is not there as it should be.
    """

    of: Partition
    values: Values
    scope: Scope
    dependencies: tuple[tuple[str, Values], ...]
    names: tuple[Partition, ...]
    inputs: Mapping[str, str]
    definition: str
    state: State
    waits: bool

    def task(self, columns: Mapping[str, DataType]) -> Task:
        """The task as users see it."""
        return Task(
            self.of.stage,
            dict(self.of.values),
            {name: value.value for name, value in self.scope.items()},
            self.names,
            self.state,
            {name: type_name(kind) for name, kind in columns.items()},
            {name: type_name(value.data_type) for name, value in self.scope.items()},
        )


def entries(
    stage: str,
    columns: Sequence[tuple[str, DataType]],
    planned: Mapping[Values, Scope],
    reads: Sequence[Read],
    definition: Callable[[Scope], str],
    fed: Mapping[str, Fed],
    records: Mapping[Values, Record],
) -> list[Entry]:
    """The tasks of a stage, with what each depends on and what is known of it.

    Args:
        columns: the stage's partition columns, with their types.
        planned: its partitions that are to exist.
        definition: what makes a task, as text.
        fed: its feeders, by name.
    """
    tables = {name: feeder.table for name, feeder in fed.items()}
    found = []
    for values, scope in planned.items():
        dependencies = _dependencies(reads, fed, tables, scope)
        inputs = {
            str(fed[name].named(of)): fed[name].digests[of]
            for name, of in dependencies
            if of in fed[name].digests
        }
        made_by = hashlib.sha256(definition(scope).encode()).hexdigest()
        names = (name for name, _ in columns)
        found.append(
            Entry(
                Partition(stage, tuple(zip(names, values, strict=True))),
                values,
                scope,
                dependencies,
                tuple(fed[name].named(of) for name, of in dependencies),
                inputs,
                made_by,
                _state(records.get(values), made_by, inputs, fed),
                any(of in fed[name].waiting for name, of in dependencies),
            )
        )
    return found


def _dependencies(
    reads: Sequence[Read], fed: Mapping[str, Fed], tables: Mapping[str, pa.Table], scope: Scope
) -> tuple[tuple[str, Values], ...]:
    """The partitions that a task reads, each once, in the order of its feeders and theirs."""
    found = dict[tuple[str, Values], None]()
    for name, feeder in fed.items():
        held = [read.held(tables[name], scope) for read in reads if read.feeder == name]
        for place, values in enumerate(feeder.extent):
            if any(marks[place] for marks in held):
                found[name, values] = None
    return tuple(found)


def _state(
    record: Record | None, definition: str, inputs: Mapping[str, str], fed: Mapping[str, Fed]
) -> State:
    if record is None:
        return "missing"
    if record.definition != definition or any(
        record.inputs.get(name) != found for name, found in inputs.items()
    ):
        return "dirty"
    gone = [name for name in record.inputs if name not in inputs]
    return "dirty" if gone and not all(_is_dropped(name, fed) for name in gone) else "present"


def _is_dropped(name: str, fed: Mapping[str, Fed]) -> bool:
    """Whether a partition is gone because no task asks for it any more, which dirties nobody."""
    return any(
        one.drops
        and name.startswith(f"{one.stage}/")
        and all(str(one.named(values)) != name for values in one.extent)
        for one in fed.values()
    )


def inputs_text(inputs: Mapping[str, str]) -> str:
    """The inputs of a record as it stores them."""
    return json.dumps(dict(sorted(inputs.items())), separators=(",", ":"))


def inputs_of(text: str) -> dict[str, str]:
    """The inverse of `inputs_text`."""
    found = parsed(text)
    assert isinstance(found, dict)
    return found
