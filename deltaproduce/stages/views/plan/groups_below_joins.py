"""Groups below a left or right join: rows that are counted for each row beside them.

``SELECT c.id, count(o.id) FROM c LEFT JOIN o ON o.customer = c.id GROUP BY c.id`` depends on
whether a customer has orders, so a change of one looks for all others of the customer. If no key of
``o`` finds these, the orders are grouped by customer first: a table keeps the groups, the join has
at most one of them for each customer, and counts are sums of counts (Yan and Larson 1995). The
invariant: the values are the same, bit by bit, and nothing fails that did not fail before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from sqlglot import exp

from deltaproduce.stages.sql.algebra.binding import names_constant
from deltaproduce.stages.sql.algebra.calls import COUNTS, AggregateExpression
from deltaproduce.stages.sql.algebra.provenance import bare
from deltaproduce.stages.sql.algebra.relations import (
    AggregateRelation,
    Filter,
    Join,
    ProjectRelation,
    Relation,
)
from deltaproduce.stages.sql.algebra.scalars import Field, Output, Scalar, cast_to
from deltaproduce.stages.sql.operators.changes.keys import JoinKey, turned
from deltaproduce.stages.sql.operators.computing import Computing
from deltaproduce.stages.sql.operators.groups import by_rows
from deltaproduce.stages.sql.operators.groups.by_states import States
from deltaproduce.stages.sql.operators.joins import join as joins
from deltaproduce.stages.sql.zoned import depends_on_zone
from deltaproduce.stages.views.plan.inlining import filtered, inlined
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.data_types import DecimalType, DoubleType, FloatType, LongType
from deltaproduce.types.pandas_on_demand import in_numpy

Call: TypeAlias = tuple[Field, AggregateExpression]

_OF_DISTINCT: Final = frozenset({"min", "max", "bool_and", "bool_or"})
"""Functions of a group's distinct values, and so of their own values for parts of it."""
_MOST_DIGITS: Final = 28
"""A sum of decimals with so many digits has ten more."""
_OF_LONGS: Final = DecimalType(20, 0)
"""A type that holds all values of bigint."""


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
        outer_calls: functions over the join with groups, one for each of its own.
        values: its own functions by these.
    """

    join: Join
    kept: Relation
    padded: Relation
    conditions: tuple[Scalar, ...]
    filters: tuple[Scalar, ...]
    by: tuple[Field, ...]
    calls: tuple[Call, ...]
    over: AggregateRelation
    outer_calls: tuple[Call, ...]
    values: tuple[Output, ...]

    @staticmethod
    def of(aggregate: AggregateRelation, numbers: Iterator[int]) -> GroupsBelowJoin | None:
        """Return a GROUP BY as such a one; None if it is another.

        Args:
            numbers: those of the fields that are added.
        """
        over = inlined(aggregate) if States.are_kept(aggregate) else None
        if over is None:
            return None
        filters, join = filtered(over.input)
        sides = _Sides.of(join)
        if not isinstance(join, Join) or sides is None or any(one.may_fail for one in join.rest):
            return None
        conditions = tuple(one for one in join.rest if sides.are_kept([one]))
        others = tuple(one for one in join.rest if one not in conditions)
        around = (*(key.scalar for key in over.keys), *filters)
        if not sides.are_padded(others) or not sides.are_kept(around):
            return None
        parts = [_with_groups(call, sides, numbers) for call in over.calls]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        values = tuple(part.value for part in known)
        if not over.keys:  # of no rows, a sum is null
            values = tuple(
                Output(one.field, _or_number(one.field, 0)) if call.function in COUNTS else one
                for one, (_, call) in zip(values, over.calls, strict=True)
            )
        return GroupsBelowJoin(
            join,
            sides.kept,
            sides.padded,
            conditions,
            others,
            tuple(dict.fromkeys(one.right for one in sides.linked)),
            tuple(part.inner for part in known if part.inner is not None),
            over,
            tuple(part.outer for part in known),
            values,
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
        filters, _ = filtered(self.over.input)
        for condition in filters:
            joined = Filter(joined, condition)
        return AggregateRelation(joined, self.over.keys, self.outer_calls)

    def rows(self, aggregate: Relation) -> Relation:
        """Return the rows of the GROUP BY as the query has it.

        Args:
            aggregate: those of `aggregate`.
        """
        if all(bare(one) == one.field.id for one in self.values):
            return aggregate
        keys = (Output.copy(key.field) for key in self.over.keys)
        return ProjectRelation(aggregate, (*keys, *self.values))


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


@dataclass(frozen=True, slots=True)
class _Part:
    """A function over a join, by one over the join with groups.

    Attributes:
        inner: a function of groups of the padded side; None for one of the kept side.
        outer: a function over the join with groups.
        value: what the function is by this one.
    """

    inner: Call | None
    outer: Call
    value: Output


def _with_groups(call: Call, sides: _Sides, numbers: Iterator[int]) -> _Part | None:
    """Return a function by one of groups; None if it is not the same."""
    result, given = call
    own, is_of_distinct = given.scalars, given.function in _OF_DISTINCT
    if is_of_distinct and sides.are_kept(own):
        return _Part(None, call, Output.copy(result))
    is_count = given.function in COUNTS
    inner = given if is_of_distinct or is_count else _sum_that_fits(given, sides.padded)
    nulls = None if inner is None else _value_of_nulls(given, sides)
    if inner is None or nulls is None or not (is_count or nulls.null_count):
        return None
    field = Field(f"{result.name}#{next(numbers)}", inner.data_type)
    argument = (
        _or_number(field, int(in_numpy(nulls, np.int64)[0])) if is_count else Scalar.of_field(field)
    )
    function = given.function if is_of_distinct else "sum"
    outer = AggregateExpression.of(
        function, (argument,), is_distinct=False, where=None, text=given.text
    )
    if outer.data_type != result.data_type:
        wide = Field(f"{result.name}#{next(numbers)}", outer.data_type)
        assert result.data_type is not None
        narrow = Scalar.of(cast_to(wide.tree, result.data_type), [wide], given.text)
        return _Part((field, inner), (wide, outer), Output(result, narrow))
    return _Part((field, inner), (result, outer), Output.copy(result))


def _sum_that_fits(call: AggregateExpression, padded: Relation) -> AggregateExpression | None:
    """Return a sum whose type holds that of any part of its rows; None if there is none.

    So many rows as it would take to overflow are in no stage.
    """
    if call.function != "sum" or isinstance(call.data_type, FloatType | DoubleType):
        return None
    (argument,) = call.arguments
    if isinstance(argument.data_type, DecimalType):
        return call if argument.data_type.precision <= _MOST_DIGITS else None
    if not isinstance(argument.data_type, LongType):
        return call
    tree = cast_to(argument.expression.tree.copy(), _OF_LONGS)
    whole = Scalar.of(tree, padded.fields, argument.text)
    return AggregateExpression.of(
        "sum", (whole,), is_distinct=False, where=call.where, text=call.text
    )


def _value_of_nulls(call: AggregateExpression, sides: _Sides) -> pa.Array | None:
    """Return a function's value for a row of nulls, which stands for the lack of a row.

    None if it is not certain from the text, or the function is not of the padded side alone, or may
    fail for other rows that are in a group now.
    """
    types = {one.id: one.data_type for one in sides.padded.fields if one.data_type is not None}
    if (
        not sides.are_padded(call.scalars)
        or names_constant(call.scalars)
        or any(one.may_fail or depends_on_zone(one.expression.tree, types) for one in call.scalars)
    ):
        return None
    read = _read(call.scalars)
    nulls = {name: pa.nulls(1, arrow_type(types[name])) for name in read}
    row = pa.table(nulls or {"row": pa.nulls(1, pa.bool_())})
    value = Field("value#0", call.data_type)
    one = AggregateRelation(sides.padded, (), ((value, call),))
    return by_rows.whole(one, row, Computing("UTC")).column(value.id).combine_chunks()


def _or_number(field: Field, number: int) -> Scalar:
    """Return a field's value, or a number in place of null."""
    parts = [field.tree, exp.Literal.number(number)]
    return Scalar.of(exp.Anonymous(this="coalesce", expressions=parts), [field])


def _read(scalars: Iterable[Scalar]) -> set[str]:
    return {name for scalar in scalars for name in scalar.fields}
