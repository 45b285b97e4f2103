"""Data files: rows as Parquet files of a Delta table, and their entries in its log.

Delta-rs puts all rows of a commit into files as large as possible, and keeps the order only of rows
in one contiguous chunk. So if files end at partitions, or rows do not fit in memory, this module
writes them, part by part, and a commit of delta-rs names them. The invariant: readers cannot tell
the two apart: order, schema, compression and statistics are those of delta-rs.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.transaction import AddAction

from deltaproduce.engines.delta.log import folder_of, logged
from deltaproduce.engines.delta.tables import ROWS_PER_FILE, TableWrite, packed
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local.arrays import Marks, factorize, isin_rows
from deltaproduce.engines.local.large.threads import side_by_side
from deltaproduce.types.columns import Column

_NO_VALUES: Final[Mapping[str, str | None]] = MappingProxyType({})
_NO_COMPRESSION: Final = MappingProxyType({"uncompressed": "none"})
_PIECE_ROWS: Final = 1 << 18
GROUP_ROWS: Final = 1 << 20
"""The most rows of a row group where keys are not looked up."""
_ONE_FILE: Final = 1 << 40
_MOST_TEXT: Final = 64
"""For longer text the log has no range: it would have to be cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayout:
    """How files have their rows.

    Attributes:
        group_rows: the most rows of a row group.
        described: the columns that the log has statistics of.
        differences: the columns of `delta.tables.packed`.
        unique: a column of distinct values, for which no dictionary is tried.
    """

    group_rows: int = GROUP_ROWS
    described: Sequence[Column] = ()
    differences: Sequence[str] = ()
    unique: str | None = None
    compression: str = "snappy"

    def within(self, values: Mapping[str, str | None]) -> FileLayout:
        """Return that of files of a partition, which do not have its columns."""
        return replace(
            self,
            described=[column for column in self.described if column.name not in values],
            differences=[column for column in self.differences if column not in values],
        )


def written(
    directory: Directory,
    rows: pa.Table,
    ends: Sequence[int],
    layout: FileLayout,
    partition: Sequence[Column] = (),
) -> list[AddAction]:
    """Write rows as files, in their order.

    Args:
        ends: the row before which each file ends.
        partition: columns that files do not have: the rows of a file have one value of each.

    Raises:
        OSError: they cannot be written.
    """

    def write(number: int, first: int, end: int) -> AddAction:
        name = f"part-{number:05}-{uuid.uuid4()}-c000.{layout.compression}.parquet"
        part = rows.slice(first, end - first)
        values = {
            column.name: logged(part.column(column.name)[0].as_py(), column.data_type)
            for column in partition
        }
        folder = folder_of(values.items())
        return file_of(
            directory,
            f"{folder}/{name}" if folder else name,
            part.drop_columns([*values]),
            layout.within(values),
            values=values,
        )

    firsts = [0, *ends[:-1]]
    parts = zip(range(len(ends)), firsts, ends, strict=False)
    return [*side_by_side(lambda part: write(*part), parts)]


def of_write(directory: Directory, rows: pa.Table, write: TableWrite) -> list[AddAction]:
    """Write the rows of a write in files, which nobody sees before they are committed.

    Args:
        rows: its rows, as they are stored.

    Raises:
        OSError: they cannot be written.
    """
    ends = ends_of(len(rows), write)
    if write.partition:
        ends = partition_ends(rows, write.partition, write.file_rows or _ONE_FILE)
    layout = FileLayout(
        group_rows=write.group_rows or GROUP_ROWS,
        described=write.lookup,
        differences=packed(write.columns),
        compression=write.compression or "snappy",
    )
    return written(directory, rows, ends, layout, write.partition)


def ends_of(count: int, write: TableWrite) -> tuple[int, ...]:
    """Return the rows before which a file ends, of a write without partitions.

    Args:
        count: the number of its rows.
    """
    return write.file_ends or file_ends_of(count)


def file_ends_of(count: int) -> tuple[int, ...]:
    """Return the rows before which a file ends, if nothing says where."""
    return (*range(ROWS_PER_FILE, count, ROWS_PER_FILE), count)


def partition_ends(rows: pa.Table, partition: Sequence[Column], most: int) -> tuple[int, ...]:
    """Return the rows before which a file ends, for files of one partition and ``most`` rows.

    Args:
        rows: sorted by the partition columns.
    """
    if not len(rows):
        return ()
    codes = factorize(rows.select([column.name for column in partition]).columns)
    begins = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist()]
    ends = [*begins[1:], len(rows)]
    return tuple(
        cut
        for begin, end in zip(begins, ends, strict=True)
        for cut in (*range(begin + most, end, most), end)
    )


