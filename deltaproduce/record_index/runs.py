"""Runs: the sorted files of an index, stored as a Delta table, and the index's state.

The table has a column for each key column, `entries.GROUP`, and ``_file``. Its files are of two
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
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
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
from deltaproduce.model.machine import cores
from deltaproduce.record_index.decisions.descriptor import Descriptor
from deltaproduce.record_index.decisions.entries import GROUP
from deltaproduce.storage.failpoints import effect
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import Column
from deltaproduce.types.json.fields import parsed

FILE: Final = "_file"
"""The directory's column with the path of a file group."""

_RUN: Final = "_run"
_BUCKET: Final = "_bucket"
_SAID: Final = "record_index"
_GROUP_ROWS: Final = 1 << 14
"""The number of entries in a row group: a lookup of few keys reads few of them."""
GROUP_COLUMN: Final = Column(GROUP, LongType())
FILE_COLUMN: Final = Column(FILE, StringType())
OWN_COLUMNS: Final = frozenset({GROUP, FILE, _RUN, _BUCKET})
"""Reserved names: no key column has one of these."""
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

    descriptor: Descriptor
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
                found = file.read([GROUP, FILE])
        except (OSError, pa.ArrowInvalid) as error:
            raise _broken(self.place, error) from error
        every = zip(found[GROUP].to_pylist(), found[FILE].to_pylist(), strict=True)
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
        parts: Iterable[Part],
    ) -> None:
        """Add a run, and replace the state and the directory.

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
            self._commit([self.directory_file, *adds], "append", self.handle.schema(), state)

    def replace(self, state: State, key: Sequence[Column], adds: list[AddAction]) -> None:
        """Replace the whole index.

        Args:
            adds: the new files, from `written`.

        Raises:
            RefusedError: another process was faster.
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
        """Delete files that no reader needs any more, a week after they were replaced."""
        with effect("clean", self.place.path), suppress(CommitFailedError):  # another does it
            opened_at(self.place).vacuum(dry_run=False)


def opened(place: Directory) -> Runs | None:
    """Open the current index; None if there is none.

    Raises:
        DefinitionError: the place has another table.
        CorruptStoreError: the index cannot be read.
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
    """Create an index where there is none, in one commit.

    Args:
        adds: its files, from `written`.

    Raises:
        RefusedError: another process was faster.
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

    with discarding(place, found), effect("write", place.path):
        (directory,) = data_files.written(place, paths, [len(paths)], 1 << 20, [GROUP_COLUMN], ())
        found.append(replace(directory, partition_values={_RUN: None, _BUCKET: None}))
        with ThreadPoolExecutor(cores()) as threads:
            for _ in threads.map(write, parts):
                pass
    return found


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
        told = pa.table(opened_at(place).get_add_actions())
    except TableNotFoundError:
        return frozenset()
    return frozenset(told.column("path").to_pylist())


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _removal(path: str, size: int, run: int | None, bucket: int | None) -> RemoveAction:
    return RemoveAction(path, True, 0, size, {_RUN: _text(run), _BUCKET: _text(bucket)})


def _schema(key: Sequence[Column]) -> Schema:
    columns = (*key, GROUP_COLUMN, FILE_COLUMN, *_PLACES)
    return Schema.from_arrow(pa.schema([(c.name, arrow_type(c.data_type)) for c in columns]))


def _state(place: Directory, version: int) -> State | None:
    """Return the state of an index at a version; commits by other tools have none."""
    newest = newest_commits(place) or ()
    for commit in chain(newest, _earlier(place, newest)):
        is_later = commit.delta_version > version  # it has just been made
        found = None if is_later else parsed(commit.metadata)
        said = found.get(_SAID) if isinstance(found, dict) else None
        if isinstance(said, dict):
            try:
                return State(**{**said, "descriptor": Descriptor.read(said["descriptor"])})
            except (KeyError, TypeError) as error:
                raise _broken(place, error) from error
    return None


def _earlier(place: Directory, newest: Sequence[LoggedCommit]) -> Iterator[LoggedCommit]:
    """Yield the commits before the newest ones: table services may have committed after us."""
    yield from (newest_commits(place, 0) or ())[len(newest) :]


def _broken(place: Directory, error: Exception) -> CorruptStoreError:
    return CorruptStoreError(
        f"the record index at {place.path!r} cannot be read ({error}): build it again",
        table=place.path,
    )
