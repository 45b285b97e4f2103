"""The local engine: see `engines.engine`. Rows are Arrow tables on the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
from typing_extensions import override

from deltaproduce.engines.change_feed import TIMES, FeedMode
from deltaproduce.engines.engine import Compared, Engine, FeederPart, Filling, NumberedRows, Rows
from deltaproduce.engines.local.arrays import (
    Marks,
    distinct,
    empty,
    in_order,
    isin_rows,
    order_codes,
    reordered,
    single,
    sorted_by,
    sorting,
)
from deltaproduce.engines.local.kernels import checks, comparing, feeds, surrogates
from deltaproduce.engines.local.kernels.counting import counts_of
from deltaproduce.engines.local.kernels.ranges import partitions_of
from deltaproduce.engines.local.large.spilling import spilled
from deltaproduce.engines.marks import Counts, Which
from deltaproduce.model.clustering import Clustering, file_ends
from deltaproduce.model.layouts import Layout
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import Column
from deltaproduce.types.conversions import in_type
from deltaproduce.types.pandas_on_demand import in_numpy


class LocalEngine(Engine[pa.Table]):
    """The operations on rows on the driver: all given rows are there."""

    @override
    def here(self, rows: Rows, columns: Sequence[Column]) -> pa.Table:
        return on_driver(rows).select([c.name for c in columns])

    @override
    def select(self, rows: pa.Table, columns: Sequence[Column], which: Which) -> pa.Table:
        mask = matching(rows, which)
        values = rows.select([c.name for c in columns])
        return values if mask.all() else values.filter(pa.array(mask))

    @override
    def concat(self, parts: Sequence[Rows], columns: Sequence[Column]) -> pa.Table:
        return pa.concat_tables([self.here(rows, columns) for rows in parts])

    @override
    def semi_join(self, rows: pa.Table, keys: pa.Table, columns: Sequence[Column]) -> pa.Table:
        matches = isin_rows(self.here(rows, columns), self.here(keys, columns))
        return rows.filter(pa.array(matches))

    @override
    def anti_join(
        self, rows: Rows, columns: Sequence[Column], keys: Rows, by: Sequence[Column]
    ) -> pa.Table:
        gone = isin_rows(self.here(rows, by), self.here(keys, by))
        return self.here(rows, columns).filter(pa.array(~gone))

    @override
    def distinct(self, rows: pa.Table, columns: Sequence[Column]) -> pa.Table:
        return distinct(self.here(rows, columns))

    @override
    def computed(self, rows: pa.Table) -> tuple[pa.Table, int]:
        """The rows are computed already."""
        return rows, len(rows)

    @override
    def by_key(
        self, parts: Sequence[FeederPart], columns: Sequence[Column], key: Sequence[Column]
    ) -> pa.Table:
        ordered = ((in_order(on_driver(part.rows), part.order), part.fillings) for part in parts)
        together = pa.concat_tables(
            [self.filled(rows, columns, fillings) for rows, fillings in ordered]
        )
        return sorted_by(together, order_codes(together, key))  # a key's rows stay in their order

    @override
    def filled(
        self, rows: pa.Table, columns: Sequence[Column], fillings: Sequence[Filling]
    ) -> pa.Table:
        arrays = [
            in_type(rows.column(filling), column)
            if isinstance(filling, str)
            else pa.repeat(pa.scalar(filling, arrow_type(column.data_type)), len(rows))
            for column, filling in zip(columns, fillings, strict=True)
        ]
        return pa.Table.from_arrays(arrays, names=[column.name for column in columns])

    @override
    def with_positions(self, rows: pa.Table, layout: Layout) -> pa.Table:
        return comparing.with_positions(rows, layout)

    @override
    def with_all(self, rows: pa.Table, column: Column, value: object) -> pa.Table:
        values = pa.repeat(pa.scalar(value, arrow_type(column.data_type)), len(rows))
        place = rows.schema.get_field_index(column.name)
        if place >= 0:
            return rows.set_column(place, column.name, values)
        return rows.append_column(column.name, values)

    @override
    def write_layout(
        self, rows: pa.Table, count: int, by: Sequence[Column], order: Sequence[Column]
    ) -> pa.Table:
        """All rows are one file."""
        del count, by
        return in_order(rows, order)

    @override
    def background_layout(
        self, rows: pa.Table, count: int, by: Sequence[Column], order: Sequence[Column]
    ) -> pa.Table:
        """All rows are one file."""
        return self.write_layout(rows, count, by, order)

    @override
    def clustered_layout(
        self, rows: pa.Table, clustering: Clustering, order: Sequence[Column], least: int
    ) -> tuple[pa.Table, tuple[int, ...]]:
        ordered = self.write_layout(rows, len(rows), order, order)
        of_rows = partitions_of(ordered.column(clustering.column.name), clustering.partitions)
        until = np.append(np.flatnonzero(np.diff(of_rows)) + 1, len(ordered))
        if not len(ordered):
            return ordered, ()
        return ordered, tuple(until[file_ends(np.diff(until, prepend=0), least)].tolist())

    @override
    def first(
        self,
        new: pa.Table,
        count: int,
        layout: Layout,
        clustering: Clustering | None = None,
        numbered: NumberedRows | None = None,
        *,
        held: bool = False,
    ) -> Compared:
        del count, clustering, numbered
        rows, counts, stays = first_compared(self.here(new, layout.content), layout)
        return Compared(rows if held and stays else spilled(rows, counts.bytes), counts)

    @override
    def compare(
        self,
        before: Rows,
        gone: Rows | None,
        new: Rows,
        layout: Layout,
        *,
        all_differ: bool = False,
    ) -> Compared:
        old, arriving = self.here(before, layout.content), self.here(new, layout.content)
        stays = np.zeros(len(old), bool)
        if gone is not None:
            names = [c.name for c in layout.sources or layout.key]
            stays = ~isin_rows(old.select(names), on_driver(gone))
        rows, counts = compared(old, stays, arriving, layout, all_differ=all_differ)
        return Compared(spilled(rows, counts.bytes), counts)

    @override
    def updates(self, compared: pa.Table, layout: Layout) -> pa.Table:
        return comparing.updates(compared, layout)

    @override
    def feed(
        self,
        before: Rows | None,
        updates: Rows,
        layout: Layout,
        times: pa.Table,
        *,
        since: int,
        mode: FeedMode,
    ) -> pa.Table:
        old = empty(layout.content) if before is None else self.here(before, layout.content)
        changes, published = self.here(updates, layout.updates), self.here(times, TIMES)
        return feeds.feed(old, changes, layout, published, since=since, mode=mode)

    @override
    def give_numbers(
        self, before: Rows, new: Rows, layout: Layout, surrogate: str, last: int
    ) -> tuple[pa.Table, int]:
        old, arriving = self.here(before, layout.content), self.here(new, layout.content)
        return surrogates.numbered(old, arriving, layout, surrogate, last)

    @override
    def sample(self, parts: Sequence[Rows], columns: Sequence[Column], most: int) -> pa.Table:
        names = [column.name for column in columns]
        keys = distinct(pa.concat_tables(on_driver(rows).rename_columns(names) for rows in parts))
        return keys.take(pa.array(np.random.default_rng().permutation(len(keys))[:most]))

    @override
    def latest(self, updates: Rows, layout: Layout) -> pa.Table:
        return checks.latest(self.here(updates, layout.updates), layout)

    @override
    def folded(self, updates: Rows, layout: Layout) -> pa.Table:
        return checks.folded(self.here(updates, layout.updates), layout)

    @override
    def unfolded(
        self, updates: Rows | None, content: Rows | None, layout: Layout, *, complete: bool
    ) -> int:
        changes = None if updates is None else self.here(updates, layout.updates)
        rows = None if content is None else self.here(content, layout.content)
        return checks.unfolded(changes, rows, layout, complete=complete)

    @override
    def faults(self, updates: Rows, layout: Layout, head: int) -> Mapping[str, int]:
        return checks.faults(self.here(updates, layout.updates), layout, head)

    @override
    def pair_faults(
        self, content: Rows, mappings: Rows | None, layout: Layout
    ) -> Mapping[str, int]:
        rows = self.here(content, layout.content)
        pairs = None if mappings is None else self.here(mappings, layout.pair)
        return checks.pair_faults(rows, pairs, layout)


def compared(
    old: pa.Table, stays: Marks, new: pa.Table, layout: Layout, *, all_differ: bool
) -> tuple[pa.Table, Counts]:
    """Return the rows and counts of `LocalEngine.compare`.

    Args:
        stays: marks the old rows that are not removed.
    """
    rows = comparing.compare(old, stays, new, layout)
    if all_differ:
        rows = comparing.all_different(rows)
    if not stays.any():  # all keys are affected
        return rows, counts_of(rows)
    key = [c.name for c in layout.key]
    touched = pa.concat_tables([old.filter(pa.array(~stays)).select(key), new.select(key)])
    return rows, counts_of(rows, len(distinct(touched)))


def first_compared(new: pa.Table, layout: Layout) -> tuple[pa.Table, Counts, bool]:
    """Return the rows and counts of `LocalEngine.first`, and whether no row was copied."""
    if len(new) and not layout.sources:
        numbers, count = single(order_codes(new, layout.key)), len(new)
        order = sorting([numbers])
        if np.diff(numbers[order]).all():  # no key is there twice
            ordered, stays = reordered(new, order)
            rows = comparing.all_new(ordered, layout)
            return rows, Counts.of_new(count, count, count, rows.nbytes), stays
    none = np.zeros(0, bool)
    return (*compared(new.slice(0, 0), none, new, layout, all_differ=False), False)


def on_driver(rows: Rows) -> pa.Table:
    """Return rows that are on the driver."""
    assert isinstance(rows, pa.Table)  # `choice` ensures it
    return rows


def matching(rows: pa.Table, which: Which) -> Marks:
    """Mark the rows that match."""
    marks = (in_numpy(rows.column(name)) == value for name, value in which.items())
    return reduce(np.logical_and, marks)
