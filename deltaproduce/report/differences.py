"""Differences: the rows of some changed keys before a version and after it, as text.

The invariant: of each key, the rows are shown that only one of the two versions has; a row of both
is not. Only the rows of the keys that are shown are read, apart from the rest of their row groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from deltaproduce.engines.local.arrays import distinct, in_order
from deltaproduce.engines.selections import Selection
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import Layout
from deltaproduce.reading.opened import Opened
from deltaproduce.report.model import DifferenceReport, Value
from deltaproduce.report.samples import texts
from deltaproduce.storage.versions import EMPTY, Version, stage_at
from deltaproduce.types.columns import SOURCE_PREFIX, Column
from deltaproduce.types.data_types import NumericType

_ROWS: Final = 20
"""The most rows shown of a key, before and after."""

_Row = tuple[Value, ...]


def difference(
    store: Opened, stage: Stage, past: Sequence[Version], most: int
) -> DifferenceReport | None:
    """Return how some keys of a stage differ in a version; None if it changed none.

    None too if the columns of the stage changed, and if the rows of the version before are not
    known any more.

    Args:
        past: the version and the earlier ones, newest first.
        most: the most keys to show; if 0, nothing is read.
    """
    version = past[0] if past else EMPTY
    figures = version.stages.get(stage.name)
    before = _before(past)
    if not most or figures is None or not figures.changed_keys or before is None:
        return None
    now, then = stage_at(version, stage), stage_at(before, stage)
    had = before.stages.get(stage.name)
    if had is not None and had.rows and Layout.of(now).shown != Layout.of(then).shown:
        return None
    layout = Layout.of(now)
    with store.noticing():
        rows = store.reader.sample_updates(version, stage, most * _ROWS)
        names = [column.name for column in layout.key]
        keys = Selection(layout.key, distinct(rows.select(names)).slice(0, most), store.engines)
        were, are = (_rows(store, each, stage, keys, layout) for each in (before, version))
    shown = [c for c in (*layout.key, *layout.sources, *layout.value) if not c.is_hidden]
    width = sum(not column.is_hidden for column in layout.key)
    return DifferenceReport(
        figures.changed_keys,
        len(store.engines.table(keys.keys, layout.key)),
        tuple(_name(column, layout) for column in shown),
        tuple(isinstance(column.data_type, NumericType) for column in shown),
        width,
        tuple(_differing(_texts(were, shown), _texts(are, shown), width)),
    )


def _before(past: Sequence[Version]) -> Version | None:
    """Return the version before the first of some; None if it was dropped."""
    if past and past[0].number == 1:
        return EMPTY
    return past[1] if len(past) > 1 and past[1].number == past[0].number - 1 else None


def _rows(
    store: Opened, version: Version, stage: Stage, keys: Selection, layout: Layout
) -> pa.Table | None:
    """Return the rows of some keys in a version, in order; None if there are none."""
    stored = store.reader.content(version, stage)
    if stored is None:
        return None
    rows = store.engines.table(keys.exactly(stored.of(keys)), layout.content)
    return in_order(rows, layout.pair)


def _texts(rows: pa.Table | None, columns: Sequence[Column]) -> list[_Row]:
    if rows is None:
        return []
    return [*zip(*(texts(rows.column(c.name)) for c in columns), strict=True)]


def _differing(before: Sequence[_Row], after: Sequence[_Row], width: int) -> Iterator[_Row]:
    """Yield the rows of one side alone, key by key, each with the name of its side.

    Args:
        width: the number of key columns, which come first.
    """
    went, came = Counter(before) - Counter(after), Counter(after) - Counter(before)
    keys = dict.fromkeys(row[:width] for row in (*before, *after))
    for key in keys:
        for side, name in ((went, "before"), (came, "after")):
            rows = [row for row in side.elements() if row[:width] == key]
            yield from ((name, *row) for row in rows[:_ROWS])


def _name(column: Column, layout: Layout) -> str:
    """Return the name of a column; of a source key's as the feeder has it."""
    if column not in layout.sources:
        return column.name
    return f"from {column.name.removeprefix(SOURCE_PREFIX)}"
