"""Delta tables: what engines do with them, by plain addresses and plain values.

An engine knows no version, no attempt and no store: what a commit says of itself is text to it, and
which commits count is for others to decide. The invariant: what a method changes it changes in one
Delta commit, or it raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from deltaproduce.engines.engine import Rows
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.types.catalogue import atom, is_whole
from deltaproduce.types.columns import Column
from deltaproduce.types.ddl import identifier

APP_ID: Final = "deltaproduce"
"""Of which application a fencing token is."""

MARKS_ROWS: Final = "delta.enableDeletionVectors"

_COMMITS_A_CHECKPOINT: Final = 50
"""One costs as much as five commits; Delta makes one every ten."""

_FOR_EVER: Final = "interval 36500 days"

KEPT: Final[Mapping[str, str]] = {
    # A session may want deletion vectors in all new tables, but delta-rs makes no pandas or Arrow
    # table of a table that may have them; so only those have them whose rows are replaced.
    MARKS_ROWS: "false",
    "delta.checkpointInterval": str(_COMMITS_A_CHECKPOINT),
    # By default Delta reads no delta version that is a week old and not the newest, lets VACUUM
    # remove its files, and forgets it after a month; but versions pin it.
    "delta.deletedFileRetentionDuration": _FOR_EVER,
    "delta.logRetentionDuration": _FOR_EVER,
}
"""The properties of every table that is made."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a Delta table is: a path, or a quoted name in a catalog.

    Attributes:
        directory: the directory that it is known to be in, if that is seen without Spark.
    """

    address: str
    in_catalog: bool
    directory: Directory | None = None

    @property
    def sql(self) -> str:
        """The table as SQL text, for statements on it."""
        return self.address if self.in_catalog else f"delta.{identifier(self.address)}"


@dataclass(frozen=True, slots=True)
class Write:
    """One commit that writes rows.

    Attributes:
        rows: in the order in which they are to be stored, within partitions if they are in Spark.
        columns: the table's.
        mode: ``append`` adds the rows, and makes the table if there is none; ``replace`` puts those
            of them for which the predicate holds in the place of all that it holds for;
            ``overwrite`` makes them all rows of the table, whatever columns it had; ``create`` does
            too, and the table has no other properties than these.
        metadata: what the commit says of itself.
        predicate: what is replaced.
        properties: those of the table, if it is overwritten or created.
        file_rows: a file that Spark writes has at most so many rows; without it, those of a
            partition.
        group_rows: a row group has at most so many.
        file_ends: before which of the rows a file of those from the driver ends; they are one file
            if there are none.
        lookup: the columns of which files have statistics.
        partition: the columns that the table is partitioned by; rows are sorted by them first.
        compression: the codec of its files; the usual one if None.
        fence: of all commits to the table with the same number, one takes effect at most.
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
    fence: int | None = None


@dataclass(frozen=True, slots=True)
class TableSize:
    """How large a delta version is.

    Attributes:
        files: how many data files it has.
        bytes: how many bytes these have.
    """

    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class LoggedCommit:
    """One commit as a table's history tells it.

    Attributes:
        metadata: what it says of itself; None if it says nothing.
        operation: in Delta's words.
        micros: when, in microseconds since 1970.
    """

    delta_version: int
    metadata: str | None
    operation: str
    micros: int


class RefusedError(Exception):
    """Delta refused a commit because of another one; its own error is the cause."""


class BrokenLogError(Exception):
    """The log of a table is there, and says nothing of what was asked; the cause says why."""


class DeltaTables(Protocol):
    """What an engine does with Delta tables; whatever commits may raise a `RefusedError`."""

    def exists(self, place: Place) -> bool:
        """Whether there is a Delta table."""

    def history(self, place: Place, limit: int) -> tuple[LoggedCommit, ...]:
        """So many of the newest commits, newest first; none if there is no table."""

    def read(self, place: Place, delta_version: int | None = None) -> Rows:
        """The rows at a delta version; at the newest without one."""

    def create(
        self, place: Place, columns: Sequence[Column], properties: Mapping[str, str]
    ) -> None:
        """Make an empty table if there is none, or one that was begun and has no commit."""

    def write(self, place: Place, write: Write) -> None:
        """Write rows."""

    def delete(self, place: Place, predicate: str, metadata: str) -> None:
        """Delete rows, and write the files anew that had some; no commit if there are none."""

    def restore(self, place: Place, delta_version: int, metadata: str) -> None:
        """Give a table the rows of an earlier delta version; no commit if it is at that one."""

    def set_property(self, place: Place, name: str, value: str, metadata: str) -> None:
        """Set one of the table's properties: a commit that changes no row."""

    def optimize(self, place: Place) -> None:
        """Write small files as large ones; rows of a file stay in order."""


def properties(
    lookup: Iterable[Column], *, marked: bool, partitioned: bool = False
) -> dict[str, str]:
    """The properties of a table that is made.

    Args:
        lookup: the columns by which rows will be looked up: files have statistics of these.
        marked: rows may be marked as replaced (deletion vectors).
        partitioned: Spark puts no values into the paths of files then: of those that are not ASCII
            Spark and delta-rs spell the paths in two ways, and a file that one of them removes
            would stay for the other.
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
    """The columns of which files have the differences of values that follow each other.

    That is Parquet's `DELTA_BINARY_PACKED` (Lemire and Boytsov, "Decoding billions of integers per
    second through vectorization", 2015), where a column has whole numbers. Rows are sorted, and
    values near each other are alike: tables of such columns take half the room, and half the time
    to read, of those with a dictionary (decision 18).
    """
    return tuple(c.name for c in columns if is_whole(c.data_type))


def _has_statistics(column: Column) -> bool:
    known = atom(column.data_type)
    return known is None or known.has_statistics
