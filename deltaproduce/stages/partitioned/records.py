"""Records: the hidden stage that stores the inputs and results of another stage's tasks.

It has one row for each partition that was made, empty or not, and is published with them. The
invariant: a record describes the task run that made the partition's current rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.selections import Selection
from deltaproduce.model.graph import Producer, Stage
from deltaproduce.model.hidden import RECORDS, Hidden, hidden_name
from deltaproduce.model.kind import Definition
from deltaproduce.model.layouts import Layout
from deltaproduce.stages.batches import Batch
from deltaproduce.stages.partitioned.entries import MARK, ComputedTasks
from deltaproduce.stages.scheduled.kinds import MadeByTasks
from deltaproduce.storage.stored import Stored
from deltaproduce.types.columns import ORDINAL, row_schema
from deltaproduce.types.data_types import DataType, StructField, StructType
from deltaproduce.types.pandas_on_demand import in_numpy

_VALUE: Final = (
    "task_definition bigint, task_inputs bigint, task_made bigint, task_made_rows bigint, "
    "task_droppable string, task_scheduled string, task_version bigint"
)


@dataclass(frozen=True, slots=True, repr=False)
class TaskRecords(MadeByTasks):
    """The records of another stage's tasks."""

    @property
    @override
    def word(self) -> str:
        return "tasks"

    @property
    @override
    def definition(self) -> Definition:
        return Definition("records")


def records_stage(stage: Stage, types: Sequence[tuple[str, DataType]]) -> Producer:
    """Return the stage that keeps the records of a stage's tasks.

    Args:
        types: that stage's partition columns, with their types.
    """
    key = StructType([StructField(name, kind) for name, kind in types])
    schema = row_schema(key, _VALUE, stage=stage.name)
    name, owned = hidden_name("tasks", 1, stage.name), Hidden(RECORDS, (stage.name,))
    return Producer(name, ((stage,),), schema, TaskRecords(), hidden=owned)


def read_records(stored: Stored | None, stage: Stage, *, droppable: bool) -> ComputedTasks:
    """Read the records of a stage; only the needed columns are read.

    Args:
        droppable: whether a feeder drops partitions.
    """
    hashes = ["task_definition", "task_inputs", "task_made"]
    wanted = [
        *hashes,
        "task_made_rows",
        "task_scheduled",
        *(["task_droppable"] if droppable else []),
    ]
    columns = Layout.of(stage).content
    names = stage.schema.key.names
    read = [c for c in columns if c.name in {*names, ORDINAL, *wanted}]
    table = empty(read) if stored is None else replace(stored, columns=tuple(read)).fetched()
    definitions, inputs, computed = (
        in_numpy(table.column(name), np.int64).view(np.uint64) for name in hashes
    )
    count = in_numpy(table.column("task_made_rows"), np.int64)
    kept = table.column("task_droppable") if droppable else None
    keys = table.select(list(names))
    return ComputedTasks(
        keys, definitions, inputs, computed, count, table.column("task_scheduled"), kept
    )


def newest(stored: Stored, stage: Stage) -> str:
    """Return the newest date, or time, that a task was made for, in ISO 8601."""
    return str(pc.max(read_records(stored, stage, droppable=False).scheduled).as_py() or "")


def has_marks(stored: Stored, stage: Stage) -> bool:
    """Return whether a backfill has marked tasks that nobody has made since."""
    (column,) = (c for c in Layout.of(stage).content if c.name == "task_definition")
    marks = replace(stored, columns=(column,)).fetched().column(column.name)
    return bool((in_numpy(marks, np.int64).view(np.uint64) == MARK).any())


def records_batch(
    stage: Stage,
    records: pa.Table,
    dropped: pa.Table,
    engines: Engines,
    *,
    version: int,
    rebuilds: bool,
) -> Batch | None:
    """Return the records of tasks that were made, and delete those of dropped partitions.

    Args:
        records: one row per record, in the columns of the stage without ordinal and version.
        dropped: partitions, in the key columns.
        version: the version number that they are made for.
        rebuilds: whether these are all records of the stage.

    Returns:
        None if nothing changes.
    """
    if not len(records) and not len(dropped) and not rebuilds:
        return None
    for name, number in ((ORDINAL, 0), ("task_version", version)):
        records = records.append_column(name, pa.array(np.full(len(records), number, np.int64)))
    rows = records.select([c.name for c in Layout.of(stage).content])
    if rebuilds:
        return Batch.snapshot(rows, stage, engines)
    keys = pa.concat_tables([records.select(list(stage.schema.key.names)), dropped])
    return Batch.replacing(Selection.of(keys, stage.schema.key.columns, engines), rows, stage)
