"""The operators that only Spark computes: the driver knows their columns, and not their rows.

What their rows are made from is known as for other operators, so that passes over the algebra see
through them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp
from typing_extensions import override

from deltaproduce.stages.sql.algebra.relations import Linked, Relation, Widened
from deltaproduce.stages.sql.algebra.scalars import Field, Scalar


@dataclass(frozen=True, slots=True, eq=False)
class ValueInSpark(Widened):
    """Each row, with a value that Spark computes from it.

    Attributes:
        text: what the user wrote, on one line; `tree` its names are not resolved.
        subquery: the subquery that it reads; None if it reads none.
        linked: how that depends on the row; None if it is no plain SELECT.
        named: the columns that it names, outside of the subquery.
    """

    text: str
    tree: exp.Expr
    subquery: Relation | None = None
    linked: Linked | None = None
    named: tuple[Scalar, ...] = ()

    @property
    @override
    def scalars(self) -> tuple[Scalar, ...]:
        return self.named

    @property
    @override
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,) if self.subquery is None else (self.input, self.subquery)

    @override
    def over(self, inputs: Sequence[Relation]) -> Relation:
        return replace(self, input=inputs[0], subquery=(*inputs, None)[1])

    @property
    @override
    def only_in_spark(self) -> str | None:
        return self.text

    @property
    @override
    def label(self) -> str:
        return f"Spark {self.text}"


@dataclass(frozen=True, slots=True, eq=False)
class InSpark(Relation):
    """What a clause makes of relations.

    Attributes:
        text: the clause, as the user wrote it, on one line; `tree` its names are not resolved.
        named: the columns that it names.
    """

    given: tuple[Relation, ...]
    own: tuple[Field, ...]
    text: str
    tree: exp.Expr
    named: tuple[Scalar, ...] = ()

    @property
    @override
    def scalars(self) -> tuple[Scalar, ...]:
        return self.named

    @property
    @override
    def fields(self) -> tuple[Field, ...]:
        return self.own

    @property
    @override
    def inputs(self) -> tuple[Relation, ...]:
        return self.given

    @override
    def over(self, inputs: Sequence[Relation]) -> Relation:
        return replace(self, given=tuple(inputs))

    @property
    @override
    def only_in_spark(self) -> str | None:
        return self.text

    @property
    @override
    def label(self) -> str:
        return f"Spark {self.text}"
