"""The executor: carries out a plan, and is the one place where effects are ordered.

First every stage is computed, in topological order, each feeding the next through its `Comparison`;
nothing is written, so a failing produce function leaves no trace. Then each touched table gets one
commit. Then the version is published. The invariant: an exception at any point leaves the head as
it was, and the next update starts from the rows that the head pins.

It stands apart so that the order of effects can be read in one place, top to bottom.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession

from deltaproduce.batches import Batch
from deltaproduce.compaction import Compactor
from deltaproduce.delta_sources import Arrival
from deltaproduce.edits import Edit, Read, Restore
from deltaproduce.fingerprints import Fingerprint, fingerprint
from deltaproduce.incremental import Found, full_step, producer_step, source_step
from deltaproduce.inputs import Feed
from deltaproduce.locations import CONTENT, KEY_MAPPINGS, Table
from deltaproduce.plan import Policy, Step, TableType, check_layouts, plan, rolled_back
from deltaproduce.productions import Production
from deltaproduce.readers import Reader
from deltaproduce.recovery import action
from deltaproduce.redefinitions import Redefinition
from deltaproduce.rollbacks import Rollback, differences
from deltaproduce.stages import Graph, Source, Stage
from deltaproduce.stored import Stored
from deltaproduce.tables import Tables
from deltaproduce.version_log import VersionLog
from deltaproduce.versions import Attempt, InPlace, StageFigures, Version, columns_of, stage_at
from deltaproduce.writes import NO_TABLES, Result, StageWrite, Write, WriteInPlace

_WRITERS: Final = 4
"""Tables that are committed to at the same time: most of a commit is waiting for the driver."""


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
        self._table_type = table_type
        self._policy = policy
        self._log = log
        self._progress = progress
        self._clock = clock
        self._definitions = {stage.name: fingerprint(stage) for stage in graph.stages}
        self._checked: dict[Table, int] = {}
        self._compactor = Compactor(graph, tables, reader)

    def run(
        self,
        operation: str,
        head: Version,
        *,
        batches: Mapping[str, Batch] | None = None,
        arrivals: Mapping[str, Arrival] | None = None,
        refreshed: Collection[str] = (),
        update_id: str | None = None,
    ) -> Version:
        """Publish the version after ``head``, unless nothing changes and there is no id to keep.

        Args:
            batches: what is given for sources.
            arrivals: what is new in the tables of those that are read in place.

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
        with self._tables.write_settings():
            results = self._compute(operation, head, steps, batches, arrivals)
            overdue = any(arrival.is_overdue(self._clock()) for arrival in arrivals.values())
            if not results and update_id is None and not overdue:
                return published
            self._progress(Progress(operation, "commit", len(steps), len(steps)))
            head = self._without_compactions(head, results)
            writes = {
                name: self._write(head, result, arrivals.get(name))
                for name, result in results.items()
            }
            head = _moved(head, [a for name, a in arrivals.items() if name not in writes])
            definitions = {**head.definitions, **self._definitions}
            return self._publish(operation, head, writes, definitions, update_id)

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
        with self._tables.write_settings():
            results = differences(span, head, self._graph, self._reader, self._spark, progress)
            if not results:
                return published
            progress("commit", len(results), len(results))
            head = self._without_compactions(head, results)
            writes = {
                name: self._write_back(head, wanted, result) for name, result in results.items()
            }
            return self._publish("rollback", head, writes, rolled_back(head, wanted))

    def compact(self, head: Version) -> None:
        """Compact all tables now, and wait for the end."""
        self._compactor.start(self._compactor.applied(head), at_once=True)
        self._compactor.finish(raises=True)

    def wait(self) -> None:
        """Wait for the compactions that are under way."""
        self._compactor.finish()

    def _without_compactions(self, head: Version, stages: Iterable[str]) -> Version:
        """The head with the updates of some stages in the state that no compaction will change."""
        for stage in stages:
            self._compactor.wait(stage, "feed")
        return self._compactor.applied(head)

    def _write(self, head: Version, result: Result, arrival: Arrival | None = None) -> StageWrite:
        last = head.stages.get(result.stage.name, NO_TABLES)
        if arrival is not None:
            return WriteInPlace(result, last, arrival.place, arrival.begins, result.mode)
        overlay = self._reader.overlay(head, result.stage)
        return Write.of(result, self._table_type, last, overlay)

    def _write_back(self, head: Version, wanted: Version, result: Result) -> StageWrite:
        """How a stage goes back to what it was in an earlier version."""
        stage, name = result.stage, result.stage.name
        last, then = head.stages.get(name, NO_TABLES), wanted.stages.get(name, NO_TABLES)
        if isinstance(stage, Source) and stage.is_in_place:
            return WriteInPlace(result, last, InPlace.of(then), begins=False, mode="restore")
        if result.comparison.complete:
            return self._write(head, result)
        return Rollback(result, last, then, self._reader.overlay(wanted, stage))

    def _publish(
        self,
        operation: str,
        head: Version,
        writes: Mapping[str, StageWrite],
        definitions: Mapping[str, Fingerprint],
        update_id: str | None = None,
    ) -> Version:
        """Make the writes, and then the version of them: the commit point."""
        attempt = Attempt.after(head)
        self._commit(head, writes, attempt)
        version = Version(
            number=attempt.version,
            committed_at=self._clock(),
            operation=operation,
            update_id=update_id,
            stages=self._figures(head, writes, attempt.version),
            definitions=definitions,
            attempt=attempt,
        )
        self._log.publish(version, attempt)
        for name, write in writes.items():
            figures = version.stages[name]
            self._reader.keep(name, figures, write.overlay_after(), write.content)
        self._compactor.start(version)
        return version

    def _compute(
        self,
        operation: str,
        head: Version,
        steps: tuple[Step, ...],
        batches: Mapping[str, Batch],
        arrivals: Mapping[str, Arrival],
    ) -> dict[str, Result]:
        """The results of the stages that the version touches, in topological order."""
        results: dict[str, Result] = {}
        for done, step in enumerate(steps):
            name = step.stage.name
            self._progress(Progress(operation, name, done, len(steps)))
            started = time.perf_counter()
            found = self._step(step, head, results, batches, arrivals)
            if found is not None:
                seconds = time.perf_counter() - started
                full = step.how == "full" or not head.stages.get(name, NO_TABLES).rows
                old = stage_at(head, step.stage)
                results[name] = Result(
                    step.stage,
                    found.comparison,
                    step.reason,
                    seconds,
                    full,
                    found.surrogates,
                    anew=old is not step.stage,
                    updates_anew=columns_of(old)[:2] != columns_of(step.stage)[:2],
                )
        return results

    def _step(
        self,
        step: Step,
        head: Version,
        results: Mapping[str, Result],
        batches: Mapping[str, Batch],
        arrivals: Mapping[str, Arrival],
    ) -> Found | None:
        """What one stage's step finds out; None if it is not reached after all."""
        stage, old = step.stage, stage_at(head, step.stage)
        redefined = None if old is stage else Redefinition(old, stage)
        if stage.name in arrivals and isinstance(stage, Source):
            return self._arrived(stage, arrivals[stage.name], head, redefined)
        content = self._reader.content(head, stage)
        if isinstance(stage, Source):
            return source_step(stage, batches[stage.name], content, redefined)
        feeds = [
            Feed(
                feeder,
                # Rows that did not change are in what a table has now, too.
                arrivals[feeder.name].content
                if feeder.name in arrivals and not arrivals[feeder.name].begins
                else partial(self._reader.content, head, feeder),
                results[feeder.name].comparison if feeder.name in results else None,
            )
            for feeder in stage.feeders
        ]
        time_zone = self._spark.conf.get("spark.sql.session.timeZone") or "UTC"
        last = head.stages.get(stage.name, NO_TABLES)
        is_numbered = last.surrogate == stage.surrogate
        given_out = last.surrogates if is_numbered else 0
        production = Production(stage, given_out, time_zone, self._spark, is_numbered)
        if step.how == "full":
            return full_step(production, feeds, content, redefined)
        mappings = partial(self._reader.key_mappings, head, stage)
        return producer_step(production, feeds, content, mappings)

    def _arrived(
        self, source: Source, arrival: Arrival, head: Version, redefined: Redefinition | None
    ) -> Found | None:
        """What the step of a source that is read in place finds out."""
        with arrival.reading():
            if arrival.begins:
                return source_step(source, arrival.batch(), None, anew=arrival.last is not None)
            content = self._reader.content(head, source)
            return source_step(source, arrival.batch(), content, redefined)

    def _commit(self, head: Version, writes: Mapping[str, StageWrite], attempt: Attempt) -> None:
        """One commit for each table whose rows change."""
        self._tables.ensure_schema()
        for name, write in writes.items():
            if write.in_place:
                self._compactor.wait(name, "fold")
        edits = [
            (name, kind, edit)
            for name, write in writes.items()
            for kind, edit in write.edits(
                attempt.version, self._reads(head, write.result.stage)
            ).items()
        ]
        checked, self._checked = self._checked, {}

        @inheritable_thread_target(self._spark)
        def commit(name: str, kind: str, edit: Edit | Restore) -> int:
            table = self._tables.location.table(name, kind)
            # Where the table really is decides how it is set back.
            known = {} if isinstance(edit, Restore) else checked
            base = self._base(table, head.delta_version(name, kind), known)
            return self._tables.commit(table, edit, attempt, base)

        with ThreadPoolExecutor(_WRITERS) as pool:
            delta_versions = list(pool.map(lambda edit: commit(*edit), edits))
        for (name, kind, edit), delta_version in zip(edits, delta_versions, strict=True):
            writes[name].committed(kind, edit, delta_version)
            checked[self._tables.location.table(name, kind)] = delta_version
        self._checked = checked

    def _figures(
        self, head: Version, writes: Mapping[str, StageWrite], number: int
    ) -> dict[str, StageFigures]:
        return {
            stage.name: writes[stage.name].figures(number)
            if stage.name in writes
            else head.stages.get(stage.name, NO_TABLES).carried()
            for stage in self._graph.stages
        }

    def _base(self, table: Table, pinned: int | None, checked: Mapping[Table, int]) -> int | None:
        """Make a table's newest rows those that the head pins; returns its delta version."""
        if pinned is not None and checked.get(table) == pinned:
            return pinned
        commits = self._tables.recent_commits(table, pinned)
        match action(table.name, pinned, commits):
            case "build":
                return None
            case "restore" if pinned is not None:
                return self._tables.restore(table, pinned)
            case _:
                return commits[0].delta_version

    def _reads(self, head: Version, stage: Stage) -> dict[str, Read]:
        """How to read a stage's rows as the head has them; nothing if it has none."""
        if not head.stages.get(stage.name, NO_TABLES).rows:
            return {}
        return {
            CONTENT: partial(_all, self._reader.content, head, stage),
            KEY_MAPPINGS: partial(_all, self._reader.key_mappings, head, stage),
        }


def _moved(head: Version, arrivals: Iterable[Arrival]) -> Version:
    """The head with sources whose tables have moved on, and have the same rows."""
    moved = {
        arrival.source.name: arrival.place.pinned(arrival.last)
        for arrival in arrivals
        if arrival.last is not None
    }
    return replace(head, stages={**head.stages, **moved})


def _all(
    read: Callable[[Version, Stage], Stored | None], version: Version, stage: Stage
) -> DataFrame:
    found = read(version, stage)
    assert found is not None  # the figures say that there are rows
    return found.all()
