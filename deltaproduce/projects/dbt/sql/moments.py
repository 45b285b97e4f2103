"""Moments: what is the time of a run in dbt, and the date of a version here.

Pure. The invariant: a time of a run is `:as_of`, or refused; none is a constant of the conversion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from sqlglot import exp

from deltaproduce.errors import DefinitionError

MOMENT: Final = datetime(8887, 6, 5, 4, 3, 2)
"""What Jinja sees as the time of a run: no query of a project has it otherwise."""
_DAY: Final = f"{MOMENT:%Y-%m-%d}"
_TIME: Final = f"{MOMENT:%H:%M:%S}"
_YEAR: Final = f"{MOMENT:%Y}"


def as_of_version(tree: exp.Expr) -> exp.Expr:
    """Return a query in which each time of a run is the date of the version.

    Raises:
        DefinitionError: a part of such a time is in its text, so that nobody knows what it is for.
    """

    def changed(node: exp.Expr) -> exp.Expr:
        rule = _RULES.get(type(node))
        return node if rule is None else rule(node)

    return tree.transform(changed)


def reads_date(tree: exp.Expr) -> bool:
    """Return whether a query reads the date of the version."""
    return tree.find(exp.Placeholder) is not None


def _date(node: exp.Expr) -> exp.Expr:
    return exp.Placeholder(this="as_of")


def _timestamp(node: exp.Expr) -> exp.Expr:
    """Noon, which is in the same day in almost every time zone."""
    midnight = exp.cast(exp.Placeholder(this="as_of"), exp.DType.TIMESTAMPTZ)
    half = exp.Interval(this=exp.Literal.string("12"), unit=exp.var("HOUR"))
    return exp.paren(exp.Add(this=midnight, expression=half))


def _literal(node: exp.Expr) -> exp.Expr:
    text = node.name
    if text.startswith(_DAY) and (len(text) == len(_DAY) or _TIME in text):
        day = exp.Placeholder(this="as_of")
        return exp.cast(day, exp.DType.TEXT) if node.is_string else day
    if text == _YEAR:
        year = exp.Year(this=exp.Placeholder(this="as_of"))
        return exp.cast(year, exp.DType.TEXT) if node.is_string else year
    if _YEAR in text:
        raise DefinitionError(
            f"a part of the time of the run is in its text, as in {text!r}: write it with "
            "current_date in SQL"
        )
    return node


def _named(node: exp.Expr) -> exp.Expr:
    """A function that sqlglot does not know by its meaning."""
    match node.name.lower():
        case "today":
            return _date(node)
        case "now" | "getdate" | "sysdate" | "get_current_timestamp" | "current_localtimestamp":
            return _timestamp(node)
    return node


_RULES: Final[Mapping[type[exp.Expr], Callable[[exp.Expr], exp.Expr]]] = {
    exp.CurrentDate: _date,
    exp.CurrentTimestamp: _timestamp,
    exp.CurrentTimestampLTZ: _timestamp,
    exp.CurrentDatetime: _timestamp,
    exp.Localtimestamp: _timestamp,
    exp.Systimestamp: _timestamp,
    exp.Anonymous: _named,
    exp.Literal: _literal,
}
