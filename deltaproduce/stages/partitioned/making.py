"""Making: the tasks of one stage in one version.

The rows that tasks make replace their partitions, and are published with a record of each task in
one version. The invariant: a partition holds the rows of one run of its task, or of none; the
partition of a failed task stays unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import Numbers, empty, matched
from deltaproduce.engines.local.kernels.row_hashes import Hashes
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.sessions.on_demand import spark_errors
from deltaproduce.errors import DeltaProduceError, ProducerError, SessionError
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import Layout
from deltaproduce.shown.tasks import FailedTask, Partition
from deltaproduce.stages.batches import Batch
from deltaproduce.stages.inputs import StageInput, fed_by, hidden_input
from deltaproduce.stages.partitioned.digests import COUNT, DIGEST, digests, digests_of
from deltaproduce.stages.partitioned.entries import (
    MARK,
    ComputedTasks,
    Entries,
    ExpectedTask,
    definitions_of,
)
from deltaproduce.stages.partitioned.in_spark import numbered, queried
from deltaproduce.stages.partitioned.links import Links
from deltaproduce.stages.partitioned.on_driver import (
    called,
    conforming,
    resolved_for,
    run_query,
)
from deltaproduce.stages.partitioned.query import TaskQuery
from deltaproduce.stages.partitioned.records import read_records, records_batch, records_stage
from deltaproduce.stages.productions import Production
from deltaproduce.stages.scheduled.kinds import (
    ForeignFunction,
    ScheduledKind,
    TaskArguments,
)
from deltaproduce.stages.scheduled.outcomes import Fed, Tasked
from deltaproduce.stages.scheduled.schedules import ChosenTasks, Schedule
from deltaproduce.stages.sql.resolve import Resolved
from deltaproduce.stages.sql.scopes.partitions import ExpectedPartitions, PlannedPartitions
from deltaproduce.stages.sql.scopes.tables import values_at
from deltaproduce.storage.stored import Stored
from deltaproduce.types.columns import Column
from deltaproduce.types.excerpts import escaped
from deltaproduce.types.pandas_on_demand import in_numpy

Feeders: TypeAlias = "Mapping[str, tuple[Fed, Stage, Rows | None]]"
"""The input of tasks, by name: the feeder as they see it, the stage, and rows with dependencies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What counts of a stage's tables when its tasks are made.

    Attributes:
        content: the stage's rows; None if there are none that count.
        rebuilds: whether the tasks make all rows of the stage.
    """

    content: Stored | None
    rebuilds: bool


@dataclass
class _Remembered:
    """What does not change during a run, unless partitions of feeders do.

    Attributes:
        planned: the tasks, how many are of the scheduled date, and their definitions.
        links: the links with a feeder, and its partitions then, by feeder.
        query: the query, as the driver computes it.
    """

    planned: tuple[PlannedPartitions, int, Hashes] | None = None
    links: dict[str, tuple[pa.Table, Links]] = field(default_factory=dict)
    query: Resolved | None = None


@dataclass(frozen=True, slots=True)
class Tasks:
    """How a stage's tasks are found and made.

    Attributes:
        keeps: whether partitions that are no longer expected are kept.
        function: a user function over the query's rows; None if the query makes the rows.
        definition: the definition of a task apart from its query, as text.
    """

    stage: Stage
    query: TaskQuery
    partitions: ExpectedPartitions
    keeps: bool
    function: ForeignFunction | None
    definition: str

    def entries(self, fed: Mapping[str, Fed], kept: ComputedTasks, schedule: Schedule) -> Entries:
        """Return the expected tasks.

        Args:
            fed: the stages that they read.
        """
        planned, current, definitions = self._defined(kept, schedule)
        links = {name: self._linked(planned, one, schedule) for name, one in fed.items()}
        return Entries(
            self.stage.name,
            self.partitions.types,
            planned,
            current,
            dict(fed),
            links,
            definitions,
            kept,
        )

    def _remembered(self, schedule: Schedule) -> _Remembered:
        return schedule.memory.of(self.stage.name, _Remembered)

    def _defined(
        self, kept: ComputedTasks, schedule: Schedule
    ) -> tuple[PlannedPartitions, int, Hashes]:
        """Return the tasks, as `planned`, with their definitions; computed once a run."""
        known = self._remembered(schedule)
        if known.planned is None or schedule.wanted.of_other_dates:
            planned, current = self.planned(kept, schedule)
            used = list(self.query.resolved.constants)
            text = f"{self.query.text}\n{self.definition}"
            known.planned = planned, current, definitions_of(planned, text, used)
        return known.planned

    def _linked(self, planned: PlannedPartitions, fed: Fed, schedule: Schedule) -> Links:
        """Return the links of tasks with a feeder; computed once a run if its partitions stay."""
        links = self._remembered(schedule).links
        known = links.get(fed.stage)
        if known is None or schedule.wanted.of_other_dates or not known[0].equals(fed.table):
            reads = [read for read in self.query.reads if read.feeder == fed.stage]
            links[fed.stage] = fed.table, Links.of(reads, planned.scopes, fed.table)
        return links[fed.stage][1]

    def _resolved(self, entry: ExpectedTask, feeders: Feeders, schedule: Schedule) -> Resolved:
        """Return the query for the driver; resolved once a run if the scopes' values are alike."""
        known = self._remembered(schedule)
        if known.query is None or not known.query.fits(entry.scope):
            known.query = resolved_for(self.query, entry, feeders)
        return known.query

    def planned(self, kept: ComputedTasks, schedule: Schedule) -> tuple[PlannedPartitions, int]:
        """Return the expected partitions, and how many of them are of the scheduled date.

        If tasks are marked, tasks that were made for other dates follow.
        """
        entries = self.partitions.at(schedule.moment, stage=self.stage.name)
        current = len(entries)
        if not schedule.wanted.of_other_dates:
            return entries, current
        rest = np.flatnonzero(matched(kept.keys, entries.partitions) < 0)
        times = kept.scheduled.take(pa.array(rest)).combine_chunks().dictionary_encode()
        for number, time in enumerate(times.dictionary.to_pylist()):
            then = self.partitions.at(schedule.at(time), stage=self.stage.name)
            mine = rest[in_numpy(times.indices) == number]
            places = matched(kept.keys.take(pa.array(mine)), then.partitions)
            entries = entries.beside(then.taken(places[places >= 0]))
        return entries, current

    def named(self, partitions: pa.Table) -> list[Partition]:
        """Return partitions of the stage."""
        names = self.partitions.names
        return [
            Partition(self.stage.name, tuple(zip(names, values, strict=True)))
            for values in values_at(partitions, range(len(partitions)))
        ]

    def rows(
        self, entry: ExpectedTask, feeders: Feeders, production: Production, schedule: Schedule
    ) -> Rows:
        """Compute the rows that one task makes.

        Raises:
            ProducerError: its query or its function failed.
            SessionError: it needs Spark.
        """
        engines, stage = production.engines, self.stage
        if engines.session is None:
            known = self._resolved(entry, feeders, schedule)
            computed = run_query(self.query, known, entry, feeders, engines)
        else:
            try:
                with queried(self.query, entry, feeders, engines) as rows:
                    if self.function is None:
                        return production.computed(numbered(rows, stage, entry))[0]
                    computed = rows.toArrow()
            except spark_errors("PySparkException") as error:
                said = escaped(str(error).partition("\n== ")[0])
                message = f"task {entry.of}: its query failed: {said}"
                raise ProducerError(message, stage=stage.name, key=entry.values) from error
        if self.function is not None:
            task = entry.task(dict(self.partitions.types))
            computed = called(self.function, computed, task, entry.values)
        return conforming(computed, stage, entry, engines)


