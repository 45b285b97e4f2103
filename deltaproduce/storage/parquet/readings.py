"""Readings: how many rows and bytes are read from stored tables.

The invariant: what is read counts where it is asked for, in the thread that asks, so that a
compaction beside a version is not among what the version has read.
"""

from __future__ import annotations

import threading
from typing import Final, NamedTuple


class Reading(NamedTuple):
    """So much was read.

    Attributes:
        rows: those of whole row groups; of what Spark reads, as many as it may have to.
        size: bytes, as they are stored: compressed. Where only Spark sees the files, as many as the
            rows have in memory.
    """

    rows: int = 0
    size: int = 0

    def after(self, earlier: Reading) -> Reading:
        """What came after an earlier total."""
        return Reading(self.rows - earlier.rows, self.size - earlier.size)


NOTHING_READ: Final = Reading()


class Readings:
    """What was read of the tables of one store."""

    def __init__(self) -> None:
        self._of_thread = threading.local()

    @property
    def total(self) -> Reading:
        """What this thread has asked for until now."""
        found: Reading = getattr(self._of_thread, "total", NOTHING_READ)
        return found

    def add(self, rows: int, size: int) -> None:
        """Count what is read next."""
        total = self.total
        self._of_thread.total = Reading(total.rows + rows, total.size + size)
