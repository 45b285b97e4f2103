"""Writes as commits of our own: see `commits`.

The invariant: what is written has the order, the files and the statistics of any other write.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Final

import pyarrow as pa

from deltaproduce.engines.delta.tables import BrokenLogError, RefusedError, TableWrite
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local import data_files
from deltaproduce.engines.local.marked.commits import CommitChanges, commit, commit_on_top
from deltaproduce.engines.local.marked.state import TableState, TableStates
from deltaproduce.engines.local.marked.table_files import Action
from deltaproduce.types.data_types import StructField, StructType

_NOT_NULL: Final = '"nullable":false'


def written(
    directory: Directory, states: TableStates, rows: pa.Table, write: TableWrite
) -> int | None:
    """Write rows to a table that has others, in a commit of our own.

    Args:
        states: of the store's tables.

    Returns:
        The delta version that it made; None if it was not done. Then rows are to be added, and
        there may be no table, or one whose log is not read here, or where a commit has more to do.

    Raises:
        RefusedError: see `replaced` and `appended`.
    """
    is_plain = write.replaced is None and not write.merged
    try:
        state = states.newest(directory)
    except BrokenLogError:
        if is_plain:
            return None
        raise
    if is_plain and not (state.is_simple and fits(state, write)):
        return None
    commit = (
        appended(directory, states, state, rows, write)
        if is_plain
        else replaced(directory, state, rows, write)
    )
    states.keep(directory, commit)
    return commit.delta_version


def fits(state: TableState, write: TableWrite) -> bool:
    """Return whether a write of all columns needs no other columns or partitions of a table.

    A null struct whose fields are NOT NULL is better written by delta-rs: pyarrow reads its files,
    and not those of its own.
    """
    struct = StructType([StructField(c.name, c.data_type) for c in write.columns])
    partition = [column.name for column in write.partition]
    if state.partition_columns != partition or _NOT_NULL in struct.json():
        return False
    there = {field["name"]: field for field in json.loads(state.metadata["schemaString"])["fields"]}
    written = struct.jsonValue()["fields"]
    return len(there) == len(written) and all(there.get(f["name"]) == f for f in written)


def has_not_null(state: TableState) -> bool:
    """Return whether a struct of a table has fields that are NOT NULL; see `fits`."""
    return _NOT_NULL in state.metadata["schemaString"]


def appended(
    directory: Directory, states: TableStates, state: TableState, rows: pa.Table, write: TableWrite
) -> TableState:
    """Add rows to a table, whatever rows others add or remove meanwhile, and return its state.

    Args:
        states: of the store's tables.
        state: the table's current state, which the write `fits`.

    Raises:
        RefusedError: see `commit_on_top`.
    """
    added = data_files.of_write(directory, rows, write) if len(rows) else []
    changed = CommitChanges(added=added, operation="WRITE", is_blind=True, fence=write.fence)
    return commit_on_top(directory, states, state, changed, write.metadata)


def replaced(
    directory: Directory, state: TableState, rows: pa.Table, write: TableWrite
) -> TableState:
    """Add rows in place of marked ones (`TableWrite.replaced`), or of files (`TableWrite.merged`).

    Args:
        state: the table's current state.

    Raises:
        RefusedError: the table is not at the delta version in which they were found, or another
            writer was faster.
    """
    if write.located_at is not None and state.delta_version != write.located_at:
        raise RefusedError(f"the table was at delta version {write.located_at}, and has moved")
    changed = CommitChanges(
        added=data_files.of_write(directory, rows, write) if len(rows) else [],
        removed=[*state.files.of_paths(write.merged).values()],
        marked=write.replaced,
        operation="OPTIMIZE" if write.merged else "MERGE",
        changes_rows=not write.merged,
    )
    return commit(directory, state, changed, write.metadata)


def overwritten(
    directory: Directory,
    state: TableState,
    rows: pa.Table,
    write: TableWrite,
    paths: Collection[str] | None = None,
) -> TableState:
    """Write rows in place of all rows of a table, or of those in some of its files.

    Args:
        paths: these files; all if None.

    Raises:
        RefusedError: another writer was faster.
    """
    files = state.files
    changed = CommitChanges(
        added=data_files.of_write(directory, rows, write),
        removed=[*(files if paths is None else files.of_paths(paths).values())],
        metadata=None if paths is not None else _metadata(state, write),
        operation="WRITE",
    )
    return commit(directory, state, changed, write.metadata)


def _metadata(state: TableState, write: TableWrite) -> Action | None:
    """Return a table's metadata if a write changes its columns, partitions or properties."""
    struct = StructType([StructField(c.name, c.data_type) for c in write.columns])
    metadata = {
        **state.metadata,
        "schemaString": struct.json(),
        "partitionColumns": [column.name for column in write.partition],
    }
    if write.mode == "create":
        metadata["configuration"] = dict(write.properties or {})
    return None if metadata == state.metadata else metadata
