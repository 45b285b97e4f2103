"""Values of JSON in the declared types, column by column.

A value fits as JSON has it: a number for a number, an object for a struct or a map. A number, a
date, a time or a boolean may also be a text, in the form that it has in a CSV file; only text is a
string. A field that an object does not have is null, and one that is not declared does not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa

from deltaproduce.cli.inputs.reading.faults import Unfit, no_value
from deltaproduce.cli.inputs.reading.texts import Forms, converted
from deltaproduce.types import data_types as t
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.json.fields import is_text
from deltaproduce.types.python_values import python_values


class Fraction(str):
    """A number with a fraction or an exponent, or one that is not finite, as it is written."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Repeated(dict[str, Any]):
    """An object with names that are there twice.

    Attributes:
        twice: these names.
    """

    twice: frozenset[str]


def array_of(values: Sequence[Any], data_type: t.DataType, forms: Forms) -> pa.Array:
    """Return values of JSON in a type.

    Raises:
        Unfit: with the first value that does not fit.
    """
    match data_type:
        case t.StructType():
            return _structs(values, data_type, forms)
        case t.ArrayType():
            return _arrays(values, data_type, forms)
        case t.MapType():
            return _maps(values, data_type, forms)
        case t.BooleanType():
            _check(values, {bool, str}, data_type)
            values = [str(value) if type(value) is bool else value for value in values]
        case t.IntegralType() | t.FractionalType():
            _check(values, {int, Fraction, str}, data_type)
            values = [str(value) if type(value) is int else value for value in values]
    return converted(_texts(values, data_type), data_type, forms)


def _check(values: Sequence[Any], known: set[type], data_type: t.DataType) -> None:
    """Refuse the first value that is of none of the known types, and not null.

    Raises:
        Unfit: there is one.
    """
    known = {*known, type(None)}
    if {*map(type, values)} <= known:
        return
    place = next(n for n, value in enumerate(values) if type(value) not in known)
    value = values[place]
    why = f"{sorted(value.twice)!r} is there twice" if isinstance(value, Repeated) else ""
    raise Unfit(place, no_value(value, data_type.simpleString(), why))


def _texts(values: Sequence[Any], data_type: t.DataType) -> pa.Array:
    _check(values, {Fraction, str} if _is_number(data_type) else {str}, data_type)
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        wrong = (n for n, text in enumerate(values) if text is not None and not is_text(text))
        place = next(wrong)
    raise Unfit(place, no_value(values[place], "text", "it has half of a surrogate pair"))


def _is_number(data_type: t.DataType) -> bool:
    return isinstance(data_type, t.NumericType)


def _structs(values: Sequence[Any], data_type: t.StructType, forms: Forms) -> pa.Array:
    _check(values, {dict}, data_type)
    known = {*data_type.names}
    for place, value in enumerate(values):
        if value is not None and not value.keys() <= known:
            unknown = [name for name in value if name not in known]
            raise Unfit(place, no_value(value, data_type.simpleString(), f"it has {unknown!r} too"))
    every = range(len(values))
    fields = [
        _inside(
            field.name,
            [None if value is None else value.get(field.name) for value in values],
            every,
            field.dataType,
            forms,
        )
        for field in data_type.fields
    ]
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.StructArray.from_arrays(fields, fields=list(arrow_type(data_type)), mask=mask)


def _arrays(values: Sequence[Any], data_type: t.ArrayType, forms: Forms) -> pa.Array:
    _check(values, {list}, data_type)
    offsets, rows, mask = _spread(values)
    elements = [*chain.from_iterable(value or () for value in values)]
    items = _inside("element", elements, rows, data_type.elementType, forms)
    return pa.ListArray.from_arrays(offsets, items, type=arrow_type(data_type), mask=mask)


def _maps(values: Sequence[Any], data_type: t.MapType, forms: Forms) -> pa.Array:
    _check(values, {dict}, data_type)
    offsets, rows, mask = _spread(values)
    keys = [*chain.from_iterable(value or () for value in values)]
    items = [*chain.from_iterable((value or {}).values() for value in values)]
    key_array = _inside("key", keys, rows, data_type.keyType, forms)
    item_array = _inside("value", items, rows, data_type.valueType, forms)
    _check_distinct(values, key_array, rows, data_type)
    kind = arrow_type(data_type)
    return pa.MapArray.from_arrays(offsets, key_array, item_array, kind, mask=mask)


def _check_distinct(
    values: Sequence[Any], keys: pa.Array, rows: Sequence[int], data_type: t.MapType
) -> None:
    """Refuse a map in which two texts are the same key.

    Raises:
        Unfit: there is one.
    """
    if isinstance(data_type.keyType, t.StringType | t.BinaryType):
        return
    seen = set[tuple[int, object]]()
    for row, key in zip(rows, python_values(keys), strict=True):
        if (row, key) in seen:
            why = f"key {key!r} is there twice"
            raise Unfit(row, no_value(values[row], data_type.simpleString(), why))
        seen.add((row, key))


def _spread(values: Sequence[Any]) -> tuple[pa.Array, list[int], pa.Array]:
    """Return the offsets of lists or maps, the row of each of their elements, and the nulls."""
    sizes = [0 if value is None else len(value) for value in values]
    offsets = pa.array([0, *accumulate(sizes)], pa.int32())
    rows = [row for row, size in enumerate(sizes) for _ in range(size)]
    return offsets, rows, pa.array([value is None for value in values], pa.bool_())


def _inside(
    name: str, values: Sequence[Any], rows: Sequence[int], data_type: t.DataType, forms: Forms
) -> pa.Array:
    """Return parts of values in their type.

    Args:
        rows: for each part, the row that it belongs to.
    """
    try:
        return array_of(values, data_type, forms)
    except Unfit as unfit:
        raise Unfit(rows[unfit.place], f"in {name!r}: {unfit.finding}") from None
