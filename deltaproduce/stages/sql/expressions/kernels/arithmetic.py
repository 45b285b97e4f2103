"""Arithmetic of whole numbers without wrap-around, of floats, and of decimals.

`coercion` chooses the types of decimal arguments, so that results fit their types.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Context, Decimal
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.stages.sql.expressions.coercion import NEGATED_DIGITS
from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError, Kernel
from deltaproduce.types.pandas_on_demand import in_numpy

_ROUNDING: Final = Context(prec=NEGATED_DIGITS, rounding=ROUND_HALF_EVEN)
_INT64 = np.iinfo(np.int64)


def _checked(name: str, plain: str) -> Kernel:
    """Return an operator that Arrow checks for whole numbers, and leaves unchecked for others."""

    def run(wanted: pa.DataType, *arguments: pa.Array) -> pa.Array:
        if not pa.types.is_integer(wanted):
            return getattr(pc, plain)(*arguments).cast(wanted)
        try:
            return getattr(pc, name)(*arguments)
        except pa.ArrowInvalid:
            small = len(arguments) > 1 and wanted.bit_width < 32
            condition = "BINARY_ARITHMETIC_OVERFLOW" if small else "ARITHMETIC_OVERFLOW"
            raise EvaluationError(condition, f"a value does not fit {wanted}") from None

    return run


def _negated(name: str) -> Kernel:
    """Return ``-a`` or ``abs``, which Spark rounds to 34 digits if it negates a longer decimal."""
    exactly = _checked(f"{name}_checked", name)

    def run(wanted: pa.DataType, value: pa.Array) -> pa.Array:
        found = exactly(wanted, value)
        if not pa.types.is_decimal(wanted) or wanted.precision <= NEGATED_DIGITS:
            return found
        least = pa.scalar(Decimal(1).scaleb(NEGATED_DIGITS - wanted.scale), wanted)
        is_long = pc.greater_equal(pc.abs(found), least)
        if name == "abs":
            is_long = pc.and_(is_long, pc.less(value, pa.scalar(Decimal(0), wanted)))
        if not pc.any(is_long).as_py():
            return found
        rounded = map(_ROUNDING.plus, found.filter(is_long).to_pylist())
        try:
            return pc.replace_with_mask(found, is_long, pa.array([*rounded], wanted))
        except pa.ArrowInvalid:
            raise EvaluationError(
                "NUMERIC_VALUE_OUT_OF_RANGE", f"a value does not fit {wanted}"
            ) from None

    return run


def _divided(wanted: pa.DataType, divisor: pa.Array, dividend: pa.Array) -> pa.Array:
    """Return ``/`` of doubles."""
    _refuse_zero(divisor, dividend, "DIVIDE_BY_ZERO")
    return pc.divide(dividend, divisor).cast(wanted)


def _quotient(wanted: pa.DataType, divisor: pa.Array, dividend: pa.Array) -> pa.Array:
    """Return ``DIV`` of bigints, rounded towards zero."""
    _refuse_zero(divisor, dividend, "DIVIDE_BY_ZERO")
    least = pc.and_(pc.equal(dividend, _INT64.min), pc.equal(divisor, -1))
    if pc.any(least).as_py():
        raise EvaluationError("ARITHMETIC_OVERFLOW", f"a value does not fit {wanted}")
    return pc.divide(dividend, pc.if_else(pc.equal(divisor, 0), 1, divisor))


def _remainder(wanted: pa.DataType, divisor: pa.Array, dividend: pa.Array) -> pa.Array:
    """Return ``%`` of whole numbers or floats, with the sign of the dividend."""
    _refuse_zero(divisor, dividend, "REMAINDER_BY_ZERO")
    nulls = in_numpy(pc.or_(pc.is_null(divisor), pc.is_null(dividend)))
    one = pa.scalar(1, wanted)
    below = in_numpy(pc.fill_null(divisor, one))
    above = in_numpy(pc.fill_null(dividend, one))
    if pa.types.is_integer(wanted):
        below = np.where(np.isin(below, (0, -1)), 1, below)  # by -1 it is 0, as by 1
    with np.errstate(invalid="ignore", divide="ignore"):
        return pa.array(np.fmod(above, below), wanted, mask=nulls)


def _refuse_zero(divisor: pa.Array, dividend: pa.Array, condition: str) -> None:
    if pc.any(
        pc.and_(pc.equal(divisor, pa.scalar(0, divisor.type)), pc.is_valid(dividend))
    ).as_py():
        raise EvaluationError(condition, "division by zero")


ARITHMETIC: Final[Mapping[str, Kernel]] = MappingProxyType(
    {
        "+": _checked("add_checked", "add"),
        "-": _checked("subtract_checked", "subtract"),
        "*": _checked("multiply_checked", "multiply"),
        "negative": _negated("negate"),
        "abs": _negated("abs"),
        "/": _divided,
        "div": _quotient,
        "%": _remainder,
    }
)
"""By the names in terms; in a division the divisor comes first, as in Spark."""