@dataclass(frozen=True, slots=True)
class Looked:
    """The tasks of a stage, and those that are to run.

    Attributes:
        entries: the expected tasks.
    """

    tasks: Tasks
    production: Production
    inputs: Sequence[StageInput]
    schedule: Schedule
    entries: Entries
    chosen: ChosenTasks

    @staticmethod
    def at(tasks: Tasks, given: TaskArguments, records: Stored | None) -> Looked:
        """Look at the tasks of a stage.

        Args:
            records: the records of its tasks; None if there are none that count.
        """
        inputs, schedule = given.inputs, given.schedule
        keeper = records_stage(tasks.stage, tasks.partitions.types)
        droppable = any(_drops(feeder) for feeder in tasks.stage.merged)
        kept = read_records(records, keeper, droppable=droppable)
        known, engines = given.so_far.fed, given.production.engines
        fed = {
            each.stage.name: known.get(each.stage.name) or _fed(each, inputs, schedule, engines)
            for each in fed_by(inputs)
        }
        entries = tasks.entries(fed, kept, schedule)
        chosen = schedule.chosen(entries, given.so_far.taken)
        return Looked(tasks, given.production, inputs, schedule, entries, chosen)

    @property
    def gone(self) -> Numbers:
        """The partitions no longer expected, as positions among the kept records.

        Only the newest date that ran, or a later one, drops partitions.
        """
        kept = self.entries.kept
        newest = pc.max(kept.scheduled).as_py()
        is_old = newest is None or newest > self.schedule.scheduled
        if self.tasks.keeps or not self.schedule.wanted.drops or is_old:
            return np.zeros(0, np.int64)
        marks = np.ones(len(kept), bool)
        marks[self.entries.places[self.entries.places >= 0]] = False
        return np.flatnonzero(marks)

    @property
    def dropped(self) -> pa.Table:
        """The partitions of `gone`."""
        return self.entries.kept.keys.take(pa.array(self.gone))

    def outcome(self, computed: Numbers, sums: Hashes) -> Tasked:
        """Return what became of the tasks.

        Args:
            computed: the positions of the tasks that were made.
            sums: the sums of their rows' hashes.
        """
        after = _after(self, computed, sums)
        return Tasked(
            self.entries,
            self.chosen,
            {**self.entries.fed, self.tasks.stage.name: after},
            done=tuple(self.entries.named(computed)),
            dropped=tuple(self.tasks.named(self.dropped)),
        )


