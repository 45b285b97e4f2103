"""Tables: the Delta tables of data sets, and the only place that commits to them.

delta-rs makes every commit, even with a session, so all commits to a data set exclude each other.
The invariant: each commit directly follows the snapshot that it was decided on; otherwise it is
refused and decided again.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from deltaproduce.datasets.actions import action
from deltaproduce.described.descriptor import (
    PROPERTY,
    BrokenDescriptorError,
    Description,
    arrow_fields,
)
from deltaproduce.engines.delta.log import (
    commit_file,
    is_committed,
    is_logged_alike,
    next_commit,
)
from deltaproduce.engines.delta.tables import CONSTRAINT, MARKS_ROWS, RefusedError
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.file_systems.this_machine import ThisMachine
from deltaproduce.engines.local import commit_probe
from deltaproduce.engines.local.delta.commits import CHECKPOINTS, committed, properties_of
from deltaproduce.engines.local.delta.reads import has_marked_rows
from deltaproduce.engines.local.handles import opened_at
from deltaproduce.engines.spark.delta import unwritable
from deltaproduce.errors import (
    AlreadyExistsError,
    ConflictError,
    CorruptStoreError,
    DeltaProduceError,
    StorageError,
)
from deltaproduce.storage.failpoints import effect
from deltaproduce.types.excerpts import described, one_line

_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType(
    {MARKS_ROWS: "false", "delta.checkpointInterval": "50"}
)
_TRIES: Final = 100
_DECIDING_AGAIN: Final = Retrying(
    retry=retry_if_exception_type(RefusedError),
    wait=wait_random_exponential(multiplier=0.005, max=0.2),
    stop=stop_after_attempt(_TRIES),
    reraise=True,
)


@dataclass(frozen=True, slots=True)
class Change:
    """The effect of one commit on a table.

    Attributes:
        adds: the files that it adds.
        removes: the files that it removes.
        positions: numbers that the table stores, by name.
        properties: table properties; a change with properties has nothing else in it.
    """

    adds: Sequence[AddAction] = ()
    removes: Sequence[RemoveAction] = ()
    positions: Mapping[str, int] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DatasetSnapshot:
    """A data set's table at one moment.

    Attributes:
        properties: the table's properties.
        descriptor: the data set's descriptor.
    """

    table: DeltaTable
    properties: Mapping[str, str]
    descriptor: Description

    @property
    def delta_version(self) -> int:
        """Delta's version of the table."""
        return int(self.table.version())

    @cached_property
    def id(self) -> str:
        """Delta's id of the table."""
        return str(self.table.metadata().id)

    @cached_property
    def files(self) -> pa.Table:
        """The files: ``path`` relative to the table's directory, ``partition``, and statistics.

        Sorted by path.
        """
        actions = pa.table(self.table.get_add_actions())
        paths = [unquote(path) for path in actions.column("path").to_pylist()]
        place = actions.schema.get_field_index("path")
        return actions.set_column(place, "path", pa.array(paths, pa.string())).sort_by("path")

    @cached_property
    def unremovable(self) -> frozenset[str]:
        """The paths of files that delta-rs cannot remove, as Spark spells them otherwise."""
        paths = pa.table(self.table.get_add_actions()).column("path").to_pylist()
        return frozenset(unquote(path) for path in paths if not is_logged_alike(path))

    @property
    def has_marked_rows(self) -> bool:
        """Whether its files have rows that are marked as deleted, which only Spark can read."""
        return has_marked_rows(self.table)

    def position(self, name: str) -> int | None:
        """Return a number that the table stores; None if it has none of that name."""
        position = self.table.transaction_version(name)
        return None if position is None else int(position)


