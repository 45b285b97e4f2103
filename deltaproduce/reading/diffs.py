"""Diffs: the keys of each stage that differ between two versions, with a sample of their rows.

The updates between the versions say which keys may differ, and only those keys are read. All rows
are read if the updates are not complete: they began again, or a source has forgotten rows. The
invariant: a key differs if its ordered values do (S8), whatever happened to it in between.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, Literal

import pyarrow as pa

from deltaproduce.engines.comparisons import Comparison
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import empty, in_order
from deltaproduce.engines.marks import (
    AFTER,
    BEFORE,
    CHANGED_KEYS,
    KEY_AFTER,
    KEY_BEFORE,
    KEY_DIFFERS,
    SIDE,
    Which,
)
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.columns import cols, order
from deltaproduce.engines.spark.frames import fetched
from deltaproduce.errors import InvalidArgumentError
from deltaproduce.model import arguments
from deltaproduce.model.fingerprints import Altered
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import CONTENT, RUNS, Layout
from deltaproduce.reading.opened import Opened
from deltaproduce.shown.table import Cell, Table
from deltaproduce.shown.tabular import Tabular, one_line
from deltaproduce.storage.figures import NO_TABLES, StageColumns
from deltaproduce.storage.stored import Stored
from deltaproduce.storage.versions import Version, find, span, stage_at, unbroken
from deltaproduce.types.columns import ORDINAL, POSITION, POSITION_COLUMN, Column
from deltaproduce.types.excerpts import shown
from deltaproduce.types.json.plain import plain
from deltaproduce.types.python_values import python_rows

Difference = Literal["added", "removed", "changed"]
"""The kind of a difference.

