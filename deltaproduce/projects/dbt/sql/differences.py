"""Differences: where another dialect computes otherwise than Spark, and what says it in Spark.

Pure. sqlglot translates how a function is written; this is what it computes. The invariant: each
rule holds for all types that the expression may have there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sqlglot import exp

_DIVIDES_AS_DOUBLES: Final = frozenset({"duckdb"})
"""The dialects in which ``/`` and ``avg`` of decimals are doubles."""
_COUNTS_BOUNDARIES: Final = frozenset({"duckdb", "snowflake", "redshift", "bigquery"})
"""The dialects in which a difference of times counts the units that begin between them."""
_MOST_EXPONENT: Final = 52
_EXACT_DIVISORS: Final = frozenset({"10", "100", "1000", "10000", "100000", "1000000"})


def as_spark_computes(tree: exp.Expr, dialect: str) -> exp.Expr:
    """Return the tree with all that Spark computes otherwise said so that it computes the same."""

    def changed(node: exp.Expr) -> exp.Expr:
        rule = _RULES.get(type(node))
        return node if rule is None else rule(node, dialect)

    return tree.transform(changed)


def _type(node: exp.Expr, dialect: str) -> exp.Expr:
    """Times without a zone are instants of a store in UTC, and text has any length."""
    if node.this in exp.DataType.TEXT_TYPES:
        return exp.DataType(this=exp.DType.TEXT)
    if node.this in {exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ, exp.DType.DATETIME}:
        return exp.DataType(this=exp.DType.TIMESTAMPTZ)
    if node.this in {exp.DType.INT128, exp.DType.UINT128}:
        return exp.DataType.build("decimal(38, 0)")
    return node


def _division(node: exp.Expr, dialect: str) -> exp.Expr:
    """A division of decimals is one of doubles, but where a cast rounds it exactly."""
    if dialect not in _DIVIDES_AS_DOUBLES or _is_number(node.this):
        return node
    if isinstance(node.this, exp.Cast) and node.this.is_type(exp.DType.DOUBLE):
        return node
    rounded = node.parent
    while isinstance(rounded, exp.Paren):
        rounded = rounded.parent
    if isinstance(rounded, exp.Cast) and rounded.is_type(exp.DType.DECIMAL):
        right = node.expression
        if right.is_int and right.name in _EXACT_DIVISORS:
            divisor = exp.cast(right.copy(), f"decimal({len(right.name)}, 0)")
            node.set("expression", divisor)
            return node
    node.set("this", exp.cast(node.this.copy(), "double"))
    return node


def _average(node: exp.Expr, dialect: str) -> exp.Expr:
    if dialect not in _DIVIDES_AS_DOUBLES or isinstance(node.this, exp.Distinct):
        return node
    node.set("this", exp.cast(node.this.copy(), "double"))
    return node


def _difference(node: exp.Expr, dialect: str) -> exp.Expr:
    """A difference in days, months and so on counts the units that begin between both."""
    if dialect not in _COUNTS_BOUNDARIES:
        return node
    unit = (node.text("unit") or "DAY").upper()
    later, earlier = node.this, node.expression
    if unit == "DAY":
        return exp.DateDiff(this=_date(later), expression=_date(earlier))
    if unit in _MONTHS:
        return exp.paren(_months(later, unit) - _months(earlier, unit))
    if unit == "WEEK":
        days = exp.DateDiff(this=_monday(later), expression=_monday(earlier))
        return exp.IntDiv(this=days, expression=exp.Literal.number(7))
    return node


def _power(node: exp.Expr, dialect: str) -> exp.Expr:
    """A power of whole numbers that are written is a number: macros of dates have such."""
    base, exponent = node.this, node.expression
    if not (_is_number(base) and _is_number(exponent)) or int(exponent.name) > _MOST_EXPONENT:
        return node
    return exp.cast(exp.Literal.number(int(base.name) ** int(exponent.name)), "double")


def _date(value: exp.Expr) -> exp.Expr:
    return exp.cast(value.copy(), "date")


def _monday(value: exp.Expr) -> exp.Expr:
    return exp.DateTrunc(this=_date(value), unit=exp.var("WEEK"))  # type: ignore[no-untyped-call]


def _months(value: exp.Expr, unit: str) -> exp.Expr:
    """Return the number of units from year 0 to a date."""
    year = exp.Year(this=value.copy())
    if unit == "YEAR":
        return year
    if unit == "QUARTER":
        return exp.paren(year * 4 + exp.Quarter(this=value.copy()))
    return exp.paren(year * 12 + exp.Month(this=value.copy()))


_MONTHS: Final = frozenset({"MONTH", "QUARTER", "YEAR"})


def _is_number(node: exp.Expr) -> bool:
    """Return whether an operand is a whole number of the text, whose division is one of doubles."""
    return bool(node.is_int)


_RULES: Final[Mapping[type[exp.Expr], Callable[[exp.Expr, str], exp.Expr]]] = {
    exp.DataType: _type,
    exp.Div: _division,
    exp.Avg: _average,
    exp.DateDiff: _difference,
    exp.TimestampDiff: _difference,
    exp.Pow: _power,
}