class DataTable:
    """The Delta table of a data set, which may not exist."""

    def __init__(self, address: str, directory: Directory) -> None:
        self.address = address
        self.directory = directory

    def is_same_as(self, other: DataTable) -> bool:
        """Return whether it is the same table, however its path is spelled."""
        return self.directory.real == other.directory.real

    def snapshot(self) -> DatasetSnapshot | None:
        """Return the current snapshot; None if there is no table, or it is not a data set.

        Raises:
            CorruptStoreError: its descriptor is broken, or does not match its columns.
            StorageError: it cannot be read.
        """
        table = self.opened()
        if table is None:
            return None
        properties = table.metadata().configuration
        text = properties.get(PROPERTY)
        if text is None:
            return None
        try:
            snapshot = DatasetSnapshot(table, properties, Description.read(text))
        except BrokenDescriptorError as error:
            raise CorruptStoreError(
                f"the table at {self.address} has a broken descriptor: {error}; set its property "
                f"{PROPERTY} as it was",
                table=self.address,
            ) from error
        _check_columns(snapshot, self.address)
        return snapshot

    def at(self, delta_version: int) -> DatasetSnapshot:
        """Return the snapshot of an earlier Delta version.

        Raises:
            CorruptStoreError: Delta no longer has this version.
        """
        try:
            table = opened_at(self.directory, delta_version)
            properties = table.metadata().configuration
            return DatasetSnapshot(
                table, properties, Description.read(properties.get(PROPERTY, ""))
            )
        except (DeltaError, OSError, ValueError) as error:
            raise CorruptStoreError(
                f"the data set at {self.address} cannot be read as it was at its delta version "
                f"{delta_version}: {described(error)}",
                table=self.address,
            ) from error

    def opened(self) -> DeltaTable | None:
        """Return the Delta table, data set or not; None if there is none."""
        try:
            return opened_at(self.directory)
        except TableNotFoundError:
            return None
        except (DeltaError, OSError, ValueError) as error:
            raise StorageError(
                f"the table at {self.address} cannot be read: {described(error)}",
                table=self.address,
            ) from error

    def create(self, descriptor: Description, files: Sequence[AddAction] = ()) -> None:
        """Create the table with its descriptor, and files if given, in one commit.

        Raises:
            AlreadyExistsError: there is a table already; it is unchanged.
        """
        try:
            with self.effect("create"):
                if files:
                    self._put_first(descriptor, files)
                else:
                    _make(self.directory, descriptor)
        except StorageError:
            if self.opened() is None:
                raise
            raise already_there(self.address) from None
        except RefusedError as error:
            raise already_there(self.address) from error

    def _put_first(self, descriptor: Description, files: Sequence[AddAction]) -> None:
        """Create the table with files: delta-rs cannot create one with both properties and files.

        The first commit is that of an empty table created in another place, plus the files.
        """
        with TemporaryDirectory(prefix="deltaproduce-") as aside:
            place = Directory(ThisMachine(), f"{aside}/table")
            _make(place, descriptor)
            commit = place.read(commit_file(0)).text.rstrip("\n")
        actions = [commit, *(json.dumps({"add": action(file)}) for file in files)]
        if not self.directory.put_first(commit_file(0), "\n".join(actions) + "\n"):
            raise RefusedError("there is a first commit")

    def committed(self, decide: Callable[[], tuple[DatasetSnapshot, Change] | None]) -> None:
        """Commit the change that is decided on a snapshot; decide again if others were faster.

        Args:
            decide: returns the change; None if there is nothing left to do.

        Raises:
            ConflictError: other writers were faster each time.
            StorageError: it cannot be written, and is not there.
            CommitUnknownError: it cannot be written, and whether it is there cannot be read.
            DeltaProduceError: `decide` raises it.
        """
        try:
            _DECIDING_AGAIN.copy()(self._decide_and_commit, decide, uuid.uuid4().hex)
        except RefusedError as error:
            raise ConflictError(
                f"other writers of {self.address} were faster {_TRIES} times; try again later"
            ) from error

    def _decide_and_commit(
        self, decide: Callable[[], tuple[DatasetSnapshot, Change] | None], attempt: str
    ) -> None:
        """Commit what is decided now, unless an attempt that seemed to fail has done it.

        Raises:
            RefusedError: another writer was faster.
        """
        decided = decide()
        if decided is None:
            return
        snapshot, change = decided
        try:
            self._commit(snapshot, change, attempt)
        except (RefusedError, StorageError) as error:
            if is_committed(self.directory, snapshot.delta_version, attempt):
                return
            if isinstance(error, RefusedError) and not next_commit(
                self.directory, snapshot.delta_version
            ):  # nobody was faster
                raise _unwritable(self.address, one_line(error)) from error
            raise

    def _commit(self, snapshot: DatasetSnapshot, change: Change, attempt: str) -> None:
        said = _said(attempt, change.positions)
        with self.effect("mark" if change.properties else "commit"):
            if change.properties:
                committed(
                    lambda: snapshot.table.alter.set_table_properties(
                        dict(change.properties), raise_if_not_exists=False, commit_properties=said
                    )
                )
                return
            if change.adds:
                self.check_rules(snapshot)
            descriptor = snapshot.descriptor
            committed(
                lambda: snapshot.table.create_write_transaction(
                    [*change.adds, *change.removes],
                    "append",
                    Schema.from_arrow(arrow_fields(descriptor.all_columns)),
                    partition_by=[one.column.name for one in descriptor.partitions],
                    commit_properties=said,
                    post_commithook_properties=CHECKPOINTS,
                )
            )

    def check_rules(self, snapshot: DatasetSnapshot) -> None:
        """Refuse to add rows to a table that someone else has given rules for its rows.

        Raises:
            StorageError: it has a ``CHECK`` constraint.
        """
        for name in snapshot.properties:
            if name.startswith(CONSTRAINT):
                rule = name.removeprefix(CONSTRAINT)
                why = f"it has the CHECK constraint {rule!r}, which only Spark checks: drop it"
                raise _unwritable(self.address, why)

    def check_commits(self) -> None:
        """Refuse a place where two writers could overwrite each other's commits.

        Raises:
            StorageError: the object store cannot exclude concurrent commits.
        """
        if self.directory.file_system.keeps_first:
            return
        with self.effect("probe"):
            fault = commit_probe.fault(self.directory)
        if fault is not None:
            raise StorageError(
                f"no data set can be written at {self.address}: {fault}. Use a service that puts a "
                "file on the condition that it is not there (If-None-Match)",
                table=self.address,
            )

    @contextmanager
    def effect(self, name: str) -> Iterator[None]:
        """Run an effect on the table or its files between its fail points.

        Raises:
            RefusedError: another writer was faster.
            StorageError: the effect fails.
        """
        try:
            with effect(name, self.address):
                yield
        except (DeltaError, OSError) as error:
            if isinstance(error, DeltaProduceError):
                raise
            raise _unwritable(self.address, unwritable(error) or described(error)) from error


