"""The local engine for many rows, which need not fit in memory: see `engines.engine`.

Rows are Arrow tables as in the local engine, but large ones are in memory-mapped files
(`spilling`). The invariant: each operation is the local engine's, part by part, so both return the
same rows; and it holds only as many input and output rows in memory as fit there (`parting`). All
cores work, each on a part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
from typing_extensions import override

from deltaproduce.engines.change_feed import TIMES, FeedMode
from deltaproduce.engines.engine import Compared, FeederPart, NumberedRows, Rows
from deltaproduce.engines.local.arrays import (
    constant,
    empty,
    isin_rows,
    order_codes,
    reordered,
    sorting,
)
from deltaproduce.engines.local.engine import (
    LocalEngine,
    compared,
    first_compared,
    matching,
    on_driver,
)
from deltaproduce.engines.local.kernels import comparing
from deltaproduce.engines.local.kernels.counting import counts_of
from deltaproduce.engines.local.large.parting import (
    by_ranges,
    by_slices,
    gathered,
    gathered_in_place,
    slices,
    spill_of,
)
from deltaproduce.engines.local.large.spanning import joined
from deltaproduce.engines.local.large.spilling import LARGE_BYTES, Spill
from deltaproduce.engines.local.large.threads import side_by_side
from deltaproduce.engines.marks import FIRST_OF_NEW_KEYS, Counts, Which
from deltaproduce.model.clustering import Clustering
from deltaproduce.model.layouts import Layout
from deltaproduce.model.limits import Limits
from deltaproduce.model.limits.machine import cores
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import BooleanType

_Result = TypeVar("_Result")

_LOCAL: Final = LocalEngine()
_STAYS: Final = Column("_stays", BooleanType())
_MANY_PARTS: Final = 4
"""A key range has this many parts only if one of its keys has many rows."""


class OutOfCoreEngine(LocalEngine):
    """The operations on rows on the driver that are too many for one core, or for its memory.

    Args:
        limits: the rows that it holds in memory.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    @override
    def select(self, rows: pa.Table, columns: Sequence[Column], which: Which) -> pa.Table:
        """If all rows match, none is copied."""
        if self._all_match(rows, which):
            return self.here(rows, columns)
        return self._by_slices(rows, lambda part: _LOCAL.select(part, columns, which))

    @override
    def semi_join(self, rows: pa.Table, keys: pa.Table, columns: Sequence[Column]) -> pa.Table:
        return self._looked_up(
            rows, keys, columns, lambda rows, of: _LOCAL.semi_join(rows, of, columns)
        )

    @override
    def anti_join(
        self, rows: Rows, columns: Sequence[Column], keys: Rows, by: Sequence[Column]
    ) -> pa.Table:
        return self._looked_up(
            on_driver(rows), keys, by, lambda rows, of: _LOCAL.anti_join(rows, columns, of, by)
        )

    @override
    def distinct(self, rows: pa.Table, columns: Sequence[Column]) -> pa.Table:
        rows = self.here(rows, columns)
        return self._by_ranges([rows], columns, lambda part: _LOCAL.distinct(part, columns))

    @override
    def by_key(
        self, parts: Sequence[FeederPart], columns: Sequence[Column], key: Sequence[Column]
    ) -> pa.Table:
        places = [columns.index(column) for column in key]
        names = [[str(part.fillings[place]) for place in places] for part in parts]

        def of_range(*tables: pa.Table) -> pa.Table:
            ranged = [
                FeederPart(rows, part.columns, part.order, part.fillings)
                for rows, part in zip(tables, parts, strict=True)
            ]
            return _LOCAL.by_key(ranged, columns, key)

        return self._by_ranges([on_driver(part.rows) for part in parts], key, of_range, names)

    @override
    def with_positions(self, rows: pa.Table, layout: Layout) -> pa.Table:
        return self._by_ranges([rows], layout.key, lambda part: _LOCAL.with_positions(part, layout))

    @override
    def with_all(self, rows: pa.Table, column: Column, value: object) -> pa.Table:
        """All rows share the same values."""
        scalar = pa.scalar(value, arrow_type(column.data_type))
        return rows.append_column(column.name, constant(scalar, len(rows)))

    @override
    def write_layout(
        self, rows: pa.Table, count: int, by: Sequence[Column], order: Sequence[Column]
    ) -> pa.Table:
        """All rows are one file."""
        parts = self._each(
            [rows], order, lambda part: reordered(part, sorting(order_codes(part, order)))
        )
        return gathered_in_place(parts, spill_of(self._limits))

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
        counts = Counts.of_new(0, 0, 0, 0)

        def counted() -> Iterator[tuple[pa.Table, bool]]:
            nonlocal counts
            compare = partial(first_compared, layout=layout)
            for rows, of_rows, stays in self._each(
                [self.here(new, layout.content)], layout.key, compare
            ):
                counts += of_rows
                yield rows, held and stays

        rows = gathered_in_place(counted(), _kept(self._limits))
        return Compared(rows, counts)

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
        if gone is None:
            old = self.with_all(old, _STAYS, False)
        else:
            by = layout.sources or layout.key
            old = self._looked_up(old, gone, by, lambda rows, of: _with_stays(rows, of, by))
        counts, outcome = Counts.of_new(0, 0, 0, 0), _kept(self._limits)
        ranges = by_ranges([old, arriving], layout.key, self._limits, threads=cores())
        compare = partial(self._compared, layout=layout, all_differ=all_differ)
        for result in side_by_side(lambda sides: compare(*sides), ranges):
            for rows, of_rows in result:
                outcome.add(rows)
                counts += of_rows
        return Compared(outcome.table(), counts)

    def _compared(
        self, old: pa.Table, new: pa.Table, layout: Layout, *, all_differ: bool
    ) -> Iterable[tuple[pa.Table, Counts]]:
        """Return the comparison of some keys with counts, lazily if one has very many rows."""
        rows = len(old) + len(new)
        if layout.sources and self._limits.parts(rows, old.nbytes + new.nbytes) >= _MANY_PARTS:
            return self._spanning(old, new, layout, all_differ=all_differ)
        return [_compared(old, new, layout, all_differ=all_differ)]

    def _spanning(
        self, old: pa.Table, new: pa.Table, layout: Layout, *, all_differ: bool
    ) -> Iterator[tuple[pa.Table, Counts]]:
        """Yield the comparison of some keys, one of them with very many rows, with counts."""
        counted = 0
        gone = self._by_slices(old, lambda part: _keys_of_gone(part, layout))
        touched = pa.concat_tables([gone, self.here(new, layout.key)])
        keys = len(self.distinct(touched, layout.key))
        by = (*layout.key, *layout.sources)
        ranges = by_ranges([old, new], by, self._limits)
        parts = (_compared(were, are, layout, all_differ=all_differ)[0] for were, are in ranges)
        for part in joined(parts, layout, self._limits, all_differ=all_differ):
            yield part, counts_of(part, keys - counted)
            counted = keys

    @override
    def updates(self, compared: pa.Table, layout: Layout) -> pa.Table:
        """If all rows are the first of new keys, as in most first loads, none is copied."""
        if self._all_match(compared, FIRST_OF_NEW_KEYS):
            return comparing.updates_of_new(compared, layout)
        return self._by_slices(compared, lambda part: _LOCAL.updates(part, layout))

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
        feed = partial(_LOCAL.feed, layout=layout, times=published, since=since, mode=mode)
        return self._by_ranges([old, changes], layout.key, feed)

    @override
    def give_numbers(
        self, before: Rows, new: Rows, layout: Layout, surrogate: str, last: int
    ) -> tuple[pa.Table, int]:
        """Ranges come in key order."""
        old, arriving = self.here(before, layout.content), self.here(new, layout.content)

        def numbered_parts() -> Iterator[pa.Table]:
            nonlocal last
            for were, are in by_ranges([old, arriving], layout.key, self._limits):
                rows, last = _LOCAL.give_numbers(were, are, layout, surrogate, last)
                yield rows

        rows = gathered(numbered_parts(), self._limits)
        return rows, last

    @override
    def latest(self, updates: Rows, layout: Layout) -> pa.Table:
        changes = self.here(updates, layout.updates)
        return self._by_ranges([changes], layout.key, lambda part: _LOCAL.latest(part, layout))

    @override
    def folded(self, updates: Rows, layout: Layout) -> pa.Table:
        changes = self.here(updates, layout.updates)
        return self._by_ranges([changes], layout.key, lambda part: _LOCAL.folded(part, layout))

    @override
    def unfolded(
        self, updates: Rows | None, content: Rows | None, layout: Layout, *, complete: bool
    ) -> int:
        if updates is None:
            return _LOCAL.unfolded(None, content, layout, complete=complete)
        changes = self.here(updates, layout.updates)
        rows = empty(layout.content) if content is None else self.here(content, layout.content)
        count = partial(_LOCAL.unfolded, layout=layout, complete=complete)
        return sum(self._each([changes, rows], layout.key, count))

    @override
    def faults(self, updates: Rows, layout: Layout, head: int) -> Mapping[str, int]:
        changes = self.here(updates, layout.updates)
        return _sums(
            self._each([changes], layout.key, lambda part: _LOCAL.faults(part, layout, head))
        )

    @override
    def pair_faults(
        self, content: Rows, mappings: Rows | None, layout: Layout
    ) -> Mapping[str, int]:
        rows = self.here(content, layout.content)
        sides = [rows] if mappings is None else [rows, self.here(mappings, layout.pair)]

        def faults(part: pa.Table, pairs: pa.Table | None = None) -> Mapping[str, int]:
            return _LOCAL.pair_faults(part, pairs, layout)

        return _sums(self._each(sides, layout.key, faults))

    def _all_match(self, rows: pa.Table, which: Which) -> bool:
        parts = slices(rows.select([*which]), self._limits, cores())
        return all(side_by_side(lambda part: matching(part, which).all(), parts))

    def _looked_up(
        self,
        rows: pa.Table,
        keys: Rows,
        by: Sequence[Column],
        function: Callable[[pa.Table, pa.Table], pa.Table],
    ) -> pa.Table:
        """Return the result of a function that looks up each row among keys."""
        sought = self.here(keys, by)
        if self._limits.is_one_part(len(sought), sought.nbytes):
            return self._by_slices(rows, lambda part: function(part, sought))
        return self._by_ranges([rows, sought], by, function)

    def _by_slices(self, rows: pa.Table, function: Callable[[pa.Table], pa.Table]) -> pa.Table:
        return by_slices(rows, function, self._limits, cores())

    def _by_ranges(
        self,
        tables: Sequence[pa.Table],
        columns: Sequence[Column],
        function: Callable[..., pa.Table],
        names: Sequence[Sequence[str]] | None = None,
    ) -> pa.Table:
        return gathered(self._each(tables, columns, function, names), self._limits)

    def _each(
        self,
        tables: Sequence[pa.Table],
        columns: Sequence[Column],
        function: Callable[..., _Result],
        names: Sequence[Sequence[str]] | None = None,
    ) -> Iterator[_Result]:
        """Yield the results of a function for the rows of each key range."""
        ranges = by_ranges(tables, columns, self._limits, names, cores())
        return side_by_side(lambda sides: function(*sides), ranges)


