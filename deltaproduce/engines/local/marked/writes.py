"""Writes to tables whose rows may be marked, as commits of our own: see `commits`.

The invariant: what is written has the order, the files and the statistics of any other write.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from deltaproduce.engines.delta_tables import RefusedError, Write
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local import data_files
from deltaproduce.engines.local.marked.commits import Changed, commit
from deltaproduce.engines.local.marked.state import Action, TableState, path_of


def placed(directory: Directory, state: TableState, rows: pa.Table, write: Write) -> None:
    """Add rows in place of those that are marked (`Write.replaced`), or of files (`Write.merged`).

    Args:
        state: the table's current state.

    Raises:
        RefusedError: the table is not at the delta version in which they were found, or another
            writer was faster.
    """
    if write.found_at is not None and state.delta_version != write.found_at:
        raise RefusedError(f"the table was at delta version {write.found_at}, and has moved")
    changed = Changed(
        added=data_files.of_write(directory, rows, write) if len(rows) else [],
        removed=[add for add in state.files.values() if path_of(add) in write.merged],
        marked=write.replaced,
        operation="OPTIMIZE" if write.merged else "MERGE",
        changes_rows=not write.merged,
    )
    commit(directory, state, changed, write.metadata)


def overwritten(
    directory: Directory,
    state: TableState,
    rows: pa.Table,
    write: Write,
    paths: Collection[str] | None = None,
) -> None:
    """Write rows in place of all rows of a table, or of those in some of its files.

    Args:
        paths: these files; all if None.

    Raises:
        RefusedError: another writer was faster.
    """
    files = state.files.values()
    changed = Changed(
        added=data_files.of_write(directory, rows, write),
        removed=[add for add in files if paths is None or path_of(add) in paths],
        metadata=None if paths is not None else _metadata(state, write),
        operation="WRITE",
    )
    commit(directory, state, changed, write.metadata)


def _metadata(state: TableState, write: Write) -> Action | None:
    """Return a table's metadata if a write changes its columns, partitions or properties."""
    struct = StructType([StructField(c.name, c.data_type) for c in write.columns])
    found = {
        **state.metadata,
        "schemaString": struct.json(),
        "partitionColumns": [column.name for column in write.partition],
    }
    if write.mode == "create":
        found["configuration"] = dict(write.properties or {})
    return None if found == state.metadata else found
