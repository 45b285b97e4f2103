"""Functions: which have terms, and for which argument types.

The invariant: a function with other types or numbers of arguments is left to Spark, and so are all
functions that are not here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    FractionalType,
    IntegerType,
    IntegralType,
    NullType,
    StringType,
    TimestampType,
)

from deltaproduce.stages.sql.expressions.casts import alike, cast
from deltaproduce.stages.sql.expressions.coercion import negation_fails
from deltaproduce.stages.sql.expressions.patterns import pieces
from deltaproduce.stages.sql.expressions.terms import Call, Case, Constant, Term

Rule: TypeAlias = Callable[[Sequence[Term], str], Term | None]
"""Returns a term for arguments and a time zone; None if there is none."""


def called(name: str, arguments: Sequence[Term], zone: str) -> Term | None:
    """Return the call of a function.

    Args:
        name: in lower case.
        zone: the session's time zone.
    """
    rule = _RULES.get(name)
    return None if rule is None else rule(arguments, zone)


def _of_types(kernel: str, result: DataType, *types: type[DataType], fails: bool = False) -> Rule:
    """Return the rule of a function of exactly these argument types."""

    def rule(arguments: Sequence[Term], _: str) -> Term | None:
        if len(arguments) != len(types):
            return None
        if not all(map(isinstance, (a.data_type for a in arguments), types)):
            return None
        return Call(result, kernel, tuple(arguments), fails=fails)

    return rule


def _of_date(kernel: str) -> Rule:
    """Return the rule of a whole number that is part of a date, or of a timestamp's date."""

    def rule(arguments: Sequence[Term], zone: str) -> Term | None:
        found = _as_date(arguments[0], zone) if len(arguments) == 1 else None
        return found and Call(IntegerType(), kernel, (found,))

    return rule


def _as_date(term: Term, zone: str) -> Term | None:
    if not isinstance(term.data_type, DateType | TimestampType):
        return None
    return cast(term, DateType(), zone)


def _to_date(arguments: Sequence[Term], zone: str) -> Term | None:
    if len(arguments) != 1:
        return None
    return cast(arguments[0], DateType(), zone)


def _moved(kernel: str) -> Rule:
    """Return the rule of a date moved by days or months, few enough to stay in the calendar."""

    def rule(arguments: Sequence[Term], zone: str) -> Term | None:
        match arguments:
            case [
                Term() as moment,
                Constant(data_type=IntegerType(), value=int(steps)) as written,
            ] if abs(steps) <= _MOST_STEPS:
                date = _implied_date(moment, zone)
                return date and Call(DateType(), kernel, (date, written))
        return None

    return rule


def _implied_date(term: Term, zone: str) -> Term | None:
    """Return the term where a date is expected; text must be a literal."""
    if isinstance(term.data_type, StringType):
        return cast(term, DateType(), zone) if isinstance(term, Constant) else None
    return _as_date(term, zone)


def _date_format(arguments: Sequence[Term], zone: str) -> Term | None:
    """Format a date or a time by a numeric pattern, such as ``yyyy-MM-dd``."""
    match arguments:
        case [Term() as moment, Constant(value=str(pattern))] if pieces(pattern) is not None:
            if isinstance(moment.data_type, StringType):
                moment = _implied_date(moment, zone) or moment
            if isinstance(moment.data_type, DateType | TimestampType):
                clock = Constant(StringType(), zone)
                return Call(StringType(), "formatted", (moment, arguments[1], clock))
    return None


_MOST_STEPS: Final = 100_000
_UNITS: Final = MappingProxyType(
    {
        **dict.fromkeys(("year", "yyyy", "yy"), "cut to year"),
        "quarter": "cut to quarter",
        **dict.fromkeys(("month", "mon", "mm"), "cut to month"),
        "week": "cut to week",
    }
)


def _trunc(arguments: Sequence[Term], _: str) -> Term | None:
    match arguments:
        case [Term(data_type=DateType()) as date, Constant(value=str(unit))]:
            kernel = _UNITS.get(unit.lower())
            return None if kernel is None else Call(DateType(), kernel, (date,))
    return None


def _coalesce(arguments: Sequence[Term], _: str) -> Term | None:
    """Return the first argument that is not null; later ones are computed only where needed."""
    terms = alike(arguments) if len(arguments) > 1 else None
    if terms is None:
        return None
    branches = tuple((Call(BooleanType(), "is not null", (term,)), term) for term in terms[:-1])
    return Case(terms[0].data_type, branches, terms[-1])


def _two(rule: Rule) -> Rule:
    return lambda arguments, zone: rule(arguments, zone) if len(arguments) == 2 else None


def _null(kernel: str) -> Rule:
    def rule(arguments: Sequence[Term], _: str) -> Term | None:
        if len(arguments) != 1 or isinstance(arguments[0].data_type, NullType):
            return None
        return Call(BooleanType(), kernel, tuple(arguments))

    return rule


def _abs(arguments: Sequence[Term], _: str) -> Term | None:
    match arguments:
        case [Term(data_type=IntegralType() | FractionalType() as data_type) as value]:
            return Call(data_type, "abs", (value,), fails=negation_fails(data_type))
    return None


def _concat(arguments: Sequence[Term], _: str) -> Term | None:
    if not arguments or not all(isinstance(a.data_type, StringType) for a in arguments):
        return None
    if any(argument.may_fail for argument in arguments[1:]):  # Spark computes all of them
        return None
    return Call(StringType(), "concat", tuple(arguments))


def _substring(arguments: Sequence[Term], _: str) -> Term | None:
    """Return a substring, with positions from 1 that are numbers."""
    match arguments:
        case [
            Term(data_type=StringType()) as text,
            Constant(data_type=IntegerType(), value=int(start)),
            Constant(data_type=IntegerType(), value=int(length)),
        ] if start > 0 and length >= 0:
            return Call(StringType(), "substring", (text, *arguments[1:]))
    return None


_RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "abs": _abs,
        **dict.fromkeys(("coalesce",), _coalesce),
        **dict.fromkeys(("nvl", "ifnull"), _two(_coalesce)),
        "isnull": _null("is null"),
        "isnotnull": _null("is not null"),
        "year": _of_date("year"),
        "quarter": _of_date("quarter"),
        "month": _of_date("month"),
        "weekofyear": _of_date("week"),
        **dict.fromkeys(("day", "dayofmonth"), _of_date("day")),
        "dayofyear": _of_date("day of year"),
        "dayofweek": _of_date("day of week"),
        "weekday": _of_date("weekday"),
        **dict.fromkeys(("to_date", "date"), _to_date),
        **dict.fromkeys(("date_add", "dateadd"), _moved("later")),
        "date_sub": _moved("earlier"),
        "add_months": _moved("months later"),
        "date_format": _date_format,
        **dict.fromkeys(
            ("datediff", "date_diff"), _of_types("days between", IntegerType(), DateType, DateType)
        ),
        "last_day": _of_types("last day", DateType(), DateType),
        "trunc": _trunc,
        "concat": _concat,
        **dict.fromkeys(
            ("length", "char_length", "character_length", "len"),
            _of_types("length", IntegerType(), StringType),
        ),
        "trim": _of_types("trim", StringType(), StringType),
        "ltrim": _of_types("ltrim", StringType(), StringType),
        "rtrim": _of_types("rtrim", StringType(), StringType),
        **dict.fromkeys(("substring", "substr"), _substring),
    }
)
