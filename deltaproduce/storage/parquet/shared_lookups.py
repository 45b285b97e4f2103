"""Rows of stages that are looked up in a version, kept for all stages that ask for them.

Several views that follow the same change ask a feeder for the rows of the same keys, each for the
columns that it needs. The invariant: what is returned is what would be read, and rows of a key are
read once while they are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import (
    Numbers,
    ascending_numbers,
    distinct,
    isin_rows,
    places_within,
    plain_numbers,
)
from deltaproduce.model.limits.machine import memory_bytes

Reads: TypeAlias = Callable[[Sequence[str], pa.Table, int], bool]
"""Returns whether nearly all rows are read to find keys, and some columns have at most some bytes.
"""
Read: TypeAlias = Callable[[Sequence[str], pa.Table | None], pa.Table]
"""Returns the rows that have one of some keys, or all rows, in some columns."""

_MEMORY_SHARE: Final = 16
"""Of the memory, one part in so many holds what a version looks up, of all stages."""


_OfStage: TypeAlias = "dict[frozenset[str], _Kept]"
"""The columns by which rows of a stage were looked up -> these rows."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A look-up that a stage may make.

    Attributes:
        feeder: the name of the stage that it reads.
        by: the columns whose values it knows; none for all rows.
        columns: the columns that it needs.
    """

    feeder: str
    by: frozenset[str]
    columns: frozenset[str]


@dataclass(slots=True)
class _Kept:
    """The rows of some keys; of all keys if they are None.

    Attributes:
        size: the bytes of the rows, which Arrow adds up buffer by buffer each time it is asked.
        batches: the rows in the pieces that they came in.
        sorted: columns -> their values as numbers if rows are in order of them; None if not.
    """

    keys: pa.Table | None
    rows: pa.Table
    size: int = field(init=False)
    batches: list[pa.RecordBatch] = field(init=False)
    sorted: dict[str, Numbers | None] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.size, self.batches = self.rows.nbytes, self.rows.to_batches()

    def of(self, keys: pa.Table | None, columns: Sequence[str]) -> pa.Table:
        """Return the rows that have one of some keys in some columns; all if keys are None."""
        if keys is None:
            return self.rows.select(list(columns))
        names, places = keys.column_names, self._near(keys)
        near = self.rows.select(names) if places is None else self._taken(places, names)
        marks = isin_rows(near, keys)
        return self._taken(np.flatnonzero(marks) if places is None else places[marks], columns)

    def _near(self, keys: pa.Table) -> Numbers | None:
        """Return where rows are with the values of keys in a column that is in order, if one is."""
        for name in keys.column_names:
            if name not in self.sorted:
                self.sorted[name] = ascending_numbers(self.rows.column(name))
            ours, values = self.sorted[name], keys.column(name)
            if ours is None or values.type != self.rows.column(name).type:
                continue
            theirs = plain_numbers(values.combine_chunks())
            if theirs is None:
                continue
            sought = np.unique(theirs)
            begins, ends = ours.searchsorted(sought), ours.searchsorted(sought, "right")
            return places_within(begins, ends - begins)
        return None

    def _taken(self, places: Numbers, columns: Sequence[str]) -> pa.Table:
        """Return some rows, by their positions in ascending order, without joining chunks."""
        names, begin, first = list(columns), 0, 0
        parts = [self.rows.slice(0, 0).select(names)]
        for batch in self.batches:
            end = int(places.searchsorted(first + len(batch)))
            if end > begin:
                taken = batch.select(names).take(pa.array(places[begin:end] - first))
                parts.append(pa.Table.from_batches([taken]))
            begin, first = end, first + len(batch)
        return pa.concat_tables(parts)


_ALL_ROWS: Final = frozenset[str]()
"""Rows that were read whole were looked up by no column."""


@dataclass(slots=True)
class Room:
    """The memory for what versions look up, of all stages.

    What a version has looked up serves this version. Rows that it has read whole stay for later
    ones, as long as their stage stays as it is and nothing that a version looks up needs the room.

    Attributes:
        most: the most bytes; a share of the machine's if None.
        used: stages that the version may look up rows of -> where their rows are, and what is kept
            of them.
        idle: the same of other stages, those that were used last at the end.
    """

    most: int | None = None
    used: dict[str, tuple[object, _OfStage]] = field(default_factory=dict)
    idle: dict[str, tuple[object, _OfStage]] = field(default_factory=dict)

    def begin(
        self, wanted: Iterable[Wanted], place_of: Callable[[str], object]
    ) -> dict[str, SharedLookups]:
        """Return what is known at the begin of a version of each stage that is looked up.

        Args:
            wanted: the look-ups that are expected.
            place_of: returns where the rows of a stage are, equal only for the same rows; None if
                it has none.
        """
        by_stage = dict[str, list[Wanted]]()
        for one in wanted:
            by_stage.setdefault(one.feeder, []).append(one)
        self.idle = {
            name: (place, {_ALL_ROWS: kept[_ALL_ROWS]})
            for name, (place, kept) in (*self.idle.items(), *self.used.items())
            if _ALL_ROWS in kept and place is not None and place == place_of(name)
        }
        self.used = {name: self.idle.pop(name, (place_of(name), {})) for name in by_stage}
        return {
            name: SharedLookups(_columns_by_key(of_stage), self, self.used[name][1])
            for name, of_stage in by_stage.items()
        }

    def left(self, replaced: _Kept | None = None) -> int:
        """Return how many bytes are left for the version, which rows of idle stages make room for.

        Args:
            replaced: something that is kept, and that would go.
        """
        every = (one for _, kept in self.used.values() for one in kept.values())
        return self._most - _size(one for one in every if one is not replaced)

    def fit(self) -> None:
        """Drop rows of idle stages for which there is no room, those used least recently first."""
        left = self.left()
        for name, (_, kept) in reversed([*self.idle.items()]):
            left -= _size(kept.values())
            if left < 0:
                del self.idle[name]

    @property
    def _most(self) -> int:
        return memory_bytes() // _MEMORY_SHARE if self.most is None else self.most


@dataclass(slots=True)
class SharedLookups:
    """What has been looked up of a stage, as it was before a version.

    Attributes:
        columns: the columns by which rows are looked up -> those that some stage needs of them.
        room: for the rows that are kept, of this stage and of others.
        kept: the columns by which rows were looked up -> these rows.
    """

    columns: Mapping[frozenset[str], frozenset[str]]
    room: Room
    kept: _OfStage

    def leading(self, key: Sequence[str]) -> int:
        """Return by how many first columns of a key rows are looked up, at least; 0 if by none.

        Args:
            key: the columns that the stage is sorted by.
        """
        counts = (n for n in range(1, len(key) + 1) if frozenset(key[:n]) in self.columns)
        return next(counts, 0)

    def keep(self, keys: pa.Table, first: int, rows: pa.Table) -> None:
        """Keep rows that were read for another reason.

        Args:
            keys: some keys of the stage.
            first: how many of their first columns the rows were read by.
            rows: all rows that have one of them in these columns, and all columns of the stage.
        """
        if rows.nbytes > self.room.left():
            return
        names = keys.column_names
        for by in (names[:count] for count in range(first, len(names) + 1)):
            if frozenset(by) in self.columns:
                known = pa.concat_tables([keys.select(by), rows.select(by)])
                self.kept[frozenset(by)] = _Kept(distinct(known), rows)

    def rows(
        self,
        columns: Sequence[str],
        keys: pa.Table | None,
        read: Read,
        reads_all: Reads | None = None,
    ) -> pa.Table:
        """Return the rows that have one of some keys, in some columns.

        Args:
            keys: distinct rows of some of the columns; all rows are wanted if None.
            read: reads rows that are not kept.
            reads_all: if it says so, all rows are read and kept, for further keys.
        """
        by = _ALL_ROWS if keys is None else frozenset(keys.column_names)
        needed = by | {*columns}
        whole, held = self.kept.get(_ALL_ROWS), self.kept.get(by)
        if whole is not None and needed <= {*whole.rows.column_names}:
            return whole.of(keys, columns)
        if held is None or not needed <= {*held.rows.column_names}:
            wanted = needed.union(*self.columns.values())
            if keys is not None and reads_all and reads_all([*wanted], keys, self.room.left()):
                whole = _Kept(None, read(sorted(wanted), None))
                self._hold(_ALL_ROWS, whole)
                return whole.of(keys, columns)
            every = [*dict.fromkeys([*columns, *sorted(needed | self.columns.get(by, needed))])]
            held = _Kept(keys, read(every, keys))
        elif keys is not None and held.keys is not None:
            held = _with(held, keys, read)
        self._hold(by, held)
        if keys is None or held.keys is keys or keys.equals(held.keys):
            return held.rows.select(list(columns))
        return held.of(keys, columns)

    def _hold(self, by: frozenset[str], held: _Kept) -> None:
        """Keep rows in place of those that were kept of a sort of look-up, if there is room."""
        if held.size <= self.room.left(replaced=self.kept.get(by)):
            self.kept[by] = held
            self.room.fit()


def unshared() -> SharedLookups:
    """Return no look-ups, for a stage of which only one other asks for rows."""
    return Room().begin([Wanted("", _ALL_ROWS, _ALL_ROWS)], lambda _: None)[""]


def _columns_by_key(wanted: Iterable[Wanted]) -> dict[frozenset[str], frozenset[str]]:
    """Return the columns by which rows are looked up, and those that are needed of them."""
    columns = dict[frozenset[str], frozenset[str]]()
    for one in wanted:
        columns[one.by] = columns.get(one.by, frozenset()) | one.columns
    return columns


def _size(every: Iterable[_Kept]) -> int:
    """Return the bytes of what is kept; the rows of one look-up may be kept for several."""
    return sum({id(one.rows): one.size for one in every}.values())


def _with(held: _Kept, keys: pa.Table, read: Read) -> _Kept:
    """Return what is kept, with the rows of further keys."""
    assert held.keys is not None
    known = held.keys.select(keys.column_names)
    if not known.schema.equals(keys.schema):
        return _Kept(keys, read(held.rows.column_names, keys))
    missing = keys.filter(pa.array(~isin_rows(keys, known)))
    if not len(missing):
        return held
    rows = read(held.rows.column_names, missing)
    return _Kept(pa.concat_tables([known, missing]), pa.concat_tables([held.rows, rows]))
