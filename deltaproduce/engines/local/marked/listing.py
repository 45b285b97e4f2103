"""Listings: what a table's state says of its files, in the form in which delta-rs lists them.

Pure, but for vectors that are in files of their own. A listing has ranges of the columns that stand
for whole numbers, which is what look-ups skip files by (`storage.parquet.file_ranges`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local.arrays import Numbers
from deltaproduce.engines.local.marked import vectors
from deltaproduce.engines.local.marked.file_statistics import types_of
from deltaproduce.engines.local.marked.state import TableState
from deltaproduce.types.data_types import StructType
from deltaproduce.types.pandas_on_demand import in_numpy

MARKED: Final = "marked"
"""The name of the column with the numbers of the rows that are marked as deleted."""


def listed(directory: Directory, state: TableState) -> pa.Table:
    """Return the files of a table without partitions, in the order of their paths.

    Returns:
        ``path``, from the table's directory, ``size_bytes``, ``num_records``, structs of columns
        ``min``, ``max`` and ``null_count``, and, if rows are marked as deleted, `MARKED`.

    Raises:
        OSError, ValueError: a deletion vector cannot be read.
    """
    fields = StructType.fromJson(json.loads(state.metadata["schemaString"])).fields
    return with_marks(state.files.listed(types_of(fields)), marked_rows(directory, state))


def marked_rows(directory: Directory, state: TableState) -> dict[str, Numbers]:
    """Return the numbers of the rows that are marked as deleted, in order, by the file's path.

    Raises:
        OSError, ValueError: a deletion vector cannot be read.
    """
    marked = state.files.vectors().items()
    return {path: vectors.read(directory, vector).rows for path, vector in marked}


def with_marks(listed: pa.Table, marked: Mapping[str, Numbers]) -> pa.Table:
    """Return a listing with the column `MARKED`, null for a file without any; only if one has."""
    if not marked:
        return listed
    numbers = [*marked.values()]
    indices = pc.index_in(listed.column("path"), pa.array([*marked], pa.string()))
    rows = in_numpy(pc.fill_null(indices.combine_chunks(), -1))
    places = np.flatnonzero(rows >= 0)
    in_order = [numbers[row] for row in rows[places].tolist()]
    lengths = np.zeros(len(rows), np.int64)
    lengths[places] = [*map(len, in_order)]
    lists = pa.ListArray.from_arrays(
        pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32()),
        pa.array(np.concatenate([np.zeros(0, np.int64), *in_order])),
        mask=pa.array(rows < 0),
    )
    return listed.append_column(MARKED, lists)
