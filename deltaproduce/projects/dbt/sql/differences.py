"""Differences: where another dialect computes otherwise than Spark, and what says it in Spark.

Pure. sqlglot translates how a function is written; this is what it computes. The invariant: each
rule holds for all types that the expression may have there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

_DIVIDES_AS_DOUBLES: Final = frozenset({"duckdb"})
"""The dialects in which ``/`` and ``avg`` of decimals are doubles."""
_COUNTS_BOUNDARIES: Final = frozenset({"duckdb", "snowflake", "redshift", "bigquery"})
"""The dialects in which a difference of times counts the units that begin between them."""
_EMPTY_IF_NONE: Final = frozenset({"duckdb", "spark", "databricks"})
"""The dialects in which a pattern that does not match gives an empty text, and not null."""
_FIRST_GROUP: Final = frozenset({"spark", "databricks"})
"""The dialects in which a pattern gives its first group, if none is named."""
_DECIMALS: Final = frozenset({"snowflake"})
"""The dialects in which a text becomes a decimal number without a form."""
_BARE_DECIMALS: Final[Mapping[str, str]] = {
    "bigquery": "decimal(38, 9)",
    "postgres": "decimal(38, 18)",  # there it has any digits; these are what Spark reads it as
    "redshift": "decimal(18, 0)",
}
"""What a decimal type without digits is; in Spark it is one of ten digits and no fraction."""
_EMPTY: Final = exp.Literal.string("")
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
    if node.this == exp.DType.DECIMAL and not node.expressions and dialect in _BARE_DECIMALS:
        return exp.DataType.build(_BARE_DECIMALS[dialect])
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


def _matched(node: exp.Expr, dialect: str) -> exp.Expr:
    """A part that a pattern matches: which one, and what there is if none is."""
    is_first = all(_is_one(node.args.get(name)) for name in ("position", "occurrence"))
    options = node.args.get("parameters")
    letters = options.name if isinstance(options, exp.Expr) else ""
    if not is_first or not {*letters} <= {"c", "e"}:
        return node
    own = 1 if "e" in letters or dialect in _FIRST_GROUP else 0
    group = node.args.get("group") or exp.Literal.number(own)
    part = exp.RegexpExtract(this=node.this, expression=node.expression, group=group)
    return part if dialect in _EMPTY_IF_NONE else exp.Nullif(this=part, expression=_EMPTY.copy())


def _last_day(node: exp.Expr, dialect: str) -> exp.Expr:
    """The last day of a month, week, quarter or year."""
    unit = (node.text("unit") or "MONTH").upper()
    if unit == "MONTH":
        return exp.LastDay(this=node.this)
    if unit not in {"WEEK", "QUARTER", "YEAR"}:
        return node
    first = exp.DateTrunc(this=_date(node.this), unit=exp.var(unit))  # type: ignore[no-untyped-call]
    if unit == "WEEK":
        return exp.DateAdd(this=first, expression=exp.Literal.number(6), unit=exp.var("DAY"))
    months = exp.Literal.number(2 if unit == "QUARTER" else 11)
    return exp.LastDay(this=exp.AddMonths(this=first, expression=months))


def _number(node: exp.Expr, dialect: str) -> exp.Expr:
    """A number that a text has without a form is one of a decimal type."""
    if dialect not in _DECIMALS or node.args.get("format"):
        return node
    precision, scale = node.args.get("precision"), node.args.get("scale")
    digits = precision.name if isinstance(precision, exp.Expr) else "38"
    places = scale.name if isinstance(scale, exp.Expr) else "0"
    kind = exp.DataType.build(f"decimal({digits}, {places})")
    cast = exp.TryCast if node.args.get("safe") else exp.Cast
    return cast(this=node.this, to=kind)


def _text(node: exp.Expr, dialect: str) -> exp.Expr:
    """A time as text, by a form that says so."""
    form = node.args.get("format")
    if not isinstance(form, exp.Literal) or not {*form.name.upper()} & {*"YMD"}:
        return node
    written = Dialect.get_or_raise(dialect).format_time(form.name)
    return node if written is None else exp.TimeToStr(this=node.this, format=written)


def _is_one(value: object) -> bool:
    return value is None or (isinstance(value, exp.Expr) and value.is_int and value.name == "1")


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
    exp.LastDay: _last_day,
    exp.Pow: _power,
    exp.RegexpExtract: _matched,
    exp.ToChar: _text,
    exp.ToNumber: _number,
}
