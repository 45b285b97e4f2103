"""LATERAL in FROM: a subquery or generator for each row of what comes before it.

A subquery that depends on the row by conditions in its WHERE is a join by these. An aggregate
without GROUP BY has a row for each row, so it is a left join to groups by what it is linked by,
with counts of 0 where there is no group. The first rows in an order are numbered for each row. What
depends on the row in another way is left to Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from deltaproduce.stages.sql.algebra.calls import COUNTS
from deltaproduce.stages.sql.algebra.relations import (
    AggregateRelation,
    Distinct,
    Join,
    JoinKind,
    ProjectRelation,
    Relation,
)
from deltaproduce.stages.sql.algebra.scalars import Field, Output, Scalar, columns_in
from deltaproduce.stages.sql.resolve.ordering import first_of_each
from deltaproduce.stages.sql.resolve.reading import (
    CorrelatedPredicate,
    First,
    QueryContext,
    Selected,
)
from deltaproduce.stages.sql.resolve.subqueries import linked


def beside_rows(
    subquery: Selected, left: Relation, kind: JoinKind, reading: QueryContext
) -> tuple[Relation, list[Field]] | None:
    """Return rows with those of a subquery that depends on them, and the fields of its columns.

    Args:
        kind: ``inner``, or ``left`` to keep rows for which the subquery has none.

    Returns:
        None if only Spark computes it.
    """
    if kind not in {"inner", "left"} or subquery.is_open:
        return None
    if subquery.first is not None:
        return _of_first_rows(subquery.first, left, kind, reading)
    if subquery.by_links is None:
        conditions = linked(subquery, left, reading)
        if conditions is None:
            return None
        join = Join(left, subquery.relation, kind, conditions.equal, conditions.rest)
        return join, [one.field for one in subquery.columns]
    return _of_one_row(subquery, left, reading)


def _of_first_rows(
    first: First, left: Relation, kind: JoinKind, reading: QueryContext
) -> tuple[Relation, list[Field]] | None:
    """Return rows with the first ones of a subquery for each, whatever links them.

    The distinct values that the subquery depends on are joined with all its rows, and then with
    the rows that have them.
    """
    selected = first.selected
    conditions = None if selected.by_links is not None else linked(selected, left, reading)
    if conditions is None:
        return None
    named = {c.name for link in selected.links for c in columns_in(link.tree)}
    given = [field for field in left.fields if field.id in named]
    if not given:
        return None
    copies = {one.id: reading.field(one.name, one.data_type) for one in given}
    outputs = tuple(Output.copy(one, copies[one.id]) for one in given)
    distinct = Distinct(ProjectRelation(left, outputs))
    links = tuple(
        CorrelatedPredicate(_renamed(link.tree, copies), link.node) for link in selected.links
    )
    of_each = linked(replace(selected, links=links), distinct, reading)
    assert of_each is not None  # the fields have other names only
    joined = Join(distinct, selected.relation, "inner", of_each.equal, of_each.rest)
    by = [*map(Scalar.of_field, copies.values())]
    rows = first_of_each(first, joined, by, reading)
    equal = []
    for one in given:
        name, copied = exp.column(one.name), copies[one.id].tree
        node = exp.NullSafeEQ(this=name, expression=name.copy())
        equal.append(reading.equality(one.tree, copied, (left, rows), node))
    return Join(left, rows, kind, tuple(equal)), [one.field for one in selected.columns]


def _renamed(tree: exp.Expr, names: Mapping[str, Field]) -> exp.Expr:
    """Return an expression over other fields."""

    def renamed(node: exp.Expr) -> exp.Expr:
        is_known = isinstance(node, exp.Column) and node.name in names
        return names[node.name].tree if is_known else node

    return tree.copy().transform(renamed)


def _of_one_row(
    subquery: Selected, left: Relation, reading: QueryContext
) -> tuple[Relation, list[Field]] | None:
    project = subquery.by_links
    if not isinstance(project, ProjectRelation) or not isinstance(project.input, AggregateRelation):
        return None
    groups = project.input
    conditions = linked(replace(subquery, relation=groups), left, reading)
    if conditions is None or conditions.rest:
        return None
    joined = Join(left, groups, "left", conditions.equal)
    counts = {field.id for field, call in groups.calls if call.function in COUNTS}
    fields = [one.field for one in subquery.columns]
    own = {field.id for field in fields}
    outputs = [
        Output(out.field, _with_zeros(out.scalar, counts, joined.fields))
        for out in project.outputs
        if out.field.id in own
    ]
    kept = [Output.copy(field) for field in left.fields]
    return ProjectRelation(joined, (*kept, *outputs)), fields


def _with_zeros(scalar: Scalar, counts: set[str], fields: Sequence[Field]) -> Scalar:
    """Return an expression in which counts are 0 where there is no group."""

    def counted(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.name not in counts:
            return node
        zero = exp.Literal.number(0)
        return exp.Anonymous(this="coalesce", expressions=[node.copy(), zero])

    return Scalar.of(scalar.expression.tree.copy().transform(counted), fields, scalar.text)
