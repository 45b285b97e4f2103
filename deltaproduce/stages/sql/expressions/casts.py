"""Casts of terms: implicit ones, which lose nothing, and explicit ones.

The invariant: a cast without a certain rule here is None, and left to Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    LongType,
    NullType,
    NumericType,
    StringType,
    TimestampType,
)

from deltaproduce.stages.sql.expressions.coercion import common
from deltaproduce.stages.sql.expressions.literals import day
from deltaproduce.stages.sql.expressions.terms import Call, Constant, Term

LOCAL_DATE: Final = "local date"
"""The kernel of the date of a timestamp, which depends on the time zone."""


def alike(terms: Sequence[Term]) -> tuple[Term, ...] | None:
    """Cast terms to their common type."""
    if any(isinstance(term.data_type, DateType) for term in terms):
        dates = [_beside_dates(term) for term in terms]
        terms = [term for term in dates if term is not None]
        if len(terms) < len(dates):
            return None
    found = common(term.data_type for term in terms)
    if found is None or isinstance(found, NullType):
        return None
    return tuple(widened(term, found) for term in terms)


def _beside_dates(term: Term) -> Term | None:
    """Cast text to a date, as Spark does to compare it with one; other terms stay."""
    return cast(term, DateType(), "") if isinstance(term.data_type, StringType) else term


def widened(term: Term, wanted: DataType) -> Term:
    """Cast a term to a type that holds all its values, or the nearest floating-point ones."""
    if term.data_type == wanted:
        return term
    if isinstance(term.data_type, NullType):
        return Constant(wanted, None)
    return Call(wanted, "widen", (term,))


def cast(term: Term, wanted: DataType, zone: str) -> Term | None:
    """Return ``CAST(term AS wanted)``.

    Args:
        zone: the time zone in which a timestamp becomes a date.
    """
    found = term.data_type
    if found == wanted or isinstance(found, NullType):
        return widened(term, wanted)
    if isinstance(found, StringType):
        return _of_text(term, wanted)
    if isinstance(found, TimestampType) and isinstance(wanted, DateType):
        return Call(wanted, LOCAL_DATE, (term, Constant(StringType(), zone)))
    if isinstance(found, NumericType) and isinstance(wanted, NumericType):
        return _of_number(term, wanted)
    match found, wanted:
        case BooleanType(), IntegralType():
            return Call(wanted, "widen", (term,))
        case IntegralType(), BooleanType():
            return Call(wanted, "to boolean", (term,))
        case BooleanType() | IntegralType() | DateType(), StringType():
            return Call(wanted, "widen", (term,))
    return None


def _of_text(term: Term, wanted: DataType) -> Term | None:
    match wanted:
        case IntegralType():
            return Call(wanted, "text to integer", (term,), fails=True)
        case DateType():
            return _date(term)
    return None


def _of_number(term: Term, wanted: DataType) -> Term | None:
    found = term.data_type
    match found, wanted:
        case FloatType() | DoubleType(), LongType():  # Spark casts 2**63 to 2**63 - 1
            return None
        case _, IntegralType():
            return Call(wanted, "to integer", (term,), fails=True)
        case IntegralType() | DecimalType(), DecimalType():
            return Call(wanted, "to decimal", (term,), fails=True)
        case _, DoubleType():
            return Call(wanted, "widen", (term,))
    return None


def _date(term: Term) -> Term:
    found = day(term.value) if isinstance(term, Constant) else None
    if found is not None:
        return Constant(DateType(), found)
    return Call(DateType(), "text to date", (term,), fails=True)