def _compared(
    old: pa.Table, new: pa.Table, layout: Layout, *, all_differ: bool
) -> tuple[pa.Table, Counts]:
    """Return the comparison of some keys, all at once, with counts."""
    stays = np.asarray(old.column(_STAYS.name), bool)
    rows = old.drop_columns([_STAYS.name])
    return compared(rows, stays, new, layout, all_differ=all_differ)


def _kept(limits: Limits) -> Spill:
    """Return a place for rows that are kept until a version's last step is computed."""
    return Spill(min(limits.local_bytes, LARGE_BYTES), limits.local_rows)


def _with_stays(rows: pa.Table, gone: pa.Table, by: Sequence[Column]) -> pa.Table:
    """Return rows with a mark where they have none of the keys."""
    stays = ~isin_rows(rows.select([c.name for c in by]), gone)
    return rows.append_column(_STAYS.name, pa.array(stays))


def _keys_of_gone(rows: pa.Table, layout: Layout) -> pa.Table:
    gone = rows.filter(pa.array(~np.asarray(rows.column(_STAYS.name), bool)))
    return gone.select([c.name for c in layout.key])


def _sums(sums: Iterator[Mapping[str, int]]) -> Mapping[str, int]:
    total = Counter[str]()
    for counts in sums:
        total.update(counts)
    return total
