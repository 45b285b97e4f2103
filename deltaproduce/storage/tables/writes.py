"""An edit of a table as a write of Delta's."""

from __future__ import annotations

from dataclasses import replace

from deltaproduce.engines.delta.tables import TableWrite, properties
from deltaproduce.storage.edits import Edit
from deltaproduce.storage.tables.access import TableAccess


def as_write(edit: Edit, metadata: str, access: TableAccess, *, is_known: bool) -> TableWrite:
    """Return an edit as a write of Delta's.

    Args:
        is_known: the table has the properties that tables get here, so an overwrite keeps them.
    """
    limits, small = access.engines.limits, edit.sought and access.root.directory is not None
    write = TableWrite(
        edit.rows,
        edit.columns,
        "append",
        metadata,
        file_rows=edit.file_rows,
        group_rows=limits.rows_of_group(by_ends=edit.by_ends) if small else None,
        file_ends=edit.file_ends,
        lookup=edit.lookup,
        partition=edit.partition,
        compression=edit.compression,
        within=edit.within,
    )
    if edit.predicate is not None:
        return replace(write, mode="replace", predicate=edit.predicate)
    if not edit.overwrite:
        return write
    if edit.within is not None:
        return replace(write, mode="overwrite")
    made_with = properties(edit.lookup, marked=edit.marked, partitioned=bool(edit.partition))
    is_kept = is_known and not edit.apart
    return replace(write, mode="overwrite" if is_kept else "create", properties=made_with)
