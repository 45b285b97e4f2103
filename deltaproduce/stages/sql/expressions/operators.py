"""Arithmetic operators, and the types of terms that they accept."""

from __future__ import annotations

from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    LongType,
    NullType,
    NumericType,
)

from deltaproduce.stages.sql.expressions.casts import alike, widened
from deltaproduce.stages.sql.expressions.coercion import as_decimal, negation_fails, of_decimals
from deltaproduce.stages.sql.expressions.functions import called
from deltaproduce.stages.sql.expressions.terms import Call, Constant, Term


def arithmetic(name: str, left: Term, right: Term, zone: str) -> Term | None:
    """Return ``+``, ``-`` or ``*``; None if it is left to Spark."""
    types = left.data_type, right.data_type
    if isinstance(left.data_type, DateType):
        return called({"+": "date_add", "-": "date_sub"}.get(name, ""), (left, right), zone)
    if not all(isinstance(found, NumericType | NullType) for found in types):
        return None
    if _has(DecimalType, *types) and not _has(FloatType, *types) and not _has(DoubleType, *types):
        return _of_decimals(name, left, right)
    sides = alike((left, right))
    if sides is None:
        return None
    found = sides[0].data_type
    return Call(found, name, sides, fails=isinstance(found, IntegralType))


def _of_decimals(name: str, left: Term, right: Term) -> Term | None:
    if _has(NullType, left.data_type, right.data_type):
        return None
    sides = _digits(left), _digits(right)
    found = of_decimals(name, *sides)
    if found is None:
        return None
    arguments = (widened(term, side) for term, side in zip((left, right), sides, strict=True))
    return Call(found, name, tuple(arguments))


def _digits(term: Term) -> DecimalType:
    """Return a term's type next to a decimal; a literal has only the digits that it needs."""
    if isinstance(term, Constant) and isinstance(term.data_type, IntegralType):
        return DecimalType(len(str(abs(term.value))), 0)
    return as_decimal(term.data_type)


def division(name: str, left: Term, right: Term) -> Term | None:
    """Return ``/``, ``%`` or ``div``, whose divisor Spark computes first."""
    types = left.data_type, right.data_type
    if not all(isinstance(found, NumericType) for found in types) or _has(DecimalType, *types):
        return None
    found: DataType = DoubleType()
    if name == "div":
        found = LongType()
        if not all(isinstance(one, IntegralType) for one in types):
            return None
    elif name == "%":
        sides = alike((left, right))
        assert sides is not None
        found = sides[0].data_type
    return Call(found, name, (widened(right, found), widened(left, found)), fails=True)


def negative(term: Term) -> Term | None:
    """Return ``-a``."""
    if not isinstance(term.data_type, NumericType):
        return None
    return Call(term.data_type, "negative", (term,), fails=negation_fails(term.data_type))


def _has(kind: type[DataType], *types: DataType) -> bool:
    return any(isinstance(found, kind) for found in types)
