"""Sources whose rows a user gives, which the store then has."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from deltaproduce.engines.choice import Engines
from deltaproduce.model.graph import Source
from deltaproduce.model.layouts import CONTENT, RUNS, UPDATES
from deltaproduce.stages.batches import Batch, computing
from deltaproduce.stages.given.formats import check, frame_faults, refuse, table_columns, table_of
from deltaproduce.stages.kind import SourceKind
from deltaproduce.types.row_readers import zone_of


@dataclass(frozen=True, slots=True)
class Given(SourceKind):
    """A source whose rows are given."""

    @property
    def word(self) -> str:
        """See `Kind.word`."""
        return "given"

    @property
    def tables(self) -> tuple[str, ...]:
        """See `Kind.tables`."""
        return (CONTENT, UPDATES, RUNS)

    @property
    def takes_rows(self) -> bool:
        """See `Kind.takes_rows`."""
        return True

    def taken(
        self, given: object, source: Source, engines: Engines, *, is_snapshot: bool = False
    ) -> Batch:
        """See `SourceKind.taken`."""
        with computing(source):
            rows = given_frame(given, source, engines, is_snapshot=is_snapshot)
        return Batch.of(rows, source, engines, is_snapshot=is_snapshot)


def given_frame(
    changes: object, source: Source, engines: Engines, *, is_snapshot: bool = False
) -> DataFrame:
    """What is given as a DataFrame whose columns are right; nothing of it is computed.

    Args:
        changes: a DataFrame, or whatever `formats.table_of` takes.

    Raises:
        InvalidChangesError: it is nothing of the kind, or its columns are missing, not declared,
            repeated or of other types: all of them are told.
    """
    if isinstance(changes, DataFrame):
        if changes.isStreaming:
            refuse(
                source,
                "are a streaming DataFrame, which has no end: write it with "
                f"foreachBatch(store.stream_writer({source.name!r}))",
            )
        check(frame_faults(changes.schema, source, is_snapshot=is_snapshot), source)
        return changes
    clock = zone_of(engines.time_zone)
    table = table_of(changes, source, clock, is_snapshot=is_snapshot)
    names = {name.lower() for name in table.column_names}
    return engines.frame(table, table_columns(source, names))
