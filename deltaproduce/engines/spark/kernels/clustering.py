"""Rows by partitions, in Spark: each partition of the DataFrame is a file of one or several.

The invariant: no partition of the column is in two files. The driver decides which partitions share
a file, from their numbers of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from deltaproduce.engines.spark.columns import cols, order
from deltaproduce.engines.spark.frames import fetched, frame
from deltaproduce.engines.spark.kernels.ranges import unit_of
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.model.clustering import Clustering, file_ends
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import IntegerType, LongType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILE: Final = Column("_file", IntegerType())
_UNIT: Final = Column("_unit", LongType())
_ROWS: Final = Column("_rows", LongType())
_PLACE: Final = Column("_place", LongType())
_MOST_UNITS: Final = 100_000
"""With more units, the driver does not decide which share a file."""


def partition_files(
    rows: DataFrame,
    clustering: Clustering,
    columns: Sequence[Column],
    by: Sequence[Column],
    least: int,
) -> DataFrame | None:
    """Return the rows, sorted, one file per partition; None as from `apart`.

    Args:
        columns: the rows' own.
        by: the columns to sort by.
        least: see `Engine.clustered_layout`.
    """
    units = apart(rows, clustering, least)
    return None if units is None else _in_order(units, by, columns)


def apart(
    rows: DataFrame, clustering: Clustering, least: int, most: int | None = None
) -> DataFrame | None:
    """Return the rows with their file's number, each file in one partition, in no order.

    None if they are in too many partitions. One Spark job to count them.

    Args:
        least: see `Engine.clustered_layout`.
        most: None, too, if a file would have more rows than this.
    """
    with_units = rows.withColumn(_UNIT.name, unit_of(clustering.column, clustering.partitions))
    counted = with_units.groupBy(_UNIT.name).agg(f.count(f.lit(1)).alias(_ROWS.name))
    units = fetched(counted.limit(_MOST_UNITS + 1), (_UNIT, _ROWS)).sort_by(_UNIT.name)
    if len(units) > _MOST_UNITS:
        return None
    files = _files(units, clustering, least)
    sizes = np.bincount(files.column(FILE.name).to_numpy(), units.column(_ROWS.name).to_numpy())
    if most is not None and sizes.max(initial=0) > most:
        return None
    named = frame(files, rows.sparkSession, (_UNIT, FILE))
    same = with_units[_UNIT.name].eqNullSafe(named[_UNIT.name])
    joined = with_units.join(f.broadcast(named), same).drop(_UNIT.name)
    return _each_apart(joined, len(sizes))


def cut(rows: pa.Table, ends: Sequence[int]) -> pa.Table:
    """Return rows of the driver with their file's number, and their position."""
    files = np.repeat(np.arange(len(ends), dtype=np.int32), np.diff(ends, prepend=0))
    with_files = rows.append_column(FILE.name, pa.array(files))
    return with_files.append_column(_PLACE.name, pa.array(np.arange(len(rows))))


def in_places(rows: DataFrame, columns: Sequence[Column], files: int) -> DataFrame:
    """Return the rows of `cut`, one file per partition."""
    return in_files(rows, [_PLACE], columns, files)


def in_files(
    rows: DataFrame, by: Sequence[Column], columns: Sequence[Column], files: int
) -> DataFrame:
    """Return rows that name their file, sorted within it."""
    return _in_order(_each_apart(rows, files), by, columns)


def _each_apart(rows: DataFrame, files: int) -> DataFrame:
    """Return rows that name their file, each file in one partition."""
    return rows.repartitionById(max(files, 1), FILE.name)


def _in_order(rows: DataFrame, by: Sequence[Column], columns: Sequence[Column]) -> DataFrame:
    return rows.sortWithinPartitions(*order(by)).select(*cols(columns))


CUT: Final = (FILE, _PLACE)
"""The columns that `cut` adds."""


def _files(counted: pa.Table, clustering: Clustering, least: int) -> pa.Table:
    """Return the file's number for each unit."""
    units = counted.column(_UNIT.name).to_pylist()
    partitions = [None if u is None else clustering.partitions.number(u) for u in units]
    begins = [n for n, one in enumerate(partitions) if not n or one != partitions[n - 1]]
    counts = counted.column(_ROWS.name).to_numpy()
    ends = file_ends(np.add.reduceat(counts, begins), least) if begins else np.array([], np.int64)
    of_partition = np.searchsorted(ends, np.arange(len(begins)))
    lengths = np.diff([*begins, len(units)])
    numbers = pa.array(np.repeat(of_partition, lengths), pa.int32())
    return pa.table([counted.column(_UNIT.name), numbers], [_UNIT.name, FILE.name])
