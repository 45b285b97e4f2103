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
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession

from deltaproduce.batches import Batch
from deltaproduce.comparisons import Comparison
from deltaproduce.edits import Edit, content_edit, mappings_edit, run_edit, run_of, updates_edit
from deltaproduce.fingerprints import fingerprint
from deltaproduce.incremental import full_step, producer_step, source_step
from deltaproduce.pipeline import Graph, Source, Stage
from deltaproduce.plan import Step, TableType, Writing, plan, writing
from deltaproduce.readers import Reader
from deltaproduce.recovery import action
from deltaproduce.selections import Rows
from deltaproduce.stored import Overlay, Stored
from deltaproduce.tables import CONTENT, KEY_MAPPINGS, RUNS, UPDATES, Table, Tables
from deltaproduce.version_log import VersionLog
from deltaproduce.versions import Attempt, Mode, StageFigures, Version

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
    """What a step found out, and why and how long it took.

    Attributes:
        full: every key was produced.
    """

    stage: Stage
    comparison: Comparison
    reason: str
    seconds: float
    full: bool


class Executor:
    """Carries out updates and refreshes of one store, one at a time."""

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
    ) -> None:
        self._spark = spark
        self._graph = graph
        self._tables = tables
        self._reader = reader
        self._table_type = table_type
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
            attempt = Attempt.after(head)
            written = self._commit(head, results, attempt)
            version = Version(
                number=attempt.version,
                committed_at=self._clock(),
                operation=operation,
                update_id=update_id,
                stages=self._figures(head, written, attempt.version),
                definitions={**head.definitions, **self._definitions},
                attempt=attempt,
            )
            self._log.publish(version, attempt)
            for name, step in written.items():
                self._reader.keep(
                    name, version.stages[name], step.overlay_after(), step.tables.get(CONTENT)
                )
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
                full = step.how == "full" or not head.stages.get(step.stage.name, _NO_TABLES).rows
                results[step.stage.name] = _Result(
                    step.stage, comparison, step.reason, seconds, full
                )
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
        content = self._reader.content(head, stage)
        if isinstance(stage, Source):
            found = source_step(stage, batches[stage.name], content)
            return found if found.counts.keys_changed else None
        feeder = stage.feeders[0]
        fed = results[feeder.name].comparison if feeder.name in results else None
        time_zone = self._spark.conf.get("spark.sql.session.timeZone") or "UTC"
        if step.how == "full":
            rows = self._content_after(head, feeder, fed)
            return None if rows is None else full_step(stage, rows, content, time_zone, self._spark)
        if fed is None or not fed.counts.keys_changed:
            return None
        mappings = partial(self._reader.key_mappings, head, stage)
        return producer_step(stage, fed, content, mappings, time_zone)

    def _content_after(self, head: Version, stage: Stage, step: Comparison | None) -> Rows | None:
        """All rows of a stage as they are after its step, if it has one; None if there are none."""
        before = self._reader.content(head, stage)
        if step is not None:
            return step.content_after(None if before is None else before.all)
        if before is None:
            return None
        return before.fetched() if before.small else before.all()

    def _commit(
        self, head: Version, results: Mapping[str, _Result], attempt: Attempt
    ) -> dict[str, _Written]:
        """One commit for each table whose rows change."""
        self._tables.ensure_schema()
        written = {name: self._written(head, result) for name, result in results.items()}
        edits = [
            (name, kind, edit)
            for name, found in written.items()
            for kind, edit in self._edits(head, found, attempt.version).items()
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
        for (name, kind, edit), delta_version in zip(edits, delta_versions, strict=True):
            written[name].delta_versions[kind] = delta_version
            written[name].whole[kind] = edit.overwrite
            if edit.overwrite and isinstance(edit.rows, pa.Table):
                written[name].tables[kind] = edit.rows
            checked[self._tables.location.table(name, kind)] = delta_version
        self._checked = checked
        return written

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

    def _written(self, head: Version, result: _Result) -> _Written:
        """How a step is to be written."""
        stage, comparison = result.stage, result.comparison
        counts, last = comparison.counts, head.stages.get(stage.name, _NO_TABLES)
        overlay = self._reader.overlay(head, stage)
        rows = last.rows + counts.rows_after - counts.rows_before
        how = writing(
            self._table_type,
            complete=comparison.complete,
            rows=rows,
            row_bytes=last.row_bytes,
            pairs_changed=counts.pairs_changed,
            pairs_replaced=counts.pairs_replaced,
            run_rows=counts.rows_of_changed_pairs + counts.pairs_gone,
            overlay_rows=len(overlay.rows) if overlay else 0,
            overlay_runs=overlay.runs if overlay else 0,
        )
        run = run_of(comparison) if how == "run" else None
        return _Written(result, last, rows, how, overlay, run)

    def _edits(self, head: Version, written: _Written, number: int) -> dict[str, Edit | None]:
        stage, comparison, how = written.result.stage, written.result.comparison, written.how
        exists = written.last.delta_versions
        rows, folds = written.rows, written.overlay is not None
        content, mappings = (
            partial(_all, read, head, stage) if written.last.rows else None
            for read in (self._reader.content, self._reader.key_mappings)
        )
        edits = {
            CONTENT: content_edit(comparison, how, content, rows, exists=CONTENT in exists),
            UPDATES: updates_edit(comparison, number, exists=UPDATES in exists),
        }
        if comparison.sources:
            there = KEY_MAPPINGS in exists
            edits[KEY_MAPPINGS] = mappings_edit(
                comparison, how, mappings, rows, exists=there, folds=folds
            )
        if written.run is not None:
            edits[RUNS] = run_edit(written.run, comparison, number, exists=RUNS in exists)
        return edits

    def _figures(
        self, head: Version, written: Mapping[str, _Written], number: int
    ) -> dict[str, StageFigures]:
        return {
            stage.name: written[stage.name].figures(number)
            if stage.name in written
            else head.stages.get(stage.name, _NO_TABLES).carried()
            for stage in self._graph.stages
        }


def _all(
    read: Callable[[Version, Stage], Stored | None], version: Version, stage: Stage
) -> DataFrame:
    found = read(version, stage)
    assert found is not None  # the figures say that there are rows
    return found.all()


_NO_TABLES: Final = StageFigures("skipped")


@dataclass(frozen=True, slots=True)
class _Written:
    """How a step is written, and what it then is.

    Attributes:
        last: the stage's figures in the version before.
        rows: content rows after the step.
        overlay: the runs before it; None if there are none.
        run: the step's own run, if it is written as one.
        delta_versions: of the tables committed to, by kind.
        whole: whether they were written whole.
        tables: the rows of those that were written whole from the driver.
    """

    result: _Result
    last: StageFigures
    rows: int
    how: Writing
    overlay: Overlay | None
    run: pa.Table | None
    delta_versions: dict[str, int] = field(default_factory=dict)
    whole: dict[str, bool] = field(default_factory=dict)
    tables: dict[str, pa.Table] = field(default_factory=dict)

    def overlay_after(self) -> Overlay | None:
        """The stage's runs after the step."""
        if self.run is None:
            return self.overlay if self.how == "nothing" else None
        comparison = self.result.comparison
        before = self.overlay or Overlay.none(comparison.pair, comparison.content)
        return before.with_run(self.run)

    def figures(self, number: int) -> StageFigures:
        """What the version says of the stage."""
        counts, overlay = self.result.comparison.counts, self.overlay_after()
        seen = counts.rows_before + counts.rows_after
        return StageFigures(
            mode=self._mode(),
            reason=self.result.reason,
            affected_keys=counts.keys,
            changed_keys=counts.keys_changed,
            rows_added=counts.rows_added,
            rows_removed=counts.rows_removed,
            rows=self.rows,
            row_bytes=counts.bytes // seen if seen else self.last.row_bytes,
            seconds=round(self.result.seconds, 3),
            delta_versions={**self.last.delta_versions, **self.delta_versions},
            whole={**self.last.whole, **self.whole},
            folded=self.last.folded if self.how in ("nothing", "run") else number,
            runs=0 if overlay is None else overlay.runs,
        )

    def _mode(self) -> Mode:
        if self.result.full:
            return "full"
        if self.how == "rewrite":
            return "rewrite"
        return "seek" if self.result.comparison.sought else "merge"
