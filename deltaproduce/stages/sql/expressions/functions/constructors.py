"""Functions that make arrays, maps and structs.

All parts of their values may be null in their types, as in the types of stored columns, while
Spark's types say of some that they are never null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deltaproduce.engines.local.arrays import factorize
from deltaproduce.stages.sql.expressions.casts import alike
from deltaproduce.stages.sql.expressions.functions.rules import Rule, by_count
from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError
from deltaproduce.stages.sql.expressions.kernels.rows import nulls_of
from deltaproduce.stages.sql.expressions.terms import Call, Constant, Term
from deltaproduce.types.data_types import (
    AnsiIntervalType,
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

_NO_PARTS: Final = (NullType, AnsiIntervalType, VariantType)
_NO_KEYS: Final = (*_NO_PARTS, ArrayType, MapType, StructType, FloatType, DoubleType)
"""Types whose equal values may differ, or that cannot be keys of maps."""
_LENGTHS: Final = "_LEGACY_ERROR_TEMP_2128"
"""Spark's name for arrays of keys and of values that differ in length."""


def _in_rows(columns: Sequence[pa.Array], wanted: pa.DataType) -> pa.Array:
    """Return the values of columns, those of the first row first."""
    size = len(columns[0])
    every = pa.concat_arrays([column.cast(wanted) for column in columns])
    places = np.arange(len(every)).reshape(len(columns), size).T.ravel()
    return every.take(pa.array(places))


def _offsets(size: int, width: int) -> pa.Array:
    return pa.array(np.arange(size + 1) * width, pa.int32())


def _array(wanted: pa.DataType, *items: pa.Array) -> pa.Array:
    values = _in_rows(items, wanted.value_type)
    lists = pa.ListArray.from_arrays(_offsets(len(items[0]), len(items)), values)
    return lists.cast(wanted)


def _map(wanted: pa.DataType, *parts: pa.Array) -> pa.Array:
    keys = _in_rows(parts[::2], wanted.key_type)
    values = _in_rows(parts[1::2], wanted.item_type)
    return _mapped(wanted, _offsets(len(parts[0]), len(parts) // 2), keys, values)


def _mapped(wanted: pa.DataType, offsets: pa.Array, keys: pa.Array, values: pa.Array) -> pa.Array:
    """Return maps from the entries of all of them."""
    starts = np.asarray(offsets, np.int64)
    _check_keys(keys, np.repeat(np.arange(len(starts) - 1), np.diff(starts)))
    return pa.MapArray.from_arrays(offsets, keys, values).cast(wanted)


def _check_keys(keys: pa.Array, owners: NDArray[np.int64]) -> None:
    """Refuse a key that is null, or that is twice in one map.

    Raises:
        EvaluationError: of the first such key.
    """
    if not len(keys):
        return
    _, firsts = np.unique(factorize([pa.array(owners), keys]), return_index=True)
    again = np.ones(len(keys), bool)
    again[firsts] = False
    wrong = np.flatnonzero(again | nulls_of(keys))
    if len(wrong) and not keys[int(wrong[0])].is_valid:
        raise EvaluationError("NULL_MAP_KEY", "a key of a map is null")
    if len(wrong):
        raise EvaluationError("DUPLICATED_MAP_KEY", "a map has a key twice")


def _from_arrays(wanted: pa.DataType, keys: pa.Array, values: pa.Array) -> pa.Array:
    nulls = nulls_of(keys, values)
    kept = pa.array(~nulls)
    some_keys, some_values = keys.filter(kept), values.filter(kept)
    if not some_keys.value_lengths().equals(some_values.value_lengths()):
        raise EvaluationError(_LENGTHS, "the arrays of keys and of values differ in length")
    maps = _mapped(
        wanted,
        _offsets_of(some_keys),
        some_keys.flatten().cast(wanted.key_type),
        some_values.flatten().cast(wanted.item_type),
    )
    places = np.cumsum(~nulls) - 1
    return maps.take(pa.array(np.where(nulls, 0, places), mask=nulls))


def _offsets_of(lists: pa.Array) -> pa.Array:
    offsets = np.asarray(lists.offsets, np.int64) if len(lists) else np.zeros(1, np.int64)
    return pa.array(offsets - offsets[0], pa.int32())


def _struct(wanted: pa.DataType, *parts: pa.Array) -> pa.Array:
    fields = [wanted.field(place) for place in range(wanted.num_fields)]
    pairs = zip(parts, fields, strict=True)
    return pa.StructArray.from_arrays([part.cast(one.type) for part, one in pairs], fields=fields)


def _of_items(arguments: Sequence[Term], zone: str) -> Term | None:
    items = _alike(arguments, zone)
    if items is None:
        return None
    kind = ArrayType(items[0].data_type)
    return Call(kind, _array, tuple(items), is_strict=False)


def _of_entries(arguments: Sequence[Term], zone: str) -> Term | None:
    if len(arguments) % 2:
        return None
    keys, values = _alike(arguments[::2], zone), _alike(arguments[1::2], zone)
    if keys is None or values is None or isinstance(keys[0].data_type, _NO_KEYS):
        return None
    parts = tuple(chain.from_iterable(zip(keys, values, strict=True)))
    kind = MapType(keys[0].data_type, values[0].data_type)
    return Call(kind, _map, parts, fails=True, is_strict=False)


def _of_arrays(arguments: Sequence[Term], _: str) -> Term | None:
    kinds = [one.data_type for one in arguments]
    match kinds:
        case [ArrayType(elementType=key), ArrayType(elementType=value)]:
            if isinstance(key, _NO_KEYS) or isinstance(value, _NO_PARTS):
                return None
            return Call(MapType(key, value), _from_arrays, tuple(arguments), fails=True)
    return None


def _of_fields(arguments: Sequence[Term], _: str) -> Term | None:
    names = [_name(one) for one in arguments[::2]]
    parts = tuple(arguments[1::2])
    given = [name for name in names if name]
    if not parts or len(given) != len(parts) or len({*map(str.lower, given)}) < len(given):
        return None
    if any(isinstance(one.data_type, _NO_PARTS) for one in parts):
        return None
    pairs = zip(given, parts, strict=True)
    kind = StructType([StructField(name, one.data_type) for name, one in pairs])
    return Call(kind, _struct, parts, is_strict=False)


def _name(term: Term) -> str | None:
    """Return the name that a term is, if it is written."""
    match term:
        case Constant(data_type=StringType(), value=str(name)) if name:
            return name
    return None


def _alike(arguments: Sequence[Term], zone: str) -> Sequence[Term] | None:
    """Return arguments in their common type; None if there are none, or it can be no part."""
    terms = alike(arguments, zone) if arguments else None
    return None if terms is None or isinstance(terms[0].data_type, _NO_PARTS) else terms


def nullable(kind: DataType) -> DataType:
    """Return a type all of whose parts may be null."""
    match kind:
        case ArrayType(elementType=item):
            return ArrayType(nullable(item))
        case MapType(keyType=key, valueType=value):
            return MapType(nullable(key), nullable(value))
        case StructType():
            return StructType([StructField(f.name, nullable(f.dataType)) for f in kind.fields])
    return kind


CONSTRUCTORS: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "array": _of_items,
        "map": _of_entries,
        "map_from_arrays": by_count({2: _of_arrays}),
        "named_struct": _of_fields,
    }
)
