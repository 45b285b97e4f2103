"""Arithmetic of decimals: exact, then rounded half up to the digits of the result's type.

Spark computes more digits than any type has, without rounding, so its results are these, too.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.local.arrays import Numbers, decimals, greatest_size, whole_numbers
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
_SHORT_DIGITS: Final = 19
"""No power of ten with more zeros fits 64 bits."""


def too_long(wanted: pa.DataType) -> EvaluationError:
    """Return the error for a value with more digits than a type has."""
    return EvaluationError("NUMERIC_VALUE_OUT_OF_RANGE", f"a value does not fit {wanted}")


def fitted(wanted: pa.DataType, exact: pa.Array) -> pa.Array:
    """Return decimals with the digits of a type, rounded half up; null if it has too few."""
    if exact.type.scale <= wanted.scale:
        return _within(wanted, exact.cast(pa.decimal256(_WIDEST, wanted.scale)))
    short = _shortened(exact, wanted.scale, half_up=True)
    if short is not None:
        return _within(wanted, short)
    unit, most = Decimal(1).scaleb(-wanted.scale), Decimal(10) ** (wanted.precision - wanted.scale)
    with localcontext(_EXACT):
        values = by_row(lambda value: value.quantize(unit, ROUND_HALF_UP), exact)
    return pa.array([None if v is None or abs(v) >= most else v for v in values], wanted)


def _shortened(exact: pa.Array, scale: int, *, half_up: bool) -> pa.Array | None:
    """Return decimals with fewer digits after the point, rounded or cut off.

    Arrow rounds 9223372036854774.807000000000000001 to 9223372036250311.8972: its division fails
    for a few numbers of more than 64 bits. None if there is one, or its type has too many digits.
    """
    digits = exact.type.scale - scale
    if exact.type.precision > MOST_DIGITS or not 0 < digits < _SHORT_DIGITS:
        return None
    numbers = whole_numbers(exact.cast(pa.decimal128(MOST_DIGITS, exact.type.scale)))
    if numbers is None or greatest_size(numbers) >= _WORD // 2:
        return None
    unit = 10**digits
    sizes, rest = np.divmod(np.abs(numbers), unit)
    if half_up:
        sizes += rest >= unit // 2
    shortened = decimals(np.sign(numbers) * sizes, pa.decimal128(MOST_DIGITS, scale))
    return _with_nulls_of(shortened, exact)


def _with_nulls_of(values: pa.Array, *others: pa.Array) -> pa.Array:
    """Return values that are null where one of others is."""
    for other in others:
        if other.null_count:
            values = pc.if_else(pc.is_valid(other), values, pa.scalar(None, values.type))
    return values


def _within(wanted: pa.DataType, exact: pa.Array) -> pa.Array:
    """Return decimals in a type of the same scale; null if it has too few digits."""
    most = Decimal(10**wanted.precision - 1).scaleb(-wanted.scale, _EXACT)
    if exact.type.precision <= wanted.precision:
        return exact.cast(wanted)
    fits = pc.less_equal(pc.abs(exact), pa.scalar(most, exact.type))
    return pc.if_else(fits, exact, pa.scalar(None, exact.type)).cast(wanted)


def truncated(exact: pa.Array) -> pa.Array:
    """Return decimals without the digits after the point."""
    whole = pa.decimal128(MOST_DIGITS, 0)
    if not exact.type.scale:
        return exact.cast(whole)
    short = _shortened(exact, 0, half_up=False)
    return pa.array(by_row(int, exact), whole) if short is None else short


def rounded(wanted: pa.DataType, exact: pa.Array) -> pa.Array:
    """Return decimals with the digits of a type, rounded half up."""
    values = fitted(wanted, exact)
    if values.null_count > exact.null_count:
        raise too_long(wanted)
    return values


def _combined(
    in_arrow: Callable[..., pa.Array],
    exactly: Callable[[Decimal, Decimal], Decimal],
    digits: Callable[[pa.DataType, pa.DataType], int],
    in_numbers: Callable[[Numbers, Numbers], Numbers],
) -> Kernel:
    """Return a sum, difference or product; Arrow computes it if it has types that are wide enough.

    Args:
        digits: the digits of all results of two types.
        in_numbers: the same of whole numbers.
    """

    def run(wanted: pa.DataType, one: pa.Array, other: pa.Array) -> pa.Array:
        short = _of_short_ones(in_numbers, wanted, one, other)
        if short is not None:
            return short
        if digits(one.type, other.type) > _WIDEST:
            return _by_row(wanted, exactly, one, other)
        wide = (v.cast(pa.decimal256(v.type.precision, v.type.scale)) for v in (one, other))
        return rounded(wanted, in_arrow(*wide))

    return run


def _of_short_ones(
    in_numbers: Callable[[Numbers, Numbers], Numbers],
    wanted: pa.DataType,
    one: pa.Array,
    other: pa.Array,
) -> pa.Array | None:
    """Return a sum, difference or product by 64 bits, some ten times as fast as by 256.

    None if a value, or a result, may not fit these, or a result has other digits than the type.
    """
    is_product = in_numbers is np.multiply
    scale = one.type.scale + other.type.scale if is_product else wanted.scale
    if scale != wanted.scale:
        return None
    sides, bounds = list[Numbers](), list[int]()
    for side in (one, other):
        numbers = whole_numbers(side)
        shift = 0 if is_product else scale - side.type.scale
        if numbers is None or not 0 <= shift < _SHORT_DIGITS:
            return None
        bounds.append(greatest_size(numbers) * 10**shift)
        sides.append(numbers * 10**shift)
    most = bounds[0] * bounds[1] if is_product else bounds[0] + bounds[1]
    if max(*bounds, most) >= min(_WORD // 2, 10**wanted.precision):
        return None
    return _with_nulls_of(decimals(in_numbers(*sides), wanted), one, other)


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
        values = [
            None if value is None else value.quantize(unit, ROUND_HALF_UP)
            for value in by_row(compute, *arguments)
        ]
    try:
        return pa.array(values, wanted)
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


added: Final = _combined(pc.add, Decimal.__add__, _sum_digits, np.add)
subtracted: Final = _combined(pc.subtract, Decimal.__sub__, _sum_digits, np.subtract)
multiplied: Final = _combined(pc.multiply, Decimal.__mul__, _product_digits, np.multiply)
remainder: Final = _without_zero(_remainder_of)
modulus: Final = _without_zero(_modulus_of)