A key has rows in the second version only (``added``), in the first only (``removed``), or other
rows (``changed``).
"""

_WHICH: Final[Mapping[Difference, Which]] = {
    "added": {**CHANGED_KEYS, KEY_BEFORE: False},
    "removed": {**CHANGED_KEYS, KEY_AFTER: False},
    "changed": {**CHANGED_KEYS, KEY_BEFORE: True, KEY_AFTER: True},
}
_SIDE: Final = Column(SIDE, POSITION_COLUMN.data_type)
_MOST_KEYS: Final = 1_000


@dataclass(frozen=True, slots=True)
class KeyDiff:
    """One key that differs.

    Attributes:
        key: its columns.
        before: its values in the first version, one mapping of columns per row, in order.
        after: its values in the second version.
    """

    difference: Difference
    key: Mapping[str, object]
    before: tuple[Mapping[str, object], ...]
    after: tuple[Mapping[str, object], ...]

    def __repr__(self) -> str:
        return one_line(self, self.difference, dict(self.key))

    def as_dict(self) -> dict[str, Any]:
        """The key as JSON values; see `plain`."""
        return {
            "difference": self.difference,
            "key": plain(self.key),
            "before": plain(self.before),
            "after": plain(self.after),
        }


@dataclass(frozen=True, slots=True)
class StageDiff:
    """How a stage differs.

    Attributes:
        added: the number of keys that only the second version has.
        removed: the number of keys that only the first version has.
        changed: the number of keys with other values.
        rows_before: the number of rows in the first version.
        rows_after: the number of rows in the second version.
        columns: the columns whose definition differs; then every common key counts as changed.
        sample: some of the keys, the first of each sort; none if the columns differ.
    """

    added: int = 0
    removed: int = 0
    changed: int = 0
    rows_before: int = 0
    rows_after: int = 0
    columns: tuple[Altered, ...] = ()
    sample: tuple[KeyDiff, ...] = ()

    def __repr__(self) -> str:
        counts = {name: getattr(self, name) for name in _WHICH}
        return one_line(self, **counts)

    @property
    def differs(self) -> bool:
        """Whether any key differs."""
        return bool(self.added or self.removed or self.changed)

    def as_dict(self) -> dict[str, Any]:
        """The difference as JSON values."""
        return {
            **{name: getattr(self, name) for name in (*_WHICH, "rows_before", "rows_after")},
            "columns": [altered.as_dict() for altered in self.columns],
            "sample": [one.as_dict() for one in self.sample],
        }


@dataclass(frozen=True, slots=True)
class Diff(Tabular):
    """How the stages of two versions differ.

    Attributes:
        before: the number of the first version.
        after: the number of the second version, which may be older.
        stages: stage name -> its difference, for all stages of the pipeline, feeders first.
    """

    before: int
    after: int
    stages: Mapping[str, StageDiff]

    def __repr__(self) -> str:
        differing = [name for name, difference in self.stages.items() if difference.differs]
        return one_line(self, self.before, self.after, differing=differing)

    def as_dict(self) -> dict[str, Any]:
        """The difference as JSON values."""
        stages = {name: difference.as_dict() for name, difference in self.stages.items()}
        return {"before": self.before, "after": self.after, "stages": stages}

    def as_tables(self) -> tuple[Table, ...]:
        """The counts of all stages, and a table of keys for each that has some to show."""
        names = ("stage", "keys added", "removed", "changed", "rows before", "rows after")
        counts = (
            (name, one.added, one.removed, one.changed, one.rows_before, one.rows_after)
            for name, one in self.stages.items()
        )
        notes = [
            f"{n}: {x.sentence}"
            for n, difference in self.stages.items()
            for x in difference.columns
        ]
        title = f"version {self.before} -> version {self.after}"
        first = Table(title, names, tuple(counts), tuple(notes))
        samples = (
            Table(
                f"{name}: some keys",
                ("", "key", "before", "after"),
                _sample_rows(difference.sample),
            )
            for name, difference in self.stages.items()
            if difference.sample
        )
        return (first, *samples)


def diff(store: Opened, before: int, after: int | None, sample: int) -> Diff:
    """See `Store.diff`."""
    first = arguments.integer(before, "before")
    last = None if after is None else arguments.integer(after, "after")
    most = arguments.integer(sample, "sample", least=0)
    if most > _MOST_KEYS:
        message = (
            f"sample is {shown(sample)}; it is at most {_MOST_KEYS:,}: Store.changes has all rows"
        )
        raise InvalidArgumentError(message, argument="sample")
    versions = store.log.versions()
    sides = find(versions, first), store.log.last_read if last is None else find(versions, last)
    between = span(versions, *sorted(side.number for side in sides))
    names = [stage.name for stage in store.defined]
    for side in sides:
        store.check_there(side, names, CONTENT, RUNS)
    with store.noticing():
        stages = (store.graph.stage(name) for name in names)
        differences = {
            stage.name: _Sides(store, stage, *sides, between).diff(most) for stage in stages
        }
    return Diff(sides[0].number, sides[1].number, differences)


@dataclass(frozen=True)
class _Sides:
    """One stage in two versions.

    Attributes:
        between: all versions from the older of the two to the newer, oldest first.
    """

    store: Opened
    stage: Stage
    one: Version
    other: Version
    between: Sequence[Version]

    def diff(self, sample: int) -> StageDiff:
        """Return how the stage differs, with at most ``sample`` keys of each kind."""
        one, other = (v.stages.get(self.stage.name, NO_TABLES) for v in (self.one, self.other))
        difference = StageDiff(rows_before=one.rows, rows_after=other.rows)
        both = bool(one.columns.key and other.columns.key)
        if both and one.columns.own != other.columns.own:
            return self._by_keys(replace(difference, columns=_altered(one.columns, other.columns)))
        keys = self._keys
        if keys is not None and keys.empty:
            return difference
        comparison = self._comparison(keys)
        if not comparison.counts.keys_changed:
            return difference
        engine = self.store.engines.of(comparison.rows)
        counted_keys = {
            sort: engine.computed(comparison.select(comparison.layout.key, which))
            for sort, which in _WHICH.items()
        }
        return replace(
            difference,
            added=counted_keys["added"][1],
            removed=counted_keys["removed"][1],
            changed=counted_keys["changed"][1],
            sample=tuple(
                key
                for sort, (rows, _) in counted_keys.items()
                for key in (self._sample(sort, comparison, rows, sample) if sample else ())
            ),
        )

    @cached_property
    def _stages(self) -> tuple[Stage, Stage]:
        """The stage with its columns in each version; where it had no rows, those of the other."""
        one, other = (stage_at(version, self.stage) for version in (self.one, self.other))
        name = self.stage.name
        if name not in self.one.stages or not self.one.stages[name].columns.key:
            return other, other
        if name not in self.other.stages or not self.other.stages[name].columns.key:
            return one, one
        return one, other

    @property
    def _contents(self) -> tuple[Stored | None, Stored | None]:
        reader = self.store.reader
        return reader.content(self.one, self.stage), reader.content(self.other, self.stage)

    @property
    def _keys(self) -> Selection | None:
        """The keys that may differ; None if the updates are not complete."""
        name = self.stage.name
        later = (version.stages.get(name, NO_TABLES) for version in self.between[1:])
        if not unbroken(self.between, name) or any(figures.rows_expired for figures in later):
            return None
        newer = self._stages[self.one.number < self.other.number]
        return self.store.reader.changed_keys(self.between, newer)

    def _comparison(self, keys: Selection | None) -> Comparison:
        """Compare the values of some keys, or of all; the source keys of rows do not count."""
        layout = Layout(self._stages[1].schema, ())
        were, are = (
            self._rows(stage, stored, keys, layout)
            for stage, stored in zip(self._stages, self._contents, strict=True)
        )
        return Comparison.of_all(were, are, layout, self.store.engines, complete=keys is None)

    def _rows(
        self, stage: Stage, stored: Stored | None, keys: Selection | None, layout: Layout
    ) -> Rows:
        """Return the rows of a side, numbered within their keys."""
        if stored is None:
            return empty(layout.content)
        rows = stored.rows() if keys is None else keys.exactly(stored.of(keys))
        engine = self.store.engines.of(rows)
        names = [POSITION if c.name == ORDINAL else c.name for c in layout.content]
        conformed: Rows = engine.filled(
            engine.with_positions(rows, Layout.of(stage)), layout.content, names
        )
        return conformed

    def _by_keys(self, difference: StageDiff) -> StageDiff:
        """Compare only the keys, if rows cannot be compared; other key columns share no key."""
        keys = [stage.schema.key.columns for stage in self._stages]
        were, are = map(self._selected, keys, self._contents)
        removed, added = self._count(were), self._count(are)
        if [(c.name, c.data_type) for c in keys[0]] != [(c.name, c.data_type) for c in keys[1]]:
            return replace(difference, added=added, removed=removed)
        new = self._count(are.anti_join(were))
        gone = self._count(were.anti_join(are))
        return replace(difference, added=new, removed=gone, changed=added - new)

    def _selected(self, key: tuple[Column, ...], stored: Stored | None) -> Selection:
        """Return all keys of a side."""
        engines = self.store.engines
        rows: Rows = empty(key) if stored is None else stored.rows()
        return Selection(key, engines.of(rows).distinct(rows, key), engines)

    def _count(self, keys: Selection) -> int:
        count: int = self.store.engines.of(keys.keys).computed(keys.keys)[1]
        return count

    def _sample(
        self, sort: Difference, comparison: Comparison, keys: Rows, most: int
    ) -> list[KeyDiff]:
        """Return the first keys of a kind, with their rows."""
        layout, engines = comparison.layout, self.store.engines
        first = _first(keys, layout.key, most)
        if not len(first):
            return []
        value = tuple(column for column in layout.value if not column.is_hidden)
        columns = (*layout.key, _SIDE, POSITION_COLUMN, *value)
        selection = Selection(layout.key, first, engines)
        rows = selection.semi_join(comparison.select(columns, {KEY_DIFFERS: True}), columns)
        table = in_order(engines.table(rows, columns), (*layout.key, _SIDE, POSITION_COLUMN))
        shown_key = [column.name for column in layout.key if not column.is_hidden]

        def key_of(row: Mapping[str, object]) -> dict[str, object]:
            return {name: row[name] for name in shown_key}

        sides: dict[tuple[str, int], list[Mapping[str, object]]] = defaultdict(list)
        for row in python_rows(table):
            values = {column.name: row[column.name] for column in value}
            sides[repr(key_of(row)), row[SIDE]].append(values)
        return [
            KeyDiff(sort, key, *(tuple(sides[repr(key), side]) for side in (BEFORE, AFTER)))
            for key in map(key_of, python_rows(first))
        ]


def _first(keys: Rows, columns: Sequence[Column], most: int) -> pa.Table:
    """Return the first keys, on the driver."""
    if isinstance(keys, pa.Table):
        return in_order(keys.select([c.name for c in columns]), columns).slice(0, most)
    return fetched(keys.select(*cols(columns)).orderBy(*order(columns)).limit(most), columns)


def _altered(before: StageColumns, after: StageColumns) -> tuple[Altered, ...]:
    """Return the columns that are defined differently."""
    parts = (
        Altered("key columns", before.key, after.key),
        Altered("value columns", before.value, after.value),
    )
    return tuple(part for part in parts if part.before != part.after)


def _sample_rows(sample: Sequence[KeyDiff]) -> tuple[tuple[Cell, ...], ...]:
    """Return a sample as rows of a table."""
    return tuple(
        (one.difference, values_line(one.key), *map(_side, differing(one.before, one.after)))
        for one in sample
    )


def differing(
    before: Sequence[Mapping[str, object]], after: Sequence[Mapping[str, object]]
) -> tuple[list[Mapping[str, object]], list[Mapping[str, object]]]:
    """Return the rows of a key that only one side has, in order.

    If the sides have the same rows in another order, the rows at the places that differ.
    """
    were, are = Counter(map(repr, before)), Counter(map(repr, after))
    if were == are:
        both = [pair for pair in zip(before, after, strict=True) if repr(pair[0]) != repr(pair[1])]
        return [one for one, _ in both], [other for _, other in both]
    return _taken(before, were - are), _taken(after, are - were)


def _taken(
    rows: Sequence[Mapping[str, object]], wanted: Counter[str]
) -> list[Mapping[str, object]]:
    """Return so many of each row as wanted: the last ones, in order."""
    taken_rows = list[Mapping[str, object]]()
    for row in reversed(rows):
        if wanted[repr(row)]:
            wanted[repr(row)] -= 1
            taken_rows.append(row)
    return taken_rows[::-1]


def _side(rows: Sequence[Mapping[str, object]]) -> str:
    more = f"; and {len(rows) - _ROWS:,} more rows" if len(rows) > _ROWS else ""
    return "; ".join(map(values_line, rows[:_ROWS])) + more


_ROWS: Final = 3
"""The most rows shown of a key in a sample: of those that differ."""


def values_line(row: Mapping[str, object]) -> str:
    """Return values by column in a line: id=1, day=2026-01-31."""
    return ", ".join(f"{name}={_value(value)}" for name, value in row.items())


def _value(value: object) -> str:
    """Return a value without the name of its class: 7.00, 2026-01-31, 'text'."""
    plain = isinstance(value, Decimal | date)
    return str(value) if plain else shown(value, limit=40)
