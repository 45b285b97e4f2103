"""Limits: up to which sizes a step is done in which way.

Each is a number of rows, keys or runs beyond which another way is quicker, or the first would not
work at all. The invariant: a limit decides how a step is done, never what it does; the tests set
each of them to nothing and get the same tables.
"""

SMALL_TABLE_ROWS = 20_000
"""Of a table of at most so many rows, all are read and written: a look-up would cost as much."""

LOCAL_ROWS = 100_000
"""The most rows of a table, a batch or a function's output that a step brings to the driver."""

LOCAL_BYTES = 64 << 20
"""The most bytes that they may have, as `frames.row_bytes` estimates them."""

PLAN_ROWS = 5_000
"""The most rows from the driver that are part of a query's plan; Spark takes others in a job."""

SEEK_KEYS = 10_000
"""The most keys, or pairs of keys, that a predicate names: Spark plans 50,000 in seconds."""

GROUP_ROWS = 8_192
"""The most rows of a row group in files where keys are looked up (`parquet_seeks`)."""

SEEK_ROWS = 16_000_000
"""The most rows of row groups that a look-up reads there; Spark reads more at a time."""

FULL_ROWS = 50_000
"""Of at least so many rows that a stage reads, all are produced if nearly all have changed."""

PRESERVED_ROWS = 1_000_000
"""The most rows that one task calls `preserve` for: others side by side, by ranges of keys."""

RUN_ROWS = 300_000
"""The most rows of one run (merge on read); a step of more writes the table anew."""

OVERLAY_ROWS = 800_000
"""The most rows of all runs since a table was written: a store holds them in memory."""

OVERLAY_RUNS = 200
"""The most runs since a table was written: a step that would add one more writes it anew."""

COMPACTION_ROWS = 200_000
"""So many rows in runs are folded into their tables beside the versions that follow."""

COMPACTION_COMMITS = 100
"""So many runs are folded, and so many small files of one table put in order."""


def local_rows(row_bytes: int) -> int:
    """The most rows of so many bytes each that a step brings to the driver."""
    return min(LOCAL_ROWS, LOCAL_BYTES // max(row_bytes, 1))


def preserving_tasks(rows: int) -> int:
    """How many tasks call `preserve` for so many rows."""
    return max(1, -(-rows // max(PRESERVED_ROWS, 1)))


def is_small(rows: int, row_bytes: int) -> bool:
    """Whether a table is read and written whole."""
    return rows <= SMALL_TABLE_ROWS and rows * row_bytes <= LOCAL_BYTES


def is_full(run_rows: int, runs: int) -> bool:
    """Whether so many runs are to be folded into their tables."""
    return run_rows >= COMPACTION_ROWS or runs >= COMPACTION_COMMITS


def fits_overlay(run_rows: int, overlay_rows: int, overlay_runs: int, row_bytes: int) -> bool:
    """Whether a step can be a run, beside the rows and runs that are in the overlay already."""
    rows = overlay_rows + run_rows
    few = run_rows <= RUN_ROWS and rows <= OVERLAY_ROWS and overlay_runs < OVERLAY_RUNS
    return few and rows * row_bytes <= LOCAL_BYTES
