"""Edits of a step: turn its comparison into one edit for each of a stage's tables.

The invariant is S8's economy: a table is edited only if its rows change, and only pairs of source
key and target key whose rows change are replaced, unless the whole table is rewritten. If an edit
replaces by predicate, it contains all rows that the predicate may match (see `comparisons`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import pyarrow as pa

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.comparisons import Comparison
from deltaproduce.engines.delta.tables import ROWS_PER_FILE
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.marks import (
    ALIVE,
    CHANGED_PAIRS,
    GONE_PAIRS,
    IS_PAIR,
    MOVED_PAIRS,
    NEW_PAIRS,
    PAIR_DIFFERS,
    REPLACED_PAIRS,
    ROWS_OF_CHANGED_PAIRS,
    Which,
)
from deltaproduce.engines.selections import Selection
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import (
    CONTENT,
    KEY_MAPPINGS,
    RUNS,
    UPDATES,
    Layout,
)
from deltaproduce.operations.step.filing import Filing
from deltaproduce.operations.step.plan import Writing
from deltaproduce.storage.edits import Edit
from deltaproduce.storage.stored import Stored
from deltaproduce.types.columns import (
    VERSION_COLUMN,
    Column,
)

BY_KEY: Final = Filing()
"""How files keep content if neither a window nor a definition says."""

Read: TypeAlias = Callable[[], Stored]
"""Returns a table's rows before the step; an edit calls it only if it needs them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taking:
    """How a table of content or key mappings takes a step.

    Attributes:
        exists: whether the table exists.
        folds: whether there are runs, whose rows the table does not have.
        marks: whether the driver replaces rows, by marking them.
    """

    how: Writing
    exists: bool
    folds: bool = False
    marks: bool = False


def content_edit(
    comparison: Comparison,
    taking: Taking,
    before: Read | None,
    total: int,
    filing: Filing = BY_KEY,
    *,
    parted: bool = False,
) -> Edit | None:
    """Return the edit of the content.

    Args:
        before: returns its rows before the step; None if there are none.
        total: the number of its rows after the step.
        filing: how files keep it.
        parted: whether, if it is rewritten, only the partitions of changed rows have to be.
    """
    counts, layout = comparison.counts, comparison.layout
    columns, key = layout.content, layout.lookup(CONTENT)
    how, exists = taking.how, taking.exists
    if exists and how in ("nothing", "run"):
        return None
    rewritten, predicate, within = how == "rewrite" or not exists, None, None
    replaced = None
    if rewritten:
        if parted:
            within = _partitions_changed(comparison, before if taking.folds else None, filing)
        rows = comparison.content_after(_read(before, comparison, within))
        rows, within = _rows_within(rows, columns, within, filing, comparison.engines)
    elif taking.marks or not counts.pairs_replaced:
        rows, total = (
            comparison.select(columns, ROWS_OF_CHANGED_PAIRS),
            counts.rows_of_changed_pairs,
        )
        rows, replaced = _in_place(comparison, rows, columns, REPLACED_PAIRS, counts.pairs_replaced)
    else:
        predicate = comparison.predicate(key, CHANGED_PAIRS)
        rows, total = comparison.select(columns, ALIVE), counts.rows_of_changed_pairs
    sought = rewritten or taking.marks
    edit = Edit(rows, columns, rewritten, predicate, key, sought=sought, by_ends=layout.by_ends)
    edit = replace(edit, within=within, replaced=replaced)
    in_files = comparison.clustering
    if rewritten and in_files is not None and in_files == filing.by_partitions:
        return replace(edit, file_rows=ROWS_PER_FILE)
    laid_out = filing.write_layout(edit, layout, total, comparison.engines)
    if laid_out is not None or comparison.ranged:
        return laid_out or edit
    return replace(edit, rows=_write_layout(comparison, rows, total, key, layout.order(CONTENT)))


def mappings_edit(
    comparison: Comparison, taking: Taking, before: Read | None, total: int
) -> Edit | None:
    """Return the edit of the key mappings.

    Args:
        before: returns their rows before the step; None if there are none.
        total: the number of content rows after the step.
    """
    counts, pair = comparison.counts, comparison.layout.pair
    sources = comparison.layout.lookup(KEY_MAPPINGS)
    how, exists = taking.how, taking.exists
    moved = taking.folds or counts.pairs_new or counts.pairs_gone
    if exists and (how in ("nothing", "run") or not moved):
        return None
    rewritten, predicate, replaced = how == "rewrite" or not exists, None, None
    if rewritten:
        rows = comparison.mappings_after(_read(before, comparison))
    elif taking.marks or not counts.pairs_gone:
        rows, total = comparison.select(pair, NEW_PAIRS), counts.pairs_new
        rows, replaced = _in_place(comparison, rows, pair, GONE_PAIRS, counts.pairs_gone)
    else:
        predicate = comparison.predicate(sources, MOVED_PAIRS)
        rows, total = comparison.select(pair, {**ALIVE, IS_PAIR: True}), counts.pairs_new
    rows = _write_layout(comparison, rows, total, sources, pair)
    sought = rewritten or taking.marks
    return Edit(rows, pair, rewritten, predicate, sources, sought=sought, replaced=replaced)


def _in_place(
    comparison: Comparison, rows: Rows, columns: Sequence[Column], which: Which, count: int
) -> tuple[Rows, pa.Table | None]:
    """Return rows on the driver, and the pairs that they replace; both unchanged without pairs.

    Args:
        which: selects the pairs.
        count: their number.
    """
    if not count:
        return rows, None
    engines, pair = comparison.engines, comparison.layout.pair
    return engines.table(rows, columns), engines.table(comparison.select(pair, which), pair)