def foreseen(looked: Looked) -> Tasked:
    """Return the outcome as if the chosen tasks were made, with the rows that they have."""
    entries, rows = looked.entries, looked.chosen.rows
    sums = np.append(entries.kept.outputs, np.uint64(0))[entries.places[rows]]
    return looked.outcome(rows, sums)


def tasked(looked: Looked, before: Before, version: int) -> Tasked:
    """Make the chosen tasks of a stage, for a version of this number.

    Raises:
        ProducerError: a task failed, and the schedule ends the run.
    """
    tasks, entries, chosen = looked.tasks, looked.entries, looked.chosen
    engines, stage, schedule = looked.production.engines, tasks.stage, looked.schedule
    computed, rows, failed = _run_tasks(looked)
    digested = digests(rows, stage, engines)
    sums, counts = _sums(digested, entries, computed), _counts(digested, entries, computed)
    records = [
        _records(entries, computed, sums, counts, entries.scheduled(computed, schedule.scheduled))
    ]
    if schedule.wanted.of_other_dates:
        records += [_accepted(entries, chosen), _marks(entries, chosen, computed)]
    dropped = looked.dropped
    cleared = pa.concat_tables([entries.partitions.take(pa.array(computed)), dropped])
    content, rebuilds = before.content, before.rebuilds
    is_change = bool(len(cleared)) or rebuilds
    keeper = records_stage(stage, tasks.partitions.types)
    return replace(
        looked.outcome(computed, sums),
        failed=tuple(failed),
        rows=_batch(tasks, content, cleared, rows, engines, rebuilds=rebuilds)
        if is_change
        else None,
        records=records_batch(
            keeper, pa.concat_tables(records), dropped, engines, version=version, rebuilds=rebuilds
        ),
    )


def _run_tasks(looked: Looked) -> tuple[Numbers, Rows, list[FailedTask]]:
    """Run tasks; return the positions of those that did not fail, all rows, and the failures."""
    tasks, production = looked.tasks, looked.production
    feeders = _feeders(looked.entries, looked.chosen.rows, looked.inputs, production.engines)
    computed, parts, failed = list[int](), list[Rows](), list[FailedTask]()
    for entry in looked.entries.entries(looked.chosen.rows):
        try:
            parts.append(tasks.rows(entry, feeders, production, looked.schedule))
        except SessionError:
            raise
        except DeltaProduceError as error:
            if looked.schedule.raises:
                raise
            failed.append(FailedTask(entry.of, error))
            continue
        computed.append(entry.row)
    content, engines = Layout.of(tasks.stage).content, production.engines
    rows = engines.of(*parts).concat(parts, content) if parts else empty(content)
    return np.array(computed, np.int64), rows, failed


