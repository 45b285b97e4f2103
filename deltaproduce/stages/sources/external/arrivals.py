"""Arrivals: new rows in existing Delta tables, which sources read in place and never write.

A version's content of such a source is its table at one Delta version, which the version log
records; so nothing is copied, and no user keeps a watermark. A `TableArrival` is what an update
finds new in the table. The invariant: the Delta version that a version names is the one that all
its stages read, and all changes between two of them are found, or the update fails and says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NoReturn

from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.data_types import frame_struct
from deltaproduce.engines.spark.kernels.comparing import numbered_by_values
from deltaproduce.engines.spark.sessions.damage import tells_of_damage
from deltaproduce.errors import InvalidChangesError
from deltaproduce.model.graph import Source
from deltaproduce.model.layouts import (
    CONTENT,
    Layout,
)
from deltaproduce.stages.batches import Batch
from deltaproduce.stages.sources.external.existing_tables import (
    ExternalTableState,
    changed_keys,
    state,
)
from deltaproduce.storage.figures import InPlace, StageFigures
from deltaproduce.storage.locations import StoreTable
from deltaproduce.storage.stored import Stored
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.storage.versions import Version, has_columns
from deltaproduce.types import data_types as t
from deltaproduce.types.columns import Column
from deltaproduce.types.conversions import widens

_LONG_AGO: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class TableArrival:
    """New rows in the table of a source (an `Arrival`).

    Attributes:
        now: the table's current state.
        last: the source's figures in the head.
        begins: the source had no rows before, or they do not count, so that all its rows are new.
        redefined: the source has other columns than in the head.
    """

    source: Source
    table: StoreTable
    now: ExternalTableState
    last: StageFigures | None
    begins: bool
    redefined: bool
    tables: Tables

    @property
    def place(self) -> InPlace:
        """The location of the source's content from now on."""
        now = self.now
        return InPlace(self.table.name, now.id, now.delta_version, now.micros)

    @property
    def reason(self) -> str:
        """The text that an update shows for it."""
        newest = f"delta version {self.now.delta_version}"
        if self.begins or self.last is None:
            return f"its table is read from {newest} on"
        return f"its table went from delta version {self.last.delta_versions[CONTENT]} to {newest}"

    def is_overdue(self, now: datetime) -> bool:
        """Return whether the head's Delta version is so old that VACUUM may soon remove its files.

        If so, a version records the new one, even if no row differs.
        """
        if self.last is None:
            return False
        return now.timestamp() - self.last.origin.table_micros / 1e6 > _LONG_AGO.total_seconds()

    def content(self) -> Stored:
        """Return the source's current rows."""
        last = self.last or StageFigures("skipped")
        layout, rows = Layout.of(self.source), max(last.rows, 1)
        existing = numbered_by_values(
            self.tables.reader.read(self.table, self.now.delta_version), layout
        )
        return Stored(existing, layout.content, None, rows, last.row_bytes, self.tables.engines)

    def batch(self) -> Batch:
        """Return the current rows of the changed keys; all rows if only a comparison can tell."""
        content, schema = self.content(), self.source.schema
        last, engines = self.last, self.tables.engines
        if last is None or self.begins or self.redefined:
            return Batch.snapshot(content.all(), self.source, engines)
        columns = (*schema.key, *schema.value)
        since = last.delta_versions[CONTENT]
        batch = changed_keys(self.tables, self.table, self.now, since, schema.key.columns, columns)
        if batch is None:
            return Batch.snapshot(content.all(), self.source, engines)
        keys = Selection.of(batch, schema.key.columns, engines)
        return Batch.replacing(keys, keys.exactly(content.of(keys)), self.source)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Explain what to do if the rows of the head can no longer be read.

        Raises:
            InvalidChangesError: they cannot be read.
        """
        try:
            yield
        except Exception as error:
            if self.last is None or self.begins or not tells_of_damage(error):
                raise
            _refuse(
                self.source,
                f"delta version {self.last.delta_versions[CONTENT]} of its table can be read no "
                "more, as a VACUUM has removed its files, or the log was cleaned",
                error,
            )


def arrival(
    source: Source, address: str, head: Version, tables: Tables, *, begins: bool
) -> TableArrival | None:
    """Find what is new in a source's table since the head; None if nothing is.

    Args:
        address: the table's path or name.
        begins: as if the source were read for the first time.

    Raises:
        InvalidChangesError: the table is gone or was replaced, or its columns have changed.
    """
    table = tables.access.existing(address)
    now = state(tables, table)
    if now is None:
        _refuse(source, f"its table {address!r} is gone")
    _check_columns(source, frame_struct(tables.reader.read(table, now.delta_version)))
    last = head.stages.get(source.name)
    if last is None or CONTENT not in last.delta_versions:
        return TableArrival(source, table, now, None, begins=True, redefined=False, tables=tables)
    redefined = not has_columns(last, source)
    news = TableArrival(source, table, now, last, begins, redefined, tables)
    if begins:
        return news
    pinned = last.delta_versions[CONTENT]
    if not _goes_on(tables, table, now, last, pinned):
        finding = f"its table {address!r} is another one than that of version {head.number}"
        _refuse(source, f"{finding}: it was dropped and made again, or put back from a copy")
    return news if redefined or now.delta_version != pinned else None


def _goes_on(
    tables: Tables, table: StoreTable, now: ExternalTableState, last: StageFigures, pinned: int
) -> bool:
    """Return whether the pinned Delta version belongs to the same table's history.

    A table that was replaced has a new id, but its history continues.
    """
    if now.delta_version < pinned:
        return False
    if now.id == last.origin.table_id:
        return True
    commits = tables.reader.recent_commits(table, pinned)
    return any(c.delta_version == pinned and c.micros == last.origin.table_micros for c in commits)


def column_fault(column: Column, field: t.StructField | None) -> str | None:
    """Describe what is wrong with a table's column for a declared one; None if nothing is."""
    if field is None:
        return "is not"
    if column.is_known and not widens(field.dataType, column.data_type):
        return (
            f"is declared {column.data_type.simpleString()} and is {field.dataType.simpleString()}"
        )
    if not column.nullable and field.nullable:
        return "is declared NOT NULL and can be null"
    return None


def _check_columns(source: Source, struct: t.StructType) -> None:
    """Refuse columns that changed since the store was opened."""
    fields = {field.name.lower(): field for field in struct}
    known = (*source.schema.key, *source.schema.value)
    faults = [
        (column.name, column_fault(column, fields.get(column.name.lower()))) for column in known
    ]
    if source.kind.intake.all_columns:
        names = {column.name.lower() for column in known}
        faults += [(field.name, "is new") for field in struct if field.name.lower() not in names]
    for name, fault in faults:
        if fault:
            raise InvalidChangesError(
                f"source {source.name!r}: column {name!r} {fault} in its table {source.table!r}, "
                "whose columns changed since the store was opened: open it again, with a pipeline "
                "that fits",
                source=source.name,
                column=name,
            )


def _refuse(source: Source, finding: str, cause: Exception | None = None) -> NoReturn:
    raise InvalidChangesError(
        f"source {source.name!r}: {finding}; what has changed since is not known. "
        f"Store.refresh({source.name!r}) takes all rows as they are now",
        source=source.name,
    ) from cause