def updates_edit(comparison: Comparison, version: int, *, exists: bool) -> Edit | None:
    """Return the edit of the updates, which only adds rows; None if no key changed."""
    counts, layout = comparison.counts, comparison.layout
    if exists and not counts.keys_changed:
        return None
    rows = _stamped(comparison, comparison.updates(), version, UPDATES)
    if not comparison.ranged:
        order = layout.order(UPDATES)
        rows = _write_layout(comparison, rows, counts.rows_after, layout.key, order)
    return Edit(rows, layout.updates, not exists, None, layout.lookup(UPDATES))


def run_edit(run: pa.Table, comparison: Comparison, version: int, *, exists: bool) -> Edit:
    """Return the edit of the runs: append this run, or replace all runs by it."""
    layout = comparison.layout
    rows = _stamped(comparison, run, version, RUNS)
    return Edit(rows, layout.runs, not exists, None, layout.lookup(RUNS))


def compacted_edit(
    stored: Stored, stage: Stage, kind: str, filing: Filing = BY_KEY, *, parted: bool = False
) -> Edit:
    """Return the edit that rewrites content or key mappings with their runs, in order.

    Uses at most half of the session's tasks, because versions go on meanwhile, unless windows are
    over the content.

    Args:
        filing: see `content_edit`.
        parted: whether only the partitions of content that runs reach have to be rewritten.
    """
    layout, within = Layout.of(stage), None
    if parted and kind == CONTENT:
        within = filing.partitions_of(_rows_of_runs(stored), stored.columns, stored.engines)
    rows = _of_partitions(stored, within).rows()
    rows, within = _rows_within(rows, stored.columns, within, filing, stored.engines)
    by, order = layout.lookup(kind), layout.order(kind)
    edit = Edit(rows, stored.columns, True, None, by, file_rows=ROWS_PER_FILE, sought=True)
    edit = replace(edit, within=within)
    laid_out = None
    if kind == CONTENT:
        edit = replace(edit, by_ends=layout.by_ends)
        laid_out = filing.write_layout(edit, layout, stored.count, stored.engines, asides=True)
    if laid_out is not None:
        return laid_out
    ordered = stored.engines.of(rows).background_layout(rows, stored.count, by, order)
    return replace(edit, rows=ordered)


def merged_edit(rows: pa.Table, stage: Stage, kind: str, filing: Filing, engines: Engines) -> Edit:
    """Return the edit that adds the rows of some files of content or key mappings, in order."""
    layout = Layout.of(stage)
    columns, by = layout.columns(kind), layout.lookup(kind)
    edit = Edit(rows, columns, True, None, by, sought=True)
    if kind == CONTENT:
        edit = replace(edit, by_ends=layout.by_ends)
        laid_out = filing.write_layout(edit, layout, len(rows), engines)
        if laid_out is not None:
            return replace(laid_out, overwrite=False)
    ordered = engines.of(rows).write_layout(rows, len(rows), by, layout.order(kind))
    return replace(edit, rows=ordered, overwrite=False)


def emptied(stage: Stage, kind: str, *, apart: bool = False) -> Edit:
    """Return the edit that removes all rows of content, key mappings or runs.

    Args:
        apart: see `Edit`.
    """
    layout = Layout.of(stage)
    columns = layout.columns(kind)
    return Edit(empty(columns), columns, True, None, layout.lookup(kind), apart=apart)


def _partitions_changed(
    comparison: Comparison, before: Read | None, filing: Filing
) -> pa.Table | None:
    """Return the partitions in which rows of changed pairs were or are; None if some are in Spark.

    Args:
        before: returns the rows before the step, if runs of them are folded in it.
    """
    columns, engines = comparison.layout.content, comparison.engines
    rows = comparison.select(columns, {PAIR_DIFFERS: True})
    if before is not None:
        rows = engines.concat(rows, _rows_of_runs(before()), columns)
    return filing.partitions_of(rows, columns, engines)


def _rows_of_runs(stored: Stored) -> Rows:
    """Return the rows of all pairs in runs of a content, as its base has them and as they are."""
    overlay, engines, columns = stored.overlay, stored.engines, stored.columns
    if overlay is None:
        return empty(columns)
    pairs = overlay.replaced()
    old = replace(stored, overlay=None).of(Selection.of(pairs, overlay.pair, engines))
    return engines.concat(old, overlay.newer(columns), columns)


def _rows_within(
    rows: Rows, columns: Sequence[Column], within: pa.Table | None, filing: Filing, engines: Engines
) -> tuple[Rows, pa.Table | None]:
    """Return the rows of some partitions, and these; all rows and None if the rows are in Spark."""
    if within is None or not isinstance(rows, pa.Table):
        return rows, None
    return filing.within(rows, columns, within, engines), within


def _of_partitions(stored: Stored, within: pa.Table | None) -> Stored:
    return stored if within is None else stored.in_partitions(within)


def _read(
    before: Read | None, comparison: Comparison, within: pa.Table | None = None
) -> Callable[[], Rows] | None:
    """Return a function that reads rows before a step, perhaps only those of some partitions."""
    if before is None:
        return None
    return lambda: _of_partitions(before(), within).beside(comparison.rows)


def _stamped(comparison: Comparison, rows: Rows, version: int, kind: str) -> Rows:
    """Return rows with the number of their version."""
    engine = comparison.engines.of(rows)
    columns = comparison.layout.columns(kind)
    stamped: Rows = engine.here(engine.with_all(rows, VERSION_COLUMN, version), columns)
    return stamped


def _write_layout(
    comparison: Comparison, rows: Rows, count: int, by: Sequence[Column], order: Sequence[Column]
) -> Rows:
    """Return rows sorted, with one partition per file to write."""
    laid_out: Rows = comparison.engines.of(rows).write_layout(rows, count, by, order)
    return laid_out