def _records(
    entries: Entries, rows: Numbers, computed: Hashes, counts: Numbers, scheduled: pa.Array
) -> pa.Table:
    """Return the current records of tasks; see `records_batch`.

    Args:
        rows: their positions.
        computed: for each the sum of the hashes of its rows.
        counts: the number of rows that each made.
        scheduled: the date that each was made for, as text.
    """
    hashes = {
        "task_definition": entries.definitions[rows],
        "task_inputs": entries.inputs[rows],
        "task_made": computed,
    }
    table = entries.partitions.take(pa.array(rows))
    for name, column in hashes.items():
        table = table.append_column(name, pa.array(column.view(np.int64)))
    table = table.append_column("task_made_rows", pa.array(counts))
    droppable = pa.array([entries.droppable(row) for row in rows.tolist()], pa.string())
    return table.append_column("task_droppable", droppable).append_column(
        "task_scheduled", scheduled
    )


def _accepted(entries: Entries, chosen: ChosenTasks) -> pa.Table:
    """Return new records of unmarked clean tasks that would turn dirty."""
    rows = np.flatnonzero(entries.turned_dirty & ~chosen.due)
    places = entries.places[rows]
    scheduled = entries.kept.scheduled.take(pa.array(places)).combine_chunks()
    kept = entries.kept
    return _records(entries, rows, kept.outputs[places], kept.rows[places], scheduled)


def _marks(entries: Entries, chosen: ChosenTasks, computed: Numbers) -> pa.Table:
    """Return new records of due tasks that are not made: as they were, but marked.

    A task that was never made has no record: it is missing, and so is due anyway.
    """
    marks = chosen.due & (entries.places >= 0) & ~entries.marked
    marks[computed] = False
    rows, kept = np.flatnonzero(marks), entries.kept
    places = entries.places[rows]
    hashes = (np.full(len(rows), MARK), kept.inputs[places], kept.outputs[places])
    table = entries.partitions.take(pa.array(rows))
    for name, column in zip(("task_definition", "task_inputs", "task_made"), hashes, strict=True):
        table = table.append_column(name, pa.array(column.view(np.int64)))
    nothing = pa.array(["{}"] * len(rows), pa.string())
    droppable = nothing if kept.droppable is None else kept.droppable.take(pa.array(places))
    return (
        table.append_column("task_made_rows", pa.array(kept.rows[places]))
        .append_column("task_droppable", droppable)
        .append_column("task_scheduled", kept.scheduled.take(pa.array(places)))
    )


def _drops(stage: Stage) -> bool:
    return isinstance(stage.kind, ScheduledKind) and stage.kind.drops


def _fed(
    each: StageInput, inputs: Sequence[StageInput], schedule: Schedule, engines: Engines
) -> Fed:
    """Return a feeder without tasks as tasks see it."""
    feeder = each.stage
    types = {c.name: c.data_type for c in (*feeder.schema.key, *feeder.schema.value)}
    columns = tuple((name, types[name]) for name in feeder.kind.tasks.columns)
    names = [name for name, _ in columns]
    keeper = hidden_input(inputs, digests_of(feeder.name))
    moves = each.step is not None or keeper.step is not None
    after = _digested(each, keeper, engines, is_before=False)
    before = _digested(each, keeper, engines, is_before=True) if moves else after
    there = after.select(names) if names else pa.table({"_": pa.nulls(1)}).select([])
    expecting = feeder.kind.tasks.expecting
    expected = None if expecting is None else expecting(schedule.moment)
    if names:
        present = schedule.present.get(feeder.name, there.slice(0, 0))
        unknown = there.filter(pa.array(matched(there, present) < 0))
        there = pa.concat_tables([present, unknown])
    table = there if expected is None else expected
    size = len(table) if names else 1
    waiting = np.zeros(size, bool) if expected is None else matched(expected, there) < 0
    sums = _at(table, after, names, size)
    sums_before = _at(table, before, names, size) if moves else sums
    table = pa.table({"_": pa.nulls(size), **{n: table.column(n) for n in names}})
    return Fed(feeder.name, columns, table, sums, sums_before, waiting, waiting)


def _at(table: pa.Table, known: pa.Table, names: Sequence[str], size: int) -> Hashes:
    """Return the digests of partitions; 0 for empty ones."""
    values = in_numpy(known.column(DIGEST.name), np.int64).view(np.uint64)
    if not names:
        return values if len(values) else np.zeros(size, np.uint64)
    return np.append(values, np.uint64(0))[matched(table, known.select(names))]


