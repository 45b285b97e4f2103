"""Stored values as Python objects, for reports, answers, messages and errors.

Python has no dates and times outside of the years 1 to 9999, and Spark has. Such a value is its
text in ISO 8601 with a sign, such as ``+10000-01-01``, wherever a value is shown or identifies a
row. A function of a user does not get it: `row_readers` raises an UnreadableError.

The invariant: each value has a form, equal forms are of equal values, and times are in UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import Any

import pyarrow as pa

from deltaproduce.types.columns import Columns, row_type
from deltaproduce.types.row_readers import UnreadableError, far_text, row_reader


def python_values(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return values as Python objects; those that Python cannot hold as text, at any depth."""
    try:
        result: list[Any] = values.to_pylist()
    except (OverflowError, ValueError):
        return [python_value(value) for value in values]
    return result


def python_value(value: pa.Scalar) -> Any:  # noqa: ANN401 of the value's type
    """Return one value as a Python object; see `python_values`."""
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        pass
    if isinstance(value, pa.StructScalar):
        return {name: python_value(part) for name, part in value.items()}
    if isinstance(value, pa.MapScalar):
        return [tuple(map(python_value, entry.values())) for entry in value.values]
    if isinstance(value, pa.DictionaryScalar):
        return python_value(value.value)
    if pa.types.is_nested(value.type):
        return [python_value(item) for item in value.values]
    return _text(value)


def python_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """Return rows as mappings of their columns; see `python_values`."""
    return [dict(zip(rows.column_names, row, strict=True)) for row in python_tuples(rows)]


def python_tuples(rows: pa.Table) -> list[tuple[Any, ...]]:
    """Return rows as tuples; see `python_values`."""
    if not rows.num_columns:
        return [()] * len(rows)
    return list(zip(*map(python_values, rows.columns), strict=True))


def python_keys(
    columns: Columns, zone: tzinfo, arrays: Sequence[pa.Array | pa.ChunkedArray]
) -> tuple[Any, ...]:
    """Return keys as functions get them, but with text for what Python cannot hold."""
    whole = [one.combine_chunks() if isinstance(one, pa.ChunkedArray) else one for one in arrays]
    try:
        return tuple(row_reader(columns, zone)(whole))
    except UnreadableError:
        pass
    parts = []
    for column, array in zip(columns, whole, strict=True):
        read = row_reader(Columns((column,)), zone)
        try:
            parts.append(list(read([array])))
        except UnreadableError:
            parts.append([_read(read, array.slice(row, 1)) for row in range(len(array))])
    if len(parts) == 1:
        return tuple(parts[0])
    return tuple(map(row_type(columns.names)._make, zip(*parts, strict=True)))  # type: ignore[attr-defined]


def _read(read: Any, value: pa.Array) -> Any:  # noqa: ANN401 of the value's type
    try:
        return next(iter(read([value])))
    except UnreadableError:
        return python_value(value[0])


def _text(value: pa.Scalar) -> str:
    """Return a date or a time that Python cannot hold as text."""
    is_date = pa.types.is_date(value.type)
    number = int(value.cast(pa.int32() if is_date else pa.int64()).cast(pa.int64()).as_py())
    return far_text(number, "D" if is_date else value.type.unit, zoned=_is_zoned(value.type))


def _is_zoned(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None
