"""Coercion: the type in which Spark computes when types differ, and the types of results.

These are Spark's rules with ``spark.sql.ansi.enabled`` (`AnsiTypeCoercion`, and for decimals
`DecimalPrecisionTypeCoercion`), as far as they are certain. The invariant: a case without a rule
here is None, and left to Spark.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from deltaproduce.types.data_types import (
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    IntegralType,
    LongType,
    NullType,
    NumericType,
    ShortType,
    TimestampType,
    YearMonthIntervalType,
)

MOST_DIGITS: Final = 38
_KEPT_DIGITS: Final = 6
"""So many digits after the point stay where a result has too many."""
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
    common_type: DataType | None = NullType()
    for data_type in types:
        common_type = _wider(common_type, data_type)
    return common_type


def _wider(one: DataType | None, other: DataType) -> DataType | None:
    match one, other:
        case None, _:
            return None
        case _, NullType():
            return one
        case NullType(), _:
            return other
        case IntegralType(), IntegralType():
            return max(one, other, key=lambda data_type: _WIDTHS.index(type(data_type)))
        case DecimalType() | IntegralType(), DecimalType() | IntegralType():
            a, b = as_decimal(one), as_decimal(other)
            whole, scale = max(_whole(a), _whole(b)), max(a.scale, b.scale)
            return _shortened(whole, scale, least=0)
        case FloatType(), FloatType():
            return one
        case NumericType(), NumericType():  # also an integer or a decimal with a float
            return DoubleType()
        case (DateType(), TimestampType()) | (TimestampType(), DateType()):
            return TimestampType()
        case (DayTimeIntervalType(), DayTimeIntervalType()) | (
            YearMonthIntervalType(),
            YearMonthIntervalType(),
        ):
            return _wider_interval(one, other)
    return one if one == other else None


def _wider_interval(one: DataType | None, other: DataType) -> DataType:
    """Return the type of intervals from the largest unit of two types to the smallest."""
    assert isinstance(one, DayTimeIntervalType | YearMonthIntervalType)
    assert isinstance(other, type(one))
    first = min(one.startField, other.startField)
    return type(one)(first, max(one.endField, other.endField))


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


def of_decimals(operator: str, one: DecimalType, other: DecimalType) -> DecimalType:
    """Return the type of a sum, difference, product, quotient or remainder.

    One of more than 38 digits loses digits after the point, but has at least 6 of them.
    """
    whole, scale = _digits_of(operator, one, other)
    return _shortened(whole, scale, least=min(scale, _KEPT_DIGITS))


def loses_digits(operator: str, one: DecimalType, other: DecimalType) -> bool:
    """Return whether the type of a sum, difference or product lacks digits of some results."""
    return sum(_digits_of(operator, one, other)) > MOST_DIGITS


def _digits_of(operator: str, one: DecimalType, other: DecimalType) -> tuple[int, int]:
    """Return the digits before and after the point that results have."""
    match operator:
        case "*":
            return _whole(one) + _whole(other) + 1, one.scale + other.scale
        case "/":
            scale = max(_KEPT_DIGITS, one.scale + other.precision + 1)
            return _whole(one) + other.scale, scale
        case "%":
            return min(_whole(one), _whole(other)), max(one.scale, other.scale)
    return max(_whole(one), _whole(other)) + 1, max(one.scale, other.scale)


def quotient_digits(one: DecimalType, other: DecimalType) -> int:
    """Return of how many digits Spark expects a quotient without a remainder."""
    return min(max(_whole(one) + other.scale, 1), MOST_DIGITS)


def _whole(data_type: DecimalType) -> int:
    """Return the digits before the point."""
    return int(data_type.precision - data_type.scale)


def _shortened(whole: int, scale: int, least: int) -> DecimalType:
    """Return a type with at most so many digits before the point, and at least some after it."""
    if whole + scale <= MOST_DIGITS:
        return DecimalType(whole + scale, scale)
    return DecimalType(MOST_DIGITS, max(MOST_DIGITS - whole, least))