def _digested(
    each: StageInput, keeper: StageInput, engines: Engines, *, is_before: bool
) -> pa.Table:
    """Return the digests of a feeder's non-empty partitions; from all its rows if none are stored.

    Args:
        keeper: the stage that holds them.
        is_before: the digests before this version instead of after it.
    """
    columns = keeper.content
    if is_before:
        stored = keeper.before()
        rows: Rows | None = None if stored is None else stored.fetched()
    else:
        rows = keeper.all_rows()
    if rows is None:
        read = each.before() if is_before else None
        own = (None if read is None else read.rows()) if is_before else each.all_rows()
        return empty(columns) if own is None else digests(own, each.stage, engines)
    return engines.table(rows, columns)


def _after(looked: Looked, computed: Numbers, sums: Hashes) -> Fed:
    """Return the stage as its readers' tasks see it: its tasks, and other partitions it keeps."""
    tasks, entries, kept = looked.tasks, looked.entries, looked.entries.kept
    there = entries.places >= 0
    before = np.append(kept.outputs, np.uint64(0))[entries.places]
    after = before.copy()
    after[computed] = sums
    table = entries.planned.table
    waiting, stuck = looked.chosen.after(computed)
    if tasks.keeps:
        others = np.ones(len(kept), bool)
        others[entries.places[there]] = False
        others[looked.gone] = False
        rest = kept.keys.filter(pa.array(others))
        names = [name for name, _ in entries.columns]
        beside = {"_": pa.nulls(len(rest)), **{n: rest.column(n) for n in names}}
        table = pa.concat_tables([table, pa.table(beside)])
        before, after = (np.concatenate([one, kept.outputs[others]]) for one in (before, after))
        waiting, stuck = (np.append(one, np.zeros(len(rest), bool)) for one in (waiting, stuck))
    drops = not tasks.keeps
    return Fed(tasks.stage.name, entries.columns, table, after, before, waiting, stuck, drops)


def _sums(computed: pa.Table, entries: Entries, rows: Numbers) -> Hashes:
    """Return the digests of the partitions that were made; 0 for empty ones."""
    names = [name for name, _ in entries.columns]
    return _at(entries.planned.partitions.take(pa.array(rows)), computed, names, len(rows))


def _counts(computed: pa.Table, entries: Entries, rows: Numbers) -> Numbers:
    """Return the row counts of the partitions that were made."""
    names = [name for name, _ in entries.columns]
    places = matched(entries.partitions.take(pa.array(rows)), computed.select(names))
    return np.append(in_numpy(computed.column(COUNT.name), np.int64), 0)[places]


def _feeders(
    entries: Entries, chosen: Numbers, inputs: Sequence[StageInput], engines: Engines
) -> Feeders:
    """Return the rows that tasks read, perhaps with others; only dependencies are looked up."""
    feeders: dict[str, tuple[Fed, Stage, Rows | None]] = {}
    for each in fed_by(inputs):
        name, fed = each.stage.name, entries.fed[each.stage.name]
        by = tuple(Column(column, kind) for column, kind in fed.columns)
        is_sought = bool(by) and {c.name for c in by} <= set(each.stage.schema.key.names)
        if not len(chosen):
            rows: Rows | None = None
        elif is_sought:
            links = entries.links[name]
            read = np.unique(links.pairs(np.unique(links.groups[chosen]))[1])
            read = read[fed.digests[read] != 0]
            keys = fed.partitions.take(pa.array(read)).select([c.name for c in by])
            rows = each.having(Selection.of(keys, by, engines)) if len(read) else None
        else:
            rows = each.all_rows()
        feeders[name] = (fed, each.stage, rows)
    return feeders


def _batch(
    tasks: Tasks,
    content: Stored | None,
    cleared: pa.Table,
    rows: Rows,
    engines: Engines,
    *,
    rebuilds: bool,
) -> Batch:
    """Return the batch that replaces the rows of partitions."""
    stage, layout = tasks.stage, Layout.of(tasks.stage)
    if rebuilds:
        return Batch.snapshot(rows, stage, engines)
    keys = Selection.of(engines.of(rows).here(rows, layout.key), layout.key, engines)
    if content is not None and len(cleared):
        by = [Column(name, kind) for name, kind in tasks.partitions.types]
        wanted = Selection.of(cleared.select([c.name for c in by]), by, engines)
        gone = wanted.exactly(content.of(wanted))
        gone = engines.of(gone).here(gone, layout.key)
        keys = keys.union(Selection.of(gone, layout.key, engines))
    return Batch.replacing(keys, rows, stage)
