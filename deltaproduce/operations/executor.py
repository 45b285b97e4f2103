"""The executor: carries out work.

First it computes every stage in topological order, each feeding the next through its `Comparison`.
Then the `Gate` evaluates the checks. Nothing is written yet, so a failing produce function, or a
broken check, leaves no trace. Then the `Publisher` commits and publishes. A `VersionJob` says how a
version is made: by an update, a repair or a rollback. The invariant: an exception at any point
leaves the head unchanged, and the next update starts from the rows that the head pins.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from deltaproduce.described.content import descriptions
from deltaproduce.errors import ChecksFailedError
from deltaproduce.model.checks.results import CheckResults
from deltaproduce.model.clustering import clusterings
from deltaproduce.model.fingerprints import fingerprint
from deltaproduce.model.graph import Stage
from deltaproduce.operations.compaction import Compactor
from deltaproduce.operations.making.checking.evaluation import Evaluation
from deltaproduce.operations.making.checking.gate import Gate
from deltaproduce.operations.making.options import StoreOptions
from deltaproduce.operations.making.repairs import Repair
from deltaproduce.operations.making.request import Request, reasons
from deltaproduce.operations.making.rollbacks import Rollback
from deltaproduce.operations.making.updates import Update
from deltaproduce.operations.making.version_job import StoreContext, VersionJob
from deltaproduce.operations.publisher import Publisher, Unpublished
from deltaproduce.operations.reports.plans import Counted, Foreseen, Plan, planned
from deltaproduce.operations.reports.records import record
from deltaproduce.operations.step.expiry import Retentions
from deltaproduce.operations.step.plan import Causes
from deltaproduce.operations.step.window_arguments import NO_ARGUMENTS, WindowArguments
from deltaproduce.operations.step.windowing import Windows, differ
from deltaproduce.operations.step.writes import StepResult
from deltaproduce.operations.vacuum import Vacuum, Vacuumed
from deltaproduce.operations.verifying.findings import Finding
from deltaproduce.reading.opened import Opened
from deltaproduce.reading.readers import StageReader
from deltaproduce.shown.phases import COMMIT, Progress, phase, reached
from deltaproduce.stages.kind import Arrival, needing
from deltaproduce.stages.scheduled.outcomes import Outcomes
from deltaproduce.storage.figures import NO_TABLES
from deltaproduce.storage.versions import Version

_NOTHING_COMPARED: Final[Counted] = MappingProxyType({})


class Executor:
    """Carries out the updates, repairs and rollbacks of one store, one at a time."""

    def __init__(self, store: Opened, reader: StageReader, options: StoreOptions) -> None:
        """Prepare for an opened store.

        Args:
            reader: reads the tables that the store has written.
        """
        graph, tables, log = store.graph, store.tables, store.log
        definitions = {stage.name: fingerprint(stage) for stage in graph.stages}
        described = descriptions(graph)

        def context(time_zone: str) -> StoreContext:
            return StoreContext(
                graph,
                definitions,
                reader,
                store.engines.in_zone(time_zone),
                options,
                Windows.of(graph, time_zone),
                clusterings(graph, time_zone),
                described,
                Retentions.of(graph, time_zone),
                store.zone,
            )

        self._graph = graph
        self._context_in = lru_cache(maxsize=2)(context)
        self._zone = store.zone
        self._tables = tables
        self._log = log
        self._clock = options.clock
        self._compactor = Compactor(
            graph, tables, reader, lambda stage: self._context.filing(stage)
        )
        self._publisher = Publisher(graph, tables, reader, log, self._compactor, self._clock)

    @property
    def _context(self) -> StoreContext:
        """The means of the next version, in the store's time zone as of the last read head."""
        return self._context_in(self._zone())

    def update(self, request: Request, head: Version) -> Version:
        """Publish the version after ``head``, unless nothing changes and there is no id to keep.

        Returns:
            The published version, else ``head``.

        Raises:
            ProducerError: a produce function failed; nothing was written.
            ConflictError: another writer was faster; nothing of this is visible.
            MissingPartitionsError: a window would lack partitions; nothing was written.
            ChecksFailedError: the version would break checks; nothing was written.
        """
        return self.tasked(request, head)[0]

    def tasked(self, request: Request, head: Version) -> tuple[Version, Outcomes]:
        """Do the same as `update`, and return what became of tasks, too."""
        context = self._context
        work = Update.of(context, self._compactor.applied(head), self._clock(), request)
        context.windows.check_present(work.windows, {step.stage.name for step in work.steps})
        outcomes = Outcomes(work.tasked)
        try:
            return self._run(work, head), outcomes
        except ChecksFailedError as error:
            error.tasks = outcomes.run.done
            raise

    def repair(
        self, request: Request, versions: Sequence[Version], findings: Iterable[Finding]
    ) -> Version:
        """Publish a version in which the damaged stages of the head are repaired.

        Args:
            request: has all rows of some sources, if they are given.
            versions: all versions of the store, oldest first.
            findings: the damage of the newest version.

        Raises:
            CorruptStoreError: rows of a source are lost, and not given.
        """
        head = self._compactor.applied(versions[-1])
        work = Repair.after(self._context, head, self._clock(), versions, findings, request)
        return self._run(work, versions[-1])

    def rollback(self, span: Sequence[Version], update_id: str | None = None) -> Version:
        """Publish a version equal to an earlier one, unless the head is and there is no id to keep.

        Args:
            span: all versions from the earlier one to the head.

        Returns:
            The published version, else the head.

        Raises:
            DefinitionError: the columns or feeders of a stage were different then.
            ConflictError: another writer was faster; nothing of this is visible.
        """
        head = self._compactor.applied(span[-1])
        return self._run(
            Rollback.over(self._context, head, self._clock(), span, update_id), span[-1]
        )

    def compared(self, request: Request, head: Version) -> Counted:
        """Return how snapshots differ from the rows of their sources; nothing is written.

        Args:
            request: has the snapshots.

        Returns:
            Source -> the counts of what a version would change; None if nothing.
        """
        work = Update.of(self._context, self._compactor.applied(head), self._clock(), request)
        with self._tables.access.many_effects():
            results = {
                step.stage.name: work.result(step, {})
                for step in work.steps
                if step.stage.name in request.batches
            }
        return {
            name: None if result is None else result.comparison.counts
            for name, result in results.items()
        }

    def plan(
        self,
        head: Version,
        *,
        given: Mapping[str, int | None],
        snapshots: Collection[str] = (),
        compared: Counted = _NOTHING_COMPARED,
        arrivals: Mapping[str, Arrival] | None = None,
        named: WindowArguments = NO_ARGUMENTS,
    ) -> Plan:
        """Return what an update would do, and why; see `plan.plan`.

        Args:
            given: source -> the number of keys given for it; None if unknown.
            compared: how snapshots differ; those that do not differ change nothing.

        Raises:
            MissingPartitionsError: a window would lack partitions, whatever rows are given.
        """
        context, windows, arrived = self._context, named.state(head.windows), arrivals or {}
        same = {name for name, counts in compared.items() if counts is None}
        given = {name: keys for name, keys in given.items() if name not in same}
        snapshots = [name for name in snapshots if name not in same]
        causes = Causes(given=given, snapshots=snapshots, arrived=reasons(arrived))
        steps = context.plan(head, causes, windows, advances=True)
        if windows != head.windows:
            computed = [step.stage.name for step in steps if step.stage.feeders]
            reached = {*given, *snapshots, *arrived, *computed}
            context.windows.check_present(windows, context.windows.unknown(head, reached))
        sources = context.retentions.sources
        expiring = context.retentions.due(head, windows)
        forgetting = [name for name in expiring if sources[name].retention.forgets]
        rezoned = context.rezoned(head).zones(context.graph)
        foreseen = Foreseen(
            given=given,
            compared=compared,
            forgetting=forgetting,
            zones={name: (was, context.time_zone) for name, was in rezoned.items()},
            cluster=context.engines.cluster,
            seconds_a_byte=self._tables.readings.seconds(1),
        )
        plan = planned(steps, context.graph, head, context.definitions, foreseen)
        plan.moves = differ(self.windows.moved(head, windows, (), advances=True), head)
        return plan

    def checked(self, head: Version) -> CheckResults:
        """Return what all checks find in the head; nothing is written.

        Raises:
            ProducerError: the query of a check fails.
        """
        with self._tables.access.many_effects():
            return self._evaluation(self._context).results(self._compactor.applied(head))

    @property
    def windows(self) -> Windows:
        """The windows of the graph."""
        return self._context.windows

    def vacuum(
        self,
        versions: Sequence[Version],
        kept: Sequence[Version],
        unfinished_hours: float,
        *,
        dry_run: bool,
    ) -> Vacuumed:
        """Drop all but the newest versions, or say what that would do; see `Vacuum`."""
        self._compactor.finish()
        vacuum = Vacuum(self._graph, self._tables, self._log, self._publisher, unfinished_hours)
        if dry_run:
            return vacuum.foreseen(versions, kept)
        with self._tables.access.many_effects():
            return vacuum.run(versions, kept, self._clock())

    def compact(self, head: Version) -> None:
        """Compact all tables now, and wait for the end."""
        self._compactor.start(self._compactor.applied(head), at_once=True)
        self._compactor.finish(raises=True)

    def wait(self) -> None:
        """Wait for the compactions that are under way."""
        self._compactor.finish()

    def close(self) -> None:
        """Wait for the compactions that are under way, and start no more."""
        self._compactor.close()

    def check_open(self) -> None:
        """Refuse what may start a compaction after `close`.

        Raises:
            ClosedError: the executor is closed.
        """
        self._compactor.check_open()

    def _run(self, work: VersionJob, published: Version) -> Version:
        """Compute, commit and publish a version; return ``published`` if it would be equal."""
        started = time.perf_counter()
        version = self._published(work, started)
        seconds = time.perf_counter() - started
        record(version or published, work.operation, seconds, published=version is not None)
        return version or published

    def _published(self, work: VersionJob, started: float) -> Version | None:
        """Publish and return the version; None if it would be equal to the head."""
        with self._tables.access.many_effects():
            stages = [step.stage for step in work.steps]
            with phase("checking"):
                kept = self._publisher.left(work.head, stages, work.attempt.given)
            work = work.carrying_on(kept)
            computed = self._computed(work)
            with phase("checking"):
                checks = Gate(work, computed, self._evaluation(work.context)).passed()
            results = work.results_to_publish(computed)
            if results is None:
                return None
            total = _count_of_shown(stages)
            reached(Progress(work.operation, COMMIT, total, total))
            head = self._after_compactions(work.head, results)
            new = Unpublished(
                operation=work.operation,
                head=work.before(head, results),
                definitions=work.definitions,
                attempt=work.attempt,
                started=started,
                update_id=work.name(results),
                checks=checks,
                repairs=not work.trusts_tables,
            )
            writes = {name: work.write(result, head) for name, result in results.items()}
            return self._publisher.publish(new, writes)

    def _evaluation(self, context: StoreContext) -> Evaluation:
        """Return what evaluates checks over versions that exist."""
        return Evaluation(
            context.graph, context.definitions, context.reader, context.engines, self._tables
        )

    def _computed(self, work: VersionJob) -> dict[str, StepResult]:
        """Return the results of the stages that the version touches, in topological order."""
        results: dict[str, StepResult] = {}
        done, total = 0, _count_of_shown(step.stage for step in work.steps)
        for step in work.steps:
            is_hidden = step.stage.hidden is not None
            begun = Progress(work.operation, step.stage.owner, done, total)
            reached(begun, is_hidden=is_hidden)
            started, before = time.perf_counter(), self._tables.readings.total
            with phase("computing"), needing(step.stage):
                result = work.result(step, results)
            seconds = time.perf_counter() - started
            ended = replace(begun, event="ends", seconds=seconds)
            if result is not None:
                work.context.check_partitions(result, work.head)
                read = self._tables.readings.total.after(before)
                ended = _ended_progress(ended, result, results, work.head)
                counts = result.comparison.counts
                rows = counts.rows_before + counts.rows_after
                estimate = work.context.engines.last_estimate(rows, counts.bytes)
                results[step.stage.name] = replace(
                    result, seconds=seconds, read=read, estimate=estimate
                )
            reached(ended, is_hidden=is_hidden)
            done += not is_hidden
        return results

    def _after_compactions(self, head: Version, stages: Iterable[str]) -> Version:
        """Return the head after waiting for the compactions of some stages' updates."""
        with phase("waiting"):
            for stage in stages:
                self._compactor.wait(stage, "feed")
        return self._compactor.applied(head)


def _count_of_shown(stages: Iterable[Stage]) -> int:
    """Return how many stages progress counts: those that users have defined."""
    return sum(stage.hidden is None for stage in stages)


def _ended_progress(
    ended: Progress, result: StepResult, results: Mapping[str, StepResult], head: Version
) -> Progress:
    """Return the progress of a stage whose result is known."""
    counts, feeders = result.comparison.counts, result.stage.feeders
    fed = (results[f.name].comparison.counts for f in feeders if f.name in results)
    return replace(
        ended,
        mode=result.mode,
        keys_in=sum(one.keys_changed for one in fed) if feeders else counts.keys,
        keys_affected=counts.keys,
        keys_changed=counts.keys_changed,
        rows=result.size(head.stages.get(result.stage.name, NO_TABLES))[0],
    )
