"""Edits of a step: what its comparison means for each of a stage's tables.

The invariant is S8's economy: a table is edited only if its rows change, and only pairs of source
key and target key whose rows change are replaced, unless the whole table is written anew. Where an
edit replaces by predicate, its rows are all that the predicate may hold for (see `comparisons`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from deltaproduce.engines.comparisons import (
    ALIVE,
    CHANGED_PAIRS,
    GONE_PAIRS,
    MOVED_PAIRS,
    NEW_PAIRS,
    ROWS_OF_CHANGED_PAIRS,
    Comparison,
    SparkComparison,
)
from deltaproduce.engines.local.arrays import empty, in_order
from deltaproduce.engines.marks import IS_PAIR
from deltaproduce.engines.selections import Rows, as_table
from deltaproduce.engines.spark.columns import cols, order
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import (
    CONTENT,
    KEY_MAPPINGS,
    RUNS,
    content_columns,
    sources_of,
    updates_columns,
)
from deltaproduce.operations.step.plan import Writing
from deltaproduce.storage.edits import Edit
from deltaproduce.storage.stored import IS_ALIVE, Stored, run_columns
from deltaproduce.types.columns import (
    ORDINAL,
    ORDINAL_COLUMN,
    POSITION_COLUMN,
    VERSION,
    Column,
    RowSchema,
)

Read: TypeAlias = Callable[[], DataFrame]
"""Reads a table's rows as they were before the step; called only if an edit needs them."""


_ROWS_PER_FILE: Final = 500_000


_ROWS_PER_TASK: Final = 100_000


def content_edit(
    comparison: Comparison, how: Writing, before: Read | None, total: int, *, exists: bool
) -> Edit | None:
    """The edit of the content.

    Args:
        before: reads its rows before the step; None if there are none.
        total: how many rows it has after the step.
        exists: whether there is a table.
    """
    counts, columns = comparison.counts, comparison.content
    key, placed = _order_of(CONTENT, comparison.schema, comparison.sources)
    if exists and how in ("nothing", "run"):
        return None
    rewritten, predicate = how == "rewrite" or not exists, None
    if rewritten:
        rows = comparison.content_after(before)
    elif not counts.pairs_replaced:
        rows, total = comparison.pick(columns, ROWS_OF_CHANGED_PAIRS), counts.rows_of_changed_pairs
    else:
        predicate = comparison.predicate(key, CHANGED_PAIRS)
        rows, total = comparison.pick(columns, ALIVE), counts.rows_of_changed_pairs
    if not _ranged(comparison):
        rows = _filed(rows, total, key, placed)
    return Edit(rows, columns, rewritten, predicate, key, sought=rewritten)


def mappings_edit(
    comparison: Comparison,
    how: Writing,
    before: Read | None,
    total: int,
    *,
    exists: bool,
    folds: bool,
) -> Edit | None:
    """The edit of the key mappings.

    Args:
        before: reads their rows before the step; None if there are none.
        total: how many rows the content has after the step.
        exists: whether there is a table.
        folds: whether there are runs, whose mappings the table does not have.
    """
    counts, pair = comparison.counts, comparison.pair
    sources, placed = _order_of(KEY_MAPPINGS, comparison.schema, comparison.sources)
    moved = folds or counts.pairs_new or counts.pairs_gone
    if exists and (how in ("nothing", "run") or not moved):
        return None
    rewritten, predicate = how == "rewrite" or not exists, None
    if rewritten:
        rows = comparison.mappings_after(before)
    elif not counts.pairs_gone:
        rows, total = comparison.pick(pair, NEW_PAIRS), counts.pairs_new
    else:
        predicate = comparison.predicate(sources, MOVED_PAIRS)
        rows, total = comparison.pick(pair, {**ALIVE, IS_PAIR: True}), counts.pairs_new
    rows = _filed(rows, total, sources, placed)
    return Edit(rows, pair, rewritten, predicate, sources, sought=rewritten)


def updates_edit(comparison: Comparison, version: int, *, exists: bool) -> Edit | None:
    """The edit of the updates: rows are only ever added, and none if no key changed."""
    counts, schema = comparison.counts, comparison.schema
    if exists and not counts.keys_changed:
        return None
    columns, key = updates_columns(schema), schema.key.columns
    rows = _numbered(comparison.updates(), version, columns)
    if not _ranged(comparison):
        rows = _filed(rows, counts.rows_after, key, (*key, POSITION_COLUMN))
    return Edit(rows, columns, not exists, None, (columns[0], *key))


