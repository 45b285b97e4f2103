"""Signed rows: how often a change adds each row to a bag, or removes it.

The invariant: rows cancel each other only if they are the same, bit by bit; so a change from 0.0 to
-0.0 stays one. Rows are removed from a bag by Spark's equality, the same ones first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Marks, Numbers, bits, factorize, firsts_of


class InconsistentError(Exception):
    """A change removes rows that are not there."""


@dataclass(frozen=True, slots=True)
class Signed:
    """Rows, and how often each is added; less than 0 times if it is removed."""

    rows: pa.Table
    counts: Numbers

    @staticmethod
    def added(rows: pa.Table) -> Signed:
        """Return rows that are added once each."""
        return Signed(rows, np.ones(len(rows), np.int64))

    @staticmethod
    def between(before: pa.Table, after: pa.Table) -> Signed:
        """Return the change from one bag to another one."""
        return Signed.moved(before, after).net()

    @staticmethod
    def moved(gone: pa.Table, added: pa.Table) -> Signed:
        """Return rows that are removed and rows that are added; some may cancel each other."""
        return Signed.concat([-Signed.added(gone), Signed.added(added)])

    @staticmethod
    def concat(parts: Sequence[Signed]) -> Signed:
        """Return changes one after the other; they are in the same columns."""
        counts = np.concatenate([part.counts for part in parts])
        return Signed(together([part.rows for part in parts]), counts)

    def __len__(self) -> int:
        return len(self.counts)

    def __neg__(self) -> Signed:
        return Signed(self.rows, -self.counts)

    def net(self) -> Signed:
        """Return the same change; no row of it is both added and removed, nor neither."""
        if bool((self.counts > 0).all()) or bool((self.counts < 0).all()):
            return self
        codes = _same(self.rows)
        sums = np.zeros(int(codes.max()) + 1, np.int64)
        np.add.at(sums, codes, self.counts)
        kept = np.flatnonzero(sums)
        return Signed(self.rows.combine_chunks().take(pa.array(firsts_of(codes)[kept])), sums[kept])

    def filter(self, marks: Marks) -> Signed:
        """Return some of the rows."""
        return Signed(self.rows.filter(pa.array(marks)), self.counts[marks])

    @property
    def inserted(self) -> Signed:
        """The rows that are added."""
        return self.filter(self.counts > 0)

    @property
    def deleted(self) -> Signed:
        """The rows that are removed, and how often."""
        return -self.filter(self.counts < 0)

    @property
    def repeated(self) -> pa.Table:
        """The rows of a change that removes none, each as often as it is added."""
        if bool((self.counts == 1).all()):
            return self.rows
        places = np.repeat(np.arange(len(self)), self.counts)
        return self.rows.combine_chunks().take(pa.array(places))

    def selected(self, names: Sequence[str]) -> Signed:
        """Return the same in some of the columns."""
        return Signed(self.rows.select(list(names)), self.counts)

    def named(self, names: Sequence[str]) -> Signed:
        """Return the same with other names of columns."""
        return Signed(self.rows.rename_columns(list(names)), self.counts)


def together(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of tables with the same columns, in the types of the first."""
    first = tables[0].schema
    return pa.concat_tables([t if t.schema.equals(first) else t.cast(first) for t in tables])


def changed(rows: pa.Table, change: Signed) -> pa.Table:
    """Return a bag after a change.

    Raises:
        InconsistentError: it removes a row that is not there.
    """
    if not len(change):
        return rows
    left, added = bag_difference(rows, change.deleted), change.inserted
    return together([left, added.repeated]) if len(added) else left


def bag_difference(rows: pa.Table, gone: Signed, *, may_lack: bool = False) -> pa.Table:
    """Return a bag without some rows.

    Args:
        gone: how often each row is removed.
        may_lack: whether rows that are not there are left out.

    Raises:
        InconsistentError: a row is not there as often.
    """
    if not len(gone):
        return rows
    both = together([rows, gone.rows])
    size, kept, missing = len(rows), np.ones(len(rows), bool), gone.counts
    for codes in _codes(both):
        wanted = np.zeros(int(codes.max()) + 1, np.int64)
        np.add.at(wanted, codes[size:], missing)
        there = np.flatnonzero(kept)
        mine = codes[:size][there]
        taken = number_among_equals(mine) < wanted[mine]
        kept[there[taken]] = False
        counts = np.bincount(mine[taken], minlength=len(wanted))
        missing = _shared(wanted - counts, codes[size:], missing)
        if not missing.any():
            return rows.filter(pa.array(kept))
    if may_lack:
        return rows.filter(pa.array(kept))
    raise InconsistentError(f"{int(missing.sum())} rows that a change removes are not there")


def number_among_equals(codes: Numbers) -> Numbers:
    """Return for each row how many rows before it are equal to it."""
    order = np.argsort(codes, kind="stable")
    in_order = codes[order]
    begins = np.append(True, in_order[1:] != in_order[:-1])[: len(codes)]
    index = np.arange(len(codes))
    numbers = np.empty(len(codes), np.int64)
    numbers[order] = index - np.maximum.accumulate(np.where(begins, index, 0))
    return numbers


def _shared(missing: Numbers, codes: Numbers, wanted: Numbers) -> Numbers:
    """Return how many of the wanted rows are missing, from the numbers of equal ones."""
    counts = np.zeros(len(codes), np.int64)
    if missing.any():
        for place in np.flatnonzero(missing[codes]):
            counts[place] = min(wanted[place], missing[codes[place]])
            missing[codes[place]] -= counts[place]
    return counts


def _codes(rows: pa.Table) -> Iterable[Numbers]:
    """Yield numbers that are equal for the same rows, then for equal ones."""
    yield _same(rows)
    if any(_has_floats(column.type) for column in rows.columns):
        yield factorize(rows.columns)


def _same(rows: pa.Table) -> Numbers:
    """Return numbers that are equal only for rows that are the same, bit by bit."""
    return factorize(bits(column) for column in rows.columns)


def _has_floats(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_floats(kind.field(n).type) for n in range(kind.num_fields))
    return bool(pa.types.is_floating(kind))
