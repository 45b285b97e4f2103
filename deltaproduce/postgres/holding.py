"""Holding: the values that PostgreSQL cannot hold.

Pure. These are texts with a NUL character, and dates outside the years 1 to 9999, which PostgreSQL
spells differently; both also as parts of arrays, maps and structs. The invariant: no table of
PostgreSQL has a row with such a value. So a sync refuses rows that have one, and skips the deletes
of keys that have one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import ArrayType, DataType, MapType, StructType

_Rows = npt.NDArray[np.int64]

_NUL: Final = "a NUL character, which PostgreSQL's text cannot have"
_FAR: Final = "a date that is not in the years 1 to 9999"
_DAYS: Final = (-719_162, 2_932_896)
"""From January 1 of the year 1 to December 31 of the year 9999."""
_MICROS_A_DAY: Final = 86_400_000_000
_NOWHERE: Final = -1
"""The row of values that a null list hides."""


def fault(array: pa.Array, data_type: DataType) -> tuple[str, pa.Array] | None:
    """Return what is wrong with values, and with which of them; None if PostgreSQL can hold all."""
    for leaf, rows in _leaves(array, data_type, np.arange(len(array))):
        what, fault_text = _leaf_fault(leaf)
        if fault_text is None or not pc.any(fault_text).as_py():
            continue
        places = rows[pc.fill_null(fault_text, False).to_numpy(zero_copy_only=False)]
        wrong = np.zeros(len(array), np.bool_)
        wrong[places[places != _NOWHERE]] = True
        if wrong.any():
            return what, pa.array(wrong)
    return None


def held(rows: pa.Table, columns: Sequence[Column]) -> pa.Array:
    """Return of which rows PostgreSQL can hold these columns."""
    fits = pa.repeat(True, len(rows))
    for column in columns:
        fault_text = fault(whole(rows, column), column.data_type)
        fits = fits if fault_text is None else pc.and_not(fits, fault_text[1])
    return fits


def whole(rows: pa.Table, column: Column) -> pa.Array:
    """Return a column as one array."""
    values = rows.column(column.name)
    return pa.concat_arrays(values.chunks) if values.num_chunks else pa.nulls(0, values.type)


def _leaf_fault(leaf: pa.Array) -> tuple[str, pa.Array | None]:
    if pa.types.is_string(leaf.type):
        return _NUL, pc.match_substring(leaf, "\0")
    if pa.types.is_temporal(leaf.type):
        return _FAR, _beyond(leaf)
    return "", None


def _beyond(array: pa.Array) -> pa.Array:
    first, last = _DAYS
    if pa.types.is_date(array.type):
        numbers = array.cast(pa.int32())
    else:
        numbers = array.cast(pa.int64())
        first, last = first * _MICROS_A_DAY, (last + 1) * _MICROS_A_DAY - 1
    return pc.or_(pc.less(numbers, first), pc.greater(numbers, last))


def _leaves(array: pa.Array, data_type: DataType, rows: _Rows) -> Iterator[tuple[pa.Array, _Rows]]:
    """Yield the values without parts in an array, and of each value in which row it is."""
    match data_type:
        case ArrayType(elementType=element):
            values, rows = _entries(array, rows)
            yield from _leaves(values, element, rows)
        case MapType(keyType=key, valueType=value):
            entries, rows = _entries(array, rows)
            for part, kind in zip(entries.flatten(), (key, value), strict=True):
                yield from _leaves(part, kind, rows)
        case StructType(fields=fields):
            for part, field in zip(array.flatten(), fields, strict=True):
                yield from _leaves(part, field.dataType, rows)
        case _:
            yield array, rows


def _entries(array: pa.Array, rows: _Rows) -> tuple[pa.Array, _Rows]:
    """Return the values of lists, and their rows."""
    offsets = array.offsets.to_numpy()
    there = np.where(array.is_valid().to_numpy(zero_copy_only=False), rows, _NOWHERE)
    values = array.values.slice(offsets[0], offsets[-1] - offsets[0])
    return values, np.repeat(there, np.diff(offsets))
