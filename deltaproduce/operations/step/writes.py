"""Writes: how a stage's step is written, and what the version then records of the stage.

A `StepResult` is the outcome of a step. A `StepWrite` is how it is stored: one edit for each of the
stage's tables whose rows change, and the figures of the edited tables. The invariant: the figures
describe the tables after the edits, so that a reader of the version finds the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import pyarrow as pa

from deltaproduce.engines.choice import is_local
from deltaproduce.engines.comparisons import Comparison
from deltaproduce.engines.marks import ALIVE
from deltaproduce.model.graph import Stage
from deltaproduce.model.hidden import role_of
from deltaproduce.model.layouts import CONTENT, KEY_MAPPINGS, RUNS, UPDATES
from deltaproduce.model.limits.placement import Estimate
from deltaproduce.model.window_moves import WindowMove
from deltaproduce.operations.step.edits import (
    BY_KEY,
    Read,
    Taking,
    content_edit,
    mappings_edit,
    run_edit,
    updates_edit,
)
from deltaproduce.operations.step.filing import Filing
from deltaproduce.operations.step.plan import StepSize, TableType, Writing, writing
from deltaproduce.operations.step.windowing import Units
from deltaproduce.storage.decisions.resumption import CompletedStage
from deltaproduce.storage.edits import Edit, Restore
from deltaproduce.storage.figures import Base, InPlace, Mode, Numbering, Past, StageFigures
from deltaproduce.storage.parquet.readings import NOTHING_READ, ReadAmount
from deltaproduce.storage.stored import Overlay, run_of
from deltaproduce.storage.versions import columns_of

Edits: TypeAlias = Mapping[str, Edit | Restore]
"""The edits of one stage's tables, by kind."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """The outcome of a step, with its reason and its duration.

    Attributes:
        full: whether every key was produced.
        surrogates: the last surrogate number that the stage has given out.
        rebuilt: whether its tables have other columns than before, and are rebuilt.
        updates_rebuilt: whether its updates are rebuilt, too.
        window: the place of its window and the move that led there, if it has one.
        present: the partitions found in its rows, or in the rows that it reads.
        read: how much it has read of stored tables.
        estimate: how long it was estimated to take on the driver and in Spark; None if Spark
            has no other machines.
        rows_expired: the number of rows that left a source with their partitions.
        rows_not_taken: the number of rows given for partitions that the source does not keep.
        tasks: the tasks that were made, if the stage keeps their records.
        ties: the number of events that are not shown because another one is equal in the sequence.
    """

    stage: Stage
    comparison: Comparison
    reason: str
    full: bool
    surrogates: int = 0
    rebuilt: bool = False
    updates_rebuilt: bool = False
    window: WindowMove | None = None
    present: Units = field(default_factory=dict)
    rows_expired: int = 0
    rows_not_taken: int = 0
    tasks: tuple[str, ...] = ()
    ties: int = 0
    seconds: float = 0.0
    read: ReadAmount = NOTHING_READ
    estimate: Estimate | None = None

    @property
    def mode(self) -> Mode:
        """How its rows were found."""
        if self.full:
            return "full"
        return "seek" if self.comparison.sought else "merge"

    def size(self, last: StageFigures) -> tuple[int, int]:
        """Return the number of content rows after the step, and the approximate bytes per row.

        Args:
            last: the stage's figures in the version before.
        """
        counts = self.comparison.counts
        others = 0 if self.comparison.complete else last.rows - counts.rows_before
        seen = counts.rows_before + counts.rows_after
        return counts.rows_after + others, counts.bytes // seen if seen else last.row_bytes

    def keys(self, last: StageFigures) -> int | None:
        """Return the number of keys after the step; None if it is not known.

        Args:
            last: the stage's figures in the version before.
        """
        counts = self.comparison.counts
        if self.comparison.complete or not last.rows:
            return counts.keys_after
        return None if last.keys is None else last.keys - counts.keys_before + counts.keys_after

    def past(self, last: StageFigures) -> Past:
        """Return how far back the stage's tables reach after the step."""
        return replace(last.past, begun=0, begun_at=0) if self.updates_rebuilt else last.past

    def figures(self, mode: Mode) -> StageFigures:
        """Return the figures of the step, without the tables that it leaves."""
        counts = self.comparison.counts
        return StageFigures(
            mode=mode,
            reason=self.reason,
            affected_keys=counts.keys,
            changed_keys=counts.keys_changed,
            rows_added=counts.rows_added,
            rows_removed=counts.rows_removed,
            rows_read=self.read.rows,
            bytes_read=self.read.size,
            rows_expired=self.rows_expired,
            rows_not_taken=self.rows_not_taken,
            tasks=self.tasks,
            ties=self.ties,
            seconds=round(self.seconds, 3),
            driver_seconds=0.0 if self.estimate is None else round(self.estimate.driver_seconds, 3),
            spark_seconds=0.0 if self.estimate is None else round(self.estimate.spark_seconds, 3),
            numbering=Numbering(self.surrogates, self.stage.kind.key_use.numbered),
            columns=columns_of(self.stage),
            window=self.window,
            role=role_of(self.stage.hidden),
        )


