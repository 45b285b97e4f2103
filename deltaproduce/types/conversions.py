"""Conversions: an Arrow array in the type of a declared column, without loss.

An array may have another Arrow type of the column's kind, such as ``int64`` for ``int``,
``dictionary`` for ``string`` or a timestamp in any zone and unit, as long as each of its values is
one of the declared type. `widens` is the same check for Spark types, without looking at values.

The invariant: the result holds all values of the input, or a `Misfit` is raised. Only this module
decides what fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from types import MappingProxyType
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.types.atoms import Misfit, arrow_schema, arrow_type
from deltaproduce.types.catalogue import ATOMS
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import (
    ArrayType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    IntegralType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from deltaproduce.types.excerpts import escaped
from deltaproduce.types.pandas_on_demand import in_numpy


def conformed(
    array: pa.Array, data_type: DataType, *, nullable: bool = True, clock: tzinfo | None = None
) -> pa.Array:
    """Return an array in the Arrow type of a declared type.

    Args:
        clock: the clock of timestamps without a zone, for a column declared as timestamp; without a
            clock, they do not fit.

    Raises:
        Misfit: the array is of another kind, or not all of its values can be written without loss.
    """
    if pa.types.is_dictionary(array.type):
        array = _decoded(array)
    if array.null_count and not nullable:
        raise Misfit("it is null, but declared NOT NULL")
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), arrow_type(data_type))
    if clock is not None and isinstance(data_type, TimestampType):
        array = _on_clock(array, clock)
    if not _is_taken(array.type, data_type):
        raise Misfit(f"{array.type} is not {data_type.simpleString()}; {_advice(array, data_type)}")
    if isinstance(data_type, StructType | ArrayType | MapType):
        return _conformed_parts(array, data_type, clock)
    return _conformed_atoms(array, data_type)


def conformed_column(
    name: str,
    array: pa.Array,
    data_type: DataType,
    *,
    nullable: bool = True,
    clock: tzinfo | None = None,
) -> pa.Array:
    """Like `conformed`, with a Misfit that names the column or field."""
    try:
        return conformed(array, data_type, nullable=nullable, clock=clock)
    except Misfit as misfit:
        raise Misfit(f"{name}: {misfit}") from misfit.__cause__


def in_arrow_types(rows: pa.Table, columns: Iterable[Column]) -> pa.Table:
    """Return the given columns of the rows, in the types of `arrow_type`.

    Raises:
        KeyError: there is no such column.
        pyarrow.ArrowInvalid, Misfit: a value does not fit.
    """
    given = tuple(columns)
    arrays = [in_type(rows[column.name], column) for column in given]
    return pa.table(arrays, schema=arrow_schema(given))


def in_type(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    """Return a column in its type; unchanged if it has it already.

    Arrow's cast of a null struct fails if a field of the type is NOT NULL: it checks the field's
    hidden value under the null.
    """
    wanted = arrow_type(column.data_type)
    if values.type == wanted:
        return values
    if not column.is_strict:
        return values.cast(wanted)
    return pa.chunked_array([conformed(one, column.data_type) for one in values.chunks], wanted)


def widens(data_type: DataType, declared: DataType, *, by_name: bool = False) -> bool:
    """Return whether every value of the found Spark type is, unchanged, of the declared type.

    Args:
        by_name: whether fields of structs may be in any order, as who asks matches them by name.
    """

    def fits(part: DataType, wanted: DataType) -> bool:
        return widens(part, wanted, by_name=by_name)

    match data_type, declared:
        case NullType(), _:
            return True
        case IntegralType(), IntegralType():
            return _INTEGERS.index(type(data_type)) <= _INTEGERS.index(type(declared))
        case FloatType(), DoubleType():
            return True
        case DecimalType(), DecimalType():
            whole = declared.precision - declared.scale
            return (
                data_type.scale <= declared.scale and data_type.precision - data_type.scale <= whole
            )
        case IntegralType(), DecimalType():
            return INTEGER_DIGITS[type(data_type)] <= declared.precision - declared.scale
        case ArrayType(), ArrayType():
            return fits(data_type.elementType, declared.elementType)
        case MapType(), MapType():
            return fits(data_type.keyType, declared.keyType) and fits(
                data_type.valueType, declared.valueType
            )
        case StructType(), StructType():
            names = sorted(data_type.names) if by_name else data_type.names
            return names == (sorted(declared.names) if by_name else declared.names) and all(
                fits(data_type[field.name].dataType, field.dataType) for field in declared.fields
            )
        case _:
            return data_type == declared


_INTEGERS: Final = (ByteType, ShortType, IntegerType, LongType)
INTEGER_DIGITS: Final[Mapping[type[DataType], int]] = MappingProxyType(
    dict(zip(_INTEGERS, (3, 5, 10, 19), strict=True))
)
"""The most digits of the whole numbers of a type."""


def misfits(size: int, fits: Callable[[int, int], bool], most: int) -> list[int]:
    """Return the first positions whose values do not fit.

    Args:
        fits: whether the values from one position to before another fit.
        most: the most positions to return; halves that fit are not searched.
    """
    places: list[int] = []

    def search(start: int, end: int) -> None:
        if len(places) >= most or start == end or fits(start, end):
            return
        if end - start == 1:
            places.append(start)
            return
        middle = (start + end) // 2
        search(start, middle)
        search(middle, end)

    search(0, size)
    return places


def misfit_of_types(data_type: DataType, declared: DataType) -> str:
    """Return what is wrong with a DataFrame's column of a type that does not widen to another."""
    match data_type, declared:
        case StructType(), StructType() if sorted(data_type.names) != sorted(declared.names):
            names = f"the fields {data_type.names!r}, not {declared.names!r}"
            return f"has {names}: give it these, in any order, as by struct(… AS name)"
        case StructType(), StructType():
            for field in declared.fields:
                part = data_type[field.name].dataType
                if not widens(part, field.dataType, by_name=True):
                    return f"in field {field.name!r} {misfit_of_types(part, field.dataType)}"
        case ArrayType(), ArrayType():
            return f"in its elements {misfit_of_types(data_type.elementType, declared.elementType)}"
        case MapType(), MapType():
            part, wanted, what = data_type.valueType, declared.valueType, "values"
            if widens(part, wanted, by_name=True):
                part, wanted, what = data_type.keyType, declared.keyType, "keys"
            return f"in its {what} {misfit_of_types(part, wanted)}"
    return f"has type {data_type.simpleString()}, not {declared.simpleString()}; cast it"


