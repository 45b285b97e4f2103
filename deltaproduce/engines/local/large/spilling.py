"""Spilling: large tables that are kept for later go to a memory-mapped file.

All steps of a version are computed before the first is written, so their results are held that
long. The system can drop and reread the pages of a mapped file, so the results take no memory that
other work needs. The file has no name once it is open: it goes away with the last table that uses
it, or with the process, however that ends.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final
from weakref import finalize

import pyarrow as pa

from deltaproduce.errors import StorageError

LARGE_BYTES: Final = 64 << 20
"""The fewest bytes of rows kept for later that go to a file."""
_BATCH_ROWS: Final = 1 << 20


class Spill:
    """Rows that come table by table: in memory while they are few, then in a file.

    Args:
        most_bytes: the most bytes in memory; unlimited if None.
        most_rows: the most rows in memory; unlimited if None.
    """

    def __init__(self, most_bytes: int | None = None, most_rows: int | None = None) -> None:
        self._most_bytes = most_bytes
        self._most_rows = most_rows
        self._schema: pa.Schema | None = None
        self._held: list[pa.RecordBatch] = []
        self._rows = self._bytes = self._count = 0
        self._file: Any = None
        self._writer: Any = None
        self._read: list[pa.RecordBatch] | None = None

    def add(self, rows: pa.Table) -> range:
        """Add rows, which have the same columns as earlier ones.

        Returns:
            The numbers of their batches; see `batches`.
        """
        assert self._read is None
        if self._schema is None:
            self._schema = rows.schema
        first = self._count
        for batch in rows.to_batches(max_chunksize=_BATCH_ROWS):
            if batch.num_rows:
                self._take(batch)
        return range(first, self._count)

    @property
    def is_begun(self) -> bool:
        """Whether a table was added, even an empty one."""
        return self._schema is not None

    def batches(self) -> list[pa.RecordBatch]:
        """Return all rows, in the order of arrival; no more can be added afterwards."""
        if self._writer is None:
            return self._held
        if self._read is None:
            with reporting():
                self._writer.close()
                self._file.flush()
            self._read = [*pa.ipc.open_stream(pa.memory_map(f"/dev/fd/{self._file.fileno()}"))]
            self._file.close()
        return self._read

    def table(self) -> pa.Table:
        """Return all rows as one table; at least one table was added."""
        return self.of(range(self._count))

    def of(self, numbers: Iterable[int]) -> pa.Table:
        """Return the rows of some batches, as a table."""
        batches = self.batches()
        return pa.Table.from_batches([batches[number] for number in numbers], self._schema)

    def _take(self, batch: pa.RecordBatch) -> None:
        self._count += 1
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        self._held.append(batch)
        bounds = (self._bytes, self._most_bytes), (self._rows, self._most_rows)
        if self._writer is None and not any(
            most is not None and end > most for end, most in bounds
        ):
            return
        with reporting():
            if self._writer is None:
                self._file = tempfile.TemporaryFile(prefix="deltaproduce-")  # noqa: SIM115 it stays
                finalize(self, _close, self._file)
                # A stream, as in a file of batches all would have to share one dictionary.
                self._writer = pa.ipc.new_stream(self._file, self._schema)
            for held in self._held:
                self._writer.write_batch(held)
        self._held = []


@contextmanager
def reporting() -> Iterator[None]:
    """Say where temporary files are if they cannot be written.

    Raises:
        StorageError: there is no space, no right to write, or no such directory.
    """
    try:
        yield
    except OSError as error:
        place = tempfile.tempdir or "a temporary directory"
        raise StorageError(
            f"rows that do not fit in memory cannot be kept in {place!r} "
            f"({error.strerror or error}): nothing of this is visible. Make room there, or let "
            "TMPDIR name another directory, and run it again"
        ) from error


def _close(file: Any) -> None:  # noqa: ANN401 any file
    """Close a file that nobody reads any more, even if its last bytes cannot be written."""
    with suppress(OSError):
        file.close()


def spilled(rows: pa.Table, size: int) -> pa.Table:
    """Return the same rows, from a temporary file if they are large.

    Args:
        size: their bytes; to find these takes longer than many a small step.
    """
    if size < LARGE_BYTES:
        return rows
    spill = Spill(LARGE_BYTES)
    spill.add(rows)
    return spill.table()
