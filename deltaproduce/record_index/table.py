"""The indexed table, which is someone else's: its state, its rows by file, and our commits.

Effects are here, decisions elsewhere. The invariant: our commit directly follows the Delta version
that was read, or nothing is changed.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from deltaproduce.engines.delta.log import commit_file, folder_of, is_committed, next_commit
from deltaproduce.engines.delta.tables import RefusedError
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local import data_files
from deltaproduce.engines.local.arrays import Numbers
from deltaproduce.engines.local.data_files import FileLayout
from deltaproduce.engines.local.delta.commits import CHECKPOINTS, committed, properties_of
from deltaproduce.engines.local.delta.reads import marked_rows
from deltaproduce.engines.local.handles import opened_at
from deltaproduce.engines.local.marked.log_actions import between
from deltaproduce.errors import ConflictError, CorruptStoreError, DefinitionError, NotFoundError
from deltaproduce.record_index.decisions.features import Protocol, obstacle, unreadable
from deltaproduce.record_index.decisions.partition_values import as_text
from deltaproduce.storage.failpoints import effect
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.catalogue import atom
from deltaproduce.types.columns import Column
from deltaproduce.types.conversions import in_arrow_types
from deltaproduce.types.data_types import BinaryType, StructType
from deltaproduce.types.excerpts import one_line
from deltaproduce.types.python_values import python_values

_GROUP_ROWS: Final = 1 << 20
_STATISTICS_COLUMNS: Final = 32
"""The log has statistics of this many columns, as Delta's writers set it."""
_LEGACY: Final[Mapping[int, frozenset[str]]] = {
    3: frozenset({"checkConstraints"}),
    4: frozenset({"changeDataFeed", "generatedColumns"}),
    5: frozenset({"columnMapping"}),
    6: frozenset({"identityColumns"}),
}
"""The features of a table whose protocol names none: all of the writer versions up to its own."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """A data file.

    Attributes:
        path: the path as in the log.
        size: its size in bytes.
        rows: the number of rows, including deleted ones; None if the log does not have it.
        partition: the values of its partition columns.
        marked: the numbers of its rows that are deleted; None if none is.
    """

    path: str
    size: int
    rows: int | None
    partition: Mapping[str, object]
    marked: Numbers | None


@dataclass(frozen=True, slots=True)
class NewFile:
    """Rows that become a data file.

    Attributes:
        rows: the rows, in the table's columns.
        partition: the values of its partition columns.
        beside: the path of a file in the directory to write to; None if there is none.
        unique: a column without equal values; None if none is known.
    """

    rows: pa.Table
    partition: Mapping[str, object]
    beside: str | None
    unique: str | None


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """A table at one Delta version.

    Attributes:
        table_id: Delta's id of the table; another table at the same place has another id.
        columns: all columns, in order.
        partitioned_by: the names of the partition columns, which are not in the files.
        files: the data files by path, as in the log.
        obstacle: why our commit cannot replace its files; None if it can.
    """

    directory: Directory
    handle: DeltaTable
    table_id: str
    columns: tuple[Column, ...]
    partitioned_by: tuple[str, ...]
    files: Mapping[str, TableFile]
    obstacle: str | None

    @property
    def delta_version(self) -> int:
        """The Delta version of the table."""
        return int(self.handle.version())

    def count(self, paths: Collection[str]) -> int:
        """Return the number of rows in some files, from the log or else from their footers.

        Raises:
            CorruptStoreError: a file is gone or broken.
        """
        files = [self.files[path] for path in paths]
        dead = sum(len(file.marked) for file in files if file.marked is not None)
        return sum(self._count(file) for file in files) - dead

    def _count(self, file: TableFile) -> int:
        if file.rows is not None:
            return file.rows
        try:
            return int(self.directory.footer(unquote(file.path)).num_rows)
        except (OSError, pa.ArrowInvalid) as error:
            raise _unreadable(self.directory, file.path, error) from error

    def rows(self, path: str, columns: Sequence[Column]) -> pa.Table:
        """Return some columns of a file's rows that are not deleted, in their order.

        Raises:
            CorruptStoreError: the file is gone or broken.
        """
        of = self.files[path]
        inside = [c.name for c in columns if c.name not in self.partitioned_by]
        try:
            with self.directory.parquet(unquote(path)) as file:
                names = [name for name in inside if name in file.schema_arrow.names]
                table, count = file.read(names, use_threads=False), file.metadata.num_rows
        except (OSError, pa.ArrowInvalid) as error:
            raise _unreadable(self.directory, path, error) from error
        arrays = {
            c.name: table.column(c.name) if c.name in names else _constant(of, c, count)
            for c in columns
        }
        rows = in_arrow_types(pa.table(arrays), columns)
        if of.marked is None:
            return rows
        alive = np.ones(count, bool)
        alive[of.marked] = False
        return rows.filter(pa.array(alive))

    def written(self, new: NewFile) -> AddAction:
        """Write a data file, which nobody sees before it is committed."""
        texts = {name: as_text(value) for name, value in new.partition.items()}
        inside = (
            folder_of(texts.items())
            if new.beside is None
            else unquote(new.beside).rpartition("/")[0]
        )
        where = self.directory.at(inside) if inside else self.directory
        stored = [c for c in self.columns if c.name not in self.partitioned_by]
        statistics = [c for c in stored[:_STATISTICS_COLUMNS] if atom(c.data_type) is not None]
        rows = new.rows.select([c.name for c in stored])
        layout = FileLayout(group_rows=_GROUP_ROWS, described=statistics, unique=new.unique)
        with effect("write", self.directory.path):
            (file,) = data_files.written(where, rows, [len(rows)], layout)
        path = f"{inside}/{file.path}" if inside else file.path
        return replace(file, path=path, partition_values=texts)

    def commit(
        self, removed: Iterable[str], added: Sequence[AddAction], metadata: Mapping[str, object]
    ) -> int:
        """Replace files in one commit.

        Args:
            removed: the paths of the files to remove.
            metadata: the commit's metadata.

        Returns:
            The delta version of the commit.

        Raises:
            ConflictError: another process committed meanwhile; nothing of this change is visible.
            CommitUnknownError: the commit failed, and whether it is there cannot be read.
        """
        now, attempt = int(time.time() * 1000), uuid.uuid4().hex
        removes = [self._removal(self.files[path], now) for path in removed]
        user_metadata = json.dumps({**metadata, "attempt": attempt})
        with effect("commit", self.directory.path):
            try:
                committed(
                    lambda: self.handle.create_write_transaction(
                        [*removes, *added],
                        "append",
                        self.handle.schema(),
                        [*self.partitioned_by],
                        commit_properties=properties_of(
                            user_metadata, next_one=True, is_blind=False
                        ),
                        post_commithook_properties=CHECKPOINTS,
                    )
                )
            except (RefusedError, DeltaError) as error:
                if not is_committed(self.directory, self.delta_version, attempt):
                    self.discard(added)
                    if isinstance(error, RefusedError):
                        raise overtaken(self.directory) from error
                    raise
        return self.delta_version + 1

    @contextmanager
    def discarding(self, added: Iterable[AddAction]) -> Iterator[None]:
        """Delete files that were written if the block fails, so that no commit names them."""
        try:
            yield
        except BaseException:
            self.discard(added)
            raise

    def discard(self, added: Iterable[AddAction]) -> None:
        """Delete files that were written for a commit that is not there."""
        with effect("discard", self.directory.path), suppress(OSError):  # else a vacuum does it
            other = next_commit(self.directory, self.delta_version)
            for add in added:
                if add.path.rpartition("/")[2] not in other:
                    self.directory.remove_file(add.path)

    def _removal(self, file: TableFile, now: int) -> RemoveAction:
        texts = {name: as_text(value) for name, value in file.partition.items()}
        return RemoveAction(unquote(file.path), True, now, file.size, texts)


def newest(directory: Directory) -> TableSnapshot:
    """Return the current snapshot of a table.

    Raises:
        NotFoundError: there is no Delta table.
        CorruptStoreError: its log cannot be read.
        DefinitionError: its files cannot be read by the table's column names.
    """
    try:
        handle = opened_at(directory)
        fields = json.loads(handle.schema().to_json())["fields"]
        protocol = _protocol(handle, fields)
        if fault := unreadable(protocol):
            raise DefinitionError(f"table {directory.path!r} cannot have a record index: {fault}")
        files = _files(handle, directory)
        about = handle.metadata()
    except TableNotFoundError as error:
        raise NotFoundError(f"there is no Delta table at {directory.path!r}") from error
    except (DeltaError, OSError, ValueError) as error:
        raise CorruptStoreError(
            f"the log of table {directory.path!r} cannot be read ({one_line(error)}): restore it",
            table=directory.path,
        ) from error
    struct = StructType.fromJson({"type": "struct", "fields": fields})
    columns = tuple(Column(f.name, f.dataType, f.nullable) for f in struct.fields)
    for column in columns:
        if column.name in about.partition_columns and isinstance(column.data_type, BinaryType):
            raise DefinitionError(
                f"table {directory.path!r} cannot have a record index: it is partitioned by binary "
                f"column {column.name!r}",
                column=column.name,
            )
    return TableSnapshot(
        directory,
        handle,
        str(about.id),
        columns,
        tuple(about.partition_columns),
        files,
        obstacle(protocol),
    )


def touched(directory: Directory, since: int, until: int) -> frozenset[str]:
    """Return the paths of files that were added or removed after one Delta version up to another.

    Raises:
        BrokenLogError: the log no longer has these versions.
    """
    return frozenset(action.path for action in between(directory, since, until))


def mark(directory: Directory, delta_version: int) -> str | None:
    """Return a mark that identifies a commit beyond its number; None if its file is gone."""
    try:
        text = directory.read(commit_file(delta_version)).text
    except OSError:
        return None
    return sha256(text.encode()).hexdigest()


def overtaken(directory: Directory) -> ConflictError:
    """Return the error for a commit by another process."""
    return ConflictError(
        f"table {directory.path!r} has moved meanwhile, nothing of this change is visible: try it "
        "again"
    )


def _protocol(handle: DeltaTable, fields: Sequence[Mapping[str, Any]]) -> Protocol:
    protocol = handle.protocol()
    legacy = [
        features
        for version, features in _LEGACY.items()
        if not protocol.writer_features and version <= protocol.min_writer_version
    ]
    return Protocol(
        readers=frozenset(protocol.reader_features or ()),
        writers=frozenset(protocol.writer_features or ()).union(*legacy),
        properties=handle.metadata().configuration,
        columns=fields,
    )


def _files(handle: DeltaTable, directory: Directory) -> Mapping[str, TableFile]:
    actions = pa.table(handle.get_add_actions())
    paths, sizes = actions.column("path").to_pylist(), actions.column("size_bytes").to_pylist()
    if any("://" in path or path.startswith("/") for path in paths):
        raise DefinitionError(
            f"table {directory.path!r} cannot have a record index: it has files that are elsewhere"
        )
    none: dict[str, object] = {}
    counts = (
        actions.column("num_records").to_pylist() if "num_records" in actions.column_names else ()
    )
    counts = counts or [None] * len(paths)
    partitions = (
        python_values(actions.column("partition")) if "partition" in actions.column_names else ()
    )
    marked = marked_rows(handle)
    return {
        path: TableFile(path, size, rows, partition or none, marked.get(unquote(path)))
        for path, size, rows, partition in zip(
            paths, sizes, counts, partitions or [none] * len(paths), strict=True
        )
    }


def _constant(of: TableFile, column: Column, rows: int) -> pa.Array:
    """Return a column that is not in a file: a partition column, or one added later."""
    kind = arrow_type(column.data_type)
    return pa.repeat(pa.scalar(of.partition.get(column.name), kind), rows)


def _unreadable(directory: Directory, path: str, error: Exception) -> CorruptStoreError:
    return CorruptStoreError(
        f"file {path!r} of table {directory.path!r} cannot be read ({one_line(error)}): restore it",
        table=directory.path,
    )
