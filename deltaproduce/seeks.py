"""Seeks: the rows of some keys, from the Parquet files of a table that is in order, without Spark.

A step looks up keys that lie anywhere in a table. Spark reads every file and row group whose range
holds one of them, so in files with large groups a look-up of a thousand keys reads the more the
larger the table is. Tables in which steps look keys up are written with small row groups
(`limits.GROUP_ROWS`), and only those are read here whose range, as the files' footers say, holds
one of the keys: at most one a key where keys are unique, however many rows there are, and no Spark
job. This is the sparse index of a sorted file that SSTables have (Chang et al., "Bigtable", 2006).

The invariant: an answer has all rows of the keys, as Spark would read them; where that is not
certain there is none, and Spark is asked: for files in no file system of this machine, keys that
are null or of a type without one plain order, footers that say nothing of ranges, files that are
gone or damaged (Spark says so), and for more rows than are quicker read here (`limits.SEEK_ROWS`).

It stands apart because it is the only module that knows how Parquet lays out rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import types as t

from deltaproduce import limits
from deltaproduce.arrays import Marks, Numbers
from deltaproduce.atoms import arrow_type
from deltaproduce.schemas import Column
from deltaproduce.selections import Selection

Values = NDArray[np.generic]

_GROUPS_AT_A_TIME: Final = 64
_WHOLE_NUMBERS: Final = (t.ByteType, t.ShortType, t.IntegerType, t.LongType, t.DateType)


class _Group(NamedTuple):
    """A row group: which file it is in, and which of its groups it is."""

    file: int
    number: int


@dataclass(frozen=True, slots=True)
class _Index:
    """The row groups of a table, and the range of each in one column."""

    footers: Sequence[pq.FileMetaData]
    groups: Sequence[_Group]
    rows: Numbers
    least: Values
    greatest: Values

    def holding(self, keys: Values) -> Marks:
        """Which groups have one of the keys in their range."""
        keys = np.sort(keys)
        return keys.searchsorted(self.least, "left") < keys.searchsorted(self.greatest, "right")


class ParquetFiles:
    """The files of a table none of whose rows is deleted.

    Args:
        addresses: where Spark finds them.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        self._paths = [local_path(address) for address in addresses]
        self._indexes: dict[str, _Index | None] = {}

    def rows_of(self, keys: Selection, columns: Sequence[Column], most: int) -> pa.Table | None:
        """All rows of these keys, which are few, and of no others; None if Spark is to be asked.

        Args:
            columns: the table's columns; they come in the types of `arrow_type`.
            most: if there are more rows, some more than these are enough.
        """
        assert isinstance(keys.keys, pa.Table)
        by, first = keys.columns[0], keys.keys.column(0)
        sought = plain(first, by)
        index = None if sought is None else self._index(by)
        if sought is None or index is None:
            return None
        holding = np.flatnonzero(index.holding(sought))
        if index.rows[holding].sum() > limits.SEEK_ROWS:
            return None
        schema = pa.schema([(c.name, arrow_type(c.data_type)) for c in columns])

        def read(groups: Sequence[_Group]) -> pa.Table:
            rows = self._read(index.footers, groups)
            rows = rows.filter(pc.is_in(rows.column(by.name), value_set=first))
            return keys.exactly(rows.select(schema.names).cast(schema))

        found, count = [schema.empty_table()], 0
        parts = _parts(index.groups[i] for i in holding.tolist())
        try:
            with ThreadPoolExecutor(os.cpu_count()) as threads:
                for rows in threads.map(read, parts):
                    found.append(rows)
                    count += len(rows)
                    if count > most:
                        threads.shutdown(cancel_futures=True)
                        break
        except (OSError, pa.ArrowInvalid):
            return None
        return pa.concat_tables(found)

    def _read(self, footers: Sequence[pq.FileMetaData], groups: Sequence[_Group]) -> pa.Table:
        """Some row groups of one file."""
        number = groups[0].file
        # Reading ahead goes through a pool of threads, which costs more than it saves on a disk.
        with pq.ParquetFile(
            self._paths[number],
            metadata=footers[number],
            pre_buffer=False,
            coerce_int96_timestamp_unit="us",
        ) as file:
            return file.read_row_groups([group.number for group in groups], use_threads=False)

    def _index(self, by: Column) -> _Index | None:
        """The row groups' ranges in a column; None if they are not known. Files never change."""
        if by.name not in self._indexes:
            self._indexes[by.name] = _index_of(self._paths, by)
        return self._indexes[by.name]


def local_path(address: str) -> str | None:
    """The path of a file in a file system of this machine, as Spark names it; None for others."""
    parts = urlsplit(address)
    local = parts.scheme in ("", "file") and not parts.netloc and parts.path.startswith("/")
    return parts.path if local else None


def plain(keys: pa.ChunkedArray, column: Column) -> Values | None:
    """Keys in the form and order of a footer's ranges; None if any is null, or of other types."""
    if keys.null_count:
        return None
    if isinstance(column.data_type, _WHOLE_NUMBERS):
        numbers = keys.cast(pa.int32()) if pa.types.is_date(keys.type) else keys
        found: Values = numbers.cast(pa.int64()).to_numpy()
        return found
    if column.data_type == t.StringType():  # without a collation: in the order of its bytes
        return _values(keys.cast(pa.binary()).to_pylist())
    return None


def _index_of(paths: Sequence[str | None], by: Column) -> _Index | None:
    footers, groups, ranges = [], [], []
    for file, path in enumerate(paths):
        try:
            footer = None if path is None else pq.read_metadata(path)
        except (OSError, pa.ArrowInvalid):
            return None
        place = None if footer is None else _place(footer, by.name)
        if footer is None or place is None:
            return None
        footers.append(footer)
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            if not group.num_rows:
                continue
            known = group.column(place).statistics
            if known is None or not known.has_min_max:
                return None
            groups.append(_Group(file, number))
            ranges.append((group.num_rows, known.min_raw, known.max_raw))
    rows, least, greatest = zip(*ranges, strict=True) if ranges else ((), (), ())
    return _Index(footers, groups, np.array(rows, np.int64), _values(least), _values(greatest))


def _place(footer: pq.FileMetaData, name: str) -> int | None:
    """Which of a file's columns has this name; a part of another may have a path that is equal."""
    columns = (footer.schema.column(i) for i in range(footer.num_columns))
    return next((i for i, c in enumerate(columns) if c.name == c.path == name), None)


def _values(values: Sequence[object]) -> Values:
    """Whole numbers, or bytes as Python compares them: numpy's own bytes lose zeros at the end."""
    return np.array(values, object if values and isinstance(values[0], bytes) else np.int64)


def _parts(groups: Iterable[_Group]) -> Iterator[list[_Group]]:
    """Groups of one file each, so many as are read at a time."""
    for _, of_file in groupby(groups, attrgetter("file")):
        found = list(of_file)
        for first in range(0, len(found), _GROUPS_AT_A_TIME):
            yield found[first : first + _GROUPS_AT_A_TIME]
