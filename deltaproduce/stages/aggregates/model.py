"""Aggregates in plain Python, as the oracle computes them: each group from all of its rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Context, localcontext
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from deltaproduce.stages.aggregates.agg import AggregateCall

_Values: TypeAlias = Sequence[Any]
"""Those of a group, without nulls."""


def _or_null(of_some: Callable[[_Values], Any]) -> Callable[[_Values], Any]:
    return lambda values: of_some(values) if values else None


def _total(values: _Values) -> Any:  # noqa: ANN401 as the values
    if isinstance(values[0], float):
        return _nearest(_sum(values))
    with localcontext(Context(prec=_DIGITS)):  # Python's own decimals have 28
        return sum(values)


def _sum(values: _Values) -> Fraction | float:
    """The exact sum; what is not finite if a value is not."""
    beyond = {value for value in values if not math.isfinite(value)}
    return sum(beyond) if beyond else sum(map(Fraction, values), Fraction())


def _nearest(exact: Fraction | float) -> float:
    """The double nearest to it: Python's division of whole numbers is rounded once."""
    if isinstance(exact, float):
        return exact
    try:
        return exact.numerator / exact.denominator + 0.0
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


_DIGITS: Final = 1_000
_FUNCTIONS: Final[Mapping[str, Callable[[_Values], Any]]] = MappingProxyType(
    {
        "count": len,
        "count_if": sum,
        "bool_and": _or_null(all),
        "bool_or": _or_null(any),
        "sum": _or_null(_total),
    }
)


def grouped(
    rows: Iterable[Mapping[str, Any]],
    key: Sequence[str],
    values: Sequence[tuple[str, AggregateCall]],
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """The keys of some rows, and the values of each.

    Args:
        rows: by the feeder's column names.
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in key), []).append(row)
    for found, of_key in groups.items():
        yield found, tuple(_value(call, of_key) for _, call in values)


def _value(call: AggregateCall, rows: Sequence[Mapping[str, Any]]) -> Any:  # noqa: ANN401 as it may be
    if not call.arguments:
        return len(rows)
    (name,) = call.arguments
    return _FUNCTIONS[call.function]([row[name] for row in rows if row[name] is not None])
