"""Inlining: a GROUP BY over a join, without projections between them.

The expressions of the projections take the places of their fields, so that all others are over
fields of the join. A projection that may fail stays: inside of another expression, it may be
computed for fewer rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from deltaproduce.stages.sql.algebra.calls import AggregateExpression
from deltaproduce.stages.sql.algebra.relations import (
    AggregateRelation,
    Filter,
    Join,
    ProjectRelation,
    Relation,
)
from deltaproduce.stages.sql.algebra.scalars import Field, Output, Scalar


def inlined(aggregate: AggregateRelation) -> AggregateRelation | None:
    """Return a GROUP BY over filters over a join, without projections between them.

    None if it is over something else, or a projection may fail.
    """
    layers, below = list[ProjectRelation | Filter](), aggregate.input
    while isinstance(below, ProjectRelation | Filter):
        layers.append(below)
        below = below.input
    if not isinstance(below, Join):
        return None
    inlining = _Inlining({}, below.fields)
    rows: Relation = below
    for layer in reversed(layers):
        if isinstance(layer, Filter):
            rows = Filter(rows, inlining.of(layer.condition))
        elif any(one.scalar.may_fail for one in layer.outputs):
            return None
        else:
            trees = {one.field.id: inlining.of(one.scalar).expression.tree for one in layer.outputs}
            inlining = _Inlining(trees, below.fields)
    keys = tuple(Output(one.field, inlining.of(one.scalar)) for one in aggregate.keys)
    calls = tuple((field, inlining.of_call(call)) for field, call in aggregate.calls)
    return AggregateRelation(rows, keys, calls)


@dataclass(frozen=True, slots=True)
class _Inlining:
    """Expressions over a projection, with its own in place of its fields.

    Attributes:
        trees: the projection's fields -> their expressions; empty if there is none.
        fields: those that these read.
    """

    trees: Mapping[str, exp.Expr]
    fields: Sequence[Field]

    def of(self, scalar: Scalar) -> Scalar:
        """Return an expression."""
        if not self.trees:
            return scalar
        tree = scalar.expression.tree.copy().transform(self._of_node)
        return Scalar.of(tree, self.fields, scalar.text)

    def of_call(self, call: AggregateExpression) -> AggregateExpression:
        """Return a call of a function."""
        arguments = tuple(map(self.of, call.arguments))
        where = None if call.where is None else self.of(call.where)
        return replace(call, arguments=arguments, where=where)

    def _of_node(self, node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.name not in self.trees:
            return node
        tree = self.trees[node.name].copy()
        return tree if isinstance(tree, exp.Column) else exp.Paren(this=tree)


def filtered(relation: Relation) -> tuple[list[Scalar], Relation]:
    """Return the conditions of filters, the first one first, and what they filter."""
    conditions = list[Scalar]()
    while isinstance(relation, Filter):
        conditions.insert(0, relation.condition)
        relation = relation.input
    return conditions, relation
