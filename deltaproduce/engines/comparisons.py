"""A step's result, computed: the rows of the affected keys, before and after, with counts.

A `Comparison` answers the executor's questions: which keys changed, what the next stage reads, what
the content is afterwards. The invariant: if it has any row of a key, it has all rows of that key;
and it has all pairs of every source key that changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.choice import Engines, is_local
from deltaproduce.engines.engine import Engine, NumberedRows, Rows
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.local.kernels.moving import moved
from deltaproduce.engines.marks import (
    AFTER,
    ALIVE,
    BEFORE,
    CHANGED_KEYS,
    CHANGED_PAIRS,
    GONE_PAIRS,
    IS_PAIR,
    KEY_DIFFERS,
    NEW_PAIRS,
    ROW_DIFFERS,
    ROWS_OF_CHANGED_KEYS,
    ROWS_OF_CHANGED_PAIRS,
    SIDE,
    Counts,
    Which,
)
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.frames import fetched
from deltaproduce.engines.spark.kernels.ranges import without_mark
from deltaproduce.engines.spark.predicates import HASH, hash_sql
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.model.clustering import Clustering
from deltaproduce.model.layouts import Layout
from deltaproduce.model.partitions import Ranges
from deltaproduce.shown.phases import in_phase
from deltaproduce.types.columns import POSITION, Column
from deltaproduce.types.data_types import LongType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOST_KEPT: Final = 100_000
"""The most rows of a step of which `Comparison.moved` keeps those that moved."""


@dataclass(frozen=True)
class Comparison:
    """The rows of some keys before and after a step.

    Attributes:
        rows: the rows, numbered and marked (see `marks`), and computed.
        complete: the rows cover all keys of the table.
        sought: the rows before were found by their keys, not by scanning the table.
        ranged: the rows are in partitions of disjoint ranges of the key, in order.
        clustering: if given, each partition is a file of this clustering.
    """

    engines: Engines
    layout: Layout
    rows: Rows
    counts: Counts
    complete: bool = False
    sought: bool = False
    ranged: bool = False
    clustering: Clustering | None = None

    @staticmethod
    @in_phase("comparing")
    def first(
        new: Rows,
        count: int,
        layout: Layout,
        engines: Engines,
        clustering: Clustering | None = None,
        numbered: NumberedRows | None = None,
        *,
        held: bool = False,
    ) -> Comparison:
        """Return the comparison where no row was there before.

        Args:
            new: all rows of the content, unsorted.
            count: the number of rows.
            clustering: the partitions that the rows will be stored by, if windows are over them.
            numbered: what is known of the rows; None if they have to be numbered.
            held: whether the caller holds the rows until their version is written.
        """
        few = engines.of(new).first(new, count, layout, clustering, numbered, held=held)
        return Comparison(
            engines,
            layout,
            few.rows,
            few.counts,
            complete=True,
            sought=is_local(few.rows),
            ranged=few.ranged,
            clustering=few.clustering,
        )

    @staticmethod
    @in_phase("comparing")
    def of_all(
        before: Rows,
        new: Rows,
        layout: Layout,
        engines: Engines,
        *,
        complete: bool = True,
        all_differ: bool = False,
    ) -> Comparison:
        """Compare ``before`` with ``new``, which replaces all of it.

        Args:
            complete: these are all rows of the table.
            all_differ: no row before can be equal to one after.
        """
        comparison = engines.of(before, new).compare(
            before, None, new, layout, all_differ=all_differ
        )
        return Comparison(
            engines, layout, comparison.rows, comparison.counts, complete, is_local(comparison.rows)
        )

    @staticmethod
    @in_phase("comparing")
    def of_changed_keys(
        before: Rows,
        changed: Selection,
        new: Rows,
        layout: Layout,
        *,
        complete: bool = False,
        sought: bool = True,
    ) -> Comparison:
        """Compare ``before`` with the rows after ``new`` replaces the changed keys' rows.

        Args:
            complete: see `of_all`.
            sought: whether the rows before were looked up by their keys.
        """
        engines = changed.engines
        engine = engines.of(before, changed.keys, new)
        comparison = engine.compare(before, changed.keys, new, layout)
        is_sought = sought or is_local(comparison.rows)
        return Comparison(engines, layout, comparison.rows, comparison.counts, complete, is_sought)

    @staticmethod
    def unchanged(layout: Layout, engines: Engines) -> Comparison:
        """Return the comparison of no key, where nothing was read and nothing differs."""

        def of_nothing() -> Comparison:
            return Comparison.first(empty(layout.content), 0, layout, engines)

        known = engines.once((Comparison.unchanged, layout), of_nothing)
        return Comparison(engines, layout, known.rows, known.counts, sought=True)

    def silenced(self, column: Column, values: Ranges) -> Comparison:
        """Return the comparison with keys in some ranges of a column, all removed, as unchanged.

        The removal of these keys is written, but is in no update, and no stage sees it. One Spark
        job if the rows are in Spark.

        Args:
            column: a column of the key.
        """
        rows = without_mark(self.rows, KEY_DIFFERS, column, values)
        engine = self.engines.of(rows)
        changed = engine.select(rows, self.layout.key, CHANGED_KEYS)
        keys = engine.computed(changed)[1]
        gone = self.counts.keys_changed - keys
        deleted = self.counts.keys_deleted - gone
        counts = replace(self.counts, keys_changed=keys, keys_deleted=deleted)
        return replace(self, rows=rows, counts=counts)

    def upserts(self) -> Rows:
        """Return the live rows of the changed keys: key and value columns, in order."""
        return self.select((*self.layout.key, *self.layout.value), ROWS_OF_CHANGED_KEYS)

    @cached_property
    def changed_keys(self) -> Selection:
        """The keys of this version's updates."""
        changed = self.select(self.layout.key, CHANGED_KEYS)
        return Selection.of(changed, self.layout.key, self.engines, self.counts.keys_changed)

    @cached_property
    def has_one_row_a_key(self) -> bool:
        """Whether it is known that no key has several rows on one side."""
        if not isinstance(self.rows, pa.Table):
            return False
        return not pc.max(self.rows.column(POSITION)).as_py()

    def select(self, columns: Sequence[Column], which: Which) -> Rows:
        """Return the given columns of the rows that match ``which``, in order."""
        rows: Rows = self._engine.select(self.rows, columns, which)
        return rows

    def moved(
        self, columns: Sequence[Column] | None = None, *, by_states: bool = False
    ) -> tuple[Rows, Rows]:
        """Return the removed and the added rows of its changed keys, unsorted.

        Rows that stay in place unchanged are in neither; on the driver, nor are most of those that
        are the same in the wanted columns.

        Args:
            columns: those that are wanted; all of the content's if None.
            by_states: whether rows whose states alone changed are in both.
        """
        wanted = self.layout.content if columns is None else tuple(dict.fromkeys(columns))
        differ = {ROW_DIFFERS: True} if by_states else {ROW_DIFFERS: True, KEY_DIFFERS: True}
        if not isinstance(self.rows, pa.Table):
            gone, added = (self.select(wanted, {SIDE: side, **differ}) for side in (BEFORE, AFTER))
            return gone, added
        names, key = ([one.name for one in each] for each in (wanted, self.layout.key))
        is_kept = not self.counts.rows_before or not self.counts.rows_after
        if len(self.rows) > _MOST_KEPT or not is_kept or not names:
            return moved(self.rows, names, key, differ)
        known = self._kept.get(by_states)
        if known is None:
            every = [one.name for one in self.layout.content]
            known = self._kept[by_states] = moved(self.rows, every, key, differ)
        gone, added = (rows.select(names) for rows in known)
        return gone, added

    @cached_property
    def _kept(self) -> dict[bool, tuple[pa.Table, pa.Table]]:
        """What moves in all columns, if all goes or all comes, as several stages ask for it."""
        return {}

    def updates(self) -> Rows:
        """Return the step's updates (S7), without ``_version``, in key order."""
        rows: Rows = self._engine.updates(self.rows, self.layout)
        return rows

    def content_after(
        self, before: Callable[[], Rows] | None, columns: Sequence[Column] | None = None
    ) -> Rows:
        """Return all rows of the content after the step, unsorted.

        Args:
            before: reads all rows before the step; None if there were none.
            columns: those that are wanted; all of the content's if None.
        """
        wanted = self.layout.content if columns is None else columns
        if self.complete or before is None:
            return self.select(wanted, ALIVE)
        new = self.select(wanted, ROWS_OF_CHANGED_PAIRS)
        return self.engines.concat(self.staying(wanted)(before()), new, wanted)

    def staying(self, columns: Sequence[Column]) -> Callable[[Rows], Rows]:
        """Return what finds, among rows before the step, those that stay as they are.

        Args:
            columns: what is returned of them; they also have the columns that tell pairs.
        """
        return self._leaving_out(columns, CHANGED_PAIRS)

    def mappings_after(self, before: Callable[[], Rows] | None) -> Rows:
        """Return all key mappings after the step, unsorted; ``before`` as in `content_after`."""
        pair = self.layout.pair
        if self.complete or before is None:
            return self.select(pair, {IS_PAIR: True, SIDE: AFTER})
        new = self.select(pair, NEW_PAIRS)
        return self.engines.concat(self._leaving_out(pair, GONE_PAIRS)(before()), new, pair)

    def predicate(self, lookup: Sequence[Column], which: Which) -> str:
        """Return a predicate that holds for the few pairs of ``which``, and perhaps for others.

        Args:
            lookup: the key or the source key columns, by which the table is sorted.
        """
        pair = self.layout.pair
        hash_of_pair = hash_sql([c.name for c in pair])
        hashed = self._frame(pair, which).withColumn(HASH, f.expr(hash_of_pair))
        numbered = fetched(hashed, (*pair, Column(HASH, LongType())))
        selection = Selection.of(numbered.select([c.name for c in lookup]), lookup, self.engines)
        if not self.layout.sources:
            return selection.predicate()
        numbers = ", ".join(f"{n}L" for n in numbered.column(HASH).to_pylist())
        return f"{selection.predicate()} AND {hash_of_pair} IN ({numbers})"

    @cached_property
    def _engine(self) -> Engine[Any]:
        return self.engines.of(self.rows)

    def _frame(self, columns: Sequence[Column], which: Which) -> DataFrame:
        return self.engines.frame(self.select(columns, which), columns)

    def _leaving_out(self, columns: Sequence[Column], gone: Which) -> Callable[[Rows], Rows]:
        """Return what leaves the pairs of ``gone`` out of rows before the step."""
        pair = self.layout.pair
        pairs = self.select(pair, gone)

        def anti_joined(before: Rows) -> Rows:
            rest: Rows = self.engines.of(before, pairs).anti_join(before, columns, pairs, pair)
            return rest

        return anti_joined
