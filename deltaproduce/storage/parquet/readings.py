"""Readings: count the rows and bytes that are read from stored tables.

The invariant: a read counts in the thread that asks for it, so the reads of a background compaction
do not count for the version.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

_ASSUMED_RATE: Final = 100e6
"""The bytes that the driver reads in a second, until it has read some: those of a plain disk."""
_LEAST_MEASURED: Final = 1 << 20
"""A smaller read says more of how long a file takes to open."""


class ReadAmount(NamedTuple):
    """The amount of a read.

    Attributes:
        rows: the rows of whole row groups; for reads by Spark, the most that it may have to read.
        size: the bytes as they are stored: compressed. If only Spark sees the files, the bytes of
            the rows in memory.
    """

    rows: int = 0
    size: int = 0

    def after(self, earlier: ReadAmount) -> ReadAmount:
        """Return the amount read since an earlier total."""
        return ReadAmount(self.rows - earlier.rows, self.size - earlier.size)

    def and_(self, other: ReadAmount) -> ReadAmount:
        """Return both amounts together."""
        return ReadAmount(self.rows + other.rows, self.size + other.size)


NOTHING_READ: Final = ReadAmount()


class Readings:
    """The amounts read from the tables of one store."""

    def __init__(self) -> None:
        self._of_thread = threading.local()
        self._measured = 0, 0.0

    @property
    def total(self) -> ReadAmount:
        """The amount that this thread has read so far."""
        total: ReadAmount = getattr(self._of_thread, "total", NOTHING_READ)
        return total

    def add(self, rows: int, size: int) -> None:
        """Count the next read."""
        total = self.total
        self._of_thread.total = ReadAmount(total.rows + rows, total.size + size)

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure how long the reads of the block take."""
        before, began = self.total.size, time.perf_counter()
        yield
        size, seconds = self.total.size - before, time.perf_counter() - began
        if size >= _LEAST_MEASURED:
            known_size, known_seconds = self._measured
            self._measured = known_size + size, known_seconds + seconds

    def seconds(self, size: float) -> float:
        """Return about how long the driver takes to read so many bytes, as they are stored."""
        known_size, known_seconds = self._measured
        return size * known_seconds / known_size if known_seconds else size / _ASSUMED_RATE
