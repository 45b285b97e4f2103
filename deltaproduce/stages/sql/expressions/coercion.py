"""Coercion: the type in which Spark computes when types differ, and the types of results.

These are Spark's rules with ``spark.sql.ansi.enabled`` (`AnsiTypeCoercion`, and for decimals
`DecimalPrecisionTypeCoercion`), as far as they are certain. The invariant: a case without a rule
here is None, and left to Spark.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql.types import (
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    IntegralType,
    LongType,
    NullType,
    NumericType,
    ShortType,
)

MOST_DIGITS: Final = 38
NEGATED_DIGITS: Final = 34
"""Spark negates a decimal of more digits with rounding to this many: Scala's decimal128."""
_WIDTHS: Final[tuple[type[DataType], ...]] = (ByteType, ShortType, IntegerType, LongType)
_DIGITS: Final[dict[type[DataType], int]] = {
    ByteType: 3,
    ShortType: 5,
    IntegerType: 10,
    LongType: 20,
}


def common(types: Iterable[DataType]) -> DataType | None:
    """Return the type in which values are compared, or are branches of one CASE."""
    found: DataType | None = NullType()
    for data_type in types:
        found = _wider(found, data_type)
    return found


def _wider(one: DataType | None, other: DataType) -> DataType | None:
    match one, other:
        case None, _:
            return None
        case _, NullType():
            return one
        case NullType(), _:
            return other
        case IntegralType(), IntegralType():
            return max(one, other, key=lambda found: _WIDTHS.index(type(found)))
        case DecimalType() | IntegralType(), DecimalType() | IntegralType():
            a, b = as_decimal(one), as_decimal(other)
            scale = max(a.scale, b.scale)
            return _decimal(max(a.precision - a.scale, b.precision - b.scale) + scale, scale)
        case FloatType(), FloatType():
            return one
        case NumericType(), NumericType():  # also an integer or a decimal with a float
            return DoubleType()
    return one if one == other else None


def as_decimal(data_type: DataType) -> DecimalType:
    """Return the decimal type that holds all values of an integer type; a decimal type stays."""
    if isinstance(data_type, DecimalType):
        return data_type
    return DecimalType(_DIGITS[type(data_type)], 0)


def negation_fails(data_type: DataType) -> bool:
    """Return whether a value of the type may have no negative: the least integer, long decimals."""
    if isinstance(data_type, DecimalType):
        return data_type.precision > NEGATED_DIGITS
    return isinstance(data_type, IntegralType)


def of_decimals(operator: str, one: DecimalType, other: DecimalType) -> DecimalType | None:
    """Return the type of ``+``, ``-`` or ``*``; None if it lacks digits of the result."""
    if operator == "*":
        return _decimal(one.precision + other.precision + 1, one.scale + other.scale)
    scale = max(one.scale, other.scale)
    whole = max(one.precision - one.scale, other.precision - other.scale)
    return _decimal(whole + scale + 1, scale)


def _decimal(precision: int, scale: int) -> DecimalType | None:
    return DecimalType(precision, scale) if precision <= MOST_DIGITS else None
