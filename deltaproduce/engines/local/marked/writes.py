"""Writes as commits of our own: see `commits`.

The invariant: what is written has the order, the files and the statistics of any other write.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Final

import pyarrow as pa

from deltaproduce.engines.delta.tables import BrokenLogError, RefusedError, Write
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local import data_files
from deltaproduce.engines.local.marked.commits import Changed, commit
from deltaproduce.engines.local.marked.state import Action, TableState, TableStates, path_of
from deltaproduce.types.data_types import StructField, StructType

_MOST_TRIES: Final = 15
_NOT_NULL: Final = '"nullable":false'


def written(directory: Directory, states: TableStates, rows: pa.Table, write: Write) -> int | None:
    """Write rows to a table that has others, in a commit of our own.

    Args:
        states: of the store's tables.

    Returns:
        The delta version that it made; None if it was not done. Then rows are to be added, and
        there may be no table, or one whose log is not read here, or where a commit has more to do.

    Raises:
        RefusedError: see `placed` and `appended`.
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
    made = (
        appended(directory, states, state, rows, write)
        if is_plain
        else placed(directory, state, rows, write)
    )
    states.keep(directory, made)
    return made.delta_version


def fits(state: TableState, write: Write) -> bool:
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


def appended(
    directory: Directory, states: TableStates, state: TableState, rows: pa.Table, write: Write
) -> TableState:
    """Add rows to a table, whatever rows others add or remove meanwhile, and return its state.

    With a fencing token, nobody else may commit meanwhile: two commits with the same one would not
    see each other.

    Args:
        states: of the store's tables.
        state: the table's current state, which the write `fits`.

    Raises:
        RefusedError: another writer has the token, or has changed the table's columns or features.
    """
    added = data_files.of_write(directory, rows, write) if len(rows) else []
    changed = Changed(added=added, operation="WRITE", is_blind=True, fence=write.fence)
    tries = 1 if write.fence is not None else _MOST_TRIES
    for left in reversed(range(tries)):
        try:
            return commit(directory, state, changed, write.metadata)
        except RefusedError:
            if not left:
                raise
            state, before = states.newest(directory), state
            if (state.protocol, state.metadata) != (before.protocol, before.metadata):
                raise
    raise AssertionError(tries)


def placed(directory: Directory, state: TableState, rows: pa.Table, write: Write) -> TableState:
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
    return commit(directory, state, changed, write.metadata)


def overwritten(
    directory: Directory,
    state: TableState,
    rows: pa.Table,
    write: Write,
    paths: Collection[str] | None = None,
) -> TableState:
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
    return commit(directory, state, changed, write.metadata)


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
