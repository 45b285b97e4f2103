"""Records: the hidden stage that says of what each task of another stage was made.

It has a row for each partition that was made, with or without rows, and is published with them. The
invariant: a record is of the run of the task whose rows the partition has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.types import DataType, StructField, StructType

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.selections import Selection
from deltaproduce.model.graph import Producer, Stage, records_name
from deltaproduce.model.layouts import CONTENT, RUNS, UPDATES, Layout
from deltaproduce.shown.tasks import Values
from deltaproduce.stages.batches import Batch
from deltaproduce.stages.partitioned.entries import Record, inputs_of, inputs_text
from deltaproduce.stages.partitioned.scope.partitions import table_of
from deltaproduce.stages.scheduled import MadeByTasks
from deltaproduce.storage.stored import Stored
from deltaproduce.types.columns import ORDINAL, row_schema

_VALUE: Final = "definition string, inputs string, scheduled string, version bigint"


@dataclass(frozen=True, slots=True, repr=False)
class TaskRecords(MadeByTasks):
    """The records of another stage's tasks."""

    @property
    def word(self) -> str:
        """See `Kind.word`."""
        return "tasks"

    @property
    def tables(self) -> tuple[str, ...]:
        """See `Kind.tables`: a record is made from no one key."""
        return (CONTENT, UPDATES, RUNS)

    @property
    def made_by(self) -> object:
        """See `Kind.made_by`."""
        return "records"


def records_stage(stage: Stage, types: Sequence[tuple[str, DataType]]) -> Producer:
    """The stage that keeps the records of another one's tasks.

    Args:
        types: the partition columns of that stage, with their types.
    """
    key = StructType([StructField(name, kind) for name, kind in types])
    schema = row_schema(key, _VALUE, stage=stage.name)
    return Producer(records_name(stage.name), ((stage,),), schema, TaskRecords())


def read_records(stored: Stored | None, stage: Stage, engines: Engines) -> dict[Values, Record]:
    """The records that a stage keeps."""
    if stored is None:
        return {}
    columns = Layout.of(stage).content
    rows = engines.table(stored.rows(), columns).to_pylist()
    names = stage.schema.key.names
    return {
        tuple(row[name] for name in names): Record(
            row["definition"], inputs_of(row["inputs"]), row["scheduled"]
        )
        for row in rows
    }


def records_batch(
    stage: Stage,
    made: Mapping[Values, Record],
    dropped: Iterable[Values],
    engines: Engines,
    *,
    version: int,
    anew: bool,
) -> Batch | None:
    """The records of tasks that were made, and the end of those whose partitions are dropped.

    Args:
        version: the number of the version that they are made for.
        anew: these are all records that there are.

    Returns:
        None if there are none.
    """
    gone = list(dropped)
    if not made and not gone and not anew:
        return None
    types = [(c.name, c.data_type) for c in stage.schema.key]
    keys = table_of([*made, *gone], types).select(stage.schema.key.names)
    rows = keys.slice(0, len(made))
    records = list(made.values())
    for name, values in (
        (ORDINAL, [0] * len(records)),
        ("definition", [record.definition for record in records]),
        ("inputs", [inputs_text(record.inputs) for record in records]),
        ("scheduled", [record.scheduled for record in records]),
        ("version", [version] * len(records)),
    ):
        kind = pa.int64() if name in {ORDINAL, "version"} else pa.string()
        rows = rows.append_column(name, pa.array(values, kind))
    if anew:
        return Batch.snapshot(rows, stage, engines)
    return Batch.replacing(Selection.of(keys, stage.schema.key.columns, engines), rows, stage)
