"""Files as Delta's log lists them: their paths, and ranges, so that most need not be opened.

Pure. There may be a million files, so paths and ranges are columns. The invariant: a file is
skipped only if the log says that it has none of the wanted rows; a file without statistics may have
any. Only columns that stand for whole numbers count: the log truncates texts, and has times only to
the millisecond.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.local.arrays import Marks, Numbers
from deltaproduce.engines.local.data_files import in_partitions
from deltaproduce.engines.local.kernels.ranges import numbers_of
from deltaproduce.engines.selections import Selection
from deltaproduce.model.partitions import SORTS, Ranges
from deltaproduce.storage.parquet.marked_rows import MarkedRows
from deltaproduce.storage.parquet.row_groups import NO_VALUE, EveryRange
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import TimestampNTZType, TimestampType
from deltaproduce.types.pandas_on_demand import in_numpy

_CUT_MICROS: Final = 999
"""The most microseconds by which the last moment may be later than the log says."""
_PARTITION: Final = "partition"
_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class FilePaths(Sequence[str]):
    """The paths of a table's files, relative to its directory."""

    def __init__(self, paths: pa.StringArray) -> None:
        self._paths = paths

    @overload
    def __getitem__(self, number: int) -> str: ...

    @overload
    def __getitem__(self, number: slice) -> FilePaths: ...

    def __getitem__(self, number: int | slice) -> str | FilePaths:
        if isinstance(number, slice):
            return FilePaths(self._paths[number])
        return str(self._paths[number])

    def __len__(self) -> int:
        return len(self._paths)

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths.to_pylist())

    def among(self, numbers: Numbers) -> FilePaths:
        """Return some of the paths, by their numbers."""
        return FilePaths(self._paths.take(pa.array(numbers)))

    def places(self, paths: Sequence[str]) -> list[int]:
        """Return the numbers of those paths that are among some others."""
        are_among = pc.is_in(self._paths, pa.array(paths, pa.string()))
        return np.flatnonzero(in_numpy(are_among)).tolist()


