"""Files of a data set: each has the rows of one partition, sorted, as Parquet.

The invariant: a file has all rows that it is given, in the data set's order, and equal rows as they
came; and nobody sees it until a commit names it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

import pyarrow as pa
from deltalake.transaction import AddAction

from deltaproduce.datasets.tables import DataTable
from deltaproduce.described.descriptor import Description, arrow_fields
from deltaproduce.described.partitions import Values, folder
from deltaproduce.engines.delta.tables import packed
from deltaproduce.engines.local.arrays import in_order
from deltaproduce.engines.local.data_files import FileLayout, file_of
from deltaproduce.engines.local.large.parting import by_ranges, gathered
from deltaproduce.model.limits import Limits


def written(
    table: DataTable,
    descriptor: Description,
    partition: Values,
    parts: Sequence[pa.Table],
    limits: Limits,
) -> AddAction:
    """Write the rows of one file.

    Args:
        parts: tables in the data set's columns; if they do not fit in memory, they are sorted in
            parts.

    Raises:
        StorageError: the file cannot be written.
    """
    rows = _sorted(pa.concat_tables(parts), descriptor, limits)
    schema = arrow_fields(descriptor.in_files)
    arrays = [_as_stored(rows.column(field.name), field.type) for field in schema]
    stored = pa.Table.from_arrays(arrays, schema=schema)
    by = descriptor.partitions
    place = folder(partition, by)
    name = f"part-{uuid.uuid4()}.{descriptor.compression}.parquet"
    layout = FileLayout(
        described=descriptor.in_files,
        differences=packed(descriptor.in_files),
        compression=descriptor.compression,
    )
    with table.effect("write"):
        return file_of(
            table.directory,
            f"{place}/{name}" if place else name,
            stored,
            layout,
            values=dict(zip((one.column.name for one in by), partition, strict=True)),
        )


def _as_stored(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return values if values.type == kind else values.cast(kind)


def discard(table: DataTable, files: Iterable[AddAction]) -> None:
    """Delete files that no commit names."""
    for file in files:
        with table.effect("discard"):
            table.directory.remove_file(file.path)


def _sorted(rows: pa.Table, descriptor: Description, limits: Limits) -> pa.Table:
    order = descriptor.in_order
    if not order:
        return rows
    if limits.is_one_part(len(rows), rows.nbytes):
        return in_order(rows, order)
    return gathered((in_order(part, order) for (part,) in by_ranges([rows], order, limits)), limits)
