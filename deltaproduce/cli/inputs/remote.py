"""Files that only Spark reaches, in a file system that it knows: its tasks fetch them.

The reader is the same as that of files on this machine: a task gets the bytes of a file, and reads
them with it. The invariant: rows of a key keep the order of files by name, and of rows in a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from deltaproduce.cli.inputs.files import missing
from deltaproduce.cli.inputs.reading.reader import Reader
from deltaproduce.stages.given.kind import Given
from deltaproduce.stages.given.required import unchecked
from deltaproduce.types.columns import ORDINAL, ORDINAL_COLUMN, Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_ROWS: Final = 1 << 40
"""More than the rows of a file of 2 GiB, the largest that Spark fetches."""


def snapshot(spark: SparkSession, path: str, reader: Reader) -> DataFrame:
    """Return all rows of files.

    They are read when the rows are computed, which raises the errors of `Reader.parts`.

    Raises:
        ProjectFileError: there is no file.
    """
    from deltaproduce.engines.failures import in_worker
    from deltaproduce.engines.spark.columns import struct_of

    files = spark.read.format("binaryFile").option("recursiveFileLookup", True).load(path)
    names = sorted(row.path for row in files.select("path").collect())
    if not names:
        raise missing(reader.found, f"no file is at {path!r}, which would delete all of its rows")
    columns = _columns(reader)
    sent = replace(reader, source=replace(reader.source, kind=Given()))
    firsts = {name: number * _MOST_ROWS for number, name in enumerate(names)}
    read = in_worker(partial(_rows, reader=sent, firsts=firsts))
    numbered = struct_of(replace(c, name=str(n)) for n, c in enumerate(columns))
    rows = files.select("path", "content").mapInArrow(read, numbered)
    return rows.toDF(*(column.name for column in columns))


def _columns(reader: Reader) -> tuple[Column, ...]:
    schema = reader.source.schema
    return unchecked((*schema.key, *schema.value, ORDINAL_COLUMN))


def _rows(
    files: Iterator[pa.RecordBatch], reader: Reader, firsts: Mapping[str, int]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files.

    Args:
        files: the path and the content of each.
        firsts: the number of the first row of each.
    """
    columns = _columns(reader)
    for batch in files:
        for path, content in zip(*batch.columns, strict=True):
            first = firsts[path.as_py()]
            for part in reader.parts_of(content.as_buffer(), path.as_py()):
                numbers = {ORDINAL: pa.array(np.arange(first, first + part.rows))}
                made = {**numbers, **part.columns}
                yield pa.RecordBatch.from_arrays(
                    [made[column.name] for column in columns],
                    names=[str(n) for n in range(len(columns))],
                )
                first += part.rows
