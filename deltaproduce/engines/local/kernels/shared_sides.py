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

from deltaproduce.engines.local.arrays import Numbers, plain_numbers, sorting

_BEYOND: Final = 1 << 62
"""The least number of possible keys that is too large to number them."""


@dataclass(frozen=True, slots=True)
class SortedSide:
    """The keys of a side's rows, in order.

    Attributes:
        keys: a number for each row that has a key.
        rows: the position of each of these rows.
        ends: for each column the least value, and how many values there may be.
    """

    keys: Numbers
    rows: Numbers
    ends: tuple[tuple[int, int], ...]

    @staticmethod
    def of(columns: Sequence[pa.Array], rows: Numbers) -> SortedSide | None:
        """Sort some rows by columns without nulls; None if they are no whole numbers, or too many.

        Args:
            columns: the values of these rows.
            rows: the positions of the rows.
        """
        numbers = [plain_numbers(column) for column in columns]
        ends, keys, possible = list[tuple[int, int]](), np.zeros(len(rows), np.int64), 1
        for column in numbers:
            if column is None:
                return None
            least = int(column.min(initial=0))
            size = int(column.max(initial=0)) - least + 1
            possible *= size
            if possible >= _BEYOND:
                return None
            ends.append((least, size))
            keys = keys * size + (column - least)
        order = sorting([keys])
        return SortedSide(keys[order], rows[order], (*ends,))

    def ranges(self, columns: Sequence[pa.Array]) -> tuple[Numbers, Numbers] | None:
        """Return which sorted rows have the keys of other rows: where they begin, and how many.

        None if the others' columns are not whole numbers.

        Args:
            columns: the values of the other rows, without nulls.
        """
        keys = np.zeros(len(columns[0]), np.int64)
        is_possible = np.ones(len(keys), bool)
        for column, (least, size) in zip(map(plain_numbers, columns), self.ends, strict=True):
            if column is None:
                return None
            is_possible &= (column >= least) & (column <= least + (size - 1))
            keys = keys * size + np.where(is_possible, column, least) - least
        keys[~is_possible] = -1
        order = sorting([keys + 1])  # to search in order takes a tenth of the time
        in_order = keys[order]
        starts, counts = np.empty_like(keys), np.empty_like(keys)
        begins = self.keys.searchsorted(in_order)
        starts[order] = begins
        counts[order] = self.keys.searchsorted(in_order, "right") - begins
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
