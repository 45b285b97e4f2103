"""Rows of a Parquet file: its values have types, and fit as those of a given Arrow table do."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, tzinfo
from functools import partial
from typing import BinaryIO, Final

import pyarrow as pa
from pyarrow import parquet

from deltaproduce.cli.inputs.reading.faults import FileFault
from deltaproduce.cli.inputs.reading.file_parts import Declared, FilePart
from deltaproduce.cli.inputs.reading.texts import Forms
from deltaproduce.types.atoms import Misfit
from deltaproduce.types.columns import Column
from deltaproduce.types.conversions import conformed, misfits

_ROWS: Final = 1 << 17


def parquet_parts(file: BinaryIO, declared: Declared, forms: Forms) -> Iterator[FilePart]:
    """Yield the rows of a file, at first none.

    Raises:
        FileFault: a column does not fit.
    """
    with parquet.ParquetFile(file, coerce_int96_timestamp_unit="us") as opened:
        names = tuple(opened.schema_arrow.names)
        yield FilePart(names, 0, {})
        read = [name for name in names if name.lower() in declared]
        clocks = {name: _clock(opened, name, forms) for name in read}
        first = 0
        for batch in opened.iter_batches(_ROWS, columns=read):
            arrays = {}
            for name in read:
                column = declared[name.lower()]
                arrays[column.name] = _values(batch.column(name), column, clocks[name], first)
            yield FilePart(names, len(batch), arrays)
            first += len(batch)


def _clock(opened: parquet.ParquetFile, name: str, forms: Forms) -> tzinfo:
    """Return the clock of a column's timestamps without a zone.

    Those in INT96, as Spark writes them, are moments in UTC. They are read as microseconds: as
    nanoseconds, those before 1678 or after 2261 would become others.
    """
    leaves = [opened.schema.column(place) for place in range(len(opened.schema))]
    own = [leaf for leaf in leaves if leaf.path == name or leaf.path.startswith(f"{name}.")]
    return UTC if any(leaf.physical_type == "INT96" for leaf in own) else forms.zone


def _values(array: pa.Array, column: Column, clock: tzinfo, first: int) -> pa.Array:
    """Return values in the type of their column.

    Args:
        first: the number of their first row in the file.
    """
    try:
        return conformed(array, column.data_type, clock=clock)
    except Misfit as misfit:
        fits = partial(_fits, array, column, clock)
        place = next(iter(misfits(len(array), fits, 1) if fits(0, 0) else ()), None)
        row = "" if place is None else f"row {first + place} (from 0): "
        raise FileFault(f"{row}{misfit}", column=column.name) from misfit


def _fits(array: pa.Array, column: Column, clock: tzinfo, start: int, end: int) -> bool:
    try:
        conformed(array.slice(start, end - start), column.data_type, clock=clock)
    except Misfit:
        return False
    return True
