"""Rollbacks: how a stage goes back to what it was in an earlier version.

A small stage is compared as a whole, and written as by any step. The tables of others are set back
by Delta to the delta versions that the earlier version pins, which writes no row; only the updates
get rows, of the keys that have any since. The invariant: after it the tables, and the figures that
say how to read them, are those of the earlier version, at delta versions that no compaction of a
version in between stands on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from pyspark.sql import SparkSession

from deltaproduce.engines.comparisons import Comparison
from deltaproduce.engines.spark.comparing import unmatched
from deltaproduce.model.graph import Graph, Stage
from deltaproduce.model.layouts import CONTENT, KEY_MAPPINGS, RUNS, UPDATES
from deltaproduce.operations.step.edits import Read, emptied, updates_edit
from deltaproduce.operations.step.incremental import difference
from deltaproduce.operations.step.writes import NO_TABLES, Edits, StepResult, added
from deltaproduce.reading.readers import Reader
from deltaproduce.storage.edits import Edit, Restore
from deltaproduce.storage.figures import StageFigures
from deltaproduce.storage.stored import Overlay, Stored
from deltaproduce.storage.versions import Version, unbroken

_SET_BACK: Final = (CONTENT, KEY_MAPPINGS, RUNS)


def differences(
    span: Sequence[Version],
    head: Version,
    graph: Graph,
    reader: Reader,
    spark: SparkSession,
    progress: Callable[[str, int, int], None],
) -> dict[str, StepResult]:
    """How the stages differ from what they were; none of those that do not.

    Those that are not compared as a whole are among them as soon as any stage differs, unless their
    tables are the same: their rows may differ in the source keys that they come from, too.

    Args:
        span: all versions from the one to go back to to the newest.
        head: the newest, of the tables as compactions left them.
        progress: called with a stage, the number of those that are done, and that of all.
    """
    wanted, results = span[0], dict[str, StepResult]()
    stages = [stage for stage in graph.stages if not _same_tables(stage, wanted, span[-1])]
    for done, stage in enumerate(stages):
        progress(stage.name, done, len(stages))
        started = time.perf_counter()
        before, after = (reader.content(version, stage) for version in (head, wanted))
        is_told = unbroken(span, stage.name)
        keys = partial(reader.changed_keys, span, stage) if is_told else None
        comparison = difference(stage, before, after, keys, spark)
        reason, seconds = f"rolled back to version {wanted.number}", time.perf_counter() - started
        given_out = wanted.stages.get(stage.name, NO_TABLES).numbering.surrogates
        results[stage.name] = StepResult(stage, comparison, reason, seconds, False, given_out)
    found = {name: result for name, result in results.items() if not _is_equal(result.comparison)}
    if any(result.comparison.counts.pairs_changed for result in found.values()):
        return found
    return {
        name: result
        for name, result in found.items()
        if _differ(*(reader.content(version, result.stage) for version in (head, wanted)))
    }


@dataclass(frozen=True, slots=True)
class Rollback:
    """What is done to the tables of a stage that has some (a `StageWrite`).

    Attributes:
        last: the stage's figures in the head.
        wanted: its figures in the version to go back to; without tables if it was not there.
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
        """See `StageWrite.edits`; a table that was not there yet is left without rows."""
        edits: dict[str, Edit | Restore] = {}
        for kind in _SET_BACK:
            if kind in self.wanted.delta_versions:
                edits[kind] = Restore(self.wanted.delta_versions[kind])
            elif kind in self.last.delta_versions:
                edits[kind] = emptied(self.result.stage, kind)
        updates = updates_edit(self.result.comparison, number, exists=True)
        return edits if updates is None else {**edits, UPDATES: updates}

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
            delta_versions=self.last.delta_versions,
            base=replace(wanted.base, added={**updates, **back, **added(self.last, edits)}),
            past=self.last.past,
        )


def _same_tables(stage: Stage, *versions: Version) -> bool:
    """Whether a stage's rows, but not its updates, are the same table for table."""
    pinned = [[v.pinned(stage.name, kind) for kind in _SET_BACK] for v in versions]
    return all(found == pinned[0] for found in pinned)


def _is_equal(comparison: Comparison) -> bool:
    return comparison.complete and not comparison.counts.pairs_changed


def _differ(before: Stored | None, after: Stored | None) -> bool:
    """Whether any row is another, if only in the source key that it comes from."""
    if before is None or after is None:
        return before is not after
    return not unmatched(before.all(), after.all(), before.columns).isEmpty()
