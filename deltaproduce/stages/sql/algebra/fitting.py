"""Fitting: comparisons and products whose types Spark refuses, whatever its settings.

The invariant: what is refused here, Spark refuses; what is not may still be refused by Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.algebra.relations import Relation
from deltaproduce.stages.sql.algebra.scalars import Field, Scalar, columns_in, readable
from deltaproduce.stages.sql.syntax import spelled
from deltaproduce.stages.sql.text import line_at
from deltaproduce.types.data_types import BooleanType, DataType, DatetimeType, NumericType

_COMPARISONS: Final = (
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.In, exp.Between),
)
_PRODUCTS: Final = (exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
_FAMILIES: Final = (NumericType, DatetimeType, BooleanType)


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


def _check(node: exp.Expr, fields: tuple[Field, ...]) -> None:
    kinds = [kind for part in _operands(node) if (kind := _type(part, fields)) is not None]
    families = {family for kind in kinds for family in _FAMILIES if isinstance(kind, family)}
    if isinstance(node, _COMPARISONS):
        fits = not families >= {NumericType, DatetimeType}
    else:
        fits = not families & {DatetimeType, BooleanType}
    if not fits:
        told = ", ".join(dict.fromkeys(kind.simpleString() for kind in kinds))
        raise DefinitionError(
            f"{readable(spelled(node))!r} does not fit the types of its parts: {told}; cast them",
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
