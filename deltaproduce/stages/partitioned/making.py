"""Making: one stage's tasks in one version.

What tasks make takes the place of the partitions that they are for, and is published with a record
of each in one version. The invariant: a partition's rows are those of one run of its task, or of
none; what a task that failed would have made stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.errors import PySparkException

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.selections import Selection
from deltaproduce.errors import DeltaProduceError, ProducerError, SessionError
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import Layout
from deltaproduce.shown.tasks import Partition, Values
from deltaproduce.stages.batches import Batch
from deltaproduce.stages.inputs import StageInput
from deltaproduce.stages.partitioned.digests import digests
from deltaproduce.stages.partitioned.entries import Entry, Fed, Record, entries
from deltaproduce.stages.partitioned.in_spark import numbered, queried
from deltaproduce.stages.partitioned.on_driver import (
    ForeignFunction,
    called,
    conforming,
    plainly_made,
)
from deltaproduce.stages.partitioned.query import TaskQuery
from deltaproduce.stages.partitioned.records import read_records, records_batch, records_stage
from deltaproduce.stages.partitioned.scope.clauses import Scope
from deltaproduce.stages.partitioned.scope.partitions import Partitions, table_of
from deltaproduce.stages.productions import Production
from deltaproduce.stages.scheduled import Agenda, ScheduledKind, Tasked
from deltaproduce.storage.stored import Stored
from deltaproduce.types.columns import Column
from deltaproduce.types.excerpts import escaped

Feeders = Mapping[str, tuple[Fed, Stage, Rows | None]]


@dataclass(frozen=True, slots=True)
class Tasks:
    """How the tasks of a stage are found and made.

    Attributes:
        keeps: partitions that no task asks for any more are kept.
        function: a user's, which gets what the query reads; None if the query makes the rows.
        definition: what makes a task beside its query, as text.
    """

    stage: Stage
    query: TaskQuery
    partitions: Partitions
    keeps: bool
    function: ForeignFunction | None
    definition: str

    def entries(
        self,
        inputs: Sequence[StageInput],
        records: Mapping[Values, Record],
        agenda: Agenda,
        engines: Engines,
    ) -> tuple[list[Entry], Feeders]:
        """The tasks that are to exist, and what they read."""
        feeders = {each.stage.name: _fed(each, agenda, engines) for each in inputs}
        planned = self.planned(records, agenda)
        fed = {name: one for name, (one, _, _) in feeders.items()}
        found = entries(
            self.stage.name,
            self.partitions.types,
            planned,
            self.query.reads,
            self.text,
            fed,
            records,
        )
        return found, feeders

    def planned(self, records: Mapping[Values, Record], agenda: Agenda) -> dict[Values, Scope]:
        """The partitions that are to exist; where tasks are marked, those that were made, too."""
        name = self.stage.name
        found = self.partitions.at(agenda.moment, stage=name)
        if agenda.marked is not None:
            for values, record in records.items():
                if values not in found:
                    then = self.partitions.at(datetime.fromisoformat(record.scheduled), stage=name)
                    found |= {values: then[values]} if values in then else {}
        return found

    def partition(self, values: Values) -> Partition:
        """A partition of the stage by its values."""
        names = self.partitions.names
        return Partition(self.stage.name, tuple(zip(names, values, strict=True)))

    def extent(self, planned: Iterable[Values], records: Mapping[Values, Record]) -> list[Values]:
        """The partitions that those who read the stage find."""
        return list(dict.fromkeys([*planned, *(records if self.keeps else ())]))

    def text(self, scope: Scope) -> str:
        """What makes a task, as text."""
        named = {name: name for name in self.query.feeders}
        return f"{self.query.sql(named, scope)}\n{self.definition}"

    def rows(self, entry: Entry, feeders: Feeders, production: Production) -> Rows:
        """What one task makes, computed.

        Raises:
            ProducerError: its query, or its function, failed.
            SessionError: it needs Spark.
        """
        engines, stage = production.engines, self.stage
        if engines.session is None:
            found = plainly_made(self.query, entry, feeders, engines)
        else:
            try:
                with queried(self.query, entry, feeders, engines) as rows:
                    if self.function is None:
                        return production.computed(numbered(rows, stage, entry))[0]
                    found = rows.toArrow()
            except PySparkException as error:
                said = escaped(str(error).partition("\n== ")[0])
                message = f"task {entry.of}: its query failed: {said}"
                raise ProducerError(message, stage=stage.name, key=entry.values) from error
        if self.function is not None:
            task = entry.task(dict(self.partitions.types))
            found = called(self.function, found, task, entry.values)
        return conforming(found, stage, entry, engines)


def tasked(
    tasks: Tasks,
    production: Production,
    inputs: Sequence[StageInput],
    content: Stored | None,
    kept: Stored | None,
    agenda: Agenda,
    *,
    version: int,
    anew: bool,
) -> Tasked:
    """Make the tasks of a stage that are due.

    Args:
        content: the stage's rows; None if there are none that count.
        kept: the records of its tasks that were made; None if there are none that count.
        version: the number of the version that they are made for.
        anew: what is made are all rows of the stage.
    """
    engines, stage = production.engines, tasks.stage
    keeper = records_stage(stage, tasks.partitions.types)
    records = read_records(kept, keeper, engines)
    found, feeders = tasks.entries(inputs, records, agenda, engines)
    before = _before(tasks, inputs, records, agenda, engines)
    made, parts = dict[Values, Record](), list[Rows]()
    accepted = dict[Values, Record]()
    for entry in found:
        agenda.tasks.append(entry.task(dict(tasks.partitions.types)))
        was = before.get(entry.values)
        if not agenda.chosen(entry, was):
            if agenda.marked is not None and _stays_clean(entry, was):
                scheduled = records[entry.values].scheduled
                accepted[entry.values] = Record(entry.definition, entry.inputs, scheduled)
            continue
        try:
            parts.append(tasks.rows(entry, feeders, production))
        except SessionError:
            raise
        except DeltaProduceError as error:
            agenda.has_failed(entry, error)
            continue
        agenda.done.append(entry.of)
        made[entry.values] = Record(entry.definition, entry.inputs, agenda.scheduled)
    planned = [entry.values for entry in found]
    dropped = _dropped(tasks, planned, records, agenda)
    agenda.dropped += [tasks.partition(values) for values in dropped]
    left = {values: one for values, one in records.items() if values not in dropped}
    agenda.extents[stage.name] = tasks.extent(planned, {**left, **made})
    cleared = [*made, *dropped]
    return Tasked(
        _batch(tasks, content, cleared, parts, engines, anew=anew) if cleared or anew else None,
        records_batch(keeper, {**made, **accepted}, dropped, engines, version=version, anew=anew),
        tuple(str(tasks.partition(values)) for values in made),
    )


def _stays_clean(entry: Entry, before: Entry | None) -> bool:
    """Whether a task that is not marked was clean, and would not be."""
    return before is not None and before.state == "present" and entry.state == "dirty"


def _fed(
    each: StageInput, agenda: Agenda, engines: Engines, *, before: bool = False
) -> tuple[Fed, Stage, Rows | None]:
    """A feeder as tasks see it, with all its rows."""
    stage = each.stage
    stored = each.before() if before else None
    rows = (None if stored is None else stored.rows()) if before else each.all_rows()
    known = (stage.name, before)
    if known not in agenda.digests:
        agenda.digests[known] = digests(rows, stage, engines)
    found = agenda.digests[known]
    types = {c.name: c.data_type for c in (*stage.schema.key, *stage.schema.value)}
    columns = tuple((name, types[name]) for name in stage.kind.partitioned_by)
    there = dict.fromkeys([*found, *agenda.present.get(stage.name, ())] if columns else [()])
    extent: Sequence[Values] = agenda.extents.get(stage.name, list(there))
    waiting = agenda.waiting.get(stage.name, set())
    expected = stage.kind.expected(agenda.moment)
    if expected is not None:
        extent, waiting = expected, {values for values in expected if values not in there}
    drops = isinstance(stage.kind, ScheduledKind) and stage.kind.drops
    return Fed(stage.name, columns, extent, found, waiting, drops), stage, rows


def _before(
    tasks: Tasks,
    inputs: Sequence[StageInput],
    records: Mapping[Values, Record],
    agenda: Agenda,
    engines: Engines,
) -> dict[Values, Entry]:
    """The tasks as they were before this version, where that matters."""
    if agenda.marked is None and not agenda.changed_only:
        return {}
    fed = {each.stage.name: _fed(each, agenda, engines, before=True)[0] for each in inputs}
    found = entries(
        tasks.stage.name,
        tasks.partitions.types,
        tasks.planned(records, agenda),
        tasks.query.reads,
        tasks.text,
        fed,
        records,
    )
    return {entry.values: entry for entry in found}


def _dropped(
    tasks: Tasks, planned: Sequence[Values], records: Mapping[Values, Record], agenda: Agenda
) -> list[Values]:
    """The partitions that no task asks for any more.

    A date before the newest one that was run drops nothing.
    """
    if tasks.keeps or not agenda.makes or agenda.marked is not None or agenda.changed_only:
        return []
    if any(record.scheduled > agenda.scheduled for record in records.values()):
        return []
    return [values for values in records if values not in planned]


def _batch(
    tasks: Tasks,
    content: Stored | None,
    cleared: Sequence[Values],
    parts: Sequence[Rows],
    engines: Engines,
    *,
    anew: bool,
) -> Batch:
    """What takes the place of the rows of some partitions."""
    stage, layout = tasks.stage, Layout.of(tasks.stage)
    rows: Rows = empty(layout.content)
    if parts:
        rows = engines.of(*parts).united(parts, layout.content)
    if anew:
        return Batch.snapshot(rows, stage, engines)
    keys = Selection.of(engines.of(rows).here(rows, layout.key), layout.key, engines)
    if content is not None:
        by = [Column(name, kind) for name, kind in tasks.partitions.types]
        wanted = table_of(cleared, tasks.partitions.types).select([c.name for c in by])
        own = content.rows()
        engine = engines.of(own, wanted)
        gone = engine.only(engine.here(own, layout.key), engine.here(wanted, by), by)
        keys = keys.union(Selection.of(gone, layout.key, engines))
    return Batch.replacing(keys, rows, stage)
