"""Tables of an input: its files as Arrow tables, in the columns that its source declares.

Text is converted to the declared types here, where a file format has no types of its own;
everything else is checked where all batches are. Columns that the source does not have are dropped.
The invariant: if several change files have rows of a key, the rows of the last file count, as if
each file had been a version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, json, parquet

from deltaproduce.engines.local.arrays import factorize
from deltaproduce.errors import InvalidChangesError
from deltaproduce.model.graph import Source
from deltaproduce.projects.file import Input
from deltaproduce.stages.given.contents import DELETES
from deltaproduce.types.atoms import arrow_schema
from deltaproduce.types.columns import CHANGE_TYPE, ORDINAL

_BESIDE: Final = {CHANGE_TYPE: pa.string(), ORDINAL: pa.int64()}
_WITH_ZONE: Final = r"(Z|[+-]\d{2}:?\d{2})$"


def snapshot(paths: Iterable[Path], found: Input, source: Source) -> pa.Table:
    """Return all rows of files, one file after the other.

    Raises:
        InvalidChangesError: a file does not have the stated format, or lacks columns; with the
            path. Or a column of one file does not fit that of another.
    """
    tables = [_read(path, found, source) for path in paths]
    with _fitting(source):
        return _together(tables)


def changes(paths: Iterable[Path], found: Input, source: Source) -> pa.Table:
    """Return the net changes of files, one file after the other.

    Raises:
        InvalidChangesError: as for `snapshot`. A file of deletes needs key columns only.
    """
    tables = _alike([_read(path, found, source) for path in paths])
    with _fitting(source):
        return newest_of_keys(tables, source.schema.key.names)


def newest_of_keys(tables: Sequence[pa.Table], keys: Sequence[str]) -> pa.Table:
    """Return the rows of several tables, without rows whose key a later table has."""
    rows = _together(tables)
    if len(tables) < 2:
        return rows
    numbers = factorize(rows.column(name) for name in keys)
    table = np.repeat(np.arange(len(tables)), [len(one) for one in tables])
    last = np.zeros(len(rows), np.int64)
    np.maximum.at(last, numbers, table)
    return rows.filter(pa.array(last[numbers] == table))


def has_no_lines(path: Path, found: Input) -> bool:
    """Return whether a file of JSON is empty, as Spark writes no rows: it has no column names."""
    return found.format == "json" and not path.stat().st_size


def column_names(path: Path, found: Input) -> tuple[str, ...]:
    """Return the columns of a file; for CSV or JSON, the columns of its first block.

    Raises:
        OSError: it cannot be read; ValueError: it does not have that format.
    """
    match found.format:
        case "parquet":
            return tuple(parquet.read_schema(path).names)
        case "csv":
            options = csv.ParseOptions(delimiter=found.delimiter, newlines_in_values=True)
            with csv.open_csv(path, parse_options=options) as reader:
                return tuple(reader.schema.names)
    return tuple(json.open_json(path).schema.names)


def fault_in(names: Sequence[str], source: Source, *, deletes: bool) -> str | None:
    """Return what is wrong with the columns of rows for a source; None if nothing is.

    Args:
        names: the columns that the rows have.
        deletes: whether the rows need only keys.
    """
    schema = source.schema
    needed = schema.key.names if deletes else schema.key.names + schema.value.names
    if missing := [name for name in needed if name not in names]:
        return f"has no column {', '.join(missing)}; it has {', '.join(names)}"
    twice = [name for name in _types(source) if names.count(name) > 1]
    return f"has column {', '.join(twice)} twice; leave one out" if twice else None


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
        raise _unreadable(path, "delta", source, error) from error
    return _declared(rows, path, source)


def _alike(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """Give all tables the change type and order columns that any of them has."""
    said = {name for table in tables for name in table.column_names if name in _BESIDE}
    found = []
    for table in tables:
        for name in sorted(said - {*table.column_names}):
            count = len(table)
            unsaid = pa.array(np.arange(count)) if name == ORDINAL else pa.repeat("upsert", count)
            table = table.append_column(name, unsaid)
        found.append(table)
    return found


@contextmanager
def _fitting(source: Source) -> Iterator[None]:
    """Turn an error of files with different types into one that names the source.

    Raises:
        InvalidChangesError: their columns do not fit together.
    """
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        message = f"files of source {source.name!r} do not fit together: {_in_a_line(error)}"
        raise InvalidChangesError(message, source=source.name) from error


def _together(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables, promote_options="permissive")


def _read(path: Path, found: Input, source: Source) -> pa.Table:
    try:
        rows = _READERS[found.format](path, found, _types(source))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        raise _unreadable(str(path), found.format, source, error) from error
    return _declared(rows, str(path), source)


def _types(source: Source) -> dict[str, pa.DataType]:
    schema = arrow_schema((*source.schema.key, *source.schema.value))
    return {field.name: field.type for field in schema} | _BESIDE


def _declared(rows: pa.Table, path: str, source: Source) -> pa.Table:
    """Return the columns that the source declares, plus change type and order."""
    names = rows.column_names
    told = names.count(CHANGE_TYPE) == 1
    types = rows.column(CHANGE_TYPE).unique().to_pylist() if told else ["upsert"]
    fault = fault_in(names, source, deletes={*types} <= {*DELETES})
    if fault is not None:
        message = f"{path!r} of source {source.name!r} {fault}"
        raise InvalidChangesError(message, source=source.name)
    return rows.select([name for name in _types(source) if name in rows.column_names])


def _csv(path: Path, found: Input, types: Mapping[str, pa.DataType]) -> pa.Table:
    rows = csv.read_csv(
        path,
        read_options=csv.ReadOptions(use_threads=False),  # so errors have the row's number
        parse_options=csv.ParseOptions(delimiter=found.delimiter, newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types=_as_text(types),
            null_values=[found.null],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return _with_times(rows, types)


def _json(path: Path, found: Input, types: Mapping[str, pa.DataType]) -> pa.Table:
    declared = {name: kind for name, kind in _as_text(types).items() if name not in _BESIDE}
    if has_no_lines(path, found):
        return pa.schema({name: types[name] for name in declared}).empty_table()
    options = json.ParseOptions(explicit_schema=pa.schema(declared), newlines_in_values=True)
    return _with_times(json.read_json(path, parse_options=options), types)


def _as_text(types: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
    """Return the types to read: dates and times as text, as these formats parse too few forms."""
    return {
        name: pa.string() if pa.types.is_temporal(kind) else kind for name, kind in types.items()
    }


def _with_times(rows: pa.Table, types: Mapping[str, pa.DataType]) -> pa.Table:
    """Return rows with dates and times parsed from text in ISO 8601."""
    for place, name in enumerate(rows.column_names):
        kind = types.get(name)
        if kind is not None and pa.types.is_temporal(kind):
            texts = rows.column(place)
            told = pa.types.is_timestamp(kind) and texts.null_count < len(texts)
            times = _times(texts) if told else texts.cast(kind)
            rows = rows.set_column(place, name, times)
    return rows


def _times(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Parse timestamps: with a time zone if all texts have one, else without."""
    zoned = pc.all(pc.match_substring_regex(texts, _WITH_ZONE)).as_py()
    return texts.cast(pa.timestamp("us", "UTC" if zoned else None))


def _parquet(path: Path, found: Input, types: Mapping[str, pa.DataType]) -> pa.Table:
    """Read a file; its timestamps in INT96, as Spark writes them, are moments in UTC.

    As nanoseconds, those before 1678 or after 2261 would become others.
    """
    del found
    with parquet.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
        rows, leaves = file.read(), map(file.schema.column, range(len(file.schema)))
        moments = {leaf.path for leaf in leaves if leaf.physical_type == "INT96"}
    for place, name in enumerate(rows.column_names):
        if name in moments and pa.types.is_timestamp(types.get(name, pa.null())) and types[name].tz:
            rows = rows.set_column(place, name, rows.column(place).cast(types[name]))
    return rows


def _unreadable(path: str, form: str, source: Source, error: Exception) -> InvalidChangesError:
    said = _in_a_line(error)
    return InvalidChangesError(
        f"{path!r} of source {source.name!r} cannot be read as {form}: {said}", source=source.name
    )


def _in_a_line(error: Exception) -> str:
    return " ".join(str(error).split())


_READERS: Final = {"csv": _csv, "json": _json, "parquet": _parquet}
