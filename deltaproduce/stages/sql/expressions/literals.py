"""Literals: the values of numbers and dates written in an expression, and constants as SQL."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final

from sqlglot import exp

from deltaproduce.shown.tasks import display_text
from deltaproduce.stages.sql.expressions.coercion import MOST_DIGITS
from deltaproduce.stages.sql.expressions.terms import Constant
from deltaproduce.types.data_types import (
    ArrayType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
)

_CONSTANT: Final = "constant"
_NUMBER: Final = re.compile(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DATE: Final = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[ T]((?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,6}))?)?"
)
_EPOCH: Final = datetime(1970, 1, 1)
_INT: Final = range(-(2**31), 2**31)
_BIGINT: Final = range(-(2**63), 2**63)


def number(text: str) -> Constant | None:
    """Parse a whole number, a decimal with all its digits, or, with an exponent, a double."""
    if not _NUMBER.fullmatch(text):
        return None
    if "e" in text.lower():
        return Constant(DoubleType(), float(text))
    value = Decimal(text)
    if "." not in text:
        if int(value) in _INT:
            return Constant(IntegerType(), int(value))
        if int(value) in _BIGINT:
            return Constant(LongType(), int(value))
    _, digits, exponent = value.as_tuple()
    scale = -int(exponent)
    precision = max(len(digits), scale)
    return Constant(DecimalType(precision, scale), value) if precision <= MOST_DIGITS else None


def day(text: str) -> date | None:
    """Parse a date written in full; None if it is not one."""
    if not _DATE.fullmatch(text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:  # no such day
        return None


def moment(text: str) -> int | None:
    """Parse a time written in full, without a zone, as the microseconds that a clock shows.

    Returns:
        None if it is not one.
    """
    match = _MOMENT.fullmatch(text)
    if not match:
        return None
    try:
        instant = datetime.fromisoformat(f"{match[1]}T{match[2] or '00:00:00'}")
    except ValueError:  # no such time
        return None
    micros = int((match[3] or "").ljust(6, "0"))
    return (instant - _EPOCH) // timedelta(seconds=1) * 1_000_000 + micros


def named_constant(name: str, value: Constant) -> exp.Expr:
    """Return an expression that names a constant, and has its value."""
    tree = exp.column(exp.to_identifier(name, quoted=True))
    tree.meta[_CONSTANT] = value
    return tree


def written_constant(value: Constant) -> exp.Expr:
    """Return a constant as a literal, which has its value."""
    tree: exp.Expr = exp.maybe_parse(literal(value), dialect="spark")
    tree.meta[_CONSTANT] = value
    return tree


def constant_of(node: exp.Expr) -> Constant | None:
    """Return the constant that a node names, or is; None if it is another expression."""
    constant: Constant | None = node.meta.get(_CONSTANT)
    return constant


def literal(value: Constant) -> str:
    """Return a value as a literal of its type in Spark's SQL."""
    content, data_type = value.value, value.data_type
    if content is None:
        return f"CAST(NULL AS {data_type.simpleString()})"
    match data_type:
        case ArrayType():
            items = ", ".join(literal(Constant(data_type.elementType, item)) for item in content)
            return f"CAST(array({items}) AS {data_type.simpleString()})"
        case StringType():
            return _quoted(content)
        case BooleanType():
            return "TRUE" if content else "FALSE"
        case DateType():
            return f"DATE {_quoted(display_text(content))}"
        case TimestampType():
            return f"TIMESTAMP {_quoted(display_text(content))}"
    return f"CAST({_quoted(str(content))} AS {data_type.simpleString()})"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
