"""Maintenance of a store's tables: smaller and fewer files, without a change of any row."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

import pyarrow as pa

from deltaproduce.engines.delta.log import LOG, LogFiles
from deltaproduce.engines.engine import Rows
from deltaproduce.storage.edits import Edit
from deltaproduce.storage.locations import StoreTable
from deltaproduce.storage.tables.access import TableAccess
from deltaproduce.storage.tables.effects import TableEffects
from deltaproduce.storage.tables.writes import as_write


class Maintenance:
    """Compaction of tables, and the removal of tables, files and logs that nobody needs."""

    def __init__(self, access: TableAccess, effects: TableEffects) -> None:
        self._access = access
        self._effects = effects

    def merge(self, table: StoreTable, edit: Edit, paths: Iterable[str], base: int) -> None:
        """Write the rows of some files again, in place of these files; change no row.

        Args:
            edit: adds these rows, in order.
            paths: the files' paths from the table's directory.
            base: the table's delta version.

        Raises:
            ConflictError: the table has moved since.
        """
        write = as_write(edit, "", self._access, is_known=True)
        write = replace(write, merged=frozenset(paths), located_at=base)
        with self._effects.run("optimize", table):
            self._access.delta.write(self._access.place(table), write)

    def compact(self, table: StoreTable, *, in_order: bool = True) -> None:
        """Merge small files into large ones; change no row.

        Args:
            in_order: whether the rows of a file stay in order, if there is a session.
        """
        with self._effects.run("optimize", table):
            self._access.delta.optimize(self._access.place(table), in_order=in_order)

    def check_cleaned(self, table: StoreTable) -> None:
        """Refuse a table whose files cannot be found and removed; see `Deltas.check_cleaned`."""
        self._access.delta.check_cleaned(self._access.place(table))

    def unneeded(
        self, table: StoreTable, needed: Collection[int], unfinished_since: datetime
    ) -> pa.Table | None:
        """Return the files that no version needs; None if Spark finds them: see `storage.files`."""
        with self._access.readable(table):
            return self._access.delta.unneeded(self._access.place(table), needed, unfinished_since)

    def remove_files(self, table: StoreTable, inventory: Rows) -> None:
        """Remove files of a table, regardless of Delta's retention; the table's current files stay.

        Args:
            inventory: see `Deltas.remove_files`.
        """
        with self._effects.run("vacuum", table):
            self._access.delta.remove_files(self._access.place(table), inventory)

    def log_files(self, table: StoreTable) -> LogFiles | None:
        """Return the files of a table's log; None if Python does not remove files there."""
        with self._access.readable(table):
            return self._access.delta.log_files(self._access.place(table))

    def may_begin(self, table: StoreTable, checkpoint: int) -> bool:
        """Return whether a table's log may begin with a checkpoint: see `Deltas.may_begin`."""
        with self._access.readable(table):
            return self._access.delta.may_begin(self._access.place(table), checkpoint)

    def named_log_files(self, table: StoreTable, names: Iterable[str]) -> list[str]:
        """Return files of a table's log as Spark names them. Only where `log_files` returns some.

        Args:
            names: their names in the log's directory.
        """
        directory = self._access.place(table).directory
        return [] if directory is None else [directory.named(f"{LOG}/{name}") for name in names]

    def remove_log_files(self, table: StoreTable, names: Sequence[str]) -> None:
        """Remove files of a table's log, one after the other: see `Deltas.remove_log_files`."""
        with self._effects.run("trim", table):
            self._access.delta.remove_log_files(self._access.place(table), names)

    def drop(self, table: StoreTable) -> None:
        """Remove a table with all of its files."""
        with self._effects.run("drop", table):
            self._access.delta.drop(self._access.place(table))

    def has_others(self, table: StoreTable) -> bool:
        """Return whether a table's directory contains other tables, at any depth."""
        return not table.in_catalog and self._access.delta.has_others(self._access.place(table))
