"""Pairs: the rows of two tables that belong together.

The invariant: conditions beside the equalities are computed for pairs that fulfil these only, in
the order written, and in parts, so that memory does not have to hold all pairs at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.local.arrays import Marks, Numbers, factorize, places_within, sorting
from deltaproduce.engines.local.kernels.shared_sides import SortedSide
from deltaproduce.stages.sql.algebra.scalars import Equality, Field, Scalar
from deltaproduce.stages.sql.operators.computing import Computing, is_null_safe
from deltaproduce.types.pandas_on_demand import in_numpy

Ranges: TypeAlias = tuple[Numbers, Numbers, Numbers, Numbers]
"""Rows of one side, and for each where its range begins in an order of the other side's rows, and
how many are in it; then that order."""

_PART: Final = 1 << 20
"""About how many pairs are looked at at once."""


@dataclass(frozen=True, slots=True)
class Side:
    """The rows of one input, with its fields."""

    rows: pa.Table
    fields: tuple[Field, ...]

    def filter(self, marks: Marks) -> Side:
        """Return some of the rows."""
        return Side(self.rows.filter(pa.array(marks)), self.fields)


def matching(
    left: Side,
    right: Side,
    equal: Sequence[Equality],
    rest: Sequence[Scalar],
    computing: Computing,
) -> tuple[Numbers, Numbers]:
    """Return the positions of the rows of all pairs, the left ones in ascending order.

    Raises:
        QueryError: an expression fails for a row.
    """
    pairs = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    for ones, others in _candidates(left, right, equal, computing):
        pairs.append(_fulfilling(ones, others, left, right, rest, computing))
    lefts, rights = (np.concatenate(positions) for positions in zip(*pairs, strict=True))
    if left.rows in computing.shared:  # they are in the order of the right rows
        order = sorting([lefts])
        lefts, rights = lefts[order], rights[order]
    return lefts, rights


def marked(positions: Numbers, size: int) -> Marks:
    """Return which of ``size`` rows are at the positions."""
    marks = np.zeros(size, bool)
    marks[positions] = True
    return marks


def rows_at(rows: pa.Table, positions: Numbers, *, nulls: int = 0, before: int = 0) -> pa.Table:
    """Return rows by position, with rows of nulls before or after them."""
    places = pa.array(positions)
    padding = [pa.nulls(before, pa.int64()), places, pa.nulls(nulls, pa.int64())]
    return rows.combine_chunks().take(pa.concat_arrays(padding))


def beside(left: pa.Table, right: pa.Table) -> pa.Table:
    """Return two tables of equally many rows as one."""
    names = [*left.column_names, *right.column_names]
    return pa.Table.from_arrays([*left.columns, *right.columns], names=names)


def _candidates(
    left: Side, right: Side, equal: Sequence[Equality], computing: Computing
) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield pairs that fulfil the equalities, part by part, the left ones in ascending order.

    If the left side is joined with several right ones, the right ones are.
    """
    if not equal:
        ones, order = np.arange(len(left.rows)), np.arange(len(right.rows))
        counts = np.full(len(ones), len(order))
        yield from _in_parts(ones, np.zeros(len(ones), np.int64), counts, order)
    elif left.rows in computing.shared:
        for ones, others in _in_parts(*_ranges(1, (left, right), equal, computing)):
            yield others, ones
    else:
        yield from _in_parts(*_ranges(0, (left, right), equal, computing))


def _in_parts(
    ones: Numbers, starts: Numbers, counts: Numbers, order: Numbers
) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield pairs part by part, given for each row of one side the range of the other's."""
    ends = counts.cumsum()
    begin = 0
    while begin < len(ones):
        done = ends[begin - 1] if begin else 0
        end = max(int(ends.searchsorted(done + _PART, "right")), begin + 1)
        of_block = counts[begin:end]
        places = places_within(starts[begin:end], of_block)
        yield np.repeat(ones[begin:end], of_block), order[places]
        begin = end


def _ranges(
    mine: int, sides: tuple[Side, Side], equal: Sequence[Equality], computing: Computing
) -> Ranges:
    """Return the rows of one side that have a key, and for each the range of the other's rows.

    Args:
        mine: which side, 0 for the left one.
        sides: the left and the right one.
    """
    shared = _ranges_of_shared(mine, sides, equal, computing)
    if shared is not None:
        return shared
    columns = _columns(sides, equal, computing)
    own, others = columns[mine], columns[1 - mine]
    rows, other_rows = (_with_keys(sides[n].rows, columns[n], equal) for n in (mine, 1 - mine))
    together = (
        pa.chunked_array([one.take(pa.array(rows)), other.take(pa.array(other_rows))])
        for one, other in zip(own, others, strict=True)
    )
    codes = factorize(together)
    ours, theirs = codes[: len(rows)], codes[len(rows) :]
    sizes = np.bincount(theirs, minlength=int(codes.max(initial=-1)) + 1)
    starts = sizes.cumsum() - sizes
    return rows, starts[ours], sizes[ours], other_rows[sorting([theirs])]


def _ranges_of_shared(
    mine: int, sides: tuple[Side, Side], equal: Sequence[Equality], computing: Computing
) -> Ranges | None:
    """Return the result of `_ranges` if the other side is shared, and sorted by its key."""
    other = sides[1 - mine].rows
    if other not in computing.shared:
        return None

    def values(which: int) -> tuple[list[pa.Array], Numbers]:
        alone = [
            s if n == which else Side(s.rows.slice(0, 0), s.fields) for n, s in enumerate(sides)
        ]
        columns = _columns((alone[0], alone[1]), equal, computing)[which]
        rows = _with_keys(sides[which].rows, columns, equal)
        return [column.take(pa.array(rows)) for column in columns], rows

    known = computing.shared.sorted(other, (mine, *equal), lambda: SortedSide.of(*values(1 - mine)))
    if known is None:
        return None
    columns, rows = values(mine)
    ranges = known.ranges(columns)
    return None if ranges is None else (rows, *ranges, known.rows)


def _columns(
    sides: tuple[Side, Side], equal: Sequence[Equality], computing: Computing
) -> tuple[list[pa.Array], list[pa.Array]]:
    """Return the values that are compared of the left and of the right side."""
    left, right = ((side.rows, side.fields) for side in sides)
    pairs = [computing.sides(one, left, right) for one in equal]
    return [one for one, _ in pairs], [other for _, other in pairs]


def _with_keys(rows: pa.Table, columns: Sequence[pa.Array], equal: Sequence[Equality]) -> Numbers:
    """Return the positions of the rows that may equal others: nulls do only where they are safe."""
    usable = np.ones(len(rows), bool)
    for one, values in zip(equal, columns, strict=True):
        if not is_null_safe(one):
            usable &= in_numpy(pc.is_valid(values), bool)
    return np.flatnonzero(usable)


def _fulfilling(
    ones: Numbers,
    others: Numbers,
    left: Side,
    right: Side,
    rest: Sequence[Scalar],
    computing: Computing,
) -> tuple[Numbers, Numbers]:
    """Return the pairs that fulfil the other conditions."""
    for condition in rest:
        read = set(condition.fields)
        sides = [
            rows_at(side.rows.select([f.id for f in side.fields if f.id in read]), places)
            for side, places in ((left, ones), (right, others))
        ]
        pairs = beside(*sides)
        if not pairs.num_columns:  # a condition without fields
            pairs = pa.table({"row": pa.nulls(len(ones), pa.bool_())})
        marks = computing.holds(condition, pairs, (*left.fields, *right.fields))
        ones, others = ones[marks], others[marks]
    return ones, others
