"""Typing: the types of a query's columns, as far as they are certain without Spark.

The invariant: a type found here is the type that Spark finds; without a certain rule it is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DatetimeType,
    DecimalType,
    DoubleType,
    IntegralType,
    LongType,
    NullType,
    NumericType,
)
from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.partitioned.frames import UNKNOWN, Frame
from deltaproduce.stages.sql.expressions.analysis import analysed
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.scopes.clauses import Scope
from deltaproduce.stages.sql.syntax import function_name, spelled
from deltaproduce.stages.sql.text import line_at

_OF_SPARK: Final = (exp.ILike, exp.RegexpLike)
"""Tests that only Spark computes; their type is certain."""
_COUNTS: Final = frozenset({"count", "count_if", "approx_count_distinct"})
_MOST_DIGITS: Final = 38
_SAME: Final = frozenset({"min", "max", "first", "last", "any_value", "mode"})


def type_of(node: exp.Expr, frame: Frame, names: Mapping[str, str], sample: Scope) -> DataType:
    """Return the type of an expression in a SELECT; `UNKNOWN` if no rule is certain.

    Args:
        names: the names of the scope, by lower-case name.
        sample: a scope of any date.
    """
    if isinstance(node, exp.Alias):
        node = node.this
    if node.find(exp.Query, exp.Window, exp.Lambda):
        return UNKNOWN
    types = dict[str, DataType]()
    tree = node.copy()
    for call in [*tree.find_all(exp.Func, *_OF_SPARK)]:
        found = _of_call(call, frame, names, sample)
        if found is not None:
            tree = _put(tree, call, found, types)
    for column in [*tree.find_all(exp.Column)]:
        if not column.name.startswith(_PLACE):
            kind = _of_column(column, frame, names, sample)
            if kind is None:
                return UNKNOWN
            tree = _put(tree, column, kind, types)
    if any(isinstance(kind, NullType) for kind in types.values()):
        return UNKNOWN
    try:
        term = analysed(Expression(tree.sql("spark"), tuple(types), tree), types)
    except DefinitionError:  # Spark will raise it
        return UNKNOWN
    return UNKNOWN if term is None else term.data_type


def check_fit(node: exp.Expr, frame: Frame, names: Mapping[str, str], sample: Scope) -> None:
    """Refuse what Spark certainly refuses, whatever its settings; the rest is left to Spark.

    Args:
        node: a part of an expression, or a clause with a condition.
        names: the names of the scope, by lower-case name.
        sample: a scope of any date.

    Raises:
        DefinitionError: its types do not fit; with `line`.
    """
    parts = _operands(node)
    kinds = [type_of(part, frame, names, sample) for part in parts]
    kinds = [kind for kind in kinds if not isinstance(kind, NullType)]
    if isinstance(node, _CONDITIONS):
        fits = all(isinstance(kind, BooleanType) for kind in kinds)
    elif isinstance(node, _COMPARISONS):
        fits = not {NumericType, DatetimeType} <= {*map(_family, kinds)}
    else:
        fits = not any(_family(kind) in {DatetimeType, BooleanType} for kind in kinds)
    if not fits:
        told = ", ".join(dict.fromkeys(kind.simpleString() for kind in kinds))
        raise DefinitionError(
            f"{spelled(node)!r} does not fit the types of its parts: {told}; cast them",
            line=line_at(node),
        )


_CONDITIONS: Final = (exp.Where, exp.Having)
_COMPARISONS: Final = (
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.In, exp.Between),
)
_PRODUCTS: Final = (exp.Mul, exp.Div, exp.IntDiv, exp.Mod)


def _operands(node: exp.Expr) -> list[exp.Expr]:
    """Return the children of a node whose types must fit."""
    match node:
        case exp.Where() | exp.Having():
            return [node.this]
        case exp.In():
            return [node.this, *node.expressions]
        case exp.Between():
            return [node.this, node.args["low"], node.args["high"]]
        case exp.Binary() if isinstance(node, (*_COMPARISONS, *_PRODUCTS)):
            return [node.this, node.expression]
    return node.expressions if function_name(node) in {"sum", "avg", "mean"} else []


def _family(kind: DataType) -> type[DataType] | None:
    found = (
        family for family in (NumericType, DatetimeType, BooleanType) if isinstance(kind, family)
    )
    return next(found, None)


_PLACE: Final = "_place_"


def _put(tree: exp.Expr, node: exp.Expr, kind: DataType, types: dict[str, DataType]) -> exp.Expr:
    """Return a tree in which a typed column replaces a node."""
    name = f"{_PLACE}{len(types)}"
    types[name] = kind
    column = exp.column(exp.to_identifier(name, quoted=True))
    if node is tree:
        return column
    node.replace(column)
    return tree


def _of_column(
    column: exp.Column, frame: Frame, names: Mapping[str, str], sample: Scope
) -> DataType | None:
    found, first = frame.found(column), column.parts[0].name.lower()
    if found is None:
        is_name = len(column.parts) == 1 and first not in frame.aliases
        name = names.get(first) if is_name else None
        return None if name is None else sample[name].data_type
    item, name = found
    if len(column.parts) > (2 if item.alias == first else 1):
        return None  # a field of a struct
    return next(kind for output, kind in item.outputs or () if output.lower() == name)


def _of_call(
    call: exp.Expr, frame: Frame, names: Mapping[str, str], sample: Scope
) -> DataType | None:
    """Return the type of an aggregate, or of a test of Spark's; None if it is not known here."""
    if isinstance(call, _OF_SPARK):
        return BooleanType()
    name = function_name(call)
    if name in _COUNTS:
        return LongType()
    if name not in {"sum", "avg", "mean", "bool_and", "bool_or", "collect_list", *_SAME}:
        return None
    if len(call.expressions) != 1:
        return UNKNOWN
    argument = call.expressions[0]
    distinct = isinstance(argument, exp.Distinct)
    kind = type_of(argument.expressions[0] if distinct else argument, frame, names, sample)
    if isinstance(kind, NullType) or name in _SAME:
        return kind
    return _RESULTS[name](kind)


def _sum(kind: DataType) -> DataType:
    match kind:
        case IntegralType():
            return LongType()
        case DecimalType():
            return DecimalType(min(_MOST_DIGITS, kind.precision + 10), kind.scale)
        case NumericType():
            return DoubleType()
    return UNKNOWN


def _average(kind: DataType) -> DataType:
    match kind:
        case DecimalType() if kind.precision + 4 <= _MOST_DIGITS:
            return DecimalType(kind.precision + 4, kind.scale + 4)
        case DecimalType():
            return UNKNOWN
        case NumericType():
            return DoubleType()
    return UNKNOWN


_RESULTS: Final[Mapping[str, Callable[[DataType], DataType]]] = MappingProxyType(
    {
        "sum": _sum,
        "avg": _average,
        "mean": _average,
        "bool_and": lambda kind: kind if isinstance(kind, BooleanType) else UNKNOWN,
        "bool_or": lambda kind: kind if isinstance(kind, BooleanType) else UNKNOWN,
        "collect_list": lambda kind: ArrayType(kind, containsNull=False),
    }
)
