"""The files of a table at one of its delta versions, as columns: there may be a million of them.

Pure. A checkpoint's files are columns, in the order of their paths; commits since are few actions
beside them. So the next delta version costs what its commit changes, and a copy of columns for its
listing. The invariant: a file is distinguished by its path, however the log spells it, and by its
deletion vector.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.local.arrays import Numbers
from deltaproduce.engines.local.marked import vectors
from deltaproduce.engines.local.marked.file_statistics import ColumnTypes, parsed
from deltaproduce.types.pandas_on_demand import in_numpy

Action: TypeAlias = Mapping[str, Any]
"""One action of the log, as JSON has it."""
FileId: TypeAlias = tuple[str, str]
"""What distinguishes a file: its path from the table's directory, and which vector it has."""

VECTOR: Final = "deletionVector"
_MOST_SINCE: Final = 4_096
"""The most files that are kept as actions beside the columns."""
_AT_A_TIME: Final = 4_096
_TEXTS: Final = pa.map_(pa.string(), pa.string())
_MAPS: Final = ("partitionValues", "tags")
_ADD: Final = pa.struct(
    {
        "path": pa.string(),
        "partitionValues": _TEXTS,
        "size": pa.int64(),
        "modificationTime": pa.int64(),
        "dataChange": pa.bool_(),
        "stats": pa.string(),
        "tags": _TEXTS,
        VECTOR: pa.struct(
            {
                "storageType": pa.string(),
                "pathOrInlineDv": pa.string(),
                "offset": pa.int32(),
                "sizeInBytes": pa.int32(),
                "cardinality": pa.int64(),
            }
        ),
        "baseRowId": pa.int64(),
        "defaultRowCommitVersion": pa.int64(),
        "clusteringProvider": pa.string(),
    }.items()
)
"""An action that adds a file, by the protocol
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md, "Add File and Remove File")."""


def path_of(action: Action) -> str:
    """Return the path of an action's file from the table's directory."""
    return unquote(action["path"])


def file_of(action: Action) -> FileId:
    """Return what distinguishes the file of an action."""
    return path_of(action), vectors.identity(action.get(VECTOR))


class _Columns:
    """Files as columns, in the order of their paths, which never change.

    Attributes:
        actions: the action that adds each file, as `_ADD` has it.
        paths: the path of each file, from the table's directory.
    """

    def __init__(self, actions: pa.StructArray) -> None:
        paths = _unescaped(pc.struct_field(actions, ["path"]))
        order = pc.sort_indices(paths)
        self.actions = actions.take(order)
        self.paths = paths.take(order)
        self._listed: tuple[ColumnTypes, pa.Table] | None = None

    def __len__(self) -> int:
        return len(self.actions)

    def action(self, row: int) -> Action:
        return _as_json(self.actions[row].as_py())

    def every(self) -> Iterator[Action]:
        for first in range(0, len(self), _AT_A_TIME):
            yield from map(_as_json, self.actions.slice(first, _AT_A_TIME).to_pylist())

    def place(self, path: str) -> int:
        """Return the number of files whose paths come before a path."""
        return bisect_left(range(len(self)), path, key=lambda row: self.paths[row].as_py())

    def rows_of(self, path: str) -> Iterator[int]:
        """Yield the rows of the files of a path: one, but with other vectors there may be more."""
        row = self.place(path)
        while row < len(self) and self.paths[row].as_py() == path:
            yield row
            row += 1

    @cached_property
    def marked(self) -> Numbers:
        """The rows of the files that have a vector."""
        has_vector = pc.struct_field(self.actions, [VECTOR]).is_valid()
        return np.flatnonzero(in_numpy(has_vector, bool))

    @cached_property
    def are_inside(self) -> bool:
        """Whether all files are in the table's directory."""
        return not pc.any(_is_outside(pc.struct_field(self.actions, ["path"]))).as_py()

    def listed(self, types: ColumnTypes) -> pa.Table:
        """Return what the log says of the files; see `TableFiles.listed`."""
        if self._listed is None or self._listed[0] != types:
            sizes, stats = (pc.struct_field(self.actions, [name]) for name in ("size", "stats"))
            self._listed = types, _listing(self.paths, sizes, stats, types)
        return self._listed[1]


