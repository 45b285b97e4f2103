"""Given rows: a user's data for a source, as one Arrow table or DataFrame in its columns.

Anything that supports Arrow's PyCapsule interface is accepted: tables and readers of pyarrow,
frames of pandas and Polars, relations of DuckDB; and lists of dicts, typed by the source's columns.
The invariant: every value lands unchanged in the column of its name, in the declared type, or an
`InvalidChangesError` lists all wrong columns at once.

No frame library is imported. Pandas has no type for whole numbers with nulls and none for dates;
its frames are recognized by their schema.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import partial
from typing import Any, Final, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.local.large.spilling import LARGE_BYTES, Spill
from deltaproduce.errors import DeltaProduceError, InvalidChangesError
from deltaproduce.model.graph import Source
from deltaproduce.stages.sources.given.required import unchecked
from deltaproduce.types import data_types as t
from deltaproduce.types.atoms import Misfit
from deltaproduce.types.columns import (
    CHANGE_TYPE,
    CHANGE_TYPE_COLUMN,
    ORDINAL,
    ORDINAL_COLUMN,
    Column,
    Columns,
)
from deltaproduce.types.conversions import conformed, misfit_of_types, misfits, widens
from deltaproduce.types.excerpts import described, shown
from deltaproduce.types.python_values import python_keys
from deltaproduce.types.row_writers import rows_writer

_CONTROLS: Final = {CHANGE_TYPE: CHANGE_TYPE_COLUMN, ORDINAL: ORDINAL_COLUMN}
_SHOWN: Final = 10
_EXACT: Final = 2**53
"""Below it, a whole double stands for exactly one whole number."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault in a column.

    Attributes:
        column: its declared name, if it is declared.
        finding: what is wrong, and how to fix it.
        keys: a sample of the keys of wrong rows, if it is about rows.
    """

    column: str
    finding: str
    keys: tuple[object, ...] = ()


def check(faults: Sequence[Fault], source: Source) -> None:
    """Refuse changes with faults, and list all of them in one line.

    Raises:
        InvalidChangesError: with ``source``, ``columns`` and, of the first, ``column`` and
            ``keys``.
    """
    if not faults:
        return
    declared = f"declared: {source.schema.key.ddl}; {source.schema.value.ddl}"
    texts = "; ".join(f"column {fault.column!r} {fault.finding}" for fault in faults)
    raise InvalidChangesError(
        f"changes of source {source.name!r}: {texts}; {declared}",
        source=source.name,
        column=faults[0].column,
        columns=tuple(dict.fromkeys(fault.column for fault in faults)),
        keys=faults[0].keys,
    )


def name_faults(names: Sequence[str], source: Source, *, is_snapshot: bool) -> list[Fault]:
    """Return faults of missing, undeclared or repeated columns; case does not matter."""
    declared = {c.name.lower(): c.name for c in (*source.schema.key, *source.schema.value)}
    times, spelled = Counter(map(str.lower, names)), {name.lower(): name for name in names}
    faults = [Fault(spelled[name], "is there twice") for name, count in times.items() if count > 1]
    faults += [Fault(name, "is missing") for low, name in declared.items() if low not in times]
    for low, name in spelled.items():
        if low == CHANGE_TYPE and is_snapshot:
            advice = (
                "a snapshot is all rows, and what is not in it is gone; drop it, or call update"
            )
            faults.append(Fault(CHANGE_TYPE, f"is there: {advice}"))
        elif low not in declared and low not in _CONTROLS:
            faults.append(Fault(name, "is not declared; drop it"))
    return faults


def frame_faults(struct: t.StructType, source: Source, *, is_snapshot: bool) -> list[Fault]:
    """Return the faults of a DataFrame's columns, without a job.

    A column may have a narrower type than declared if the declared type holds every value of it, as
    Spark widens ``int`` to ``bigint`` on insert. Fields of structs may be in any order.
    """
    faults = name_faults(struct.names, source, is_snapshot=is_snapshot)
    given = {field.name.lower(): field.dataType for field in struct}
    for column in (*source.schema.key, *source.schema.value):
        data_type = given.get(column.name.lower())
        if data_type is not None and not widens(data_type, column.data_type, by_name=True):
            faults.append(Fault(column.name, misfit_of_types(data_type, column.data_type)))
    change_type, ordinal = given.get(CHANGE_TYPE), given.get(ORDINAL)
    if change_type is not None and not isinstance(change_type, t.StringType):
        said = f"has type {change_type.simpleString()}; it is a string"
        faults.append(Fault(CHANGE_TYPE, said))
    if ordinal is not None and not isinstance(ordinal, t.IntegralType):
        faults.append(Fault(ORDINAL, f"has type {ordinal.simpleString()}; it is an integer"))
    return faults


def table_of(changes: object, source: Source, clock: tzinfo, *, is_snapshot: bool) -> pa.Table:
    """Return given rows as an Arrow table in the source's columns, then control columns.

    Nulls are checked later, by key: the columns are those of `unchecked`.

    Args:
        changes: anything but a DataFrame of Spark. A reader is read to its end.
        clock: the zone of times without one, where a timestamp is declared.

    Raises:
        InvalidChangesError: the object is not accepted, or does not fit.
    """
    speaks_arrow = hasattr(changes, "__arrow_c_stream__")
    if isinstance(changes, Sequence) and not isinstance(changes, str | bytes) and not speaks_arrow:
        return _of_rows(changes, source, clock, is_snapshot=is_snapshot)
    table, by_pandas = _read(changes, source)
    faults = name_faults(table.column_names, source, is_snapshot=is_snapshot)
    arrays = {name.lower(): table.column(place) for place, name in enumerate(table.column_names)}
    taken: dict[str, pa.ChunkedArray] = {}
    for column in unchecked(table_columns(source, arrays)):
        values = arrays[column.name.lower()]
        if by_pandas:
            values = _undone(values, column.data_type)
        try:
            taken[column.name] = _conformed(values, column.data_type, clock)
        except Misfit as misfit:
            places = _misfits(values, column.data_type, clock)
            keys = _keys(arrays, places, source, clock)
            faults.append(Fault(column.name, _said(misfit, places, keys), keys))
    check(faults, source)
    return pa.table(taken)


def refuse(source: Source, finding: str) -> NoReturn:
    """Refuse changes as a whole.

    Raises:
        InvalidChangesError: always.
    """
    raise InvalidChangesError(f"changes of source {source.name!r} {finding}", source=source.name)


def table_columns(source: Source, names: Iterable[str]) -> tuple[Column, ...]:
    """Return the declared columns, then the control columns, that are among lower-case names."""
    columns = (*source.schema.key, *source.schema.value, *_CONTROLS.values())
    return tuple(column for column in columns if column.name.lower() in names)


def _read(changes: object, source: Source) -> tuple[pa.Table, bool]:
    """Read anything that speaks Arrow; return whether it is pandas, whose index is left out."""
    kind = type(changes).__name__
    try:
        if isinstance(changes, pa.Table):
            table = changes
        elif isinstance(changes, pa.RecordBatchReader):
            table = _kept(changes)
            if table is None:
                raise ValueError(
                    "the reader gives no batch: it was read before; make another, or give a table "
                    "if there are no rows"
                )
        elif hasattr(changes, "__arrow_c_stream__"):
            reader = pa.RecordBatchReader.from_stream(changes)
            kept = _kept(reader)
            table = reader.schema.empty_table() if kept is None else kept
        elif hasattr(changes, "__arrow_c_array__"):
            table = pa.Table.from_batches([pa.record_batch(changes)])
        else:
            refuse(source, f"are {_NOUNS.get(kind, f'a {kind}')}: {_ADVICE.get(kind, _TAKEN)}")
        table.validate(full=True)
        pandas = None if isinstance(changes, _ARROW) else table.schema.pandas_metadata
    except DeltaProduceError:
        raise
    except Exception as error:
        raise InvalidChangesError(
            f"changes of source {source.name!r} are a {kind} that cannot be read: "
            f"{described(error)}",
            source=source.name,
        ) from error
    if pandas is None:
        return table, False
    index = [name for name in pandas["index_columns"] if isinstance(name, str)]
    return table.drop_columns(index), True


def _kept(reader: pa.RecordBatchReader) -> pa.Table | None:
    """Read a reader to its end, into a file if it is large; None if it has no batch."""
    spill = Spill(LARGE_BYTES)
    for batch in reader:
        spill.add(pa.Table.from_batches([batch]))
    return spill.table() if spill.is_begun else None


_ARROW: Final = (pa.Table, pa.RecordBatch, pa.RecordBatchReader)
_TAKEN: Final = (
    "give a DataFrame of Spark, pandas or Polars, a pyarrow Table, RecordBatch or "
    "RecordBatchReader, or a list of dicts"
)
_NOUNS: Final = {"NoneType": "None"}
_ADVICE: Final = {
    "dict": "give a list of dicts, one a row; for a dict of columns, pyarrow.table(…) of it",
    "generator": "list(…) makes a list of it",
    "LazyFrame": "collect() it",
    "NoneType": "leave the source out if nothing of it has changed",
}


def _conformed(values: pa.ChunkedArray, data_type: t.DataType, clock: tzinfo) -> pa.ChunkedArray:
    """Return a column in its type, chunk by chunk: what has the type is neither copied nor moved.

    So a column may have more text than one array holds, and stays in a file if it is in one.

    Raises:
        Misfit: it is of another kind, or not all of its values fit.
    """
    chunks = values.chunks or [pa.nulls(0, values.type)]
    converted = [conformed(chunk, data_type, clock=clock) for chunk in chunks]
    return pa.chunked_array(converted, converted[0].type)


def _undone(values: pa.ChunkedArray, data_type: t.DataType) -> pa.ChunkedArray:
    """Return a column without pandas' substitutes, if that is possible for all of it."""
    chunks = [without_pandas(chunk, data_type) for chunk in values.chunks]
    alike = len({chunk.type for chunk in chunks}) == 1
    return pa.chunked_array(chunks) if alike else values


