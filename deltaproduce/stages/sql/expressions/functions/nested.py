"""Functions of arrays and maps, and parts of these and of structs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltaproduce.stages.sql.expressions.casts import widened
from deltaproduce.stages.sql.expressions.coercion import common
from deltaproduce.stages.sql.expressions.functions.rules import Rule, by_count
from deltaproduce.stages.sql.expressions.kernels.comparing import compared
from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError
from deltaproduce.stages.sql.expressions.kernels.rows import nulls_of, whole_numbers
from deltaproduce.stages.sql.expressions.terms import Call, Constant, Kernel, Term
from deltaproduce.types.data_types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    IntegralType,
    MapType,
    NullType,
    StructType,
)

_NESTED: Final = (ArrayType, MapType, StructType)
_FLOATS: Final = (FloatType, DoubleType)


def _offsets(lists: pa.Array) -> NDArray[np.int64]:
    """Return where each list begins among all items, and where the last one ends."""
    return np.asarray(lists.offsets, np.int64)


def _owners(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the list that each item is in."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def _items(lists: pa.Array, values: pa.Array) -> pa.Array:
    """Return the items of all lists, of an array that may be a part of a longer one."""
    offsets = _offsets(lists)
    return values.slice(offsets[0], offsets[-1] - offsets[0])


def _size(wanted: pa.DataType, lists: pa.Array) -> pa.Array:
    sizes = np.diff(_offsets(lists)) if len(lists) else np.zeros(0, np.int64)
    return pa.array(sizes, mask=nulls_of(lists)).cast(wanted)


def _contains(_: pa.DataType, lists: pa.Array, value: pa.Array) -> pa.Array:
    """Return whether a value is in a list; null if only an item that is null may be it."""
    if not len(lists):
        return pa.array([], pa.bool_())
    owners, items = _owners(_offsets(lists)), _items(lists, lists.values)
    same = compared("equal", items, value.take(pa.array(owners)))
    marks = np.zeros(len(lists), bool)
    marks[owners[np.asarray(pc.fill_null(same, fill_value=False), bool)]] = True
    unknown = np.zeros(len(lists), bool)
    unknown[owners[np.asarray(pc.is_null(items), bool)]] = True
    return pa.array(marks, mask=nulls_of(lists, value) | (unknown & ~marks))


def _taken(values: pa.Array, places: NDArray[np.int64], missing: NDArray[np.bool_]) -> pa.Array:
    return values.take(pa.array(np.where(missing, 0, places), mask=missing))


def _item(first: int, condition: str | None) -> Kernel:
    """Return the kernel of the item at a place.

    Args:
        first: the place of the first item; 1 also counts from the end, by negative places.
        condition: Spark's name for a place beyond the items; None if there is null.
    """

    def run(_: pa.DataType, lists: pa.Array, place: pa.Array) -> pa.Array:
        if not len(lists):
            return lists.values.slice(0, 0)
        nulls, places, offsets = nulls_of(lists, place), whole_numbers(place), _offsets(lists)
        sizes = np.diff(offsets)
        if first and (~nulls & (places == 0)).any():
            raise EvaluationError("INVALID_INDEX_OF_ZERO", "places of items start at 1")
        from_start = places - first
        at = np.where(places < 0, sizes + places, from_start) if first else from_start
        beyond = ~nulls & ((at < 0) | (at >= sizes))
        if condition is not None and beyond.any():
            raise EvaluationError(condition, "a place is beyond the items of an array")
        return _taken(lists.values, offsets[:-1] + at, nulls | beyond)

    return run


def _of_key(_: pa.DataType, maps: pa.Array, key: pa.Array) -> pa.Array:
    """Return the value of a key; null if there is none."""
    if not len(maps):
        return maps.items.slice(0, 0)
    offsets = _offsets(maps)
    owners = _owners(offsets)
    same = compared("equal", _items(maps, maps.keys), key.take(pa.array(owners)))
    there = np.flatnonzero(np.asarray(pc.fill_null(same, fill_value=False), bool))
    places, missing = np.zeros(len(maps), np.int64), np.ones(len(maps), bool)
    places[owners[there]], missing[owners[there]] = there + offsets[0], False
    return _taken(maps.items, places, missing | nulls_of(maps, key))


def _sorted(order: str, nulls_at: str) -> Kernel:
    """Return the kernel that sorts the items of each list."""

    def run(wanted: pa.DataType, lists: pa.Array) -> pa.Array:
        if not len(lists):
            return pa.array([], wanted)
        offsets = _offsets(lists)
        items, owners = _items(lists, lists.values), _owners(offsets)
        by_value = np.asarray(pc.array_sort_indices(items, order=order, null_placement=nulls_at))
        places = by_value[np.argsort(owners[by_value], kind="stable")]
        starts = pa.array((offsets - offsets[0]).astype(np.int32))
        values = items.take(pa.array(places))
        sorted_lists = pa.ListArray.from_arrays(starts, values, mask=pa.array(nulls_of(lists)))
        return sorted_lists.cast(wanted)

    return run


def _first_sorted(order: str) -> Kernel:
    """Return the kernel of the least or greatest item."""
    in_order = _sorted(order, "at_end")

    def run(wanted: pa.DataType, lists: pa.Array) -> pa.Array:
        ordered = in_order(pa.list_(wanted), lists)
        return _item(0, None)(wanted, ordered, pa.array(np.zeros(len(lists), np.int64)))

    return run


def _array(argument: Term, *, floats: bool = True) -> DataType | None:
    """Return the type of the items of an array, if these have no parts."""
    if not isinstance(argument.data_type, ArrayType):
        return None
    data_type = argument.data_type.elementType
    refused = (*_NESTED, NullType) if floats else (*_NESTED, NullType, *_FLOATS)
    return None if isinstance(data_type, refused) else data_type


def _length(arguments: Sequence[Term], _: str) -> Term | None:
    (value,) = arguments
    if not isinstance(value.data_type, ArrayType | MapType):
        return None
    return Call(IntegerType(), _size, (value,))


def _membership(arguments: Sequence[Term], _: str) -> Term | None:
    item = _array(arguments[0])
    if item is None or isinstance(arguments[1].data_type, NullType):
        return None
    if common([item, arguments[1].data_type]) != item:
        return None
    return Call(BooleanType(), _contains, (arguments[0], widened(arguments[1], item)))


def _at(first: int, condition: str | None) -> Rule:
    """Return the rule of an array's item at a place, or a map's value of a key."""
    kernel = _item(first, condition)

    def rule(arguments: Sequence[Term], _: str) -> Term | None:
        value, place = arguments
        match value.data_type, place.data_type:
            case ArrayType(elementType=item), IntegralType():
                return Call(item, kernel, (value, place), fails=condition is not None)
            case MapType(keyType=key, valueType=item), kind if condition is not None:
                if kind == key and not isinstance(key, (*_NESTED, *_FLOATS)):
                    return Call(item, _of_key, (value, place))
        return None

    return by_count({2: rule})


def _ordered(arguments: Sequence[Term], _: str) -> Term | None:
    """Return ``sort_array(a, is_ascending)``, with the second argument written."""
    match arguments:
        case [value] | [value, Constant(value=True)]:
            kernel = _sorted("ascending", "at_start")
        case [value, Constant(value=False)]:
            kernel = _sorted("descending", "at_end")
        case _:
            return None
    item = _array(value, floats=False)
    return None if item is None else Call(value.data_type, kernel, (value,))


def _in_default_order(arguments: Sequence[Term], _: str) -> Term | None:
    (value,) = arguments
    if _array(value, floats=False) is None:
        return None
    return Call(value.data_type, _sorted("ascending", "at_end"), (value,))


def _end(order: str) -> Rule:
    kernel = _first_sorted(order)

    def rule(arguments: Sequence[Term], _: str) -> Term | None:
        item = _array(arguments[0], floats=False)
        return None if item is None else Call(item, kernel, tuple(arguments))

    return by_count({1: rule})


def field(value: Term, name: str) -> Term | None:
    """Return a field of a struct, by its name in any case."""
    if not isinstance(value.data_type, StructType):
        return None
    named = [f for f in value.data_type.fields if f.name.lower() == name.lower()]
    if len(named) != 1:
        return None
    (field_type,) = named

    def kernel(_: pa.DataType, structs: pa.Array) -> pa.Array:
        return pc.struct_field(structs, field_type.name)

    return Call(field_type.dataType, kernel, (value,))


NESTED: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        **dict.fromkeys(("size", "cardinality", "array_size"), by_count({1: _length})),
        "array_contains": by_count({2: _membership}),
        "element_at": _at(1, "INVALID_ARRAY_INDEX_IN_ELEMENT_AT"),
        "[]": _at(0, "INVALID_ARRAY_INDEX"),
        "get": _at(0, None),
        "sort_array": _ordered,
        "array_sort": by_count({1: _in_default_order}),
        "array_min": _end("ascending"),
        "array_max": _end("descending"),
    }
)
