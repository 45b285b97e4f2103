"""The executor: carries out a plan, and is the one place where effects are ordered.

First every stage is computed, in topological order, each feeding the next through its `Comparison`;
nothing is written, so a failing produce function leaves no trace. Then each touched table gets one
commit. Then the version is published. The invariant: an exception at any point leaves the head as
it was, and the next update starts from the rows that the head pins.

It stands apart so that the order of effects can be read in one place, top to bottom.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession

from deltaproduce.batches import Batch
from deltaproduce.comparisons import Comparison
from deltaproduce.edits import Edit, Read, content_edit, mappings_edit, updates_edit
from deltaproduce.fingerprints import fingerprint
from deltaproduce.incremental import full_step, producer_step, source_step
from deltaproduce.pipeline import Graph, Source, Stage
from deltaproduce.plan import Step, plan
from deltaproduce.recovery import action
from deltaproduce.tables import CONTENT, KEY_MAPPINGS, UPDATES, Table, Tables
from deltaproduce.version_log import VersionLog
from deltaproduce.versions import Attempt, StageFigures, Version

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


@dataclass(frozen=True, slots=True)
class _Result:
    """What a step found out, and why and how long it took."""

    comparison: Comparison
    reason: str
    seconds: float


class Executor:
    """Carries out updates and refreshes of one store, one at a time."""

    def __init__(
        self,
        spark: SparkSession,
        graph: Graph,
        tables: Tables,
        log: VersionLog,
        progress: Callable[[Progress], None],
        clock: Callable[[], datetime],
    ) -> None:
        self._spark = spark
        self._graph = graph
        self._tables = tables
        self._log = log
        self._progress = progress
        self._clock = clock
        self._definitions = {stage.name: fingerprint(stage) for stage in graph.stages}
        self._checked: dict[Table, int] = {}

    def run(
        self,
        operation: str,
        head: Version,
        *,
        batches: Mapping[str, Batch] | None = None,
        refreshed: Collection[str] = (),
        update_id: str | None = None,
    ) -> Version:
        """Publish the version after ``head``, unless nothing changes and there is no id to keep.

        Returns:
            The version published, else ``head``.

        Raises:
            ProducerError: a produce function failed; nothing was written.
            ConflictError: another writer was faster; nothing of this is visible.
        """
        batches = batches or {}
        steps = plan(self._graph, head, self._definitions, given=batches, refreshed=refreshed)
        with self._tables.write_settings():
            results = self._compute(operation, head, steps, batches)
            if not results and update_id is None:
                return head
            self._progress(Progress(operation, "commit", len(steps), len(steps)))
            attempt = Attempt.after(head, self._clock())
            moved = self._commit(head, results, attempt)
            version = Version(
                number=attempt.version,
                committed_at=self._clock(),
                operation=operation,
                update_id=update_id,
                stages=self._figures(head, results, moved),
                definitions={**head.definitions, **self._definitions},
                attempt=attempt,
            )
            self._log.publish(version, attempt)
        return version

    def _compute(
        self, operation: str, head: Version, steps: tuple[Step, ...], batches: Mapping[str, Batch]
    ) -> dict[str, _Result]:
        """The results of the stages that the version touches, in topological order."""
        results: dict[str, _Result] = {}
        for done, step in enumerate(steps):
            self._progress(Progress(operation, step.stage.name, done, len(steps)))
            started = time.perf_counter()
            comparison = self._step(step, head, results, batches)
            if comparison is not None:
                seconds = time.perf_counter() - started
                results[step.stage.name] = _Result(comparison, step.reason, seconds)
        return results

    def _step(
        self,
        step: Step,
        head: Version,
        results: Mapping[str, _Result],
        batches: Mapping[str, Batch],
    ) -> Comparison | None:
        """What one stage's step finds out; None if it is not reached after all."""
        stage = step.stage
        content = self._rows(head, stage, CONTENT)
        if isinstance(stage, Source):
            found = source_step(stage, batches[stage.name], content)
            return found if found.counts.keys_changed else None
        feeder = stage.feeders[0]
        fed = results[feeder.name].comparison if feeder.name in results else None
        time_zone = self._spark.conf.get("spark.sql.session.timeZone") or "UTC"
        if step.how == "full":
            feeder_content = self._rows(head, feeder, CONTENT)
            if fed is not None:
                feeder_content = fed.content_after(feeder_content)
            if feeder_content is None:
                return None
            return full_step(stage, feeder_content, content, time_zone)
        if fed is None or not fed.counts.keys_changed:
            return None
        mappings = self._rows(head, stage, KEY_MAPPINGS)
        return producer_step(stage, fed, content, mappings, time_zone)

    def _rows(self, version: Version, stage: Stage, kind: str) -> DataFrame | None:
        """A table's rows in a version; None if it has none."""
        figures = version.stages.get(stage.name)
        if figures is None or not figures.rows:
            return None
        table = self._tables.location.table(stage.name, kind)
        return self._tables.read(table, figures.delta_versions[kind])

    def _commit(
        self, head: Version, results: Mapping[str, _Result], attempt: Attempt
    ) -> dict[str, dict[str, int]]:
        """One commit for each table whose rows change; stage -> kind -> its new delta version."""
        self._tables.ensure_schema()
        edits = [
            (name, kind, edit)
            for name, result in results.items()
            for kind, edit in self._edits(head, name, result.comparison, attempt.version).items()
            if edit is not None
        ]

        checked, self._checked = self._checked, {}

        @inheritable_thread_target(self._spark)
        def commit(name: str, kind: str, edit: Edit) -> int:
            table = self._tables.location.table(name, kind)
            base = self._base(table, head.delta_version(name, kind), checked)
            return self._tables.commit(table, edit, attempt, base)

        with ThreadPoolExecutor(_WRITERS) as pool:
            delta_versions = list(pool.map(lambda edit: commit(*edit), edits))
        moved: dict[str, dict[str, int]] = {name: {} for name in results}
        for (name, kind, _), delta_version in zip(edits, delta_versions, strict=True):
            moved[name][kind] = delta_version
            checked[self._tables.location.table(name, kind)] = delta_version
        self._checked = checked
        return moved

    def _base(self, table: Table, pinned: int | None, checked: Mapping[Table, int]) -> int | None:
        """Make a table's newest rows those that the head pins; returns its delta version."""
        if pinned is not None and checked.get(table) == pinned:
            return pinned
        match action(table.name, pinned, self._tables.recent_commits(table)):
            case "build":
                return None
            case "restore" if pinned is not None:
                return self._tables.restore(table, pinned)
            case _:
                return pinned

    def _edits(
        self, head: Version, name: str, comparison: Comparison, number: int
    ) -> dict[str, Edit | None]:
        def before(kind: str) -> Read | None:
            pinned = head.delta_version(name, kind)
            table = self._tables.location.table(name, kind)
            return None if pinned is None else partial(self._tables.read, table, pinned)

        exists = head.delta_version(name, UPDATES) is not None
        edits = {
            CONTENT: content_edit(comparison, before(CONTENT)),
            UPDATES: updates_edit(comparison, number, exists=exists),
        }
        if comparison.sources:
            edits[KEY_MAPPINGS] = mappings_edit(comparison, before(KEY_MAPPINGS))
        return edits

    def _figures(
        self,
        head: Version,
        results: Mapping[str, _Result],
        moved: Mapping[str, Mapping[str, int]],
    ) -> dict[str, StageFigures]:
        figures = {}
        for stage in self._graph.stages:
            last = head.stages.get(stage.name, _NO_TABLES)
            if stage.name in results:
                figures[stage.name] = _touched(results[stage.name], last, moved[stage.name])
            else:
                figures[stage.name] = last.carried()
        return figures


_NO_TABLES: Final = StageFigures("skipped")


def _touched(result: _Result, last: StageFigures, moved: Mapping[str, int]) -> StageFigures:
    counts = result.comparison.counts
    return StageFigures(
        mode=result.comparison.mode,
        reason=result.reason,
        affected_keys=counts.keys,
        changed_keys=counts.keys_changed,
        rows_added=counts.rows_added,
        rows_removed=counts.rows_removed,
        rows=last.rows + counts.rows_after - counts.rows_before,
        seconds=round(result.seconds, 3),
        delta_versions={**last.delta_versions, **moved},
    )