def without_pandas(array: pa.Array, data_type: t.DataType) -> pa.Array:
    """Undo pandas' substitutes: doubles for whole numbers with nulls, midnights for dates.

    A double that may have lost digits stays one.
    """
    try:
        if isinstance(data_type, t.IntegralType) and pa.types.is_float64(array.type):
            whole = array.cast(pa.int64())
            exact = pc.all(pc.less(pc.abs(whole), _EXACT))
            return whole if exact.as_py() is not False else array
        if isinstance(data_type, t.DateType) and pa.types.is_timestamp(array.type):
            dates = array.cast(pa.date32())
            return dates if dates.cast(array.type).equals(array) else array
    except pa.ArrowException:
        pass
    return array


def _misfits(values: pa.ChunkedArray, data_type: t.DataType, clock: tzinfo) -> list[int]:
    """Return the first rows that do not fit; none if the type itself does not."""

    def fits(start: int, end: int) -> bool:
        try:
            _conformed(values.slice(start, end - start), data_type, clock)
        except Misfit:
            return False
        return True

    return misfits(len(values), fits, _SHOWN) if fits(0, 0) else []


def _keys(
    arrays: Mapping[str, pa.ChunkedArray], places: list[int], source: Source, clock: tzinfo
) -> tuple[object, ...]:
    """Return the keys of rows, as functions get them; none if a key column is wrong."""
    key = source.schema.key
    try:
        columns = [(arrays[column.name.lower()], column.data_type) for column in key]
        keys: list[object] = []
        for place in places:
            row = [(array.slice(place, 1).combine_chunks(), kind) for array, kind in columns]
            conforming = [conformed(array, kind, clock=clock) for array, kind in row]
            keys += python_keys(key, clock, conforming)
        return tuple(dict.fromkeys(keys))
    except (KeyError, Misfit):
        return ()


