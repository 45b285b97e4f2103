"""Rollbacks: how a stage goes back to what it was in an earlier version.

A small stage is compared as a whole, and written as by any step. The tables of others are set back
by Delta to the delta versions that the earlier version pins, which writes no row; only the updates
get rows, of the keys that have any since. The invariant: after it the tables, and the figures that
say how to read them, are those of the earlier version, at delta versions that no compaction of a
version in between stands on.

It stands apart because nothing is produced and nothing is merged: whatever was written in between,
and however, does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from deltaproduce import arrow_changes
from deltaproduce.arrays import empty
from deltaproduce.changes import (
    AFTER,
    BEFORE,
    IS_KEY,
    SIDE,
    compare,
    content_columns,
    sources_of,
    unmatched,
)
from deltaproduce.comparisons import Comparison, LocalComparison, WideComparison
from deltaproduce.edits import Edit, Read, Restore, emptied, updates_edit
from deltaproduce.locations import CONTENT, KEY_MAPPINGS, RUNS, UPDATES
from deltaproduce.readers import Reader
from deltaproduce.selections import Rows, Selection, as_frame
from deltaproduce.stages import Graph, Stage
from deltaproduce.stored import Overlay, Stored
from deltaproduce.versions import StageFigures, Version, unbroken
from deltaproduce.writes import Result

_SET_BACK: Final = (CONTENT, KEY_MAPPINGS, RUNS)


def differences(
    span: Sequence[Version],
    head: Version,
    graph: Graph,
    reader: Reader,
    spark: SparkSession,
    progress: Callable[[str, int, int], None],
) -> dict[str, Result]:
    """How the stages differ from what they were; none of those that do not.

    Those that are not compared as a whole are among them as soon as any stage differs, unless their
    tables are the same: their rows may differ in the source keys that they come from, too.

    Args:
        span: all versions from the one to go back to to the newest.
        head: the newest, of the tables as compactions left them.
        progress: called with a stage, the number of those that are done, and that of all.
    """
    wanted, results = span[0], dict[str, Result]()
    stages = [stage for stage in graph.stages if not _same_tables(stage, wanted, span[-1])]
    for done, stage in enumerate(stages):
        progress(stage.name, done, len(stages))
        started = time.perf_counter()
        before, after = (reader.content(version, stage) for version in (head, wanted))
        keys = None
        if not (_is_small(before) and _is_small(after)) and unbroken(span, stage.name):
            keys = reader.changed_keys(span, stage)
        comparison = _compared(stage, before, after, keys, spark)
        reason, seconds = f"rolled back to version {wanted.number}", time.perf_counter() - started
        given_out = wanted.stages[stage.name].surrogates if stage.name in wanted.stages else 0
        results[stage.name] = Result(stage, comparison, reason, seconds, False, given_out)
    found = {name: result for name, result in results.items() if not _is_equal(result.comparison)}
    if any(result.comparison.counts.pairs_changed for result in found.values()):
        return found
    return {
        name: result
        for name, result in found.items()
        if _differ(*(reader.content(version, result.stage) for version in (head, wanted)))
    }


@dataclass(slots=True)
class Rollback:
    """What is done to the tables of a stage that has some (a `StageWrite`).

    Attributes:
        last: the stage's figures in the head.
        wanted: its figures in the version to go back to; without tables if it was not there.
        overlay: its runs in that version; None if there were none.
        delta_versions: of the tables committed to, by kind.
        added: how often they have been added to since their rows were put in order.
        content: always None: it is not on the driver.
    """

    result: Result
    last: StageFigures
    wanted: StageFigures
    overlay: Overlay | None
    delta_versions: dict[str, int] = field(default_factory=dict)
    added: dict[str, int] = field(default_factory=dict)
    content: pa.Table | None = None

    @property
    def in_place(self) -> bool:
        """See `StageWrite.in_place`."""
        return True

    def edits(self, number: int, before: Mapping[str, Read]) -> dict[str, Edit | Restore]:
        """See `StageWrite.edits`; a table that was not there yet is left without rows."""
        edits: dict[str, Edit | Restore] = {}
        for kind in _SET_BACK:
            if kind in self.wanted.delta_versions:
                edits[kind] = Restore(self.wanted.delta_versions[kind])
            elif kind in self.last.delta_versions:
                edits[kind] = emptied(self.result.stage, kind)
        updates = updates_edit(self.result.comparison, number, exists=True)
        return edits if updates is None else {**edits, UPDATES: updates}

    def committed(self, kind: str, edit: Edit | Restore, delta_version: int) -> None:
        """See `StageWrite.committed`."""
        self.delta_versions[kind] = delta_version
        if isinstance(edit, Edit):
            self.added[kind] = 0 if edit.overwrite else self.last.added.get(kind, 0) + 1
        elif kind in self.wanted.added:
            self.added[kind] = self.wanted.added[kind]

    def overlay_after(self) -> Overlay | None:
        """See `StageWrite.overlay_after`."""
        return self.overlay

    def figures(self, number: int) -> StageFigures:
        """See `StageWrite.figures`."""
        wanted = self.wanted
        return replace(
            self.result.figures("restore"),
            rows=wanted.rows,
            row_bytes=wanted.row_bytes,
            delta_versions={**self.last.delta_versions, **self.delta_versions},
            added={UPDATES: self.last.added.get(UPDATES, 0), **self.added},
            folded=wanted.folded,
            runs=wanted.runs,
            run_rows=wanted.run_rows,
        )


def _same_tables(stage: Stage, *versions: Version) -> bool:
    """Whether a stage's rows, but not its updates, are the same table for table."""
    pinned = [[v.delta_version(stage.name, kind) for kind in _SET_BACK] for v in versions]
    return all(found == pinned[0] for found in pinned)


def _compared(
    stage: Stage,
    before: Stored | None,
    after: Stored | None,
    keys: Selection | None,
    spark: SparkSession,
) -> Comparison:
    """Compare the rows that some keys have with those that they had.

    Args:
        before: the rows of the head; None if there are none.
        after: the rows of the version to go back to; None if there are none.
        keys: all keys whose values may differ; None for all that there are.
    """
    schema, sources = stage.schema, sources_of(stage)
    columns, complete = content_columns(schema, sources), keys is None
    were, are = (
        empty(columns) if stored is None else _rows(stored, keys) for stored in (before, after)
    )
    if isinstance(were, pa.Table) and isinstance(are, pa.Table):
        none = np.zeros(len(were), bool)
        rows = arrow_changes.compare(were, none, are, schema, sources)
        count = int(np.asarray(rows.column(IS_KEY)).sum())
        return LocalComparison.of(rows, schema, sources, spark, count, complete=complete)
    sides = [
        as_frame(rows, spark, columns).withColumn(SIDE, f.lit(side))
        for rows, side in ((were, BEFORE), (are, AFTER))
    ]
    compared = compare(sides[0].union(sides[1]), schema, sources)
    return WideComparison.of(compared, schema, sources, complete=complete)


def _is_equal(comparison: Comparison) -> bool:
    return comparison.complete and not comparison.counts.pairs_changed


def _rows(stored: Stored, keys: Selection | None) -> Rows:
    if keys is not None:
        return keys.exactly(stored.of(keys))
    return stored.fetched() if stored.small else stored.all()


def _is_small(stored: Stored | None) -> bool:
    return stored is None or stored.small


def _differ(before: Stored | None, after: Stored | None) -> bool:
    """Whether any row is another, if only in the source key that it comes from."""
    if before is None or after is None:
        return before is not after
    return not unmatched(before.all(), after.all(), before.columns).isEmpty()
