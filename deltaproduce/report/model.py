"""The content of a report, as plain JSON values.

Pure. The invariant: a `Report` has everything that a page shows, and holds no table and no stage,
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
        update_id: the caller's name for the batch, as people read it; empty if there is none.
        reached: the number of stages that it touched.
        seconds: the total time of its stages, without commits.
        wall_seconds: the time of the call that made it; None if it is not recorded.
        affected_keys: the number of target keys that were checked.
        changed_keys: the number of target keys in its updates.
        rows: the number of content rows of all stages.
    """

    number: int
    committed_at: float | None
    operation: str
    update_id: str
    reached: int
    seconds: float
    affected_keys: int
    changed_keys: int
    rows_added: int
    rows_removed: int
    rows: int
    wall_seconds: float | None


@dataclass(frozen=True, slots=True)
class ColumnReport:
    """One column of a stage.

    Attributes:
        role: ``key`` or ``value``.
        type: as DDL, such as ``decimal(12,2)``.
        descending: whether it is a key column that sorts in descending order.
        origin: the feeder's column that it copies in all rows; None if it is computed or given.
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
        files: the number of files; None if only Spark can count them.
        bytes: their total size; None likewise.
    """

    table: str
    delta_version: int
    files: int | None
    bytes: int | None


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one version did to one stage, and why.

    Attributes:
        rows: the number of content rows after it.
        bytes_read: the bytes read from stored tables, compressed.
        window: the position of its window; empty if it has none.
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
    """Sample rows of one version's changes to a stage.

    Attributes:
        columns: the change type, key columns, the position in the key, value columns.
        numeric: which of the columns are numbers.
        changed_keys: the number of changed keys, over all rows.
    """

    version: int
    changed_keys: int
    columns: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True, slots=True)
class DifferenceReport:
    """Rows of some keys that the version changed, before it and after it.

    Attributes:
        changed_keys: the number of changed keys.
        keys: the number of those that are shown.
        columns: key columns, the columns of the source key that a row was computed from, value
            columns.
        numeric: which of the columns are numbers.
        key_columns: the number of key columns, which come first.
        rows: ``before`` or ``after``, and the values, key by key; rows of both are left out.
    """

    changed_keys: int
    keys: int
    columns: tuple[str, ...]
    numeric: tuple[bool, ...]
    key_columns: int
    rows: tuple[tuple[Value, ...], ...]

    @property
    def names(self) -> tuple[tuple[Value, ...], ...]:
        """The keys that are shown, each once."""
        return tuple(dict.fromkeys(row[1 : self.key_columns + 1] for row in self.rows))


@dataclass(frozen=True, slots=True)
class StageReport:
    """A source or stage, in the version that the report shows.

    Attributes:
        kind: the library's word for its kind.
        feeders: the names of the stages that it reads.
        readers: the names of the stages that read it.
        source_key: the columns of the feeder's key that each row is computed from.
        language: the language of its definition: ``python`` or ``sql``; empty if there is no text.
        definition: the code that computes its rows.
        step: what the version did to it; None if the version has no tables of it.
        steps: the newest versions up to this one that touched it, newest first.
        samples: rows of the newest versions' updates.
        difference: how the version changed some keys; None if it changed none, or if that is not
            known any more.
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
    difference: DifferenceReport | None = None

    @property
    def bytes(self) -> int | None:
        """The bytes of all its tables; None if unknown."""
        return total(table.bytes for table in self.tables)

    @property
    def files(self) -> int | None:
        """The files of all its tables; None if unknown."""
        return total(table.files for table in self.tables)


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check found in the version.

    Attributes:
        stage: the stage that it is about.
        rows: how many rows break it, or how many keys or rows a limit counts.
        allows: what it allows, in words.
        example: a row that breaks it, as text; empty if none does.
    """

    name: str
    stage: str
    severity: str
    broken: bool
    rows: int
    allows: str
    example: str


def total(numbers: Iterable[int | None]) -> int | None:
    """Return the sum of numbers; None if one of them is unknown."""
    values = list(numbers)
    known = [number for number in values if number is not None]
    return sum(known) if len(known) == len(values) else None


@dataclass(frozen=True, slots=True)
class Report:
    """A store in one version.

    Attributes:
        pipeline: its name.
        location: the store's location.
        made_at: when the report was created, in seconds since 1970.
        head: the number of the newest version.
        version: the version in which the stages are shown.
        stages: feeders first.
        versions: all versions that the store keeps, oldest first.
        checks: what the checks of that version found.
    """

    pipeline: str
    location: str
    made_at: float
    head: int
    version: VersionReport
    stages: tuple[StageReport, ...]
    versions: tuple[VersionReport, ...]
    checks: tuple[CheckReport, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return asdict(self)
