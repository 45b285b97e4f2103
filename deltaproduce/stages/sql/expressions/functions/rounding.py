"""Rounding of whole numbers and decimals.

Spark rounds floats by their text in Java, which differs between versions of Java, so only whole
numbers next to them are here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import (
    ROUND_CEILING,
    ROUND_FLOOR,
    ROUND_HALF_EVEN,
    ROUND_HALF_UP,
    Context,
    Decimal,
)
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deltaproduce.stages.sql.expressions.casts import widened
from deltaproduce.stages.sql.expressions.coercion import MOST_DIGITS, as_decimal
from deltaproduce.stages.sql.expressions.functions.rules import Rule
from deltaproduce.stages.sql.expressions.kernels.decimals import rounded, too_long
from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError
from deltaproduce.stages.sql.expressions.kernels.rows import by_row, nulls_of
from deltaproduce.stages.sql.expressions.terms import Call, Constant, Kernel, Term
from deltaproduce.types.data_types import (
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    IntegralType,
    LongType,
)
from deltaproduce.types.pandas_on_demand import in_numpy

_EXACT: Final = Context(prec=160)
_PLACES: Final = range(-MOST_DIGITS, MOST_DIGITS + 1)


def _rounding(places: int, mode: str) -> Callable[[Decimal], Decimal]:
    unit = Decimal(1).scaleb(-places)
    return lambda value: value.quantize(unit, mode, _EXACT)


def _of_decimals(places: int, mode: str) -> Kernel:
    """Return the kernel that rounds decimals to places after the point, or before it."""

    def run(wanted: pa.DataType, value: pa.Array) -> pa.Array:
        if mode == ROUND_HALF_UP and places >= wanted.scale:
            return rounded(wanted, value)
        numbers = by_row(_rounding(min(places, wanted.scale), mode), value)
        try:
            return pa.array(numbers, wanted)
        except pa.ArrowInvalid:
            raise too_long(wanted) from None

    return run


def _of_integers(places: int, mode: str) -> Kernel:
    """Return the kernel that rounds whole numbers to places before the point."""
    compute = _rounding(places, mode)

    def run(wanted: pa.DataType, value: pa.Array) -> pa.Array:
        numbers = by_row(lambda number: int(compute(Decimal(number))), value)
        try:
            return pa.array(numbers, wanted)
        except (pa.ArrowInvalid, OverflowError):
            message = f"a value does not fit {wanted}"
            raise EvaluationError("ARITHMETIC_OVERFLOW", message) from None

    return run


def _nearest(mode: str) -> Rule:
    """Return the rule of ``round(a, places)``, with places that are written."""

    def rule(arguments: Sequence[Term], _: str) -> Term | None:
        value, places = _value_and_places(arguments)
        match value, places:
            case Term(data_type=IntegralType() as kind), int() if places >= 0:
                return Call(kind, _unchanged, (value,))
            case Term(data_type=IntegralType() as kind), int():
                return Call(kind, _of_integers(places, mode), (value,), fails=True)
            case Term(data_type=DecimalType() as kind), int():
                return _decimal_call(value, kind, places, mode)
        return None

    return rule


def _unchanged(_: pa.DataType, value: pa.Array) -> pa.Array:
    return value


def _decimal_call(value: Term, kind: DecimalType, places: int, mode: str) -> Term:
    whole = kind.precision - kind.scale + 1
    scale = min(kind.scale, max(places, 0))
    digits = max(whole, 1 - places) if places < 0 else whole + scale
    data_type = DecimalType(min(digits, MOST_DIGITS), scale)
    return Call(data_type, _of_decimals(places, mode), (value,), fails=True)


def _value_and_places(arguments: Sequence[Term]) -> tuple[Term | None, int | None]:
    match arguments:
        case [value]:
            return value, 0
        case [value, Constant(data_type=IntegerType(), value=int(places))] if places in _PLACES:
            return value, places
    return None, None


def _whole(mode: str, cut: Callable[..., NDArray[np.float64]]) -> Rule:
    """Return the rule of ``ceil`` or ``floor``; with places, of decimals only."""

    def of_floats(_: pa.DataType, value: pa.Array) -> pa.Array:
        numbers = cut(in_numpy(value.fill_null(0.0), np.float64))
        return pa.array(_saturated(numbers), mask=nulls_of(value))

    def rule(arguments: Sequence[Term], _: str) -> Term | None:
        value, places = _value_and_places(arguments)
        if value is None or places is None:
            return None
        kind = value.data_type
        if len(arguments) == 2:
            if not isinstance(kind, IntegralType | DecimalType):
                return None
            exact = as_decimal(kind)
            return _decimal_call(widened(value, exact), exact, places, mode)
        match kind:
            case IntegralType():
                return widened(value, LongType())
            case FloatType() | DoubleType():
                return Call(LongType(), of_floats, (widened(value, DoubleType()),))
            case DecimalType(scale=0):
                return value
            case DecimalType():
                data_type = DecimalType(kind.precision - kind.scale + 1, 0)
                return Call(data_type, _of_decimals(0, mode), (value,))
        return None

    return rule


def _saturated(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return floats as bigints as Java does: the nearest one, and 0 for what is no number."""
    inside = (values > -(2.0**63)) & (values < 2.0**63)
    numbers = np.where(inside, values, 0.0).astype(np.int64)
    numbers = np.where(values >= 2.0**63, np.int64(2**63 - 1), numbers)
    return np.where(values <= -(2.0**63), np.int64(-(2**63)), numbers)


def _sign(arguments: Sequence[Term], _: str) -> Term | None:
    match arguments:
        case [Term(data_type=IntegralType() | DecimalType() | FloatType() | DoubleType()) as value]:
            double: DataType = DoubleType()
            return Call(double, _signs, (widened(value, double),))
    return None


def _signs(_: pa.DataType, value: pa.Array) -> pa.Array:
    numbers = in_numpy(value.fill_null(0.0), np.float64)
    signs = np.where(numbers > 0, 1.0, np.where(numbers < 0, -1.0, numbers))
    return pa.array(signs, mask=nulls_of(value))


ROUNDING: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "round": _nearest(ROUND_HALF_UP),
        "bround": _nearest(ROUND_HALF_EVEN),
        **dict.fromkeys(("ceil", "ceiling"), _whole(ROUND_CEILING, np.ceil)),
        "floor": _whole(ROUND_FLOOR, np.floor),
        **dict.fromkeys(("sign", "signum"), _sign),
    }
)
