"""Keying: how an index identifies records, and puts their entries into buckets.

Pure. The invariant: the bucket and the place of an entry depend on its key alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Numbers, empty, sorting, taken
from deltaproduce.engines.local.large.threads import side_by_side
from deltaproduce.record_index.decisions.buckets import HashFunction, buckets_of
from deltaproduce.record_index.decisions.entries import (
    GROUP,
    entries,
    sorted_by_key,
    together,
)
from deltaproduce.types.columns import ORDINAL_COLUMN, Column

BUCKET: Final = "_bucket"
"""The column with the buckets of entries, where they have one."""

GROUP_COLUMN: Final = replace(ORDINAL_COLUMN, name=GROUP)
_MIXED_ENTRIES: Final = 1 << 16
"""At most this many entries of a run are one file, not one for each bucket."""


@dataclass(frozen=True, slots=True)
class Keying:
    """How an index identifies and hashes records.

    Attributes:
        columns: the key columns.
        hashed: the hash function.
        deletes: the columns of entries that remember deletes: their ordering and time; none if
            there is no ordering.
    """

    columns: tuple[Column, ...]
    hashed: str | HashFunction
    deletes: tuple[Column, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of the key columns."""
        return [column.name for column in self.columns]

    @property
    def unique(self) -> str | None:
        """A column in which no two rows have the same value: the key, if it is one column."""
        return self.columns[0].name if len(self.columns) == 1 else None

    @property
    def types(self) -> tuple[str, ...]:
        """The types of the key columns."""
        return tuple(column.data_type.simpleString() for column in self.columns)

    @property
    def stored(self) -> tuple[Column, ...]:
        """The columns of entries."""
        return (*self.columns, GROUP_COLUMN, *self.deletes)

    @property
    def no_entries(self) -> pa.Table:
        """Return no entries."""
        return empty(self.stored)

    @property
    def no_keys(self) -> pa.Table:
        """Return no keys."""
        return empty(self.columns)

    def entries(self, keys: pa.Table, groups: Numbers) -> pa.Table:
        """Return entries for keys and their groups, which remember no deletes."""
        return self.complete(entries(keys, groups))

    def complete(self, stored: pa.Table) -> pa.Table:
        """Return entries with the columns that remember deletes, null where they had none."""
        for field in empty(self.deletes).schema:
            if field.name not in stored.column_names:
                stored = stored.append_column(field.name, pa.nulls(len(stored), field.type))
        return stored

    def buckets(self, keys: pa.Table, buckets: int) -> Numbers:
        """Return the bucket of each key."""
        return buckets_of(keys, self.hashed, buckets)

    def bucketed(self, stored: pa.Table, buckets: int) -> pa.Table:
        """Return entries with a column of their buckets."""
        of = self.buckets(stored.select(self.names), buckets)
        return stored.append_column(BUCKET, pa.array(of, pa.int64()))

    def files(self, bucketed: pa.Table) -> Mapping[int | None, pa.Table]:
        """Return entries as the files of a run, sorted by bucket and key."""
        of = np.asarray(bucketed.column(BUCKET), np.int64)
        without_bucket, order = bucketed.drop_columns([BUCKET]), sorting([of])
        by_bucket, there = taken(without_bucket, order), np.unique(of)
        ends = np.searchsorted(of[order], there, side="right").tolist()
        sliced = (by_bucket.slice(a, b - a) for a, b in pairwise([0, *ends]))
        parts = [*side_by_side(lambda part: sorted_by_key(part, self.columns), sliced)]
        if 0 < len(without_bucket) <= _MIXED_ENTRIES:
            return {None: together(parts)}
        return dict(zip(there.tolist(), parts, strict=True))
