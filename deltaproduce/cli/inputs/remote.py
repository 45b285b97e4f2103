"""Files that only Spark reaches, in a file system that it knows: its tasks fetch them.

The reader is the same as that of files on this machine: a task gets the bytes of a file, and reads
them with it. The invariant: rows of a key keep the order of files by name, and of rows in a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from deltaproduce.cli.inputs.columns import Headers
from deltaproduce.cli.inputs.files import missing
from deltaproduce.cli.inputs.reading.file_parts import NO_ABSENCE, Absence
from deltaproduce.cli.inputs.reading.folders import folders_of
from deltaproduce.cli.inputs.reading.reader import SourceReader
from deltaproduce.stages.sources.given.kind import Given
from deltaproduce.stages.sources.given.required import unchecked
from deltaproduce.types.columns import ORDINAL, ORDINAL_COLUMN, Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_ROWS: Final = 1 << 40
"""More than the rows of a file of 2 GiB, the largest that Spark fetches."""


def snapshot(
    spark: SparkSession, path: str, reader: SourceReader, *, is_begun: bool = False
) -> DataFrame:
    """Return all rows of files.

    They are read when the rows are computed, which raises the errors of `SourceReader.parts`. If
    files may lack columns, their columns are read before: one job more.

    Args:
        is_begun: whether the source has rows, or had some.

    Raises:
        ProjectFileError: there is no file.
        InvalidChangesError: the columns of a file are read, and it does not have its format.
    """
    from deltaproduce.engines.failures import in_worker
    from deltaproduce.engines.spark.columns import struct_of

    files = spark.read.format("binaryFile").option("recursiveFileLookup", True).load(path)
    names = sorted(row.path for row in files.select("path").collect())
    if not names:
        raise missing(reader.input, f"no file is at {path!r}, which would delete all of its rows")
    columns = _columns(reader)
    sent = replace(reader, source=replace(reader.source, kind=Given()))
    firsts = {name: number * _MOST_ROWS for number, name in enumerate(names)}
    absences = _absences(files, names, sent, is_begun=is_begun)
    read = in_worker(partial(_rows, reader=sent, firsts=firsts, absences=absences))
    numbered = struct_of(replace(c, name=str(n)) for n, c in enumerate(columns))
    rows = files.select("path", "content").mapInArrow(read, numbered)
    return rows.toDF(*(column.name for column in columns))


def is_empty(rows: DataFrame) -> bool:
    """Return whether there are no rows; one job, which reads as far as the first row.

    Raises:
        InvalidChangesError: see `SourceReader.parts`.
    """
    with _refused():
        return rows.isEmpty()


def _absences(
    files: DataFrame, names: Sequence[str], reader: SourceReader, *, is_begun: bool
) -> dict[str, Absence]:
    """Return what is known of the columns that each file lacks."""
    from deltaproduce.engines.failures import in_worker

    below = {name: _below(name, reader.input.path) for name in names}
    may_lack = any(column.nullable for column in reader.source.schema.value)
    if not may_lack and not any(folders_of(name) for name in below.values()):
        return {}
    read = in_worker(partial(_headers, reader=reader))
    with _refused():
        rows = files.select("path", "content").mapInArrow(read, "path string, names array<string>")
        there = {row[0]: row[1] for row in rows.collect()}
    known = {below[name]: there[name] for name in names}
    missing = Headers(known, reader.source, reader.input.optional, is_begun)
    return {name: missing.absence(below[name]) for name in names}


def _below(name: str, path: str) -> str:
    """Return a file's name without the folders with values that are in the input's path itself.

    Spark spells a path in its own way, so they are counted.
    """
    plain = takewhile(lambda part: not any(sign in part for sign in "*?[{"), path.split("/"))
    parts, own = name.split("/"), sum("=" in part for part in plain)
    places = [place for place, part in enumerate(parts) if "=" in part]
    return "/".join(parts[places[own - 1] + 1 :]) if own else name


@contextmanager
def _refused() -> Iterator[None]:
    """Raise what a task refuses as the error that it is.

    Raises:
        InvalidChangesError: a file cannot be read.
    """
    from deltaproduce.engines.spark.executors.failures import raised_by_producer
    from deltaproduce.engines.spark.sessions.error_texts import raise_interrupt

    try:
        yield
    except Exception as error:
        raise_interrupt(error)
        failure = raised_by_producer(error)
        if failure is None:
            raise
        raise failure from failure.__cause__


def _headers(files: Iterator[pa.RecordBatch], reader: SourceReader) -> Iterator[pa.RecordBatch]:
    """Yield the path and the columns of each file."""
    for batch in files:
        for path, content in zip(*batch.columns, strict=True):
            names = reader.names_of(content.as_buffer(), path.as_py())
            columns = [pa.array([path.as_py()]), pa.array([names], pa.list_(pa.string()))]
            yield pa.RecordBatch.from_arrays(columns, names=["path", "names"])


def _columns(reader: SourceReader) -> tuple[Column, ...]:
    schema = reader.source.schema
    return unchecked((*schema.key, *schema.value, ORDINAL_COLUMN))


def _rows(
    files: Iterator[pa.RecordBatch],
    reader: SourceReader,
    firsts: Mapping[str, int],
    absences: Mapping[str, Absence],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files.

    Args:
        files: the path and the content of each.
        firsts: the number of the first row of each.
        absences: what is known of the columns that each lacks.
    """
    columns = _columns(reader)
    for batch in files:
        for path, content in zip(*batch.columns, strict=True):
            name = path.as_py()
            first, absence = firsts[name], absences.get(name, NO_ABSENCE)
            for part in reader.parts_of(content.as_buffer(), name, absence):
                numbers = {ORDINAL: pa.array(np.arange(first, first + part.rows))}
                arrays = {**numbers, **part.columns}
                yield pa.RecordBatch.from_arrays(
                    [arrays[column.name] for column in columns],
                    names=[str(n) for n in range(len(columns))],
                )
                first += part.rows
