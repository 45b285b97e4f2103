"""Every effect on a store's tables: between its fail points, with its errors translated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from deltaproduce.engines.delta.tables import RefusedError
from deltaproduce.engines.local import commit_probe
from deltaproduce.engines.spark.delta import unwritable
from deltaproduce.errors import DeltaProduceError, StorageError
from deltaproduce.storage.attempts import Attempt
from deltaproduce.storage.decisions.recovery import overtaken
from deltaproduce.storage.failpoints import effect
from deltaproduce.storage.locations import StoreTable
from deltaproduce.storage.tables.access import TableAccess
from deltaproduce.storage.tables.reader import TableReader


class TableEffects:
    """Runs effects on the tables of one store."""

    def __init__(self, access: TableAccess, reader: TableReader) -> None:
        self._access = access
        self._reader = reader
        self._is_checked = False

    @contextmanager
    def run(
        self, name: str, table: StoreTable, attempt: Attempt | None = None, base: int | None = None
    ) -> Iterator[None]:
        """Run an effect on a table between its fail points, and translate its errors.

        Raises:
            ConflictError: Delta refuses it because of another writer.
            CorruptStoreError: Delta refuses it because of someone else's commit.
            StorageError: there is no space, or no right to write.
        """
        try:
            self._check_commits()
            with effect(name, table.name):
                yield
        except RefusedError as refused:
            commits = self._reader.recent_commits(table, base)
            raise overtaken(table.name, attempt, base, commits) from refused.__cause__
        except Exception as error:
            root = self._access.root.directory
            silenced = unwritable(error) or (root and root.file_system.silence(error))
            if silenced is None or isinstance(error, DeltaProduceError):
                raise
            raise StorageError(
                f"table {table.name!r} cannot be written ({silenced}): nothing of this is visible. "
                f"Make room or give the right to write at {table.address}, and run it again",
                table=table.name,
            ) from error

    def _check_commits(self) -> None:
        """Refuse a store where two writers could overwrite each other's commits; check once.

        Raises:
            StorageError: delta-rs would commit there, and the file system does not prevent that.
        """
        root = None if self._is_checked else self._access.delta.unproven(self._access.root)
        if root is None:
            return
        with effect("probe", self._access.location.address):
            fault = commit_probe.fault(root)
        if fault is not None:
            raise StorageError(
                f"no store can be written at {self._access.location.address} without a session: "
                f"{fault}. Use a service that puts a file on the condition that it is not there "
                "(If-None-Match), or write all versions in one driver of Spark"
            )
        self._is_checked = True
