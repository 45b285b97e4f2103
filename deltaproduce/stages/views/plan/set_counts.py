"""INTERSECT and EXCEPT by counts: how often each row is on either side.

The counts are groups of the rows of both sides, which a table keeps with their states. So a change
of a row costs that row, where the sides would be searched for equal ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from deltaproduce.stages.sql.algebra.calls import AggregateExpression
from deltaproduce.stages.sql.algebra.expanding import TIMES, Generate
from deltaproduce.stages.sql.algebra.relations import (
    AggregateRelation,
    ProjectRelation,
    Relation,
    SetOperation,
)
from deltaproduce.stages.sql.algebra.scalars import Field, Output, Scalar
from deltaproduce.types.data_types import IntegerType


@dataclass(frozen=True, slots=True)
class SetCounts:
    """The rows of both sides of a set operation, by their values.

    Attributes:
        operation: INTERSECT or EXCEPT.
        groups: each distinct row, with its numbers on both sides; its keys are in the order of the
            operation's fields.
    """

    operation: SetOperation
    groups: AggregateRelation

    @staticmethod
    def of(operation: SetOperation, first_number: int) -> SetCounts:
        """Return the counts of a set operation.

        Args:
            first_number: the number of the first field that is added.
        """
        names = [*(f.name for f in operation.fields), "left", "right", "lefts", "rights"]
        ids = [f"{name}#{first_number + place}" for place, name in enumerate(names)]
        kinds = [f.data_type for f in operation.fields]
        own = [Field(*pair) for pair in zip(ids, kinds, strict=False)]
        marks = [Field(one, IntegerType()) for one in ids[len(own) : -2]]
        left = _marked(operation.left, own, marks, counted=0)
        right = _marked(operation.right, own, marks, counted=1)
        every = SetOperation(left, right, "union", is_all=True, own=left.fields)
        calls = [_sum(mark) for mark in marks]
        pairs = zip(ids[-2:], calls, strict=True)
        counts = tuple((Field(one, call.data_type), call) for one, call in pairs)
        return SetCounts(operation, AggregateRelation(every, tuple(map(Output.copy, own)), counts))

    def rows(self, counted: Relation) -> Relation:
        """Return the operation's rows.

        Args:
            counted: a relation with the rows and fields of the groups.
        """
        counts = [field for field, _ in self.groups.calls]
        times = Scalar.of(self._times(*(field.tree for field in counts)), counts)
        repeated = Generate(counted, (), "as often as counted", TIMES, (times,), is_outer=False)
        keys = [key.field for key in self.groups.keys]
        pairs = zip(self.operation.fields, keys, strict=True)
        return ProjectRelation(repeated, tuple(Output.copy(old, new) for new, old in pairs))

    def _times(self, left: exp.Expr, right: exp.Expr) -> exp.Expr:
        """Return how often the operation has a row, from its numbers on both sides."""
        one, zero = exp.Literal.number(1), exp.Literal.number(0)
        if self.operation.kind == "intersect":
            least = [left, right] if self.operation.is_all else [left, right, one]
            return exp.Anonymous(this="least", expressions=least)
        if self.operation.is_all:
            more = exp.Paren(this=exp.Sub(this=left, expression=right))
            return exp.Anonymous(this="greatest", expressions=[more, zero])
        is_alone = exp.And(
            this=exp.GT(this=left, expression=zero),
            expression=exp.EQ(this=right, expression=zero.copy()),
        )
        return exp.Case(ifs=[exp.If(this=is_alone, true=one)], default=zero.copy())


def _marked(
    side: Relation, own: Sequence[Field], marks: Sequence[Field], *, counted: int
) -> ProjectRelation:
    """Return a side in some fields, with a mark that counts its rows, and one that does not."""
    outputs = [Output.copy(old, new) for new, old in zip(own, side.fields, strict=True)]
    for place, mark in enumerate(marks):
        outputs.append(Output(mark, Scalar.of(exp.Literal.number(int(place == counted)), ())))
    return ProjectRelation(side, tuple(outputs))


def _sum(mark: Field) -> AggregateExpression:
    return AggregateExpression.of(
        "sum", (Scalar.of_field(mark),), is_distinct=False, where=None, text=f"sum({mark.name})"
    )
