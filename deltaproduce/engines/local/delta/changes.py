"""Changes of a Delta table without Spark: its creation, deletes, restores, properties."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, WriterProperties
from deltalake.exceptions import DeltaError

from deltaproduce.engines.delta.tables import BrokenLogError, RefusedError
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local import data_files
from deltaproduce.engines.local.delta.commits import committed, properties_of
from deltaproduce.engines.local.delta.reads import has_marks
from deltaproduce.engines.local.handles import opened_at
from deltaproduce.engines.local.marked import commits
from deltaproduce.engines.local.marked.state import TableStates, state_at
from deltaproduce.types.excerpts import one_line


def create(directory: Directory, schema: pa.Schema, properties: Mapping[str, str]) -> None:
    """Create an empty table if there is none; if two writers do, one succeeds."""
    said = CommitProperties(max_commit_retries=0)
    with suppress(RefusedError):
        committed(
            lambda: DeltaTable.create(
                directory.uri,
                schema,
                mode="ignore",
                configuration=dict(properties),
                storage_options=directory.storage_options,
                commit_properties=said,
            ),
            made_in=directory,
        )


def deleted(directory: Directory, predicate: str, metadata: str) -> bool:
    """Delete rows by rewriting the files that contain them; no commit if there are none.

    Returns:
        Whether it was done; Spark handles rows that may be marked as deleted.

    Raises:
        RefusedError: another writer was faster.
    """
    try:
        table = opened_at(directory)
    except (DeltaError, OSError, ValueError) as error:
        raise BrokenLogError(one_line(error)) from error
    if has_marks(table):
        return False
    compressed = WriterProperties(compression="SNAPPY", max_row_group_size=data_files.GROUP_ROWS)
    said = properties_of(metadata)
    committed(lambda: table.delete(predicate, compressed, commit_properties=said))
    return True


def restored(directory: Directory, delta_version: int, metadata: str, states: TableStates) -> bool:
    """Restore the rows, columns and properties of an earlier delta version.

    Returns:
        Whether the table is at that state; Spark says what is wrong, and handles tables with
        features that are not known here.
    """
    try:
        table = opened_at(directory)
    except (DeltaError, OSError, ValueError):
        return False
    if has_marks(table):
        try:
            now, then = states.newest(directory), state_at(directory, delta_version)
            if not now.is_simple:
                return False
            changed = commits.restored(directory, now, then)
        except BrokenLogError:
            return False
        if now.delta_version != delta_version:
            states.keep(directory, commits.commit(directory, now, changed, metadata))
        return True
    if table.version() != delta_version:
        committed(lambda: table.restore(delta_version, commit_properties=properties_of(metadata)))
    return True


def set_property(directory: Directory, name: str, value: str, metadata: str) -> None:
    """Set one of the table's properties, in a commit that changes no row."""
    table = opened_at(directory)
    committed(
        lambda: table.alter.set_table_properties(
            {name: value}, raise_if_not_exists=False, commit_properties=properties_of(metadata)
        )
    )
