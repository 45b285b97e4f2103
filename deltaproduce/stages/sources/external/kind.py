"""Sources that are existing Delta tables, which are read in place and never written.

A version's content of such a source is its table at one Delta version, so the store keeps only the
updates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa
from typing_extensions import override

from deltaproduce.engines.spark.data_types import frame_struct
from deltaproduce.engines.spark.file_systems import check_relative
from deltaproduce.errors import DefinitionError
from deltaproduce.model.graph import Source, Stage
from deltaproduce.model.kind import Intake, TaskPartitions
from deltaproduce.model.layouts import UPDATES
from deltaproduce.stages.kind import SourceKind
from deltaproduce.stages.sources.external.arrivals import TableArrival, arrival, column_fault
from deltaproduce.stages.sources.external.existing_tables import state
from deltaproduce.storage.locations import is_relative
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.storage.versions import Version
from deltaproduce.types import data_types as t
from deltaproduce.types.columns import Column, row_schema
from deltaproduce.types.ddl import DESCENDING


@dataclass(frozen=True, slots=True, repr=False)
class External(SourceKind):
    """A source that is a Delta table.

    Attributes:
        table: its path or name.
        whole: whether all other columns of the table are the value.
        partition: the columns by which tasks read it, whatever the table is partitioned by.
        expecting: finds its expected partitions at a date; None if it is expected to have those it
            has.
    """

    table: str
    whole: bool = False
    partition: tuple[str, ...] = ()
    expecting: Callable[[datetime], pa.Table] | None = None

    @property
    @override
    def word(self) -> str:
        return "external"

    @property
    @override
    def tables(self) -> tuple[str, ...]:
        return (UPDATES,)

    @property
    @override
    def intake(self) -> Intake:
        return Intake(table=self.table, all_columns=self.whole)

    @property
    @override
    def tasks(self) -> TaskPartitions:
        return TaskPartitions(self.partition, self.expecting)

    def resolved(self, stage: Stage, tables: Tables) -> Stage:
        """Return the source with its path and the types, perhaps names, of the table's columns.

        Raises:
            DefinitionError: there is no such Delta table, or a column is missing or has another
                type; with `stage` and `column`.
        """
        if is_relative(self.table):
            check_relative(tables.spark, self.table)
        table = tables.access.existing(self.table)
        if state(tables, table) is None:
            message = (
                f"source {stage.name!r}: {self.table!r} is not a Delta table; create it first, or "
                "correct table="
            )
            raise DefinitionError(message, stage=stage.name)
        struct = frame_struct(tables.reader.read(table))
        fields = {field.name.lower(): field for field in struct}
        key = [self._field(stage, column, fields) for column in stage.schema.key]
        value = [self._field(stage, column, fields) for column in stage.schema.value]
        if self.whole:
            keys = {column.name.lower() for column in stage.schema.key}
            value = [
                t.StructField(x.name, x.dataType) for x in struct if x.name.lower() not in keys
            ]
        schema = row_schema(t.StructType(key), t.StructType(value), stage=stage.name)
        return replace(stage, schema=schema, kind=replace(self, table=table.name))

    @override
    def arrived(
        self, source: Source, head: Version, tables: Tables, *, from_start: bool = False
    ) -> TableArrival | None:
        return arrival(source, self.table, head, tables, begins=from_start)

    def _field(
        self, stage: Stage, column: Column, fields: dict[str, t.StructField]
    ) -> t.StructField:
        """Return a declared column with its declared type or, without one, the table's."""
        field = fields.get(column.name.lower())
        fault = column_fault(column, field)
        if fault or field is None:
            message = f"source {stage.name!r}: column {column.name!r} {fault} in {self.table!r}"
            raise DefinitionError(message, stage=stage.name, column=column.name)
        data_type = column.data_type if column.is_known else field.dataType
        metadata = {DESCENDING: True} if column.descending else {}
        return t.StructField(column.name, data_type, column.nullable, metadata)
