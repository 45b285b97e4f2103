"""Rows written to a Delta table without Spark, in one commit.

Spark takes 0.2 s for a commit of a few rows, delta-rs 5 ms. A commit made here is an ordinary Delta
commit (https://github.com/delta-io/delta/blob/master/PROTOCOL.md): it has the schema, the
properties and the statistics of Spark's, and carries the same ``userMetadata``. The invariant: a
write that cannot be made in this way is left to Spark.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Final, Literal
from urllib.parse import unquote

import pyarrow as pa
from deltalake import (
    ColumnProperties,
    DeltaTable,
    Schema,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import RemoveAction, create_table_with_add_actions

from deltaproduce.engines.delta.log import logged
from deltaproduce.engines.delta.tables import APP_ID, RefusedError, TableWrite, Written, packed
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local import data_files
from deltaproduce.engines.local.delta.commits import CHECKPOINTS, committed, properties_of
from deltaproduce.engines.local.delta.reads import has_marks
from deltaproduce.engines.local.handles import Handle, Handles
from deltaproduce.engines.local.marked import writes
from deltaproduce.engines.local.marked.state import TableStates
from deltaproduce.types.conversions import in_arrow_types
from deltaproduce.types.data_types import (
    ArrayType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
)

_ONE_FILE: Final = 1 << 40
_PACKED: Final = ColumnProperties(encoding="DELTA_BINARY_PACKED", dictionary_enabled=False)
_MOST_COLUMNS: Final = 256
"""Of more columns, delta-rs's own files take a time that grows with the square of their number."""


def written(
    directory: Directory,
    write: TableWrite,
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
        delta_version = writes.written(directory, states, rows, write)
        if delta_version is not None:
            return Written(delta_version)
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
    directory: Directory, table: DeltaTable, states: TableStates, rows: pa.Table, write: TableWrite
) -> Written | None:
    """Overwrite a table, or some of its partitions, in a commit of our own, if it serves all."""
    state = states.newest(directory)
    if not state.is_simple:
        return None
    within = None
    if write.within is not None:
        within = set(map(unquote, _files_within(table, write.within)["path"].to_pylist()))
    new_state = writes.overwritten(directory, state, rows, write, within)
    states.keep(directory, new_state)
    return Written(new_state.delta_version)


def _write_whole(
    directory: Directory,
    handles: Handles,
    handle: Handle | None,
    rows: pa.Table,
    write: TableWrite,
    *,
    alone: bool,
    streamed: bool,
) -> bool:
    """Append rows to a table without marked rows, or overwrite or create it."""
    table = None if handle is None else handle.table
    overwritten = None if write.mode == "append" else table
    apart = table is not None and _partition(table) != [c.name for c in write.partition]
    if overwritten is not None and (apart or not _is_as_wanted(overwritten, write)):
        if not alone:
            return False
        if not apart and not write.partition:
            properties = dict(write.properties or {})
            overwritten.alter.set_table_properties(properties, raise_if_not_exists=False)
    by_hand = len(data_files.ends_of(len(rows), write)) > 1 or len(write.columns) > _MOST_COLUMNS
    by_hand = by_hand and (table is None or _has_columns(table, write))
    if streamed or by_hand or apart or write.partition or write.compression is not None:
        _write_files(directory, table, rows, write)
    else:
        _write_one(directory, table, overwritten, rows, write)
    if handle is not None:
        handles.keep(directory, handle)
    return True


def _write_files(
    directory: Directory, existing: DeltaTable | None, rows: pa.Table, write: TableWrite
) -> None:
    """Write rows in files of `data_files`: several, or of rows that do not fit in memory."""
    partition = [c.name for c in write.partition]
    files = data_files.of_write(directory, rows, write)
    next_one = existing is None or write.mode != "append"
    said = properties_of(write.metadata, _transactions(existing, write), next_one=next_one)
    remade = existing is not None and (
        _partition(existing) != partition
        or (bool(partition) and not _is_as_wanted(existing, write))
    )
    if existing is not None and not (remade and write.mode != "append"):
        table = existing
        as_it_is = _has_columns(existing, write)
        schema = existing.schema() if as_it_is else Schema.from_arrow(rows.schema)
        committed(
            lambda: table.create_write_transaction(
                [*files],
                _mode(table, write),
                schema,
                partition or None,
                commit_properties=said,
                post_commithook_properties=CHECKPOINTS,
            )
        )
        return
    committed(
        lambda: create_table_with_add_actions(
            directory.uri,
            Schema.from_arrow(rows.schema),
            files,
            mode="error" if existing is None else "overwrite",
            partition_by=partition or None,
            configuration=write.properties,
            storage_options=directory.storage_options,
            commit_properties=said,
            post_commithook_properties=CHECKPOINTS,
        ),
        made_in=directory if existing is None else None,
    )


