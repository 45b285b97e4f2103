"""Scalars: the columns of relations, and the typed expressions over them.

The invariant: a scalar that is plain has the type and the values of Spark in ANSI mode, and the
driver computes it. The type of another one may be unknown until Spark says it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.expressions.analysis import analysed
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.literals import constant_of
from deltaproduce.stages.sql.expressions.terms import NO_CONSTANTS, Constant, Constants, Term
from deltaproduce.types.data_types import (
    ArrayType,
    BooleanType,
    DataType,
    MapType,
    NullType,
    StructType,
    VariantType,
)
from deltaproduce.types.ddl import ddl_of, identifier

NESTED: Final = (ArrayType, MapType, StructType, VariantType)
"""Types whose values the driver does not order."""

_TESTS: Final = (exp.ILike, exp.RegexpLike)
"""Tests that only Spark computes; their type is certain."""
_ID: Final = re.compile(r"`?([^`'#\s]+)#[0-9]+`?")


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a relation.

    Attributes:
        id: its name in tables and expressions, unique in a query, as ``amount#3``.
        data_type: its type; `NullType` if it is always null, None if only Spark knows it.
    """

    id: str
    data_type: DataType | None

    @property
    def name(self) -> str:
        """Its name without the number."""
        return self.id.rpartition("#")[0]

    @property
    def tree(self) -> exp.Expr:
        """The column as an expression."""
        return exp.column(exp.to_identifier(self.id, quoted=True))


@dataclass(frozen=True, slots=True)
class Scalar:
    """An expression over the fields of one relation, or of several side by side.

    Attributes:
        expression: it names fields by their ids.
        data_type: as for a `Field`.
        text: what the user wrote, for messages.
        is_plain: whether the driver computes it.
        may_fail: whether it may fail for some row.
        constants: the constants that it names.
        terms: what it has been found to be, by the time zone and the types of its fields.
    """

    expression: Expression
    data_type: DataType | None
    text: str
    is_plain: bool
    may_fail: bool = True
    constants: Constants = field(default_factory=dict, compare=False)
    terms: dict[object, Term] = field(default_factory=dict, init=False, repr=False, compare=False)

    @staticmethod
    def of_field(field: Field) -> Scalar:
        """Return the values of a field."""
        return _of_column(field.tree, field, "")

    @staticmethod
    def of(tree: exp.Expr, fields: Iterable[Field], text: str = "") -> Scalar:
        """Find the type of an expression.

        Args:
            tree: it names fields by their ids.
            fields: at least those that it names.
            text: what the user wrote, if that is more than the name of a field.

        Raises:
            DefinitionError: its types do not fit together.
        """
        fields = tuple(fields)
        alone = _field_of(tree, fields)
        if alone is not None:  # as most columns of a SELECT are
            return _of_column(tree, alone, text)
        types = {field.id: field.data_type for field in fields}
        named = dict.fromkeys(name for column in columns_in(tree) if (name := column.name) in types)
        sql, text = tree.sql("spark"), text or readable(tree.sql("spark"))
        expression = Expression(with_escapes(sql, tree), tuple(named), tree)
        bare = tree.unnest()
        if isinstance(bare, exp.Null) or (bare.name in types and isinstance(bare, exp.Column)):
            data_type = NullType() if isinstance(bare, exp.Null) else types[bare.name]
            is_known = data_type is not None
            return Scalar(expression, data_type, text, is_plain=is_known, may_fail=False)
        known = {name: kind for name in named if (kind := types[name]) is not None}
        constants = _constants_in(tree)
        is_outer = any("#" in c.name and c.name not in types for c in columns_in(tree))
        if is_outer or len(known) < len(named):  # it depends on a query around it, or on Spark
            return Scalar(expression, None, text, is_plain=False, constants=constants)
        try:
            term = analysed(expression, known, constants=constants)
        except DefinitionError as error:
            raise DefinitionError(readable(str(error)), line=error.line) from None
        data_type = _type_in_spark(expression, known) if term is None else term.data_type
        fails = term is None or term.may_fail
        is_plain = term is not None
        return Scalar(expression, data_type, text, is_plain, fails, constants)

    @property
    def fields(self) -> tuple[str, ...]:
        """The ids of the fields that it reads."""
        return self.expression.columns

    def fits(
        self, types: Mapping[str, DataType], constants: Constants, *, may_fail: bool = False
    ) -> bool:
        """Return whether other values of the constants that it names change nothing but its value.

        Args:
            types: the types of at least the fields that it reads.
            may_fail: whether it may fail with them for more rows.
        """
        if not self.constants:
            return True
        if not self.is_plain:
            return False
        try:
            term = analysed(self.expression, types, constants=self._with_values(constants))
        except DefinitionError:
            return False
        if term is None or term.data_type != self.data_type:
            return False
        return may_fail or term.may_fail == self.may_fail

    def term(self, fields: Iterable[Field], zone: str, constants: Constants = NO_CONSTANTS) -> Term:
        """Return it as the driver computes it; it is plain.

        Args:
            zone: the time zone that it is computed in.
            constants: other values of constants that it names; it `fits` them.
        """
        if isinstance(self.data_type, NullType):
            return Constant(NullType(), None)
        known = {field.id: field.data_type for field in fields}
        types = tuple((name, known.get(name)) for name in self.fields)
        if self.constants:  # their values may differ each time
            return self._typed(types, zone, constants)
        if (zone, types) not in self.terms:
            self.terms[zone, types] = self._typed(types, zone, constants)
        return self.terms[zone, types]

    def _typed(
        self, types: Iterable[tuple[str, DataType | None]], zone: str, constants: Constants
    ) -> Term:
        known = {name: kind for name, kind in types if kind is not None}
        term = analysed(self.expression, known, zone, self._with_values(constants))
        assert term is not None  # it is plain
        return term

    def _with_values(self, others: Constants) -> Constants:
        """Return the constants that it names, with other values if there are."""
        return {name: others.get(name, value) for name, value in self.constants.items()}

    @property
    def may_be_condition(self) -> bool:
        """Whether its type is boolean, or not known to be another one."""
        return self.data_type is None or isinstance(self.data_type, BooleanType | NullType)