class StageWrite(Protocol):
    """The executor's interface to any write of one stage's tables.

    Attributes:
        result: the outcome of the stage's step.
    """

    @property
    def result(self) -> StepResult: ...  # noqa: D102 see the class

    @property
    def in_place(self) -> bool:
        """Whether it commits to content or key mappings; no fold may overlap with that."""

    def edits(self, number: int, before: Mapping[str, Read]) -> Edits:
        """Return the edit of each table that the version with this number changes."""

    def overlay_after(self) -> Overlay | None:
        """Return the stage's runs after the write."""

    def figures(self, number: int, edits: Edits) -> StageFigures:
        """Return the stage's figures in the version with this number, before the commits."""


@dataclass(frozen=True, slots=True)
class StepWrite:
    """How a step is written.

    Attributes:
        last: the stage's figures in the version before.
        rows: the number of content rows after the step.
        row_bytes: the approximate size of a row.
        overlay: the runs before the step; None if there are none.
        run: the step's own run, if it is written as a run.
        runs_rewritten: whether the table of runs is rewritten; then ``run`` includes the runs
            before it.
        replaces: whether later steps replace rows of the content and the key mappings by predicate
            (copy on write, if a table is too large to be rewritten whole, and the driver does not
            mark rows).
        marks: whether the driver replaces rows, by marking them.
        filing: how files are to keep the content.
    """

    result: StepResult
    last: StageFigures
    rows: int
    row_bytes: int
    how: Writing
    overlay: Overlay | None
    run: pa.Table | None = None
    runs_rewritten: bool = False
    replaces: bool = False
    marks: bool = False
    filing: Filing = BY_KEY

    @staticmethod
    def of(
        result: StepResult,
        table_type: TableType,
        last: StageFigures,
        overlay: Overlay | None,
        filing: Filing = BY_KEY,
        *,
        marks: bool = False,
    ) -> StepWrite:
        """Decide how a step is written.

        Args:
            marks: whether the driver replaces rows of the stage's tables, by marking them.
        """
        comparison, counts = result.comparison, result.comparison.counts
        limits, alone = comparison.engines.limits, comparison.engines.session is None
        rows, row_bytes = result.size(last)
        size = StepSize(
            complete=comparison.complete,
            rows=rows,
            row_bytes=row_bytes,
            pairs_changed=counts.pairs_changed,
            pairs_replaced=counts.pairs_replaced,
            run_rows=counts.rows_of_changed_pairs + counts.pairs_gone,
            overlay_rows=overlay.added if overlay else 0,
            overlay_runs=overlay.runs if overlay else 0,
            added=last.base.added.get(CONTENT, 0),
            alone=alone,
            marks=marks,
            scattered=last.base.scattered,
        )
        is_rewritten = result.rebuilt or _has_other_layout(last, filing)
        how = "rewrite" if is_rewritten else writing(table_type, limits, size)
        if how != "run":
            rewritten = alone or marks or limits.is_rewritten(rows, row_bytes)
            replaces = table_type == "copy_on_write" and not rewritten
            return StepWrite(
                result,
                last,
                rows,
                row_bytes,
                how,
                overlay,
                replaces=replaces,
                marks=marks,
                filing=filing,
            )
        run, added = run_of(comparison), last.base.added.get(RUNS)
        rewrites_runs = added is None or added >= limits.compaction_commits
        if rewrites_runs and overlay is not None:  # merge many small files into one
            run, overlay = overlay.with_run(run).rows, None
        return StepWrite(
            result, last, rows, row_bytes, how, overlay, run, rewrites_runs, filing=filing
        )

    @property
    def in_place(self) -> bool:
        """See `StageWrite.in_place`."""
        return self.how in ("replace", "rewrite")

    def edits(self, number: int, before: Mapping[str, Read]) -> dict[str, Edit]:
        """Return the edit of each table whose rows change, by kind.

        Args:
            number: the version's number.
            before: returns the content and the key mappings before the step; empty if there were
                none.
        """
        comparison, how, exists = self.result.comparison, self.how, set(self.last.delta_versions)
        if self.result.rebuilt:
            exists -= {CONTENT, KEY_MAPPINGS, *((UPDATES,) if self.result.updates_rebuilt else ())}
        taking = {
            kind: Taking(
                how=how,
                exists=kind in exists,
                folds=self.overlay is not None,
                marks=self.marks,
            )
            for kind in (CONTENT, KEY_MAPPINGS)
        }
        edits = {
            CONTENT: content_edit(
                comparison,
                taking[CONTENT],
                before.get(CONTENT),
                self.rows,
                self.filing,
                parted=self._is_parted and (self.overlay is None or CONTENT in before),
            ),
        }
        if UPDATES in self.result.stage.kind.tables:
            edits[UPDATES] = updates_edit(comparison, number, exists=UPDATES in exists)
        if comparison.layout.sources:
            edits[KEY_MAPPINGS] = mappings_edit(
                comparison, taking[KEY_MAPPINGS], before.get(KEY_MAPPINGS), self.rows
            )
        for kind in (CONTENT, KEY_MAPPINGS):
            edit = edits.get(kind)
            apart = kind == CONTENT and _has_other_layout(self.last, self.filing)
            edits[kind] = None if edit is None else replace(edit, marked=self.replaces, apart=apart)
        if self.run is not None:
            edits[RUNS] = run_edit(self.run, comparison, number, exists=not self.runs_rewritten)
        return {kind: edit for kind, edit in edits.items() if edit is not None}

    def overlay_after(self) -> Overlay | None:
        """Return the stage's runs after the step."""
        if self.run is None:
            return self.overlay if self.how == "nothing" else None
        comparison = self.result.comparison
        before = self.overlay or Overlay.none(comparison.layout.pair, comparison.layout.content)
        return before.with_run(self.run)

    def figures(self, number: int, edits: Edits) -> StageFigures:
        """Return the stage's figures in the version."""
        overlay = self.overlay_after()
        return replace(
            self.result.figures(self._mode()),
            rows=self.rows,
            row_bytes=self.row_bytes,
            keys=self.result.keys(self.last),
            delta_versions=self.last.delta_versions,
            base=Base(
                added={**self._added_before(), **added(self.last, edits)},
                folded=self.last.base.folded if self.how in ("nothing", "run") else number,
                runs=0 if overlay is None else overlay.runs,
                run_rows=0 if overlay is None else overlay.added,
                stored=self.filing.text,
                scattered=self._scattered(),
            ),
            past=self.result.past(self.last),
        )

    def _scattered(self) -> int:
        """Return how many rows of content are beside those that were last put in order."""
        if self.how == "rewrite":
            return 0
        added = self.result.comparison.counts.rows_of_changed_pairs if self.how == "replace" else 0
        return self.last.base.scattered + added

    @property
    def _is_parted(self) -> bool:
        """Whether partitions of the content without changed rows can stay as they are."""
        comparison = self.result.comparison
        if not self.filing.partitions or not is_local(comparison.rows):
            return False
        if self.result.rebuilt or _has_other_layout(self.last, self.filing):
            return False
        most = comparison.engines.limits.compaction_commits
        return self.last.base.added.get(CONTENT, most) < most

    def _added_before(self) -> dict[str, int]:
        """Return how often each table was added to; runs with other columns do not count."""
        return {
            k: n for k, n in self.last.base.added.items() if k != RUNS or not self.result.rebuilt
        }

    def _mode(self) -> Mode:
        return "rewrite" if self.how == "rewrite" and not self.result.full else self.result.mode


