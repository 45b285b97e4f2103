"""Spilling: large rows that are kept for later are kept in a file, which the system maps.

A version's steps are all computed before the first is written, so what they found out is held for
as long. The pages of a mapped file are the system's to drop and to read again, so what is held
takes no memory that something else needs. The file has no name any more once it is open: it goes
with the last table that looks into it, or with the process.
"""

from __future__ import annotations

import os
import tempfile
from typing import Final

import pyarrow as pa

_LARGE_BYTES: Final = 64 << 20
_BATCH_ROWS: Final = 1 << 20


def spilled(rows: pa.Table) -> pa.Table:
    """The same rows, from a file in the directory for temporary ones if they are large."""
    if rows.nbytes < _LARGE_BYTES:
        return rows
    handle, path = tempfile.mkstemp(prefix="deltaproduce-", suffix=".arrow")
    try:
        with os.fdopen(handle, "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows, max_chunksize=_BATCH_ROWS)
        with pa.memory_map(path) as mapped:
            return pa.ipc.open_file(mapped).read_all()
    finally:
        os.unlink(path)
