"""Emitted values without parts, from Python into Arrow: numbers, text, dates and the like.

Invariant: a value is written exactly or refused. ``2.0`` is no integer, ``True`` is no number, a
datetime is no date, a decimal keeps all its digits. The only rounding is of a Python float in a
column declared ``float``, which has 32 bits.

`catalogue` says what each type takes; `row_writers` composes it to arrays, maps, structs and rows.
A column is checked by the set of its types and written by one call into Arrow; if that fails, the
values are written one by one, so a `Misfit` names the first wrong one.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.types.catalogue import ATOMS
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import (
    ArrayType,
    DataType,
    DecimalType,
    FloatType,
    MapType,
    NullType,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from deltaproduce.types.excerpts import escaped, shown

Writer: TypeAlias = Callable[[Sequence[Any]], pa.Array]


class Misfit(ValueError):  # noqa: N818 it is caught and becomes part of a ProducerError
    """An emission that does not fit its schema."""


def arrow_type(data_type: DataType) -> pa.DataType:
    """Return the Arrow type in which Spark exchanges a type; timestamps are in UTC."""
    match data_type:
        case DecimalType(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case StructType():
            return pa.struct(
                [pa.field(f.name, arrow_type(f.dataType), f.nullable) for f in data_type.fields]
            )
        case ArrayType():
            return pa.list_(pa.field("element", arrow_type(data_type.elementType)))
        case NullType():  # not known yet, so there are no values
            return pa.null()
        case MapType():
            key, value = arrow_type(data_type.keyType), arrow_type(data_type.valueType)
            return pa.map_(pa.field("key", key, nullable=False), pa.field("value", value))
    return ATOMS[type(data_type)].arrow


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """Return the Arrow types of the columns; see `arrow_type`."""
    return pa.schema([(c.name, arrow_type(c.data_type)) for c in columns])


def atom_writer(data_type: DataType, zone: tzinfo, *, nullable: bool) -> Writer:
    """Return the function that turns Python values into an array of ``data_type``.

    Args:
        data_type: a type without parts.
        zone: the clock of naive datetimes, for a column declared as timestamp.
        nullable: whether None is a value.
    """
    arrow = arrow_type(data_type)
    accepted = ATOMS[type(data_type)].python
    untouched = accepted | {type(None)} if nullable else accepted
    spark_type = data_type.simpleString()

    def written(values: Sequence[Any]) -> pa.Array:
        if not untouched.issuperset(map(type, values)):
            values = [
                value if type(value) in untouched else _plain(value, accepted, spark_type)
                for value in values
            ]
        match data_type:
            case TimestampType():
                return pa.array(_instants(values, zone), arrow)
            case TimestampNTZType():
                return pa.array(_without_zone(values), arrow)
            case FloatType():
                return _floats(values, arrow)
        return pa.array(values, arrow)

    def write(values: Sequence[Any]) -> pa.Array:
        try:
            return written(values)
        except Misfit:
            raise
        except _FAILURES as error:
            wrong = _first_wrong(values, written)
            raise Misfit(
                f"{shown(wrong)} does not fit {spark_type}: {escaped(str(error))}"
            ) from error

    return write


_FAILURES: Final = (pa.ArrowException, OverflowError, ValueError)
"""What Arrow raises for values that a type cannot hold."""


def _first_wrong(values: Sequence[Any], written: Writer) -> object:
    """Return the first of some values that fails by itself."""
    for value in values:
        try:
            written([value])
        except _FAILURES:
            return value
    return None


_NUMPY_SCALARS: Final = (np.bool_, np.integer, np.floating, np.str_, np.bytes_)

_FROM_SUBCLASS: Final[Mapping[type, Callable[[Any], Any]]] = MappingProxyType(
    {
        int: int.__int__,
        float: float.__float__,
        str: str.__str__,
        bytes: bytes,
        bytearray: bytes,
        Decimal: Decimal,
        date: lambda value: date(value.year, value.month, value.day),
        datetime: lambda value: datetime.combine(value.date(), value.timetz()),
    }
)
"""How to turn a subclass, such as an IntEnum or a pandas.Timestamp, into its plain base."""


def _plain(value: object, accepted: frozenset[type], spark_type: str) -> object:
    """Return a NumPy scalar or an instance of a subclass as its accepted plain type."""
    if isinstance(value, _NUMPY_SCALARS) and not isinstance(value, np.timedelta64):
        value = value.item()
        if type(value) in accepted:
            return value
    exact = getattr(value, "nanosecond", 0) == 0
    for base in accepted:
        confused = (base is int and isinstance(value, bool)) or (
            base is date and isinstance(value, datetime)
        )
        if isinstance(value, base) and exact and not confused:
            return _FROM_SUBCLASS[base](value)
    if value is None:
        raise Misfit("it is None, but declared NOT NULL")
    expected = " or ".join(sorted(base.__name__ for base in accepted))
    raise Misfit(
        f"{spark_type} takes {expected}, not {type(value).__name__} {shown(value)}; convert it"
    )


def _instants(values: Sequence[Any], zone: tzinfo) -> Sequence[Any]:
    """Return datetimes in UTC, without a zone; naive ones are on the clock of ``zone``."""
    aware = [value.tzinfo for value in values if value is not None and value.tzinfo is not None]
    if zone is UTC and not aware:
        return values
    offset = zone.utcoffset
    return [
        value
        if value is None
        else value - offset(value)
        if value.tzinfo is None
        else value.astimezone(UTC).replace(tzinfo=None)
        for value in values
    ]


def _without_zone(values: Sequence[Any]) -> Sequence[Any]:
    for value in values:
        if value is not None and value.tzinfo is not None:
            raise Misfit(f"timestamp_ntz takes a datetime without tzinfo, not {shown(value)}")
    return values


def _floats(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    array = pa.array(values, arrow)
    for index in pc.indices_nonzero(pc.is_inf(array).fill_null(False)).to_pylist():
        if math.isfinite(values[index]):
            raise Misfit(f"{values[index]!r} is too large for float")
    return array
