"""Delta tables: what engines do with them, by plain addresses and plain values.

An engine knows no version, no attempt and no store: commit metadata is opaque text to it, and its
callers decide which commits count. The invariant: a method makes its changes in one Delta commit,
or it raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deltaproduce.engines.engine import Rows
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.types.catalogue import atom, is_whole
from deltaproduce.types.columns import Column
from deltaproduce.types.ddl import identifier

ROWS_PER_FILE: Final = 500_000
"""The most rows of a file, where a write does not say where files end.

So it takes a bounded time to write a file without its marked rows.
"""

APP_ID: Final = "deltaproduce"
"""The application id of fencing tokens."""

MARKS_ROWS: Final = "delta.enableDeletionVectors"

CONSTRAINT: Final = "delta.constraints."
"""The name of a ``CHECK`` constraint comes behind this, as a property of the table."""

_COMMITS_A_CHECKPOINT: Final = 50
"""A checkpoint costs as much as five commits; Delta writes one every ten by default."""

_FOR_EVER: Final = "interval 36500 days"

KEPT: Final[Mapping[str, str]] = {
    # A session may turn on deletion vectors in all new tables, but delta-rs cannot turn a table
    # with that feature into pandas or Arrow; so only tables whose rows are replaced have it.
    MARKS_ROWS: "false",
    "delta.checkpointInterval": str(_COMMITS_A_CHECKPOINT),
    # By default, Delta does not read a delta version that is a week old and not the newest, lets
    # VACUUM remove its files, and forgets it after a month; but versions pin it.
    "delta.deletedFileRetentionDuration": _FOR_EVER,
    "delta.logRetentionDuration": _FOR_EVER,
}
"""The properties of every new table."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a Delta table: a path, or a quoted name in a catalog.

    Attributes:
        directory: the table's directory, if it is accessible without Spark.
    """

    address: str
    in_catalog: bool
    directory: Directory | None = None

    @property
    def sql(self) -> str:
        """The table as SQL text, for statements."""
        return self.address if self.in_catalog else f"delta.{identifier(self.address)}"


@dataclass(frozen=True, slots=True)
class Written:
    """A commit that was made.

    Attributes:
        delta_version: its delta version; None if only the table's log tells.
    """

    delta_version: int | None = None


@dataclass(frozen=True, slots=True)
class TableWrite:
    """One commit that writes rows.

    Attributes:
        rows: in the order to store them in; in Spark, the order within each partition.
        columns: the table's columns.
        mode: ``append`` adds the rows, and creates the table if there is none; ``replace`` replaces
            all rows that match the predicate with the new rows that match it; ``overwrite``
            replaces all rows of the table, whatever columns it had; ``create`` does too, and sets
            exactly these properties.
        metadata: what the commit says of itself.
        predicate: selects the rows to replace.
        properties: the table's properties, if it is overwritten or created.
        file_rows: the most rows of a file that Spark writes; without it, a file has a partition's
            rows.
        group_rows: the most rows of a row group.
        file_ends: the rows before which a file ends, for rows from the driver; if there are none, a
            file has at most `ROWS_PER_FILE` rows.
        lookup: the columns that files have statistics of.
        partition: the columns that the table is partitioned by; rows are sorted by them first.
        compression: the codec of the files; the default codec if None.
        within: the partitions that are overwritten, as distinct values of the columns of
            `partition`: the rows are all of these, and other partitions stay; None for the whole
            table.
        fence: of all commits to the table with the same number, at most one takes effect.
        replaced: rows that count as deleted from this commit on, by their numbers in each file, by
            the file's path from the table's directory; only where rows are appended, and only
            where the driver commits.
        located_at: the delta version at which these rows have these numbers.
        merged: the paths of files whose rows these are, and which they replace; only where the
            driver commits. The commit changes no row of the table.
    """

    rows: Rows
    columns: tuple[Column, ...]
    mode: Literal["append", "replace", "overwrite", "create"]
    metadata: str
    predicate: str | None = None
    properties: Mapping[str, str] | None = None
    file_rows: int | None = None
    group_rows: int | None = None
    file_ends: tuple[int, ...] = ()
    lookup: tuple[Column, ...] = ()
    partition: tuple[Column, ...] = ()
    compression: str | None = None
    within: pa.Table | None = None
    fence: int | None = None
    replaced: Mapping[str, NDArray[np.int64]] | None = None
    located_at: int | None = None
    merged: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TableSize:
    """The size of a delta version.

    Attributes:
        files: the number of its data files.
        bytes: the total bytes of these files.
    """

    files: int
    bytes: int


UNTOLD: Final = "commit of no known kind"
"""The operation of a commit that does not say what it did, which Delta allows."""


@dataclass(frozen=True, slots=True)
class LoggedCommit:
    """One commit in a table's history.

    Attributes:
        metadata: what it says of itself; None if it says nothing.
        operation: the operation, in Delta's terms, or `UNTOLD`.
        micros: its time, in microseconds since 1970.
    """

    delta_version: int
    metadata: str | None
    operation: str
    micros: int


class RefusedError(Exception):
    """Delta refused a commit because of another one; Delta's own error is the cause."""