@dataclass(frozen=True, eq=False)
class TableFiles:
    """The files of a table at one delta version.

    Attributes:
        columns: files of a delta version before.
        gone: the rows of those that the table has no more.
        since: the actions of the others, by what distinguishes their files.
    """

    columns: _Columns = field(default_factory=lambda: _Columns(pa.array([], _ADD)))
    gone: frozenset[int] = frozenset()
    since: Mapping[FileId, Action] = field(default_factory=dict)

    @staticmethod
    def of_checkpoint(actions: pa.StructArray) -> TableFiles:
        """Return the files of a checkpoint, given its column ``add`` where it has one."""
        return TableFiles(_Columns(_fitted(actions, _ADD)))

    def updated(self, removed: Iterable[Action], added: Iterable[Action]) -> TableFiles:
        """Return the files after some were removed, and then others were added."""
        gone, since = {*self.gone}, dict(self.since)
        for action in removed:
            file = file_of(action)
            if since.pop(file, None) is None:
                gone.update(self._rows_of(file))
        for action in added:
            file = file_of(action)
            gone.update(self._rows_of(file))
            since[file] = action
        files = TableFiles(self.columns, frozenset(gone), since)
        return files if len(gone) + len(since) <= _MOST_SINCE else files._together()

    def __len__(self) -> int:
        return len(self.columns) - len(self.gone) + len(self.since)

    def __iter__(self) -> Iterator[Action]:
        """The action that adds each file."""
        for row, action in enumerate(self.columns.every()):
            if row not in self.gone:
                yield action
        yield from self.since.values()

    def of_paths(self, paths: Iterable[str]) -> dict[str, Action]:
        """Return the actions of those of some paths that the table has, by the path."""
        since = {path: action for (path, _), action in self.since.items()}
        actions = dict[str, Action]()
        for path in paths:
            if path in since:
                actions[path] = since[path]
            else:
                rows = (row for row in self.columns.rows_of(path) if row not in self.gone)
                actions.update((path, self.columns.action(row)) for row in rows)
        return actions

    def missing_in(self, others: TableFiles) -> list[Action]:
        """Return the actions of the files that are not among others."""
        theirs = {*map(file_of, others)}
        return [action for action in self if file_of(action) not in theirs]

    def paths(self) -> list[str]:
        """Return the paths of the files, in order."""
        return sorted(map(path_of, self))

    @property
    def are_inside(self) -> bool:
        """Whether all files are in the table's directory."""
        paths = pa.array([action["path"] for action in self.since.values()], pa.string())
        return self.columns.are_inside and not pc.any(_is_outside(paths)).as_py()

    def vectors(self) -> dict[str, Mapping[str, Any]]:
        """Return the deletion vectors of the files that have one, by the file's path."""
        of_columns = map(self.columns.action, {*self.columns.marked.tolist()} - self.gone)
        actions = (*of_columns, *self.since.values())
        return {path_of(one): one[VECTOR] for one in actions if one.get(VECTOR) is not None}

    def listed(self, types: ColumnTypes) -> pa.Table:
        """Return what the log says of the files, in the order of their paths.

        Returns:
            ``path``, ``size_bytes``, and the `file_statistics.parsed`.
        """
        if not self.gone and not self.since:
            return self.columns.listed(types)
        since = sorted(self.since.values(), key=path_of)
        paths = pa.array(map(path_of, since), pa.string())
        sizes = pa.array([action["size"] for action in since], pa.int64())
        stats = pa.array([action.get("stats") for action in since], pa.string())
        parts = [self.columns.listed(types), _listing(paths, sizes, stats, types)]
        if parts[0].schema != parts[1].schema:  # a column has another form in some files
            return self._together().columns.listed(types)
        return pa.concat_tables(parts).take(self._order(paths.to_pylist()))

    def _rows_of(self, file: FileId) -> Iterator[int]:
        for row in self.columns.rows_of(file[0]):
            if file_of(self.columns.action(row)) == file:
                yield row

    def _order(self, since: Sequence[str]) -> pa.Array:
        """Return the places of all files, in the order of their paths.

        Places are the rows of columns, and then those of the files since, which are in order.
        """
        rows = len(self.columns)
        is_there = np.ones(rows + len(since), bool)
        is_there[[*self.gone]] = False
        places = [self.columns.place(path) for path in since]
        order = np.insert(np.arange(rows), places, rows + np.arange(len(since)))
        return pa.array(order[is_there[order]])

    def _together(self) -> TableFiles:
        """Return the same files, all of them as columns."""
        since = pa.array(map(_as_row, self.since.values()), _ADD)
        is_there = np.ones(len(self.columns), bool)
        is_there[[*self.gone]] = False
        kept = self.columns.actions.filter(pa.array(is_there))
        return TableFiles(_Columns(pa.concat_arrays([kept, since])))


def _listing(
    paths: pa.StringArray, sizes: pa.Int64Array, stats: pa.StringArray, types: ColumnTypes
) -> pa.Table:
    said = parsed(stats, types)
    statistics = zip(said.column_names, said.columns, strict=True)
    return pa.table({"path": paths, "size_bytes": sizes, **dict(statistics)})


def _unescaped(paths: pa.StringArray) -> pa.StringArray:
    if not pc.any(pc.match_substring(paths, "%")).as_py():
        return paths
    return pa.array(map(unquote, paths.to_pylist()), pa.string())


def _is_outside(paths: pa.StringArray) -> pa.BooleanArray:
    return pc.or_(pc.match_substring(paths, "://"), pc.starts_with(paths, "/"))


def _fitted(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return structs with the fields of a type: others are left out, lacking ones are null."""
    if not pa.types.is_struct(kind):
        return values.cast(kind)
    there = {one.name for one in values.type}
    columns = [
        _fitted(pc.struct_field(values, [one.name]), one.type)
        if one.name in there
        else pa.nulls(len(values), one.type)
        for one in kind
    ]
    return pa.StructArray.from_arrays(columns, fields=[*kind], mask=values.is_null())


def _as_json(fields: Mapping[str, Any]) -> Action:
    """Return an action as JSON has it: without nulls, and with maps as objects."""
    about = {name: value for name, value in fields.items() if value is not None}
    about |= {name: dict(about[name]) for name in _MAPS if name in about}
    if VECTOR in about:
        vector = about[VECTOR].items()
        about[VECTOR] = {name: value for name, value in vector if value is not None}
    return about


def _as_row(action: Action) -> Mapping[str, Any]:
    """Return an action as a row of columns."""
    maps = {name: [*action[name].items()] for name in _MAPS if action.get(name) is not None}
    return {**action, **maps}
