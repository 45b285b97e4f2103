"""Repeats: where in files the rows of a key are that a unique source has twice.

The store refuses such rows by their numbers among all that it was given. A user needs the files and
the lines. The invariant: the lines named are those of two rows of the key that count, in the files
as they are now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.cli.inputs.reading.file_parts import Absence, FilePart
from deltaproduce.cli.inputs.reading.reader import SourceReader
from deltaproduce.engines.local.arrays import isin_rows
from deltaproduce.errors import InvalidChangesError
from deltaproduce.stages.sources.given.contents import UPSERTS
from deltaproduce.types.columns import CHANGE_TYPE
from deltaproduce.types.excerpts import shown


def located(
    error: InvalidChangesError,
    rows: pa.Table,
    files: Mapping[str, Path],
    absences: Mapping[Path, Absence],
    read: SourceReader,
) -> InvalidChangesError:
    """Return an error about a key that is there twice, with the files and lines of two rows.

    Args:
        error: with the numbers of two rows.
        rows: the rows that the store was given.
        files: the files that they are from, in order.
        absences: what is known of the columns that they lack.

    Returns:
        The error itself if the rows are not found.
    """
    key = rows.slice(error.rows[0], 1).select(read.source.schema.key.names)
    rows_by_file = [
        (name, path, _rows_of(key, read.parts(path, absences[path])))
        for name, path in files.items()
    ]
    rows_by_file = [one for one in rows_by_file if one[2]]
    if read.input.mode == "changes":  # the rows of the last file count
        rows_by_file = rows_by_file[-1:]
    places = list(islice(((path, row) for _, path, own in rows_by_file for row in own), 2))
    if len(places) < 2:
        return error
    lines = [_line(path, row, read) for path, row in places]
    (one, first), (other, second) = zip((path for path, _ in places), lines, strict=True)
    noun = "line" if read.input.format in {"csv", "json"} else "row"
    where = (
        f"{str(one)!r} of source {error.source!r}, {noun}s {first} and {second}"
        if one == other
        else f"{str(one)!r}, {noun} {first}, and {str(other)!r}, {noun} {second}, "
        f"of source {error.source!r}"
    )
    key_text = f"key {shown(error.keys[0])}" if error.keys else "a key"
    return InvalidChangesError(
        f"{where}: {key_text} is there twice, and the source is unique: drop one of the rows",
        source=error.source,
        keys=error.keys,
        rows=error.rows,
        file=str(one),
        line=first if noun == "line" else None,
    )


def _rows_of(key: pa.Table, parts: Iterable[FilePart]) -> list[int]:
    """Return the numbers of the first two rows of a key in a file that are no deletes."""
    numbers, first = list[int](), 0
    for part in parts:
        if part.rows:
            columns = {name: part.columns[name] for name in key.column_names}
            marks = isin_rows(pa.table(columns).cast(key.schema), key)
            types = part.columns.get(CHANGE_TYPE)
            if types is not None:
                upserts = pc.is_in(types, value_set=pa.array(UPSERTS, types.type))
                marks &= upserts.to_numpy(zero_copy_only=False)
            numbers += (first + np.flatnonzero(marks)).tolist()
        first += part.rows
        if len(numbers) > 1:
            break
    return numbers[:2]


def _line(path: Path, row: int, read: SourceReader) -> int:
    """Return the line of a row, or its number where a file has no lines."""
    lines = read.lines(path)
    return row if lines is None else next(islice(lines, row, None), row)
