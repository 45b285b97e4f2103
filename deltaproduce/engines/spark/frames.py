"""Frames: rows from Spark to the driver as Arrow tables, and back."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.local.large.spilling import reporting
from deltaproduce.engines.spark.columns import by_number, cols, struct_of, typed
from deltaproduce.engines.spark.data_types import frame_struct
from deltaproduce.engines.spark.sessions.error_texts import raise_interrupt
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.engines.spark.sessions.remote import kept
from deltaproduce.model.limits import Limits
from deltaproduce.types.catalogue import atom
from deltaproduce.types.columns import Column
from deltaproduce.types.conversions import in_arrow_types
from deltaproduce.types.data_types import DataType
from deltaproduce.types.ddl import identifier

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession

_PART_BYTES: Final = 64 << 20
"""The bytes of a table that go to Spark at once."""
_SENT: Final = "_sent"
"""The column that carries batches to the driver."""
_TASK: Final = "task"
_FAULT: Final = "fault"


def fetched(rows: DataFrame, columns: Sequence[Column]) -> pa.Table:
    """Return the columns of the rows, on the driver; one Spark job.

    The types are those of `arrow_type`, so tables fetched from anywhere can be concatenated.

    Raises:
        KeyboardInterrupt: for Ctrl-C; pyspark would only say that its job was cancelled.
    """
    try:
        table = rows.select(*map(_plain, columns)).toArrow()
    except Exception as error:
        raise_interrupt(error)
        raise
    return _typed(table, columns)


def streamed(rows: DataFrame, columns: Sequence[Column]) -> Iterator[pa.Table]:
    """Yield the columns of the rows, on the driver, batch by batch; one Spark job per partition.

    Tasks write their batches as bytes, so only one partition is on the driver at a time, and no
    value becomes a Python object. The types are those of `arrow_type`.
    """
    plain_rows = rows.select(*map(_plain, columns))
    sent = plain_rows.mapInArrow(_as_bytes, f"{_SENT} binary")
    for row in sent.toLocalIterator(prefetchPartitions=False):
        yield _typed(pa.ipc.open_stream(row[_SENT]).read_all(), columns)


def mapped(rows: DataFrame, columns: Sequence[Column]) -> pa.Table:
    """Return the columns of the rows, in files that are mapped into memory; one Spark job.

    See `in_files`. The types are those of `arrow_type`.
    """
    with in_files(rows.select(*cols(columns))) as files:
        return files.table(columns)


@contextmanager
def in_files(rows: DataFrame) -> Iterator[RowFiles]:
    """Compute the rows into files of this machine, which the block may read; one Spark job.

    The session's tasks run on this machine, in this interpreter. Each writes a file, so the rows
    do not go through the heap of the driver, which would hold all of them.

    Raises:
        KeyboardInterrupt: see `fetched`.
        StorageError: there is no space for temporary files, or no right to write them.
    """
    columns = [Column(field.name, field.dataType) for field in frame_struct(rows)]
    numbered = by_number(rows.select(*map(_plain, columns)))
    with reporting():
        # Tasks of a job that is interrupted may write until it is gone.
        folder = TemporaryDirectory(prefix="deltaproduce-", ignore_cleanup_errors=True)
    with folder as place:
        written = numbered.mapInArrow(
            partial(_into_file, place=place), f"{_TASK} int, {_FAULT} int"
        )
        try:
            tasks = sorted(written.collect())
        except Exception as error:
            raise_interrupt(error)
            raise
        with reporting():
            for fault in (fault for _, fault in tasks if fault):
                raise OSError(fault, os.strerror(fault))
        yield RowFiles(rows.sparkSession, columns, place, tuple(number for number, _ in tasks))


@dataclass(frozen=True, slots=True)
class RowFiles:
    """Rows in files of this machine, one for each task that had some.

    Attributes:
        columns: all their columns.
        place: the folder of the files.
        tasks: their names, in the order of the rows.
    """

    spark: SparkSession
    columns: Sequence[Column]
    place: str
    tasks: tuple[int, ...]

    def table(self, columns: Sequence[Column]) -> pa.Table:
        """Return some columns, mapped into memory: they stay when the files have no names.

        Raises:
            StorageError: the files cannot be read.
        """
        names, chosen = [c.name for c in self.columns], [c.name for c in columns]
        with reporting():
            files = [pa.memory_map(_path(self.place, number)) for number in self.tasks]
            parts = [pa.ipc.open_stream(file).read_all() for file in files]
        if not parts:
            return empty(columns)
        return _typed(pa.concat_tables(parts).rename_columns(names).select(chosen), columns)

    def frame(self) -> DataFrame:
        """Return the rows in Spark, in as many tasks; the files are read when it computes them."""
        tasks = max(self.tasks, default=0) + 1
        schema = struct_of(replace(c, name=str(n)) for n, c in enumerate(self.columns))
        numbers = self.spark.range(0, tasks, 1, tasks)
        rows = numbers.mapInArrow(partial(_from_files, place=self.place), schema)
        return rows.toDF(*(c.name for c in self.columns))


def _path(place: str, task: int) -> str:
    return str(Path(place, str(task)))


def _into_file(batches: Iterator[pa.RecordBatch], place: str) -> Iterator[pa.RecordBatch]:
    """Write a task's rows, if any, to a file named by its number; yield that, and errno or 0."""
    from pyspark import TaskContext

    context, first = TaskContext.get(), next(batches, None)
    assert context is not None  # this is a task
    if first is None:
        return
    number, fault = context.partitionId(), 0
    try:
        with (
            pa.OSFile(_path(place, number), "wb") as file,
            pa.ipc.new_stream(file, first.schema) as writer,
        ):
            for batch in chain([first], batches):
                writer.write_batch(batch)
    except OSError as error:
        fault = error.errno or errno.EIO
    written = {_TASK: pa.array([number], pa.int32()), _FAULT: pa.array([fault], pa.int32())}
    yield pa.RecordBatch.from_pydict(written)


