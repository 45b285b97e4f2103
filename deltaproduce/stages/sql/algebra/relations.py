"""The operators of the relational algebra, as frozen values.

A relation is a bag of rows with `fields`. Two relations are the same only if they are one object: a
CTE that is read twice is one relation, computed once. The invariant: an expression of a relation
names fields of its inputs only, and the fields of the two sides of a join differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, Literal

from sqlglot import exp
from typing_extensions import override

from deltaproduce.stages.sql.algebra.calls import AggregateExpression
from deltaproduce.stages.sql.algebra.scalars import NESTED, Equality, Field, Output, Scalar, SortKey
from deltaproduce.types.data_types import BooleanType

JoinKind = Literal["inner", "left", "right", "full", "semi", "anti"]
SetKind = Literal["union", "intersect", "except"]

_ROW: Final = Field("row#0", BooleanType())
"""The field of the one row that a SELECT without FROM reads."""


@dataclass(frozen=True, slots=True, eq=False)
class Relation(ABC):
    """The rows that an operator returns."""

    @property
    @abstractmethod
    def fields(self) -> tuple[Field, ...]:
        """Its columns."""

    @property
    def inputs(self) -> tuple[Relation, ...]:
        """The relations that it reads."""
        return ()

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        """The expressions that it computes."""
        return ()

    @property
    def only_in_spark(self) -> str | None:
        """The first of its expressions that only Spark computes; None if there is none."""
        return next((one.text for one in self.scalars if not one.is_plain), None)

    @property
    def label(self) -> str:
        """What it does, in a line."""
        return type(self).__name__

    def over(self, inputs: Sequence[Relation]) -> Relation:
        """Return the same operator over other relations that have the fields it reads."""
        (one,) = inputs
        return replace(self, input=one)  # type: ignore[call-arg]  # of most operators

    @property
    def feeders(self) -> tuple[str, ...]:
        """The stages that it scans, each once."""
        scans = (one for one in self.walk() if isinstance(one, Scan))
        return tuple(dict.fromkeys(one.feeder for one in scans))

    def walk(self) -> Iterator[Relation]:
        """Yield all relations below it and itself, each once, inputs first."""
        seen = set[int]()
        yield from _walk(self, seen)


def _walk(relation: Relation, seen: set[int]) -> Iterator[Relation]:
    if id(relation) in seen:
        return
    seen.add(id(relation))
    for one in relation.inputs:
        yield from _walk(one, seen)
    yield relation


@dataclass(frozen=True, slots=True, eq=False)
class Scan(Relation):
    """The content of a stage.

    Attributes:
        feeder: the stage's name.
        columns: the names of its columns, one per field.
    """

    feeder: str
    columns: tuple[str, ...]
    own: tuple[Field, ...]

    def __post_init__(self) -> None:
        _check(len(self.columns) == len(self.own) > 0, self)

    @property
    @override
    def fields(self) -> tuple[Field, ...]:
        return self.own

    @property
    @override
    def only_in_spark(self) -> str | None:
        """A column whose type only Spark knows."""
        columns = zip(self.columns, self.own, strict=True)
        unknown = (column for column, field in columns if field.data_type is None)
        return next((f"{self.feeder}.{column}" for column in unknown), None)

    @property
    @override
    def label(self) -> str:
        return f"Scan {self.feeder}"


@dataclass(frozen=True, slots=True, eq=False)
class Values(Relation):
    """Rows of constants."""

    own: tuple[Field, ...]
    rows: tuple[tuple[Scalar, ...], ...]

    def __post_init__(self) -> None:
        _check(bool(self.own) and all(len(row) == len(self.own) for row in self.rows), self)
        _check_reads(self, (), self.scalars)

    @property
    @override
    def fields(self) -> tuple[Field, ...]:
        return self.own

    @property
    @override
    def scalars(self) -> tuple[Scalar, ...]:
        return tuple(scalar for row in self.rows for scalar in row)


@dataclass(frozen=True, slots=True, eq=False)
class ProjectRelation(Relation):
    """Some expressions over each row."""

    input: Relation
    outputs: tuple[Output, ...]

    def __post_init__(self) -> None:
        _check(bool(self.outputs) and _are_distinct(self.fields), self)
        _check_reads(self, self.input.fields, self.scalars)

    @property
    @override
    def fields(self) -> tuple[Field, ...]:
        return tuple(output.field for output in self.outputs)

    @property
    @override
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)

    @property
    @override
    def scalars(self) -> tuple[Scalar, ...]:
        return tuple(output.scalar for output in self.outputs)

    @property
    @override
    def label(self) -> str:
        return f"Project {', '.join(field.name for field in self.fields)}"


@dataclass(frozen=True, slots=True, eq=False)
class Filter(Relation):
    """The rows for which a condition is true."""

    input: Relation
    condition: Scalar

    def __post_init__(self) -> None:
        _check(self.condition.may_be_condition, self)
        _check_reads(self, self.input.fields, self.scalars)

    @property
    @override
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields

    @property
    @override
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)

    @property
    @override
    def scalars(self) -> tuple[Scalar, ...]:
        return (self.condition,)

    @property
    @override
    def label(self) -> str:
        return f"Filter {self.condition.text}"


@dataclass(frozen=True, slots=True, eq=False)
class Join(Relation):
    """Pairs of rows of two sides.

    Attributes:
        kind: ``left``, ``right`` and ``full`` keep rows without a partner, with nulls for it;
            ``semi`` and ``anti`` return rows of the left side that have, or have not, a partner.
        equal: what must be equal.
        rest: what else must be true of a pair, in the order written.
    """

    left: Relation
    right: Relation
    kind: JoinKind
    equal: tuple[Equality, ...] = ()
    rest: tuple[Scalar, ...] = ()

    def __post_init__(self) -> None:
        _check_sides(self, self.left, self.right, self.equal, self.rest)

    @property
    @override
    def fields(self) -> tuple[Field, ...]:
        if self.kind in {"semi", "anti"}:
            return self.left.fields
        return (*self.left.fields, *self.right.fields)

    @property
    @override
    def inputs(self) -> tuple[Relation, ...]:
        return self.left, self.right

    @override
    def over(self, inputs: Sequence[Relation]) -> Relation:
        return replace(self, left=inputs[0], right=inputs[1])

    @property
    @override
    def scalars(self) -> tuple[Scalar, ...]:
        return (*(one.scalar for one in self.equal), *self.rest)

    @property
    @override
    def label(self) -> str:
        return _join_label(f"Join {self.kind}", self.scalars)


@dataclass(frozen=True, slots=True, eq=False)
class Linked:
    """How a subquery depends on the row around it.

    Attributes:
        rows: the rows of its FROM that fulfil those conditions of its WHERE that do not name the
            row around it.
        conditions: the others, over fields of both; which of `rows` it is computed from.
    """

    rows: Relation
    conditions: tuple[Scalar, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Matched(Relation):
    """Each row of the input, and whether a subquery has a row for it: EXISTS or IN.

    Attributes:
        flag: the added field. Without `among` it is true or false.
        equal: what must be equal, and `rest` be true, of a row of the input and of the subquery.
        among: the values that IN compares; where none is equal but one of them, or of the
            subquery's, is null, the field is null.
        linked: how the subquery depends on the row; None if it is no plain SELECT.
    """

    input: Relation
    subquery: Relation
    flag: Field
    equal: tuple[Equality, ...] = ()
    rest: tuple[Scalar, ...] = ()
    among: tuple[Equality, ...] = ()
    linked: Linked | None = None

    def __post_init__(self) -> None:
        _check(isinstance(self.flag.data_type, BooleanType), self)
        _check_sides(self, self.input, self.subquery, (*self.equal, *self.among), self.rest)

    @property
    @override
    def fields(self) -> tuple[Field, ...]:
        return (*self.input.fields, self.flag)

    @property
    @override
    def inputs(self) -> tuple[Relation, ...]:
        return self.input, self.subquery

    @override
    def over(self, inputs: Sequence[Relation]) -> Relation:
        return replace(self, input=inputs[0], subquery=inputs[1])

    @property
    @override
    def scalars(self) -> tuple[Scalar, ...]:
        return (*(one.scalar for one in (*self.among, *self.equal)), *self.rest)

    @property
    @override
    def label(self) -> str:
        return _join_label("In" if self.among else "Exists", self.scalars)


@dataclass(frozen=True, slots=True, eq=False)
class Single(Relation):
    """Each row of the input, with the one row that a scalar subquery has for it.

    Attributes:
        equal: what must be equal of the two; nothing if the subquery does not depend on the row.
        otherwise: a relation of one row that stands for the subquery where it has none; None for
            nulls. Its fields are those of the subquery that the result has.
        linked: how the subquery depends on the row; None if it is no plain SELECT.
    """

    input: Relation
    subquery: Relation
    taken: Field
    equal: tuple[Equality, ...] = ()
    otherwise: Relation | None = None
    linked: Linked | None = None

    def __post_init__(self) -> None:
        _check(self.taken in self.subquery.fields, self)
        _check(self.otherwise is None or len(self.otherwise.fields) == 1, self)
        _check_sides(self, self.input, self.subquery, self.equal, ())

    @property
    @override
    def fields(self) -> tuple[Field, ...]:
        return (*self.input.fields, self.taken)

    @property
    @override
    def inputs(self) -> tuple[Relation, ...]:
        both = (self.input, self.subquery)
        return both if self.otherwise is None else (*both, self.otherwise)

    @override
    def over(self, inputs: Sequence[Relation]) -> Relation:
        return replace(
            self,
            input=inputs[0],
            subquery=inputs[1],
            otherwise=None if self.otherwise is None else inputs[2],
        )

    @property
    @override
    def scalars(self) -> tuple[Scalar, ...]:
        return tuple(one.scalar for one in self.equal)

    @property
    @override
    def label(self) -> str:
        return _join_label("Scalar subquery", self.scalars)


@dataclass(frozen=True, slots=True, eq=False)
class AggregateRelation(Relation):
    """One row for each group of rows with equal keys; without keys one row, also over no rows."""

    input: Relation
    keys: tuple[Output, ...]
    calls: tuple[tuple[Field, AggregateExpression], ...]

    def __post_init__(self) -> None:
        _check(bool(self.fields) and _are_distinct(self.fields), self)
        _check_reads(self, self.input.fields, self.scalars)

    @property
    @override
    def fields(self) -> tuple[Field, ...]:
        return (*(key.field for key in self.keys), *(field for field, _ in self.calls))

    @property
    @override
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)

    @property
    @override
    def scalars(self) -> tuple[Scalar, ...]:
        of_calls = (scalar for _, call in self.calls for scalar in call.scalars)
        return (*(key.scalar for key in self.keys), *of_calls)

    @property
    @override
    def only_in_spark(self) -> str | None:
        calls = (call.text for _, call in self.calls if not call.is_plain)
        texts = (one.text for one in self.scalars if not one.is_plain)
        return next(chain(texts, calls), None)

    @property
    @override
    def label(self) -> str:
        by = ", ".join(key.scalar.text for key in self.keys)
        calls = ", ".join(call.text for _, call in self.calls)
        return " ".join(filter(None, ("Aggregate", calls, by and f"by {by}")))


@dataclass(frozen=True, slots=True, eq=False)
class Distinct(Relation):
    """Each distinct row once."""

    input: Relation

    @property
    @override
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields

    @property
    @override
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True, eq=False)
class SetOperation(Relation):
    """UNION, INTERSECT or EXCEPT of two sides with columns of equal types, by position.

    A type that only Spark knows may be another one on each side.

    Attributes:
        is_all: whether equal rows count; if not, a row is there once.
    """

    left: Relation
    right: Relation
    kind: SetKind
    is_all: bool
    own: tuple[Field, ...]

    def __post_init__(self) -> None:
        sides = zip(self.own, self.left.fields, self.right.fields, strict=True)
        types = [{str(f.data_type) for f in same} for same in sides if same[0].data_type]
        _check(all(len(kinds) == 1 for kinds in types), self)

    @property
    @override
    def fields(self) -> tuple[Field, ...]:
        return self.own

    @property
    @override
    def inputs(self) -> tuple[Relation, ...]:
        return self.left, self.right

    @override
    def over(self, inputs: Sequence[Relation]) -> Relation:
        return replace(self, left=inputs[0], right=inputs[1])

    @property
    @override
    def only_in_spark(self) -> str | None:
        """Columns whose common type only Spark knows."""
        unknown = (field.name for field in self.own if field.data_type is None)
        return next(unknown, None)

    @property
    @override
    def label(self) -> str:
        return f"{self.kind.capitalize()}{' all' if self.is_all else ''}"


@dataclass(frozen=True, slots=True, eq=False)
class Limit(Relation):
    """The first rows in an order; rows that are equal in it are ordered by all fields, nulls first.

    Attributes:
        count: how many rows; all if None.
        offset: how many rows are left out before them.
        partition: the fields that are equal in the rows of a partition, each of which has its own
            first rows; all rows are one partition if there are none.
    """

    input: Relation
    order: tuple[SortKey, ...]
    count: int | None
    offset: int = 0
    partition: tuple[Field, ...] = ()

    @property
    def end(self) -> int:
        """How many first rows of the input it looks at, if it has a count."""
        return self.offset + (self.count or 0)

    def __post_init__(self) -> None:
        _check(bool(self.order) and self.offset >= 0 and (self.count or 0) >= 0, self)
        named = (*(key.field for key in self.order), *self.partition)
        _check(all(field in self.input.fields for field in named), self)

    @property
    @override
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields

    @property
    @override
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)

    @property
    @override
    def only_in_spark(self) -> str | None:
        """The driver orders no nested values."""
        nested = (f for f in self.fields if isinstance(f.data_type, NESTED))
        return next((field.name for field in nested), None)

    @property
    @override
    def label(self) -> str:
        by = ", ".join(f"{k.field.name}{' desc' if k.descending else ''}" for k in self.order)
        count = "" if self.count is None else f" {self.count}"
        each = ", ".join(field.name for field in self.partition)
        offset = f" offset {self.offset}" if self.offset else ""
        return f"Limit{count}{offset} by {by}{f' in each {each}' if each else ''}"


@dataclass(frozen=True, slots=True, eq=False)
class Widened(Relation):
    """Rows of the input, each perhaps several times, with more fields.

    Attributes:
        own: the added fields.
    """

    input: Relation
    own: tuple[Field, ...]

    @property
    @override
    def fields(self) -> tuple[Field, ...]:
        return (*self.input.fields, *self.own)

    @property
    @override
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)


def one_row() -> Values:
    """Return the one row that a SELECT without FROM reads."""
    return Values((_ROW,), ((Scalar.of(exp.true(), ()),),))


def _join_label(what: str, conditions: Iterable[Scalar]) -> str:
    on = " AND ".join(dict.fromkeys(one.text for one in conditions))
    return f"{what} on {on}" if on else what


def _are_distinct(fields: Iterable[Field]) -> bool:
    ids = [field.id for field in fields]
    return len(ids) == len(set(ids))


def _check_sides(
    relation: Relation,
    left: Relation,
    right: Relation,
    equal: Iterable[Equality],
    rest: Iterable[Scalar],
) -> None:
    _check(_are_distinct((*left.fields, *right.fields)), relation)
    for side, place in ((left, "left"), (right, "right")):
        own = {field.id for field in side.fields}
        _check(all(own >= set(getattr(one, place)) for one in equal), relation)
    _check(all(one.may_be_condition for one in rest), relation)
    _check_reads(relation, (*left.fields, *right.fields), rest)


def _check_reads(relation: Relation, fields: Iterable[Field], scalars: Iterable[Scalar]) -> None:
    own = {field.id for field in fields}
    for scalar in scalars:
        _check(own >= set(scalar.fields), relation, scalar.text)


def _check(holds: bool, relation: Relation, what: Any = "") -> None:  # noqa: ANN401
    """Refuse a relation that is not well formed, which is a fault of the library."""
    if not holds:
        raise ValueError(f"{type(relation).__name__} is not well formed {what}".rstrip())
