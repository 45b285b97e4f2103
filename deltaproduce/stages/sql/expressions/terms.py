"""Terms: expressions whose types are known, as a tree.

A term says what is computed, in the types in which it is: every implicit cast of Spark's is a
`Cast` of its own. The invariant: what a term gives of a row depends on the row alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import DataType


@dataclass(frozen=True, slots=True)
class Term:
    """An expression.

    Attributes:
        data_type: that of its values.
    """

    data_type: DataType

    @property
    def parts(self) -> tuple[Term, ...]:
        """What it is computed of."""
        return ()

    @property
    def may_fail(self) -> bool:
        """Whether it may fail for some row."""
        return any(part.may_fail for part in self.parts)


@dataclass(frozen=True, slots=True)
class Reference(Term):
    """A column, by its exact name."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant(Term):
    """One value, as Arrow takes it from Python; None is null."""

    value: Any


@dataclass(frozen=True, slots=True)
class Call(Term):
    """An operator or function of values, computed for whole columns.

    Attributes:
        function: its name among the `kernels`.
        arguments: in the types in which it takes them.
        fails: whether it may fail where none of its arguments does.
        is_strict: whether it is null where an argument is, whatever those after it are.
    """

    function: str
    arguments: tuple[Term, ...]
    fails: bool = False
    is_strict: bool = True

    @property
    def parts(self) -> tuple[Term, ...]:
        """See `Term.parts`."""
        return self.arguments

    @property
    def may_fail(self) -> bool:
        """See `Term.may_fail`."""
        return self.fails or any(part.may_fail for part in self.arguments)


@dataclass(frozen=True, slots=True)
class Junction(Term):
    """AND, or OR: what is on the right is computed where the left does not settle it.

    Attributes:
        settled: what settles it: true for OR.
    """

    settled: bool
    left: Term
    right: Term

    @property
    def parts(self) -> tuple[Term, ...]:
        """See `Term.parts`."""
        return self.left, self.right


@dataclass(frozen=True, slots=True)
class Case(Term):
    """The value of the first branch whose condition is true; of a row no other is computed.

    Attributes:
        branches: conditions and values, which are of its type.
        otherwise: where none is true.
    """

    branches: tuple[tuple[Term, Term], ...]
    otherwise: Term

    @property
    def parts(self) -> tuple[Term, ...]:
        """See `Term.parts`."""
        return (*(part for branch in self.branches for part in branch), self.otherwise)
