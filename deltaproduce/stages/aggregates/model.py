"""Aggregates in plain Python, as the oracle computes them: each group from all of its rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from deltaproduce.stages.aggregates.agg import AggregateCall
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.model import value_of

_Values: TypeAlias = Sequence[Any]
"""Those of a group, without nulls."""


def _or_null(of_some: Callable[[_Values], Any]) -> Callable[[_Values], Any]:
    return lambda values: of_some(values) if values else None


def _total(values: _Values) -> Any:  # noqa: ANN401 as the values
    if isinstance(values[0], float):
        return _nearest(_sum(values))
    with localcontext(Context(prec=_DIGITS)):  # Python's own decimals have 28
        return sum(values)


def _average(values: _Values) -> float | Decimal:
    exact = _sum(values)
    if not isinstance(values[0], Decimal):
        return _nearest(exact / len(values))
    scale = min(_MOST_DIGITS, _AVERAGE_DIGITS - int(values[0].as_tuple().exponent))
    size = math.floor(abs(exact) / len(values) * 10**scale + Fraction(1, 2))
    return Decimal((int(exact < 0), tuple(map(int, str(size))), -scale))


def _variance(values: _Values, less: int) -> float | None:
    if len(values) <= less:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    mean = _sum(values) / len(values)
    squares = sum((Fraction(value) - mean) ** 2 for value in values)
    return _nearest(squares / (len(values) - less))


def _deviation(values: _Values, less: int) -> float | None:
    found = _variance(values, less)
    return None if found is None else math.sqrt(found)


def _sum(values: _Values) -> Any:  # noqa: ANN401 a Fraction, or a float
    """The exact sum; what is not finite if a value is not."""
    beyond = {value for value in values if not math.isfinite(value)}
    return sum(beyond) if beyond else sum(map(Fraction, values), Fraction())


def _nearest(exact: Any) -> float:  # noqa: ANN401 a Fraction, or a float
    """The double nearest to it: Python's division of whole numbers is rounded once."""
    if isinstance(exact, float):
        return exact
    try:
        return float(exact.numerator / exact.denominator) + 0.0
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


_DIGITS: Final = 1_000
_MOST_DIGITS: Final = 38
_AVERAGE_DIGITS: Final = 4
_FUNCTIONS: Final[Mapping[str, Callable[[_Values], Any]]] = MappingProxyType(
    {
        "count": len,
        "count_if": sum,
        "bool_and": _or_null(all),
        "bool_or": _or_null(any),
        "sum": _or_null(_total),
        "avg": _or_null(_average),
        "var_pop": partial(_variance, less=0),
        "var_samp": partial(_variance, less=1),
        "stddev_pop": partial(_deviation, less=0),
        "stddev_samp": partial(_deviation, less=1),
    }
)


def grouped(
    rows: Iterable[Mapping[str, Any]],
    key: Sequence[tuple[str, Expression]],
    values: Sequence[tuple[str, AggregateCall]],
    arguments: Sequence[Expression],
    where: Expression | None,
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """The keys of some rows, and the values of each.

    Args:
        rows: by the feeder's column names.
        key: the names of its columns, and what they are.
        values: the names of the value columns, and what they are of arguments by their names.
        where: which rows count; all if None.
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        if where is None or value_of(where, row):
            group = tuple(value_of(expression, row) for _, expression in key)
            read = {expression.name: value_of(expression, row) for expression in arguments}
            groups.setdefault(group, []).append(read)
    for found, of_key in groups.items():
        yield found, tuple(_value(call, of_key) for _, call in values)


def _value(call: AggregateCall, rows: Sequence[Mapping[str, Any]]) -> Any:  # noqa: ANN401 as it may be
    if not call.arguments:
        return len(rows)
    (name,) = call.arguments
    return _FUNCTIONS[call.function]([row[name] for row in rows if row[name] is not None])