def _said(misfit: Misfit, places: list[int], keys: tuple[object, ...]) -> str:
    of_keys = f", of keys {shown(keys)}" if keys else ""
    rows = f" in rows {', '.join(map(str, places))} (from 0){of_keys}" if places else ""
    return f"does not fit{rows}: {misfit}"


def _of_rows(
    rows: Sequence[object], source: Source, clock: tzinfo, *, is_snapshot: bool
) -> pa.Table:
    """Convert a list of dicts. A missing value is null, but a null key must be given as None."""
    by_name = [_by_name(row, place, source) for place, row in enumerate(rows)]
    first: dict[str, tuple[int, str]] = {}
    for place, row in enumerate(by_name):
        for name, (spelled, _) in row.items():
            first.setdefault(name, (place, spelled))
    declared = [name.lower() for name in source.schema.names]
    others = [spelled for name, (_, spelled) in first.items() if name not in declared]
    faults = [
        replace(fault, finding=f"{fault.finding} (row {first[fault.column.lower()][0]}, from 0)")
        for fault in name_faults([*declared, *others], source, is_snapshot=is_snapshot)
    ]
    arrays: dict[str, pa.Array] = {}
    keys = {name.lower() for name in source.schema.key.names}
    for column in unchecked(table_columns(source, {*declared, *first})):
        name = column.name.lower()
        lacking = next((place for place, row in enumerate(by_name) if name not in row), None)
        if lacking is not None and name in keys:
            said = f"is missing in row {lacking} (from 0); None is a null key"
            faults.append(Fault(column.name, said))
        absent = ("", "upsert" if name == CHANGE_TYPE else None)
        values = [row.get(name, absent)[1] for row in by_name]
        try:
            arrays[column.name] = _written(values, column, clock)
        except Misfit as misfit:
            places = misfits(len(values), partial(_fit, values, column, clock), _SHOWN)
            faults.append(Fault(column.name, _said(misfit, places, ())))
    check(faults, source)
    return pa.table(arrays)


def _by_name(row: object, place: int, source: Source) -> dict[str, tuple[str, object]]:
    """Return a dict's values, with its spelling of their names, by lower-case name."""
    if not isinstance(row, Mapping):
        refuse(
            source,
            f"are a list, and row {place} (from 0) of it is {shown(row)}: give dicts, of column "
            "names and values",
        )
    by_name = {str(name).lower(): (str(name), value) for name, value in row.items()}
    if len(by_name) < len(row):
        refuse(source, f"are a list, and row {place} (from 0) of it has a column twice")
    return by_name


def _written(values: Sequence[Any], column: Column, clock: tzinfo) -> pa.Array:
    """Convert Python values to a column's type."""
    (array,) = rows_writer(Columns((column,)), clock)(values)
    return array


def _fit(values: Sequence[Any], column: Column, clock: tzinfo, start: int, end: int) -> bool:
    try:
        _written(values[start:end], column, clock)
    except Misfit:
        return False
    return True
