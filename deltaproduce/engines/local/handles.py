"""Handles: Delta tables that stay open, and continue from the commit that they read last.

To open a table means to read its newest checkpoint, all commits after it and its list of files,
which takes longer for older tables. A handle that is kept reads only new commits, so a store opens
a table once, whether it reads or writes it first. It lists the log only if there are new commits,
since a log is never cleaned up: listing 1,000 commits takes 1 ms. The invariant: a handle is used
by one caller at a time, and only while the last commit that it has read is the same file:
otherwise the table was removed or recreated, and is reopened.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from deltaproduce.engines.delta.log import commit_file
from deltaproduce.engines.file_systems.directory import Directory

_MOST: Final = 256
"""The most handles that are kept: each holds the names of its table's files."""
_COMMITS: Final = 50
"""A handle's commit takes 0.1 ms more for each one made with it; reopening takes about 10 ms."""


class Handle(NamedTuple):
    """A table, and the delta version at which it was opened."""

    table: DeltaTable
    since: int


class Handles:
    """The open tables of one store."""

    def __init__(self) -> None:
        self._kept: dict[Directory, tuple[Handle, object]] = {}

    def newest(self, directory: Directory) -> Handle:
        """Return a table in its current state.

        Raises:
            TableNotFoundError: there is none.
            DeltaError, OSError, ValueError: it cannot be read.
        """
        handle, mark = self._kept.pop(directory, (None, None))  # at once: no other thread has it
        if handle is not None and _mark(directory, handle.table) == mark:
            with suppress(DeltaError, OSError, ValueError):  # reopening says what is wrong
                if directory.exists(commit_file(handle.table.version() + 1)):
                    handle.table.update_incremental()
                return handle
        opened = opened_at(directory)
        return Handle(opened, opened.version())

    @contextmanager
    def reading(self, directory: Directory, delta_version: int) -> Iterator[DeltaTable]:
        """Lend a table at a delta version, which is only read.

        Raises:
            TableNotFoundError: there is none.
            DeltaError, OSError, ValueError: it cannot be read, or not at that version.
        """
        handle, mark = self._kept.pop(directory, (None, None))
        if handle is not None and _mark(directory, handle.table) != mark:
            handle = None
        if handle is not None and handle.table.version() != delta_version:
            self._kept.setdefault(directory, (handle, mark))
            handle = None
        if handle is None:
            handle = Handle(opened_at(directory, delta_version), delta_version)
        yield handle.table
        self.keep(directory, handle)

    def keep(self, directory: Directory, handle: Handle) -> None:
        """Keep a table for the next caller, unless a newer one is; this caller is done with it."""
        mark, version = _mark(directory, handle.table), handle.table.version()
        known, _ = self._kept.get(directory, (None, None))
        if known is not None and known.table.version() > version:
            return
        if mark is not None and version - handle.since < _COMMITS and len(self._kept) < _MOST:
            self._kept[directory] = handle, mark


def opened_at(directory: Directory, delta_version: int | None = None) -> DeltaTable:
    """Open a table; without a delta version, at its newest.

    Raises:
        TableNotFoundError: there is none.
        DeltaError, OSError, ValueError: it cannot be read, or not at that version.
    """
    options = directory.storage_options
    return DeltaTable(directory.uri, version=delta_version, storage_options=options)


def _mark(directory: Directory, table: DeltaTable) -> object | None:
    return directory.mark(commit_file(table.version()))
