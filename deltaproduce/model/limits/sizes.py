"""Limits: the sizes up to which a step is done in one way or another.

Each is a number of rows, keys or runs beyond which another way is faster, or the first would not
work at all. The invariant: a limit decides how a step is done, never what it does; the tests set
each limit to zero and get the same tables.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from deltaproduce.model.limits.machine import memory_bytes

NEARLY_ALL: Final = 90
"""So many hundredths are nearly all."""
_MOST_BYTES: Final = 1 << 30
"""Arrow counts the bytes of a text column in 32 bits."""
_BYTES_SHARE: Final = 48
_KEPT_BYTES: Final = 64 << 20
"""Spark keeps so many bytes of rows, and sends them, about as fast as its Python workers start."""
_REMOTE_ROWS: Final = 100_000
_REMOTE_BYTES: Final = 64 << 20
_ROWS_SHARE: Final = 1_500
"""A step holds about this many bytes per row in addition to the row's values."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The sizes up to which a store does a step in which way; fixed when it is opened.

    Attributes:
        small_table_rows: a table of at most this many rows is read and written whole: a look-up
            would cost as much. Content in several partitions is looked up, and only the partitions
            of changed rows are written.
        small_table_bytes: the most bytes of such a table.
        local_rows: the most rows of a table, a batch or a function's output that a step processes
            on the driver all at once; by default one for each 1,500 bytes of the driver's memory.
        local_bytes: the most bytes of these rows, as `frames.row_bytes` estimates them; by default
            a 48th of the driver's memory, and at most 1 GiB. A step holds several times as much.
            A step with more rows holds a part of about this size in memory at a time, and keeps the
            others in temporary files.
        local_parts: the most such parts of one table that a step processes on the driver if there
            is a session; more are Spark's. Without a session, and when an aggregate is loaded,
            there may be any number of parts.
        cluster_rows: the most rows in place of `local_rows` if executors are other machines; None
            for no other number. Below all these limits a step then runs where it is estimated to
            be done sooner (`placement`). With Spark Connect, None is 100,000.
        cluster_bytes: the same for `local_bytes`; with Spark Connect, None is 64 MiB.
        fetched_bytes: the most bytes that Spark has computed and that come to the driver through
            its heap; Spark returns no more than 1 GiB at once by default. If Spark's tasks run in
            this machine's one Java process, more bytes, up to `local_bytes`, come in files.
        plan_rows: the most rows from the driver that are part of a query's plan; Spark reads more
            of them in a job.
        task_bytes: about how many bytes of rows a Spark task compares at a time. Spark itself
            compares a larger key.
        rewritten_rows: the most rows of a table that is rewritten whole if some of its rows are
            replaced (copy on write): the driver writes a million in 0.3 s, and Spark takes 2 s to
            replace any.
        replaced_percent: the largest share of a table's rows that the driver marks as replaced in
            one step; twice that share, in all steps since the table was rewritten. With more, it is
            rewritten.
        seek_keys: the most keys, or pairs of keys, in a predicate: Spark takes seconds to plan
            50,000.
        group_rows: the most rows of a row group in files where keys are looked up
            (`parquet.seeks`).
        end_rows: the same in files where a step reads only the first or the last of many adjacent
            rows: the least value of a group, for example.
        partition_rows: if windows read a stage, a partition of at least this many rows has its own
            file; smaller ones share one. By default a row group.
        partition_files: about the most files of such a content, so that large tables have larger
            files.
        seek_rows: the most rows of row groups that a look-up reads on the driver; Spark, if there
            is a session, reads more at a time.
        full_rows: if a stage reads at least this many rows, and nearly all have changed, it is
            recomputed in full. If an aggregate has at least this many, and a step reaches nearly
            all, they are read and written whole.
        preserved_rows: the most rows for which one task calls `preserve`; more run in parallel, by
            ranges of keys.
        run_rows: the most rows of one run (merge on read); a larger step rewrites the table.
        overlay_rows: the most rows of all runs since a table was rewritten: a store holds them in
            memory.
        overlay_bytes: the most bytes of these rows.
        overlay_runs: the most runs since a table was rewritten: a step that would add one more
            rewrites it.
        compaction_rows: when runs have this many rows, they are folded into their tables in the
            background.
        compaction_commits: when there are this many runs, they are folded; when there are this many
            small files of one table, they are merged.
        merged_commits: after so many commits that each replaced some rows of a table, its small
            files are merged, as far as they are of a similar size.
    """

    small_table_rows: int = 20_000
    small_table_bytes: int = 64 << 20
    local_rows: int = field(default_factory=lambda: memory_bytes() // _ROWS_SHARE)
    local_bytes: int = field(
        default_factory=lambda: min(memory_bytes() // _BYTES_SHARE, _MOST_BYTES)
    )
    local_parts: int = 8
    cluster_rows: int | None = None
    cluster_bytes: int | None = None
    fetched_bytes: int = 256 << 20
    plan_rows: int = 5_000
    task_bytes: int = 64 << 20
    rewritten_rows: int = 4_000_000
    replaced_percent: int = 25
    seek_keys: int = 10_000
    group_rows: int = 8_192
    end_rows: int = 1_024
    partition_rows: int = 8_192
    partition_files: int = 1_000
    seek_rows: int = 16_000_000
    full_rows: int = 50_000
    preserved_rows: int = 1_000_000
    run_rows: int = 300_000
    overlay_rows: int = 800_000
    overlay_bytes: int = 64 << 20
    overlay_runs: int = 200
    compaction_rows: int = 200_000
    compaction_commits: int = 100
    merged_commits: int = 8

    def of_cluster(self, *, is_remote: bool) -> Limits:
        """Return the limits of a store in a session whose executors are other machines.

        Args:
            is_remote: the session is of Spark Connect, which takes few rows from its client.
        """
        most_rows, most_bytes = self.cluster_rows, self.cluster_bytes
        if is_remote:
            most_rows = _REMOTE_ROWS if most_rows is None else most_rows
            most_bytes = _REMOTE_BYTES if most_bytes is None else most_bytes
        return replace(
            self,
            local_rows=self.local_rows if most_rows is None else min(self.local_rows, most_rows),
            local_bytes=self.local_bytes
            if most_bytes is None
            else min(self.local_bytes, most_bytes),
        )

    def rows_of_group(self, *, by_ends: bool) -> int:
        """Return the rows of a row group in a table where keys, and perhaps ends, are looked up."""
        return min(self.group_rows, self.end_rows) if by_ends else self.group_rows

    def partition_rows_of(self, rows: int) -> int:
        """Return the fewest rows of a partition with its own file, in a table of ``rows`` rows."""
        return max(self.partition_rows, rows // max(self.partition_files, 1), 1)

    def rows_of(self, row_bytes: int) -> int:
        """Return the most rows of ``row_bytes`` bytes each that are one part on the driver."""
        return min(self.local_rows, self.local_bytes // max(row_bytes, 1))

    def local_rows_of(self, row_bytes: int) -> int:
        """Return the most rows of ``row_bytes`` bytes each that are local; see `is_local`."""
        most = self.local_parts
        return min(most * self.local_rows, most * self.local_bytes // max(row_bytes, 1))

    def is_local(self, rows: int, total_bytes: int) -> bool:
        """Return whether a step brings this many rows to the driver, perhaps part by part."""
        most = self.local_parts
        return rows <= most * self.local_rows and total_bytes <= most * self.local_bytes

    def is_one_part(self, rows: int, total_bytes: int) -> bool:
        """Return whether a step brings this many rows to the driver, and all at once."""
        return rows <= self.local_rows and total_bytes <= self.local_bytes

    def is_held(self, rows: int, total_bytes: int) -> bool:
        """Return whether this many rows on the driver are processed all at once.

        If `local_rows` is 0, only bytes count: few rows then get to the driver.
        """
        return total_bytes <= self.local_bytes and (not self.local_rows or rows <= self.local_rows)

    def parts(self, rows: int, total_bytes: int) -> int:
        """Return the number of parts to process rows in, each of which a step holds in memory."""
        by_rows = -(-rows // max(self.local_rows, 1))
        return max(1, by_rows, -(-total_bytes // max(self.local_bytes, 1)))

    def keeps_keys(self, keys: int, total_bytes: int) -> bool:
        """Return whether this many distinct keys stay on the driver."""
        return keys <= self.seek_keys or self.is_local(keys, total_bytes)

    def holds_keys(self, keys: int, total_bytes: int) -> bool:
        """Return whether this many distinct keys are held there while rows are looked up."""
        return keys <= self.seek_keys or self.is_one_part(keys, total_bytes)

    def fetched_rows_of(self, row_bytes: int) -> int:
        """Return the most rows of ``row_bytes`` bytes each that Spark looks up for the driver."""
        return min(self.rows_of(row_bytes), self.fetched_bytes // max(row_bytes, 1))

    def is_fetched(self, rows: int, total_bytes: int) -> bool:
        """Return whether this many rows that Spark has computed come through the driver's heap."""
        return self.is_local(rows, total_bytes) and total_bytes <= self.fetched_bytes

    def may_come_in_files(self, estimated_bytes: int) -> bool:
        """Return whether rows of about this size are likely to come, and too many for a checkpoint.

        Spark serializes each row of a checkpoint, and Python's workers take a second to start.
        """
        most_kept = min(self.fetched_bytes, _KEPT_BYTES)
        return most_kept < estimated_bytes <= self.local_parts * self.local_bytes

    @property
    def held_bytes(self) -> int:
        """The most bytes that a function may emit in workers on the driver.

        A function that emits more starts again in Spark, so functions may emit more than they read.
        """
        return min(4 * self.local_bytes, _MOST_BYTES)

    def preserving_tasks(self, rows: int) -> int:
        """Return the number of tasks that call `preserve` for this many rows."""
        return max(1, -(-rows // max(self.preserved_rows, 1)))

    def is_small(self, rows: int, row_bytes: int) -> bool:
        """Return whether a table is read and written whole."""
        most_bytes = min(self.small_table_bytes, self.local_bytes)
        return rows <= self.small_table_rows and rows * row_bytes <= most_bytes

    def is_rewritten(self, rows: int, row_bytes: int) -> bool:
        """Return whether a table of this many rows is rewritten whole if some are replaced."""
        return rows <= self.rewritten_rows and self.is_one_part(rows, rows * row_bytes)

    def is_replaced(self, changed: int, scattered: int, rows: int, row_bytes: int) -> bool:
        """Return whether the driver replaces this many rows of a table, rather than write all.

        Args:
            scattered: the number of rows that earlier steps have replaced since all were written.
        """
        most = self.replaced_percent * rows // 100
        is_share = changed <= most and changed + scattered <= 2 * most
        return is_share and self.is_one_part(changed, changed * row_bytes)

    def is_nearly_all(self, changed: int, rows: int, percent: int = NEARLY_ALL) -> bool:
        """Return whether so large a share of a stage's input has changed that all is recomputed.

        Args:
            percent: the share from which on it is.
        """
        return bool(changed) and rows >= self.full_rows and 100 * changed >= percent * rows

    def is_full(self, run_rows: int, runs: int) -> bool:
        """Return whether this many runs are due to be folded into their tables."""
        return run_rows >= self.compaction_rows or runs >= self.compaction_commits

    def fits_overlay(
        self, run_rows: int, overlay_rows: int, overlay_runs: int, row_bytes: int
    ) -> bool:
        """Return whether a step can be a run, given the rows and runs already in the overlay."""
        rows = overlay_rows + run_rows
        few = run_rows <= self.run_rows and rows <= self.overlay_rows
        most_bytes = min(self.overlay_bytes, self.local_bytes)
        return few and overlay_runs < self.overlay_runs and rows * row_bytes <= most_bytes
