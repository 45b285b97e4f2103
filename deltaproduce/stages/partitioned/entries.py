"""Entries: the tasks of a stage, their dependencies, and whether they are clean.

Pure and columnar: the state of all tasks takes a few passes over arrays, and only tasks that are
due, or that someone looks at, become objects. The invariant: a task is dirty if another definition
made it, or if the rows of its dependencies have changed since, and for no other reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deltaproduce.engines.local.arrays import Marks, Numbers, matched
from deltaproduce.engines.local.kernels.row_hashes import Hashes, mixed, row_hashes
from deltaproduce.shown.tasks import Partition, State, Task, Values
from deltaproduce.stages.partitioned.links import Links
from deltaproduce.stages.scheduled.outcomes import Fed
from deltaproduce.stages.sql.expressions.literals import literal
from deltaproduce.stages.sql.scopes.clauses import Scope
from deltaproduce.stages.sql.scopes.coded import Coded
from deltaproduce.stages.sql.scopes.partitions import PlannedPartitions
from deltaproduce.stages.sql.scopes.scalars import type_name
from deltaproduce.stages.sql.scopes.tables import values_at
from deltaproduce.types.data_types import DataType
from deltaproduce.types.json.fields import parsed

STATES: Final[tuple[State, ...]] = ("present", "missing", "dirty")
_PRESENT, _MISSING, _DIRTY = range(3)
MARK: Final = np.uint64(0)
"""In place of the definition that made a task: a backfill has marked it."""
_AT_ONCE: Final = 1000
"""How many tasks become objects at a time."""


@dataclass(frozen=True, slots=True)
class ComputedTasks:
    """The records of a stage's tasks that were made.

    Attributes:
        keys: their partitions, each once.
        definitions: for each a hash of the definition that made it.
        inputs: a hash of the rows that it read.
        outputs: the sum of the hashes of the rows that it made.
        rows: the number of these rows.
        scheduled: the date, or time, in ISO 8601, that it was last made for.
        droppable: the part of its inputs that may be dropped, as `inputs_text`; None if nothing
            may.
    """

    keys: pa.Table
    definitions: Hashes
    inputs: Hashes
    outputs: Hashes
    rows: Numbers
    scheduled: pa.ChunkedArray
    droppable: pa.ChunkedArray | None = None

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True, slots=True)
class ExpectedTask:
    """An expected task.

    Attributes:
        row: its position among the tasks of its stage.
        dependencies: the partitions that it reads, by feeder.
    """

    row: int
    of: Partition
    values: Values
    scope: Scope
    dependencies: tuple[tuple[str, Values], ...]
    names: tuple[Partition, ...]
    state: State

    def task(self, columns: Mapping[str, DataType]) -> Task:
        """Return the task as users see it."""
        return Task(
            self.of.stage,
            dict(self.of.values),
            {name: value.value for name, value in self.scope.items()},
            self.names,
            self.state,
            {name: type_name(kind) for name, kind in columns.items()},
            {name: type_name(value.data_type) for name, value in self.scope.items()},
        )


@dataclass(frozen=True)
class Entries:
    """The expected tasks of a stage.

    Attributes:
        columns: the stage's partition columns, with their types.
        planned: their partitions and scopes; those of the scheduled date come first.
        current: the number of these; the others are of the date that they were last made for.
        links: the partitions that they read of each feeder.
        definitions: for each a hash of its definition.
        kept: the records of those that were made.
    """

    stage: str
    columns: tuple[tuple[str, DataType], ...]
    planned: PlannedPartitions
    current: int
    fed: Mapping[str, Fed]
    links: Mapping[str, Links]
    definitions: Hashes
    kept: ComputedTasks

    def __len__(self) -> int:
        return len(self.planned)

    @property
    def partitions(self) -> pa.Table:
        """The partitions that they make, in the partition columns."""
        return self.planned.partitions

    @cached_property
    def places(self) -> Numbers:
        """The position of each among those that were made; -1 if it was not."""
        return matched(self.planned.partitions, self.kept.keys)

    @cached_property
    def inputs(self) -> Hashes:
        """For each a hash of the rows that it reads."""
        return self._inputs({name: fed.digests for name, fed in self.fed.items()})

    @cached_property
    def inputs_before(self) -> Hashes:
        """The same before this version."""
        return self._inputs({name: fed.before for name, fed in self.fed.items()})

    @cached_property
    def waits(self) -> Marks:
        """Whether each has a dependency that is not present."""
        return self.depend_on({name: fed.waiting for name, fed in self.fed.items()})

    @cached_property
    def stuck(self) -> Marks:
        """Whether each has a dependency that is not present and that no remaining task can make."""
        return self.depend_on({name: fed.stuck for name, fed in self.fed.items()})

    def depend_on(self, marks: Mapping[str, Marks]) -> Marks:
        """Return whether each depends on one of the marked partitions of feeders."""
        are_marked = np.zeros(len(self), bool)
        for name, marks_of_feeder in marks.items():
            if marks_of_feeder.any():
                are_marked |= self.links[name].sums([marks_of_feeder.astype(np.uint64)])[0] > 0
        return are_marked

    @cached_property
    def states(self) -> NDArray[np.int8]:
        """The state of each, as its index in `STATES`."""
        return self._states(self.inputs)

    @cached_property
    def states_before(self) -> NDArray[np.int8]:
        """The same before this version."""
        return self._states(self.inputs_before)

    @property
    def present(self) -> Marks:
        """Whether each is made and clean."""
        return np.asarray(self.states == _PRESENT)

    @property
    def missing(self) -> Marks:
        """Whether each was never made."""
        return np.asarray(self.states == _MISSING)

    @property
    def marked(self) -> Marks:
        """Whether a backfill has marked each, and nobody has made it since."""
        marks = np.append(self.kept.definitions == MARK, False)
        return np.asarray(marks[self.places])

    @property
    def turned_dirty(self) -> Marks:
        """Whether each was clean before this version, and is not after it."""
        return np.asarray((self.states == _DIRTY) & (self.states_before == _PRESENT))

    def named(self, rows: Numbers) -> list[Partition]:
        """Return the partitions of tasks, by position."""
        names = [name for name, _ in self.columns]
        return [
            Partition(self.stage, tuple(zip(names, values, strict=True)))
            for values in values_at(self.planned.partitions, rows)
        ]

    def entries(self, rows: Numbers) -> Iterator[ExpectedTask]:
        """Yield tasks, by position."""
        for first in range(0, len(rows), _AT_ONCE):
            yield from self._entries(rows[first : first + _AT_ONCE])

    def _entries(self, rows: Numbers) -> Iterator[ExpectedTask]:
        reads = [list(self._reads(name, rows)) for name in self.links]
        tasks = zip(
            rows.tolist(), self.named(rows), self.planned.scopes.taken(rows).listed(), strict=True
        )
        for place, (row, of, scope) in enumerate(tasks):
            names = tuple(one for feeder in reads for one in feeder[place])
            yield ExpectedTask(
                row,
                of,
                tuple(value for _, value in of.values),
                scope,
                tuple((one.stage, _values(one)) for one in names),
                names,
                STATES[self.states[row]],
            )

    def _reads(self, name: str, rows: Numbers) -> Iterator[list[Partition]]:
        """Yield the partitions of a feeder that each of the tasks reads, in order."""
        links = self.links[name]
        of, partitions = links.pairs(links.groups[rows])
        order = np.lexsort((partitions, of))
        of, partitions = of[order], partitions[order]
        once, numbers = np.unique(partitions, return_inverse=True)
        named = self.fed[name].named(once)
        ends = np.searchsorted(of, np.arange(len(rows) + 1)).tolist()
        for first, last in pairwise(ends):
            yield [named[number] for number in numbers[first:last].tolist()]

    def scheduled(self, rows: Numbers, moment: str) -> pa.Array:
        """Return the dates that tasks are made for, as text.

        Args:
            moment: the scheduled date.
        """
        current = rows < self.current
        known = self.kept.scheduled.take(pa.array(self.places[rows[~current]])).to_pylist()
        moments = np.full(len(rows), moment, object)
        moments[~current] = known
        return pa.array(moments, pa.string())

    def tasks(self, rows: Numbers) -> Iterator[Task]:
        """Yield tasks as users see them, by position."""
        types = dict(self.columns)
        return (entry.task(types) for entry in self.entries(rows))

    def among(self, partitions: pa.Table) -> Marks:
        """Return which tasks make one of the partitions, given in the partition columns."""
        return matched(self.planned.partitions, partitions) >= 0

    def rows_of(self, rows: Numbers) -> int:
        """Return how many rows the tasks made when they last ran."""
        places = self.places[rows]
        return int(self.kept.rows[places[places >= 0]].sum())

    def reading(self, partitions: Mapping[str, pa.Table]) -> Marks:
        """Return which tasks read one of the partitions, by feeder."""
        marks = {
            name: matched(self.fed[name].partitions, of_stage) >= 0
            for name, of_stage in partitions.items()
            if name in self.fed
        }
        return self.depend_on(marks)

    def droppable(self, row: int) -> str:
        """Return digests of what a task reads of feeders that drop partitions, for its record."""
        indices = dict[str, int]()
        for name, fed in self.fed.items():
            if fed.drops:
                indices |= self._read(name, fed, row)
        return json.dumps(dict(sorted(indices.items())), separators=(",", ":"))

    def _read(self, name: str, fed: Fed, row: int) -> dict[str, int]:
        """Return the digests of non-empty partitions that a task reads of a feeder, by name."""
        rows = self.links[name].partitions(row)
        rows = rows[fed.digests[rows] != 0]
        return dict(zip(map(str, fed.named(rows)), fed.digests[rows].tolist(), strict=True))

    def _inputs(self, digests: Mapping[str, Hashes]) -> Hashes:
        numbers = np.zeros(len(self), np.uint64)
        for name, links in self.links.items():
            (sums,) = links.sums([digests[name]])
            numbers += sums * self.fed[name].factor
        return numbers

    def _states(self, inputs: Hashes) -> NDArray[np.int8]:
        states = np.full(len(self), _MISSING, np.int8)
        rows = np.flatnonzero(self.places >= 0)
        places = self.places[rows]
        same = self.kept.definitions[places] == self.definitions[rows]
        clean = same & (self.kept.inputs[places] == inputs[rows])
        states[rows] = np.where(clean, _PRESENT, _DIRTY)
        if self.kept.droppable is not None:
            for row in rows[same & ~clean].tolist():
                if self._lacks_dropped_alone(row, int(inputs[row])):
                    states[row] = _PRESENT
        return states

    def _lacks_dropped_alone(self, row: int, inputs: int) -> bool:
        """Return whether a task lacks only partitions no longer expected, so it stays clean."""
        assert self.kept.droppable is not None
        place = int(self.places[row])
        known = parsed(self.kept.droppable[place].as_py())
        assert isinstance(known, dict)
        there = {
            str(one)
            for name, fed in self.fed.items()
            if fed.drops
            for one in fed.named(self.links[name].partitions(row))
        }
        factors = {name: int(fed.factor) for name, fed in self.fed.items()}
        gone = sum(
            factors[name.partition("/")[0]] * digest
            for name, digest in known.items()
            if name not in there
        )
        return bool(gone) and (int(self.kept.inputs[place]) - gone - inputs) % (1 << 64) == 0


def definitions_of(planned: PlannedPartitions, text: str, names: Sequence[str]) -> Hashes:
    """Return a hash of the definition of each task.

    Args:
        text: the part that is equal for all.
        names: the names of the scope that its query uses.
    """
    base = np.uint64(int.from_bytes(sha256(text.encode()).digest()[:8], "big"))
    scopes = planned.scopes
    if not scopes.size or not names:
        return _unmarked(np.full(len(planned), base, np.uint64))
    fingerprints = np.full(len(planned), base, np.uint64)
    for place, name in enumerate(names):
        column = scopes.names[name]
        hashes = row_hashes(
            pa.table({"place": [place] * len(column.values), "x": _literals(column)})
        )
        fingerprints = fingerprints + hashes[column.codes]
    return _unmarked(mixed(fingerprints))


def _unmarked(definitions: Hashes) -> Hashes:
    """Return definitions of which none is the mark."""
    return np.where(definitions == MARK, np.uint64(1), definitions)


def _literals(column: Coded) -> pa.Array:
    """Return the values of a column as SQL literals."""
    each = replace(column, codes=np.arange(len(column.values)))
    return pa.array([literal(each.constant(row)) for row in range(len(each))], pa.string())


def _values(partition: Partition) -> Values:
    return tuple(value for _, value in partition.values)
