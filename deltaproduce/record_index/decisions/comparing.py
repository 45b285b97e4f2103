"""Comparing: what given rows do to those of one file.

Pure. The invariant: each given row updates, moves or deletes the one row that has its key, or
changes nothing; all other rows stay, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import (
    Marks,
    Numbers,
    codes,
    factorize,
    isin_rows,
    order_codes,
    taken,
)
from deltaproduce.record_index.decisions.entries import NOWHERE, together
from deltaproduce.types.columns import Column


@dataclass(frozen=True, slots=True)
class Outcome:
    """What given rows do to those of one file.

    Attributes:
        at: the place of the row that each given row is about.
        updated: given rows that take its place.
        moved: given rows that go to another partition, so that it is removed.
        deleted: given rows that delete it.
    """

    at: Numbers
    updated: Marks
    moved: Marks
    deleted: Marks

    @property
    def changes(self) -> Marks:
        """Given rows that change anything."""
        return self.updated | self.moved | self.deleted

    def rows(self, old: pa.Table, given: pa.Table) -> pa.Table:
        """The rows that take the place of the file's."""
        order = np.arange(len(old))
        stays = np.ones(len(old), bool)
        stays[self.at[self.moved | self.deleted]] = False
        order[self.at[self.updated]] = len(old) + np.flatnonzero(self.updated)
        if not self.updated.any():
            return old.filter(pa.array(stays))
        return taken(together([old, given]), order[stays])


def places(old: pa.Table, keys: pa.Table) -> Numbers:
    """In which row of a file each key is; `NOWHERE` if in none."""
    of_old = old.select(keys.column_names)
    rows = np.flatnonzero(isin_rows(of_old, keys))
    numbers = factorize(together([of_old.take(pa.array(rows)), keys]).columns)
    place = np.full(int(numbers.max(initial=0)) + 1, NOWHERE)
    place[numbers[: len(rows)]] = rows
    return place[numbers[len(rows) :]]


def deleting(at: Numbers) -> Outcome:
    """What comes of deleting the rows at some places."""
    none = np.zeros(len(at), bool)
    return Outcome(at, none, none, ~none)


def upserting(
    old: pa.Table,
    given: pa.Table,
    at: Numbers,
    partitioned_by: Sequence[str],
    ordering: Column | None,
) -> Outcome:
    """What comes of given rows.

    Args:
        at: the place of the row that has the key of each.
        ordering: a given row with a smaller value than that one's loses; null is the smallest.
    """
    before = old.take(pa.array(at))
    same = _are_same(before, given, given.column_names)
    loses = np.zeros(len(given), bool)
    if ordering is not None:
        (order,) = order_codes(together([before, given]), [ordering])
        loses = order[len(at) :] < order[: len(at)]
    stays = _are_same(before, given, partitioned_by)
    counts = ~(same | loses)
    return Outcome(at, counts & stays, counts & ~stays, np.zeros(len(at), bool))


def _are_same(some: pa.Table, others: pa.Table, names: Sequence[str]) -> Marks:
    """Which rows have the same values in some columns as those beside them."""
    found = np.ones(len(some), bool)
    every = together([some, others])
    for name in names:
        numbers = codes(every.column(name))
        found &= numbers[: len(some)] == numbers[len(some) :]
    return found
