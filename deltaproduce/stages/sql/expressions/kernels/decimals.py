"""Arithmetic of decimals: exact, then rounded half up to the digits of the result's type.

Spark computes more digits than any type has, without rounding, so its results are these, too.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.stages.sql.expressions.coercion import MOST_DIGITS
from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError, refuse
from deltaproduce.stages.sql.expressions.kernels.rows import by_row
from deltaproduce.stages.sql.expressions.terms import Kernel

_WIDEST: Final = 76
"""The most digits of Arrow's decimals."""
_EXACT: Final = Context(prec=160)
"""Enough digits for sums and products, and for a quotient that is rounded."""
_QUOTIENT_DIGITS: Final = 39
"""Spark divides to a whole number of at most so many digits."""
_WORD: Final = 2**64


def too_long(wanted: pa.DataType) -> EvaluationError:
    """Return the error for a value with more digits than a type has."""
    return EvaluationError("NUMERIC_VALUE_OUT_OF_RANGE", f"a value does not fit {wanted}")


def fitted(wanted: pa.DataType, exact: pa.Array) -> pa.Array:
    """Return decimals with the digits of a type, rounded half up; null if it has too few."""
    if exact.type.scale <= wanted.scale:
        return _within(wanted, exact.cast(pa.decimal256(_WIDEST, wanted.scale)))
    if exact.type.precision < MOST_DIGITS:  # Arrow rounds longer ones wrongly
        short = exact.cast(pa.decimal128(MOST_DIGITS, exact.type.scale))
        decimals = pc.round(short, wanted.scale, "half_towards_infinity")
        return _within(wanted, decimals.cast(pa.decimal128(MOST_DIGITS, wanted.scale)))
    unit, most = Decimal(1).scaleb(-wanted.scale), Decimal(10) ** (wanted.precision - wanted.scale)
    with localcontext(_EXACT):
        decimals = by_row(lambda value: value.quantize(unit, ROUND_HALF_UP), exact)
    return pa.array([None if v is None or abs(v) >= most else v for v in decimals], wanted)


def _within(wanted: pa.DataType, decimals: pa.Array) -> pa.Array:
    """Return decimals in a type of the same scale; null if it has too few digits."""
    most = Decimal(10**wanted.precision - 1).scaleb(-wanted.scale, _EXACT)
    if decimals.type.precision <= wanted.precision:
        return decimals.cast(wanted)
    fits = pc.less_equal(pc.abs(decimals), pa.scalar(most, decimals.type))
    return pc.if_else(fits, decimals, pa.scalar(None, decimals.type)).cast(wanted)


def truncated(exact: pa.Array) -> pa.Array:
    """Return decimals without the digits after the point."""
    whole = pa.decimal128(MOST_DIGITS, 0)
    if exact.type.precision < MOST_DIGITS:
        return pc.trunc(exact.cast(pa.decimal128(MOST_DIGITS, exact.type.scale))).cast(whole)
    return pa.array(by_row(int, exact), whole)


def rounded(wanted: pa.DataType, exact: pa.Array) -> pa.Array:
    """Return decimals with the digits of a type, rounded half up."""
    decimals = fitted(wanted, exact)
    if decimals.null_count > exact.null_count:
        raise too_long(wanted)
    return decimals


def _combined(
    in_arrow: Callable[..., pa.Array],
    exactly: Callable[[Decimal, Decimal], Decimal],
    digits: Callable[[pa.DataType, pa.DataType], int],
) -> Kernel:
    """Return a sum, difference or product; Arrow computes it if it has types that are wide enough.

    Args:
        digits: the digits of all results of two types.
    """

    def run(wanted: pa.DataType, one: pa.Array, other: pa.Array) -> pa.Array:
        if digits(one.type, other.type) > _WIDEST:
            return _by_row(wanted, exactly, one, other)
        wide = (v.cast(pa.decimal256(v.type.precision, v.type.scale)) for v in (one, other))
        return rounded(wanted, in_arrow(*wide))

    return run


