"""The local engine: see `engines.engine`. Rows are Arrow tables on the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deltaproduce.engines.change_feed import TIMES, FeedMode
from deltaproduce.engines.engine import Compared, Engine, Filling, Part, Rows
from deltaproduce.engines.local.arrays import (
    Marks,
    distinct,
    empty,
    in_order,
    isin_rows,
    order_codes,
    sorted_by,
)
from deltaproduce.engines.local.kernels import checks, comparing, feeds, surrogates
from deltaproduce.engines.local.kernels.ranges import partitions_of
from deltaproduce.engines.local.large.spilling import spilled
from deltaproduce.engines.marks import COUNTED, Counts, Which
from deltaproduce.model.clustering import Clustering, file_ends
from deltaproduce.model.layouts import Layout
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import Column
from deltaproduce.types.conversions import in_type
from deltaproduce.types.pandas_on_demand import in_numpy


class LocalEngine(Engine[pa.Table]):
    """The operations on rows on the driver: all given rows are there."""

    def here(self, rows: Rows, columns: Sequence[Column]) -> pa.Table:
        """See `Engine.here`."""
        return on_driver(rows).select([c.name for c in columns])

    def pick(self, rows: pa.Table, columns: Sequence[Column], which: Which) -> pa.Table:
        """See `Engine.pick`."""
        mask = _mask({name: in_numpy(rows.column(name)) for name in which}, which)
        found = rows.select([c.name for c in columns])
        return found if mask.all() else found.filter(pa.array(mask))

    def united(self, parts: Sequence[Rows], columns: Sequence[Column]) -> pa.Table:
        """See `Engine.united`."""
        return pa.concat_tables([self.here(rows, columns) for rows in parts])

    def only(self, rows: pa.Table, keys: pa.Table, columns: Sequence[Column]) -> pa.Table:
        """See `Engine.only`."""
        found = isin_rows(self.here(rows, columns), self.here(keys, columns))
        return rows.filter(pa.array(found))

    def without(
        self, rows: Rows, columns: Sequence[Column], keys: Rows, by: Sequence[Column]
    ) -> pa.Table:
        """See `Engine.without`."""
        gone = isin_rows(self.here(rows, by), self.here(keys, by))
        return self.here(rows, columns).filter(pa.array(~gone))

    def distinct(self, rows: pa.Table, columns: Sequence[Column]) -> pa.Table:
        """See `Engine.distinct`."""
        return distinct(self.here(rows, columns))

    def computed(self, rows: pa.Table) -> tuple[pa.Table, int]:
        """See `Engine.computed`: the rows are computed already."""
        return rows, len(rows)

    def by_key(
        self, parts: Sequence[Part], columns: Sequence[Column], key: Sequence[Column]
    ) -> pa.Table:
        """See `Engine.by_key`."""
        ordered = ((in_order(on_driver(part.rows), part.order), part.fillings) for part in parts)
        together = pa.concat_tables(
            [self.filled(rows, columns, fillings) for rows, fillings in ordered]
        )
        return sorted_by(together, order_codes(together, key))  # a key's rows stay in their order

    def filled(
        self, rows: pa.Table, columns: Sequence[Column], fillings: Sequence[Filling]
    ) -> pa.Table:
        """See `Engine.filled`."""
        arrays = [
            in_type(rows.column(filling), column)
            if isinstance(filling, str)
            else pa.repeat(pa.scalar(filling, arrow_type(column.data_type)), len(rows))
            for column, filling in zip(columns, fillings, strict=True)
        ]
        return pa.Table.from_arrays(arrays, names=[column.name for column in columns])

    def placed(self, rows: pa.Table, layout: Layout) -> pa.Table:
        """See `Engine.placed`."""
        return comparing.placed(rows, layout)

    def with_all(self, rows: pa.Table, column: Column, value: object) -> pa.Table:
        """See `Engine.with_all`."""
        scalar = pa.scalar(value, arrow_type(column.data_type))
        return rows.append_column(column.name, pa.repeat(scalar, len(rows)))

    def filed(
        self, rows: pa.Table, count: int, by: Sequence[Column], order: Sequence[Column]
    ) -> pa.Table:
        """See `Engine.filed`: all rows are one file."""
        del count, by
        return in_order(rows, order)

    def filed_beside(
        self, rows: pa.Table, count: int, by: Sequence[Column], order: Sequence[Column]
    ) -> pa.Table:
        """See `Engine.filed_beside`: all rows are one file."""
        return self.filed(rows, count, by, order)

    def clustered(
        self, rows: pa.Table, clustering: Clustering, order: Sequence[Column], least: int
    ) -> tuple[pa.Table, tuple[int, ...]]:
        """See `Engine.clustered`."""
        ordered = self.filed(rows, len(rows), order, order)
        of_rows = partitions_of(ordered.column(clustering.column.name), clustering.partitions)
        until = np.append(np.flatnonzero(np.diff(of_rows)) + 1, len(ordered))
        if not len(ordered):
            return ordered, ()
        return ordered, tuple(until[file_ends(np.diff(until, prepend=0), least)].tolist())

    def first(
        self, new: pa.Table, count: int, layout: Layout, clustering: Clustering | None = None
    ) -> Compared:
        """See `Engine.first`."""
        del count, clustering
        return self.compare(self.here(new, layout.content).slice(0, 0), None, new, layout)

    def compare(
        self,
        before: Rows,
        gone: Rows | None,
        new: Rows,
        layout: Layout,
        *,
        all_differ: bool = False,
    ) -> Compared:
        """See `Engine.compare`."""
        old, come = self.here(before, layout.content), self.here(new, layout.content)
        stays = np.zeros(len(old), bool)
        if gone is not None:
            names = [c.name for c in layout.sources or layout.key]
            stays = ~isin_rows(old.select(names), on_driver(gone))
        rows, counts = compared(old, stays, come, layout, all_differ=all_differ)
        return Compared(spilled(rows), counts)

    def updates(self, compared: pa.Table, layout: Layout) -> pa.Table:
        """See `Engine.updates`."""
        return comparing.updates(compared, layout)

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
        """See `Engine.feed`."""
        old = empty(layout.content) if before is None else self.here(before, layout.content)
        told, published = self.here(updates, layout.updates), self.here(times, TIMES)
        return feeds.feed(old, told, layout, published, since=since, mode=mode)

    def give_numbers(
        self, before: Rows, new: Rows, layout: Layout, surrogate: str, last: int
    ) -> tuple[pa.Table, int]:
        """See `Engine.give_numbers`."""
        old, come = self.here(before, layout.content), self.here(new, layout.content)
        return surrogates.numbered(old, come, layout, surrogate, last)

    def some(self, parts: Sequence[Rows], columns: Sequence[Column], most: int) -> pa.Table:
        """See `Engine.some`."""
        names = [column.name for column in columns]
        found = distinct(pa.concat_tables(on_driver(rows).rename_columns(names) for rows in parts))
        return found.take(pa.array(np.random.default_rng().permutation(len(found))[:most]))

    def latest(self, updates: Rows, layout: Layout) -> pa.Table:
        """See `Engine.latest`."""
        return checks.latest(self.here(updates, layout.updates), layout)

    def folded(self, updates: Rows, layout: Layout) -> pa.Table:
        """See `Engine.folded`."""
        return checks.folded(self.here(updates, layout.updates), layout)

    def unfolded(
        self, updates: Rows | None, content: Rows | None, layout: Layout, *, complete: bool
    ) -> int:
        """See `Engine.unfolded`."""
        told = None if updates is None else self.here(updates, layout.updates)
        rows = None if content is None else self.here(content, layout.content)
        return checks.unfolded(told, rows, layout, complete=complete)

    def faults(self, updates: Rows, layout: Layout, head: int) -> Mapping[str, int]:
        """See `Engine.faults`."""
        return checks.faults(self.here(updates, layout.updates), layout, head)

    def pair_faults(
        self, content: Rows, mappings: Rows | None, layout: Layout
    ) -> Mapping[str, int]:
        """See `Engine.pair_faults`."""
        rows = self.here(content, layout.content)
        pairs = None if mappings is None else self.here(mappings, layout.pair)
        return checks.pair_faults(rows, pairs, layout)


def compared(
    old: pa.Table, stays: Marks, come: pa.Table, layout: Layout, *, all_differ: bool
) -> tuple[pa.Table, Counts]:
    """Return the rows and counts of `LocalEngine.compare`.

    Args:
        stays: marks the old rows that are not removed.
    """
    rows = comparing.compare(old, stays, come, layout)
    if all_differ:
        rows = comparing.all_different(rows)
    if not stays.any():  # all keys are affected
        return rows, counts_of(rows)
    key = [c.name for c in layout.key]
    touched = pa.concat_tables([old.filter(pa.array(~stays)).select(key), come.select(key)])
    return rows, counts_of(rows, len(distinct(touched)))


def counts_of(rows: pa.Table, keys: int | None = None) -> Counts:
    """Return the counts of a comparison's rows.

    Args:
        keys: the number of keys of the comparison; if None, all keys of the rows count.
    """
    names = {name for which in COUNTED.values() for name in which}
    marks = {name: in_numpy(rows.column(name)) for name in names}
    counted = {name: int(_mask(marks, which).sum()) for name, which in COUNTED.items()}
    if keys is not None:
        counted["keys"] = keys
    return Counts(**counted, bytes=rows.nbytes)


def on_driver(rows: Rows) -> pa.Table:
    """Return rows that are on the driver."""
    assert isinstance(rows, pa.Table)  # `choice` ensures it
    return rows


def _mask(marks: Mapping[str, NDArray[np.generic]], which: Which) -> Marks:
    return reduce(np.logical_and, (marks[name] == value for name, value in which.items()))
