"""Matching: which rows of two sides have no equal on the other, as multisets.

Rows are told apart by hashes of 64 bits, so a row that has an equal costs some bytes, however wide
it is; rows that differ are held. Pure. The invariant: each row is matched with one row at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Marks, Numbers, places, taken
from deltaproduce.engines.local.kernels.row_hashes import Hashes, mixed, row_hashes
from deltaproduce.sync.comparing.tolerance import (
    are_close,
    has_floats,
    in_doubles,
    on_grid,
    tolerance_of,
    without_floats,
)


def hashes(rows: pa.Table, tolerance: float) -> Hashes:
    """Return the hash of each row, equal only for rows that are equal or close."""
    return row_hashes(on_grid(rows, tolerance))


@dataclass
class Surplus:
    """The hashes of which a side has more rows than the other.

    Attributes:
        values: the hashes, ascending.
        counts: how many rows more; those that are taken are subtracted.
    """

    values: Hashes
    counts: Numbers

    def take(self, of: Hashes) -> Marks:
        """Mark rows that are too many, by the hashes of some rows of the side."""
        marks = np.zeros(len(of), bool)
        if not len(self.values):
            return marks
        at = np.minimum(np.searchsorted(self.values, of), len(self.values) - 1)
        rows = np.flatnonzero(self.values[at] == of)
        rows = rows[np.argsort(at[rows], kind="stable")]
        if not len(rows):
            return marks
        chosen = rows[places([at[rows]]) < self.counts[at[rows]]]
        marks[chosen] = True
        self.counts -= np.bincount(at[chosen], minlength=len(self.values))
        return marks


def surpluses(one: Hashes, other: Hashes) -> tuple[Surplus, Surplus]:
    """Return what each side has more than the other."""
    values, of_both = np.unique(np.concatenate([one, other]), return_inverse=True)
    first = np.bincount(of_both[: len(one)], minlength=len(values))
    more = first - np.bincount(of_both[len(one) :], minlength=len(values))
    return (
        Surplus(values[more > 0], more[more > 0]),
        Surplus(values[more < 0], -more[more < 0]),
    )


def key_pairs(one: pa.Table, other: pa.Table) -> tuple[Numbers, Numbers]:
    """Return the positions of rows that are equal, in pairs: the first with the first, and so on.

    Args:
        one: the key columns of some rows.
        other: those of others.
    """
    first, second = (_counted(hashes(side, 0)) for side in (one, other))
    _, at, at_other = np.intersect1d(first, second, assume_unique=True, return_indices=True)
    return at, at_other


def _counted(keys: Hashes) -> Hashes:
    """Return hashes that differ for rows with the same key, by how many came before."""
    order = np.argsort(keys, kind="stable")
    before = np.empty(len(keys), np.uint64)
    if len(keys):
        before[order] = places([keys[order].view(np.int64)])
    return mixed(keys) + mixed(before)


def close_pairs(one: pa.Table, other: pa.Table, tolerance: float) -> tuple[Numbers, Numbers]:
    """Return the positions of rows that are close, in pairs.

    Only rows are compared that are equal but for their floats. If a group has as many rows on both
    sides, they are compared in order of their floats, all groups at once; so are most.
    """
    floats = [field.name for field in one.schema if has_floats(field.type)]
    if not floats or not len(one) or not len(other):
        return _NONE, _NONE
    exact = [row_hashes(without_floats(side)) for side in (one, other)]
    names, of_both = np.unique(np.concatenate(exact), return_inverse=True)
    first, second = of_both[: len(one)], of_both[len(one) :]
    sizes = np.bincount(first, minlength=len(names)), np.bincount(second, minlength=len(names))
    values = _Floats(one.select(floats), other.select(floats), tolerance)
    order, order_other = values.sorted(0, first), values.sorted(1, second)
    alike = sizes[0] == sizes[1]
    at, at_other = order[alike[first[order]]], order_other[alike[second[order_other]]]
    wrong = np.bincount(first[at], ~values.are_close(at, at_other), len(names)) > 0
    pairs = [(at[~wrong[first[at]]], at_other[~wrong[first[at]]])]
    rest = (wrong & (sizes[0] > 1)) | (~alike & (sizes[0] > 0) & (sizes[1] > 0))
    ends = [np.cumsum(size) for size in sizes]
    for group in np.flatnonzero(rest):
        of_group = [
            rows[end[group] - size[group] : end[group]]
            for rows, end, size in zip((order, order_other), ends, sizes, strict=True)
        ]
        pairs.append(values.pairs(*of_group))
    at, at_other = (np.concatenate(side) for side in zip(*pairs, strict=True))
    return at, at_other


_NONE: Final = np.zeros(0, np.int64)


class _Floats:
    """The columns with floats of two sides.

    Args:
        one: the columns of the first side.
        other: the same columns of the second.
    """

    def __init__(self, one: pa.Table, other: pa.Table, tolerance: float) -> None:
        self._sides = tuple(side.combine_chunks() for side in (one, other))
        self._tolerance = tolerance
        flat = [field for field in one.schema if not pa.types.is_nested(field.type)]
        values = {
            field.name: [in_doubles(side.column(field.name)) for side in self._sides]
            for field in flat
        }
        flat.sort(key=lambda field: len(np.unique(values[field.name][0])), reverse=True)
        self._flat = [[values[field.name][side] for field in flat] for side in (0, 1)]
        self._least = [tolerance_of(field.type, tolerance) for field in flat]

    def sorted(self, side: int, groups: Numbers) -> Numbers:
        """Return the positions of a side's rows by their groups, and by their floats in these."""
        return np.lexsort([*self._flat[side][::-1], groups])

    def are_close(self, rows: Numbers, others: Numbers) -> Marks:
        """Mark the rows that are close to the other side's at their place."""
        marks = np.ones(len(rows), bool)
        one, other = taken(self._sides[0], rows), taken(self._sides[1], others)
        for name in one.column_names:
            first, second = (side.column(name).combine_chunks() for side in (one, other))
            marks &= are_close(first, second, self._tolerance)
        return marks

    def pairs(self, rows: Numbers, others: Numbers) -> tuple[Numbers, Numbers]:
        """Return the rows of one group that are close, in pairs: each takes the first that is free.

        Args:
            rows: the positions in the first side, by their floats.
            others: those in the second.
        """
        free = np.ones(len(others), bool)
        chosen, chosen_other = list[int](), list[int]()
        begins, ends = self._near(rows, others)
        for place in np.flatnonzero(ends > begins):
            near = begins[place] + np.flatnonzero(free[begins[place] : ends[place]])
            same = near[self.are_close(np.repeat(rows[place], len(near)), others[near])]
            if len(same):
                free[same[0]] = False
                chosen.append(rows[place])
                chosen_other.append(others[same[0]])
        return np.array(chosen, np.int64), np.array(chosen_other, np.int64)

    def _near(self, rows: Numbers, others: Numbers) -> tuple[Numbers, Numbers]:
        """Return for each row where those of the other side begin and end that may be close.

        The column with most values tells it, by which the others are sorted.
        """
        if not self._flat[0]:
            return np.zeros(len(rows), np.int64), np.full(len(rows), len(others))
        values, sorted_values = self._flat[0][0][rows], self._flat[1][0][others]
        reach = np.where(np.isfinite(values), 2 * self._least[0] * np.abs(values), 0)
        return (
            np.searchsorted(sorted_values, values - reach, "left"),
            np.searchsorted(sorted_values, values + reach, "right"),
        )