def in_partitions(listed: pa.Table, partitions: pa.Table) -> Marks:
    """Mark the files that are in some partitions.

    Args:
        listed: a row for each file, with its values in ``partition``, as delta-rs has them.
        partitions: values of some or all of the partition columns.
    """
    if not len(listed):
        return np.zeros(0, bool)
    structs = listed.column("partition").combine_chunks()
    values = {
        field.name: pc.struct_field(structs, [field.name]).cast(field.type)
        for field in partitions.schema
    }
    return isin_rows(pa.table(values), partitions)


def file_of(
    directory: Directory,
    inside: str,
    rows: pa.Table,
    layout: FileLayout,
    *,
    values: Mapping[str, str | None] = _NO_VALUES,
) -> AddAction:
    """Write rows as one file, in their order, and return its entry for the log.

    Args:
        inside: its path from the table's directory; missing directories are made.
        values: the values of its partition, as the log stores them.

    Raises:
        OSError: it cannot be written.
    """
    has_no_dictionary = {*layout.differences, layout.unique}
    encodings: dict[str, Any] = {
        "use_dictionary": [name for name in rows.column_names if name not in has_no_dictionary],
        "column_encoding": dict.fromkeys(layout.differences, "DELTA_BINARY_PACKED"),
        "store_decimal_as_integer": True,
        "compression": _NO_COMPRESSION.get(layout.compression, layout.compression),
    }
    rows = _with_nulls(rows)
    folder, _, name = inside.rpartition("/")
    place = directory.at(folder) if folder else directory
    with place.parquet_writer(name, rows.schema, **encodings) as writer:
        for piece in _pieces(rows, layout.group_rows):
            writer.write_table(piece, row_group_size=layout.group_rows)
    size, now = place.size(name), int(time.time() * 1000)
    statistics = _statistics(rows, layout.described)
    return AddAction(inside, size, dict(values), now, data_change=True, stats=statistics)


def _with_nulls(rows: pa.Table) -> pa.Table:
    """Return rows whose structs may have nulls in all fields.

    Pyarrow writes no null struct with a field that is NOT NULL: it takes the field for null.
    """
    schema = pa.schema([(field.name, _nullable(field.type)) for field in rows.schema])
    return rows if schema.equals(rows.schema) else rows.cast(schema)


def _nullable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _nullable(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, _nullable(kind.value_type)))
    if pa.types.is_map(kind):
        key = pa.field(kind.key_field.name, kind.key_type, nullable=False)
        return pa.map_(key, pa.field(kind.item_field.name, _nullable(kind.item_type)))
    return kind


def _pieces(rows: pa.Table, group_rows: int) -> Iterator[pa.Table]:
    """Yield the rows in pieces of whole row groups, each a contiguous chunk."""
    size = max(1, _PIECE_ROWS // group_rows) * group_rows
    for start in range(0, max(len(rows), 1), size):
        piece = rows.slice(start, size)
        yield piece.combine_chunks() if len(piece) else piece


def _statistics(rows: pa.Table, described: Sequence[Column]) -> str:
    """Return the log's statistics of one file's rows, as JSON."""
    least, greatest = dict[str, object](), dict[str, object]()
    for column in described:
        values = rows.column(column.name)
        ends = _ends(values)
        if ends is not None:
            least[column.name], greatest[column.name] = ends
    nulls = {column.name: rows.column(column.name).null_count for column in described}
    return json.dumps(
        {"numRecords": len(rows), "minValues": least, "maxValues": greatest, "nullCount": nulls}
    )


def _ends(values: pa.ChunkedArray) -> tuple[object, object] | None:
    """Return the least and the greatest value as the log stores them; None if it has no range."""
    kind = values.type
    is_text = pa.types.is_string(kind)
    if (
        not (pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind))
        and not is_text
    ):
        return None
    try:
        ends = pc.min_max(values).as_py()
    except (OverflowError, ValueError):  # Python has no dates outside of the years 1 to 9999
        return None
    if ends["min"] is None:
        return None
    if is_text and max(len(end.encode()) for end in ends.values()) > _MOST_TEXT:
        return None
    return logged_end(ends["min"]), logged_end(ends["max"])


def logged_end(value: Any) -> object:  # noqa: ANN401 a value of a row
    """Return an end of a range as the log stores it: timestamps are cut to milliseconds."""
    if isinstance(value, datetime):
        zone, plain = "Z" if value.tzinfo else "", value.replace(tzinfo=None)
        return plain.isoformat("T" if zone else " ", timespec="milliseconds") + zone
    return value.isoformat() if isinstance(value, date) else value