@dataclass(frozen=True, slots=True)
class WriteInPlace:
    """The write of a source that is someone else's table (a `StageWrite`): it adds updates only.

    The first version of the table adds no updates: its updates are all rows of the table.

    Attributes:
        last: the source's figures in the version before.
        place: where its rows are from now on; None if it has no rows any more.
        begins: whether it had no rows before, or none that count.
        mode: the mode that the version records.
    """

    result: StepResult
    last: StageFigures
    place: InPlace | None
    begins: bool
    mode: Mode

    @property
    def in_place(self) -> bool:
        """See `StageWrite.in_place`: neither content nor key mappings are written."""
        return False

    def edits(self, number: int, before: Mapping[str, Read]) -> dict[str, Edit | Restore]:
        """See `StageWrite.edits`."""
        del before
        if self.begins:
            return {}
        exists = UPDATES in self.last.delta_versions and not self.result.updates_rebuilt
        edit = updates_edit(self.result.comparison, number, exists=exists)
        return {} if edit is None else {UPDATES: edit}

    def overlay_after(self) -> Overlay | None:
        """See `StageWrite.overlay_after`: there are no runs."""
        return None

    def figures(self, number: int, edits: Edits) -> StageFigures:
        """See `StageWrite.figures`."""
        last = self.last
        rows, row_bytes = self.result.size(last)
        kept = {
            kind: delta_version
            for kind, delta_version in last.delta_versions.items()
            if kind == UPDATES and not self.result.updates_rebuilt
        }
        past, before = self.result.past(last), last.base.added
        if self.begins and self.place:
            past = replace(past, begun=number, begun_at=self.place.delta_version)
        figures = replace(
            self.result.figures(self.mode),
            rows=rows,
            row_bytes=row_bytes,
            keys=self.result.keys(last),
            delta_versions=kept,
            base=Base({**{k: n for k, n in before.items() if k == UPDATES}, **added(last, edits)}),
            past=past,
        )
        return figures if self.place is None else self.place.pinned(figures)


