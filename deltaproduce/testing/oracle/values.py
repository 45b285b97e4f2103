"""Values: as columns hold them, as functions get them, and as they are compared and ordered."""

from __future__ import annotations

import ctypes
import dataclasses
import datetime
import math
from collections import namedtuple
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, TypeAlias

from deltaproduce.types.columns import Column, Columns
from deltaproduce.types.data_types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    StructType,
    TimestampType,
)

Value: TypeAlias = Any
"""Any value that a column can hold, or a function emit; a type checker cannot know more."""


def plain(value: Value) -> Value:
    """The normal form of a value, in which `==` is the equality of Spark and of the contract (S8).

    Rows, named tuples and lists become tuples, binary becomes `bytes`, and every NaN becomes the
    one object `math.nan`, which Python finds equal to itself inside a tuple. Keys in normal form
    can be hashed.
    """
    if isinstance(value, tuple | list):
        return tuple(plain(item) for item in value)
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, float) and math.isnan(value):
        return math.nan
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return value


def plain_rows(rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """The normal form of rows, such as `DataFrame.collect()` returns; see `plain`."""
    return [plain(tuple(row)) for row in rows]


def sort_key(values: Sequence[Any], columns: Iterable[Column]) -> tuple[Any, ...]:
    """What to sort rows by to have them in Spark's order (S13).

    Nulls come first in an ascending column and last in a descending one, text is compared by its
    UTF-8 bytes, binary by unsigned bytes; everything else as in Python.

    Args:
        values: one value per column, of the types that key columns can have.
        columns: the columns, for their directions.
    """
    return tuple(
        _Descending(rank(value)) if column.descending else rank(value)
        for value, column in zip(values, columns, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Descending:
    """Reverses an order."""

    rank: Any

    def __lt__(self, other: _Descending) -> bool:
        return bool(other.rank < self.rank)


def rank(value: Value) -> tuple[Any, ...]:
    """Return the sort rank of a value: nulls are least, then Spark's order of the type."""
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    return (1, value.encode() if isinstance(value, str) else value)


def shown_values(values: Sequence[Any], columns: Iterable[Column]) -> tuple[Any, ...]:
    """Return the values in columns that readers see."""
    return tuple(v for v, c in zip(values, columns, strict=True) if not c.is_hidden)


def as_argument(values: tuple[Any, ...], columns: Columns) -> Value:
    """Return a key or value as functions get it: bare for one column, else a named tuple."""
    return values[0] if len(columns) == 1 else _named(columns.names)(*values)


def record_items(emitted: Value, columns: Columns) -> tuple[Any, ...]:
    """Return an emitted key or value as a tuple in column order."""
    return (emitted,) if len(columns) == 1 else _fields(emitted, columns.names)


def _fields(record: Value, names: Sequence[str]) -> tuple[Any, ...]:
    """Return exactly the items of a record, by name if it has names, else by position."""
    fields: Sequence[str] | None = getattr(record, "__fields__", None)  # of a Row
    if fields is None:
        fields = getattr(record, "_fields", None)  # of a named tuple
    if dataclasses.is_dataclass(record):
        by_name = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    elif isinstance(record, Mapping):
        by_name = dict(record)
    elif fields is not None:
        by_name = dict(zip(fields, record, strict=True))
    elif isinstance(record, tuple | list) and len(record) == len(names):
        return tuple(record)
    else:
        raise ValueError(f"{record!r} is no record of the columns {names!r}")
    for known in (names, _named(names)._fields):
        if set(by_name) == set(known):
            return tuple(by_name[name] for name in known)
    raise ValueError(f"{record!r} has other columns than {names!r}")


def _named(names: Sequence[str]) -> Value:
    return namedtuple("Record", names, rename=True)


def as_stored(values: Sequence[Any], columns: Columns) -> tuple[Any, ...]:
    """Return values as their columns hold them, and hence as the next stage gets them."""
    for value, column in zip(values, columns, strict=True):
        if value is None and not column.nullable:
            raise ValueError(f"column {column.name!r} is None, but declared NOT NULL")
    return tuple(
        _typed(value, column.data_type) for value, column in zip(values, columns, strict=True)
    )


def _typed(value: Value, data_type: DataType) -> Value:
    if value is None:
        return None
    match data_type:
        case StructType():
            items = zip(_fields(value, data_type.names), data_type.fields, strict=True)
            typed = [_typed(item, field.dataType) for item, field in items]
            return _named(data_type.names)(*typed)
        case ArrayType():
            return [_typed(item, data_type.elementType) for item in value]
        case MapType():
            return {
                _typed(key, data_type.keyType): _typed(item, data_type.valueType)
                for key, item in dict(value).items()
            }
        case FloatType():
            return ctypes.c_float(value).value
        case DoubleType():
            return float(value)
        case DecimalType():
            exact = Context(prec=data_type.precision, traps=[Inexact, InvalidOperation])
            return exact.quantize(Decimal(value), Decimal(1).scaleb(-data_type.scale))
        case BinaryType():
            return bytes(value)
        case TimestampType() if value.tzinfo is not None:
            return value.astimezone(datetime.UTC).replace(tzinfo=None)
    return value


def from_columns(row: Mapping[str, Value], columns: Columns) -> Value:
    """Return a key or value of a row with named columns, as functions get it."""
    return as_argument(tuple(row[name] for name in columns.names), columns)


def as_arrow(value: Value, data_type: DataType) -> Value:
    """Return a stored value as Arrow takes it: structs by name."""
    if value is None:
        return None
    match data_type:
        case StructType():
            items = zip(data_type.fields, value, strict=True)
            return {field.name: as_arrow(item, field.dataType) for field, item in items}
        case ArrayType():
            return [as_arrow(item, data_type.elementType) for item in value]
        case MapType():
            return [
                (as_arrow(key, data_type.keyType), as_arrow(item, data_type.valueType))
                for key, item in value.items()
            ]
    return value