class BrokenLogError(Exception):
    """The log of a table exists, but lacks what was asked for; the cause says why."""


class DeltaTables(Protocol):
    """What an engine does with Delta tables; methods that commit may raise a `RefusedError`."""

    def exists(self, place: Place) -> bool:
        """Return whether there is a Delta table."""

    def history(self, place: Place, limit: int) -> tuple[LoggedCommit, ...]:
        """Return the newest ``limit`` commits, newest first; none if there is no table."""

    def read(self, place: Place, delta_version: int | None = None) -> Rows:
        """Return the rows at a delta version; without one, at the newest."""

    def create(
        self, place: Place, columns: Sequence[Column], properties: Mapping[str, str]
    ) -> None:
        """Create an empty table if there is none, or if one was begun and has no commit."""

    def write(self, place: Place, write: TableWrite) -> Written:
        """Write rows, and return what is known of the commit."""

    def delete(self, place: Place, predicate: str, metadata: str) -> None:
        """Delete rows by rewriting the files that contain them; no commit if there are none."""

    def restore(self, place: Place, delta_version: int, metadata: str) -> None:
        """Restore the rows of an earlier delta version; no commit if they are the current ones."""

    def set_property(self, place: Place, name: str, value: str, metadata: str) -> None:
        """Set one of the table's properties, in a commit that changes no row."""

    def optimize(self, place: Place) -> None:
        """Compact small files into large ones; the rows of a file stay in order."""


def properties(
    lookup: Iterable[Column], *, marked: bool, partitioned: bool = False
) -> dict[str, str]:
    """Return the properties of a new table.

    Args:
        lookup: the columns by which rows will be looked up: files have statistics of these.
        marked: rows may be marked as replaced (deletion vectors).
        partitioned: if so, Spark puts no partition values into file paths: Spark and delta-rs spell
            the paths of non-ASCII values differently, and a file that one of them removes would
            stay for the other.
    """
    names = [identifier(c.name) for c in lookup if _has_statistics(c)]
    skipping = (
        {"delta.dataSkippingStatsColumns": ",".join(names)}
        if names
        else {"delta.dataSkippingNumIndexedCols": "0"}
    )
    of_paths = {"delta.randomizeFilePrefixes": "true"} if partitioned else {}
    return {**KEPT, **({MARKS_ROWS: "true"} if marked else {}), **skipping, **of_paths}


def packed(columns: Iterable[Column]) -> tuple[str, ...]:
    """Return the columns that files store as differences between consecutive values.

    That is Parquet's `DELTA_BINARY_PACKED` (Lemire and Boytsov, "Decoding billions of integers per
    second through vectorization", 2015), used where a column has whole numbers. Rows are sorted, so
    nearby values are similar: tables of such columns take half the space of dictionary-encoded
    ones, and half the time to read (decision 18).
    """
    return tuple(c.name for c in columns if is_whole(c.data_type))


def _has_statistics(column: Column) -> bool:
    known = atom(column.data_type)
    return known is None or known.has_statistics
