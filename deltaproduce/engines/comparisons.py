"""A step's result, computed: the rows of the keys it is about, before and after, with counts.

A `Comparison` is what `spark.comparing.compare` says, materialised once, and answers what the
executor asks: which keys changed, what the next stage reads, what the content is afterwards. It has
two forms: rows that are few stay on the driver (`LocalComparison`), others in Spark
(`SparkComparison`). The invariant: it has all rows of every key that it has any row of, and all
pairs of every source key that changed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import LongType

from deltaproduce.engines.local import comparing as arrow_changes
from deltaproduce.engines.local.arrays import Marks
from deltaproduce.engines.marks import (
    AFTER,
    BEFORE,
    IS_KEY,
    IS_PAIR,
    KEY_DIFFERS,
    PAIR_AFTER,
    PAIR_BEFORE,
    PAIR_DIFFERS,
    PAIR_MOVED,
    ROW_DIFFERS,
    SIDE,
)
from deltaproduce.engines.selections import Rows, Selection, as_frame
from deltaproduce.engines.spark import comparing as changes
from deltaproduce.engines.spark.checkpoints import checkpoint
from deltaproduce.engines.spark.columns import cols, same
from deltaproduce.engines.spark.comparing import numbered_in_order
from deltaproduce.engines.spark.frames import fetched, row_bytes
from deltaproduce.engines.spark.predicates import HASH, hash_sql
from deltaproduce.model.layouts import content_columns
from deltaproduce.types.columns import ORDINAL, POSITION, Column, RowSchema

Which: TypeAlias = Mapping[str, bool | int]
"""Selects the rows of a comparison in which each of these columns has this value."""

ALIVE: Final[Which] = {SIDE: AFTER}
CHANGED_KEYS: Final[Which] = {IS_KEY: True, KEY_DIFFERS: True}
CHANGED_PAIRS: Final[Which] = {IS_PAIR: True, PAIR_DIFFERS: True}
NEW_PAIRS: Final[Which] = {IS_PAIR: True, PAIR_BEFORE: False}
GONE_PAIRS: Final[Which] = {IS_PAIR: True, PAIR_AFTER: False}
MOVED_PAIRS: Final[Which] = {IS_PAIR: True, PAIR_MOVED: True}
ROWS_OF_CHANGED_KEYS: Final[Which] = {SIDE: AFTER, KEY_DIFFERS: True}
ROWS_OF_CHANGED_PAIRS: Final[Which] = {SIDE: AFTER, PAIR_DIFFERS: True}

_COUNTED: Final[Mapping[str, Which]] = {
    "keys": {IS_KEY: True},
    "keys_changed": CHANGED_KEYS,
    "rows_before": {SIDE: BEFORE},
    "rows_after": ALIVE,
    "rows_added": {SIDE: AFTER, ROW_DIFFERS: True},
    "rows_removed": {SIDE: BEFORE, ROW_DIFFERS: True},
    "rows_of_changed_keys": ROWS_OF_CHANGED_KEYS,
    "rows_of_changed_pairs": ROWS_OF_CHANGED_PAIRS,
    "pairs_changed": CHANGED_PAIRS,
    "pairs_replaced": {**CHANGED_PAIRS, PAIR_BEFORE: True},
    "pairs_new": NEW_PAIRS,
    "pairs_gone": GONE_PAIRS,
}


@dataclass(frozen=True, slots=True)
class Counts:
    """How many keys, content rows and pairs (source key, target key) a comparison is about.

    Attributes:
        bytes: of the content rows, before and after, about.
    """

    keys: int
    keys_changed: int
    rows_before: int
    rows_after: int
    rows_added: int
    rows_removed: int
    rows_of_changed_keys: int
    rows_of_changed_pairs: int
    pairs_changed: int
    pairs_replaced: int
    pairs_new: int
    pairs_gone: int
    bytes: int


@dataclass(frozen=True)
class Comparison(ABC):
    """The rows of some keys before and after a step.

    Attributes:
        complete: it is about all keys of the table.
        sought: the rows before were found by their keys, not by scanning the table.
    """

    spark: SparkSession
    schema: RowSchema
    sources: tuple[Column, ...]
    counts: Counts
    complete: bool
    sought: bool

    @abstractmethod
    def pick(self, columns: Sequence[Column], which: Which) -> Rows:
        """Some columns of the rows that are ``which``, in order."""

    @abstractmethod
    def updates(self) -> Rows:
        """The updates of the step, as `spark.comparing.updates` has them."""

    @property
    def pair(self) -> tuple[Column, ...]:
        """The columns of the key mappings: source key, then key; in a source the key alone."""
        return (*self.sources, *self.schema.key)

    @property
    def content(self) -> tuple[Column, ...]:
        """The columns of the content, in the table's order."""
        return content_columns(self.schema, self.sources)

    def upserts(self) -> Rows:
        """The rows of the changed keys that are alive: key and value columns, in order."""
        return self.pick((*self.schema.key, *self.schema.value), ROWS_OF_CHANGED_KEYS)

    @cached_property
    def changed_keys(self) -> Selection:
        """The keys that this version's updates are about."""
        changed = self.pick(self.schema.key.columns, CHANGED_KEYS)
        return Selection.of(changed, self.schema.key.columns, self.spark, self.counts.keys_changed)

    def content_after(self, before: Callable[[], DataFrame] | None) -> Rows:
        """All rows of the content after the step, unsorted.

        Args:
            before: reads all those before the step; None if there were none.
        """
        if self.complete or before is None:
            return self.pick(self.content, ALIVE)
        new = self._frame(self.content, ROWS_OF_CHANGED_PAIRS)
        return self._without(before(), CHANGED_PAIRS).select(*cols(self.content)).union(new)

    def mappings_after(self, before: Callable[[], DataFrame] | None) -> Rows:
        """All key mappings after the step, unsorted; ``before`` as in `content_after`."""
        if self.complete or before is None:
            return self.pick(self.pair, {IS_PAIR: True, SIDE: AFTER})
        new = self._frame(self.pair, NEW_PAIRS)
        return self._without(before(), GONE_PAIRS).select(*cols(self.pair)).union(new)

    def predicate(self, lookup: Sequence[Column], which: Which) -> str:
        """Holds for the pairs that are ``which``, and perhaps for some more, if they are few.

        Args:
            lookup: the key or the source key columns: those by which the table is sorted.
        """
        hash_of_pair = hash_sql([c.name for c in self.pair])
        hashed = self._frame(self.pair, which).withColumn(HASH, f.expr(hash_of_pair))
        numbered = fetched(hashed, (*self.pair, Column(HASH, LongType())))
        found = Selection.of(numbered.select([c.name for c in lookup]), lookup, self.spark)
        if not self.sources:
            return found.predicate()
        numbers = ", ".join(f"{n}L" for n in numbered.column(HASH).to_pylist())
        return f"{found.predicate()} AND {hash_of_pair} IN ({numbers})"

    def _frame(self, columns: Sequence[Column], which: Which) -> DataFrame:
        return as_frame(self.pick(columns, which), self.spark, columns)

    def _without(self, before: DataFrame, gone: Which) -> DataFrame:
        pairs = self._frame(self.pair, gone)
        return before.join(pairs, same(before, pairs, self.pair), "left_anti")


