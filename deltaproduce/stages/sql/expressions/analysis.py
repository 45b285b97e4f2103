"""Analysis: turns an expression and the types of its columns into a term, by Spark's rules.

The invariant: a term returns what Spark returns in ANSI mode, in type, values and errors. An
expression that is not certain to do so has no term, and is left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Final, TypeVar

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.expressions.casts import alike, cast
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.functions.nested import field
from deltaproduce.stages.sql.expressions.functions.table import called
from deltaproduce.stages.sql.expressions.intervals import written
from deltaproduce.stages.sql.expressions.kernels import comparing
from deltaproduce.stages.sql.expressions.literals import number
from deltaproduce.stages.sql.expressions.precedence import is_ambiguous, is_reordered
from deltaproduce.stages.sql.expressions.terms import (
    NO_CONSTANTS,
    Call,
    Case,
    Constant,
    Constants,
    Junction,
    Reference,
    Term,
)
from deltaproduce.stages.sql.syntax import function_name, spelled, struct_parts
from deltaproduce.types.data_types import (
    AnsiIntervalType,
    BooleanType,
    DataType,
    DecimalType,
    IntegralType,
    NullType,
    StringType,
)
from deltaproduce.types.ddl import struct_from_ddl

_Required = TypeVar("_Required")
_READ_BY_SPARK: Final = ("\\", "${")
"""Syntax that sqlglot does not distinguish: escapes and variables."""

_BOOLEAN: Final = BooleanType()


class _ForSparkError(Exception):
    """Left to Spark."""


def analysed(
    expression: Expression,
    types: Mapping[str, DataType],
    zone: str = "UTC",
    constants: Constants = NO_CONSTANTS,
) -> Term | None:
    """Return an expression with its types.

    Args:
        types: the types of the columns, by name.
        zone: the session's time zone, which affects values only.
        constants: values that replace column names, as if they were literals.

    Returns:
        None if it is left to Spark.

    Raises:
        DefinitionError: its types do not fit together.
    """
    if any(part in expression.text.lower() for part in _READ_BY_SPARK):
        return None
    try:
        term = _Analysis(types, zone, constants).term(expression.tree)
    except _ForSparkError:
        return None
    return None if isinstance(term.data_type, NullType | AnsiIntervalType) else term


class _Analysis:
    """The term of each kind of node, by the types of its children."""

    def __init__(self, types: Mapping[str, DataType], zone: str, constants: Constants) -> None:
        self._types = types
        self._zone = zone
        self._constants = constants

    def term(self, node: exp.Expr) -> Term:
        rule = _RULES.get(type(node))
        if rule is None or is_ambiguous(node):
            raise _ForSparkError
        return rule(self, node)

    def column(self, node: exp.Expr) -> Term:
        if node.args.get("table"):
            return self.fields(node)
        if node.name in self._constants:
            return self._constants[node.name]
        if node.name not in self._types:  # a function without parentheses
            raise _ForSparkError
        return Reference(self._types[node.name], node.name)

    def fields(self, node: exp.Expr) -> Term:
        """Analyse ``a.b.c``, where ``a`` is a struct."""
        assert isinstance(node, exp.Column)
        first, *names = (part.name for part in node.parts)
        if first not in self._types:
            raise _ForSparkError
        term: Term = Reference(self._types[first], first)
        for name in names:
            term = _required(field(term, name))
        return term

    def dotted(self, node: exp.Expr) -> Term:
        """Analyse ``a[0].b``."""
        if not isinstance(node.expression, exp.Identifier):
            raise _ForSparkError
        return _required(field(self.term(node.this), node.expression.name))

    def item(self, node: exp.Expr) -> Term:
        """Analyse ``a[0]``."""
        if len(node.expressions) != 1 or node.args.get("offset") or node.args.get("safe"):
            raise _ForSparkError
        return self.call("[]", node.this, node.expressions[0])

    def literal(self, node: exp.Expr) -> Term:
        text: str = node.this
        if node.is_string:
            return Constant(StringType(), text)
        return _required(number(text))

    def negative(self, node: exp.Expr) -> Term:
        inner = node.this
        if isinstance(inner, exp.Literal) and not inner.is_string:
            return _required(number(f"-{inner.this}"))
        return self.call("negative", inner)

    def condition(self, node: exp.Expr) -> Term:
        term = self.term(node)
        if isinstance(term.data_type, NullType):
            return Constant(_BOOLEAN, None)
        if not isinstance(term.data_type, BooleanType):
            raise DefinitionError(
                f"{spelled(node)!r} is of type {term.data_type.simpleString()}; a condition is "
                "boolean"
            )
        return term

    def junction(self, node: exp.Expr) -> Term:
        settled = isinstance(node, exp.Or)
        left, right = self.condition(node.this), self.condition(node.expression)
        return Junction(_BOOLEAN, settled, left, right)

    def negation(self, node: exp.Expr) -> Term:
        return Call(_BOOLEAN, comparing.negation, (self.condition(node.this),))

    def tested(self, node: exp.Expr) -> Term:
        """Analyse ``a IS NULL``, or ``a IS TRUE``, which is never null."""
        value, wanted = self.term(node.this), node.expression
        if isinstance(wanted, exp.Null) and not isinstance(value.data_type, NullType):
            return Call(_BOOLEAN, comparing.is_null, (value,))
        if isinstance(wanted, exp.Boolean) and isinstance(value.data_type, BooleanType):
            other = Constant(_BOOLEAN, bool(wanted.this))
            return Call(_BOOLEAN, comparing.null_safe_equal, (value, other), is_strict=False)
        raise _ForSparkError

    def like(self, node: exp.Expr, *escape: exp.Expr) -> Term:
        """Analyse ``a LIKE 'b%'``, perhaps with the character of ``ESCAPE``."""
        term = self.call("like", node.this, node.expression, *escape)
        return Call(_BOOLEAN, comparing.negation, (term,)) if node.args.get("negate") else term

    def escaped(self, node: exp.Expr) -> Term:
        """Analyse ``a LIKE '5!%' ESCAPE '!'``."""
        if not isinstance(node.this, exp.Like) or is_ambiguous(node.this):
            raise _ForSparkError
        return self.like(node.this, node.expression)

    def among(self, node: exp.Expr) -> Term:
        if not node.expressions or any(
            name != "this" and name != "expressions" and value for name, value in node.args.items()
        ):
            raise _ForSparkError
        return self.call("IN", node.this, *node.expressions)

    def between(self, node: exp.Expr) -> Term:
        if node.args.get("symmetric"):
            raise _ForSparkError
        value, low, high = node.this, node.args["low"], node.args["high"]
        above, below = self.call(">=", value, low), self.call("<=", value, high)
        return Junction(_BOOLEAN, settled=False, left=above, right=below)

    def case(self, node: exp.Expr) -> Term:
        """Analyse ``CASE WHEN a THEN b … END``, or with a compared value: ``CASE v WHEN a …``."""
        value, branches = node.this, node.args["ifs"]
        conditions = (
            branch.this
            if value is None
            else exp.EQ(this=_paren(value), expression=_paren(branch.this))
            for branch in branches
        )
        values = [branch.args["true"] for branch in branches]
        return self.chosen(list(conditions), values, node.args.get("default"))

    def choice(self, node: exp.Expr) -> Term:
        """Analyse ``IF(a, b, c)``."""
        return self.chosen([node.this], [node.args["true"]], node.args.get("false"))

    def chosen(
        self, conditions: Sequence[exp.Expr], values: Sequence[exp.Expr], last: exp.Expr | None
    ) -> Term:
        checked = [self.condition(condition) for condition in conditions]
        if Constant(_BOOLEAN, None) in checked:  # CASE does not accept it
            raise _ForSparkError
        *terms, otherwise = self.alike((*values, last or exp.Null()))
        return Case(otherwise.data_type, tuple(zip(checked, terms, strict=True)), otherwise)

    def operator(self, node: exp.Expr) -> Term:
        term = self.call(_OPERATORS[type(node)], node.this, node.expression)
        can_move = isinstance(node, exp.Add | exp.Mul)
        if can_move and isinstance(term.data_type, IntegralType) and is_reordered(node):
            raise _ForSparkError
        return term

    def interval(self, node: exp.Expr) -> Term:
        """Analyse ``INTERVAL '3' MONTH``, a literal of one unit or of some that follow."""
        number, unit = node.this, node.args.get("unit")
        if not isinstance(number, exp.Literal) or unit is None:
            raise _ForSparkError
        if isinstance(unit, exp.IntervalSpan):
            return _required(written(number.this, unit.this.name, unit.expression.name))
        return _required(written(number.this, unit.name))

    def cast(self, node: exp.Expr) -> Term:
        if any(value for name, value in node.args.items() if name not in {"this", "to", "safe"}):
            raise _ForSparkError
        inner = node.this
        wanted = _type(node.args["to"])
        if isinstance(inner, exp.Literal) and inner.is_string and isinstance(wanted, DecimalType):
            value = _required(number(inner.this))  # 1.5BD
            if value.data_type != wanted:
                raise _ForSparkError
            return value
        return _required(
            cast(self.term(inner), wanted, self._zone, tried=bool(node.args.get("safe")))
        )

    def call(self, name: str, *nodes: exp.Expr) -> Term:
        """Analyse the call of a function or operator."""
        return _required(called(name, [self.term(node) for node in nodes], self._zone))

    def function(self, node: exp.Expr) -> Term:
        if function_name(node) == "struct":
            named = [
                (Constant(StringType(), name), self.term(part))
                for name, part in _required(struct_parts(node))
            ]
            return _required(called("named_struct", [*chain.from_iterable(named)], self._zone))
        return self.call(function_name(node) or "", *node.expressions)

    def trimmed(self, node: exp.Expr) -> Term:
        """Analyse ``TRIM(LEADING 'a' FROM b)``; the characters are the first argument."""
        name = _TRIMS.get(node.args.get("position") or "BOTH")
        if name is None or node.args.get("collation"):
            raise _ForSparkError
        characters = node.args.get("expression")
        return self.call(name, *([] if characters is None else [characters]), node.this)

    def substring(self, node: exp.Expr) -> Term:
        parts = (node.this, node.args.get("start"), node.args.get("length"))
        return self.call("substring", *(part for part in parts if part is not None))

    def position(self, node: exp.Expr) -> Term:
        """Analyse ``POSITION(a IN b)``, or with commas and a start."""
        start = node.args.get("position")
        parts = [node.args["substr"], node.this]
        return self.call("position", *parts, *([] if start is None else [start]))

    def extracted(self, node: exp.Expr) -> Term:
        """Analyse ``EXTRACT(YEAR FROM a)``."""
        return self.call("extract", exp.Literal.string(node.this.name), node.expression)

    def alike(self, nodes: Sequence[exp.Expr]) -> tuple[Term, ...]:
        """Cast terms to their common type."""
        return _required(alike([self.term(node) for node in nodes], self._zone))


def _required(term: _Required | None) -> _Required:
    """Return what was found; if nothing was, leave the expression to Spark."""
    if term is None:
        raise _ForSparkError
    return term


def _type(node: exp.Expr) -> DataType:
    try:
        return struct_from_ddl(f"found {node.sql('spark')}").fields[0].dataType
    except DefinitionError:
        raise _ForSparkError from None


def _paren(node: exp.Expr) -> exp.Paren:
    return exp.Paren(this=node.copy())


_OPERATORS: Final[Mapping[type[exp.Expr], str]] = MappingProxyType(
    {
        exp.Add: "+",
        exp.Sub: "-",
        exp.Mul: "*",
        exp.Div: "/",
        exp.IntDiv: "div",
        exp.Mod: "%",
        exp.DPipe: "concat",
        exp.EQ: "=",
        exp.NEQ: "<>",
        exp.LT: "<",
        exp.LTE: "<=",
        exp.GT: ">",
        exp.GTE: ">=",
        exp.NullSafeEQ: "<=>",
    }
)
_TRIMS: Final = MappingProxyType({"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"})

_Rule = Callable[[_Analysis, exp.Expr], Term]
_RULES: Final[Mapping[type[exp.Expr], _Rule]] = MappingProxyType(
    {
        exp.Paren: lambda analysis, node: analysis.term(node.this),
        exp.Column: _Analysis.column,
        exp.Literal: _Analysis.literal,
        exp.Boolean: lambda _, node: Constant(_BOOLEAN, bool(node.this)),
        exp.Null: lambda *_: Constant(NullType(), None),
        exp.Neg: _Analysis.negative,
        exp.Not: _Analysis.negation,
        exp.And: _Analysis.junction,
        exp.Or: _Analysis.junction,
        exp.Is: _Analysis.tested,
        exp.Like: _Analysis.like,
        exp.Escape: _Analysis.escaped,
        exp.In: _Analysis.among,
        exp.Between: _Analysis.between,
        exp.Case: _Analysis.case,
        exp.If: _Analysis.choice,
        **dict.fromkeys(_OPERATORS, _Analysis.operator),
        exp.Interval: _Analysis.interval,
        **dict.fromkeys((exp.Cast, exp.TryCast), _Analysis.cast),
        exp.Anonymous: _Analysis.function,
        exp.Dot: _Analysis.dotted,
        exp.Bracket: _Analysis.item,
        exp.Trim: _Analysis.trimmed,
        exp.Substring: _Analysis.substring,
        exp.StrPosition: _Analysis.position,
        exp.Extract: _Analysis.extracted,
    }
)
