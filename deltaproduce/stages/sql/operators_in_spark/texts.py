"""Calls of functions as Spark reads them, over the fields of relations.

The invariant: a window orders rows as on the driver, where no two that differ are equal.
"""

from __future__ import annotations

from collections.abc import Iterator

from deltaproduce.stages.sql.algebra.calls import AggregateExpression
from deltaproduce.stages.sql.algebra.scalars import Field, Scalar, SortKey
from deltaproduce.stages.sql.algebra.windows import (
    ENDS,
    OFFSETS,
    FrameBound,
    OrderKey,
    WindowCall,
    WindowRelation,
)
from deltaproduce.stages.sql.expressions.ties import decided
from deltaproduce.types.data_types import DoubleType, FloatType
from deltaproduce.types.ddl import identifier


def called(call: AggregateExpression) -> str:
    """Return a call of an aggregate function."""
    arguments = [one.expression.text for one in call.arguments]
    name, around = call.function, "{}"
    match call.function:
        case "min_by" | "max_by":
            arguments[1] = _decided(call) or arguments[1]
        case "mode":
            arguments.append("true")
        case "percentile":
            arguments += map(str, call.parameters)
        case "array_sorted":
            name, around = "collect_list", "sort_array({})"
    text = f"{name}({'DISTINCT ' if call.is_distinct else ''}{', '.join(arguments) or '*'})"
    where = "" if call.where is None else f" FILTER (WHERE {call.where.expression.text})"
    return around.format(f"{text}{where}")


def is_called(call: AggregateExpression) -> bool:
    """Return whether `called` writes a call that returns in Spark what it does on the driver."""
    if not call.is_ordered:
        return True
    if call.function in {"min_by", "max_by"} and _decided(call) is None:
        return False
    floats = isinstance(call.arguments[0].data_type, FloatType | DoubleType)
    return not call.is_distinct and not floats


def _decided(call: AggregateExpression) -> str | None:
    value, by = (one.expression.text for one in call.arguments)
    return decided(call.function, value, by, call.arguments[0].data_type)


def windowed(window: WindowRelation, call: WindowCall) -> str:
    """Return a call of a window function; `has_text` says whether there is one."""
    parts = [_listed("PARTITION BY", (_text(one) for one in window.partition))]
    parts.append(_listed("ORDER BY", _order(window)))
    has_frame = call.aggregate is not None or call.function in ENDS
    if has_frame and window.order:
        start = _bound(call.frame.start, "UNBOUNDED PRECEDING")
        end = _bound(call.frame.end, "UNBOUNDED FOLLOWING")
        unit = "ROWS" if call.frame.by_rows else "RANGE"
        parts.append(f"{unit} BETWEEN {start} AND {end}")
    return f"{_function(call)} OVER ({' '.join(filter(None, parts))})"


def has_text(call: WindowCall) -> bool:
    """Return whether `windowed` writes a call: its frame does not reach to a value."""
    return "value" not in {call.frame.start.kind, call.frame.end.kind}


def _function(call: WindowCall) -> str:
    if call.aggregate is not None:
        return called(call.aggregate)
    if call.function == "ntile":
        return f"ntile({call.number})"
    arguments = [_text(one) for one in call.arguments]
    number = -call.number if call.function == "lag" else call.number
    if call.function in {*OFFSETS, "nth_value"}:
        arguments.insert(1, str(number))
    ignoring = " IGNORE NULLS" if call.ignores_nulls else ""
    return f"{call.function}({', '.join(arguments)}){ignoring}"


def _order(window: WindowRelation) -> Iterator[str]:
    """Yield what rows of a partition are sorted by."""
    yield from map(_key, window.order)
    if window.ties:
        every = dict.fromkeys((*window.ties, *window.input.fields))
        yield from (f"{_name(one)} ASC NULLS FIRST" for one in every)


def sort_text(key: SortKey) -> str:
    """Return what an ORDER BY sorts rows by."""
    return _sorted(_name(key.field), key)


def _key(key: OrderKey) -> str:
    return _sorted(_text(key.scalar), key)


def _sorted(text: str, key: OrderKey | SortKey) -> str:
    direction = "DESC" if key.descending else "ASC"
    return f"{text} {direction} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _bound(bound: FrameBound, unbounded: str) -> str:
    match bound.kind:
        case "unbounded":
            return unbounded
        case "current":
            return "CURRENT ROW"
    return f"{abs(bound.rows)} {'FOLLOWING' if bound.rows > 0 else 'PRECEDING'}"


def _listed(words: str, items: Iterator[str]) -> str:
    text = ", ".join(items)
    return f"{words} {text}" if text else ""


def _text(scalar: Scalar) -> str:
    return f"({scalar.expression.text})"


def _name(field: Field) -> str:
    return identifier(field.id)
