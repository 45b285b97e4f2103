"""Fitting: types that Spark refuses in comparisons and products, and intervals, which none stores.

The invariant: what is refused here, Spark or Delta refuses; what is not may still be refused by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.algebra.relations import (
    AggregateRelation,
    ProjectRelation,
    Relation,
    SetOperation,
)
from deltaproduce.stages.sql.algebra.scalars import Field, Scalar, columns_in, readable
from deltaproduce.stages.sql.syntax import function_name, spelled
from deltaproduce.stages.sql.text import line_at
from deltaproduce.types.data_types import BooleanType, DataType, DatetimeType, NumericType
from deltaproduce.types.ddl import WITHOUT_INTERVALS

_COMPARISONS: Final = (
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.In, exp.Between),
)
_PRODUCTS: Final = (exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
_FAMILIES: Final = (NumericType, DatetimeType, BooleanType)
_MAKING: Final = frozenset({"make_interval", "make_dt_interval", "make_ym_interval"})
_CHOOSING: Final = frozenset({"coalesce", "ifnull", "nvl", "nullif", "greatest", "least"})
_KEEPING: Final = frozenset({"min", "max", "sum", "avg", "median", "mode", "min_by", "max_by"})
"""Aggregate functions whose value is an interval if their first argument is."""


def check_fit(relation: Relation) -> None:
    """Refuse expressions whose parts have types that do not go together.

    Raises:
        DefinitionError: with `line`.
    """
    for one in relation.walk():
        fields = tuple(field for given in one.inputs for field in given.fields)
        for scalar in one.scalars:
            for node in () if scalar.is_plain else scalar.expression.tree.walk():
                _check(node, fields)


def check_no_intervals(relation: Relation, columns: Sequence[tuple[str, str]]) -> None:
    """Refuse results with intervals.

    Args:
        columns: the names of the columns, and the ids of their fields.

    Raises:
        DefinitionError: with `column`.
    """
    known = set[str]()
    for one in relation.walk():
        fields = tuple(field for given in one.inputs for field in given.fields)
        match one:
            case ProjectRelation():
                pairs = [(output.field, output.scalar) for output in one.outputs]
            case AggregateRelation():
                pairs = [(key.field, key.scalar) for key in one.keys]
                pairs += [
                    (field, call.arguments[0])
                    for field, call in one.calls
                    if call.function in _KEEPING and call.arguments
                ]
            case SetOperation():
                sides = zip(one.fields, one.left.fields, strict=True)
                known |= {own.id for own, left in sides if left.id in known}
                continue
            case _:
                continue
        known |= {
            field.id
            for field, scalar in pairs
            if not scalar.is_plain and _is_interval(scalar.expression.tree, fields, known)
        }
    for name, field_id in columns:
        if field_id in known:
            message = f"column {name!r} is an interval; {WITHOUT_INTERVALS}"
            raise DefinitionError(message, column=name)


def _is_interval(node: exp.Expr, fields: tuple[Field, ...], known: set[str]) -> bool:
    """Return whether an expression is an interval; False if only Spark knows."""
    match node:
        case exp.Interval():
            return True
        case exp.Column():
            return node.name in known
        case exp.Cast():
            return bool(node.args["to"].is_type(exp.DataType.Type.INTERVAL))
        case exp.Sub() if all(_is_time(side, fields) for side in (node.this, node.expression)):
            return True
    parts = [_is_interval(part, fields, known) for part in _carrying(node)]
    every = isinstance(node, exp.Add | exp.Sub)  # a date and an interval are a date
    return function_name(node) in _MAKING or (all(parts) if every else any(parts))


def _carrying(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the parts of an expression that it may have its type of."""
    match node:
        case exp.Paren() | exp.Neg() | exp.Div():
            yield node.this
        case exp.Add() | exp.Sub() | exp.Mul():
            yield from (node.this, node.expression)
        case exp.Case() | exp.If():
            yield from (branch.args["true"] for branch in node.args.get("ifs") or [node])
            yield from filter(None, (node.args.get("default"), node.args.get("false")))
    if function_name(node) in _CHOOSING:
        yield from node.expressions


def _is_time(node: exp.Expr, fields: tuple[Field, ...]) -> bool:
    """Return whether an expression is a date or a timestamp; False if only Spark knows."""
    bare = node.unnest()
    if isinstance(bare, exp.Cast):
        return bool(bare.args["to"].is_type(*exp.DataType.TEMPORAL_TYPES))
    return isinstance(_type(node, fields), DatetimeType)


def _check(node: exp.Expr, fields: tuple[Field, ...]) -> None:
    kinds = [kind for part in _operands(node) if (kind := _type(part, fields)) is not None]
    families = {family for kind in kinds for family in _FAMILIES if isinstance(kind, family)}
    if isinstance(node, _COMPARISONS):
        fits = not families >= {NumericType, DatetimeType}
    else:
        fits = not families & {DatetimeType, BooleanType}
    if not fits:
        texts = ", ".join(dict.fromkeys(kind.simpleString() for kind in kinds))
        raise DefinitionError(
            f"{readable(spelled(node))!r} does not fit the types of its parts: {texts}; cast them",
            line=line_at(node),
        )


def _operands(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the children of a node whose types must fit."""
    match node:
        case exp.In():
            yield from (node.this, *node.expressions)
        case exp.Between():
            yield from (node.this, node.args["low"], node.args["high"])
        case exp.Binary() if isinstance(node, (*_COMPARISONS, *_PRODUCTS)):
            yield from (node.this, node.expression)


def _type(node: exp.Expr, fields: tuple[Field, ...]) -> DataType | None:
    """Return the type of a part; None if only Spark knows it."""
    read = {column.name for column in columns_in(node)}
    try:
        return Scalar.of(node, [field for field in fields if field.id in read]).data_type
    except DefinitionError:  # a part of it does not fit, which is found when it is looked at
        return None
