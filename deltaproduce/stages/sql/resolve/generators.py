"""Generators whose rows are written out: ``explode(array(a, b))``, and ``stack(2, a, b)``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from deltaproduce.stages.sql.algebra.scalars import Field, Scalar, cast_to
from deltaproduce.stages.sql.expressions.coercion import common
from deltaproduce.stages.sql.resolve.reading import QueryContext
from deltaproduce.stages.sql.syntax import function_name
from deltaproduce.types.data_types import DataType, NullType

_COLUMNS: Final = {"explode": ("col",), "posexplode": ("pos", "col")}


def columns_of(function: str) -> Sequence[str]:
    """Return Spark's names of the columns of a generator, without ``_outer``."""
    return _COLUMNS.get(function, (function,))


def lists_in(node: exp.Expr, names: Sequence[str] = ()) -> list[list[exp.Expr]] | None:
    """Return the rows that a generator has, if its text has them; else None.

    Args:
        names: the names of its columns, if they are given.
    """
    function, given = (function_name(node) or "").removesuffix("_outer"), node.expressions
    if function in _COLUMNS and len(given) == 1 and function_name(given[0]) == "array":
        items = given[0].expressions
        if function == "explode":
            lists = [[one] for one in items]
        else:
            lists = [[exp.Literal.number(n), one] for n, one in enumerate(items)]
        return lists if not names or len(names) == len(_COLUMNS[function]) else None
    if function == "stack" and isinstance(given[0], exp.Literal) and given[0].is_int and names:
        rows, values = int(given[0].name), given[1:]
        if rows > 0 and len(values) == rows * len(names):
            width = len(names)
            return [values[width * n : width * (n + 1)] for n in range(rows)]
    return None


def alike(
    trees: Sequence[Sequence[exp.Expr]],
    nodes: Sequence[Sequence[exp.Expr]],
    names: Sequence[str],
    fields: Sequence[Field],
    reading: QueryContext,
) -> tuple[tuple[Field, ...], tuple[tuple[Scalar, ...], ...]]:
    """Return fields for the columns of rows, and the rows in the types of these.

    Args:
        trees: the expressions of each row, resolved.
        nodes: the same as they are written.
        names: the names of the columns.
    """
    rows = [
        [reading.typed(tree, fields, node) for tree, node in zip(*both, strict=True)]
        for both in zip(trees, nodes, strict=True)
    ]
    own = list[Field]()
    for place, name in enumerate(names):
        column = [row[place] for row in rows]
        kinds = [one.data_type for one in column]
        known = [kind for kind in kinds if kind is not None]
        kind = common(known) if len(known) == len(kinds) else None
        own.append(reading.field(name, kind))
        for row, node_row in zip(rows, nodes, strict=True):
            row[place] = _in_type(row[place], kind, fields, node_row[place], reading)
    return tuple(own), tuple(tuple(row) for row in rows)


def _in_type(
    scalar: Scalar,
    kind: DataType | None,
    fields: Sequence[Field],
    node: exp.Expr,
    reading: QueryContext,
) -> Scalar:
    if kind is None or scalar.data_type == kind or isinstance(scalar.data_type, NullType):
        return scalar
    return reading.typed(cast_to(scalar.expression.tree.copy(), kind), fields, node)
