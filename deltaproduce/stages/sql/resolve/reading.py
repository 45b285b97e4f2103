"""What is collected while a query is resolved, and how nodes are rewritten."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.algebra.relations import Relation
from deltaproduce.stages.sql.algebra.scalars import (
    Equality,
    Field,
    Scalar,
    SortKey,
    columns_in,
    readable,
)
from deltaproduce.stages.sql.algebra.spark_only import InSpark
from deltaproduce.stages.sql.expressions.literals import named_constant
from deltaproduce.stages.sql.expressions.terms import Constant
from deltaproduce.stages.sql.resolve.names import Named, Scope
from deltaproduce.stages.sql.syntax import spelled
from deltaproduce.stages.sql.text import QueryText, TextEdit, end_of, line_at, refused, start_of
from deltaproduce.types.columns import RowSchema
from deltaproduce.types.data_types import DataType


@dataclass(frozen=True, slots=True)
class Selected:
    """A query that is resolved.

    Attributes:
        relation: its rows; perhaps with more fields than its columns.
        columns: its columns, in order.
        links: conditions that need fields of the query around it.
        grouped: the columns that have the keys of its outermost grouping, if all are there; none
            if it aggregates without GROUP BY, None if it does not group.
        otherwise: the one row that it has where no row fulfils the links; None for none.
        order: the fields that a final ORDER BY sorts by.
        rows: of a SELECT the rows of its FROM that fulfil the conditions of its WHERE; None for
            other queries. `row_links` are the conditions that need the query around it, over them.
        is_open: whether it has columns that only Spark knows.
        by_links: of an aggregate without GROUP BY that is linked, its values by what links it.
        first: of a query with a LIMIT that only Spark computes since it is linked by more than
            equalities, what it is without.
    """

    relation: Relation
    columns: tuple[Named, ...]
    links: tuple[CorrelatedPredicate, ...] = ()
    grouped: tuple[str, ...] | None = None
    otherwise: Relation | None = None
    order: tuple[SortKey, ...] = ()
    rows: Relation | None = None
    row_links: tuple[CorrelatedPredicate, ...] = ()
    is_open: bool = False
    by_links: Relation | None = None
    first: First | None = None


@dataclass(frozen=True, slots=True)
class First:
    """The first rows of a query that depends on the row around it, for each such row.

    Attributes:
        selected: the query without its LIMIT and OFFSET; it has an order.
        count: how many rows it has; None for all.
        skipped: how many rows come before them.
        node: the clause.
    """

    selected: Selected
    count: int | None
    skipped: int
    node: exp.Expr


@dataclass(frozen=True, slots=True)
class CorrelatedPredicate:
    """A condition of a subquery that names fields of the query around it.

    Attributes:
        tree: names fields by their ids.
        node: what the user wrote.
    """

    tree: exp.Expr
    node: exp.Expr


@dataclass(frozen=True, slots=True)
class TextOrigin:
    """The part of the text that an operator is made of.

    Attributes:
        scope: what its expressions can name; None for no SELECT.
    """

    node: exp.Expr
    scope: Scope | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a name in the text that means a constant.

    Attributes:
        aliased: whether it is a column of a SELECT, which must keep the name.
    """

    start: int
    end: int
    name: str
    aliased: bool


Ctes: TypeAlias = Mapping[str, Selected]
Query: TypeAlias = Callable[[exp.Expr, Ctes, Scope | None], Selected]


