"""Arithmetic of whole numbers without wrap-around, and of floats.

In a division the divisor comes first, as in Spark.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltaproduce.stages.sql.expressions.coercion import NEGATED_DIGITS
from deltaproduce.stages.sql.expressions.kernels.decimals import refuse_zero, too_long
from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError
from deltaproduce.stages.sql.expressions.kernels.rows import nulls_of
from deltaproduce.stages.sql.expressions.terms import Kernel
from deltaproduce.types.pandas_on_demand import in_numpy

_ROUNDING: Final = Context(prec=NEGATED_DIGITS, rounding=ROUND_HALF_EVEN)
_INT64 = np.iinfo(np.int64)


def checked(name: str, plain: str, condition: str = "ARITHMETIC_OVERFLOW") -> Kernel:
    """Return an operator that Arrow checks for whole numbers, and leaves unchecked for others.

    Args:
        name: that of Arrow's function that checks.
        plain: that of the one that does not.
        condition: Spark's name for an overflow.
    """

    def run(wanted: pa.DataType, *arguments: pa.Array) -> pa.Array:
        if not pa.types.is_integer(wanted):
            return getattr(pc, plain)(*arguments).cast(wanted)
        try:
            return getattr(pc, name)(*arguments)
        except pa.ArrowInvalid:
            small = len(arguments) > 1 and wanted.bit_width < 32
            kind = f"BINARY_{condition}" if small else condition
            raise EvaluationError(kind, f"a value does not fit {wanted}") from None

    return run


def _negated(name: str) -> Kernel:
    """Return ``-a`` or ``abs``, which Spark rounds to 34 digits if it negates a longer decimal."""
    exactly = checked(f"{name}_checked", name)

    def run(wanted: pa.DataType, value: pa.Array) -> pa.Array:
        numbers = exactly(wanted, value)
        if not pa.types.is_decimal(wanted) or wanted.precision <= NEGATED_DIGITS:
            return numbers
        least = pa.scalar(Decimal(1).scaleb(NEGATED_DIGITS - wanted.scale), wanted)
        is_long = pc.greater_equal(pc.abs(numbers), least)
        if name == "abs":
            is_long = pc.and_(is_long, pc.less(value, pa.scalar(Decimal(0), wanted)))
        if not pc.any(is_long).as_py():
            return numbers
        rounded = map(_ROUNDING.plus, numbers.filter(is_long).to_pylist())
        try:
            return pc.replace_with_mask(numbers, is_long, pa.array([*rounded], wanted))
        except pa.ArrowInvalid:
            raise too_long(wanted) from None

    return run


def divided(wanted: pa.DataType, divisor: pa.Array, dividend: pa.Array) -> pa.Array:
    """Return ``/`` of doubles."""
    refuse_zero(divisor, dividend, "DIVIDE_BY_ZERO")
    return pc.divide(dividend, divisor).cast(wanted)


def quotient(wanted: pa.DataType, divisor: pa.Array, dividend: pa.Array) -> pa.Array:
    """Return ``DIV`` of bigints, rounded towards zero."""
    refuse_zero(divisor, dividend, "DIVIDE_BY_ZERO")
    least = pc.and_(pc.equal(dividend, _INT64.min), pc.equal(divisor, -1))
    if pc.any(least).as_py():
        raise EvaluationError("ARITHMETIC_OVERFLOW", f"a value does not fit {wanted}")
    return pc.divide(dividend, pc.if_else(pc.equal(divisor, 0), 1, divisor))


def remainder(wanted: pa.DataType, divisor: pa.Array, dividend: pa.Array) -> pa.Array:
    """Return ``%`` of whole numbers or floats, with the sign of the dividend."""
    below, above, nulls = _sides(wanted, divisor, dividend)
    return pa.array(_remainders(below, above), wanted, mask=nulls)


def modulus(wanted: pa.DataType, divisor: pa.Array, dividend: pa.Array) -> pa.Array:
    """Return ``pmod`` of whole numbers or floats: the sign is mostly that of the divisor."""
    below, above, nulls = _sides(wanted, divisor, dividend)
    first = _remainders(below, above)
    wide = np.int32 if pa.types.is_integer(wanted) and wanted.bit_width < 32 else first.dtype
    with np.errstate(over="ignore", invalid="ignore"):
        moved = first.astype(wide) + below.astype(wide)  # wraps around, as in Java
    remainders = np.where(first < 0, _remainders(below.astype(wide), moved), first)
    return pa.array(remainders.astype(first.dtype), wanted, mask=nulls)


def _sides(
    wanted: pa.DataType, divisor: pa.Array, dividend: pa.Array
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
    """Return both sides, with ones for nulls, and where a side is null."""
    refuse_zero(divisor, dividend, "REMAINDER_BY_ZERO")
    one = pa.scalar(1, wanted)
    below, above = (in_numpy(pc.fill_null(side, one)) for side in (divisor, dividend))
    return below, above, nulls_of(divisor, dividend)


def _remainders(below: NDArray[Any], above: NDArray[Any]) -> NDArray[Any]:
    if np.issubdtype(below.dtype, np.integer):
        below = np.where(np.isin(below, (0, -1)), 1, below)  # by -1 it is 0, as by 1
    with np.errstate(invalid="ignore", divide="ignore"):
        remainders: NDArray[Any] = np.fmod(above, below)
    return remainders


added: Final = checked("add_checked", "add")
subtracted: Final = checked("subtract_checked", "subtract")
multiplied: Final = checked("multiply_checked", "multiply")
negated: Final = _negated("negate")
absolute: Final = _negated("abs")
