"""Handles: Delta tables that stay open, and go on from the commit that they have read last.

To open a table reads its newest checkpoint, all commits after it and what files there are, which
takes the longer the older the table is. A handle that is kept reads what is new. The invariant: a
handle is used by one caller at a time, and only while the last commit that it has read is the
file that it was: otherwise the table was removed or made again, and is opened anew.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final, NamedTuple

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from deltaproduce.engines.delta_log import commit_file

_MOST: Final = 256
"""So many are kept: each holds the names of its table's files."""
_COMMITS: Final = 50
"""A commit with a handle takes 0.1 ms more for each that was made with it; to open it, some 10."""


class _Mark(NamedTuple):
    """What tells a file from another one at the same path."""

    inode: int
    changed: int
    size: int


class Handle(NamedTuple):
    """A table, and at which delta version it was opened."""

    table: DeltaTable
    since: int


class Handles:
    """The tables that one store has open."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Handle, _Mark]] = {}

    def newest(self, directory: str) -> Handle:
        """A table as it is now.

        Raises:
            TableNotFoundError: there is none.
            DeltaError, OSError, ValueError: it cannot be read.
        """
        handle, mark = self._kept.pop(directory, (None, None))  # at once: no other thread has it
        if handle is not None and _mark(directory, handle.table) == mark:
            with suppress(DeltaError, OSError, ValueError):  # opened anew, it says what is wrong
                handle.table.update_incremental()
                return handle
        opened = DeltaTable(directory)
        return Handle(opened, opened.version())

    def keep(self, directory: str, handle: Handle) -> None:
        """Keep a table for the next one who asks; the caller is done with it."""
        mark, commits = _mark(directory, handle.table), handle.table.version() - handle.since
        if mark is not None and commits < _COMMITS and len(self._kept) < _MOST:
            self._kept[directory] = handle, mark


def _mark(directory: str, table: DeltaTable) -> _Mark | None:
    try:
        found = os.stat(os.path.join(directory, commit_file(table.version())))
    except OSError:
        return None
    return _Mark(found.st_ino, found.st_mtime_ns, found.st_size)
