"""Delta tables without Spark: small commits, and the files of a table, by delta-rs.

Spark takes 0.2 s for a commit of a few rows, delta-rs 5 ms. A commit made here is an ordinary Delta
commit (https://github.com/delta-io/delta/blob/master/PROTOCOL.md): it has the schema, the
properties and the statistics of Spark's, and carries the same ``userMetadata``. The invariant: a
commit that delta-rs cannot make in this way is left to Spark.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, Literal, TypeVar
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import (
    ColumnProperties,
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Schema,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import RemoveAction, create_table_with_add_actions

from deltaproduce.engines.delta_log import logged
from deltaproduce.engines.delta_tables import (
    APP_ID,
    UNTOLD,
    BrokenLogError,
    LoggedCommit,
    RefusedError,
    TableSize,
    Write,
    Written,
    packed,
)
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local import data_files
from deltaproduce.engines.local.arrays import Numbers
from deltaproduce.engines.local.handles import Handle, Handles, opened_at
from deltaproduce.engines.local.marked import commits, listing, writes
from deltaproduce.engines.local.marked.state import TableStates, state_at
from deltaproduce.types.conversions import in_arrow_types
from deltaproduce.types.data_types import (
    ArrayType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
)
from deltaproduce.types.excerpts import one_line
from deltaproduce.types.pandas_on_demand import in_numpy

_Outcome = TypeVar("_Outcome")

_ONE_FILE: Final = 1 << 40
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

_PACKED: Final = ColumnProperties(encoding="DELTA_BINARY_PACKED", dictionary_enabled=False)
_MOST_COLUMNS: Final = 256
"""Of more columns, delta-rs's own files take a time that grows with the square of their number."""
_CHECKPOINTS: Final = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
"""Checkpoints are made as the table's properties say; expired log entries are not removed.

No entry expires: a vacuum removes them by need. And a search takes as long as the commit.
"""


def written(
    directory: Directory,
    write: Write,
    handles: Handles,
    states: TableStates,
    *,
    alone: bool = False,
    streamed: bool = False,
) -> Written | None:
    """Write rows in their order, if it can be done here as Spark would.

    Only Spark writes columns that Delta has no plain type for, and changes an existing table's
    properties in the commit that writes its rows, unless its rows may be marked as deleted.

    Args:
        handles: the store's handles, which may include the table's.
        states: the store's states of tables, likewise.
        alone: there is no Spark, so a separate commit sets the properties first.
        streamed: the rows do not fit in memory.

    Returns:
        What it made; None if it was not done.

    Raises:
        RefusedError: another writer was faster: rows that are to be all of a table, or its first,
            replace what was read, or nothing.
    """
    rows = _plain_rows(write)
    if rows is None:
        return None
    if write.mode == "append":
        made = writes.written(directory, states, rows, write)
        if made is not None:
            return Written(made)
    try:
        handle = handles.newest(directory)
    except TableNotFoundError:
        handle = None
    except (DeltaError, OSError, ValueError):
        return None  # Spark says what is wrong
    if handle is not None and write.mode != "append":
        marked = has_marks(handle.table)
        if marked or (_moves_columns(handle.table, write) and directory.file_system.keeps_first):
            overwritten = _overwritten(directory, handle.table, states, rows, write)
            if marked or overwritten is not None:
                return overwritten
    if handle is not None and write.within is not None:
        is_done = _write_partitions(directory, handles, handle, rows, write, write.within)
    else:
        is_done = _write_whole(
            directory, handles, handle, rows, write, alone=alone, streamed=streamed
        )
    return Written() if is_done else None


def _overwritten(
    directory: Directory, table: DeltaTable, states: TableStates, rows: pa.Table, write: Write
) -> Written | None:
    """Overwrite a table, or some of its partitions, in a commit of our own, if it serves all."""
    state = states.newest(directory)
    if not state.is_simple:
        return None
    within = None
    if write.within is not None:
        within = set(map(unquote, _files_within(table, write.within)["path"].to_pylist()))
    made = writes.overwritten(directory, state, rows, write, within)
    states.keep(directory, made)
    return Written(made.delta_version)


