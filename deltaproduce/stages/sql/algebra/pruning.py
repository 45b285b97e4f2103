"""Pruning: a relation reads the columns that count, and computes the expressions that count.

A query that reads two of a stage's hundred columns looks two of them up, and a column whose values
cannot be compared is no obstacle where it is not read. The invariant: the fields that are wanted
have the same rows, as a bag. An expression that is not wanted is not computed, so it cannot fail;
Spark has it so, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, TypeAlias

from deltaproduce.stages.sql.algebra.calls import AggregateExpression
from deltaproduce.stages.sql.algebra.expanding import Expand, Generate
from deltaproduce.stages.sql.algebra.relations import (
    AggregateRelation,
    Filter,
    Join,
    Matched,
    ProjectRelation,
    Relation,
    Scan,
    SetOperation,
    Single,
)
from deltaproduce.stages.sql.algebra.scalars import Field, Output, Scalar
from deltaproduce.stages.sql.algebra.windows import WindowCall, WindowRelation

_Fields: TypeAlias = Collection[str]
"""The ids of fields."""


def pruned(relation: Relation, wanted: Iterable[str]) -> Relation:
    """Return a relation without what does not count for some fields; it may have others, too.

    Args:
        wanted: the ids of the fields that count.
    """
    order = [*relation.walk()]
    needs = {id(one): set[str]() for one in order}
    needs[id(relation)] |= {*wanted}
    for one in reversed(order):  # those that read a relation come before it
        for given, fields in _needed(one, needs[id(one)]):
            needs[id(given)] |= fields
    done = dict[int, Relation]()
    for one in order:
        inputs = [done[id(given)] for given in one.inputs]
        done[id(one)] = _rebuilt(one, inputs, needs[id(one)])
    return done[id(relation)]


def _needed(relation: Relation, wanted: _Fields) -> Iterator[tuple[Relation, set[str]]]:
    """Yield the inputs of an operator, and which of their fields count for the wanted ones."""
    reads = _READS.get(type(relation))
    for given in relation.inputs:
        own = {field.id for field in given.fields}
        yield given, own if reads is None else own & reads(relation, wanted)


def _of_project(one: ProjectRelation, wanted: _Fields) -> set[str]:
    return _read(output.scalar for output in _outputs(one, wanted))


def _of_aggregate(one: AggregateRelation, wanted: _Fields) -> set[str]:
    keys = (key.scalar for key in one.keys)
    calls = (scalar for _, call in _calls(one, wanted) for scalar in call.scalars)
    return _read(keys) | _read(calls)


def _of_conditions(one: Relation, wanted: _Fields) -> set[str]:
    return {*wanted} | _read(one.scalars)


def _of_single(one: Single, wanted: _Fields) -> set[str]:
    alternative = () if one.otherwise is None else one.otherwise.fields
    return _of_conditions(one, wanted) | {one.taken.id} | {field.id for field in alternative}


def _of_union(one: SetOperation, wanted: _Fields) -> set[str]:
    if one.kind != "union" or not one.is_all:
        return {field.id for side in one.inputs for field in side.fields}
    places = _places(one.own, wanted)
    return {side.fields[place].id for side in one.inputs for place in places}


def _of_window(one: WindowRelation, wanted: _Fields) -> set[str]:
    calls = _window_calls(one, wanted)
    if not calls:
        return {*wanted}
    return {*wanted, *(field.id for field in one.ties)} | _read(replace(one, calls=calls).scalars)


def _of_expand(one: Expand, wanted: _Fields) -> set[str]:
    lists = _lists(one, wanted)[1]
    return {*wanted} | _read(scalar for scalars in lists for scalar in scalars)


_READS: Final[Mapping[type[Relation], Callable[..., set[str]]]] = MappingProxyType(
    {
        ProjectRelation: _of_project,
        Filter: _of_conditions,
        Join: _of_conditions,
        Matched: _of_conditions,
        Single: _of_single,
        AggregateRelation: _of_aggregate,
        SetOperation: _of_union,
        WindowRelation: _of_window,
        Expand: _of_expand,
        Generate: _of_conditions,
    }
)
"""The fields that an operator reads for wanted ones; those that are not here read all."""


def _rebuilt(relation: Relation, inputs: Sequence[Relation], wanted: _Fields) -> Relation:
    """Return an operator over other inputs, with the fields that count."""
    match relation:
        case Scan():
            places = _places(relation.own, wanted)
            columns, own = relation.columns, relation.own
            if len(places) == len(own):
                return relation
            kept = [columns[place] for place in places], [own[place] for place in places]
            return replace(relation, columns=tuple(kept[0]), own=tuple(kept[1]))
        case ProjectRelation():
            return replace(relation, input=inputs[0], outputs=_outputs(relation, wanted))
        case AggregateRelation():
            return replace(relation, input=inputs[0], calls=_calls(relation, wanted))
        case SetOperation():
            return _rebuilt_union(relation, inputs, wanted)
        case Expand():
            own, lists = _lists(relation, wanted)
            return Expand(inputs[0], own, lists)
        case WindowRelation():
            calls = _window_calls(relation, wanted)
            return replace(relation, input=inputs[0], calls=calls) if calls else inputs[0]
    is_same = all(one is other for one, other in zip(inputs, relation.inputs, strict=True))
    return relation if is_same else relation.over(inputs)


def _rebuilt_union(one: SetOperation, inputs: Sequence[Relation], wanted: _Fields) -> Relation:
    """Return a set operation whose sides have its fields by position."""
    is_all = one.kind == "union" and one.is_all
    places = _places(one.own, wanted) if is_all else range(len(one.own))
    left, right = (
        _exactly(new, [old.fields[place] for place in places])
        for new, old in zip(inputs, one.inputs, strict=True)
    )
    return replace(one, left=left, right=right, own=tuple(one.own[place] for place in places))


def _exactly(relation: Relation, fields: Sequence[Field]) -> Relation:
    """Return a relation that has some of its fields, in this order, and no others."""
    if list(relation.fields) == list(fields):
        return relation
    return ProjectRelation(relation, tuple(map(Output.copy, fields)))


def _outputs(one: ProjectRelation, wanted: _Fields) -> tuple[Output, ...]:
    return tuple(one.outputs[place] for place in _places(one.fields, wanted))


def _calls(
    one: AggregateRelation, wanted: _Fields
) -> tuple[tuple[Field, AggregateExpression], ...]:
    counted = [pair for pair in one.calls if pair[0].id in wanted]
    return tuple(counted if counted or one.keys else one.calls[:1])


def _lists(
    one: Expand, wanted: _Fields
) -> tuple[tuple[Field, ...], tuple[tuple[Scalar, ...], ...]]:
    places = _places(one.own, wanted)
    lists = (tuple(scalars[place] for place in places) for scalars in one.lists)
    return tuple(one.own[place] for place in places), tuple(lists)


def _window_calls(one: WindowRelation, wanted: _Fields) -> tuple[tuple[Field, WindowCall], ...]:
    return tuple(pair for pair in one.calls if pair[0].id in wanted)


def _places(fields: Sequence[Field], wanted: _Fields) -> list[int]:
    """Return the positions of the wanted fields; the first one if none is, to count rows."""
    return [place for place, field in enumerate(fields) if field.id in wanted] or [0]


def _read(scalars: Iterable[Scalar]) -> set[str]:
    return {name for scalar in scalars for name in scalar.fields}
