"""Rows one by one, in Python: for functions that Arrow computes otherwise than Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltaproduce.types.pandas_on_demand import in_numpy


def by_row(compute: Callable[..., Any], *arguments: pa.Array) -> list[Any]:
    """Return a function's value for each row; null if an argument is null.

    Args:
        arguments: of types whose values Python has: text, numbers and booleans.
    """
    rows = zip(*(argument.to_pylist() for argument in arguments), strict=True)
    return [None if any(v is None for v in row) else compute(*row) for row in rows]


def row_kernel(compute: Callable[..., Any]) -> Callable[..., pa.Array]:
    """Return the kernel of a function of one row's values, which is null if one of them is."""
    return lambda wanted, *arguments: pa.array(by_row(compute, *arguments), wanted)


def whole_numbers(values: pa.Array, otherwise: int = 0) -> NDArray[np.int64]:
    """Return whole numbers, or the numbers behind dates and times, with a number for null."""
    numbers = values if pa.types.is_integer(values.type) else values.cast(_behind(values.type))
    return in_numpy(pc.fill_null(numbers, otherwise), np.int64)


def nulls_of(*arguments: pa.Array) -> NDArray[np.bool_]:
    """Return in which rows any of the arguments is null."""
    nulls = np.zeros(len(arguments[0]), np.bool_)
    for argument in arguments:
        if argument.null_count:
            nulls |= in_numpy(pc.is_null(argument), bool)
    return nulls


def numbers_of(*arguments: pa.Array) -> tuple[NDArray[np.bool_], list[NDArray[np.int64]]]:
    """Return in which rows an argument is null, and all numbers, which are 0 in these rows."""
    nulls = nulls_of(*arguments)
    return nulls, [np.where(nulls, 0, whole_numbers(argument)) for argument in arguments]


def _behind(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if pa.types.is_date32(kind) else pa.int64()
