"""Runs: the sorted files of an index, stored as a Delta table, and the index's state.

The table has a column for each key column, `entries.GROUP`, ``_file``, and, if deletes may be
remembered, `entries.ORDER` and `entries.AT`. Its files are of two
kinds. A *run* has entries, of one bucket or, if it is small, of all, sorted by bucket and key; the
partition column ``_run`` says which run is newer. The *directory*, without a run, has the path of
each file group, and those of files that wait: while an index catches up with many files, it is
stored with some of them. The ``userMetadata`` of the newest commit has the arguments that the index
was built with, and the Delta version of the table that it matches, apart from files that wait. The
invariant: all of this changes in one commit, which directly follows the version that was read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from deltaproduce.engines.delta.log import LOG, newest_commits
from deltaproduce.engines.delta.tables import KEPT, LoggedCommit
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local import data_files
from deltaproduce.engines.local.data_files import FileLayout
from deltaproduce.engines.local.delta.commits import CHECKPOINTS, committed, properties_of
from deltaproduce.engines.local.handles import opened_at
from deltaproduce.engines.local.large.threads import side_by_side
from deltaproduce.errors import ConflictError, CorruptStoreError, DefinitionError
from deltaproduce.record_index.decisions.descriptor import IndexDescriptor
from deltaproduce.record_index.decisions.entries import AT, GROUP, ORDER
from deltaproduce.record_index.decisions.keying import GROUP_COLUMN, Keying
from deltaproduce.storage.failpoints import effect
from deltaproduce.types.atoms import arrow_schema
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import IntegerType, LongType, StringType, TimestampType
from deltaproduce.types.excerpts import one_line
from deltaproduce.types.json.fields import parsed

FILE: Final = "_file"
"""The directory's column with the path of a file group."""

_RUN: Final = "_run"
_BUCKET: Final = "_bucket"
_SAID: Final = "record_index"
_GROUP_ROWS: Final = 1 << 14
"""The number of entries in a row group: a lookup of few keys reads few of them."""
FILE_COLUMN: Final = Column(FILE, StringType())
OWN_COLUMNS: Final = frozenset({GROUP, FILE, _RUN, _BUCKET})
"""Reserved names: no key column has one of these."""
DELETE_COLUMNS: Final = frozenset({ORDER, AT})
"""Reserved where there is an ordering."""
_AT_COLUMN: Final = Column(AT, TimestampType())
_STATISTICS_COLUMNS: Final = (GROUP_COLUMN, _AT_COLUMN)
_PROPERTIES: Final = {**KEPT, "delta.deletedFileRetentionDuration": "interval 7 days"}
_PLACES: Final = (Column(_RUN, LongType()), Column(_BUCKET, IntegerType()))


@dataclass(frozen=True, slots=True)
class State:
    """The state of an index, apart from its files.

    Attributes:
        descriptor: the arguments that it was built with.
        table_id: Delta's id of the table.
        delta_version: the version of the table that the index matches, but for files that wait.
        mark: distinguishes that commit from another commit with the same number.
        records: the number of keys, without those of files that wait.
        next_group: the number of the next file group.
        next_run: the number of the next run.
    """

    descriptor: IndexDescriptor
    table_id: str
    delta_version: int
    mark: str | None
    records: int
    next_group: int
    next_run: int

    @property
    def metadata(self) -> str:
        """The metadata of a commit."""
        return json.dumps({_SAID: {**asdict(self), "descriptor": self.descriptor.json}})


Part: TypeAlias = Callable[[], Mapping[int | None, pa.Table]]
"""A function that returns the entries of some buckets, each sorted; by None for several buckets."""


@dataclass(frozen=True, slots=True)
class RunFile:
    """A file with entries.

    Attributes:
        bucket: the bucket of its entries; None if it has entries of several.
        tombstones: the number of tombstones among them.
        remembered: the number of them that remember a delete.
        oldest: when the first of these was given; None if there is none.
    """

    path: str
    size: int
    run: int
    bucket: int | None
    entries: int
    tombstones: int
    remembered: int = 0
    oldest: datetime | None = None


