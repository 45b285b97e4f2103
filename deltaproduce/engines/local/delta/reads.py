"""What delta-rs and the log say of a Delta table: files, size, columns, commits, marked rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from deltaproduce.engines.delta.tables import UNTOLD, BrokenLogError, LoggedCommit, TableSize
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local.arrays import Numbers
from deltaproduce.engines.local.handles import Handles, opened_at
from deltaproduce.engines.local.marked import listing
from deltaproduce.engines.local.marked.state import TableStates
from deltaproduce.types.data_types import StructType
from deltaproduce.types.excerpts import one_line
from deltaproduce.types.pandas_on_demand import in_numpy

_PROTECT_NO_COMMITS: Final = frozenset(
    {
        "allowColumnDefaults",
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "generatedColumns",
        "identityColumns",
        "inCommitTimestamp",
        "invariants",
        "rowTracking",
        "timestampNtz",
        "typeWidening",
        "variantType",
    }
)
"""Features of tables that say nothing of which files their logs must keep."""


def files(
    directory: Directory, delta_version: int, handles: Handles, states: TableStates
) -> pa.Table | None:
    """Return the files of a delta version; None if some are outside of the table's directory.

    Args:
        handles: the store's handles, which may include the table's.

    Returns:
        ``path``, from the table's directory, in order, and the log's statistics of each file:
        ``num_records``, and ``min``, ``max`` and ``null_count`` of columns, where the log has them.
        If rows are marked as deleted, `MARKED` has their numbers in each file; ``num_records``
        counts them.

    Raises:
        BrokenLogError: the table does not exist, or not at that version.
    """
    with _reading(directory, delta_version, handles) as table:
        actions = pa.table(table.get_add_actions())
        marked = _marked_by_log(directory, table, states)
    paths = actions.column("path").to_pylist()
    if any("://" in path or path.startswith("/") for path in paths):
        return None
    paths = [unquote(path) for path in paths]
    named = actions.set_column(0, "path", pa.array(paths, pa.string()))
    return listing.with_marks(named.sort_by("path"), marked)


def ranges(
    directory: Directory, delta_version: int, handles: Handles, states: TableStates
) -> pa.Table | None:
    """Return the files of a delta version as `files` does, but perhaps without ranges of texts.

    Where this module replays the log itself, it takes no time to open the table anew.

    Raises:
        BrokenLogError: as for `files`.
    """
    with suppress(BrokenLogError, OSError, ValueError):  # delta-rs says what is wrong
        state = states.at(directory, delta_version)
        if state.is_simple and not state.partition_columns and state.is_inside:
            return listing.listed(directory, state)
    return files(directory, delta_version, handles, states)


def size(directory: Directory, delta_version: int, handles: Handles) -> TableSize:
    """Return the number and bytes of a delta version's files, from the log, with deleted rows.

    Raises:
        BrokenLogError: the table does not exist, or not at that version.
    """
    with _reading(directory, delta_version, handles) as table:
        actions = pa.table(table.get_add_actions())
    return TableSize(len(actions), pc.sum(actions.column("size_bytes"), min_count=0).as_py())


def schema(directory: Directory, delta_version: int, handles: Handles) -> StructType:
    """Return the columns of a delta version.

    Raises:
        BrokenLogError: the table does not exist, or not at that version.
    """
    with _reading(directory, delta_version, handles) as table:
        return StructType.fromJson(json.loads(table.schema().to_json()))


def table_id(directory: Directory) -> str:
    """Return Delta's id of a table, which it keeps wherever it is.

    Raises:
        BrokenLogError: the table does not exist.
    """
    try:
        return str(opened_at(directory).metadata().id)
    except (DeltaError, OSError, ValueError) as error:
        raise BrokenLogError(one_line(error)) from error


def may_lose_commits(directory: Directory) -> bool:
    """Return whether all features of a table are known to protect no old files of its log.

    Others may: `checkpointProtection` does, and `catalogManaged` has commits elsewhere. False for a
    table that delta-rs does not open.
    """
    try:
        protocol = opened_at(directory).protocol()
    except (DeltaError, OSError, ValueError):
        return False
    features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    return features <= _PROTECT_NO_COMMITS


def history(directory: Directory, limit: int | None) -> tuple[LoggedCommit, ...]:
    """Return the newest ``limit`` commits, or all, newest first; none if there is no table.

    Raises:
        BrokenLogError: the log does not describe the table.
    """
    try:
        commits = opened_at(directory).history(limit)
    except TableNotFoundError:
        return ()
    except (DeltaError, OSError, ValueError) as error:
        raise BrokenLogError(one_line(error)) from error
    return tuple(
        LoggedCommit(
            one["version"],
            one.get("userMetadata"),
            one.get("operation") or UNTOLD,
            one.get("timestamp", 0) * 1_000,
        )
        for one in commits
    )


@contextmanager
def _reading(directory: Directory, delta_version: int, handles: Handles) -> Iterator[DeltaTable]:
    try:
        with handles.reading(directory, delta_version) as table:
            yield table
    except (DeltaError, OSError, ValueError) as error:
        raise BrokenLogError(one_line(error)) from error


def has_marks(table: DeltaTable) -> bool:
    """Return whether rows of a table may be marked as deleted, now or in any delta version.

    The protocol says so, which keeps the feature; the property only says whether writers mark more.
    """
    return "deletionVectors" in (table.protocol().reader_features or ())


def has_marked_rows(table: DeltaTable) -> bool:
    """Return whether rows of a table are marked as deleted."""
    return bool(marked_rows(table))


def marked_rows(table: DeltaTable) -> dict[str, Numbers]:
    """Return the numbers of the rows that are marked as deleted, in order, by the file's path.

    The path is relative to the table's directory. Delta-rs makes a mark for each row of these
    files.
    """
    if not has_marks(table):
        return {}
    vectors = pa.table(table.deletion_vectors())
    root = table.table_uri  # the addresses begin with it, and all of them are escaped
    paths = [unquote(path.removeprefix(root)) for path in vectors.column("filepath").to_pylist()]
    alive = vectors.column("selection_vector")
    return {
        path: np.flatnonzero(~in_numpy(of_file.values, bool))
        for path, of_file in zip(paths, alive, strict=True)
    }


def _marked_by_log(
    directory: Directory, table: DeltaTable, states: TableStates
) -> dict[str, Numbers]:
    """Return the result of `marked_rows`, from the log itself if it is read here."""
    if not has_marks(table):
        return {}
    try:
        return listing.marked_rows(directory, states.at(directory, table.version()))
    except (BrokenLogError, OSError, ValueError, KeyError):
        return marked_rows(table)
