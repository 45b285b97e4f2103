"""Window functions in plain Python: for each row, from the sorted rows of its partition."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cmp_to_key, partial
from itertools import pairwise
from typing import Any, TypeAlias

from deltaproduce.stages.sql.algebra.calls import AggregateExpression
from deltaproduce.stages.sql.algebra.windows import RANKS, FrameBound, WindowCall, WindowRelation
from deltaproduce.stages.sql.expressions.model import value_of

_Row: TypeAlias = Mapping[str, Any]
_Called: TypeAlias = Callable[[AggregateExpression, Sequence[_Row]], Any]
_Key: TypeAlias = tuple[Any, bool, bool]
"""A value, whether it sorts descending, and whether null comes first."""


def windowed(window: WindowRelation, rows: Sequence[_Row], called: _Called) -> Iterator[_Row]:
    """Yield rows with the values of window functions.

    Args:
        called: computes an aggregate function over rows.
    """
    parts: dict[tuple[Any, ...], list[_Row]] = {}
    for row in rows:
        key = tuple(_same(value_of(one.expression, row)) for one in window.partition)
        parts.setdefault(key, []).append(row)
    for part in parts.values():
        in_order = sorted(part, key=cmp_to_key(partial(_compared, window)))
        for place, row in enumerate(in_order):
            more = {
                field.id: _value(window, call, in_order, place, called)
                for field, call in window.calls
            }
            yield {**row, **more}


def _same(value: Any) -> Any:  # noqa: ANN401 as it may be
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def _keys(window: WindowRelation, row: _Row) -> Iterator[_Key]:
    for key in window.order:
        yield value_of(key.scalar.expression, row), key.descending, key.nulls_first
    for field in window.ties:
        yield row[field.id], False, True


def _compared(window: WindowRelation, one: _Row, other: _Row) -> int:
    """Compare two rows in the order, and then by their whole content."""
    difference = _order(_keys(window, one), _keys(window, other))
    if difference or not window.ties:
        return difference
    names = [field.id for field in window.input.fields]
    return _order(*(((row[name], False, True) for name in names) for row in (one, other)))


def _order(ones: Iterator[_Key], others: Iterator[_Key]) -> int:
    for (one, descending, first), (other, *_) in zip(ones, others, strict=True):
        if one is None or other is None:
            if (one is None) != (other is None):
                return -1 if (one is None) == first else 1
            continue
        less, greater = _less(one, other), _less(other, one)
        if less or greater:
            return -1 if less != descending else 1
    return 0


def _less(one: Any, other: Any) -> bool:  # noqa: ANN401 as they may be
    if isinstance(one, str):
        return bool(one.encode() < other.encode())
    if isinstance(one, float) and (math.isnan(one) or math.isnan(other)):
        return math.isnan(other) and not math.isnan(one)
    return bool(one < other)


def _value(
    window: WindowRelation, call: WindowCall, part: Sequence[_Row], place: int, called: _Called
) -> Any:  # noqa: ANN401 as it may be
    if call.function in RANKS:
        return _rank(window, call, part, place)
    match call.function:
        case "row_number":
            return place + 1
        case "ntile":
            sizes = [len(part[n :: call.number]) for n in range(call.number)]
            return next(n + 1 for n in range(call.number) if place < sum(sizes[: n + 1]))
        case "lag" | "lead":
            return _at_distance(call, part, place)
    frame = [
        other
        for n, other in enumerate(part)
        if _is_within(window, call, call.frame.start, part, place, n, is_end=False)
        and _is_within(window, call, call.frame.end, part, place, n, is_end=True)
    ]
    if call.aggregate is not None:
        return called(call.aggregate, frame)
    values = [value_of(call.arguments[0].expression, other) for other in frame]
    values = [one for one in values if one is not None or not call.ignores_nulls]
    if call.function == "last_value":
        return values[-1] if values else None
    wanted = max(call.number, 1)
    return values[wanted - 1] if len(values) >= wanted else None


def _rank(window: WindowRelation, call: WindowCall, part: Sequence[_Row], place: int) -> float:
    same = [not _order(_keys(window, part[place]), _keys(window, other)) for other in part]
    before, until = same.index(True), len(same) - same[::-1].index(True)
    if call.function == "percent_rank":
        return before / (len(part) - 1) if len(part) > 1 else 0.0
    if call.function == "cume_dist":
        return until / len(part)
    if call.function == "rank":
        return before + 1
    pairs = pairwise(part[: before + 1])
    return 1 + sum(_order(_keys(window, a), _keys(window, b)) != 0 for a, b in pairs)


def _at_distance(call: WindowCall, part: Sequence[_Row], place: int) -> Any:  # noqa: ANN401
    values = [value_of(call.arguments[0].expression, row) for row in part]
    step = -1 if call.number < 0 else 1
    rest = range(place + step, len(part) if step > 0 else -1, step)
    places = [n for n in rest if values[n] is not None or not call.ignores_nulls]
    if not call.number:
        return values[place]
    if abs(call.number) <= len(places):
        return values[places[abs(call.number) - 1]]
    return value_of(call.arguments[1].expression, part[place]) if len(call.arguments) > 1 else None


def _is_within(
    window: WindowRelation,
    call: WindowCall,
    bound: FrameBound,
    part: Sequence[_Row],
    place: int,
    other: int,
    *,
    is_end: bool,
) -> bool:
    """Return whether a row is on this side of one end of the frame of another row."""
    sign = 1 if is_end else -1
    if bound.kind == "unbounded":
        return True
    if call.frame.by_rows:
        return sign * (place + bound.rows - other) >= 0
    if bound.value is None:
        return sign * _order(_keys(window, part[place]), _keys(window, part[other])) >= 0
    (key,) = window.order
    reached = value_of(bound.value.expression, part[place]), key.descending, key.nulls_first
    theirs = value_of(key.scalar.expression, part[other]), key.descending, key.nulls_first
    return sign * _order(iter([reached]), iter([theirs])) >= 0
