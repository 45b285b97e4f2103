"""Row groups: what the footers of a table's files say of them, and which may have some values.

Pure. The invariant: a row group is left out only if its own range says that it has none of what is
sought; where a range is not known it may have anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql.types import StringType

from deltaproduce.engines.local.arrays import Numbers
from deltaproduce.engines.selections import Selection
from deltaproduce.model.partitions import Ranges
from deltaproduce.types.catalogue import atom
from deltaproduce.types.columns import Column

Values = NDArray[np.generic]


class Group(NamedTuple):
    """A row group: which file it is in, and which of its groups it is."""

    file: int
    number: int


class _Ranges(NamedTuple):
    """The least and the greatest value of each row group in one column."""

    least: Values
    greatest: Values


class Reach(NamedTuple):
    """Which of some keys each row group may have.

    Attributes:
        in_order: the places of the keys in the order of the ranges.
        first: of each row group the first key in that order that it may have.
        last: the key after the last one.
    """

    in_order: Numbers
    first: Numbers
    last: Numbers


class Bound(NamedTuple):
    """One column of the keys that are sought: which row groups may have them.

    Attributes:
        keys: each key's value, in the form and order of the ranges.
        ranges: of the table's row groups.
    """

    keys: Values
    ranges: _Ranges


class Footers:
    """What the footers of a table's files say of its row groups."""

    def __init__(self, files: Sequence[pq.FileMetaData]) -> None:
        self.files = files
        self.groups = [
            Group(number, group)
            for number, file in enumerate(files)
            for group in range(file.num_row_groups)
            if file.row_group(group).num_rows
        ]
        counts = [files[number].row_group(group).num_rows for number, group in self.groups]
        self.rows: Numbers = np.array(counts, np.int64)
        self._ranges: dict[str, _Ranges | None] = {}

    def bounds(self, keys: Selection) -> list[Bound]:
        """Of the keys' columns those before the first that is not plain or has no ranges."""
        assert isinstance(keys.keys, pa.Table)
        bounds = []
        for column, values in zip(keys.columns, keys.keys.columns, strict=True):
            found = plain(values, column)
            ranges = None if found is None else self.ranges_in(column.name)
            if found is None or ranges is None:
                break
            bounds.append(Bound(found, ranges))
        return bounds

    def groups_within(self, column: Column, values: Ranges) -> Numbers:
        """The row groups that may have a value in some ranges; all if their own are not known."""
        known = atom(column.data_type)
        is_number = known is not None and known.in_footers == "number"
        ranges = self.ranges_in(column.name) if is_number else None
        if ranges is None:
            return np.arange(len(self.groups))
        firsts, lasts = np.array(values.pairs, np.int64).reshape(-1, 2).T
        at = lasts.searchsorted(ranges.least, "left")  # the first range that does not end before
        reaches = np.append(firsts, np.iinfo(np.int64).max)[at] <= ranges.greatest
        return np.flatnonzero((at < len(lasts)) & reaches)

    def ranges_in(self, name: str) -> _Ranges | None:
        """The ranges of one column; None if a footer does not say them."""
        if name not in self._ranges:
            self._ranges[name] = self._read_ranges(name)
        return self._ranges[name]

    def _read_ranges(self, name: str) -> _Ranges | None:
        places = [place_of(file, name) for file in self.files]
        ranges = []
        for number, group in self.groups:
            place = places[number]
            if place is None:
                return None
            known = self.files[number].row_group(group).column(place).statistics
            if known is None or not known.has_min_max:
                return None
            ranges.append((known.min_raw, known.max_raw))
        least, greatest = zip(*ranges, strict=True) if ranges else ((), ())
        return _Ranges(_values(least), _values(greatest))


def plain(keys: pa.ChunkedArray, column: Column) -> Values | None:
    """Keys in the form and order of a footer's ranges; None if any is null, or of other types."""
    if keys.null_count:
        return None
    known = atom(column.data_type)
    if known is not None and known.in_footers == "number":
        numbers = keys.cast(pa.int32()) if pa.types.is_date(keys.type) else keys
        found: Values = numbers.cast(pa.int64()).to_numpy()
        return found
    is_text = known is not None and known.in_footers == "bytes"
    if is_text and column.data_type == StringType():  # a collation has another order
        return _values(keys.cast(pa.binary()).to_pylist())
    return None


def reach_of(bounds: Sequence[Bound]) -> Reach:
    """Which keys are within the ranges of the row groups.

    A group that has one value in a column, and in those before it, is known by the next column as
    well. In a sorted table these are all groups but those at the border of two values, so keys are
    found as well where the first column has few values as where it has many.
    """
    in_order = np.lexsort([keys for keys, _ in reversed(bounds)])
    (keys, (least, greatest)), *others = [(keys[in_order], ranges) for keys, ranges in bounds]
    first, last = keys.searchsorted(least, "left"), keys.searchsorted(greatest, "right")
    alike = least == greatest
    for keys, (least, greatest) in others:
        for group in np.flatnonzero(alike & (first < last)).tolist():
            start, among = first[group], keys[first[group] : last[group]]
            first[group] = start + among.searchsorted(least[group], "left")
            last[group] = start + among.searchsorted(greatest[group], "right")
        alike = alike & (least == greatest)
    return Reach(in_order, first, last)


def place_of(footer: pq.FileMetaData, name: str) -> int | None:
    """Which of a file's columns has this name; a part of another may have a path that is equal."""
    columns = (footer.schema.column(i) for i in range(footer.num_columns))
    return next((i for i, c in enumerate(columns) if c.name == c.path == name), None)


def _values(values: Sequence[object]) -> Values:
    """Whole numbers, or bytes as Python compares them: numpy's own bytes lose zeros at the end."""
    return np.array(values, object if values and isinstance(values[0], bytes) else np.int64)
