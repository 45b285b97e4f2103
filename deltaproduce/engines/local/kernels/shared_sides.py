"""Sides that are joined with one part of the other side after another: they are sorted once.

A query that runs as a whole reads its largest stage in parts, and joins each with all rows of the
others. The invariant: pairs are the same as without it. Only sides whose columns of equalities are
whole numbers are sorted (`arrays.plain_numbers`); others are numbered together with each part
(`stages.sql.operators.joins.pairs`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deltaproduce.engines.local.arrays import Numbers, plain_numbers, sorting

_BEYOND: Final = 1 << 62
"""The least number of possible keys that is too large to number them."""
_MOST_A_KEY: Final = 8
"""The most possible keys for each row that are looked up by place; an entry has four bytes."""
_FEW: Final = 1 << 22
"""So many possible keys are looked up by place, however few rows there are."""
_MOST_ROWS: Final = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True)
class SortedSide:
    """The keys of a side's rows, in order.

    A key is one number, from 0. If few numbers lie between keys, the rows of a key are looked up at
    the place of its number; otherwise its number is searched.

    Attributes:
        rows: the position of each row that has a key.
        columns: for each column the least value, and how many values there may be.
        keys: the number of each of these rows, if they are searched.
        begins: otherwise, for each number from -1, and for one more, how many keys are less.
    """

    rows: Numbers
    columns: tuple[tuple[int, int], ...]
    keys: Numbers | None = None
    begins: NDArray[np.int32] | None = None

    @staticmethod
    def of(columns: Sequence[pa.Array], rows: Numbers) -> SortedSide | None:
        """Sort some rows by columns without nulls; None if they are no whole numbers, or too many.

        Args:
            columns: the values of these rows.
            rows: the positions of the rows.
        """
        numbers = [plain_numbers(column) for column in columns]
        bounds, keys, possible = list[tuple[int, int]](), np.zeros(len(rows), np.int64), 1
        for column in numbers:
            if column is None:
                return None
            least = int(column.min(initial=0))
            size = int(column.max(initial=0)) - least + 1
            possible *= size
            if possible >= _BEYOND:
                return None
            bounds.append((least, size))
            keys = keys * size + (column - least)
        order = sorting([keys])
        if possible <= max(_MOST_A_KEY * len(rows), _FEW) and len(rows) <= _MOST_ROWS:
            begins = np.zeros(possible + 2, np.int32)
            np.cumsum(np.bincount(keys, minlength=possible), out=begins[2:])
            return SortedSide(rows[order], (*bounds,), begins=begins)
        return SortedSide(rows[order], (*bounds,), keys[order])

    def ranges(self, columns: Sequence[pa.Array]) -> tuple[Numbers, Numbers] | None:
        """Return which sorted rows have the keys of other rows: where they begin, and how many.

        None if the others' columns are not whole numbers.

        Args:
            columns: the values of the other rows, without nulls.
        """
        keys = np.zeros(len(columns[0]), np.int64)
        is_possible = np.ones(len(keys), bool)
        for column, (least, size) in zip(map(plain_numbers, columns), self.columns, strict=True):
            if column is None:
                return None
            is_possible &= (column >= least) & (column <= least + (size - 1))
            keys = keys * size + np.where(is_possible, column, least) - least
        keys[~is_possible] = -1
        if self.begins is not None:
            starts = self.begins[keys + 1].astype(np.int64)
            return starts, self.begins[keys + 2] - starts
        assert self.keys is not None
        return _searched(keys, self.keys)


def _searched(keys: Numbers, others: Numbers) -> tuple[Numbers, Numbers]:
    """Return for each key where it begins among others, which are in order, and how often it is."""
    order = sorting([keys + 1])  # to search in order takes a tenth of the time
    in_order = keys[order]
    starts, counts = np.empty_like(keys), np.empty_like(keys)
    begins = others.searchsorted(in_order)
    starts[order] = begins
    counts[order] = others.searchsorted(in_order, "right") - begins
    return starts, counts


class SharedSides:
    """The tables that are joined with several parts, each sorted when it is first needed.

    Args:
        tables: these tables, which are kept as long as this is.
    """

    def __init__(self, tables: Iterable[pa.Table] = ()) -> None:
        self._tables = {id(table): table for table in tables}
        self._sorted: dict[tuple[int, Hashable], SortedSide | None] = {}
        self._lock = Lock()

    def __contains__(self, rows: pa.Table) -> bool:
        return id(rows) in self._tables

    def sorted(
        self, rows: pa.Table, by: Hashable, make: Callable[[], SortedSide | None]
    ) -> SortedSide | None:
        """Return one of the tables sorted by something; None if it is not sorted."""
        key = id(rows), by
        with self._lock:
            if key not in self._sorted:
                self._sorted[key] = make()
            return self._sorted[key]