def run_of(comparison: Comparison) -> pa.Table:
    """What a step does to the rows of the pairs that differ, as an `Overlay` takes it."""
    content = comparison.content
    alive = as_table(comparison.pick(content, ROWS_OF_CHANGED_PAIRS), content)
    gone = as_table(comparison.pick(comparison.pair, GONE_PAIRS), comparison.pair)
    gone = gone.append_column(ORDINAL, pa.array(np.zeros(len(gone), np.int64)))
    marked = [
        rows.append_column(IS_ALIVE.name, pa.array(np.full(len(rows), is_alive)))
        for rows, is_alive in ((alive, True), (gone, False))
    ]
    return pa.concat_tables(marked, promote_options="default")


def run_edit(run: pa.Table, comparison: Comparison, version: int, *, exists: bool) -> Edit:
    """The edit of the runs: one more, or the only one."""
    columns = run_columns(comparison.content)
    key = comparison.schema.key.columns
    return Edit(_numbered(run, version, columns), columns, not exists, None, (columns[0], *key))


def compacted_edit(stored: Stored, stage: Stage, kind: str) -> Edit:
    """The edit that writes content or key mappings whole, in order.

    By half of the session's tasks at most, because versions go on meanwhile.
    """
    by, placed = _order_of(kind, stage.schema, sources_of(stage))
    rows = stored.all()
    tasks = min(_tasks(rows) // 2, stored.count // _ROWS_PER_FILE)
    sorted_rows = in_ranges(rows, tasks, by).sortWithinPartitions(*order(placed))
    return Edit(sorted_rows, stored.columns, True, None, by, file_rows=_ROWS_PER_FILE, sought=True)


def emptied(stage: Stage, kind: str) -> Edit:
    """The edit that leaves no row in content, key mappings or runs."""
    content = content_columns(stage.schema, sources_of(stage))
    if kind == RUNS:
        columns = run_columns(content)
        return Edit(empty(columns), columns, True, None, (columns[0], *stage.schema.key))
    columns = content if kind == CONTENT else (*sources_of(stage), *stage.schema.key)
    by, _ = _order_of(kind, stage.schema, sources_of(stage))
    return Edit(empty(columns), columns, True, None, by)


def file_count(rows: DataFrame, count: int) -> int:
    """How many files to write ``count`` rows in: large, but enough for the session's tasks."""
    return max(1, -(-count // _ROWS_PER_FILE), min(_tasks(rows), count // _ROWS_PER_TASK))


def in_ranges(rows: DataFrame, partitions: int, by: Iterable[Column]) -> DataFrame:
    """Rows in so many partitions, at least one, of disjoint ranges; unsorted within."""
    return rows.coalesce(1) if partitions <= 1 else rows.repartitionByRange(partitions, *order(by))


def _order_of(
    kind: str, schema: RowSchema, sources: Sequence[Column]
) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """By which columns a table is looked up, and by which it is sorted."""
    key = schema.key.columns
    if kind == CONTENT:
        return key, (*key, *sources, ORDINAL_COLUMN)
    return tuple(sources), (*sources, *key)


def _tasks(rows: DataFrame) -> int:
    setting = rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or ""
    return int(setting) if setting.isdigit() else 1  # Databricks has "auto" too


def _ranged(comparison: Comparison) -> bool:
    return isinstance(comparison, SparkComparison) and comparison.ranged


def _numbered(rows: Rows, version: int, columns: Sequence[Column]) -> Rows:
    if isinstance(rows, DataFrame):
        return rows.withColumn(VERSION, f.lit(version).cast("bigint")).select(*cols(columns))
    numbered = rows.append_column(VERSION, pa.array(np.full(len(rows), version, np.int64)))
    return numbered.select([c.name for c in columns])


def _filed(rows: Rows, count: int, by: Sequence[Column], placed: Sequence[Column]) -> Rows:
    """Rows sorted; in Spark in as many partitions as files are due, of disjoint ranges."""
    if isinstance(rows, pa.Table):
        return in_order(rows, placed)
    ranged = in_ranges(rows, file_count(rows, count), by)
    return ranged.sortWithinPartitions(*order(placed))