@dataclass(frozen=True)
class LocalComparison(Comparison):
    """A comparison whose rows are on the driver.

    Attributes:
        rows: what `local.comparing.compare` returns.
    """

    rows: pa.Table

    @staticmethod
    def of(
        rows: pa.Table,
        schema: RowSchema,
        sources: Sequence[Column],
        spark: SparkSession,
        affected: int,
        *,
        complete: bool,
    ) -> LocalComparison:
        """Count what `local.comparing.compare` found.

        Args:
            affected: the keys that the step is about, if there are rows of others too.
        """
        counted = {name: int(_mask(rows, which).sum()) for name, which in _COUNTED.items()}
        counted |= {"keys": affected, "bytes": rows.nbytes}
        return LocalComparison(
            spark, schema, tuple(sources), Counts(**counted), complete, True, rows
        )

    def pick(self, columns: Sequence[Column], which: Which) -> pa.Table:
        """See `Comparison.pick`."""
        return self.rows.select([c.name for c in columns]).filter(pa.array(_mask(self.rows, which)))

    def updates(self) -> pa.Table:
        """See `Comparison.updates`."""
        return arrow_changes.updates(self.rows, self.schema)


@dataclass(frozen=True)
class SparkComparison(Comparison):
    """A comparison whose rows are in Spark.

    Attributes:
        rows: what `spark.comparing.compare` returns, checkpointed.
        ranged: its partitions are disjoint ranges of the key, in order.
    """

    rows: DataFrame
    ranged: bool

    @staticmethod
    def of(
        rows: DataFrame,
        schema: RowSchema,
        sources: Sequence[Column],
        *,
        complete: bool = False,
        sought: bool = False,
    ) -> SparkComparison:
        """Compute what `spark.comparing.compare` describes, in one Spark action."""
        counted = {name: f.count_if(_condition(which)) for name, which in _COUNTED.items()}
        counted["bytes"] = _size(schema, sources)
        computed, counts = checkpoint(rows, counted)
        return SparkComparison(
            computed.sparkSession,
            schema,
            tuple(sources),
            Counts(**counts),
            complete,
            sought,
            computed,
            ranged=False,
        )

    @staticmethod
    def of_new(rows: DataFrame, schema: RowSchema, sources: Sequence[Column]) -> SparkComparison:
        """Compute what there is to say when there was nothing before, in one Spark action.

        Args:
            rows: all rows of the table, in partitions of disjoint ranges of the key, unsorted: the
                columns of the content, where ``_ordinal`` is any that order the rows of a pair.
        """
        counted = {
            "keys": f.count_if(f.col(POSITION) == 0),
            "pairs": f.count_if(f.col(ORDINAL) == 0),
            "rows": f.count(f.lit(1)),
            "bytes": _size(schema, sources),
        }
        computed, found = checkpoint(numbered_in_order(rows, schema, sources), counted)
        keys, pairs, count = found["keys"], found["pairs"], found["rows"]
        counts = Counts(
            keys=keys,
            keys_changed=keys,
            rows_before=0,
            rows_after=count,
            rows_added=count,
            rows_removed=0,
            rows_of_changed_keys=count,
            rows_of_changed_pairs=count,
            pairs_changed=pairs,
            pairs_replaced=0,
            pairs_new=pairs,
            pairs_gone=0,
            bytes=found["bytes"],
        )
        # Constant marks after the checkpoint take no place in it, and Spark folds them away.
        return SparkComparison(
            computed.sparkSession,
            schema,
            tuple(sources),
            counts,
            complete=True,
            sought=False,
            rows=changes.all_new(computed),
            ranged=True,
        )

    def pick(self, columns: Sequence[Column], which: Which) -> DataFrame:
        """See `Comparison.pick`."""
        return self.rows.where(_condition(which)).select(*cols(columns))

    def updates(self) -> DataFrame:
        """See `Comparison.updates`."""
        return changes.updates(self.rows, self.schema)


def _size(schema: RowSchema, sources: Sequence[Column]) -> Expression:
    return f.coalesce(f.sum(row_bytes(content_columns(schema, sources))), f.lit(0))


def _condition(which: Which) -> Expression:
    return reduce(lambda a, b: a & b, (f.col(name) == value for name, value in which.items()))


def _mask(rows: pa.Table, which: Which) -> Marks:
    columns = (np.asarray(rows.column(name)) == value for name, value in which.items())
    return reduce(np.logical_and, columns)
