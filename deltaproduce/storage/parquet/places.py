"""Places: in which file a row is, and which number it has there.

A step looks up the rows of its keys, and later marks some of them as replaced. The invariant: held
places are those of all rows of the keys that were looked up, so that none has to be looked up again
unless it was not held.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Numbers, distinct, isin_rows
from deltaproduce.storage.parquet.neighbours import NUMBER
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import LongType

FILE: Final = Column("_file_number", LongType())
"""The column with the number of a row's file."""
_MOST_ROWS: Final = 1 << 20
"""The most rows whose places are held: the places of more are looked up again."""
PLACE: Final = (FILE, NUMBER)
"""The columns that tell where a row is."""


class LookupCache:
    """The rows that look-ups have found last, with their places: all rows of each of their keys."""

    def __init__(self) -> None:
        self._parts: list[pa.Table] = []

    def add(self, rows: pa.Table) -> None:
        """Hold more rows, or none if they get too many."""
        self._parts.append(rows)
        if sum(map(len, self._parts)) > _MOST_ROWS:
            self._parts = []

    def of(self, pairs: pa.Table) -> pa.Table | None:
        """Return the places of the rows of some pairs; None unless all pairs are held."""
        names, parts = pairs.column_names, list[pa.Table]()
        for part in self._parts:
            if not set(names) <= set(part.column_names):
                continue
            parts.append(part.filter(pa.array(isin_rows(part.select(names), pairs))))
        rows = [part.select(names) for part in parts]
        if not rows or len(distinct(pa.concat_tables(rows))) != len(pairs):
            return None
        places = [part.select([column.name for column in PLACE]) for part in parts]
        return distinct(pa.concat_tables(places))


def places(files: Sequence[int], numbers: Sequence[Numbers]) -> pa.Table:
    """Return the places of rows of some files, in the columns of `PLACE`."""
    in_files = np.repeat(np.array(files, np.int64), [len(of_file) for of_file in numbers])
    columns = [pa.array(in_files), pa.array(np.concatenate(numbers))]
    return pa.table(columns, [column.name for column in PLACE])