def _write_whole(
    directory: Directory,
    handles: Handles,
    handle: Handle | None,
    rows: pa.Table,
    write: Write,
    *,
    alone: bool,
    streamed: bool,
) -> bool:
    """Append rows to a table without marked rows, or overwrite or create it."""
    found = None if handle is None else handle.table
    overwritten = None if write.mode == "append" else found
    apart = found is not None and _partition(found) != [c.name for c in write.partition]
    if overwritten is not None and (apart or not _is_as_wanted(overwritten, write)):
        if not alone:
            return False
        if not apart and not write.partition:
            properties = dict(write.properties or {})
            overwritten.alter.set_table_properties(properties, raise_if_not_exists=False)
    by_hand = len(data_files.ends_of(len(rows), write)) > 1 or len(write.columns) > _MOST_COLUMNS
    by_hand = by_hand and (found is None or _has_columns(found, write))
    if streamed or by_hand or apart or write.partition or write.compression is not None:
        _write_files(directory, found, rows, write)
    else:
        _write_one(directory, found, overwritten, rows, write)
    if handle is not None:
        handles.keep(directory, handle)
    return True


def _write_files(
    directory: Directory, found: DeltaTable | None, rows: pa.Table, write: Write
) -> None:
    """Write rows in files of `data_files`: several, or of rows that do not fit in memory."""
    partition = [c.name for c in write.partition]
    files = data_files.of_write(directory, rows, write)
    next_one = found is None or write.mode != "append"
    said = _said(write.metadata, _transactions(found, write), next_one=next_one)
    remade = found is not None and (
        _partition(found) != partition or (bool(partition) and not _is_as_wanted(found, write))
    )
    if found is not None and not (remade and write.mode != "append"):
        table = found
        as_it_is = _has_columns(found, write)
        schema = found.schema() if as_it_is else Schema.from_arrow(rows.schema)
        _committed(
            lambda: table.create_write_transaction(
                [*files],
                _mode(table, write),
                schema,
                partition or None,
                commit_properties=said,
                post_commithook_properties=_CHECKPOINTS,
            )
        )
        return
    _committed(
        lambda: create_table_with_add_actions(
            directory.uri,
            Schema.from_arrow(rows.schema),
            files,
            mode="error" if found is None else "overwrite",
            partition_by=partition or None,
            configuration=write.properties,
            storage_options=directory.storage_options,
            commit_properties=said,
            post_commithook_properties=_CHECKPOINTS,
        ),
        made_in=directory if found is None else None,
    )


def _write_partitions(
    directory: Directory,
    handles: Handles,
    handle: Handle,
    rows: pa.Table,
    write: Write,
    within: pa.Table,
) -> bool:
    """Write rows in place of all rows of some partitions; files of other partitions stay.

    A file is removed by the text of its path. Where Spark has written it, this has no value of a
    partition (`delta_tables.properties`), so that delta-rs spells it as the log does.

    Returns:
        Whether it was done.
    """
    found = handle.table
    alike = _partition(found) == [c.name for c in write.partition] and _has_columns(found, write)
    if not alike:
        return False
    columns, gone = write.partition, _files_within(found, within)
    now = int(time.time() * 1000)
    removed = [
        RemoveAction(
            unquote(file["path"]),
            True,
            now,
            file["size_bytes"],
            {c.name: logged(file["partition"][c.name], c.data_type) for c in columns},
        )
        for file in gone.select(["path", "size_bytes", "partition"]).to_pylist()
    ]
    added = data_files.of_write(directory, rows, write)
    _committed(
        lambda: found.create_write_transaction(
            [*removed, *added],
            "append",
            found.schema(),
            [c.name for c in columns],
            commit_properties=_said(write.metadata, next_one=True, is_blind=False),
            post_commithook_properties=_CHECKPOINTS,
        )
    )
    handles.keep(directory, handle)
    return True


def _files_within(table: DeltaTable, partitions: pa.Table) -> pa.Table:
    """Return what the log says of the files in some partitions."""
    told = pa.table(table.get_add_actions())
    return told.filter(pa.array(data_files.in_partitions(told, partitions)))


