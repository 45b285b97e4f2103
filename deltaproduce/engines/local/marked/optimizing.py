"""Compaction: small files of a table become large ones, in a commit of our own; see `commits`.

Delta-rs's does not notice that another writer has removed the same files meanwhile, so that the
table would have their rows twice, or again. The invariant: the table has the same rows after the
commit as before it, whatever others commit meanwhile: it removes exactly the files whose rows it
adds, or it is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import pyarrow as pa
from deltalake.transaction import AddAction

from deltaproduce.engines.delta.tables import packed
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local.data_files import FileLayout, file_ends_of, written
from deltaproduce.engines.local.marked.commits import CommitChanges, commit_on_top
from deltaproduce.engines.local.marked.state import TableState, TableStates
from deltaproduce.engines.local.marked.table_files import VECTOR, Action, file_of, path_of
from deltaproduce.engines.local.marked.writes import has_not_null
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import Column
from deltaproduce.types.conversions import in_arrow_types
from deltaproduce.types.data_types import StructType

_LARGE_BYTES: Final = 100 << 20
"""A file of this size is not compacted; files are, until they have it together."""


def optimized(directory: Directory, states: TableStates) -> None:
    """Compact the small files of a table; the rows of earlier files come first.

    Nothing is done to a table with partitions, with features that are Spark's alone, or with fields
    that are NOT NULL (`writes.fits`).

    Args:
        states: of the store's tables.

    Raises:
        RefusedError: another writer has removed a file meanwhile, or changed the table.
    """
    state = states.newest(directory)
    if state.partition_columns or not state.is_simple or has_not_null(state):
        return
    groups = [*_groups(state)]
    removed = [action for group in groups for action in group]
    if not removed:
        return
    added = [one for group in groups for one in _merged(directory, state, group)]
    changed = CommitChanges(added, removed, operation="OPTIMIZE", changes_rows=False)
    has_all = partial(_has_all, removed=removed)
    states.keep(directory, commit_on_top(directory, states, state, changed, "", has_all))


def _groups(state: TableState) -> Iterator[list[Action]]:
    """Yield files that become one, earlier ones first: several small ones without vectors."""
    small = [one for one in state.files if one["size"] < _LARGE_BYTES and not one.get(VECTOR)]
    group, size = list[Action](), 0
    for action in sorted(small, key=lambda one: (one["modificationTime"], path_of(one))):
        if size + action["size"] > _LARGE_BYTES:
            if len(group) > 1:
                yield group
            group, size = [], 0
        group.append(action)
        size += action["size"]
    if len(group) > 1:
        yield group


def _merged(directory: Directory, state: TableState, group: Sequence[Action]) -> list[AddAction]:
    """Write the rows of some files in one, or in several if they are many."""
    struct = StructType.fromJson(json.loads(state.metadata["schemaString"]))
    columns = [Column(one.name, one.dataType) for one in struct]
    rows = pa.concat_tables(_read(directory, path_of(action), columns) for action in group)
    described = {name for one in group for name in _described(one)}
    layout = FileLayout(
        described=[column for column in columns if column.name in described],
        differences=packed(columns),
    )
    return written(directory, rows, file_ends_of(len(rows)), layout)


def _read(directory: Directory, path: str, columns: Sequence[Column]) -> pa.Table:
    """Return the rows of a file; columns that the table got later are null."""
    with directory.parquet(path) as file:
        rows = file.read()
    for column in columns:
        if column.name not in rows.column_names:
            nothing = pa.nulls(len(rows), arrow_type(column.data_type))
            rows = rows.append_column(column.name, nothing)
    return in_arrow_types(rows, columns)


def _described(action: Action) -> Iterator[str]:
    """Yield the names of the columns that the log has statistics of, for a file."""
    statistics = json.loads(action.get("stats") or "{}")
    for kind in ("minValues", "maxValues", "nullCount"):
        yield from statistics.get(kind) or ()


def _has_all(state: TableState, removed: Sequence[Action]) -> bool:
    """Return whether a table still has some files."""
    there = state.files.of_paths(map(path_of, removed))
    return {*map(file_of, removed)} <= {*map(file_of, there.values())}
