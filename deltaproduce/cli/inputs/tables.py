"""Tables of an input: the rows of its files together, in the columns that its source declares.

The invariant: if several change files have rows of a key, the rows of the last file count, as if
each file had been a version. Rows that do not fit in memory are in a temporary file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa

from deltaproduce.cli.inputs.reading.file_parts import NO_ABSENCE, Absence, FilePart
from deltaproduce.cli.inputs.reading.reader import CONTROLS, SourceReader, fault_in
from deltaproduce.engines.local.arrays import factorize
from deltaproduce.engines.local.large.spilling import LARGE_BYTES, Spill
from deltaproduce.errors import InvalidChangesError
from deltaproduce.model.graph import Source
from deltaproduce.stages.sources.given.required import unchecked
from deltaproduce.types.atoms import arrow_schema
from deltaproduce.types.columns import CHANGE_TYPE, ORDINAL, Column

NO_ABSENCES: Final[Mapping[Path, Absence]] = MappingProxyType({})


def snapshot(
    paths: Iterable[Path], reader: SourceReader, absences: Mapping[Path, Absence] = NO_ABSENCES
) -> pa.Table:
    """Return all rows of files, one file after the other.

    Args:
        absences: what is known of the columns that files lack.

    Raises:
        InvalidChangesError: see `SourceReader.parts`.
    """
    rows, _ = _gathered(paths, reader, absences)
    return rows


def changes(
    paths: Iterable[Path], reader: SourceReader, absences: Mapping[Path, Absence] = NO_ABSENCES
) -> pa.Table:
    """Return the net changes of files, one file after the other.

    Args:
        absences: what is known of the columns that files lack.

    Raises:
        InvalidChangesError: see `SourceReader.parts`. A file of deletes needs key columns only.
    """
    rows, sizes = _gathered(paths, reader, absences)
    return newest_of_keys(rows, sizes, reader.source.schema.key.names)


def newest_of_keys(rows: pa.Table, sizes: Sequence[int], keys: Sequence[str]) -> pa.Table:
    """Return the rows of several files, without rows whose key a later file has.

    Args:
        sizes: the number of rows of each file, in order.
    """
    if len(sizes) < 2:
        return rows
    numbers = factorize(rows.column(name) for name in keys)
    file = np.repeat(np.arange(len(sizes)), sizes)
    last = np.zeros(len(rows), np.int64)
    np.maximum.at(last, numbers, file)
    newest, kept, first = last[numbers] == file, Spill(LARGE_BYTES), 0
    for batch in rows.to_batches():
        marks = pa.array(newest[first : first + len(batch)])
        kept.add(pa.Table.from_batches([batch]).filter(marks))
        first += len(batch)
    return kept.table() if kept.is_begun else rows


def delta(path: str, source: Source) -> pa.Table:
    """Return the rows of a Delta table, with or without deletion vectors.

    Raises:
        InvalidChangesError: it cannot be read, or lacks columns.
    """
    from deltalake import DeltaTable, QueryBuilder
    from deltalake.exceptions import DeltaError

    try:
        query = QueryBuilder().register("given", DeltaTable(path)).execute("SELECT * FROM given")
        rows = pa.table(query.read_all())
    except DeltaError as error:
        said = " ".join(str(error).split())
        message = f"{path!r} of source {source.name!r} cannot be read as delta: {said}"
        raise InvalidChangesError(message, source=source.name, file=path) from error
    fault = fault_in(rows.column_names, source, deletes=False)
    if fault is not None:
        raise fault.error(path, source.name)
    declared = [name.lower() for name in source.schema.names]
    return rows.select([name for name in rows.column_names if name.lower() in declared])


def _gathered(
    paths: Iterable[Path], reader: SourceReader, absences: Mapping[Path, Absence]
) -> tuple[pa.Table, list[int]]:
    """Return the rows of files, and how many each has; control columns only if a file has them."""
    spill, sizes, said = Spill(LARGE_BYTES), list[int](), set[str]()
    schema = arrow_schema(_columns(reader.source))
    spill.add(schema.empty_table())
    for path in paths:
        size = 0
        for part in reader.parts(path, absences.get(path, NO_ABSENCE)):
            spill.add(pa.table(_with_controls(part, size), schema=schema))
            size += part.rows
            said |= {name.lower() for name in part.names}
        sizes.append(size)
    unsaid = [column.name for column in CONTROLS if column.name not in said]
    return spill.table().drop_columns(unsaid), sizes


def _with_controls(part: FilePart, first: int) -> dict[str, pa.Array]:
    """Return the columns of a part: without a change type its rows are upserts, in their order.

    Args:
        first: the number of its first row in its file.
    """
    columns = {
        CHANGE_TYPE: pa.repeat(pa.scalar("upsert", pa.string()), part.rows),
        ORDINAL: pa.array(np.arange(first, first + part.rows)),
    }
    return {**columns, **part.columns}


def _columns(source: Source) -> tuple[Column, ...]:
    return unchecked((*source.schema.key, *source.schema.value, *CONTROLS))
