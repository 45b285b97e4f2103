"""Rows for a data set: converts a writer's input into Arrow tables in the declared columns.

The invariant: every value is in the column of its name, in the declared type, unchanged. Otherwise
an `InvalidChangesError` names the row and the column, and nothing of what was given in that call is
taken. Rows are numbered from 0 over all that a writer is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from deltaproduce.datasets.writing.sure import sure_of
from deltaproduce.engines.spark.columns import cast_by_name
from deltaproduce.engines.spark.data_types import frame_struct
from deltaproduce.errors import InvalidChangesError
from deltaproduce.stages.sources.given.formats import without_pandas
from deltaproduce.types.atoms import Misfit, arrow_type
from deltaproduce.types.columns import Column, Columns, row_type
from deltaproduce.types.conversions import conformed, misfit_of_types, misfits, widens
from deltaproduce.types.data_types import DataType
from deltaproduce.types.ddl import identifier
from deltaproduce.types.excerpts import described
from deltaproduce.types.row_writers import row_by_position, rows_writer, settled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TAKEN: Final = (
    "give tuples, dicts, a pyarrow Table, RecordBatch or RecordBatchReader, a frame of pandas or "
    "Polars or, with a session, a DataFrame of Spark"
)


class RowTaker:
    """Takes input rows for the columns of one data set.

    Args:
        location: the data set's location, for messages.
        clock: the time zone of times without one, where a timestamp is declared.

    Attributes:
        sure: decides at once whether a tuple is a row whose values fit.
    """

    def __init__(self, columns: Columns, location: str, clock: tzinfo) -> None:
        self._columns = columns
        self._location = location
        self._clock = clock
        fields: tuple[str, ...] = row_type(columns.names)._fields  # type: ignore[attr-defined]
        self._by_position = partial(row_by_position, names=columns.names, fields=fields)
        self._writers = [rows_writer(Columns((c,)), clock) for c in columns]
        self.sure = sure_of(columns)

    def row(self, row: object, number: int) -> Sequence[Any]:
        """Return one row as a sequence of its current values, which are sure to fit.

        Raises:
            InvalidChangesError: it is not a row, or a value does not fit.
        """
        try:
            values = self._by_position(row)
        except Misfit as misfit:
            raise wrong_rows(
                self._location, str(misfit), self._first_wrong(row), number
            ) from misfit
        if self.sure(tuple(values)):
            return tuple(values)
        for column, value, write in zip(self._columns, values, self._writers, strict=True):
            if value is None and not column.nullable:
                raise self._wrong("is NOT NULL, and null", number, column)
            try:
                write([value])
            except Misfit as misfit:
                raise self._wrong(_said(misfit, column), number, column) from misfit
        settled_row: Sequence[Any] = settled(values)
        return settled_row

    def _first_wrong(self, row: object) -> str | None:
        """Return the first column that a dict lacks or should not have; None for other rows."""
        if not isinstance(row, Mapping):
            return None
        names = self._columns.names
        lacking = (name for name in names if name not in row)
        unknown = (str(name) for name in row if name not in names)
        return next(chain(lacking, unknown), None)

    def of_rows(self, rows: Sequence[Sequence[Any]]) -> pa.Table:
        """Return rows from `row` as a table."""
        arrays = [
            write(list(map(itemgetter(place), rows)))[0]
            for place, write in enumerate(self._writers)
        ]
        return pa.Table.from_arrays(arrays, names=list(self._columns.names))

    def tables(self, given: object, first: int) -> Iterator[pa.Table]:
        """Return Arrow data as tables in the declared columns, checked one by one.

        Args:
            first: the number of its first row.

        Raises:
            InvalidChangesError: it is not Arrow data, or does not fit.
        """
        for table, by_pandas in _read(given, self._location, first):
            yield self.table(table, first, by_pandas=by_pandas)
            first += len(table)

    def frame(self, rows: DataFrame, first: int) -> DataFrame:
        """Return a Spark DataFrame in the declared columns, before Spark computes any of it.

        Args:
            first: the number of its first row.

        Raises:
            InvalidChangesError: it has other columns, or is a stream.
        """
        if rows.isStreaming:
            finding = "they are a stream: write each batch of it, by foreachBatch"
            raise wrong_rows(self._location, finding, None, first)
        places, struct = self._places(rows.columns, first), frame_struct(rows)
        wanted: list[str] = []
        for column, place in zip(self._columns, places, strict=True):
            field = struct.fields[place]
            if not widens(field.dataType, column.data_type, by_name=True):
                finding = misfit_of_types(field.dataType, column.data_type)
                raise self._wrong(finding, first, column)
            wanted.append(f"{cast_by_name(field, column.data_type)} AS {identifier(column.name)}")
        return rows.selectExpr(*wanted)

    def table(self, table: pa.Table, first: int, *, by_pandas: bool = False) -> pa.Table:
        """Return a table in the declared columns.

        Args:
            first: the number of its first row.
            by_pandas: whether it is a pandas frame; pandas lacks types for some values.

        Raises:
            InvalidChangesError: it has other columns, or a value does not fit.
        """
        places = self._places(table.column_names, first)
        arrays = [
            self._conformed(column, table.column(place), first, by_pandas=by_pandas)
            for column, place in zip(self._columns, places, strict=True)
        ]
        return pa.Table.from_arrays(arrays, names=list(self._columns.names))

    def _places(self, names: Sequence[str], first: int) -> list[int]:
        """Return the position of each declared column among these names; case does not count."""
        there = [name.lower() for name in names]
        for name in names:
            if there.count(name.lower()) > 1:
                raise self._wrong("is there twice", first, name=name)
            if name.lower() not in {own.lower() for own in self._columns.names}:
                raise self._wrong("is not declared; drop it", first, name=name)
        for name in self._columns.names:
            if name.lower() not in there:
                raise self._wrong("is missing", first, name=name)
        return [there.index(name.lower()) for name in self._columns.names]

    def _conformed(
        self, column: Column, values: pa.ChunkedArray, first: int, *, by_pandas: bool
    ) -> pa.Array:
        if values.null_count and not column.nullable:
            place = int(np.flatnonzero(np.asarray(values.is_null()))[0])
            raise self._wrong("is NOT NULL, and null", first + place, column)
        if values.type == arrow_type(column.data_type):
            return values
        whole = values.combine_chunks()
        if by_pandas:
            whole = without_pandas(whole, column.data_type)
        try:
            return conformed(whole, column.data_type, clock=self._clock)
        except Misfit as misfit:
            fits = partial(_fits, whole, column.data_type, self._clock)
            places = misfits(len(whole), fits, 1) if fits(0, 0) else []
            number = first + places[0] if places else first
            raise self._wrong(f"does not fit: {misfit}", number, column) from misfit

    def _wrong(
        self,
        finding: str,
        number: int | None,
        column: Column | None = None,
        *,
        name: str | None = None,
    ) -> InvalidChangesError:
        called = column.name if column is not None else name
        what = "" if called is None else f"column {called!r} "
        return wrong_rows(self._location, f"{what}{finding}", called, number)


def wrong_rows(
    location: str, finding: str, column: str | None = None, number: int | None = None
) -> InvalidChangesError:
    """Return the error for rows that a data set refuses."""
    row = "" if number is None else f"row {number} (from 0): "
    return InvalidChangesError(
        f"rows for the data set at {location}: {row}{finding}",
        source=location,
        column=column,
        columns=() if column is None else (column,),
        row=number,
    )


def _read(given: object, location: str, first: int) -> Iterator[tuple[pa.Table, bool]]:
    """Return Arrow data as tables without pandas' index, and whether each is from pandas."""
    kind = type(given).__name__
    if isinstance(given, pa.Table):
        yield given, False
        return
    if isinstance(given, pa.RecordBatch):
        yield pa.Table.from_batches([given]), False
        return
    is_reader = isinstance(given, pa.RecordBatchReader)
    if not is_reader and not hasattr(given, "__arrow_c_stream__"):
        raise wrong_rows(location, f"they are a {kind}; {_TAKEN}", None, first)
    try:
        reader: Any = given if is_reader else pa.RecordBatchReader.from_stream(given)
        pandas = None if is_reader else reader.schema.pandas_metadata
        index = [name for name in (pandas or {}).get("index_columns", ()) if isinstance(name, str)]
        for batch in reader:
            yield pa.Table.from_batches([batch]).drop_columns(index), pandas is not None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise wrong_rows(
            location, f"they are a {kind} that cannot be read: {described(error)}", None, first
        ) from error


def _fits(array: pa.Array, data_type: DataType, clock: tzinfo, start: int, end: int) -> bool:
    try:
        conformed(array.slice(start, end - start), data_type, clock=clock)
    except Misfit:
        return False
    return True


def _said(misfit: Misfit, column: Column) -> str:
    text = str(misfit).removeprefix(f"{column.name}: ")
    return f"does not fit: {text}"


def is_row(given: object) -> bool:
    """Return whether it is one row, and not a container of rows."""
    return isinstance(given, tuple | Mapping) or hasattr(given, "__dataclass_fields__")