@dataclass(frozen=True, slots=True)
class Output:
    """A field and the expression that computes it."""

    field: Field
    scalar: Scalar

    @staticmethod
    def copy(field: Field, own: Field | None = None) -> Output:
        """Return a field as it is, or its values in a field of its own."""
        return Output(field if own is None else own, Scalar.of_field(field))


@dataclass(frozen=True, slots=True)
class Equality:
    """Two expressions over the two sides of a join that must be equal.

    Attributes:
        scalar: ``left = right``, or ``left <=> right``.
        left: the fields of the left side that it reads.
        right: those of the right side.
    """

    scalar: Scalar
    left: tuple[str, ...]
    right: tuple[str, ...]

    @staticmethod
    def between(
        condition: Scalar, left: Sequence[Field], right: Sequence[Field]
    ) -> Equality | None:
        """Return an equality of two sides; None if a condition is none, or not of both sides."""
        tree = condition.expression.tree
        if not isinstance(tree, exp.EQ | exp.NullSafeEQ):
            return None
        sides = [{field.id for field in side} for side in (left, right)]
        for one, other in (
            (tree.this, tree.expression),
            (tree.expression, tree.this),
        ):
            names = [tuple(dict.fromkeys(c.name for c in columns_in(p))) for p in (one, other)]
            if all(names) and sides[0] >= {*names[0]} and sides[1] >= {*names[1]}:
                turned = type(tree)(this=one.copy(), expression=other.copy())
                scalar = Scalar.of(turned, (*left, *right), condition.text)
                return Equality(scalar, *names)
        return None


@dataclass(frozen=True, slots=True)
class SortKey:
    """A field that rows are sorted by, and the direction."""

    field: Field
    descending: bool
    nulls_first: bool


def cast_to(tree: exp.Expr, kind: DataType) -> exp.Expr:
    """Return the cast of an expression to a type, as the parser makes of CAST."""
    return exp.TryCast(this=tree, to=exp.DataType.build(ddl_of(kind), dialect="spark"))


def columns_in(tree: exp.Expr) -> list[exp.Expr]:
    """Return the columns that an expression names, in order; a name of a constant is none."""
    columns = (node for node in tree.walk() if isinstance(node, exp.Column))
    return [node for node in columns if constant_of(node) is None]


def _field_of(tree: exp.Expr, fields: Iterable[Field]) -> Field | None:
    """Return the field that is all of an expression; None if it is another one."""
    part = tree.this if isinstance(tree, exp.Column) and constant_of(tree) is None else None
    if not isinstance(part, exp.Identifier) or not part.quoted or tree.args.get("table"):
        return None
    return next((field for field in fields if field.id == part.name), None)


def _of_column(tree: exp.Expr, field: Field, text: str) -> Scalar:
    """Return the values of a field, without the time that it takes to write its tree as text."""
    sql, is_known = identifier(field.id), field.data_type is not None
    expression = Expression(sql, (field.id,), tree)
    return Scalar(
        expression, field.data_type, text or readable(sql), is_plain=is_known, may_fail=False
    )


def _constants_in(tree: exp.Expr) -> dict[str, Constant]:
    """Return the constants that an expression names."""
    pairs = ((node.name, constant_of(node)) for node in tree.walk())
    return {name: value for name, value in pairs if value is not None}


def readable(text: str) -> str:
    """Return a text with the names of fields in place of their ids."""
    return _ID.sub(r"\1", text)


def _type_in_spark(expression: Expression, types: Mapping[str, DataType]) -> DataType | None:
    """Return the type of an expression with tests that only Spark computes; None if unknown."""
    tree, place, known = expression.tree.copy(), 0, dict(types)
    for test in [*tree.find_all(*_TESTS)]:
        name, place = f"_test_{place}", place + 1
        known[name] = BooleanType()
        column = exp.column(exp.to_identifier(name, quoted=True))
        tree = column if test is tree else tree
        test.replace(column)
    if not place:
        return None
    term = analysed(Expression(tree.sql("spark"), tuple(known), tree), known)
    return None if term is None else term.data_type


def with_escapes(sql: str, tree: exp.Expr) -> str:
    """Mark an expression with a literal that was written with a backslash: Spark handles its own.

    sqlglot does not always keep them.
    """
    escaped = any(node.meta.get("escaped") for node in tree.walk() if isinstance(node, exp.Literal))
    return f"{sql} /* \\ */" if escaped else sql
