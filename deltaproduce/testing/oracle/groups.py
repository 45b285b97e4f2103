"""Aggregates in plain Python, as the oracle computes them: each group from all its rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import pyarrow as pa

from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.model import value_of
from deltaproduce.stages.sql.states.agg import AggregateCall
from deltaproduce.stages.sql.states.own_aggregates import OwnAggregate
from deltaproduce.types.forms import Form

PARTS: Final = "_parts"
"""In such a row, next to its columns: the parts of each value, if the stage works on states."""

_Values: TypeAlias = Sequence[Any]
"""The values of a group, without nulls."""
_Part: TypeAlias = tuple[AggregateCall, Sequence[tuple[Any, ...]]]
"""A function, and its arguments in each row."""


def _or_null(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda values, *parameters: function(values, *parameters) if values else None


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
    deviation = _variance(values, less)
    return None if deviation is None else math.sqrt(deviation)


def _sum(values: _Values) -> Any:  # noqa: ANN401 a Fraction, or a float
    """Return the exact sum; NaN or infinity if a value is."""
    beyond = {value for value in values if not math.isfinite(value)}
    return sum(beyond) if beyond else sum(map(Fraction, values), Fraction())


def _nearest(exact: Any) -> float:  # noqa: ANN401 a Fraction, or a float
    """Return the nearest double: Python rounds the division of whole numbers once."""
    if isinstance(exact, float):
        return exact
    try:
        return float(exact.numerator / exact.denominator) + 0.0
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _order(value: Any) -> Any:  # noqa: ANN401 as the values
    """Return a sort key in Spark's order: null first, NaN last, text by bytes."""
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    return (1, value.encode() if isinstance(value, str) else value)


def _sorted(values: Iterable[Any]) -> list[Any]:
    return sorted(values, key=_order)


def _one_zero(value: Any) -> Any:  # noqa: ANN401 as the values
    """Replace -0.0 by 0.0."""
    return value + 0.0 if isinstance(value, float) else value


def _mode(values: _Values) -> Any:  # noqa: ANN401 as the values
    counts = Counter(map(_order, values))
    most = max(counts.values())
    return next(value for value in _sorted(values) if counts[_order(value)] == most)


def _percentile(values: _Values, p: float | tuple[float, ...]) -> Any:  # noqa: ANN401 one or several
    if isinstance(p, tuple):
        return [_percentile(values, one) for one in p]
    in_order, place = _sorted(values), (len(values) - 1) * p
    low, high = in_order[math.floor(place)], in_order[math.ceil(place)]
    if _order(low) == _order(high):
        return float(low)
    return (math.ceil(place) - place) * float(low) + (place - math.floor(place)) * float(high)


def _share(values: _Values, p: float | tuple[float, ...]) -> Any:  # noqa: ANN401 one or several
    """Return the least value that is not below a share of all values."""
    if isinstance(p, tuple):
        return [_share(values, one) for one in p]
    return _sorted(values)[max(math.ceil(p * len(values)), 1) - 1]


def _most_frequent(values: _Values, k: int) -> list[tuple[Any, int]]:
    """Return the most frequent values with their counts, most frequent first."""
    counts = Counter(map(_order, values))
    different = {_order(value): value for value in values}
    in_order = sorted(counts, key=lambda order: (-counts[order], order))
    return [(different[order], counts[order]) for order in in_order[:k]]


_DIGITS: Final = 1_000
_MOST_DIGITS: Final = 38
_AVERAGE_DIGITS: Final = 4
_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
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
        "min": _or_null(lambda values: _sorted(values)[0]),
        "max": _or_null(lambda values: _sorted(values)[-1]),
        "count_distinct": lambda values: len(set(map(_order, values))),
        "top_k": lambda values, k: _sorted(values)[::-1][:k],
        "mode": _or_null(_mode),
        "median": _or_null(lambda values: _percentile(values, 0.5)),
        "percentile": _or_null(_percentile),
        "array_sorted": _sorted,
        "approx_count_distinct": lambda values, _: len(set(map(_order, values))),
        "approx_percentile": _or_null(_share),
        "approx_top_k": _most_frequent,
        "listagg": _or_null(lambda values, delimiter: delimiter.join(_sorted(values))),
    }
)
_BY: Final = MappingProxyType({"min_by": min, "max_by": max})


def grouped(
    rows: Iterable[Mapping[str, Any]],
    key: Sequence[tuple[str, Expression]],
    values: Sequence[tuple[str, AggregateCall]],
    arguments: Sequence[Expression],
    where: Expression | None,
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Return the keys of rows, and the values of each.

    Args:
        rows: by the feeder's column names.
        key: the names of the key columns, with their expressions.
        values: the names of the value columns, with their calls over named arguments.
        where: the condition of the rows that count; all count if None.
    """
    for group, of_key in parts(rows, key, values, arguments, where):
        yield group, tuple(_value(call, read) for call, read in of_key)


def parts(
    rows: Iterable[Mapping[str, Any]],
    key: Sequence[tuple[str, Expression]],
    values: Sequence[tuple[str, AggregateCall]],
    arguments: Sequence[Expression],
    where: Expression | None,
) -> Iterator[tuple[tuple[Any, ...], tuple[_Part, ...]]]:
    """Return the same as `grouped`, with the inputs of each value in its place."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        if where is None or value_of(where, row):
            group = tuple(value_of(expression, row) for _, expression in key)
            read = {expression.name: value_of(expression, row) for expression in arguments}
            groups.setdefault(group, []).append({**read, PARTS: row.get(PARTS)})
    for group_rows, of_key in groups.items():
        yield group_rows, tuple(_part(call, of_key) for _, call in values)


def _part(call: AggregateCall, rows: Sequence[Mapping[str, Any]]) -> _Part:
    if call.merges:
        merged = [row[PARTS][call.arguments[0]] for row in rows]
        return merged[0][0], [values for _, read in merged for values in read]
    read = [tuple(row[name] for name in call.arguments) for row in rows]
    if OwnAggregate.among(call.parameters) is not None:
        return call, read
    return call, [tuple(map(_one_zero, values)) for values in read]


def _value(call: AggregateCall, read: Sequence[tuple[Any, ...]]) -> Any:  # noqa: ANN401 as it may be
    if not call.arguments:
        return len(read)
    own = OwnAggregate.among(call.parameters)
    if own is not None:
        return _own(own, read)
    counted = [values for values in read if values[-1] is not None]
    if call.function not in _BY:
        return _FUNCTIONS[call.function]([value for (value,) in counted], *call.parameters)
    if not counted:
        return None
    end = _BY[call.function](_order(by) for _, by in counted)
    return _sorted(value for value, by in counted if _order(by) == end)[0]


def _own(aggregate: OwnAggregate, read: Sequence[tuple[Any, ...]]) -> Any:  # noqa: ANN401 the user's
    """Return the value of a user's aggregate, by its methods."""
    states, values = (Form.of(one, UTC) for one in (aggregate.state, aggregate.value))
    if aggregate.inputs is not None:
        given = zip(aggregate.inputs, zip(*read, strict=True), strict=True)
        columns = [Form.of(column, UTC).written(items) for column, items in given]
        groups = pa.array([0] * len(read), pa.int64())
        result = aggregate.methods.result(aggregate.methods.add(groups, 1, *columns))
        return values.seen(*result.to_pylist())
    state = states.seen(aggregate.methods.zero())
    for row in read:
        state = states.seen(aggregate.methods.add(state, *row))
    return values.seen(aggregate.methods.result(state))