class FileRanges(NamedTuple):
    """The known statistics of some files.

    Attributes:
        statistics: a row for each file: ``num_records``, and structs of columns ``min``, ``max``
            and ``null_count``, and ``partition``, as delta-rs has them; None if nothing is known.
        files: the number of files.
    """

    statistics: pa.Table | None
    files: int

    def within(self, column: Column, values: Ranges) -> Marks:
        """Mark the files that may have a value in the ranges."""
        least, greatest = self._ends(column)
        return EveryRange(least, greatest).reach(values)

    def rows_inside(self, column: Column, values: Ranges) -> tuple[Marks, Numbers]:
        """Mark the files with values only in the ranges; also return the row count of each file."""
        rows = self.rows
        least, greatest = self._ends(column)
        firsts, lasts = np.array(values.pairs, np.int64).reshape(-1, 2).T
        at = lasts.searchsorted(least, "left")
        starts = np.append(firsts, _GREATEST)[at]
        ends = np.append(lasts, _LEAST)[at]
        inside = (starts <= least) & (greatest <= ends) & (least <= greatest)
        alive = np.maximum(rows, 0) - self._marked()
        return inside & (self._nulls(column) == 0) & (rows >= 0), alive

    @property
    def size(self) -> tuple[int, int] | None:
        """How many rows and bytes all files have; None if that is not known."""
        rows = self.rows
        if self.statistics is None or (rows < 0).any():
            return None
        return int(rows.sum() - self._marked().sum()), int(
            in_numpy(self.statistics.column("size_bytes")).sum()
        )

    def in_partitions(self, partitions: pa.Table) -> Marks:
        """Mark the files that are in some partitions, given by some or all of their columns."""
        if self.statistics is None or not self.has_partitions:
            return np.ones(self.files, bool)
        return in_partitions(self.statistics, partitions)

    def holding(self, keys: Selection) -> Marks:
        """Mark the files that may have one of the keys, which are on the driver."""
        assert isinstance(keys.keys, pa.Table)
        marks = np.ones(self.files, bool)
        for column, values in zip(keys.columns, keys.keys.columns, strict=True):
            if _is_number(column) and not values.null_count:
                sought = np.sort(in_numpy(numbers_of(values), np.int64))
                least, greatest = self._ends(column)
                marks &= sought.searchsorted(least) < sought.searchsorted(greatest, "right")
        return marks

    def _ends(self, column: Column) -> tuple[Numbers, Numbers]:
        """Return the least and the greatest value of each file."""
        values = self._partition_numbers(column)
        if values is not None:
            given, numbers = in_numpy(values.is_valid()), in_numpy(pc.fill_null(values, 0))
            return (
                np.where(given, numbers, NO_VALUE.least),
                np.where(given, numbers, NO_VALUE.greatest),
            )
        least, greatest = self._numbers("min", column), self._numbers("max", column)
        if least is None or greatest is None:
            return np.full(self.files, _LEAST), np.full(self.files, _GREATEST)
        if isinstance(column.data_type, TimestampType | TimestampNTZType):
            greatest = pc.add(greatest, _CUT_MICROS)
        known = pc.and_(least.is_valid(), greatest.is_valid())
        empty = self._nulls(column) == np.where(self.rows < 0, -2, self.rows)
        first, last = (
            np.where(in_numpy(known), in_numpy(pc.fill_null(ends, 0)), unknown)
            for ends, unknown in ((least, _LEAST), (greatest, _GREATEST))
        )
        return np.where(empty, NO_VALUE.least, first), np.where(empty, NO_VALUE.greatest, last)

    def _nulls(self, column: Column) -> Numbers:
        """Return the number of nulls in each file; -1 if unknown."""
        values = self._partition_numbers(column)
        if values is not None:
            return np.where(in_numpy(values.is_valid()), 0, self.rows)
        nulls = self._field("null_count", column)
        if nulls is None:
            return np.full(self.files, -1)
        return in_numpy(pc.fill_null(nulls, -1), np.int64)

    @property
    def has_partitions(self) -> bool:
        """Whether files are in partitions, whose values they lack."""
        return self.statistics is not None and _PARTITION in self.statistics.schema.names

    def values(self, number: int) -> dict[str, pa.Scalar]:
        """Return the values that all rows of a file share, in columns that the file lacks."""
        if self.statistics is None or not self.has_partitions:
            return {}
        return dict(self.statistics.column(_PARTITION)[number].items())

    def _partition_numbers(self, column: Column) -> pa.Array | None:
        values = self._field(_PARTITION, column) if _is_number(column) else None
        return None if values is None else numbers_of(values)

    def _marked(self) -> Numbers:
        """Return the number of rows of each file that are marked as deleted."""
        return MarkedRows.listed(self.statistics).counts(self.files)

    @property
    def rows(self) -> Numbers:
        """The number of rows in each file, with those that are marked; -1 if unknown."""
        if self.statistics is None:
            return np.full(self.files, -1)
        return in_numpy(pc.fill_null(self.statistics.column("num_records"), -1), np.int64)

    def _numbers(self, which: str, column: Column) -> pa.Array | None:
        values = self._field(which, column) if _is_number(column) else None
        return None if values is None else numbers_of(values)

    def _field(self, which: str, column: Column) -> pa.Array | None:
        if self.statistics is None or which not in self.statistics.column_names:
            return None
        structs = self.statistics.column(which).combine_chunks()
        if column.name not in [field.name for field in structs.type]:
            return None
        return pc.struct_field(structs, [column.name])


def unknown(files: int) -> FileRanges:
    """Return ranges for this many files without statistics."""
    return FileRanges(None, files)


def _is_number(column: Column) -> bool:
    return column.data_type.simpleString() in SORTS