def _unwritable(address: str, why: str) -> StorageError:
    return StorageError(
        f"the data set at {address} cannot be written ({why}); nothing of this is visible",
        table=address,
    )


def _make(directory: Directory, descriptor: Description) -> None:
    """Create an empty table."""
    committed(
        lambda: DeltaTable.create(
            directory.uri,
            Schema.from_arrow(arrow_fields(descriptor.all_columns)),
            partition_by=[one.column.name for one in descriptor.partitions],
            configuration={**_PROPERTIES, PROPERTY: descriptor.json},
            storage_options=directory.storage_options,
            commit_properties=_said(uuid.uuid4().hex),
            raise_if_key_not_exists=False,
        )
    )


def already_there(address: str) -> AlreadyExistsError:
    """Return the error for a location that already has a Delta table."""
    return AlreadyExistsError(
        f"there is a Delta table at {address} already; find it, or choose another location",
        location=address,
    )


def _said(attempt: str, positions: Mapping[str, int] | None = None) -> CommitProperties:
    """Return the properties of a commit, which must directly follow its snapshot."""
    transactions = [Transaction(name, number) for name, number in (positions or {}).items()]
    return properties_of(json.dumps({"attempt": attempt}), transactions or None, next_one=True)


def _check_columns(snapshot: DatasetSnapshot, address: str) -> None:
    """Refuse a table whose columns do not match its descriptor, but for comments on them."""
    descriptor, table = snapshot.descriptor, snapshot.table
    wanted = json.loads(Schema.from_arrow(arrow_fields(descriptor.all_columns)).to_json())
    by = [one.column.name for one in descriptor.partitions]
    there = json.loads(table.schema().to_json())
    if (
        _uncommented(there["fields"]) != wanted["fields"]
        or table.metadata().partition_columns != by
    ):
        names = [one["name"] for one in there["fields"]]
        raise CorruptStoreError(
            f"the table at {address} has the columns {', '.join(names)}, which are not those of "
            "its descriptor, or it is partitioned by others: someone else has changed it",
            table=address,
        )


def _uncommented(part: Any) -> Any:  # noqa: ANN401 a part of JSON
    """Return a part of a schema as JSON, without comments."""
    if isinstance(part, list):
        return [_uncommented(one) for one in part]
    if isinstance(part, dict):
        return {name: _uncommented(one) for name, one in part.items() if name != "comment"}
    return part
