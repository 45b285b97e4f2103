"""Tolerance: floats that are nearly equal, alone or in lists and structs.

Rows are told apart by hashes, which know no tolerance. So floats are first rounded to a grid whose
steps are smaller than the tolerance: what is equal there is close. The few that are close and on
two sides of a step are compared by pairs. Pure. The invariant: floats are close if they differ by
at most the tolerance times the larger one; NaN is close to itself, an infinity to itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deltaproduce.engines.local.arrays import Marks, one_of_each
from deltaproduce.types.pandas_on_demand import in_numpy
from deltaproduce.types.python_values import python_values

_MANTISSA: Final = 52
"""The bits behind the point of a double."""
_OF_SINGLES: Final = 2.0**-22
"""The least tolerance of floats of 32 bits: two of their steps."""

Floats = NDArray[np.floating]


def has_floats(kind: pa.DataType) -> bool:
    """Return whether values of a type are floats, or have some."""
    if pa.types.is_nested(kind):
        return any(has_floats(kind.field(place).type) for place in range(kind.num_fields))
    return bool(pa.types.is_floating(kind))


def on_grid(rows: pa.Table, tolerance: float) -> pa.Table:
    """Return rows whose floats are rounded to steps that are smaller than the tolerance."""
    return _with_floats(rows, lambda floats, kind: _rounded(floats, tolerance_of(kind, tolerance)))


def without_floats(rows: pa.Table) -> pa.Table:
    """Return rows with 0 for each float that has a size: those that are close are equal then."""
    return _with_floats(
        rows, lambda floats, _: np.where(np.isfinite(floats), np.float64(0), floats)
    )


def are_close(one: pa.Array, other: pa.Array, tolerance: float) -> Marks:
    """Mark the values that are close to the value at their place; others are equal but for floats.

    Args:
        one: values with floats, of the same type as ``other``.
    """
    kind = one.type
    if not pa.types.is_nested(kind):
        least = tolerance_of(kind, tolerance)
        return _close(in_doubles(one), in_doubles(other), least)
    pairs = zip(python_values(one), python_values(other), strict=True)
    least = max(tolerance, _OF_SINGLES) if _has_singles(kind) else tolerance
    return np.array([_are_values_close(*pair, least) for pair in pairs], bool)


def in_doubles(values: pa.Array | pa.ChunkedArray) -> Floats:
    """Return floats with 0 for null."""
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    doubles: Floats = in_numpy(whole.cast(pa.float64()).fill_null(0))
    return doubles


def tolerance_of(kind: pa.DataType, tolerance: float) -> float:
    """Return the tolerance of a type: of floats of 32 bits it is two of their steps at least."""
    return max(tolerance, _OF_SINGLES) if pa.types.is_float32(kind) else tolerance


def _has_singles(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_singles(kind.field(place).type) for place in range(kind.num_fields))
    return bool(pa.types.is_float32(kind))


def _close(one: Floats, other: Floats, tolerance: float) -> Marks:
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(one - other) <= tolerance * np.maximum(np.abs(one), np.abs(other))
    finite = np.isfinite(one) & np.isfinite(other)
    same: Marks = (one == other) | (np.isnan(one) & np.isnan(other)) | (near & finite)
    return same


def _are_values_close(one: object, other: object, tolerance: float) -> bool:
    """Return whether values are equal but for floats in them, which are close."""
    match one, other:
        case float(), float():
            both = np.array([one]), np.array([other])
            return bool(_close(*both, tolerance).all())
        case Mapping(), Mapping():
            return one.keys() == other.keys() and all(
                _are_values_close(one[name], other[name], tolerance) for name in one
            )
        case ((list() | tuple()), (list() | tuple())):
            return len(one) == len(other) and all(
                _are_values_close(*pair, tolerance) for pair in zip(one, other, strict=True)
            )
    return one == other


def _rounded(floats: Floats, tolerance: float) -> Floats:
    """Return floats with so many bits that equal ones are close."""
    bits = min(_MANTISSA, math.ceil(-math.log2(tolerance))) if tolerance else _MANTISSA
    mask = np.int64(-1) << np.int64(_MANTISSA - bits)
    rounded: Floats = (floats.view(np.int64) & mask).view(np.float64)
    return rounded


def _with_floats(rows: pa.Table, function: Callable[[Floats, pa.DataType], Floats]) -> pa.Table:
    """Return rows with what a function makes of their floats, which are doubles then."""
    columns = [
        _changed(column.combine_chunks(), function) if has_floats(column.type) else column
        for column in rows.columns
    ]
    return pa.table(columns, rows.column_names)


def _changed(array: pa.Array, function: Callable[[Floats, pa.DataType], Floats]) -> pa.Array:
    kind = array.type
    if not has_floats(kind):
        return array
    is_null = array.is_null()
    if pa.types.is_floating(kind):
        floats = one_of_each(array.cast(pa.float64()).fill_null(0))
        return pa.array(function(floats, kind), pa.float64(), mask=in_numpy(is_null))
    if pa.types.is_struct(kind):
        parts = [_changed(part, function) for part in array.flatten()]
        return pa.StructArray.from_arrays(parts, [field.name for field in kind], mask=is_null)
    array = array.take(pa.array(np.arange(len(array))))  # offsets from 0, and no values between
    if pa.types.is_map(kind):
        keys, items = (_changed(part, function) for part in (array.keys, array.items))
        return pa.MapArray.from_arrays(array.offsets, keys, items, mask=is_null)
    return pa.ListArray.from_arrays(array.offsets, _changed(array.values, function), mask=is_null)