def _write_partitions(
    directory: Directory,
    handles: Handles,
    handle: Handle,
    rows: pa.Table,
    write: TableWrite,
    within: pa.Table,
) -> bool:
    """Write rows in place of all rows of some partitions; files of other partitions stay.

    A file is removed by the text of its path. Where Spark has written it, this has no value of a
    partition (`delta.tables.properties`), so that delta-rs spells it as the log does.

    Returns:
        Whether it was done.
    """
    table = handle.table
    alike = _partition(table) == [c.name for c in write.partition] and _has_columns(table, write)
    if not alike:
        return False
    columns, gone = write.partition, _files_within(table, within)
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
    committed(
        lambda: table.create_write_transaction(
            [*removed, *added],
            "append",
            table.schema(),
            [c.name for c in columns],
            commit_properties=properties_of(write.metadata, next_one=True, is_blind=False),
            post_commithook_properties=CHECKPOINTS,
        )
    )
    handles.keep(directory, handle)
    return True


def _files_within(table: DeltaTable, partitions: pa.Table) -> pa.Table:
    """Return what the log says of the files in some partitions."""
    actions = pa.table(table.get_add_actions())
    return actions.filter(pa.array(data_files.in_partitions(actions, partitions)))


def _write_one(
    directory: Directory,
    table: DeltaTable | None,
    overwritten: DeltaTable | None,
    rows: pa.Table,
    write: TableWrite,
) -> None:
    """Write rows as one file, in one chunk: delta-rs loses the order of several."""
    committed(
        lambda: write_deltalake(
            directory.uri if table is None else table,
            rows.combine_chunks() if len(rows) else rows,
            mode=_mode(table, write),
            schema_mode=None if overwritten is None else "overwrite",
            configuration=write.properties if table is None else None,
            storage_options=directory.storage_options,
            target_file_size=_ONE_FILE,
            writer_properties=WriterProperties(
                compression="SNAPPY",
                max_row_group_size=write.group_rows or data_files.GROUP_ROWS,
                column_properties=dict.fromkeys(packed(write.columns), _PACKED),
            ),
            commit_properties=properties_of(
                write.metadata,
                _transactions(table, write),
                next_one=table is None or overwritten is not None,
            ),
            post_commithook_properties=CHECKPOINTS,
        ),
        made_in=directory if table is None else None,
    )


def _plain_rows(write: TableWrite) -> pa.Table | None:
    """Return the rows as they are stored; None if they are in Spark, or not simply written."""
    rows = write.rows
    if not isinstance(rows, pa.Table) or write.predicate is not None:
        return None
    if not all(_is_plain(column.data_type) for column in write.columns):
        return None
    return in_arrow_types(rows, write.columns)


def _is_as_wanted(table: DeltaTable, write: TableWrite) -> bool:
    """Return whether all rows can be overwritten, and nothing else of the table changes."""
    properties = table.metadata().configuration
    return (write.properties is None or properties == dict(write.properties)) and _has_columns(
        table, write
    )


def _partition(table: DeltaTable) -> list[str]:
    """Return the names of the columns that a table is partitioned by."""
    return list(table.metadata().partition_columns)


def _has_columns(table: DeltaTable, write: TableWrite) -> bool:
    """Return whether a table has the columns that are written, in any order."""
    there, written = _fields(table, write)
    return sorted(there, key=_name) == sorted(written, key=_name)


def _moves_columns(table: DeltaTable, write: TableWrite) -> bool:
    """Return whether a write of all rows changes the order of a table's columns, and no more.

    Delta-rs would leave their order as it is.
    """
    there, written = _fields(table, write)
    return write.within is None and there != written and _is_as_wanted(table, write)


def _fields(table: DeltaTable, write: TableWrite) -> tuple[list[Any], list[Any]]:
    """Return the columns of a table, and those that are written, as JSON."""
    struct = StructType([StructField(c.name, c.data_type) for c in write.columns])
    return json.loads(table.schema().to_json())["fields"], struct.jsonValue()["fields"]


def _name(field: Mapping[str, Any]) -> str:
    return str(field["name"])


def _transactions(table: DeltaTable | None, write: TableWrite) -> list[Transaction] | None:
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


def _mode(table: DeltaTable | None, write: TableWrite) -> Literal["append", "overwrite", "error"]:
    """Return the mode in delta-rs's terms; without a table it fails if one has appeared since."""
    if table is None:
        return "error"
    return "append" if write.mode == "append" else "overwrite"


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
