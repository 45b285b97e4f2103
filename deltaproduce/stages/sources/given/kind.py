"""Sources whose rows a user gives, and the store keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
from typing_extensions import override

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.spark.data_types import frame_struct
from deltaproduce.engines.spark.sessions.on_demand import is_frame
from deltaproduce.engines.spark.sessions.zoned import in_session
from deltaproduce.model.graph import Source
from deltaproduce.model.kind import Intake, TaskPartitions
from deltaproduce.model.retention import Retention
from deltaproduce.stages.batches import Batch, computing
from deltaproduce.stages.kind import SourceKind
from deltaproduce.stages.sources.given.formats import (
    check,
    frame_faults,
    refuse,
    table_columns,
    table_of,
)
from deltaproduce.stages.sources.given.in_spark import batch_of_frame
from deltaproduce.stages.sources.given.on_driver import batch_of_table
from deltaproduce.times.zones import zone_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, repr=False)
class Given(SourceKind):
    """A source whose rows are given.

    Attributes:
        retention: the rows that it keeps; all if None.
        partition: the columns by which tasks read it.
        expecting: finds its expected partitions at a date; None if it is expected to have those it
            has.
        has_unique_key: whether a batch may have a key once only.
    """

    retention: Retention | None = None
    partition: tuple[str, ...] = ()
    expecting: Callable[[datetime], pa.Table] | None = None
    has_unique_key: bool = False

    @property
    @override
    def word(self) -> str:
        return "given"

    @property
    @override
    def tasks(self) -> TaskPartitions:
        return TaskPartitions(self.partition, self.expecting)

    @property
    @override
    def intake(self) -> Intake:
        return Intake(takes_rows=True, unique=self.has_unique_key, retention=self.retention)

    @override
    def taken(
        self, given: object, source: Source, engines: Engines, *, is_snapshot: bool = False
    ) -> Batch:
        if is_frame(given):
            with computing(source):
                _check_frame(given, source, is_snapshot=is_snapshot)
            with in_session(given, engines.spark) as rows:
                return batch_of_frame(rows, source, engines, is_snapshot=is_snapshot)
        with computing(source):
            clock = zone_of(engines.time_zone)
            table = table_of(given, source, clock, is_snapshot=is_snapshot)
        if engines.session is None or engines.is_local(len(table), table.nbytes, on_driver=True):
            return batch_of_table(table, source, engines, is_snapshot=is_snapshot)
        with computing(source):
            names = {name.lower() for name in table.column_names}
            rows = engines.frame(table, table_columns(source, names))
        return batch_of_frame(rows, source, engines, is_snapshot=is_snapshot)


def _check_frame(given: DataFrame, source: Source, *, is_snapshot: bool) -> None:
    """Check a DataFrame's columns; nothing is computed.

    Raises:
        InvalidChangesError: it is a stream, or columns are missing, undeclared, repeated or of
            wrong types; it lists all of them.
    """
    if given.isStreaming:
        refuse(
            source,
            "are a streaming DataFrame, which has no end: write it with "
            f"foreachBatch(store.stream_writer({source.name!r}))",
        )
    check(frame_faults(frame_struct(given), source, is_snapshot=is_snapshot), source)
