"""Terms: typed expressions, as a tree.

A term computes in explicit types: every implicit cast of Spark is a `Cast` of its own. The
invariant: the value of a term for a row depends on the row alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import pyarrow as pa
from typing_extensions import override

from deltaproduce.types.data_types import DataType

Kernel: TypeAlias = Callable[..., pa.Array]
"""Computes values from their Arrow type and the arguments, one row at a time or whole columns."""


@dataclass(frozen=True, slots=True)
class Term:
    """An expression.

    Attributes:
        data_type: the type of its values.
    """

    data_type: DataType

    @property
    def parts(self) -> tuple[Term, ...]:
        """The terms that it is computed from."""
        return ()

    @property
    def may_fail(self) -> bool:
        """Whether it may fail for some row."""
        return any(part.may_fail for part in self.parts)

    @property
    def reads_rows(self) -> bool:
        """Whether its values depend on the row."""
        return any(part.reads_rows for part in self.parts)


@dataclass(frozen=True, slots=True)
class Reference(Term):
    """A column, by its exact name."""

    name: str

    @property
    @override
    def reads_rows(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Constant(Term):
    """A single value, as Arrow takes it from Python; None is null."""

    value: Any


Constants: TypeAlias = Mapping[str, Constant]
"""The values of names that name no column."""

NO_CONSTANTS: Final[Constants] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Call(Term):
    """An operator or function over values, computed for whole columns.

    Attributes:
        kernel: what computes it.
        arguments: in the types that the kernel takes.
        fails: whether it may fail although none of its arguments does.
        is_strict: whether it is null if an argument is, whatever the later ones are.
    """

    kernel: Kernel
    arguments: tuple[Term, ...]
    fails: bool = False
    is_strict: bool = True

    @property
    @override
    def parts(self) -> tuple[Term, ...]:
        return self.arguments

    @property
    @override
    def may_fail(self) -> bool:
        return self.fails or any(part.may_fail for part in self.arguments)


@dataclass(frozen=True, slots=True)
class Junction(Term):
    """AND or OR: the right side is computed only where the left side does not settle it.

    Attributes:
        settled: the value that settles it: true for OR.
    """

    settled: bool
    left: Term
    right: Term

    @property
    @override
    def parts(self) -> tuple[Term, ...]:
        return self.left, self.right


@dataclass(frozen=True, slots=True)
class Case(Term):
    """The value of the first branch whose condition is true; no other is computed for a row.

    Attributes:
        branches: conditions and values; the values have its type.
        otherwise: the value where no condition is true.
    """

    branches: tuple[tuple[Term, Term], ...]
    otherwise: Term

    @property
    @override
    def parts(self) -> tuple[Term, ...]:
        return (*(part for branch in self.branches for part in branch), self.otherwise)


def is_constant(term: Term) -> bool:
    """Return whether a term reads no column."""
    return not isinstance(term, Reference) and all(map(is_constant, term.parts))
