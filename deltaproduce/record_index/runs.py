"""Runs: the sorted files of an index, which are a Delta table, and the state that they are in.

The table has a column for each key column, `entries.GROUP`, and ``_file``. Its files are of two
sorts. A *run* has entries, of one bucket or, if it is small, of all, sorted by bucket and key; the
partition column ``_run`` says which is newer. The *directory*, without a run, has the path of each
file group. What the index was built with, and which delta version of the table it is right for, is
in the ``userMetadata`` of its newest commit. The invariant: all of that changes in one commit,
which is the next one after what was read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions
from pyspark.sql.types import IntegerType, LongType, StringType

from deltaproduce.engines.delta_log import newest_commits
from deltaproduce.engines.delta_tables import KEPT, LoggedCommit, RefusedError
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local import data_files
from deltaproduce.engines.local.handles import opened_at
from deltaproduce.errors import CorruptStoreError, DefinitionError
from deltaproduce.record_index.decisions.descriptor import Descriptor
from deltaproduce.record_index.decisions.entries import GROUP
from deltaproduce.storage.failpoints import effect
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import Column
from deltaproduce.types.json_fields import parsed

FILE: Final = "_file"
"""The column of the directory with the path of a file group."""

_RUN: Final = "_run"
_BUCKET: Final = "_bucket"
_SAID: Final = "record_index"
_GROUP_ROWS: Final = 1 << 14
"""The entries of a row group: few keys read few of them."""
GROUP_COLUMN: Final = Column(GROUP, LongType())
FILE_COLUMN: Final = Column(FILE, StringType())
OWN_COLUMNS: Final = frozenset({GROUP, FILE, _RUN, _BUCKET})
"""No key column has one of these names."""
_PROPERTIES: Final = {**KEPT, "delta.deletedFileRetentionDuration": "interval 7 days"}
_PLACES: Final = (Column(_RUN, LongType()), Column(_BUCKET, IntegerType()))


@dataclass(frozen=True, slots=True)
class State:
    """What an index is, beside its files.

    Attributes:
        descriptor: what it was built with.
        table_id: Delta's id of the table.
        delta_version: the table's that it is right for.
        mark: what tells that commit from another one with its number.
        records: how many keys it has.
        next_group: the number of the next file group.
        next_run: the number of the next run.
    """

    descriptor: Descriptor
    table_id: str
    delta_version: int
    mark: str | None
    records: int
    next_group: int
    next_run: int

    @property
    def metadata(self) -> str:
        """What a commit says of it."""
        return json.dumps({_SAID: {**asdict(self), "descriptor": self.descriptor.json}})


Part: TypeAlias = Callable[[], Mapping[int | None, pa.Table]]
"""Makes the entries of some buckets, each sorted; by None those of several."""


@dataclass(frozen=True, slots=True)
class RunFile:
    """A file with entries.

    Attributes:
        bucket: whose they are; None if it has those of several.
        tombstones: how many of them are.
    """

    path: str
    size: int
    run: int
    bucket: int | None
    entries: int
    tombstones: int


@dataclass(frozen=True, slots=True)
class Runs:
    """An index as it was read.

    Attributes:
        files: those with entries, the oldest first.
        directory_file: the one with the paths of the file groups.
    """

    place: Directory
    handle: DeltaTable
    state: State
    files: tuple[RunFile, ...]
    directory_file: RemoveAction

    def groups(self) -> dict[int, str]:
        """The path of each file group.

        Raises:
            CorruptStoreError: the file that says it is gone or broken.
        """
        try:
            with self.place.parquet(self.directory_file.path) as file:
                found = file.read([GROUP, FILE])
        except (OSError, pa.ArrowInvalid) as error:
            raise _broken(self.place, error) from error
        return dict(zip(found[GROUP].to_pylist(), found[FILE].to_pylist(), strict=True))

    def append(
        self,
        state: State,
        groups: Mapping[int, str],
        parts: Mapping[int | None, pa.Table],
    ) -> None:
        """Add a run, and put what the index is now in the place of what it was.

        Args:
            parts: the entries by bucket, sorted; None for those of several.

        Raises:
            RefusedError: someone else was faster.
        """
        state = replace(state, next_run=self.state.next_run + 1)
        adds = written(self.place, groups, [lambda: parts], self.state.next_run)
        try:
            self._commit([self.directory_file, *adds], "append", self.handle.schema(), state)
        except RefusedError:
            discard(self.place, adds)
            raise

    def replace(self, state: State, key: Sequence[Column], adds: list[AddAction]) -> None:
        """Put all of an index in the place of what there is.

        Args:
            adds: its files, which are `written`.

        Raises:
            RefusedError: someone else was faster.
        """
        self._commit(adds, "overwrite", _schema(key), replace(state, next_run=1))

    def _commit(self, actions: list[Any], mode: str, schema: Schema, state: State) -> None:
        with effect("index", self.place.path):
            try:
                self.handle.create_write_transaction(
                    actions,
                    mode,
                    schema,
                    [_RUN, _BUCKET],
                    commit_properties=CommitProperties({"userMetadata": state.metadata}, 0),
                    post_commithook_properties=PostCommitHookProperties(True, False),
                )
            except CommitFailedError as error:
                raise RefusedError(str(error)) from error

    def clean(self) -> None:
        """Remove files that no reader needs any more, a week after they were replaced."""
        with effect("clean", self.place.path), suppress(CommitFailedError):  # someone else does
            opened_at(self.place).vacuum(dry_run=False)


def opened(place: Directory) -> Runs | None:
    """An index as it is now; None if there is none.

    Raises:
        DefinitionError: there is another table.
        CorruptStoreError: it cannot be read.
    """
    try:
        handle = opened_at(place)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError, ValueError) as error:
        raise _broken(place, error) from error
    state = _state(place, int(handle.version()))
    if state is None:
        raise DefinitionError(
            f"the table at {place.path!r} is no record index: choose another place"
        )
    told = pa.table(handle.get_add_actions()).to_pylist()
    runs, others = list[RunFile](), list[RemoveAction]()
    for file in told:
        run, bucket = file["partition"][_RUN], file["partition"][_BUCKET]
        path, size, rows = file["path"], file["size_bytes"], file["num_records"]
        if run is None:
            others.append(_removal(path, size, None, None))
        else:
            tombstones = file["null_count"][GROUP]
            runs.append(RunFile(path, size, run, bucket, rows, tombstones))
    if len(others) != 1:
        raise _broken(place, ValueError("it has not one directory of file groups"))
    runs.sort(key=lambda file: file.run)
    return Runs(place, handle, state, tuple(runs), others[0])


def create(place: Directory, state: State, key: Sequence[Column], adds: list[AddAction]) -> None:
    """Make an index where there is none, in one commit.

    Args:
        adds: its files, which are `written`.

    Raises:
        RefusedError: someone else was faster.
    """
    state = replace(state, next_run=1)
    with effect("index", place.path):
        try:
            create_table_with_add_actions(
                place.uri,
                _schema(key),
                adds,
                "error",
                [_RUN, _BUCKET],
                configuration=_PROPERTIES,
                storage_options=place.storage_options,
                commit_properties=CommitProperties({"userMetadata": state.metadata}, 0),
            )
        except DeltaError as error:
            if not DeltaTable.is_deltatable(place.uri, place.storage_options):
                raise
            raise RefusedError(str(error)) from error


def written(
    place: Directory, groups: Mapping[int, str], parts: Iterable[Part], run: int
) -> list[AddAction]:
    """Write the directory and the files of a run, which nobody sees yet; if it fails, neither.

    Args:
        parts: are made side by side; of each bucket there are entries in one.
    """
    paths = pa.table(
        {
            GROUP: pa.array(groups, pa.int64()),
            FILE: pa.array(groups.values(), pa.string()),
        }
    )
    found = list[AddAction]()

    def write(part: Part) -> None:
        there = {bucket: rows for bucket, rows in part().items() if len(rows)}
        if not there:
            return
        ends = np.cumsum([len(rows) for rows in there.values()]).tolist()
        rows = pa.concat_tables(there.values())
        adds = data_files.written(place, rows, ends, _GROUP_ROWS, [GROUP_COLUMN], ())
        found.extend(
            replace(add, partition_values={_RUN: str(run), _BUCKET: _text(bucket)})
            for add, bucket in zip(adds, there, strict=True)
        )

    with effect("write", place.path):
        (directory,) = data_files.written(place, paths, [len(paths)], 1 << 20, [GROUP_COLUMN], ())
        found.append(replace(directory, partition_values={_RUN: None, _BUCKET: None}))
        try:
            with ThreadPoolExecutor(os.cpu_count()) as threads:
                for _ in threads.map(write, parts):
                    pass
        except Exception:
            discard(place, found)
            raise
    return found


def discard(place: Directory, adds: Iterable[AddAction]) -> None:
    """Remove files that were `written` and are not to be in an index."""
    with effect("discard", place.path), suppress(OSError):
        for add in adds:
            place.remove_file(add.path)
        place.remove_if_empty()


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _removal(path: str, size: int, run: int | None, bucket: int | None) -> RemoveAction:
    return RemoveAction(path, True, 0, size, {_RUN: _text(run), _BUCKET: _text(bucket)})


def _schema(key: Sequence[Column]) -> Schema:
    columns = (*key, GROUP_COLUMN, FILE_COLUMN, *_PLACES)
    return Schema.from_arrow(pa.schema([(c.name, arrow_type(c.data_type)) for c in columns]))


def _state(place: Directory, version: int) -> State | None:
    """The state that an index is in at one of its versions; commits of others say none."""
    newest = newest_commits(place) or ()
    for commit in chain(newest, _earlier(place, newest)):
        is_later = commit.delta_version > version  # someone else has just made it
        found = None if is_later else parsed(commit.metadata)
        said = found.get(_SAID) if isinstance(found, dict) else None
        if isinstance(said, dict):
            try:
                return State(**{**said, "descriptor": Descriptor.read(said["descriptor"])})
            except (KeyError, TypeError) as error:
                raise _broken(place, error) from error
    return None


def _earlier(place: Directory, newest: Sequence[LoggedCommit]) -> Iterator[LoggedCommit]:
    """The commits before the newest ones: table services may have added some behind ours."""
    yield from (newest_commits(place, 0) or ())[len(newest) :]


def _broken(place: Directory, error: Exception) -> CorruptStoreError:
    return CorruptStoreError(
        f"the record index at {place.path!r} cannot be read ({error}): build it again",
        table=place.path,
    )
