"""Pairs: the rows of two tables that belong together.

The invariant: conditions beside the equalities are computed for pairs that fulfil these only, in
the order written, and in parts, so that memory does not have to hold all pairs at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.local.arrays import Marks, Numbers, factorize, sorting
from deltaproduce.stages.sql.algebra.scalars import Equality, Field, Scalar
from deltaproduce.stages.sql.operators.computing import Computing, is_null_safe
from deltaproduce.types.pandas_on_demand import in_numpy

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
    return np.concatenate([one for one, _ in pairs]), np.concatenate([two for _, two in pairs])


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
    """Yield pairs that fulfil the equalities, part by part."""
    if not equal:
        ones = np.arange(len(left.rows))
        starts, counts = np.zeros(len(ones), np.int64), np.full(len(ones), len(right.rows))
        order = np.arange(len(right.rows))
    else:
        ones, starts, counts, order = _ranges(left, right, equal, computing)
    ends = counts.cumsum()
    begin = 0
    while begin < len(ones):
        done = ends[begin - 1] if begin else 0
        end = max(int(ends.searchsorted(done + _PART, "right")), begin + 1)
        of_block = counts[begin:end]
        total = int(of_block.sum())
        within = np.arange(total) - np.repeat(of_block.cumsum() - of_block, of_block)
        places = np.repeat(starts[begin:end], of_block) + within
        yield np.repeat(ones[begin:end], of_block), order[places]
        begin = end


def _ranges(
    left: Side, right: Side, equal: Sequence[Equality], computing: Computing
) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Return the left rows that have a key, and for each the range of right rows in an order."""
    columns = [
        computing.sides(one, (left.rows, left.fields), (right.rows, right.fields)) for one in equal
    ]
    usable = [np.ones(len(side.rows), bool) for side in (left, right)]
    for one, both in zip(equal, columns, strict=True):
        if not is_null_safe(one):
            for marks, values in zip(usable, both, strict=True):
                marks &= in_numpy(pc.is_valid(values), bool)
    ones, others = (np.flatnonzero(marks) for marks in usable)
    together = (
        pa.chunked_array([one.take(pa.array(ones)), other.take(pa.array(others))])
        for one, other in columns
    )
    codes = factorize(together)
    mine, theirs = codes[: len(ones)], codes[len(ones) :]
    sizes = np.bincount(theirs, minlength=int(codes.max(initial=-1)) + 1)
    starts = sizes.cumsum() - sizes
    return ones, starts[mine], sizes[mine], others[sorting([theirs])]


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