def _advice(array: pa.Array, data_type: DataType) -> str:
    """Return what to do about an array of another kind."""
    match data_type:
        case TimestampType() if pa.types.is_timestamp(array.type):
            return "it has no time zone; give it one"
        case TimestampNTZType() if pa.types.is_timestamp(array.type):
            return "it has a time zone; take it off, or declare a timestamp"
        case IntegralType() if pa.types.is_floating(array.type):
            return "cast it, in pandas with astype('Int64')"
    return "cast it"


def _decoded(array: pa.DictionaryArray) -> pa.Array:
    values = array.dictionary
    if pa.types.is_string_view(values.type) or pa.types.is_binary_view(values.type):
        plain = pa.types.is_string_view(values.type)  # Arrow cannot take rows of views
        values = values.cast(pa.large_string() if plain else pa.large_binary())
    return values.take(array.indices)


_CLOCKS_END: Final = datetime(2037, 1, 1)
"""The end of Arrow's time zones: it applies no daylight saving time after 2037."""


def _on_clock(array: pa.Array, clock: tzinfo) -> pa.Array:
    """Return times without a zone as instants on a clock; other arrays are unchanged.

    A time that the clock leaves out is moved forward by what it leaves out, as Spark does.

    Raises:
        Misfit: a time occurs twice on the clock.
    """
    if not pa.types.is_timestamp(array.type) or array.type.tz is not None:
        return array
    micros = _conformed_atoms(array, TimestampNTZType())
    latest = pc.max(micros)
    if clock is UTC:
        return pc.assume_timezone(micros, "UTC")
    if isinstance(clock, ZoneInfo) and not (latest.is_valid and latest.as_py() > _CLOCKS_END):
        with suppress(pa.ArrowException):  # a time is there twice, or never
            return pc.assume_timezone(micros, clock.key)
    try:
        instants = [None if time is None else _instant(time, clock) for time in micros.to_pylist()]
    except (pa.ArrowException, OverflowError, ValueError) as error:
        if isinstance(error, Misfit):
            raise
        raise Misfit(f"a time is outside Python's years 1 to 9999 on the clock {clock}") from error
    return pa.array(instants, pa.timestamp("us", "UTC"))


