"""Comparing: how given rows change the rows of one file.

Pure. The invariant: each given row updates, moves or deletes the one row with its key, or changes
nothing; all other rows stay, in their order.
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
    """How given rows change the rows of one file.

    Attributes:
        at: the position of the row with the key of each given row.
        updated: which given rows replace it.
        moved: which given rows go to another partition, so that it is removed.
        deleted: which given rows delete it.
    """

    at: Numbers
    updated: Marks
    moved: Marks
    deleted: Marks

    @property
    def changes(self) -> Marks:
        """Which given rows change anything."""
        return self.updated | self.moved | self.deleted

    def rows(self, old: pa.Table, given: pa.Table) -> pa.Table:
        """Return the rows that replace the file's."""
        order = np.arange(len(old))
        stays = np.ones(len(old), bool)
        stays[self.at[self.moved | self.deleted]] = False
        order[self.at[self.updated]] = len(old) + np.flatnonzero(self.updated)
        if not self.updated.any():
            return old.filter(pa.array(stays))
        return taken(together([old, given]), order[stays])


def places(old: pa.Table, keys: pa.Table) -> Numbers:
    """Return the position of each key in a file; `NOWHERE` if it is not there."""
    of_old = old.select(keys.column_names)
    rows = np.flatnonzero(isin_rows(of_old, keys))
    numbers = factorize(together([of_old.take(pa.array(rows)), keys]).columns)
    place = np.full(int(numbers.max(initial=0)) + 1, NOWHERE)
    place[numbers[: len(rows)]] = rows
    return place[numbers[len(rows) :]]


def deleting(old: pa.Table, given: pa.Table, at: Numbers, ordering: Column | None) -> Outcome:
    """Return the outcome of deleting rows by their keys.

    Args:
        given: the keys, with their ordering if it counts.
        at: the position of the row with each key.
        ordering: a delete loses if its value in this column is smaller than the row's.
    """
    none = np.zeros(len(at), bool)
    if ordering is None:
        return Outcome(at, none, none, ~none)
    before = old.column(ordering.name).take(pa.array(at))
    return Outcome(at, none, none, ~are_older(given.column(ordering.name), before, ordering))


def upserting(
    old: pa.Table,
    given: pa.Table,
    at: Numbers,
    partitioned_by: Sequence[str],
    ordering: Column | None,
) -> Outcome:
    """Return the outcome of upserting given rows.

    Args:
        at: the position of the row with the key of each given row.
        ordering: a given row loses if its value in this column is smaller than the old row's; null
            is the smallest.
    """
    before = old.take(pa.array(at))
    same = _are_same(before, given, given.column_names)
    loses = np.zeros(len(given), bool)
    if ordering is not None:
        loses = are_older(given.column(ordering.name), before.column(ordering.name), ordering)
    stays = _are_same(before, given, partitioned_by)
    counts = ~(same | loses)
    return Outcome(at, counts & stays, counts & ~stays, np.zeros(len(at), bool))


def are_older(values: pa.ChunkedArray, others: pa.ChunkedArray, ordering: Column) -> Marks:
    """Mark the values of an ordering that are smaller than those at the same positions."""
    both = pa.table(
        {ordering.name: pa.chunked_array([*values.chunks, *others.chunks], others.type)}
    )
    (order,) = order_codes(both, [ordering])
    return order[: len(values)] < order[len(values) :]


def _are_same(rows: pa.Table, others: pa.Table, names: Sequence[str]) -> Marks:
    """Return which rows equal the rows at the same positions, in some columns."""
    are_equal = np.ones(len(rows), bool)
    every = together([rows, others])
    for name in names:
        numbers = codes(every.column(name))
        are_equal &= numbers[: len(rows)] == numbers[len(rows) :]
    return are_equal
