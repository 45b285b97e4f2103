"""Expressions in plain Python, one row at a time, as the oracle computes them.

It shares the parser of the text with the library, but not the computation of values. Whole numbers
are unbounded here: nothing overflows as in Spark.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.literals import constant_of
from deltaproduce.stages.sql.syntax import function_name, spelled

_Row: TypeAlias = Mapping[str, Any]


def value_of(expression: Expression, row: _Row) -> Any:  # noqa: ANN401 as it may be
    """Return an expression's value for a row, given by column name.

    Raises:
        DefinitionError: it uses something that only the library and Spark support.
    """
    return _value(expression.tree, row)


def _value(node: exp.Expr, row: _Row) -> Any:  # noqa: ANN401 as it may be
    constant = constant_of(node)
    if constant is not None:
        return constant.value
    compute = _NODES.get(type(node))
    if compute is None:
        raise DefinitionError(f"{spelled(node)!r} is not known to the oracle")
    return compute(node, row)


def _alike(left: Any, right: Any) -> tuple[Any, Any]:  # noqa: ANN401 as they may be
    """Convert text to a date if the other value is one, and a date to its midnight, in UTC."""
    match left, right:
        case datetime(), datetime():
            return left, right
        case (datetime(), date()) | (date(), datetime()):
            return _midnight(left), _midnight(right)
        case date(), str():
            return left, date.fromisoformat(right)
        case str(), date():
            return date.fromisoformat(left), right
    return left, right


def _midnight(day: date) -> datetime:
    return day if isinstance(day, datetime) else datetime(day.year, day.month, day.day, tzinfo=UTC)


def _strict(compute: Callable[[Any, Any], Any]) -> Callable[[exp.Expr, _Row], Any]:
    """Return an operator that is null if an operand is."""

    def run(node: exp.Expr, row: _Row) -> Any:  # noqa: ANN401 as it may be
        left, right = _value(node.this, row), _value(node.expression, row)
        return None if left is None or right is None else compute(*_alike(left, right))

    return run


def _and(left: Any, right: Any) -> Any:  # noqa: ANN401 true, false or null
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _not(value: Any) -> Any:  # noqa: ANN401 true, false or null
    return None if value is None else not value


def _either(left: Any, right: Any) -> Any:  # noqa: ANN401 true, false or null
    return _not(_and(_not(left), _not(right)))


def _same(left: Any, right: Any) -> bool:  # noqa: ANN401 as they may be
    """Return whether values are equal; NaN equals NaN, as in Spark."""
    return bool(left == right) or (_is_nan(left) and _is_nan(right))


def _less(left: Any, right: Any) -> bool:  # noqa: ANN401 as they may be
    """Return whether a value is less than another one; NaN is the greatest, as in Spark."""
    if _is_nan(left) or _is_nan(right):
        return not _is_nan(left)
    return bool(left < right)


def _is_nan(value: Any) -> bool:  # noqa: ANN401 as it may be
    return isinstance(value, float) and math.isnan(value)


def _equal(left: Any, right: Any) -> Any:  # noqa: ANN401 true, false or null
    return None if left is None or right is None else _same(*_alike(left, right))


def _null_safe(node: exp.Expr, row: _Row) -> bool:
    left, right = _value(node.this, row), _value(node.expression, row)
    return left is right if left is None or right is None else _same(*_alike(left, right))


def _literal(node: exp.Expr, _: _Row) -> Any:  # noqa: ANN401 text or a number
    return node.this if node.is_string else int(node.this)


def _in(node: exp.Expr, row: _Row) -> Any:  # noqa: ANN401 true, false or null
    value, result = _value(node.this, row), False
    for other in node.expressions:
        result = _either(result, _equal(value, _value(other, row)))
    return result


def _between(node: exp.Expr, row: _Row) -> Any:  # noqa: ANN401 true, false or null
    value, low, high = (_value(node.args[name], row) for name in ("this", "low", "high"))
    above = None if value is None or low is None else not _less(*_alike(value, low))
    below = None if value is None or high is None else not _less(*_alike(high, value))
    return _and(above, below)


def _case(node: exp.Expr, row: _Row) -> Any:  # noqa: ANN401 as it may be
    for branch in node.args["ifs"]:
        condition = _value(branch.this, row)
        if node.this is not None:
            condition = _equal(_value(node.this, row), condition)
        if condition:
            return _value(branch.args["true"], row)
    last = node.args.get("default")
    return None if last is None else _value(last, row)


def _if(node: exp.Expr, row: _Row) -> Any:  # noqa: ANN401 as it may be
    taken = node.args["true"] if _value(node.this, row) else node.args.get("false")
    return None if taken is None else _value(taken, row)


def _remainder(left: int, right: int) -> int:
    """Return the remainder with the sign of the dividend, as in Spark."""
    remainder = abs(left) % abs(right)
    return remainder if left >= 0 else -remainder


def _negative(node: exp.Expr, row: _Row) -> Any:  # noqa: ANN401 a number
    value = _value(node.this, row)
    return None if value is None else -value


def _cast(node: exp.Expr, row: _Row) -> Any:  # noqa: ANN401 a number
    """Cast whole numbers to whole numbers, and numbers to double."""
    value, kind = _value(node.this, row), node.args["to"]
    if kind.is_type(*exp.DataType.INTEGER_TYPES):
        return None if value is None else int(value)
    if kind.is_type(exp.DataType.Type.DOUBLE):
        return None if value is None else float(value)
    raise DefinitionError(f"{spelled(node)!r} is not known to the oracle")


def _call(node: exp.Expr, row: _Row) -> Any:  # noqa: ANN401 as it may be
    compute = _CALLS.get(str(function_name(node)))
    if compute is None:
        raise DefinitionError(f"{spelled(node)!r} is not known to the oracle")
    return compute(*(_value(argument, row) for argument in node.expressions))


def _or_null(compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function of one value that returns null for null."""
    return lambda value: None if value is None else compute(value)