def _write_one(
    directory: Directory,
    found: DeltaTable | None,
    overwritten: DeltaTable | None,
    rows: pa.Table,
    write: Write,
) -> None:
    """Write rows as one file, in one chunk: delta-rs loses the order of several."""
    _committed(
        lambda: write_deltalake(
            directory.uri if found is None else found,
            rows.combine_chunks() if len(rows) else rows,
            mode=_mode(found, write),
            schema_mode=None if overwritten is None else "overwrite",
            configuration=write.properties if found is None else None,
            storage_options=directory.storage_options,
            target_file_size=_ONE_FILE,
            writer_properties=WriterProperties(
                compression="SNAPPY",
                max_row_group_size=write.group_rows or data_files.GROUP_ROWS,
                column_properties=dict.fromkeys(packed(write.columns), _PACKED),
            ),
            commit_properties=_said(
                write.metadata,
                _transactions(found, write),
                next_one=found is None or overwritten is not None,
            ),
            post_commithook_properties=_CHECKPOINTS,
        ),
        made_in=directory if found is None else None,
    )


def create(directory: Directory, schema: pa.Schema, properties: Mapping[str, str]) -> None:
    """Create an empty table if there is none; if two writers do, one succeeds."""
    said = CommitProperties(max_commit_retries=0)
    with suppress(RefusedError):
        _committed(
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
        found = opened_at(directory)
    except (DeltaError, OSError, ValueError) as error:
        raise BrokenLogError(one_line(error)) from error
    if has_marks(found):
        return False
    compressed = WriterProperties(compression="SNAPPY", max_row_group_size=data_files.GROUP_ROWS)
    said = _said(metadata)
    _committed(lambda: found.delete(predicate, compressed, commit_properties=said))
    return True


def restored(directory: Directory, delta_version: int, metadata: str, states: TableStates) -> bool:
    """Restore the rows, columns and properties of an earlier delta version.

    Returns:
        Whether the table is at that state; Spark says what is wrong, and handles tables with
        features that are not known here.
    """
    try:
        found = opened_at(directory)
    except (DeltaError, OSError, ValueError):
        return False
    if has_marks(found):
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
    if found.version() != delta_version:
        _committed(lambda: found.restore(delta_version, commit_properties=_said(metadata)))
    return True


def set_property(directory: Directory, name: str, value: str, metadata: str) -> None:
    """Set one of the table's properties, in a commit that changes no row."""
    found = opened_at(directory)
    _committed(
        lambda: found.alter.set_table_properties(
            {name: value}, raise_if_not_exists=False, commit_properties=_said(metadata)
        )
    )


def optimize(directory: Directory) -> None:
    """Compact small files into large ones."""
    found = opened_at(directory)
    _committed(lambda: found.optimize.compact())


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
    with _reading(directory, delta_version, handles) as found:
        told = pa.table(found.get_add_actions())
        marked = _marked_by_log(directory, found, states)
    paths = told.column("path").to_pylist()
    if any("://" in path or path.startswith("/") for path in paths):
        return None
    paths = [unquote(path) for path in paths]
    named = told.set_column(0, "path", pa.array(paths, pa.string()))
    return listing.with_marks(named, paths, marked).sort_by("path")


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
    with _reading(directory, delta_version, handles) as found:
        told = pa.table(found.get_add_actions())
    return TableSize(len(told), pc.sum(told.column("size_bytes"), min_count=0).as_py())


def schema(directory: Directory, delta_version: int, handles: Handles) -> StructType:
    """Return the columns of a delta version.

    Raises:
        BrokenLogError: the table does not exist, or not at that version.
    """
    with _reading(directory, delta_version, handles) as found:
        return StructType.fromJson(json.loads(found.schema().to_json()))


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
        found = opened_at(directory).history(limit)
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
        for one in found
    )


@contextmanager
def _reading(directory: Directory, delta_version: int, handles: Handles) -> Iterator[DeltaTable]:
    try:
        with handles.reading(directory, delta_version) as found:
            yield found
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
    told = pa.table(table.deletion_vectors())
    root = table.table_uri  # the addresses begin with it, and all of them are escaped
    paths = [unquote(path.removeprefix(root)) for path in told.column("filepath").to_pylist()]
    alive = told.column("selection_vector")
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


