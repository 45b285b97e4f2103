"""Groups below a left or right join: rows that are counted for each row beside them.

``SELECT c.id, count(o.id) FROM c LEFT JOIN o ON o.customer = c.id GROUP BY c.id`` depends on
whether a customer has orders, so a change of one looks for all others of the customer. If no key of
``o`` finds these, the orders are grouped by customer first: a table keeps the groups, the join has
at most one of them for each customer, and counts are sums of counts (Yan and Larson 1995). The
invariant: the values are the same, bit by bit, and nothing fails that did not fail before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from sqlglot import exp

from deltaproduce.stages.sql.algebra.binding import names_constant
from deltaproduce.stages.sql.algebra.calls import COUNTS, AggregateExpression
from deltaproduce.stages.sql.algebra.relations import (
    AggregateRelation,
    Filter,
    Join,
    ProjectRelation,
    Relation,
)
from deltaproduce.stages.sql.algebra.scalars import Field, Output, Scalar
from deltaproduce.stages.sql.operators.changes.keys import JoinKey, turned
from deltaproduce.stages.sql.operators.computing import Computing
from deltaproduce.stages.sql.operators.groups import by_rows
from deltaproduce.stages.sql.operators.groups.by_states import States
from deltaproduce.stages.sql.operators.joins import join as joins
from deltaproduce.stages.sql.zoned import depends_on_zone
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.pandas_on_demand import in_numpy

Call: TypeAlias = tuple[Field, AggregateExpression]

_OF_DISTINCT: Final = frozenset({"min", "max", "bool_and", "bool_or"})
"""Functions of a group's distinct values, and so of their own values for parts of it."""


@dataclass(frozen=True, slots=True)
class GroupsBelowJoin:
    """A GROUP BY over a left or right join, as one over groups of the rows that the join may lack.

    Attributes:
        join: the join.
        kept: the side whose rows it keeps.
        padded: the other side.
        conditions: those of the join that count for the kept side alone.
        filters: those of them that count for the other one.
        by: the fields of the padded side that must equal some of the kept one.
        calls: functions of groups of the padded side.
        over: the GROUP BY, over the filters between it and the join.
        results: its functions, over the join with groups.
    """

    join: Join
    kept: Relation
    padded: Relation
    conditions: tuple[Scalar, ...]
    filters: tuple[Scalar, ...]
    by: tuple[Field, ...]
    calls: tuple[Call, ...]
    over: AggregateRelation
    results: tuple[Call, ...]

    @staticmethod
    def of(aggregate: AggregateRelation, numbers: Iterator[int]) -> GroupsBelowJoin | None:
        """Return a GROUP BY as such a one; None if it is another.

        Args:
            numbers: those of the fields that are added.
        """
        over = _without_projects(aggregate) if States.are_kept(aggregate) else None
        if over is None:
            return None
        filters, join = _filtered(over.input)
        sides = _Sides.of(join)
        if not isinstance(join, Join) or sides is None or any(one.may_fail for one in join.rest):
            return None
        conditions = tuple(one for one in join.rest if sides.are_kept([one]))
        others = tuple(one for one in join.rest if one not in conditions)
        around = (*(key.scalar for key in over.keys), *filters)
        if not sides.are_padded(others) or not sides.are_kept(around):
            return None
        pairs = [_with_groups(call, sides, numbers) for call in over.calls]
        known = [pair for pair in pairs if pair is not None]
        if len(known) < len(pairs):
            return None
        return GroupsBelowJoin(
            join,
            sides.kept,
            sides.padded,
            conditions,
            others,
            tuple(dict.fromkeys(one.right for one in sides.linked)),
            tuple(inner for inner, _ in known if inner is not None),
            over,
            tuple(outer for _, outer in known),
        )

    def groups(self, padded: Relation) -> AggregateRelation:
        """Return the groups of the padded side.

        Args:
            padded: a relation with its rows.
        """
        for condition in self.filters:
            padded = Filter(padded, condition)
        return AggregateRelation(padded, tuple(map(Output.copy, self.by)), self.calls)

    def joined(self, kept: Relation, groups: Relation) -> Join:
        """Return the join of the kept side with groups."""
        left, right = (kept, groups) if self.kept is self.join.left else (groups, kept)
        return Join(left, right, self.join.kind, self.join.equal, self.conditions)

    def aggregate(self, joined: Relation) -> AggregateRelation:
        """Return the GROUP BY over such a join."""
        filters, _ = _filtered(self.over.input)
        for condition in filters:
            joined = Filter(joined, condition)
        return AggregateRelation(joined, self.over.keys, self.results)

    def rows(self, aggregate: Relation) -> Relation:
        """Return the rows of the GROUP BY as the query has it: a count of nothing is 0, no null.

        Args:
            aggregate: those of `aggregate`.
        """
        counts = {field.id for field, call in self.over.calls if call.function in COUNTS}
        if self.over.keys or not counts:
            return aggregate
        outputs = (
            Output(one, _or_number(one, 0)) if one.id in counts else Output.copy(one)
            for one in aggregate.fields
        )
        return ProjectRelation(aggregate, tuple(outputs))


