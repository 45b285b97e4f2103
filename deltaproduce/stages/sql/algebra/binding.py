"""Binding: the constants that relations name, and relations with their values in place of names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Any

from sqlglot import exp

from deltaproduce.stages.sql.algebra.relations import Relation
from deltaproduce.stages.sql.algebra.scalars import Scalar
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.literals import constant_of, written_constant
from deltaproduce.stages.sql.expressions.terms import Constants


def names_constant(scalars: Iterable[Scalar]) -> bool:
    """Return whether expressions name a constant."""
    return any(one.constants for one in scalars)


def bound(relation: Relation, constants: Constants) -> Relation:
    """Return the same rows, with literals in place of the names of constants.

    An operator that is read twice stays one.
    """
    done = dict[int, Relation]()
    for one in relation.walk():
        inputs = [done[id(given)] for given in one.inputs]
        is_same = all(a is b for a, b in zip(inputs, one.inputs, strict=True))
        relation_bound = one if is_same else one.over(inputs)
        done[id(one)] = (
            _bound(relation_bound, constants) if names_constant(one.scalars) else relation_bound
        )
    return done[id(relation)]


def _bound(value: Any, constants: Constants) -> Any:  # noqa: ANN401 any part of an operator
    """Return a part of an operator with literals; its inputs stay."""
    match value:
        case Scalar():
            return replace(
                value,
                expression=_written(value.expression, constants),
                constants={},
            )
        case tuple():
            return tuple(_bound(one, constants) for one in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    parts = {one.name: getattr(value, one.name) for one in fields(value) if one.init}
    changed = {
        name: bound_part
        for name, part in parts.items()
        if not isinstance(part, Relation) and (bound_part := _bound(part, constants)) is not part
    }
    return replace(value, **changed) if changed else value


def _written(expression: Expression, constants: Constants) -> Expression:
    def written(node: exp.Expr) -> exp.Expr:
        known = constant_of(node)
        return node if known is None else written_constant(constants.get(node.name, known))

    tree = expression.tree.copy().transform(written)
    return Expression(tree.sql("spark"), expression.columns, tree)