_CALLS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "coalesce": lambda *values: next((v for v in values if v is not None), None),
        "length": _or_null(len),
        "size": _or_null(len),
        "sort_array": _or_null(sorted),
        "year": _or_null(lambda day: day.year),
    }
)
_NODES: Final[Mapping[type[exp.Expr], Callable[[Any, _Row], Any]]] = MappingProxyType(
    {
        exp.Paren: lambda node, row: _value(node.this, row),
        exp.Column: lambda node, row: row[node.name],
        exp.Literal: _literal,
        exp.Boolean: lambda node, _: bool(node.this),
        exp.Null: lambda *_: None,
        exp.Neg: _negative,
        exp.Not: lambda node, row: _not(_value(node.this, row)),
        exp.And: lambda node, row: _and(_value(node.this, row), _value(node.expression, row)),
        exp.Or: lambda node, row: _either(_value(node.this, row), _value(node.expression, row)),
        exp.Is: lambda node, row: _value(node.this, row) is _value(node.expression, row),
        exp.In: _in,
        exp.Between: _between,
        exp.Case: _case,
        exp.If: _if,
        exp.EQ: _strict(_same),
        exp.NEQ: _strict(lambda left, right: not _same(left, right)),
        exp.LT: _strict(_less),
        exp.LTE: _strict(lambda left, right: not _less(right, left)),
        exp.GT: _strict(lambda left, right: _less(right, left)),
        exp.GTE: _strict(lambda left, right: not _less(left, right)),
        exp.NullSafeEQ: _null_safe,
        exp.Add: _strict(operator.add),
        exp.Sub: _strict(operator.sub),
        exp.Mul: _strict(operator.mul),
        exp.Mod: _strict(_remainder),
        exp.IntDiv: _strict(lambda left, right: int(Fraction(left, right))),
        exp.TryCast: _cast,
        exp.Anonymous: _call,
    }
)
