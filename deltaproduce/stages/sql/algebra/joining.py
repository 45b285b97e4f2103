"""Joining: inner joins by what must be equal, whatever the order of FROM, ON and WHERE.

``FROM a, b, c WHERE …`` is a cross join and a filter, as SQL has it. Here its tables are joined one
after the other by the equalities of the WHERE, and conditions on one table come before the joins;
so does IN of the groups that a HAVING leaves. The invariant: the rows are the same; a condition
that may fail is computed last, and for no row for which the others do not hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from sqlglot import exp

from deltaproduce.stages.sql.algebra.relations import (
    AggregateRelation,
    Filter,
    Join,
    Matched,
    ProjectRelation,
    Relation,
    Single,
)
from deltaproduce.stages.sql.algebra.scalars import Equality, Field, Scalar


def joined_by_equalities(relation: Relation) -> Relation:
    """Return the same rows with other joins; a relation that is not filtered or joined stays."""
    layers = list[Filter | Matched | Single]()
    base = relation
    while isinstance(base, Filter | Matched | Single):
        layers.append(base)
        base = base.input
    inputs, conditions = _flattened(base)
    if len(inputs) == 1:
        return relation
    own = _ids(base.fields)
    filters = [one for one in layers if isinstance(one, Filter) and own >= {*one.condition.fields}]
    moved = [one for one in filters if not one.condition.may_fail]
    moving = [one.condition for one in reversed(moved)]
    whole = [*conditions, *(one.condition for one in reversed(filters))]
    moving += [two for one in whole for two in _implied(one, base.fields)]
    among = [*_among_groups(layers, inputs)]
    join = _joined(inputs, [*conditions, *moving], among)
    done = {*map(id, moved), *(id(layer) for pair in among for layer in pair)}
    for layer in reversed(layers):
        if id(layer) not in done:
            join = replace(layer, input=join)
    return join


def with_ordered_joins(relation: Relation) -> Relation:
    """Return the same rows, with all inner joins by what must be equal."""
    return _ordered(relation, {})


def _ordered(relation: Relation, done: dict[int, tuple[Relation, Relation]]) -> Relation:
    """Return a relation with other joins; one that is read twice stays one.

    Args:
        done: the id of a relation -> itself, so that no other one gets its id, and what it became.
    """
    if id(relation) not in done:
        joined = joined_by_equalities(relation)
        inputs = [_ordered(one, done) for one in joined.inputs]
        is_same = all(one is other for one, other in zip(inputs, joined.inputs, strict=True))
        done[id(relation)] = relation, joined if is_same else joined.over(inputs)
    return done[id(relation)][1]


def _flattened(relation: Relation) -> tuple[list[Relation], list[Scalar]]:
    """Return the relations of inner joins, and their conditions."""
    if not isinstance(relation, Join) or relation.kind != "inner":
        return [relation], []
    (left, of_left), (right, of_right) = map(_flattened, (relation.left, relation.right))
    return [*left, *right], [*of_left, *of_right, *relation.scalars]


def _among_groups(
    layers: Sequence[Relation], inputs: Sequence[Relation]
) -> Iterator[tuple[Filter, Matched]]:
    """Yield the filters by IN of groups with a HAVING that are about one input, the first first."""
    for place in reversed(range(1, len(layers))):
        matched, above = layers[place], layers[:place]
        if not isinstance(matched, Matched) or matched.rest or not _has_having(matched.subquery):
            continue
        links = (*matched.equal, *matched.among)
        read = {name for link in links for name in link.left}
        if any(link.scalar.may_fail for link in links) or not read:
            continue
        if any(read <= _ids(one.fields) for one in inputs):
            flags = (
                one
                for one in above
                if isinstance(one, Filter) and one.condition.expression.column == matched.flag.id
            )
            yield from ((one, matched) for one in islice(flags, 1))


def _has_having(relation: Relation) -> bool:
    """Return whether rows are groups that fulfil a condition."""
    while isinstance(relation, ProjectRelation):
        relation = relation.input
    return isinstance(relation, Filter) and isinstance(relation.input, AggregateRelation)


def _implied(condition: Scalar, fields: Sequence[Field]) -> Iterator[Scalar]:
    """Yield what each branch of a condition's OR has, and what cannot fail.

    So it holds wherever the condition does, which may fail itself and then stays where it is.
    """
    branches = [
        {one.sql("spark"): one for one in _conjuncts(branch)}
        for branch in _disjuncts(condition.expression.tree)
    ]
    for text, tree in branches[0].items():
        if len(branches) > 1 and all(text in other for other in branches):
            scalar = Scalar.of(tree, fields, condition.text)
            if not scalar.may_fail:
                yield scalar


def _disjuncts(tree: exp.Expr) -> Iterator[exp.Expr]:
    bare = tree.unnest()
    if isinstance(bare, exp.Or):
        yield from _disjuncts(bare.this)
        yield from _disjuncts(bare.expression)
    else:
        yield bare


def _conjuncts(tree: exp.Expr) -> Iterator[exp.Expr]:
    bare = tree.unnest()
    if isinstance(bare, exp.And):
        yield from _conjuncts(bare.this)
        yield from _conjuncts(bare.expression)
    else:
        yield bare


def _joined(
    inputs: Sequence[Relation],
    conditions: Sequence[Scalar],
    among: Sequence[tuple[Filter, Matched]] = (),
) -> Relation:
    """Join relations one after the other; each condition holds as soon as its fields are there.

    Args:
        among: as `_among_groups` yields them.
    """
    late = [one for one in conditions if one.may_fail]
    waiting = [one for one in conditions if not one.may_fail]
    left: list[Relation] = []
    for one in inputs:
        ready, waiting = _ready(waiting, _ids(one.fields))
        left.append(_of_groups(_filtered(one, ready), among))
    join = left.pop(0)
    while left:
        place = next((n for n, one in enumerate(left) if _equal(waiting, join, one)), 0)
        other = left.pop(place)
        equal = _equal(waiting, join, other)
        by_equality = [scalar for scalar, _ in equal]
        waiting = [one for one in waiting if one not in by_equality]
        ready, waiting = _ready(waiting, _ids((*join.fields, *other.fields)))
        join = Join(join, other, "inner", tuple(one for _, one in equal), tuple(ready))
    return _filtered(join, [*waiting, *late])


def _equal(
    conditions: Iterable[Scalar], left: Relation, right: Relation
) -> list[tuple[Scalar, Equality]]:
    """Return the conditions that are equalities between two relations."""
    pairs = ((one, Equality.between(one, left.fields, right.fields)) for one in conditions)
    return [(one, equality) for one, equality in pairs if equality is not None]


def _ready(conditions: Sequence[Scalar], own: set[str]) -> tuple[list[Scalar], list[Scalar]]:
    """Separate the conditions on some fields from the others."""
    ready = [one for one in conditions if set(one.fields) <= own]
    return ready, [one for one in conditions if one not in ready]


def _of_groups(relation: Relation, among: Iterable[tuple[Filter, Matched]]) -> Relation:
    """Return an input with the filters by IN that are about it."""
    for filter_, matched in among:
        links = (*matched.equal, *matched.among)
        if {name for link in links for name in link.left} <= _ids(relation.fields):
            relation = replace(filter_, input=replace(matched, input=relation))
    return relation


def _filtered(relation: Relation, conditions: Iterable[Scalar]) -> Relation:
    for condition in conditions:
        relation = Filter(relation, condition)
    return relation


def _ids(fields: Iterable[Field]) -> set[str]:
    return {field.id for field in fields}