@dataclass(frozen=True, slots=True)
class WriteKept:
    """The write of a stage that an earlier attempt has completed: there is nothing left to do.

    A `StageWrite`.
    """

    result: StepResult
    kept: CompletedStage

    @property
    def in_place(self) -> bool:
        """See `StageWrite.in_place`."""
        return False

    def edits(self, number: int, before: Mapping[str, Read]) -> Edits:
        """See `StageWrite.edits`."""
        del number, before
        return {}

    def overlay_after(self) -> Overlay | None:
        """See `StageWrite.overlay_after`: readers load it when they need it."""
        return None

    def figures(self, number: int, edits: Edits) -> StageFigures:
        """See `StageWrite.figures`."""
        del number, edits
        return self.kept.figures


def _has_other_layout(last: StageFigures, filing: Filing) -> bool:
    """Return whether the content's table exists, and its files must be reorganized."""
    return CONTENT in last.delta_versions and last.base.stored != filing.text


def added(last: StageFigures, edits: Edits) -> dict[str, int]:
    """Return how often the edited tables were added to since their rows were last put in order."""
    totals = dict[str, int]()
    for kind, edit in edits.items():
        if isinstance(edit, Edit):
            before = last.base.added.get(kind, 0)
            totals[kind] = 0 if edit.is_whole else before + (not edit.overwrite)
    return totals


def content_at_hand(comparison: Comparison, edits: Edits) -> pa.Table | None:
    """Return the content after a step, if the driver has it whole and writes it; None otherwise."""
    edit = edits.get(CONTENT)
    if not isinstance(edit, Edit) or not edit.overwrite or not isinstance(edit.rows, pa.Table):
        return None
    if not edit.is_whole:
        whole = comparison.select(comparison.layout.content, ALIVE) if comparison.complete else None
        return whole if isinstance(whole, pa.Table) else None
    return edit.rows.drop_columns([column.name for column in edit.beside])
