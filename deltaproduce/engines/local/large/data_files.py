"""Data files: rows that do not fit in memory, written as one Parquet file in their order.

Delta-rs keeps the order of rows that lie in one piece of memory, and of no others. So large rows
are written here, part by part, and delta-rs commits the file. The invariant: the file has the rows
in their order, in row groups of the size that is asked for, and what is said of it is true.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from deltaproduce.engines.delta_tables import Write, packed
from deltaproduce.engines.file_systems.directory import Directory

_PART_ROWS: Final = 1 << 18
_LONGEST: Final = 32
"""Of longer texts the least and the greatest are not told."""


def written_file(directory: Directory, write: Write, rows: pa.Table, group_rows: int) -> AddAction:
    """Write rows as a file of a table.

    Args:
        write: what says of the table which columns it has.
        rows: in their types.
        group_rows: a row group has at most so many.

    Returns:
        What a commit says of it.

    Raises:
        OSError: it cannot be written.
    """
    name = f"part-00000-{uuid4()}-c000.snappy.parquet"
    collected: list[pq.FileMetaData] = []
    encodings = _encodings(write)
    with directory.parquet_writer(name, rows.schema, collected, **encodings) as writer:
        for part in _parts(rows, group_rows):
            writer.write_table(part, row_group_size=group_rows)
    (footer,) = collected
    return AddAction(
        path=name,
        size=directory.size(name),
        partition_values={},
        modification_time=time.time_ns() // 1_000_000,
        data_change=True,
        stats=json.dumps(_statistics(footer)),
    )


def _encodings(write: Write) -> dict[str, Any]:
    """How columns are stored, as delta-rs is told to store them (`delta_tables.packed`)."""
    differences = packed(write.columns)
    return {
        "column_encoding": dict.fromkeys(differences, "DELTA_BINARY_PACKED"),
        "use_dictionary": [c.name for c in write.columns if c.name not in differences],
        "store_decimal_as_integer": True,
    }


def _parts(rows: pa.Table, group_rows: int) -> Iterator[pa.Table]:
    """The rows in pieces of whole row groups, each in one piece of memory."""
    size = max(1, _PART_ROWS // group_rows) * group_rows
    for start in range(0, max(len(rows), 1), size):
        part = rows.slice(start, size)
        yield part.combine_chunks() if len(part) else part


def _statistics(footer: pq.FileMetaData) -> dict[str, Any]:
    """What Delta's log says of a file, of columns whose values are numbers or short texts."""
    found: dict[str, Any] = {"numRecords": footer.num_rows}
    ends: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    nulls: dict[str, int] = {}
    groups = [footer.row_group(group) for group in range(footer.num_row_groups)]
    for place in range(footer.num_columns):
        column = footer.schema.column(place)
        told = [group.column(place).statistics for group in groups if group.num_rows]
        if column.path != column.name or any(one is None for one in told):
            continue
        nulls[column.name] = sum(one.null_count for one in told)
        known = [one for one in told if one.has_min_max]
        if not known or column.logical_type.type not in ("NONE", "INT", "STRING"):
            continue
        least, greatest = min(one.min for one in known), max(one.max for one in known)
        if _is_told(least) and _is_told(greatest):
            ends[0][column.name], ends[1][column.name] = least, greatest
    return {**found, "minValues": ends[0], "maxValues": ends[1], "nullCount": nulls}


def _is_told(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST
    return isinstance(value, int) and not isinstance(value, bool)
