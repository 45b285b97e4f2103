"""Values of one type as functions see them, and as they are stored.

A function may return a struct as a tuple, dict or dataclass, and gets it as a named tuple, wherever
in a value it is. The invariant: `Form.seen` turns structs into the values that storing and reading
would give.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from deltaproduce.types.columns import Column, Columns, row_type
from deltaproduce.types.data_types import ArrayType, DataType, MapType, StructType
from deltaproduce.types.row_readers import RowReader, row_reader
from deltaproduce.types.row_writers import RowsWriter, row_by_position, rows_writer

_Seen: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Form:
    """The form of values of one type.

    Attributes:
        column: their type, and their name in messages.
        seen: turns a function's value into what functions get; raises Misfit if a struct is
            expected and the value is none.
    """

    column: Column
    seen: _Seen
    _read: RowReader
    _write: RowsWriter

    @staticmethod
    def of(column: Column, zone: tzinfo) -> Form:
        """Return the form of a column's values, with naive datetimes on a clock."""
        columns = Columns((column,))
        seen = _seen(column.data_type) or _as_it_is
        return Form(column, seen, row_reader(columns, zone), rows_writer(columns, zone))

    def read(self, array: pa.Array) -> list[Any]:
        """Read stored values; raise UnreadableError if Python has no object for one."""
        return list(self._read([array]))

    def written(self, values: Sequence[Any]) -> pa.Array:
        """Return values as they are stored; raise Misfit if one is not of the type."""
        (array,) = self._write(values)
        return array


def _as_it_is(value: Any) -> Any:  # noqa: ANN401 any
    return value


def _seen(data_type: DataType) -> _Seen | None:
    """See `Form.seen`; None if there is no struct in the type."""
    match data_type:
        case StructType():
            parts = [_seen(field.dataType) for field in data_type.fields]
            row = row_type(data_type.names)
            return partial(_seen_struct, names=data_type.names, row=row, parts=parts)
        case ArrayType():
            element = _seen(data_type.elementType)
            return element and partial(_seen_array, element=element)
        case MapType():
            seen = _seen(data_type.keyType), _seen(data_type.valueType)
            key, item = (part or _as_it_is for part in seen)
            return partial(_seen_map, key=key, item=item) if any(seen) else None
    return None


def _seen_struct(
    value: Any,  # noqa: ANN401 any
    names: Sequence[str],
    row: type[tuple[Any, ...]],
    parts: Sequence[_Seen | None],
) -> Any:  # noqa: ANN401 unchanged, or a row
    fields: tuple[str, ...] = row._fields  # type: ignore[attr-defined]
    if value is None or (getattr(value, "_fields", None) == fields and not any(parts)):
        return value
    reader = row_by_position(value, names, fields)
    return row(*(part(one) if part else one for part, one in zip(parts, reader, strict=True)))


def _seen_array(value: Any, element: _Seen) -> Any:  # noqa: ANN401 unchanged, or a list
    return [element(one) for one in value] if isinstance(value, list | tuple) else value


def _seen_map(value: Any, key: _Seen, item: _Seen) -> Any:  # noqa: ANN401 unchanged, or a dict
    return {key(k): item(v) for k, v in value.items()} if isinstance(value, dict) else value
