"""Comparisons and conditions: NaN is equal to NaN and greater than all other numbers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.stages.sql.expressions.terms import Kernel


def compared(name: str, one: pa.Array, other: pa.Array) -> pa.Array:
    """Return a comparison, by its name in Arrow."""
    if pa.types.is_boolean(one.type):
        one, other = one.cast(pa.int8()), other.cast(pa.int8())
    result = getattr(pc, name)(one, other)
    if not pa.types.is_floating(one.type):
        return result
    left, right = pc.is_nan(one), pc.is_nan(other)
    if name in {"equal", "not_equal"}:
        both = pc.and_(left, right)
        return pc.or_(result, both) if name == "equal" else pc.and_not(result, both)
    if name in {"less", "greater_equal"}:
        less = pc.or_(pc.less(one, other), pc.and_not(right, left))
        return less if name == "less" else pc.invert(less)
    more = pc.or_(pc.greater(one, other), pc.and_not(left, right))
    return more if name == "greater" else pc.invert(more)


def _comparison(name: str) -> Kernel:
    return lambda _, one, other: compared(name, one, other)


def null_safe_equal(_: pa.DataType, one: pa.Array, other: pa.Array) -> pa.Array:
    """Return ``<=>``, which is never null."""
    nulls = pc.and_(pc.is_null(one), pc.is_null(other))
    return pc.or_(pc.fill_null(compared("equal", one, other), fill_value=False), nulls)


def among(_: pa.DataType, value: pa.Array, *others: pa.Array) -> pa.Array:
    """Return ``IN``."""
    marks = pa.array(np.zeros(len(value), bool))
    for other in others:
        marks = pc.or_kleene(marks, compared("equal", value, other))
    return marks


def negation(_: pa.DataType, value: pa.Array) -> pa.Array:
    """Return ``NOT``."""
    return pc.invert(value)


def is_null(_: pa.DataType, value: pa.Array) -> pa.Array:
    """Return ``IS NULL``."""
    return pc.is_null(value)


def is_not_null(_: pa.DataType, value: pa.Array) -> pa.Array:
    """Return ``IS NOT NULL``."""
    return pc.is_valid(value)


COMPARISONS: Final[Mapping[str, Kernel]] = MappingProxyType(
    {
        "=": _comparison("equal"),
        "<>": _comparison("not_equal"),
        "<": _comparison("less"),
        "<=": _comparison("less_equal"),
        ">": _comparison("greater"),
        ">=": _comparison("greater_equal"),
    }
)
"""By their signs."""


def matches(_: pa.DataType, text: pa.Array, pattern: pa.Array) -> pa.Array:
    """Return ``LIKE`` with one pattern for all rows, escaped by backslashes."""
    return pc.match_like(text, pattern[0].as_py()) if len(text) else pa.array([], pa.bool_())