def _plain_rows(write: Write) -> pa.Table | None:
    """Return the rows as they are stored; None if they are in Spark, or not simply written."""
    rows = write.rows
    if not isinstance(rows, pa.Table) or write.predicate is not None:
        return None
    if not all(_is_plain(column.data_type) for column in write.columns):
        return None
    return in_arrow_types(rows, write.columns)


def _is_as_wanted(table: DeltaTable, write: Write) -> bool:
    """Return whether all rows can be overwritten, and nothing else of the table changes."""
    properties = table.metadata().configuration
    return (write.properties is None or properties == dict(write.properties)) and _has_columns(
        table, write
    )


def _partition(table: DeltaTable) -> list[str]:
    """Return the names of the columns that a table is partitioned by."""
    return list(table.metadata().partition_columns)


def _has_columns(table: DeltaTable, write: Write) -> bool:
    """Return whether a table has the columns that are written, in any order."""
    there, written = _fields(table, write)
    return sorted(there, key=_name) == sorted(written, key=_name)


def _moves_columns(table: DeltaTable, write: Write) -> bool:
    """Return whether a write of all rows changes the order of a table's columns, and no more.

    Delta-rs would leave their order as it is.
    """
    there, written = _fields(table, write)
    return write.within is None and there != written and _is_as_wanted(table, write)


def _fields(table: DeltaTable, write: Write) -> tuple[list[Any], list[Any]]:
    """Return the columns of a table, and those that are written, as JSON."""
    struct = StructType([StructField(c.name, c.data_type) for c in write.columns])
    return json.loads(table.schema().to_json())["fields"], struct.jsonValue()["fields"]


def _name(field: Mapping[str, Any]) -> str:
    return str(field["name"])


def _transactions(table: DeltaTable | None, write: Write) -> list[Transaction] | None:
    """Return the fencing token in Delta's form.

    Raises:
        RefusedError: an earlier commit has it.
    """
    if write.fence is None:
        return None
    last = None if table is None else table.transaction_version(APP_ID)
    if last is not None and last >= write.fence:
        raise RefusedError(f"a commit with the fencing token {last} was made before")
    return [Transaction(APP_ID, write.fence)]


def _mode(table: DeltaTable | None, write: Write) -> Literal["append", "overwrite", "error"]:
    """Return the mode in delta-rs's terms; without a table it fails if one has appeared since."""
    if table is None:
        return "error"
    return "append" if write.mode == "append" else "overwrite"


def _said(
    metadata: str,
    transactions: list[Transaction] | None = None,
    *,
    next_one: bool = False,
    is_blind: bool | None = None,
) -> CommitProperties:
    """Return the properties of a commit.

    Delta-rs retries a commit that lost to another one, on top of it, if that can make sense: a
    first commit becomes one that adds rows, an overwrite keeps the rows added meanwhile.

    Args:
        next_one: the commit has to directly follow the state that was read, and is not retried; nor
            is one with a token.
        is_blind: whether it depends on no state; as delta-rs thinks if None.
    """
    retries = 0 if next_one or transactions is not None else None
    told: dict[str, Any] = {"userMetadata": metadata}
    if is_blind is not None:
        told["isBlindAppend"] = is_blind
    return CommitProperties(told, retries, transactions)


def _committed(commit: Callable[[], _Outcome], *, made_in: Directory | None = None) -> _Outcome:
    """Return the result of a commit.

    Args:
        made_in: the directory of a new table; None if the table exists.

    Raises:
        RefusedError: another writer was faster.
    """
    try:
        return commit()
    except DeltaError as error:
        is_refused = isinstance(error, CommitFailedError) or (
            made_in is not None and DeltaTable.is_deltatable(made_in.uri, made_in.storage_options)
        )
        if not is_refused:
            raise
        refused = RefusedError(one_line(error))
        raise refused from error


def _is_plain(data_type: DataType) -> bool:
    """Return whether Delta stores a type as Arrow does, nullable wherever it has parts."""
    match data_type:
        case StructType(fields=fields):
            return all(_is_plain(field.dataType) for field in fields)
        case ArrayType(elementType=element, containsNull=nullable):
            return nullable and _is_plain(element)
        case MapType(keyType=key, valueType=value, valueContainsNull=nullable):
            return nullable and _is_plain(key) and _is_plain(value)
        case StringType():
            return data_type == StringType()  # without a collation, or a length
    return True
