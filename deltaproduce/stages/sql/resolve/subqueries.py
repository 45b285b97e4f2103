"""Subqueries in expressions: EXISTS, IN and scalar ones, which become fields of the relation.

A subquery that depends on the row around it does so by conditions in its WHERE
(`CorrelatedPredicate`), which become the conditions under which its rows belong to that row. What
depends on it in another way is left to Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from deltaproduce.stages.sql.algebra.relations import Linked, Matched, Relation, Single
from deltaproduce.stages.sql.algebra.scalars import Equality, Scalar, columns_in
from deltaproduce.stages.sql.resolve.reading import CorrelatedPredicate, QueryContext, Selected
from deltaproduce.stages.sql.text import refused
from deltaproduce.types.data_types import BooleanType


@dataclass(frozen=True, slots=True)
class Added:
    """A relation with the field that a subquery becomes, and the field as an expression."""

    relation: Relation
    tree: exp.Expr


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions under which a subquery's rows belong to a row around it."""

    equal: tuple[Equality, ...]
    rest: tuple[Scalar, ...]


def exists(subquery: Selected, relation: Relation, reading: QueryContext) -> Added | None:
    """Return what EXISTS becomes; None if only Spark computes it."""
    conditions = linked(subquery, relation, reading)
    if conditions is None or subquery.otherwise is not None:  # that row would exist, too
        return None
    field = reading.field("exists", BooleanType())
    links = links_of(subquery, relation, reading)
    matched = Matched(
        relation, subquery.relation, field, conditions.equal, conditions.rest, linked=links
    )
    return Added(matched, field.tree)


def among(
    node: exp.Expr,
    value: exp.Expr,
    subquery: Selected,
    relation: Relation,
    reading: QueryContext,
    *,
    is_filter: bool,
) -> Added | None:
    """Return what IN with a subquery becomes; None if only Spark computes it.

    Args:
        value: the value that is looked for, resolved.
        is_filter: whether null is no other answer than false; only then are several columns looked
            for.

    Raises:
        DefinitionError: the subquery has another number of columns.
    """
    width = len(value.expressions) if isinstance(value, exp.Tuple) else 1
    if len(subquery.columns) != width:
        raise refused(node, f"compares {width} columns with {len(subquery.columns)}")
    conditions = linked(subquery, relation, reading)
    if (
        conditions is None
        or subquery.otherwise is not None
        or (width > 1 and not is_filter)
        or not _names(value) <= _ids(relation)
    ):
        return None
    sides = relation, subquery.relation
    values = value.expressions if width > 1 else [value]
    columns = [one.field.tree for one in subquery.columns]
    equal = tuple(
        reading.equality(one, column, sides, node)
        for one, column in zip(values, columns, strict=True)
    )
    field = reading.field("in", BooleanType())
    links = links_of(subquery, relation, reading)
    if is_filter and width > 1:
        every = (*conditions.equal, *equal)
        matched = Matched(*sides, field, every, conditions.rest, linked=links)
    else:
        matched = Matched(*sides, field, conditions.equal, conditions.rest, equal, links)
    return Added(matched, field.tree)


def single(
    node: exp.Expr, subquery: Selected, relation: Relation, reading: QueryContext
) -> Added | None:
    """Return what a scalar subquery becomes; None if only Spark computes it.

    Raises:
        DefinitionError: it has several columns.
    """
    if len(subquery.columns) != 1:
        raise refused(node, f"has {len(subquery.columns)} columns; a value has one")
    conditions = linked(subquery, relation, reading)
    if conditions is None or conditions.rest:
        return None
    field = subquery.columns[0].field
    links = links_of(subquery, relation, reading)
    joined = Single(relation, subquery.relation, field, conditions.equal, subquery.otherwise, links)
    return Added(joined, field.tree)


def links_of(subquery: Selected, relation: Relation, reading: QueryContext) -> Linked | None:
    """Return how a subquery depends on the row around it; None if it is no plain SELECT."""
    if subquery.rows is None:
        return None
    fields = (*relation.fields, *subquery.rows.fields)
    links = (reading.typed(link.tree, fields, link.node) for link in subquery.row_links)
    return Linked(subquery.rows, tuple(links))


def linked(subquery: Selected, relation: Relation, reading: QueryContext) -> Conditions | None:
    """Return the conditions of a subquery; None if only Spark knows what it depends on."""
    equal, rest = list[Equality](), list[Scalar]()
    sides = relation, subquery.relation
    for link in subquery.links:
        sided = _sided(link, sides)
        if sided is not None:
            equal.append(reading.equality(*sided, sides, link.node))
        elif _names(link.tree) <= _ids(relation) | _ids(subquery.relation):
            fields = (*relation.fields, *subquery.relation.fields)
            rest.append(reading.condition(link.tree, fields, link.node))
        else:
            return None
    return Conditions(tuple(equal), tuple(rest)) if _are_apart(sides) else None


def _sided(
    link: CorrelatedPredicate, sides: Sequence[Relation]
) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the two sides of an equality, the one over the relation first; None if it is none."""
    if not isinstance(link.tree, exp.EQ | exp.NullSafeEQ):
        return None
    one, other = link.tree.this, link.tree.expression
    for first, second in ((one, other), (other, one)):
        if _names(first) <= _ids(sides[0]) and _names(second) <= _ids(sides[1]):
            return first, second
    return None


def _names(tree: exp.Expr) -> set[str]:
    return {column.name for column in columns_in(tree)}


def _ids(relation: Relation) -> set[str]:
    return {field.id for field in relation.fields}


def _are_apart(sides: Sequence[Relation]) -> bool:
    return _ids(sides[0]).isdisjoint(_ids(sides[1]))
