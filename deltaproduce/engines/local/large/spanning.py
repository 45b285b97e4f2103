"""Keys with too many rows for one range: each range compares some of their pairs.

A comparison of some pairs is right about rows and pairs, and about a key all of whose pairs are
among them. This module corrects it for a key that continues in other ranges: the positions of its
rows in the key, whether its values differ, and on which sides it has rows. The invariant: the rows
are those of one comparison, each side of a key in its order; but for a key in several ranges, the
rows before of one range may come after rows after of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Marks, factorize, key_ends
from deltaproduce.engines.local.large.parting import slices, spill_of
from deltaproduce.engines.local.large.spilling import Spill
from deltaproduce.engines.marks import (
    AFTER,
    BEFORE,
    IS_KEY,
    KEY_AFTER,
    KEY_BEFORE,
    KEY_DIFFERS,
    SIDE,
)
from deltaproduce.model.layouts import Layout
from deltaproduce.model.limits import Limits
from deltaproduce.types.columns import POSITION


@dataclass(frozen=True, slots=True)
class _Piece:
    """The rows of one key in one range.

    Attributes:
        number: the range's number.
        start: the position of the first of them in the range.
        sides: the number of rows before the step, and after it.
    """

    number: int
    start: int
    sides: tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Fix:
    """The correction of the rows of one piece.

    Attributes:
        earlier: the key's rows on each side in earlier ranges.
        total: the key's rows on each side in all ranges.
        differs: whether the key's values differ.
    """

    piece: _Piece
    earlier: tuple[int, int]
    total: tuple[int, int]
    differs: bool


def joined(
    ranges: Iterable[pa.Table], layout: Layout, limits: Limits, *, all_differ: bool
) -> Iterator[pa.Table]:
    """Yield the comparisons of ranges of pairs, in their order, as one of whole keys.

    Args:
        ranges: each sorted by key.
        all_differ: no row before can be equal to one after.
    """
    spill, places = spill_of(limits), list[range]()
    chains, last = list[list[_Piece]](), None
    names = [c.name for c in layout.key]
    for number, rows in enumerate(ranges):
        places.append(spill.add(rows))
        if not len(rows):
            continue
        keys, ends = rows.select(names), [0, *key_ends(rows.select(names)).tolist()]
        goes_on = last is not None and len(key_ends(pa.concat_tables([last, keys.slice(0, 1)]))) < 2
        first = _piece(rows, number, 0, ends[1])
        chains = [*chains[:-1], [*chains[-1], first]] if goes_on else [*chains, [first]]
        if len(ends) > 2:
            chains.append([_piece(rows, number, ends[-2], ends[-1])])
        last = keys.slice(len(keys) - 1)
    fixes: dict[int, list[_Fix]] = {}
    for chain in chains:
        for fix in _fixes(chain, spill, places, layout, limits) if len(chain) > 1 else ():
            fixes.setdefault(fix.piece.number, []).append(fix)
    for number, place in enumerate(places):
        rows = spill.of(place)
        for fix in fixes.get(number, ()):
            rows = _put_right(rows, fix, all_differ=all_differ)
        yield rows


def _piece(rows: pa.Table, number: int, start: int, end: int) -> _Piece:
    after = int((np.asarray(rows.column(SIDE).slice(start, end - start)) == AFTER).sum())
    return _Piece(number, start, (end - start - after, after))


def _fixes(
    chain: Sequence[_Piece], spill: Spill, places: Sequence[range], layout: Layout, limits: Limits
) -> Iterator[_Fix]:
    """Yield the corrections of the pieces of one key."""
    before, after = (sum(piece.sides[side] for piece in chain) for side in (BEFORE, AFTER))
    differs = before != after or not _are_equal(
        _values(BEFORE, chain, spill, places, layout, limits),
        _values(AFTER, chain, spill, places, layout, limits),
        limits,
    )
    earlier = (0, 0)
    for piece in chain:
        yield _Fix(piece, earlier, (before, after), differs)
        earlier = (earlier[0] + piece.sides[0], earlier[1] + piece.sides[1])


def _values(
    side: int,
    chain: Sequence[_Piece],
    spill: Spill,
    places: Sequence[range],
    layout: Layout,
    limits: Limits,
) -> pa.Table:
    """Return the values of a key on one side, in order."""
    spilled = spill_of(limits)
    for piece in chain:
        rows = spill.of(places[piece.number]).slice(piece.start, sum(piece.sides))
        mine: Marks = np.asarray(rows.column(SIDE)) == side
        spilled.add(rows.select([c.name for c in layout.value]).filter(pa.array(mine)))
    return spilled.table()


def _are_equal(one: pa.Table, other: pa.Table, limits: Limits) -> bool:
    """Return whether two tables of equal length have the same rows, in the same order."""
    start = 0
    for part in slices(one, limits):
        both = pa.concat_tables([part, other.slice(start, len(part))])
        numbers = factorize(both.columns)
        if (numbers[: len(part)] != numbers[len(part) :]).any():
            return False
        start += len(part)
    return True


def _put_right(rows: pa.Table, fix: _Fix, *, all_differ: bool) -> pa.Table:
    span = slice(fix.piece.start, fix.piece.start + sum(fix.piece.sides))
    is_after: Marks = np.asarray(rows.column(SIDE))[span] == AFTER
    position = np.asarray(rows.column(POSITION)).copy()
    position[span] += np.where(is_after, fix.earlier[AFTER], fix.earlier[BEFORE])
    marks = {
        KEY_DIFFERS: fix.differs or all_differ,
        KEY_BEFORE: fix.total[BEFORE] > 0,
        KEY_AFTER: fix.total[AFTER] > 0,
        IS_KEY: (position[span] == 0) & (is_after | (fix.total[AFTER] == 0)),
    }
    rows = _with(rows, POSITION, position)
    for name, of_span in marks.items():
        values = np.asarray(rows.column(name)).copy()
        values[span] = of_span
        rows = _with(rows, name, values)
    return rows


def _with(rows: pa.Table, name: str, values: np.ndarray) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), name, pa.array(values))