@dataclass(frozen=True, slots=True)
class Runs:
    """An index as it was read.

    Attributes:
        files: the files with entries, oldest first.
        directory_file: the file with the paths of the file groups.
    """

    place: Directory
    handle: DeltaTable
    state: State
    files: tuple[RunFile, ...]
    directory_file: RemoveAction

    def paths(self) -> tuple[dict[int, str], frozenset[str]]:
        """Return the path of each file group, and the paths of files that wait.

        Raises:
            CorruptStoreError: the directory file is gone or broken.
        """
        try:
            with self.place.parquet(self.directory_file.path) as file:
                paths = file.read([GROUP, FILE])
        except (OSError, pa.ArrowInvalid) as error:
            raise _broken(self.place, error) from error
        every = zip(paths[GROUP].to_pylist(), paths[FILE].to_pylist(), strict=True)
        groups, waiting = dict[int, str](), set[str]()
        for group, path in every:
            if group is None:
                waiting.add(path)
            else:
                groups[group] = path
        return groups, frozenset(waiting)

    def append(
        self,
        state: State,
        groups: Mapping[int, str],
        waiting: Collection[str],
        keying: Keying,
        parts: Iterable[Part],
    ) -> None:
        """Add a run, and replace the state and the directory.

        An index of before gets the columns of remembered deletes first, in a commit of their own.

        Args:
            groups: the path of each file group.
            waiting: the paths of files that no group has yet.
            parts: the entries of the run, as for `written`.

        Raises:
            RefusedError: another process was faster.
        """
        state = replace(state, next_run=self.state.next_run + 1)
        adds = written(self.place, groups, parts, self.state.next_run, waiting)
        with discarding(self.place, adds):
            self._add_columns(keying)
            self._commit([self.directory_file, *adds], "append", self.handle.schema(), state)

    def _add_columns(self, keying: Keying) -> None:
        wanted = Schema.from_arrow(arrow_schema(keying.deletes)).fields
        there = {field.name for field in self.handle.schema().fields}
        lacking = [field for field in wanted if field.name not in there]
        if not lacking:
            return
        with effect("columns", self.place.path):
            said = properties_of(self.state.metadata, next_one=True)
            committed(lambda: self.handle.alter.add_columns(lacking, commit_properties=said))

    def replace(self, state: State, keying: Keying, adds: list[AddAction]) -> None:
        """Replace the whole index.

        Args:
            adds: the new files, from `written`.

        Raises:
            RefusedError: another process was faster.
        """
        self._commit(adds, "overwrite", _schema(keying), replace(state, next_run=1))

    def _commit(self, actions: list[Any], mode: str, schema: Schema, state: State) -> None:
        with effect("index", self.place.path):
            committed(
                lambda: self.handle.create_write_transaction(
                    actions,
                    mode,
                    schema,
                    [_RUN, _BUCKET],
                    commit_properties=properties_of(state.metadata, next_one=True),
                    post_commithook_properties=CHECKPOINTS,
                )
            )

    def clean(self) -> None:
        """Delete files that no reader needs any more, a week after they were replaced."""
        with effect("clean", self.place.path), suppress(CommitFailedError):  # another does it
            opened_at(self.place).vacuum(dry_run=False)


def delete_columns(ordering: Column | None) -> tuple[Column, ...]:
    """Return the columns of entries that remember deletes; none without an ordering."""
    return () if ordering is None else (Column(ORDER, ordering.data_type), _AT_COLUMN)


