"""What a report says, as plain values that JSON has.

Pure. The invariant: a `Report` says everything that a page shows, and holds no table and no stage,
so it can be stored, compared and shown without the store.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

Value = str | None
"""A value of a row, as text; None if it is null."""


@dataclass(frozen=True, slots=True)
class VersionReport:
    """One version, over all of its stages.

    Attributes:
        committed_at: when it was published, in seconds since 1970; None for version 0.
        reached: how many stages it touched.
        seconds: those that its stages took, one by one, without commits.
        affected_keys: target keys that were looked at.
        changed_keys: target keys in its updates.
        rows: content rows of all stages.
    """

    number: int
    committed_at: float | None
    operation: str
    update_id: str | None
    reached: int
    seconds: float
    affected_keys: int
    changed_keys: int
    rows_added: int
    rows_removed: int
    rows: int


@dataclass(frozen=True, slots=True)
class ColumnReport:
    """One column of a stage.

    Attributes:
        role: ``key`` or ``value``.
        type: as DDL, such as ``decimal(12,2)``.
        descending: a key column that sorts so.
        origin: the feeder's column that it is, in all rows; None if it is made, or given.
    """

    name: str
    role: str
    type: str
    nullable: bool
    descending: bool
    origin: str | None


@dataclass(frozen=True, slots=True)
class TableReport:
    """One Delta table of a stage in the version.

    Attributes:
        table: ``content``, ``key_mappings``, ``updates`` or ``runs``.
        files: how many it has; None if only Spark can say.
        bytes: how many these have; None likewise.
    """

    table: str
    delta_version: int
    files: int | None
    bytes: int | None


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one version did to one stage, and why so.

    Attributes:
        rows: content rows after it.
        bytes_read: of stored tables, compressed as they are.
        window: where its window is; empty if it has none.
    """

    version: int
    mode: str
    reason: str
    affected_keys: int
    changed_keys: int
    rows_added: int
    rows_removed: int
    rows: int
    rows_read: int
    bytes_read: int
    seconds: float
    window: str


@dataclass(frozen=True, slots=True)
class SampleReport:
    """Some rows of what one version changed in a stage.

    Attributes:
        columns: the change type, key columns, the place in the key, value columns.
        numeric: which of them are numbers.
        changed_keys: how many keys all rows are of.
    """

    version: int
    changed_keys: int
    columns: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True, slots=True)
class StageReport:
    """A source or stage, in the version that the report is of.

    Attributes:
        kind: in the library's word for it.
        feeders: the names of the stages that it reads.
        readers: the names of those that read it.
        source_key: the columns of the feeder's key that each row is made from.
        language: that of its definition: ``python`` or ``sql``; empty if there is no text.
        definition: what makes its rows.
        step: what the version did to it; None if it has no tables in it.
        steps: the newest versions up to this one that touched it, newest first.
    """

    name: str
    kind: str
    feeders: tuple[str, ...]
    readers: tuple[str, ...]
    columns: tuple[ColumnReport, ...]
    source_key: tuple[str, ...]
    language: str
    definition: str
    step: StepReport | None
    tables: tuple[TableReport, ...]
    steps: tuple[StepReport, ...]
    samples: tuple[SampleReport, ...]

    @property
    def bytes(self) -> int | None:
        """The bytes of all its tables; None if that is not known."""
        return total(table.bytes for table in self.tables)

    @property
    def files(self) -> int | None:
        """The files of all its tables; None if that is not known."""
        return total(table.files for table in self.tables)


def total(numbers: Iterable[int | None]) -> int | None:
    """Their sum; None if one of them is not known."""
    found = list(numbers)
    known = [number for number in found if number is not None]
    return sum(known) if len(known) == len(found) else None


@dataclass(frozen=True, slots=True)
class Report:
    """A store in one version.

    Attributes:
        pipeline: its name.
        location: the store's.
        made_at: when the report was, in seconds since 1970.
        head: the number of the newest version.
        version: the version that the stages are shown in.
        stages: feeders first.
        versions: all that the store keeps, oldest first.
    """

    pipeline: str
    location: str
    made_at: float
    head: int
    version: VersionReport
    stages: tuple[StageReport, ...]
    versions: tuple[VersionReport, ...]

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON has it."""
        return asdict(self)