def _sum_digits(one: pa.DataType, other: pa.DataType) -> int:
    whole = max(one.precision - one.scale, other.precision - other.scale)
    return int(whole + max(one.scale, other.scale) + 1)


def _product_digits(one: pa.DataType, other: pa.DataType) -> int:
    return int(one.precision + other.precision + 1)


def _by_row(
    wanted: pa.DataType, compute: Callable[[Decimal, Decimal], Decimal], *arguments: pa.Array
) -> pa.Array:
    unit = Decimal(1).scaleb(-wanted.scale)
    with localcontext(_EXACT):
        decimals = [
            None if value is None else value.quantize(unit, ROUND_HALF_UP)
            for value in by_row(compute, *arguments)
        ]
    try:
        return pa.array(decimals, wanted)
    except pa.ArrowInvalid:
        raise too_long(wanted) from None


def divided(wanted: pa.DataType, divisor: pa.Array, dividend: pa.Array) -> pa.Array:
    """Return ``/``."""
    refuse_zero(divisor, dividend, "DIVIDE_BY_ZERO")
    return _by_row(wanted, lambda below, above: above / below, divisor, dividend)


def quotient(digits: int) -> Kernel:
    """Return ``div``: Spark takes the last 64 bits of a whole number of so many digits."""

    def run(wanted: pa.DataType, divisor: pa.Array, dividend: pa.Array) -> pa.Array:
        refuse_zero(divisor, dividend, "DIVIDE_BY_ZERO")
        whole = _by_row(pa.decimal256(_WIDEST, 0), _quotient, divisor, dividend).to_pylist()
        most = 10**digits
        if any(value is not None and abs(value) >= most for value in whole):
            raise too_long(pa.decimal128(digits, 0))
        half = _WORD // 2
        bits = [None if v is None else (int(v) + half) % _WORD - half for v in whole]
        return pa.array(bits, wanted)

    return run


def _quotient(below: Decimal, above: Decimal) -> Decimal:
    """Return a whole number; Java divides to few digits, and notices if these do not suffice."""
    quotient = Decimal(above // below)
    if quotient.copy_abs() >= 10**_QUOTIENT_DIGITS:
        last = Decimal(10) ** (quotient.adjusted() + 1 - _QUOTIENT_DIGITS)
        cut = quotient - quotient % last
        if (above - cut * below).copy_abs() >= below.copy_abs():
            raise EvaluationError("", "a quotient has too many digits: Division impossible")
    return quotient


def _remainder_of(below: Decimal, above: Decimal) -> Decimal:
    return above - _quotient(below, above) * below


def _modulus_of(below: Decimal, above: Decimal) -> Decimal:
    remainder = _remainder_of(below, above)
    return _remainder_of(below, remainder + below) if remainder < 0 else remainder


def _without_zero(compute: Callable[[Decimal, Decimal], Decimal]) -> Kernel:
    def run(wanted: pa.DataType, divisor: pa.Array, dividend: pa.Array) -> pa.Array:
        refuse_zero(divisor, dividend, "REMAINDER_BY_ZERO")
        return _by_row(wanted, compute, divisor, dividend)

    return run


def refuse_zero(divisor: pa.Array, dividend: pa.Array, condition: str) -> None:
    """Refuse a division by zero."""
    zero = Decimal(0) if pa.types.is_decimal(divisor.type) else 0
    is_zero = pc.equal(divisor, pa.scalar(zero, divisor.type))
    refuse(pc.and_(is_zero, pc.is_valid(dividend)), condition, "division by zero")


added: Final = _combined(pc.add, Decimal.__add__, _sum_digits)
subtracted: Final = _combined(pc.subtract, Decimal.__sub__, _sum_digits)
multiplied: Final = _combined(pc.multiply, Decimal.__mul__, _product_digits)
remainder: Final = _without_zero(_remainder_of)
modulus: Final = _without_zero(_modulus_of)