def opened(place: Directory) -> Runs | None:
    """Open the current index; None if there is none.

    Raises:
        DefinitionError: the place has another table.
        CorruptStoreError: the index cannot be read.
    """
    try:
        handle = opened_at(place)
        is_index = {field.name for field in handle.schema().fields} >= OWN_COLUMNS
    except TableNotFoundError:
        return None
    except (DeltaError, OSError, ValueError) as error:
        raise _broken(place, error) from error
    state = _state(place, int(handle.version()))
    if state is None and is_index:
        raise _broken(place, ValueError("no commit of its log says what it was built with"))
    if state is None:
        raise _foreign(place)
    try:
        actions = pa.table(handle.get_add_actions()).to_pylist()
    except (DeltaError, OSError, ValueError) as error:
        raise _broken(place, error) from error
    runs, others = list[RunFile](), list[RemoveAction]()
    for file in actions:
        run, bucket = file["partition"][_RUN], file["partition"][_BUCKET]
        path, size, rows = file["path"], file["size_bytes"], file["num_records"]
        if run is None:
            others.append(_removal(path, size, None, None))
        else:
            tombstones = file["null_count"][GROUP]
            nulls, oldest = file["null_count"].get(AT), file["min"].get(AT)
            remembered = 0 if nulls is None else rows - nulls
            runs.append(RunFile(path, size, run, bucket, rows, tombstones, remembered, oldest))
    if len(others) != 1:
        raise _broken(place, ValueError("its file groups are in several directories, or in none"))
    runs.sort(key=lambda file: file.run)
    return Runs(place, handle, state, tuple(runs), others[0])


def check_damaged(place: Directory) -> None:
    """Refuse a place whose log cannot be read, and which may be someone else's table.

    Raises:
        DefinitionError: neither its log nor its files show that it is a record index.
    """
    log = place.at(LOG)
    is_ours = any(_SAID in _text_in(log, name) for name in log.names(""))
    if not is_ours and not _has_entries(place, _parquet_files(place)):
        raise _foreign(place)


def replace_damaged(place: Directory, state: State, keying: Keying, adds: list[AddAction]) -> None:
    """Create an index where there is a damaged one, whose log and files are deleted.

    Args:
        adds: the new files, from `written`.

    Raises:
        DefinitionError: nothing shows that it is a record index.
        RefusedError: another process was faster.
    """
    check_damaged(place)
    new = {add.path for add in adds}
    old = [name for name in _parquet_files(place) if name not in new]
    log = place.at(LOG)
    with effect("remove", place.path):
        log.remove()
    create(place, state, keying, adds)
    with effect("clean", place.path), suppress(OSError):
        for name in old:
            place.remove_file(name)


def overtaken(place: Directory) -> ConflictError:
    """Return the error for an index that another process has written meanwhile."""
    return ConflictError(
        f"the record index at {place.path!r} was written by someone else meanwhile: try it again"
    )


def create(place: Directory, state: State, keying: Keying, adds: list[AddAction]) -> None:
    """Create an index where there is none, in one commit.

    Args:
        adds: its files, from `written`.

    Raises:
        RefusedError: another process was faster.
    """
    state = replace(state, next_run=1)
    with effect("index", place.path):
        committed(
            lambda: create_table_with_add_actions(
                place.uri,
                _schema(keying),
                adds,
                "error",
                [_RUN, _BUCKET],
                configuration=_PROPERTIES,
                storage_options=place.storage_options,
                commit_properties=properties_of(state.metadata, next_one=True),
            ),
            made_in=place,
        )


