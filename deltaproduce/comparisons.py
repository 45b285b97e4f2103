"""A step's result, computed: the rows of the keys it is about, before and after, with counts.

`changes` says what is to be compared; a `Comparison` is that, materialised once, and answers what
the executor
asks: which keys changed, what the next stage reads, what the content is afterwards. The
invariant: it has all rows of every key that it has any row of, and all pairs of every source key
that changed.

It stands apart from `edits`, which turns it into commits, because stages feed each other through
comparisons before anything is committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from deltaproduce.changes import (
    AFTER,
    BEFORE,
    KEY_DIFFERS,
    PAIR_AFTER,
    PAIR_BEFORE,
    PAIR_DIFFERS,
    ROW_DIFFERS,
    SIDE,
    cols,
    each_key,
    each_pair,
    same,
)
from deltaproduce.checkpoints import checkpoint
from deltaproduce.predicates import HASH, hash_sql, membership
from deltaproduce.schemas import ORDINAL, Column, RowSchema
from deltaproduce.selections import SEEK_LIMIT, Selection
from deltaproduce.versions import Mode

_SOURCE_HASH: Final = "_source_hash"
_PAIR_HASH: Final = "_pair_hash"
_IS_CHANGED_KEY: Final = "_is_changed_key"


@dataclass(frozen=True, slots=True)
class Counts:
    """How many keys, content rows and pairs (source key, target key) a comparison is about."""

    keys: int
    keys_changed: int
    rows_before: int
    rows_after: int
    rows_added: int
    rows_removed: int
    rows_of_changed_pairs: int
    pairs_changed: int
    pairs_replaced: int
    pairs_new: int
    pairs_gone: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """The rows of some keys before and after a step.

    Attributes:
        rows: what `changes.compare` returns, checkpointed.
        whole: it is about all keys of the table.
        ranged: its partitions are disjoint ranges of the key, in order.
        sought: the rows before were found by a predicate, not by scanning the table.
        touched: a row per pair that differs or that stands for a changed key, on the driver; None
        if
            there are more than `SEEK_LIMIT`.
    """

    rows: DataFrame
    schema: RowSchema
    sources: tuple[Column, ...]
    counts: Counts
    whole: bool
    ranged: bool
    sought: bool
    touched: pa.Table | None

    @staticmethod
    def of(
        rows: DataFrame,
        schema: RowSchema,
        sources: Sequence[Column],
        *,
        whole: bool = False,
        ranged: bool = False,
        sought: bool = False,
    ) -> Comparison:
        """Compute what `changes.compare` or `changes.all_new` describes, in one Spark action."""
        computed, counted = checkpoint(rows, _counted())
        counts = Counts(**counted)
        few = max(counts.pairs_changed, counts.keys_changed) <= SEEK_LIMIT
        touched = _touched(computed, schema, sources) if few and not ranged else None
        return Comparison(computed, schema, tuple(sources), counts, whole, ranged, sought, touched)

    @property
    def mode(self) -> Mode:
        """How the stage was brought up to date."""
        if self.whole:
            return "full"
        if self.touched is None:
            return "rewrite"
        return "seek" if self.sought else "merge"

    @property
    def content_columns(self) -> list[Expression]:
        """The columns of the content, in the table's order."""
        return [
            *cols(self.schema.key),
            *cols(self.sources),
            f.col(ORDINAL),
            *cols(self.schema.value),
        ]

    def upserts(self) -> DataFrame:
        """The rows of the changed keys that are alive: key and value columns, in order."""
        rows = self.rows.where((f.col(SIDE) == AFTER) & f.col(KEY_DIFFERS))
        return rows.select(*cols(self.schema.key), *cols(self.schema.value))

    def changed_keys(self) -> Selection:
        """The keys that this version's updates are about."""
        if self.touched is None:
            changed = self.rows.where(each_key() & f.col(KEY_DIFFERS))
            return Selection.of(changed, self.schema.key.columns, self.counts.keys_changed)
        changed = self.touched.filter(pc.field(_IS_CHANGED_KEY))
        table = changed.select([*self.schema.key.names, HASH])
        return Selection.few(table, self.schema.key.columns, self.rows.sparkSession)

    def content_after(self, before: DataFrame | None) -> DataFrame:
        """All rows of the content after the step, given all those before; unsorted."""
        after = self.rows.where(f.col(SIDE) == AFTER)
        if self.whole or before is None:
            return after.select(*self.content_columns)
        gone = self.rows.where(each_pair() & f.col(PAIR_DIFFERS))
        kept = before.join(gone, same(before, gone, [*self.schema.key, *self.sources]), "left_anti")
        new = after.where(f.col(PAIR_DIFFERS))
        return kept.select(*self.content_columns).union(new.select(*self.content_columns))

    def predicate(self, lookup: Sequence[Column], which: pc.Expression) -> str:
        """Holds for the pairs that are ``which``, if they are few enough to be ``touched``.

        Args:
            lookup: the key or the source key columns: those by which the table is sorted.
        """
        assert self.touched is not None
        pairs = self.touched.filter(which)
        by_key = tuple(lookup) == self.schema.key.columns
        hashes = pairs.column(HASH if by_key else _SOURCE_HASH)
        keys = pairs.select([c.name for c in lookup]).append_column(HASH, hashes)
        found = membership(lookup, keys)
        if not self.sources:
            return found
        numbers = ", ".join(f"{n}L" for n in pairs.column(_PAIR_HASH).to_pylist())
        return f"{found} AND {_pair_hash(self.schema, self.sources)} IN ({numbers})"


def _counted() -> dict[str, Expression]:
    before, after = f.col(SIDE) == BEFORE, f.col(SIDE) == AFTER
    changed_pair = each_pair() & f.col(PAIR_DIFFERS)
    conditions = {
        "keys": each_key(),
        "keys_changed": each_key() & f.col(KEY_DIFFERS),
        "rows_before": before,
        "rows_after": after,
        "rows_added": after & f.col(ROW_DIFFERS),
        "rows_removed": before & f.col(ROW_DIFFERS),
        "rows_of_changed_pairs": after & f.col(PAIR_DIFFERS),
        "pairs_changed": changed_pair,
        "pairs_replaced": changed_pair & f.col(PAIR_BEFORE),
        "pairs_new": each_pair() & ~f.col(PAIR_BEFORE),
        "pairs_gone": each_pair() & ~f.col(PAIR_AFTER),
    }
    return {name: f.count_if(condition) for name, condition in conditions.items()}


def _touched(rows: DataFrame, schema: RowSchema, sources: Sequence[Column]) -> pa.Table:
    is_changed_key = each_key() & f.col(KEY_DIFFERS)
    hashes = [f.expr(hash_sql(schema.key.names)).alias(HASH)]
    if sources:
        hashes += [
            f.expr(hash_sql([c.name for c in sources])).alias(_SOURCE_HASH),
            f.expr(_pair_hash(schema, sources)).alias(_PAIR_HASH),
        ]
    marks = [f.col(PAIR_DIFFERS), f.col(PAIR_BEFORE), f.col(PAIR_AFTER)]
    return (
        rows.where(each_pair() & (f.col(PAIR_DIFFERS) | is_changed_key))
        .select(
            *cols(schema.key),
            *cols(sources),
            *marks,
            is_changed_key.alias(_IS_CHANGED_KEY),
            *hashes,
        )
        .toArrow()
    )


def _pair_hash(schema: RowSchema, sources: Sequence[Column]) -> str:
    return hash_sql([*(c.name for c in sources), *schema.key.names])