def _instant(time: datetime, clock: tzinfo) -> datetime:
    early, late = (time.replace(tzinfo=clock, fold=fold).utcoffset() for fold in (0, 1))
    assert early is not None
    assert late is not None
    if early > late:
        raise Misfit(f"{time} is there twice on the store's clock {clock}; give a time zone")
    return time - early


_LISTS: Final = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)


def _is_taken(arrow: pa.DataType, data_type: DataType) -> bool:
    """Return whether values of an Arrow type may be of a declared one, if each of them fits."""
    match data_type:
        case StructType():
            return bool(pa.types.is_struct(arrow))
        case ArrayType():
            return any(is_list(arrow) for is_list in _LISTS)
        case MapType():
            return bool(pa.types.is_map(arrow))
    return ATOMS[type(data_type)].takes(arrow)


_WHOLE: Final = pa.decimal128(20)
"""Wide enough for signed and unsigned 64-bit integers."""


def _conformed_atoms(array: pa.Array, data_type: DataType) -> pa.Array:
    arrow = arrow_type(data_type)
    if array.type == arrow:
        return array
    try:
        if pa.types.is_decimal(arrow) and pa.types.is_integer(array.type):
            array = array.cast(_WHOLE)  # without it, Arrow asks for room for any integer
        cast = array.cast(arrow)
        # Arrow's cast to a larger scale overflows silently.
        exact = not pa.types.is_decimal(arrow) or cast.cast(array.type).equals(array)
    except pa.ArrowException as error:
        message = f"{array.type} does not fit {data_type.simpleString()}: {escaped(str(error))}"
        raise Misfit(message) from error
    if not exact:
        raise Misfit(f"a value of {array.type} is too large for {data_type.simpleString()}")
    return cast


def _conformed_parts(array: pa.Array, data_type: DataType, clock: tzinfo | None) -> pa.Array:
    """Return structs, lists or maps; values stored under a null do not count."""
    arrow, nulls = arrow_type(data_type), array.is_null()
    match data_type:
        case StructType():
            _check_fields(array.type.names, data_type.names)
            by_name = dict(zip(array.type.names, array.flatten(), strict=True))
            fields = [
                _conformed_field(by_name[f.name], f, array.null_count, clock) for f in data_type
            ]
            return pa.StructArray.from_arrays(fields, fields=list(arrow), mask=nulls)
        case ArrayType():
            items = conformed_column("element", array.flatten(), data_type.elementType, clock=clock)
            return pa.ListArray.from_arrays(_offsets(array), items, type=arrow, mask=nulls)
        case MapType():
            key = pa.field("key", array.type.key_type, nullable=False)
            value = pa.field("value", array.type.item_type)
            lists = array.cast(pa.list_(pa.struct([key, value])))
            keys, values = lists.flatten().flatten()
            keys = conformed_column("key", keys, data_type.keyType, clock=clock)
            values = conformed_column("value", values, data_type.valueType, clock=clock)
            return pa.MapArray.from_arrays(_offsets(lists), keys, values, arrow, mask=nulls)
    raise TypeError(f"{data_type.simpleString()!r} has no parts")


def _conformed_field(
    array: pa.Array, field: StructField, null_structs: int, clock: tzinfo | None
) -> pa.Array:
    column = conformed_column(field.name, array, field.dataType, clock=clock)
    if column.null_count > null_structs and not field.nullable:
        raise Misfit(f"{field.name}: it is null, but declared NOT NULL")
    return column


def _check_fields(names: Sequence[str], declared: Sequence[str]) -> None:
    if sorted(names) != sorted(declared):
        raise Misfit(f"a struct of {list(names)!r} is none of {list(declared)!r}")


def _offsets(lists: pa.Array) -> pa.Array:
    """Return the offsets of the lists in the flattened values, and the end of the last."""
    sizes = in_numpy(pc.list_value_length(lists).fill_null(0))
    return pa.array(np.concatenate(([0], np.cumsum(sizes))), pa.int32())
