"""Casts of terms: implicit ones, which lose nothing, and explicit ones.

The invariant: a cast without a certain rule here is None, and left to Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from deltaproduce.stages.sql.expressions.coercion import common
from deltaproduce.stages.sql.expressions.kernels import casting, clocks, texts
from deltaproduce.stages.sql.expressions.kernels.casting import Cast
from deltaproduce.stages.sql.expressions.literals import day, moment
from deltaproduce.stages.sql.expressions.terms import Call, Constant, Kernel, Term
from deltaproduce.types.data_types import (
    BooleanType,
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
    StringType,
    TimestampType,
)

_DOUBLE_DIGITS: Final = 15
"""Spark casts a decimal to an integer by way of a double, which has these digits."""


def alike(terms: Sequence[Term], zone: str) -> tuple[Term, ...] | None:
    """Cast terms to their common type.

    Args:
        zone: the time zone in which a date becomes a timestamp.
    """
    kinds = [type(term.data_type) for term in terms]
    wanted = next((kind for kind in (TimestampType, DateType) if kind in kinds), None)
    if wanted is not None:
        known = [_beside(wanted(), term, zone) for term in terms]
        terms = [term for term in known if term is not None]
        if len(terms) < len(known):
            return None
    data_type = common(term.data_type for term in terms)
    if data_type is None or isinstance(data_type, NullType):
        return None
    return tuple(widened(term, data_type) for term in terms)


def _beside(wanted: DataType, term: Term, zone: str) -> Term | None:
    """Cast text to a date or a timestamp, as Spark does to compare it with one."""
    match wanted, term.data_type:
        case (DateType(), StringType()) | (TimestampType(), StringType() | DateType()):
            return cast(term, wanted, zone)
    return term


def widened(term: Term, wanted: DataType) -> Term:
    """Cast a term to a type that holds all its values, or the nearest ones."""
    if term.data_type == wanted:
        return term
    if isinstance(term.data_type, NullType):
        return Constant(wanted, None)
    return Call(wanted, casting.widened, (term,))


def cast(term: Term, wanted: DataType, zone: str, *, tried: bool = False) -> Term | None:
    """Return ``CAST(term AS wanted)``.

    Args:
        zone: the time zone in which a timestamp becomes a date, or a date a timestamp.
        tried: return null where a value does not fit, as ``TRY_CAST`` does.
    """
    data_type = term.data_type
    if data_type == wanted or isinstance(data_type, NullType):
        return widened(term, wanted)
    kernel: Kernel | None = None
    match data_type, wanted:
        case DateType(), TimestampType():
            clock = Constant(StringType(), zone)
            return None if tried else Call(wanted, clocks.midnight, (term, clock), fails=True)
        case TimestampType(), DateType():
            return Call(wanted, clocks.local_date, (term, Constant(StringType(), zone)))
        case StringType(), _:
            return _of_text(term, wanted, zone, tried=tried)
        case NumericType(), NumericType():
            kernel = _of_number(data_type, wanted)
        case _:
            kernel = _plain(data_type, wanted)
    return None if kernel is None else _call(wanted, kernel, term, tried=tried)


def _call(wanted: DataType, kernel: Kernel, term: Term, *, tried: bool) -> Term:
    fails = isinstance(kernel, Cast)
    if isinstance(kernel, Cast) and tried:
        return Call(wanted, kernel.fitting, (term,))
    return Call(wanted, kernel, (term,), fails=fails)


def _of_text(term: Term, wanted: DataType, zone: str, *, tried: bool) -> Term | None:
    text = term.value if isinstance(term, Constant) else None
    match wanted:
        case IntegralType():
            return _call(wanted, casting.text_to_integer, term, tried=tried)
        case DecimalType():
            return _call(wanted, texts.text_to_decimal, term, tried=tried)
        case DoubleType():
            return _call(wanted, texts.text_to_double, term, tried=tried)
        case BooleanType():
            return _call(wanted, texts.text_to_boolean, term, tried=tried)
        case DateType():
            number = None if text is None else day(text)
            if number is not None:
                return Constant(wanted, number)
            return _call(wanted, casting.text_to_date, term, tried=tried)
        case TimestampType():
            clock = None if text is None else moment(text)
            if clock is not None:
                zoned = Constant(LongType(), clock), Constant(StringType(), zone)
                return Call(wanted, clocks.instant, zoned)
    return None


def _plain(data_type: DataType, wanted: DataType) -> Kernel | None:
    """Return the kernel of a cast that fails for no value."""
    match data_type, wanted:
        case BooleanType(), IntegralType():
            return casting.widened
        case IntegralType(), BooleanType():
            return casting.to_boolean
        case BooleanType() | IntegralType(), StringType():
            return casting.widened
        case DateType(), StringType():
            return casting.day_text
        case DecimalType(), StringType():
            return casting.digits
        case DayTimeIntervalType(startField=0, endField=0), IntegerType() | LongType():
            return casting.whole_days
    return None


def _of_number(data_type: DataType, wanted: DataType) -> Kernel | None:
    match data_type, wanted:
        case DecimalType(precision=digits, scale=scale), IntegralType():
            is_exact = scale == 0 or digits <= _DOUBLE_DIGITS or isinstance(wanted, LongType)
            return casting.to_integer if is_exact else None
        case _, IntegralType():
            return casting.to_integer
        case IntegralType() | DecimalType(), DecimalType():
            return casting.to_decimal
        case (IntegralType() | DecimalType() | FloatType(), DoubleType()):
            return casting.widened
    return None
