"""Pending rows: the rows of partitions whose files are not written yet.

At most `most_open` partitions have rows in memory, and at most `most_bytes` of them. The rows of
other partitions spill to an unlinked temporary file, and are read once more when their own file is
written. The invariant: the rows of a partition come back in the order in which they were added,
however often they spilled.
"""

from __future__ import annotations

import mmap
import tempfile
from collections import OrderedDict
from typing import Any, Final, NamedTuple
from weakref import finalize

import pyarrow as pa

from deltaproduce.described.partitions import Values

_PAGE: Final = mmap.ALLOCATIONGRANULARITY


class Span(NamedTuple):
    """The position of spilled rows in the file, in bytes."""

    start: int
    size: int


class _Aside:
    """The file of spilled rows; a new file begins once nothing is left in it."""

    def __init__(self) -> None:
        self._file: Any = None
        self._end = self._spans = 0

    def put(self, rows: pa.Table) -> Span:
        if self._file is None or not self._spans:
            self.close()  # tables taken from it stay mapped
            self._file = tempfile.TemporaryFile(prefix="deltaproduce-")  # noqa: SIM115 it stays
            finalize(self, self._file.close)
            self._end = 0
        self._file.seek(self._end)
        with pa.ipc.new_stream(self._file, rows.schema) as writer:
            writer.write_table(rows)
        self._file.flush()
        span = Span(self._end, self._file.tell() - self._end)
        self._end += -(-span.size // _PAGE) * _PAGE
        self._spans += 1
        return span

    def take(self, span: Span) -> pa.Table:
        """Return rows, which stay readable as long as anyone holds them."""
        mapped = mmap.mmap(
            self._file.fileno(), span.size, offset=span.start, access=mmap.ACCESS_READ
        )
        self._spans -= 1
        return pa.ipc.open_stream(pa.py_buffer(mapped)).read_all()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class _Rows:
    """The rows of one partition."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.count = self.bytes = 0
        self.held: list[pa.Table] = []
        self.spans: list[Span] = []


class Pending:
    """The rows of all partitions that wait for their files.

    Args:
        most_open: this many partitions may have rows in memory.
        most_bytes: their rows may take this many bytes.
    """

    def __init__(self, most_open: int, most_bytes: int) -> None:
        self._most_open = most_open
        self._most_bytes = most_bytes
        self._rows: OrderedDict[Values, _Rows] = OrderedDict()
        self._open: OrderedDict[Values, None] = OrderedDict()
        self._bytes = 0
        self._aside = _Aside()

    def add(self, partition: Values, rows: pa.Table, first: int) -> None:
        """Add rows of a partition after the rows that it has.

        Args:
            first: the number of the first new row.
        """
        pending = self._rows.setdefault(partition, _Rows(first))
        size = rows.nbytes
        pending.held.append(rows)
        pending.count += len(rows)
        pending.bytes += size
        self._bytes += size
        self._open[partition] = None
        self._open.move_to_end(partition)
        while len(self._open) > self._most_open or self._bytes > self._most_bytes:
            least_recent = next(iter(self._open))
            self._put_aside(least_recent)

    def take(self, partition: Values) -> list[pa.Table]:
        """Remove and return all rows of a partition."""
        rows = self._rows.pop(partition)
        self._open.pop(partition, None)
        self._bytes -= rows.bytes
        return [*map(self._aside.take, rows.spans), *rows.held]

    def count(self, partition: Values) -> int:
        """Return the number of rows of a partition."""
        rows = self._rows.get(partition)
        return 0 if rows is None else rows.count

    def firsts(self) -> dict[Values, int]:
        """Return the number of the first row of each partition that has any, oldest first."""
        return {partition: rows.first for partition, rows in self._rows.items()}

    @property
    def largest(self) -> int:
        """Return the number of rows of the largest partition."""
        return max((rows.count for rows in self._rows.values()), default=0)

    @property
    def partitions(self) -> list[Values]:
        """Return the partitions that have rows, oldest first."""
        return list(self._rows)

    def close(self) -> None:
        """Drop all rows and the file."""
        self._rows.clear()
        self._open.clear()
        self._bytes = 0
        self._aside.close()

    def _put_aside(self, partition: Values) -> None:
        rows = self._rows[partition]
        rows.spans.append(self._aside.put(pa.concat_tables(rows.held)))
        rows.held = []
        self._bytes -= rows.bytes
        rows.bytes = 0
        del self._open[partition]
