"""Comparisons and conditions: NaN is equal to NaN and greater than all other numbers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.stages.sql.expressions.kernels.failures import Kernel


def _compared(name: str, one: pa.Array, other: pa.Array) -> pa.Array:
    if pa.types.is_boolean(one.type):
        one, other = one.cast(pa.int8()), other.cast(pa.int8())
    found = getattr(pc, name)(one, other)
    if not pa.types.is_floating(one.type):
        return found
    left, right = pc.is_nan(one), pc.is_nan(other)
    if name in {"equal", "not_equal"}:
        both = pc.and_(left, right)
        return pc.or_(found, both) if name == "equal" else pc.and_not(found, both)
    if name in {"less", "greater_equal"}:
        less = pc.or_(pc.less(one, other), pc.and_not(right, left))
        return less if name == "less" else pc.invert(less)
    more = pc.or_(pc.greater(one, other), pc.and_not(left, right))
    return more if name == "greater" else pc.invert(more)


def _comparison(name: str) -> Kernel:
    return lambda _, one, other: _compared(name, one, other)


def _null_safe_equal(_: pa.DataType, one: pa.Array, other: pa.Array) -> pa.Array:
    nulls = pc.and_(pc.is_null(one), pc.is_null(other))
    return pc.or_(pc.fill_null(_compared("equal", one, other), fill_value=False), nulls)


def _in(_: pa.DataType, value: pa.Array, *others: pa.Array) -> pa.Array:
    found = pa.array(np.zeros(len(value), bool))
    for other in others:
        found = pc.or_kleene(found, _compared("equal", value, other))
    return found


COMPARING: Final[Mapping[str, Kernel]] = MappingProxyType(
    {
        "=": _comparison("equal"),
        "<>": _comparison("not_equal"),
        "<": _comparison("less"),
        "<=": _comparison("less_equal"),
        ">": _comparison("greater"),
        ">=": _comparison("greater_equal"),
        "<=>": _null_safe_equal,
        "in": _in,
        "not": lambda _, value: pc.invert(value),
        "is null": lambda _, value: pc.is_null(value),
        "is not null": lambda _, value: pc.is_valid(value),
    }
)
"""By the names in terms."""
