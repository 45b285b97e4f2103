"""Rollbacks: return stages to their state in an earlier version.

A small stage is compared as a whole, and written like any step. For other stages, Delta restores
the tables to the delta versions that the earlier version pins, which writes no row; only the
updates get rows, for the keys with updates since then. The invariant: afterwards the tables, and
the figures that say how to read them, equal those of the earlier version, at delta versions that no
compaction of a version in between builds on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final

from typing_extensions import override

from deltaproduce.engines.local.arrays import same_rows
from deltaproduce.engines.spark.kernels.comparing import unmatched
from deltaproduce.engines.spark.sessions.on_demand import is_frame
from deltaproduce.model.fingerprints import NOT_COMPUTED, Fingerprint
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import CONTENT, KEY_MAPPINGS, RUNS, UPDATES
from deltaproduce.operations.making.version_job import StoreContext, VersionJob
from deltaproduce.operations.step.edits import Read, emptied, updates_edit
from deltaproduce.operations.step.incremental import difference
from deltaproduce.operations.step.plan import Step, check_layouts, has_other_layout, rolled_back
from deltaproduce.operations.step.windowing import differ
from deltaproduce.operations.step.writes import (
    Edits,
    StageWrite,
    StepResult,
    WriteInPlace,
    added,
)
from deltaproduce.storage.attempts import Attempt
from deltaproduce.storage.edits import Edit, Restore
from deltaproduce.storage.figures import NO_TABLES, InPlace, StageFigures
from deltaproduce.storage.stored import Overlay, Stored
from deltaproduce.storage.versions import Version, unbroken

_SET_BACK: Final = (CONTENT, KEY_MAPPINGS, RUNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback(VersionJob):
    """A version that equals an earlier one.

    It includes every stage that is not compared as a whole as soon as any stage differs, unless the
    stage's tables are the same: its rows may also differ in their source keys.

    Attributes:
        span: all versions from the earlier one to the newest.
        apart: hidden stages of checks that had other columns. They stay as they are, and the next
            update makes them again.
    """

    span: Sequence[Version]
    apart: AbstractSet[str] = frozenset()

    @staticmethod
    def over(
        context: StoreContext,
        head: Version,
        started_at: datetime,
        span: Sequence[Version],
        update_id: str | None = None,
    ) -> Rollback:
        """Return the rollback over a span of versions.

        Args:
            head: the newest version, with its tables as compactions have left them.

        Raises:
            DefinitionError: the columns or feeders of a stage were different then.
        """
        wanted, published = span[0], span[-1]
        of_checks = {stage.name for stage in context.graph.stages if _is_of_check(stage, context)}
        users = {name: one for name, one in context.definitions.items() if name not in of_checks}
        check_layouts(users, wanted)
        check_layouts(users, published)
        apart = {
            name
            for name in of_checks
            if any(
                has_other_layout(context.definitions[name], name, v) for v in (wanted, published)
            )
        }
        reason = f"rolled back to version {wanted.number}"
        return Rollback(
            context=context,
            operation="rollback",
            head=head,
            steps=tuple(
                Step(stage, "incremental", reason)
                for stage in context.graph.stages
                if stage.name not in apart and not _same_tables(stage, wanted, published)
            ),
            attempt=Attempt.after(head, started_at),
            update_id=update_id,
            span=span,
            apart=apart,
        )

    @property
    def wanted(self) -> Version:
        """The version to go back to."""
        return self.span[0]

    @property
    @override
    def restored(self) -> Version:
        return self.wanted

    @property
    @override
    def limits_shares(self) -> bool:
        return False

    @property
    @override
    def definitions(self) -> Mapping[str, Fingerprint]:
        definitions, known = rolled_back(self.head, self.wanted), self.head.definitions
        apart = {
            name: replace(known[name], function=NOT_COMPUTED) for name in self.apart & known.keys()
        }
        return {**definitions, **apart}

    @override
    def result(self, step: Step, results: Mapping[str, StepResult]) -> StepResult | None:
        """Return how the stage differs from its earlier state; None if equal."""
        del results
        stage, reader = step.stage, self.context.reader
        before, after = (reader.content(version, stage) for version in (self.head, self.wanted))
        has_all_updates = UPDATES in stage.kind.tables and unbroken(self.span, stage.name)
        keys = partial(reader.changed_keys, self.span, stage) if has_all_updates else None
        comparison = difference(stage, before, after, keys, self.context.engines)
        if comparison.complete and not comparison.counts.pairs_changed:
            return None
        given_out = self.wanted.stages.get(stage.name, NO_TABLES).numbering.surrogates
        window = self.context.windows.back(stage.name, self.head, self.wanted, step.reason)
        return StepResult(
            stage, comparison, step.reason, full=False, surrogates=given_out, window=window
        )

    @override
    def results_to_publish(
        self, results: Mapping[str, StepResult]
    ) -> Mapping[str, StepResult] | None:
        if any(result.comparison.counts.pairs_changed for result in results.values()):
            return results
        reader, versions = self.context.reader, (self.head, self.wanted)
        differing = {
            name: result
            for name, result in results.items()
            if _differ(*(reader.content(version, result.stage) for version in versions))
        }
        after = self.before(self.head, differing)
        moves = differ(after, self.head) or after.time_zone != self.head.time_zone
        return differing if differing or moves or self.update_id is not None else None

    @override
    def before(self, head: Version, results: Mapping[str, StepResult]) -> Version:
        """Windows of all stages return to their earlier places."""
        reason, figures = f"rolled back to version {self.wanted.number}", dict(head.stages)
        for name in figures.keys() - results.keys():
            window = self.context.windows.back(name, head, self.wanted, reason)
            figures[name] = replace(figures[name], window=window)
        zone = self.wanted.time_zone if self.wanted.number else head.time_zone
        return replace(head, stages=figures, windows=self.wanted.windows, time_zone=zone)

    @override
    def write(self, result: StepResult, head: Version) -> StageWrite:
        stage, name = result.stage, result.stage.name
        last, then = head.stages.get(name, NO_TABLES), self.wanted.stages.get(name, NO_TABLES)
        if stage.kind.intake.table is not None:
            return WriteInPlace(result, last, InPlace.of(then), begins=False, mode="restore")
        if result.comparison.complete:
            overlay = self.context.reader.overlay(head, stage)
            return self.context.write(result, last, overlay)
        return WriteBack(result, last, then, self.context.reader.overlay(self.wanted, stage))


@dataclass(frozen=True, slots=True)
class WriteBack:
    """The write of a stage whose tables are restored (a `StageWrite`).

    Attributes:
        last: the stage's figures in the head.
        wanted: its figures in the earlier version; without tables if the stage did not exist.
        overlay: its runs in that version; None if there were none.
    """

    result: StepResult
    last: StageFigures
    wanted: StageFigures
    overlay: Overlay | None

    @property
    def in_place(self) -> bool:
        """See `StageWrite.in_place`."""
        return True

    def edits(self, number: int, before: Mapping[str, Read]) -> Edits:
        """See `StageWrite.edits`; a table that did not exist yet is emptied."""
        edits: dict[str, Edit | Restore] = {}
        for kind in _SET_BACK:
            if kind in self.wanted.delta_versions:
                edits[kind] = Restore(self.wanted.delta_versions[kind])
            elif kind in self.last.delta_versions:
                apart = kind == CONTENT and bool(self.last.base.stored)
                edits[kind] = emptied(self.result.stage, kind, apart=apart)
        if UPDATES in self.result.stage.kind.tables:
            updates = updates_edit(self.result.comparison, number, exists=True)
            edits |= {} if updates is None else {UPDATES: updates}
        return edits

    def overlay_after(self) -> Overlay | None:
        """See `StageWrite.overlay_after`."""
        return self.overlay

    def figures(self, number: int, edits: Edits) -> StageFigures:
        """See `StageWrite.figures`."""
        del number
        wanted = self.wanted
        before = wanted.base.added.items()
        back = {kind: n for kind, n in before if isinstance(edits.get(kind), Restore)}
        updates = {UPDATES: self.last.base.added.get(UPDATES, 0)}
        return replace(
            self.result.figures("restore"),
            rows=wanted.rows,
            row_bytes=wanted.row_bytes,
            keys=wanted.keys,
            delta_versions=self.last.delta_versions,
            base=replace(wanted.base, added={**updates, **back, **added(self.last, edits)}),
            past=self.last.past,
        )


def _is_of_check(stage: Stage, context: StoreContext) -> bool:
    """Return whether a stage belongs to checks alone."""
    checks = {check.name for check in context.graph.checks}
    return stage.hidden is not None and checks.issuperset(stage.hidden.owners)


def _same_tables(stage: Stage, *versions: Version) -> bool:
    """Return whether a stage's rows, apart from its updates, are in the same tables."""
    pinned = [[v.pinned(stage.name, kind) for kind in _SET_BACK] for v in versions]
    return all(versions == pinned[0] for versions in pinned)


def _differ(before: Stored | None, after: Stored | None) -> bool:
    """Return whether any row differs, even only in its source key."""
    if before is None or after is None:
        return before is not after
    were, are = before.rows(), after.rows()
    if is_frame(were) or is_frame(are):
        return not unmatched(before.all(), after.all(), before.columns).isEmpty()
    return not same_rows(were, are)