def _from_files(batches: Iterable[pa.RecordBatch], place: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the tasks that the batches number."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            if os.path.exists(_path(place, number)):
                yield from pa.ipc.open_stream(pa.memory_map(_path(place, number)))


def _plain(column: Column) -> Expression:
    """Return a column of a frame without NOT NULL in its parts.

    Arrow's cast, which pyspark uses too, fails on a null struct with such a field: it looks at the
    value that is stored under the null.
    """
    value = f.col(identifier(column.name))
    return typed(value, column) if column.is_strict else value


def _typed(rows: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """Return `_plain` columns in the types of `arrow_type`."""
    return in_arrow_types(rows.rename_columns([c.name for c in columns]), columns)


def _as_bytes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield each batch as the single value of another batch."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_pydict({_SENT: pa.array([sink.getvalue().to_pybytes()])})


def frame(
    table: pa.Table,
    spark: SparkSession,
    columns: Sequence[Column] = (),
    plan_rows: int = Limits().plan_rows,
) -> DataFrame:
    """Return an Arrow table as a DataFrame, in the types of `struct_of` if there are ``columns``.

    More than a few rows become an RDD, as a checkpoint that is made on first read: Spark would keep
    them in the query's plan, which each of its rules walks row by row, for seconds. Large tables go
    over in parts, each of which is computed before the next one comes: data from Python stays in
    the driver's heap until then, and afterwards on its disk.
    """
    schema = struct_of(columns) if columns else None
    size = max(len(table) * _PART_BYTES // max(table.nbytes, 1), 1)
    if size >= len(table):
        rows = spark.createDataFrame(_whole(table), schema)
        return rows if len(table) <= plan_rows else kept(rows, eager=False)
    parts = (
        spark.createDataFrame(_whole(table.slice(first, size)), schema)
        for first in range(0, len(table), size)
    )
    return union_all(kept(part, eager=True) for part in parts)


def union_all(parts: Iterable[DataFrame]) -> DataFrame:
    """Return the rows of all, whose columns are in one order."""
    return reduce(lambda one, other: one.union(other), parts)


def _whole(table: pa.Table) -> pa.Table:
    """Return the rows as pyspark takes them.

    Chunks are joined: pyspark 4.2 loses rows next to empty chunks, which filters leave. Slices are
    copied, because pyspark refuses slices of maps with nulls. An empty table is created instead,
    because Arrow cannot join zero chunks of nested columns.
    """
    table = table.combine_chunks() if len(table) else table.schema.empty_table()
    if any(chunk.offset for column in table.columns for chunk in column.chunks):
        table = table.take(pa.array(range(len(table))))
    return table


def row_bytes(columns: Iterable[Column]) -> Expression:
    """Return the approximate bytes of a row: 8 per column, plus values of variable size."""
    return f.expr(" + ".join(_bytes(identifier(c.name), c.data_type) for c in columns))


def _bytes(name: str, data_type: DataType) -> str:
    known = atom(data_type)
    if known is not None and known.is_sized:
        return "8L"
    measured = f"CAST({name} AS string)" if known is None else name
    return f"8L + coalesce(octet_length({measured}), 0)"