@dataclass
class QueryContext:
    """A query while it is resolved.

    Attributes:
        stages: the stages that it may read, by lower-case name: the name and the columns.
        query: resolves a query inside of it.
        edits: the places of feeders' names, and of orders in which ties are broken.
        origins: the parts of the text that operators are made of.
        names: how a SELECT names the fields of its FROM, by the fields' ids.
        with_: the queries of WITH, in order.
        constants: what names mean that name no column, by lower-case name: the name and its value.
        slots: the places of these names, by where they begin.
        untold: the window functions whose order of equal rows the text cannot tell Spark.
        is_lenient: whether Spark runs the text as it stands, so that what only Spark knows, and
            what is not the same in each run, is accepted.
    """

    text: QueryText
    stages: Mapping[str, tuple[str, RowSchema]]
    query: Query
    edits: list[TextEdit] = field(default_factory=list)
    origins: dict[Relation, TextOrigin] = field(default_factory=dict)
    names: dict[str, Named] = field(default_factory=dict)
    with_: list[tuple[exp.Expr, Selected]] = field(default_factory=list)
    constants: Mapping[str, tuple[str, Constant]] = field(default_factory=dict)
    slots: dict[int, Slot] = field(default_factory=dict)
    untold: list[exp.Expr] = field(default_factory=list)
    is_lenient: bool = False
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def field(self, name: str | None, data_type: DataType | None) -> Field:
        """Return a new field."""
        plain = "".join(c for c in name or "column" if c not in "`'\"# \n\t")
        return Field(f"{plain}#{next(self._numbers)}", data_type)

    def typed(self, tree: exp.Expr, fields: Sequence[Field], node: exp.Expr) -> Scalar:
        """Return a resolved expression over fields with its type.

        Args:
            node: what the user wrote.

        Raises:
            DefinitionError: its types do not fit together; with `line`.
        """
        if node is tree and isinstance(tree, exp.Column):  # of a star: nobody wrote it
            return Scalar.of(tree, fields)
        for literal in node.find_all(exp.Literal):
            start, end = literal.meta.get("start"), literal.meta.get("end")
            if start is not None and end is not None and "\\" in self.text.text[start : end + 1]:
                literal.meta["escaped"] = True
        try:
            return Scalar.of(_with_marks(tree, node), fields, readable(spelled(node)))
        except DefinitionError as error:
            raise DefinitionError(str(error), line=line_at(node)) from None

    def condition(self, tree: exp.Expr, fields: Sequence[Field], node: exp.Expr) -> Scalar:
        """Return a resolved condition over fields.

        Raises:
            DefinitionError: its type is not boolean, or types do not fit together; with `line`.
        """
        scalar = self.typed(tree, fields, node)
        if not scalar.may_be_condition:
            assert scalar.data_type is not None
            raise refused(
                node, f"is of type {scalar.data_type.simpleString()}; a condition is boolean"
            )
        return scalar

    def equality(
        self, left: exp.Expr, right: exp.Expr, sides: tuple[Relation, Relation], node: exp.Expr
    ) -> Equality:
        """Return ``left = right``, each over one of two relations."""
        kind = exp.NullSafeEQ if isinstance(node, exp.NullSafeEQ) else exp.EQ
        tree = kind(this=_operand(left), expression=_operand(right))
        scalar = self.typed(tree, (*sides[0].fields, *sides[1].fields), node)
        names = [tuple(dict.fromkeys(c.name for c in columns_in(one))) for one in (left, right)]
        return Equality(scalar, names[0], names[1])

    def in_spark(
        self,
        node: exp.Expr,
        given: Sequence[Relation],
        fields: Sequence[Field],
        named: Sequence[Scalar] = (),
    ) -> InSpark:
        """Return what a clause makes of relations, which only Spark computes.

        Args:
            named: the columns that it names.
        """
        return InSpark(tuple(given), tuple(fields), spelled(node), node, tuple(named))

    def leave_to_spark(self, node: exp.Expr, advice: str) -> None:
        """Refuse a part of a query unless Spark runs the text as it stands.

        Raises:
            DefinitionError: with `line`.
        """
        if not self.is_lenient:
            raise refused(node, advice)

    def constant(self, node: exp.Expr) -> exp.Expr | None:
        """Return the constant that a name without a table means; None if it means none."""
        if not isinstance(node, exp.Column) or len(node.parts) > 1:
            return None
        constant = self.constants.get(node.name.lower())
        if constant is None:
            return None
        start, end = start_of(node.this), end_of(node.this)
        self.slots[start] = Slot(start, end, constant[0], isinstance(node.parent, exp.Select))
        return named_constant(*constant)

    def named(self, columns: Iterable[Named]) -> tuple[Named, ...]:
        """Return columns of a FROM, whose names are kept."""
        wanted = tuple(columns)
        self.names.update((one.field.id, one) for one in wanted)
        return wanted


def rebuilt(node: exp.Expr, replaced: Callable[[exp.Expr], exp.Expr | None]) -> exp.Expr:
    """Return an expression with some parts replaced, the outermost ones first."""
    new = replaced(node)
    return with_parts(node, replaced) if new is None else new


def with_parts(node: exp.Expr, replaced: Callable[[exp.Expr], exp.Expr | None]) -> exp.Expr:
    """Return an expression with some parts replaced, but for itself."""
    arguments = dict[str, object]()
    for name, value in node.args.items():
        if isinstance(value, exp.Expr):
            arguments[name] = rebuilt(value, replaced)
        elif isinstance(value, list):
            arguments[name] = [
                rebuilt(one, replaced) if isinstance(one, exp.Expr) else one for one in value
            ]
        else:
            arguments[name] = value
    tree = type(node)(**arguments)
    tree.meta.update(node.meta)
    return tree


def conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    """Yield the conditions that AND joins, in the order written."""
    match condition:
        case None:
            return
        case exp.And():
            yield from conjuncts(condition.this)
            yield from conjuncts(condition.expression)
        case exp.Paren() if isinstance(condition.unnest(), exp.And):
            yield from conjuncts(condition.unnest())
        case _:
            yield condition


def own(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the nodes of an expression; of a nested query only its top node."""
    yield from node.walk(prune=lambda part: isinstance(part, exp.Query))


def _operand(tree: exp.Expr) -> exp.Expr:
    return tree if isinstance(tree, exp.Column | exp.Literal | exp.Paren) else exp.Paren(this=tree)


def _with_marks(tree: exp.Expr, node: exp.Expr) -> exp.Expr:
    """Mark a literal of the tree as escaped if the user wrote one so."""
    if any(literal.meta.get("escaped") for literal in node.find_all(exp.Literal)):
        for literal in tree.find_all(exp.Literal):
            literal.meta["escaped"] = True
    return tree