def written(
    place: Directory,
    groups: Mapping[int, str],
    parts: Iterable[Part],
    run: int,
    waiting: Collection[str] = (),
) -> list[AddAction]:
    """Write the directory and the files of a run, which nobody sees before they are committed.

    Args:
        groups: the path of each file group.
        parts: computed in parallel; each bucket has its entries in one part.
        waiting: the paths of files that no group has yet.
    """
    paths = pa.table(
        {
            GROUP: pa.array([*groups, *(None for _ in waiting)], pa.int64()),
            FILE: pa.array([*groups.values(), *waiting], pa.string()),
        }
    )
    added = list[AddAction]()

    def write(part: Part) -> None:
        there = {bucket: rows for bucket, rows in part().items() if len(rows)}
        if not there:
            return
        ends = np.cumsum([len(rows) for rows in there.values()]).tolist()
        rows = pa.concat_tables(there.values())
        columns = [column for column in _STATISTICS_COLUMNS if column.name in rows.column_names]
        layout = FileLayout(group_rows=_GROUP_ROWS, described=columns)
        adds = data_files.written(place, rows, ends, layout)
        added.extend(
            replace(add, partition_values={_RUN: str(run), _BUCKET: _text(bucket)})
            for add, bucket in zip(adds, there, strict=True)
        )

    with discarding(place, added), effect("write", place.path):
        layout = FileLayout(described=[GROUP_COLUMN])
        (directory,) = data_files.written(place, paths, [len(paths)], layout)
        added.append(replace(directory, partition_values={_RUN: None, _BUCKET: None}))
        for _ in side_by_side(write, parts):
            pass
    return added


@contextmanager
def discarding(place: Directory, adds: Iterable[AddAction]) -> Iterator[None]:
    """Delete `written` files if the block fails or is interrupted, and the index has none of them.

    What follows a commit may fail, too; then the files stay.
    """
    try:
        yield
    except BaseException:
        with effect("discard", place.path), suppress(OSError, DeltaError):
            there = _paths(place)
            for add in adds:
                if add.path not in there:
                    place.remove_file(add.path)
            place.remove_if_empty()
        raise


def _paths(place: Directory) -> frozenset[str]:
    """Return the paths of an index's files; none if there is no index.

    Raises:
        DeltaError, OSError: they are unknown.
    """
    try:
        actions = pa.table(opened_at(place).get_add_actions())
    except TableNotFoundError:
        return frozenset()
    return frozenset(actions.column("path").to_pylist())


def _parquet_files(place: Directory) -> list[str]:
    return [name for name in place.names("") if name.endswith(".parquet")]


def _text_in(directory: Directory, name: str) -> str:
    try:
        return directory.read(name).text
    except (OSError, ValueError):
        return ""


def _has_entries(place: Directory, files: Iterable[str]) -> bool:
    """Return whether a file has the columns of an index's files."""
    for name in files:
        with suppress(OSError, pa.ArrowInvalid), place.parquet(name) as file:
            if GROUP in file.schema_arrow.names:
                return True
    return False


def _foreign(place: Directory) -> DefinitionError:
    return DefinitionError(
        f"the table at {place.path!r} is not a record index: choose another place, or remove it"
    )


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _removal(path: str, size: int, run: int | None, bucket: int | None) -> RemoveAction:
    return RemoveAction(path, True, 0, size, {_RUN: _text(run), _BUCKET: _text(bucket)})


def _schema(keying: Keying) -> Schema:
    columns = (*keying.columns, GROUP_COLUMN, FILE_COLUMN, *_PLACES, *keying.deletes)
    return Schema.from_arrow(arrow_schema(columns))


def _state(place: Directory, version: int) -> State | None:
    """Return the state of an index at a version; commits by other tools have none."""
    newest = newest_commits(place) or ()
    for commit in chain(newest, _earlier(place, newest)):
        is_later = commit.delta_version > version  # it has just been made
        state = None if is_later else parsed(commit.metadata)
        said = state.get(_SAID) if isinstance(state, dict) else None
        if isinstance(said, dict):
            try:
                return State(**{**said, "descriptor": IndexDescriptor.read(said["descriptor"])})
            except (KeyError, TypeError) as error:
                raise _broken(place, error) from error
    return None


def _earlier(place: Directory, newest: Sequence[LoggedCommit]) -> Iterator[LoggedCommit]:
    """Yield the commits before the newest ones: table services may have committed after us."""
    yield from (newest_commits(place, 0) or ())[len(newest) :]


def _broken(place: Directory, error: Exception) -> CorruptStoreError:
    return CorruptStoreError(
        f"the record index at {place.path!r} cannot be read ({one_line(error)}): build it again",
        table=place.path,
    )
