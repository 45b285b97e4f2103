"""The executor: carries out a plan.

First every stage is computed, in topological order, each feeding the next through its `Comparison`;
nothing is written, so a failing produce function leaves no trace. Then the `Publisher` commits and
publishes. The invariant: an exception at any point leaves the head as it was, and the next update
starts from the rows that the head pins; and no function is run for a version that has its output
stored already.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from deltaproduce.model.fingerprints import fingerprint
from deltaproduce.model.graph import Graph, Producer, Source
from deltaproduce.operations.compaction import Compactor
from deltaproduce.operations.findings import Finding
from deltaproduce.operations.publisher import Publisher
from deltaproduce.operations.repairs import Repair
from deltaproduce.operations.rollbacks import Rollback, differences
from deltaproduce.operations.step.incremental import (
    Found,
    full_step,
    producer_step,
    source_step,
    stored_step,
)
from deltaproduce.operations.step.inputs import StageInput
from deltaproduce.operations.step.plan import (
    Policy,
    Step,
    TableType,
    check_layouts,
    plan,
    rolled_back,
    weighed,
)
from deltaproduce.operations.step.productions import Production
from deltaproduce.operations.step.redefinitions import Redefinition
from deltaproduce.operations.step.writes import (
    NO_TABLES,
    StageWrite,
    StepResult,
    Write,
    WriteInPlace,
    WriteKept,
)
from deltaproduce.operations.vacuum import Vacuum, Vacuumed
from deltaproduce.reading.readers import Reader
from deltaproduce.stages.external.arrivals import Arrival
from deltaproduce.stages.given.batches import Batch
from deltaproduce.storage.attempts import Attempt
from deltaproduce.storage.figures import InPlace
from deltaproduce.storage.resumption import Kept, Resumption
from deltaproduce.storage.stored import Stored
from deltaproduce.storage.tables import Tables
from deltaproduce.storage.version_log import VersionLog
from deltaproduce.storage.versions import Version, columns_of, stage_at


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an operation is: stage number ``done`` + 1 of ``total`` is under way.

    Attributes:
        stage: the stage; ``commit`` while the tables are written and the version is published.
    """

    operation: str
    stage: str
    done: int
    total: int

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON has it."""
        return asdict(self)


class Executor:
    """Carries out updates, loads and refreshes of one store, one at a time."""

    def __init__(
        self,
        spark: SparkSession,
        graph: Graph,
        tables: Tables,
        reader: Reader,
        log: VersionLog,
        progress: Callable[[Progress], None],
        clock: Callable[[], datetime],
        table_type: TableType,
        policy: Policy,
    ) -> None:
        self._spark = spark
        self._graph = graph
        self._tables = tables
        self._reader = reader
        self._log = log
        self._table_type = table_type
        self._policy = policy
        self._progress = progress
        self._clock = clock
        self._definitions = {stage.name: fingerprint(stage) for stage in graph.stages}
        self._compactor = Compactor(graph, tables, reader)
        self._publisher = Publisher(spark, graph, tables, reader, log, self._compactor, clock)

    def run(
        self,
        operation: str,
        head: Version,
        *,
        batches: Mapping[str, Batch] | None = None,
        arrivals: Mapping[str, Arrival] | None = None,
        refreshed: Collection[str] = (),
        update_id: str | None = None,
        repair: Repair | None = None,
    ) -> Version:
        """Publish the version after ``head``, unless nothing changes and there is no id to keep.

        Args:
            batches: what is given for sources.
            arrivals: what is new in the tables of those that are read in place.
            repair: what is done about damaged stages.

        Returns:
            The version published, else ``head``.

        Raises:
            ProducerError: a produce function failed; nothing was written.
            ConflictError: another writer was faster; nothing of this is visible.
        """
        batches, arrivals, published = batches or {}, arrivals or {}, head
        head = self._compactor.applied(head)
        snapshots = [name for name, batch in batches.items() if batch.is_snapshot]
        steps = self.plan(
            head, given=batches, snapshots=snapshots, arrivals=arrivals, refreshed=refreshed
        )
        if repair is not None:
            steps = repair.steps(steps)
        given = None if repair else self._given(operation, head, batches, arrivals, update_id)
        attempt = Attempt.after(head, self._clock(), given)
        with self._tables.many_effects():
            left = self._publisher.left(head, [step.stage for step in steps], given)
            results = self._compute(operation, head, steps, batches, arrivals, left, repair)
            overdue = any(arrival.is_overdue(self._clock()) for arrival in arrivals.values())
            if not results and update_id is None and not overdue:
                return published
            self._progress(Progress(operation, "commit", len(steps), len(steps)))
            head = self._without_compactions(head, results)
            writes = {
                name: WriteKept(result, left.kept[name])
                if name in left.kept
                else self._write(head, result, arrivals.get(name), repair)
                for name, result in results.items()
            }
            head = _moved(head, [a for name, a in arrivals.items() if name not in writes])
            definitions = {**head.definitions, **self._definitions}
            return self._publisher.publish(
                operation,
                head,
                writes,
                definitions,
                attempt,
                update_id=update_id,
                repairs=repair is not None,
            )

    def repair(
        self,
        versions: Sequence[Version],
        findings: Iterable[Finding],
        operation: str = "repair",
        *,
        batches: Mapping[str, Batch] | None = None,
        update_id: str | None = None,
    ) -> Version:
        """Publish a version in which the damaged stages of the head are put right.

        Args:
            versions: all of the store, oldest first.
            findings: what is wrong with the newest.
            batches: all rows of some sources.

        Raises:
            CorruptStoreError: rows of a source are lost, and not given.
        """
        batches = batches or {}
        repair = Repair.of(self._graph, versions, findings, batches, self._reader, self._spark)
        return self.run(
            operation,
            versions[-1],
            batches=batches,
            refreshed=repair.produced,
            update_id=update_id,
            repair=repair,
        )

    def plan(
        self,
        head: Version,
        *,
        given: Collection[str] = (),
        snapshots: Collection[str] = (),
        arrivals: Mapping[str, Arrival] | None = None,
        refreshed: Collection[str] = (),
    ) -> tuple[Step, ...]:
        """What would be done, and why; see `plan.plan`."""
        return plan(
            self._graph,
            head,
            self._definitions,
            given=given,
            snapshots=snapshots,
            arrived={name: arrival.reason for name, arrival in (arrivals or {}).items()},
            refreshed=refreshed,
            policy=self._policy,
        )

    def rollback(self, span: Sequence[Version]) -> Version:
        """Publish a version equal to an earlier one, unless the head is.

        Args:
            span: all versions from that one to the head.

        Returns:
            The version published, else the head.

        Raises:
            DefinitionError: the columns or feeders of a stage were others then.
            ConflictError: another writer was faster; nothing of this is visible.
        """
        wanted, published = span[0], span[-1]
        check_layouts(self._definitions, wanted)
        check_layouts(self._definitions, published)

        def progress(stage: str, done: int, total: int) -> None:
            self._progress(Progress("rollback", stage, done, total))

        head = self._compactor.applied(published)
        attempt = Attempt.after(head, self._clock())
        with self._tables.many_effects():
            results = differences(span, head, self._graph, self._reader, self._spark, progress)
            if not results:
                return published
            progress("commit", len(results), len(results))
            head = self._without_compactions(head, results)
            writes = {
                name: self._write_back(head, wanted, result) for name, result in results.items()
            }
            definitions = rolled_back(head, wanted)
            return self._publisher.publish("rollback", head, writes, definitions, attempt)

    def vacuum(
        self,
        versions: Sequence[Version],
        kept: Sequence[Version],
        unfinished_hours: float,
        *,
        dry_run: bool,
    ) -> Vacuumed:
        """Drop all versions but some of the newest, or say what that would do; see `Vacuum`."""
        self._compactor.finish()
        vacuum = Vacuum(self._graph, self._tables, self._log, self._publisher, unfinished_hours)
        if dry_run:
            return vacuum.foreseen(versions, kept)
        with self._tables.many_effects():
            return vacuum.run(versions, kept, self._clock())

    def compact(self, head: Version) -> None:
        """Compact all tables now, and wait for the end."""
        self._compactor.start(self._compactor.applied(head), at_once=True)
        self._compactor.finish(raises=True)

    def wait(self) -> None:
        """Wait for the compactions that are under way."""
        self._compactor.finish()

    def close(self) -> None:
        """Wait for them, and begin none any more."""
        self._compactor.close()

    def check_open(self) -> None:
        """Refuse what may begin one, once they are closed.

        Raises:
            ClosedError: they are.
        """
        self._compactor.check_open()

    def _without_compactions(self, head: Version, stages: Iterable[str]) -> Version:
        """The head with the updates of some stages in the state that no compaction will change."""
        for stage in stages:
            self._compactor.wait(stage, "feed")
        return self._compactor.applied(head)

    def _write(
        self,
        head: Version,
        result: StepResult,
        arrival: Arrival | None = None,
        repair: Repair | None = None,
    ) -> StageWrite:
        last = head.stages.get(result.stage.name, NO_TABLES)
        if arrival is not None:
            return WriteInPlace(result, last, arrival.place, arrival.begins, result.mode)
        if repair is not None and result.stage.name in repair.mends:
            return repair.write(result, head, self._table_type)
        overlay = self._reader.overlay(head, result.stage)
        return Write.of(result, self._table_type, last, overlay)

    def _write_back(self, head: Version, wanted: Version, result: StepResult) -> StageWrite:
        """How a stage goes back to what it was in an earlier version."""
        stage, name = result.stage, result.stage.name
        last, then = head.stages.get(name, NO_TABLES), wanted.stages.get(name, NO_TABLES)
        if isinstance(stage, Source) and stage.is_in_place:
            return WriteInPlace(result, last, InPlace.of(then), begins=False, mode="restore")
        if result.comparison.complete:
            return self._write(head, result)
        return Rollback(result, last, then, self._reader.overlay(wanted, stage))

    def _compute(
        self,
        operation: str,
        head: Version,
        steps: tuple[Step, ...],
        batches: Mapping[str, Batch],
        arrivals: Mapping[str, Arrival],
        left: Resumption,
        repair: Repair | None = None,
    ) -> dict[str, StepResult]:
        """The results of the stages that the version touches, in topological order."""
        results: dict[str, StepResult] = {}
        producers = {s.stage.name: s.stage.feeders for s in steps if isinstance(s.stage, Producer)}
        settled = left.settled(
            {
                name: [feeder.name for feeder in feeders if feeder.name in producers]
                for name, feeders in producers.items()
            }
        )
        for done, step in enumerate(steps):
            name = step.stage.name
            self._progress(Progress(operation, name, done, len(steps)))
            started = time.perf_counter()
            if repair is None:
                step = self._weighed(step, head, results)
            if name not in settled:
                found = self._step(step, head, results, batches, arrivals, repair)
            else:
                found = self._stored(step, head, left.kept[name]) if name in left.kept else None
            if found is not None:
                seconds = time.perf_counter() - started
                full = step.how == "full" or not head.stages.get(name, NO_TABLES).rows
                old = stage_at(head, step.stage)
                results[name] = StepResult(
                    step.stage,
                    found.comparison,
                    step.reason,
                    seconds,
                    full,
                    found.surrogates,
                    anew=old is not step.stage,
                    updates_anew=columns_of(old).own != columns_of(step.stage).own,
                )
        return results

    def _weighed(self, step: Step, head: Version, results: Mapping[str, StepResult]) -> Step:
        """The step as it is done, now that its feeders' changes are known; see `plan.weighed`."""
        changed = rows = 0
        for feeder in step.stage.feeders:
            last = head.stages.get(feeder.name, NO_TABLES)
            if feeder.name in results:
                changed += results[feeder.name].comparison.counts.rows_of_changed_keys
                rows += results[feeder.name].size(last)[0]
            else:
                rows += last.rows
        return weighed(step, changed, rows, self._policy)

    def _step(
        self,
        step: Step,
        head: Version,
        results: Mapping[str, StepResult],
        batches: Mapping[str, Batch],
        arrivals: Mapping[str, Arrival],
        repair: Repair | None = None,
    ) -> Found | None:
        """What one stage's step finds out; None if it is not reached after all."""
        stage, old = step.stage, stage_at(head, step.stage)
        redefined = None if old is stage else Redefinition(old, stage)
        if stage.name in arrivals and isinstance(stage, Source):
            return self._arrived(stage, arrivals[stage.name], head, redefined)
        damaged = repair if repair is not None and stage.name in repair.mends else None
        if isinstance(stage, Source):

            def given(before: Stored | None) -> Found | None:
                anew = damaged is not None
                return source_step(stage, batches[stage.name], before, redefined, anew=anew)

            if damaged is not None:
                return damaged.found(stage, given, is_moved=stage.name in batches)
            return given(self._reader.content(head, stage))
        inputs = [
            StageInput(
                feeder,
                # Rows that did not change are in what a table has now, too.
                arrivals[feeder.name].content
                if feeder.name in arrivals and not arrivals[feeder.name].begins
                else partial(repair.after, results[feeder.name].comparison)
                if repair is not None and feeder.name in repair.mends
                else partial(self._reader.content, head, feeder),
                results[feeder.name].comparison if feeder.name in results else None,
            )
            for feeder in stage.feeders
        ]
        production = Production.of(stage, head.stages.get(stage.name, NO_TABLES), self._spark)
        if damaged is not None and redefined is None:
            produced = partial(full_step, production, inputs)
            return damaged.found(stage, produced, is_moved=any(each.changed for each in inputs))
        content = damaged.before(stage) if damaged else self._reader.content(head, stage)
        if step.how == "full":
            return full_step(production, inputs, content, redefined)
        mappings = partial(self._reader.key_mappings, head, stage)
        return producer_step(production, inputs, content, mappings)

    def _stored(self, step: Step, head: Version, kept: Kept) -> Found:
        """What one stage's step found out in an earlier attempt, which has stored its outcome."""
        stage, old = step.stage, stage_at(head, step.stage)
        figures = {**head.stages, stage.name: kept.figures}
        after = replace(head, number=head.number + 1, stages=figures)
        comparison = stored_step(
            stage,
            self._reader.content(head, stage),
            self._reader.content(after, stage),
            partial(self._reader.changed_keys, (head, after), stage),
            self._spark,
            None if old is stage else Redefinition(old, stage),
        )
        return Found(comparison, kept.figures.numbering.surrogates)

    def _given(
        self,
        operation: str,
        head: Version,
        batches: Mapping[str, Batch],
        arrivals: Mapping[str, Arrival],
        update_id: str | None,
    ) -> str | None:
        """A digest of all that the outcome depends on; None if nobody can ask for the same again.

        One Spark job for each batch.
        """
        if update_id is None:
            return None
        told = [
            operation,
            update_id,
            None if head.attempt is None else head.attempt.id,
            {name: batch.digest() for name, batch in batches.items()},
            {name: asdict(arrival.place) for name, arrival in arrivals.items()},
            {name: asdict(definition) for name, definition in self._definitions.items()},
        ]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    def _arrived(
        self, source: Source, arrival: Arrival, head: Version, redefined: Redefinition | None
    ) -> Found | None:
        """What the step of a source that is read in place finds out."""
        with arrival.reading():
            if arrival.begins:
                return source_step(source, arrival.batch(), None, anew=arrival.last is not None)
            content = self._reader.content(head, source)
            return source_step(source, arrival.batch(), content, redefined)


def _moved(head: Version, arrivals: Iterable[Arrival]) -> Version:
    """The head with sources whose tables have moved on, and have the same rows."""
    moved = {
        arrival.source.name: arrival.place.pinned(arrival.last)
        for arrival in arrivals
        if arrival.last is not None
    }
    return replace(head, stages={**head.stages, **moved})
