"""The local engine for rows that do not fit in memory: see `engines.engine`.

Rows are Arrow tables as those of the local engine, but large ones lie in files that the system maps
(`spilling`). The invariant: each operation is the local engine's, part by part, so both give the
same rows; and of what it reads and makes it holds one part in memory (`parting`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BooleanType

from deltaproduce.engines.change_feed import TIMES, FeedMode
from deltaproduce.engines.engine import Compared, Part, Rows
from deltaproduce.engines.local.arrays import empty, isin_rows
from deltaproduce.engines.local.engine import LocalEngine, compared, counts_of, on_driver
from deltaproduce.engines.local.large.parting import by_ranges, by_slices, gathered
from deltaproduce.engines.local.large.spanning import joined
from deltaproduce.engines.marks import Counts, Which
from deltaproduce.model.layouts import Layout
from deltaproduce.model.limits import Limits
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import Column

_LOCAL: Final = LocalEngine()
_STAYS: Final = Column("_stays", BooleanType())
_SAME_ROWS: Final = 1 << 16
_MANY_PARTS: Final = 4
"""A range of a key is of so many parts only if it has a key of many rows."""


class OutOfCoreEngine(LocalEngine):
    """What is done on the driver with rows that do not fit in its memory.

    Args:
        limits: how large a part is.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def pick(self, rows: pa.Table, columns: Sequence[Column], which: Which) -> pa.Table:
        """See `Engine.pick`."""
        return by_slices(rows, lambda part: _LOCAL.pick(part, columns, which), self._limits)

    def only(self, rows: pa.Table, keys: pa.Table, columns: Sequence[Column]) -> pa.Table:
        """See `Engine.only`."""
        return self._looked_up(rows, keys, columns, lambda some, of: _LOCAL.only(some, of, columns))

    def without(
        self, rows: Rows, columns: Sequence[Column], keys: Rows, by: Sequence[Column]
    ) -> pa.Table:
        """See `Engine.without`."""
        return self._looked_up(
            on_driver(rows), keys, by, lambda some, of: _LOCAL.without(some, columns, of, by)
        )

    def distinct(self, rows: pa.Table, columns: Sequence[Column]) -> pa.Table:
        """See `Engine.distinct`."""
        parts = by_ranges([self.here(rows, columns)], columns, self._limits)
        return self._gathered(_LOCAL.distinct(part, columns) for (part,) in parts)

    def by_key(
        self, parts: Sequence[Part], columns: Sequence[Column], key: Sequence[Column]
    ) -> pa.Table:
        """See `Engine.by_key`."""
        places = [columns.index(column) for column in key]
        names = [[str(part.fillings[place]) for place in places] for part in parts]
        ranges = by_ranges([on_driver(part.rows) for part in parts], key, self._limits, names)
        return self._gathered(
            _LOCAL.by_key(
                [
                    Part(rows, part.columns, part.order, part.fillings)
                    for rows, part in zip(found, parts, strict=True)
                ],
                columns,
                key,
            )
            for found in ranges
        )

    def placed(self, rows: pa.Table, layout: Layout) -> pa.Table:
        """See `Engine.placed`."""
        parts = by_ranges([rows], layout.key, self._limits)
        return self._gathered(_LOCAL.placed(part, layout) for (part,) in parts)

    def with_all(self, rows: pa.Table, column: Column, value: object) -> pa.Table:
        """See `Engine.with_all`: the same values serve all rows."""
        some = pa.repeat(pa.scalar(value, arrow_type(column.data_type)), _SAME_ROWS)
        starts = range(0, len(rows), _SAME_ROWS)
        chunks = [some.slice(0, min(_SAME_ROWS, len(rows) - start)) for start in starts]
        return rows.append_column(column.name, pa.chunked_array(chunks, some.type))

    def filed(
        self, rows: pa.Table, count: int, by: Sequence[Column], order: Sequence[Column]
    ) -> pa.Table:
        """See `Engine.filed`: all rows are one file."""
        parts = by_ranges([rows], order, self._limits)
        return self._gathered(_LOCAL.filed(part, count, by, order) for (part,) in parts)

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
        if gone is None:
            old = self.with_all(old, _STAYS, False)
        else:
            by = layout.sources or layout.key
            old = self._looked_up(old, gone, by, lambda some, of: _with_stays(some, of, by))
        counts = Counts.of_new(0, 0, 0, 0)

        def made() -> Iterator[pa.Table]:
            nonlocal counts
            for were, are in by_ranges([old, come], layout.key, self._limits):
                for rows, found in self._compared(were, are, layout, all_differ=all_differ):
                    counts += found
                    yield rows

        rows = self._gathered(made())
        return Compared(rows, counts)

    def _compared(
        self, old: pa.Table, come: pa.Table, layout: Layout, *, all_differ: bool
    ) -> Iterator[tuple[pa.Table, Counts]]:
        """The comparison of some keys, in parts if a key has many rows, and what it counts."""

        def of_part(were: pa.Table, are: pa.Table) -> tuple[pa.Table, Counts]:
            stays = np.asarray(were.column(_STAYS.name), bool)
            rows = were.drop_columns([_STAYS.name])
            return compared(rows, stays, are, layout, all_differ=all_differ)

        rows = len(old) + len(come)
        if not layout.sources or self._limits.parts(rows, old.nbytes + come.nbytes) < _MANY_PARTS:
            yield of_part(old, come)
            return
        counted = 0
        gone = by_slices(old, lambda part: _keys_of_gone(part, layout), self._limits)
        touched = pa.concat_tables([gone, self.here(come, layout.key)])
        keys = len(self.distinct(touched, layout.key))
        by = (*layout.key, *layout.sources)
        parts = (of_part(*part)[0] for part in by_ranges([old, come], by, self._limits))
        for part in joined(parts, layout, self._limits, all_differ=all_differ):
            yield part, counts_of(part, keys - counted)
            counted = keys

    def updates(self, compared: pa.Table, layout: Layout) -> pa.Table:
        """See `Engine.updates`."""
        return by_slices(compared, lambda part: _LOCAL.updates(part, layout), self._limits)

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
        told = self.here(updates, layout.updates)
        return self._gathered(
            _LOCAL.feed(were, of, layout, self.here(times, TIMES), since=since, mode=mode)
            for were, of in by_ranges([old, told], layout.key, self._limits)
        )

    def give_numbers(
        self, before: Rows, new: Rows, layout: Layout, surrogate: str, last: int
    ) -> tuple[pa.Table, int]:
        """See `Engine.give_numbers`: ranges come in the order of the key."""
        old, come = self.here(before, layout.content), self.here(new, layout.content)

        def made() -> Iterator[pa.Table]:
            nonlocal last
            for were, are in by_ranges([old, come], layout.key, self._limits):
                rows, last = _LOCAL.give_numbers(were, are, layout, surrogate, last)
                yield rows

        rows = self._gathered(made())
        return rows, last

    def latest(self, updates: Rows, layout: Layout) -> pa.Table:
        """See `Engine.latest`."""
        parts = by_ranges([self.here(updates, layout.updates)], layout.key, self._limits)
        return self._gathered(_LOCAL.latest(part, layout) for (part,) in parts)

    def folded(self, updates: Rows, layout: Layout) -> pa.Table:
        """See `Engine.folded`."""
        parts = by_ranges([self.here(updates, layout.updates)], layout.key, self._limits)
        return self._gathered(_LOCAL.folded(part, layout) for (part,) in parts)

    def unfolded(
        self, updates: Rows | None, content: Rows | None, layout: Layout, *, complete: bool
    ) -> int:
        """See `Engine.unfolded`."""
        if updates is None:
            return _LOCAL.unfolded(None, content, layout, complete=complete)
        told = self.here(updates, layout.updates)
        rows = empty(layout.content) if content is None else self.here(content, layout.content)
        return sum(
            _LOCAL.unfolded(of, part, layout, complete=complete)
            for of, part in by_ranges([told, rows], layout.key, self._limits)
        )

    def faults(self, updates: Rows, layout: Layout, head: int) -> Mapping[str, int]:
        """See `Engine.faults`."""
        parts = by_ranges([self.here(updates, layout.updates)], layout.key, self._limits)
        return _sums(_LOCAL.faults(part, layout, head) for (part,) in parts)

    def pair_faults(
        self, content: Rows, mappings: Rows | None, layout: Layout
    ) -> Mapping[str, int]:
        """See `Engine.pair_faults`."""
        rows = self.here(content, layout.content)
        if mappings is None:
            parts = by_ranges([rows], layout.key, self._limits)
            return _sums(_LOCAL.pair_faults(part, None, layout) for (part,) in parts)
        pairs = by_ranges([rows, self.here(mappings, layout.pair)], layout.key, self._limits)
        return _sums(_LOCAL.pair_faults(part, of, layout) for part, of in pairs)

    def _looked_up(
        self,
        rows: pa.Table,
        keys: Rows,
        by: Sequence[Column],
        function: Callable[[pa.Table, pa.Table], pa.Table],
    ) -> pa.Table:
        """What a function makes of rows, which looks each up among keys."""
        sought = self.here(keys, by)
        if self._limits.is_local(len(sought), sought.nbytes):
            return by_slices(rows, lambda part: function(part, sought), self._limits)
        return self._gathered(
            function(part, of) for part, of in by_ranges([rows, sought], by, self._limits)
        )

    def _gathered(self, made: Iterator[pa.Table]) -> pa.Table:
        return gathered(made, self._limits)


def _with_stays(rows: pa.Table, gone: pa.Table, by: Sequence[Column]) -> pa.Table:
    """Rows, and which of them have none of the keys."""
    stays = ~isin_rows(rows.select([c.name for c in by]), gone)
    return rows.append_column(_STAYS.name, pa.array(stays))


def _keys_of_gone(rows: pa.Table, layout: Layout) -> pa.Table:
    gone = rows.filter(pa.array(~np.asarray(rows.column(_STAYS.name), bool)))
    return gone.select([c.name for c in layout.key])


def _sums(found: Iterator[Mapping[str, int]]) -> Mapping[str, int]:
    total = Counter[str]()
    for counts in found:
        total.update(counts)
    return total
