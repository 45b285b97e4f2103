"""Look-ups: choose the row groups to read for some keys, file by file, by a seek or by a scan.

Pure. A *seek* reads the row groups of a file that may have one of the keys, a *scan* reads all of
them. For few keys a seek reads few groups; for many it reads as much as a scan, which need not find
out where the keys are. So a file is sought if the keys that it may have are less than a share of
its rows, as in Hudi's design of a record index (RFC-08). The invariant: the chosen row groups have
all rows of the keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deltaproduce.engines.local.arrays import Marks, Numbers
from deltaproduce.engines.selections import Selection
from deltaproduce.storage.parquet.row_groups import Footers, Reach, reach_of
from deltaproduce.types.columns import Column
from deltaproduce.types.pandas_on_demand import in_numpy

Strategy: TypeAlias = Literal["auto", "seek", "scan"]
"""How keys are looked up; ``auto`` decides it for each file."""
Way: TypeAlias = Literal["seek", "scan", "mixed"]
"""How keys were looked up; ``mixed`` if some files were sought and others scanned."""

SEEK_SHARE: Final = 0.3
"""The share of keys among a file's rows from which all its row groups are read."""


class LookedUp(NamedTuple):
    """The result of a look-up.

    Attributes:
        rows: None if Spark is to read them.
        groups_read: the number of row groups read; None if only Spark can tell.
        groups: the number of all row groups; likewise.
    """

    rows: pa.Table | None
    way: Way
    groups_read: int | None
    groups: int | None


class Chosen(NamedTuple):
    """The row groups to read.

    Attributes:
        groups: the places of row groups among all.
    """

    groups: Numbers
    way: Way


def chosen(footers: Footers, keys: Selection, strategy: Strategy) -> Chosen:
    """Choose the row groups to read.

    Args:
        footers: the footers of all files.
        keys: keys on the driver.
        strategy: ``seek`` scans only files whose footers say nothing of the keys.
    """
    assert isinstance(keys.keys, pa.Table)
    numbers, file = np.unique(footers.of, return_inverse=True)
    rows = np.bincount(file, footers.rows, len(numbers))
    if strategy == "scan" or (strategy == "auto" and len(keys.keys) >= SEEK_SHARE * rows.sum()):
        is_scanned = np.ones(len(numbers), bool)
        return Chosen(np.arange(len(file)), _way(is_scanned, strategy))
    holding, entries = np.zeros(len(file), bool), np.zeros(len(numbers))
    for _, reach in reaches(footers, keys):
        groups, entry_count = _holding(reach, file, len(numbers))
        holding |= groups
        entries += entry_count
    is_scanned = entries >= (SEEK_SHARE * rows if strategy == "auto" else np.inf)
    return Chosen(np.flatnonzero(holding | is_scanned[file]), _way(is_scanned, strategy))


def reaches(footers: Footers, keys: Selection) -> Iterator[tuple[Selection, Reach | None]]:
    """Yield the keys, split by the columns in which they are null, with their reach.

    The reach says which row groups may have the keys; None if nothing is known of the row groups.

    Args:
        keys: keys on the driver.
    """
    for part, nulls in _by_nulls(keys):
        yield part, _reach(footers, part, nulls)


def _way(is_scanned: Marks, strategy: Strategy) -> Way:
    if not len(is_scanned):
        return "scan" if strategy == "scan" else "seek"
    if is_scanned.all():
        return "scan"
    return "mixed" if is_scanned.any() else "seek"


def _by_nulls(keys: Selection) -> Iterator[tuple[Selection, list[str]]]:
    """Yield the keys, split by the columns in which they are null, with the names of these."""
    assert isinstance(keys.keys, pa.Table)
    nulls = [in_numpy(column.is_null()) for column in keys.keys.columns]
    which = sum((marks.astype(np.int64) << n for n, marks in enumerate(nulls)), np.int64(0))
    for code in np.unique(which).tolist():
        part = replace(keys, keys=keys.keys.filter(pa.array(which == code)))
        yield part, [c.name for n, c in enumerate(keys.columns) if code >> n & 1]


def _reach(footers: Footers, keys: Selection, nulls: Sequence[str]) -> Reach | None:
    """Return which row groups may have the keys; None if nothing is known of them.

    Args:
        keys: keys that are null in the same columns, and in no others.
        nulls: the names of these columns.
    """
    assert isinstance(keys.keys, pa.Table)
    others = tuple(column for column in keys.columns if column.name not in nulls)
    bounds = footers.bounds(replace(keys, columns=others, keys=_key_columns(keys.keys, others)))
    if not bounds and not nulls:
        return None
    groups, count = len(footers.rows), len(keys.keys)
    reach = Reach(np.arange(count), np.zeros(groups, np.int64), np.full(groups, count))
    if bounds:
        reach = reach_of(bounds)
    for name in nulls:
        reach = reach._replace(last=np.where(footers.nulls_in(name), reach.last, reach.first))
    return reach


def _key_columns(keys: pa.Table, columns: Sequence[Column]) -> pa.Table:
    return keys.select([column.name for column in columns])


def _holding(reach: Reach | None, file: Numbers, files: int) -> tuple[Marks, NDArray[np.float64]]:
    """Mark the row groups that may have the keys, and count the keys that each file may have.

    Args:
        file: the file of each row group.

    Returns:
        The marks, and the counts; infinity for files of which nothing is known.
    """
    if reach is None:
        return np.ones(len(file), bool), np.full(files, np.inf)
    groups = reach.first < reach.last
    lowest, highest = np.full(files, np.inf), np.zeros(files)
    np.minimum.at(lowest, file[groups], reach.first[groups])
    np.maximum.at(highest, file[groups], reach.last[groups])
    return groups, np.maximum(highest - lowest, 0)
