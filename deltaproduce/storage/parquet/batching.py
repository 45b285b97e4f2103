"""How row groups are read: by file, in parts for several threads, those of small files together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import groupby
from operator import attrgetter
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deltaproduce.engines.local.arrays import Numbers
from deltaproduce.storage.parquet.readings import ReadAmount
from deltaproduce.storage.parquet.row_groups import Footers, RowGroup

PartReader: TypeAlias = Callable[[Sequence[RowGroup]], tuple[pa.Table, ReadAmount]]
"""Returns rows of some row groups, and the amount that was read for them."""

_SMALL: Final = 1 << 12
"""The most rows of a small file, whose row groups are read together with those of others."""
_SMALL_FILES: Final = 64
"""The most row groups of small files that are read together."""
_ROWS_AT_A_TIME: Final = 1 << 20


def shared_out(groups: Sequence[int], footer: pq.FileMetaData) -> Iterator[list[int]]:
    """Yield the row groups of a file in chunks to read at a time."""
    shares, rows = list[int](), 0
    for group in groups:
        shares.append(group)
        rows += footer.row_group(group).num_rows
        if rows >= _ROWS_AT_A_TIME:
            yield shares
            shares, rows = [], 0
    if shares:
        yield shares


def of_files(groups: Sequence[RowGroup]) -> Iterator[list[RowGroup]]:
    """Yield row groups by file."""
    for _, of_file in groupby(groups, attrgetter("file")):
        yield list(of_file)


def together(footers: Footers, groups: Sequence[RowGroup]) -> Iterator[list[RowGroup]]:
    """Yield row groups by file, but those of small files together: most of their time is calls."""
    small = list[RowGroup]()
    for of_file in of_files(groups):
        footer = footers.files[of_file[0].file]
        if footer.said.num_rows > _SMALL:
            yield of_file
            continue
        small += of_file
        if len(small) >= _SMALL_FILES:
            yield small
            small = []
    if small:
        yield small


def one_by_one(read: PartReader) -> PartReader:
    """Return a reader of row groups of several files, given one for those of one file."""

    def read_all(groups: Sequence[RowGroup]) -> tuple[pa.Table, ReadAmount]:
        tables, amounts = zip(*map(read, of_files(groups)), strict=True)
        return pa.concat_tables(tables), reduce(ReadAmount.and_, amounts)

    return read_all


def parts(footers: Footers, groups: Numbers, rows: int) -> Iterator[list[RowGroup]]:
    """Yield row groups in parts of about so many rows, in the order of the files."""
    before = np.cumsum(footers.rows[groups]) - footers.rows[groups]
    begins = np.flatnonzero(np.diff(before // max(rows, 1))) + 1
    for part in np.split(groups, begins) if len(groups) else ():
        yield [*footers.groups(part)]
