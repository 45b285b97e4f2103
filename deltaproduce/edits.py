"""Edits: what a step's comparison means for each of a stage's tables.

An `Edit` describes one commit: rows, and what they take the place of. The invariant is S8's
economy: a table is edited only if its rows change, and only pairs of source key and target key
whose rows change are replaced. Where an edit replaces by predicate, it puts back every row that the
predicate holds for; a comparison has them all (see `comparisons`).

It stands apart from `tables`, which carries edits out, and from `incremental`, which finds out what
differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow.compute as pc
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import LongType

from deltaproduce.changes import (
    AFTER,
    PAIR_AFTER,
    PAIR_BEFORE,
    PAIR_DIFFERS,
    SIDE,
    cols,
    each_pair,
    order,
    same,
    updates,
)
from deltaproduce.comparisons import Comparison
from deltaproduce.schemas import CHANGE_TYPE, ORDINAL, POSITION, VERSION, Column

Read: TypeAlias = Callable[[], DataFrame]
"""Reads a table's rows as they were before the step; called only if an edit needs them."""

_ROWS_PER_FILE: Final = 500_000
_ROWS_PER_TASK: Final = 100_000


@dataclass(frozen=True, slots=True)
class Edit:
    """One commit to be made to a table.

    Attributes:
        rows: in the table's columns, sorted by its order within partitions.
        overwrite: the rows are the whole table. Otherwise they are added,
        predicate: and, if there is one, take the place of all rows for which it holds.
        statistics: the columns by which the table will be looked up.
    """

    rows: DataFrame
    overwrite: bool
    predicate: str | None
    statistics: tuple[Column, ...]


def content_edit(comparison: Comparison, before: Read | None) -> Edit | None:
    """The edit of the content; ``before`` reads its rows, None if there is no table yet."""
    counts, key = comparison.counts, comparison.schema.key.columns
    if before is not None and not counts.pairs_changed:
        return None
    in_order = [*order(key), *order(comparison.sources), f.col(ORDINAL)]
    after = comparison.rows.where(f.col(SIDE) == AFTER)
    if comparison.ranged:
        return Edit(after.select(*comparison.content_columns), True, None, key)
    predicate, overwrite = None, False
    if before is not None and not comparison.whole and not counts.pairs_replaced:
        rows, count = after.where(f.col(PAIR_DIFFERS)), counts.rows_of_changed_pairs
    elif before is not None and not comparison.whole and comparison.touched is not None:
        predicate = comparison.predicate(key, pc.field(PAIR_DIFFERS))
        rows, count = after.where(predicate), counts.rows_of_changed_pairs
    else:
        rows = comparison.content_after(None if comparison.whole or before is None else before())
        count, overwrite = counts.rows_after, True
    filed = _filed(rows.select(*comparison.content_columns), count, order(key), in_order)
    return Edit(filed, overwrite, predicate, key)


def mappings_edit(comparison: Comparison, before: Read | None) -> Edit | None:
    """The edit of the key mappings; ``before`` reads their rows, None if there is no table yet."""
    counts, sources = comparison.counts, comparison.sources
    if before is not None and not counts.pairs_new and not counts.pairs_gone:
        return None
    pair = [*sources, *comparison.schema.key]
    after = comparison.rows.where(each_pair() & (f.col(SIDE) == AFTER))
    new = after.where(~f.col(PAIR_BEFORE))
    predicate, overwrite = None, False
    if before is None or comparison.whole:
        rows, count, overwrite = after, counts.rows_after, True
    elif not counts.pairs_gone:
        rows, count = new, counts.pairs_new
    elif comparison.touched is not None:
        predicate = comparison.predicate(sources, pc.field(PAIR_BEFORE) != pc.field(PAIR_AFTER))
        rows, count = after.where(predicate), counts.pairs_new
    else:
        gone = comparison.rows.where(each_pair() & ~f.col(PAIR_AFTER))
        mappings = before()
        kept = mappings.join(gone, same(mappings, gone, pair), "left_anti")
        rows = kept.select(*cols(pair)).union(new.select(*cols(pair)))
        count, overwrite = counts.rows_after, True
    filed = _filed(rows.select(*cols(pair)), count, order(sources), order(pair))
    return Edit(filed, overwrite, predicate, sources)


def updates_edit(comparison: Comparison, version: int, *, exists: bool) -> Edit | None:
    """The edit of the updates: rows are only ever added, and none if no key changed."""
    counts, schema = comparison.counts, comparison.schema
    if exists and not counts.keys_changed:
        return None
    rows = updates(comparison.rows, schema).select(
        f.lit(version).cast("bigint").alias(VERSION),
        CHANGE_TYPE,
        *cols(schema.key),
        POSITION,
        *cols(schema.value),
    )
    if not comparison.ranged:
        in_order = [*order(schema.key), f.col(POSITION)]
        rows = _filed(rows, counts.rows_after, order(schema.key), in_order)
    return Edit(rows, not exists, None, (Column(VERSION, LongType()), *schema.key))


def file_count(rows: DataFrame, count: int) -> int:
    """How many files to write ``count`` rows in: large, but enough for the session's tasks."""
    setting = rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or ""
    tasks = int(setting) if setting.isdigit() else 1  # Databricks has "auto" too
    return max(1, -(-count // _ROWS_PER_FILE), min(tasks, count // _ROWS_PER_TASK))


def _filed(
    rows: DataFrame, count: int, by: Sequence[Expression], in_order: Sequence[Expression]
) -> DataFrame:
    """Rows in as many partitions as files are due, of disjoint ranges, each sorted."""
    files = file_count(rows, count)
    ranged = rows.coalesce(1) if files == 1 else rows.repartitionByRange(files, *by)
    return ranged.sortWithinPartitions(*in_order)
