"""Lists, which a FOR iterates over: ``array(…)``, ``sequence(…)`` and ``timeseries(…)``.

The invariant: all items of a list have one type, and a list depends on the scope and the scheduled
date alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    DateType,
    IntegralType,
    NullType,
    StringType,
    TimestampType,
)
from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.partitioned.scope.scalars import ZONE, scalar, value_of
from deltaproduce.stages.sql.expressions.analysis import analysed
from deltaproduce.stages.sql.expressions.casts import alike
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.terms import Constant
from deltaproduce.stages.sql.syntax import function_name

_LISTS: Final = frozenset({"array", "sequence", "timeseries"})
_STEP: Final = re.compile(r"\s*([1-9][0-9]{0,5})\s+(hour|day|week|month)s?\s*", re.IGNORECASE)
_MOST: Final = 1_000_000
"""The most items of a list."""


def is_list(expression: Expression, scope: Mapping[str, Constant]) -> bool:
    """Return whether an expression is a list, or the name of one."""
    if function_name(expression.tree.unnest()) in _LISTS:
        return True
    return isinstance(_named(expression, scope).data_type, ArrayType)


def is_dated(expression: Expression) -> bool:
    """Return whether an expression depends on the scheduled date."""
    return function_name(expression.tree.unnest()) == "timeseries"


def as_one(
    items: list[Constant],
    expression: Expression,
    scope: Mapping[str, Constant],
    moment: datetime,
) -> Constant:
    """Return a list, which may be empty, as one value."""
    sample = items or listed(expression, scope, moment, typing=True)
    kind = ArrayType(sample[0].data_type)
    return Constant(kind, tuple(item.value for item in items))


def _named(expression: Expression, scope: Mapping[str, Constant]) -> Constant:
    """Return the value that an expression names; null if it is not a name."""
    column = expression.column
    return scope.get(column or "", Constant(NullType(), None))


def listed(
    expression: Expression,
    scope: Mapping[str, Constant],
    moment: datetime,
    *,
    typing: bool = False,
) -> list[Constant]:
    """Return the items of a list.

    Args:
        moment: the scheduled date, in UTC.
        typing: return at least one item, of which only the type matters.

    Raises:
        DefinitionError: it is not a list, or an item cannot be computed.
    """
    named = _named(expression, scope)
    if isinstance(named.data_type, ArrayType):
        return [Constant(named.data_type.elementType, value) for value in named.value]
    call = expression.tree.unnest()
    name = function_name(call)
    arguments = [_argument(node, expression) for node in call.expressions]
    if name == "timeseries" and len(arguments) == 2:
        step, steps = (scalar(argument, scope) for argument in arguments)
        return timeseries(step.value, max(_count(steps), 1) if typing else _count(steps), moment)
    if name == "sequence" and len(arguments) in {2, 3}:
        return _sequence([scalar(argument, scope) for argument in arguments], expression)
    if name == "array" and not arguments:
        return [Constant(StringType(), None)] if typing else []
    if name == "array":
        return _array(arguments, scope, expression)
    raise DefinitionError(
        f"{expression.text!r} is no list; write array(a, …), sequence(first, last) or "
        "timeseries('1 day', 2)"
    )


def timeseries(step: object, count: int, moment: datetime) -> list[Constant]:
    """Return ``count`` times, a step apart, up to a moment truncated to the unit; newest first.

    Weeks begin on Mondays.

    Raises:
        DefinitionError: the step is invalid.
    """
    match = _STEP.fullmatch(step) if isinstance(step, str) else None
    if match is None:
        raise DefinitionError(
            f"{step!r} is no step of a time series; write '1 day', or another number of hours, "
            "days, weeks or months"
        )
    size, unit = int(match[1]), match[2].lower()
    last = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    if unit != "hour":
        last = last.replace(hour=0)
    if unit == "week":
        last -= timedelta(days=last.weekday())
    if unit == "month":
        last = last.replace(day=1)
    try:
        times = [_before(last, unit, number * size) for number in range(count)]
    except (OverflowError, ValueError):
        raise DefinitionError(
            f"a time series of {count} steps of {step!r} begins before year 1"
        ) from None
    return [Constant(TimestampType(), time) for time in times]


def _before(last: datetime, unit: str, units: int) -> datetime:
    if unit != "month":
        return last - timedelta(**{f"{unit}s": units})
    year, month = divmod(last.year * 12 + last.month - 1 - units, 12)
    return last.replace(year=year, month=month + 1)


def _count(steps: Constant) -> int:
    if not isinstance(steps.data_type, IntegralType) or steps.value not in range(_MOST + 1):
        raise DefinitionError(
            f"a time series has {steps.value!r} steps; give a whole number from 0 to {_MOST:,}"
        )
    return int(steps.value)


def _sequence(bounds: list[Constant], expression: Expression) -> list[Constant]:
    """Return whole numbers, or days, from the first to the last, inclusive."""
    first, last, *steps = bounds
    kinds = (IntegralType, DateType) if not steps else (IntegralType,)
    values = [bound.value for bound in bounds]
    alike_ones = first.data_type == last.data_type and isinstance(first.data_type, kinds)
    if not alike_ones or None in values or (steps and values[2] == 0):
        raise DefinitionError(
            f"{expression.text!r} cannot be listed; give two whole numbers, with or without a "
            "step, or two dates"
        )
    numbers = [v.toordinal() if isinstance(v, date) else int(v) for v in values[:2]]
    direction = 1 if numbers[1] >= numbers[0] else -1
    step = int(values[2]) if steps else direction
    if step * direction < 0 or abs(numbers[1] - numbers[0]) // abs(step) >= _MOST:
        raise DefinitionError(f"{expression.text!r} does not end, or has over {_MOST:,} items")
    found = range(numbers[0], numbers[1] + direction, step)
    is_days = isinstance(first.data_type, DateType)
    return [Constant(first.data_type, date.fromordinal(n) if is_days else n) for n in found]


def _array(
    items: list[Expression], scope: Mapping[str, Constant], expression: Expression
) -> list[Constant]:
    terms = [analysed(item, {}, ZONE, scope) for item in items]
    known = [term for term in terms if term is not None]
    found = alike(known) if len(known) == len(terms) else None
    if found is None:
        raise DefinitionError(
            f"{expression.text!r} cannot be listed; give items of one type that the page "
            "docs/expressions.md lists"
        )
    return [value_of(term, expression.text) for term in found]


def _argument(node: exp.Expr, expression: Expression) -> Expression:
    """Return a part of an expression; it keeps the text of the whole, for messages."""
    names = dict.fromkeys(column.name for column in node.find_all(exp.Column))
    return Expression(expression.text, tuple(names), node)