@dataclass(frozen=True, slots=True)
class _Sides:
    """The sides of a left or right join by fields that must be equal.

    Attributes:
        linked: the left fields are those of the kept side.
    """

    kept: Relation
    padded: Relation
    linked: tuple[JoinKey, ...]

    @staticmethod
    def of(join: Relation) -> _Sides | None:
        """Return the sides of a join; None if it is another relation, or not by fields alone."""
        if not isinstance(join, Join) or join.kind not in {"left", "right"}:
            return None
        linked = joins.linked_fields(join)
        if not linked or len(linked) < len(join.equal):
            return None
        if join.kind == "left":
            return _Sides(join.left, join.right, linked)
        return _Sides(join.right, join.left, turned(linked))

    def are_kept(self, scalars: Iterable[Scalar]) -> bool:
        """Return whether expressions read fields of the kept side at most."""
        return _read(scalars) <= {field.id for field in self.kept.fields}

    def are_padded(self, scalars: Iterable[Scalar]) -> bool:
        """Return whether expressions read fields of the other side at most."""
        return _read(scalars) <= {field.id for field in self.padded.fields}


def _without_projects(aggregate: AggregateRelation) -> AggregateRelation | None:
    """Return a GROUP BY over filters over a join, without projections between them.

    None if it is over something else, or a projection may fail.
    """
    layers, below = list[ProjectRelation | Filter](), aggregate.input
    while isinstance(below, ProjectRelation | Filter):
        layers.append(below)
        below = below.input
    if not isinstance(below, Join):
        return None
    written = _Written({}, below.fields)
    rows: Relation = below
    for layer in reversed(layers):
        if isinstance(layer, Filter):
            rows = Filter(rows, written.out(layer.condition))
        elif any(one.scalar.may_fail for one in layer.outputs):
            return None
        else:
            trees = {one.field.id: written.out(one.scalar).expression.tree for one in layer.outputs}
            written = _Written(trees, below.fields)
    keys = tuple(Output(one.field, written.out(one.scalar)) for one in aggregate.keys)
    calls = tuple((field, written.out_of(call)) for field, call in aggregate.calls)
    return AggregateRelation(rows, keys, calls)


@dataclass(frozen=True, slots=True)
class _Written:
    """Expressions over a projection, with its own in place of its fields.

    Attributes:
        trees: the projection's fields -> their expressions; empty if there is none.
        fields: those that these read.
    """

    trees: Mapping[str, exp.Expr]
    fields: Sequence[Field]

    def out(self, scalar: Scalar) -> Scalar:
        """Return an expression."""
        if not self.trees:
            return scalar
        tree = scalar.expression.tree.copy().transform(self._written)
        return Scalar.of(tree, self.fields, scalar.text)

    def out_of(self, call: AggregateExpression) -> AggregateExpression:
        """Return a call of a function."""
        arguments = tuple(map(self.out, call.arguments))
        where = None if call.where is None else self.out(call.where)
        return replace(call, arguments=arguments, where=where)

    def _written(self, node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.name not in self.trees:
            return node
        tree = self.trees[node.name].copy()
        return tree if isinstance(tree, exp.Column) else exp.Paren(this=tree)


def _filtered(relation: Relation) -> tuple[list[Scalar], Relation]:
    """Return the conditions of filters, the first one first, and what they filter."""
    conditions = list[Scalar]()
    while isinstance(relation, Filter):
        conditions.insert(0, relation.condition)
        relation = relation.input
    return conditions, relation


def _with_groups(
    call: Call, sides: _Sides, numbers: Iterator[int]
) -> tuple[Call | None, Call] | None:
    """Return a function of groups, and one of its values in place of the given one.

    The first is None if the given one is of the kept side; both are, if there are no such two.
    """
    result, given = call
    own, is_of_distinct = given.scalars, given.function in _OF_DISTINCT
    if is_of_distinct and sides.are_kept(own):
        return None, call
    if not (is_of_distinct or given.function in COUNTS) or not sides.are_padded(own):
        return None
    padded = _value_of_nulls(given, sides.padded)
    if padded is None:
        return None
    field = Field(f"{result.name}#{next(numbers)}", given.data_type)
    function, argument = given.function, Scalar.of_field(field)
    if given.function in COUNTS:
        function, argument = "sum", _or_number(field, int(in_numpy(padded, np.int64)[0]))
    elif not padded.null_count:
        return None
    outer = AggregateExpression.of(
        function, (argument,), is_distinct=False, where=None, text=given.text
    )
    assert outer.data_type == result.data_type
    return (field, given), (result, outer)


def _value_of_nulls(call: AggregateExpression, padded: Relation) -> pa.Array | None:
    """Return a function's value for a row of nulls, which stands for the lack of a row.

    None if it is not certain from the text, or the function may fail for other rows that are in a
    group now.
    """
    types = {one.id: one.data_type for one in padded.fields if one.data_type is not None}
    if names_constant(call.scalars) or any(
        one.may_fail or depends_on_zone(one.expression.tree, types) for one in call.scalars
    ):
        return None
    read = _read(call.scalars)
    nulls = {name: pa.nulls(1, arrow_type(types[name])) for name in read}
    row = pa.table(nulls or {"row": pa.nulls(1, pa.bool_())})
    value = Field("value#0", call.data_type)
    one = AggregateRelation(padded, (), ((value, call),))
    return by_rows.whole(one, row, Computing("UTC")).column(value.id).combine_chunks()


def _or_number(field: Field, number: int) -> Scalar:
    """Return a field's value, or a number in place of null."""
    parts = [field.tree, exp.Literal.number(number)]
    return Scalar.of(exp.Anonymous(this="coalesce", expressions=parts), [field])


def _read(scalars: Iterable[Scalar]) -> set[str]:
    return {name for scalar in scalars for name in scalar.fields}
