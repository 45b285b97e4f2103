"""Lists, which a FOR iterates over: SQL arrays, and ``timeseries(…)``.

A list is analysed first, which gives the type of its items, and computed then: so a branch of a
CASE that is not taken cannot fail. The invariant: all items of a list have one type, which does not
depend on the scope's values, and a list depends on the scope and the scheduled date alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.expressions.analysis import analysed
from deltaproduce.stages.sql.expressions.casts import alike, widened
from deltaproduce.stages.sql.expressions.coercion import common
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.terms import Constant, Term
from deltaproduce.stages.sql.scopes.scalars import scalar, value_of
from deltaproduce.stages.sql.scopes.series import (
    count_of,
    sequence,
    timeseries,
    timeseries_of_place,
)
from deltaproduce.stages.sql.syntax import function_name
from deltaproduce.times.zones import name_of
from deltaproduce.types.data_types import ArrayType, DataType, NullType, StringType, TimestampType

_MOST: Final = 1_000_000
"""The most items of a list."""
_PLAIN: Final = re.compile(r"[^\\.^$|?*+()\[\]{}]|\[[^\\\[\]^&-]\]")
"""A character that stands for itself in a regular expression, or a class of one character."""

Items: TypeAlias = tuple[Any, ...] | None
"""The values of a list; None if it is null."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A list whose items have a known type.

    Attributes:
        item: the type of the items; that of null if nothing says.
        compute: returns the items, which may raise a DefinitionError.
    """

    item: DataType
    compute: Callable[[], Items]

    @property
    def kind(self) -> ArrayType:
        """The type of the list; items of no known type are text."""
        return ArrayType(_known(self.item))

    def constants(self, *, typing: bool = False) -> list[Constant]:
        """Return the items; none if the list is null.

        Args:
            typing: return one item, of which only the type matters.
        """
        values = self.compute() or ()
        item = _known(self.item)
        return [Constant(item, v) for v in (values[:1] or (None,) if typing else values)]

    def whole(self) -> Constant:
        """Return the list as one value."""
        return Constant(self.kind, self.compute())


def is_dated(expression: Expression) -> bool:
    """Return whether an expression depends on the scheduled date."""
    return any(function_name(node) == "timeseries" for node in expression.tree.walk())


def listed(expression: Expression, scope: Mapping[str, Constant], moment: datetime) -> Listed:
    """Return a list.

    Args:
        moment: the scheduled date, on the clock of the store.

    Raises:
        DefinitionError: it is not a list, or the types of its items do not fit together.
    """
    result = as_list(expression, scope, moment)
    if result is None:
        raise DefinitionError(
            f"{expression.text!r} is not a list; write an array: array(a, …), split(a, ','), "
            "sequence(first, last), timeseries('1 day', 2), or a CASE of these"
        )
    return result


def as_list(
    expression: Expression, scope: Mapping[str, Constant], moment: datetime
) -> Listed | None:
    """Return the list that an expression is, see `listed`; None if it is none."""
    return _Lists(expression, scope, moment).of(expression.tree)


class _Lists:
    """The list of each kind of node of an expression, in a scope and at a date."""

    def __init__(
        self, expression: Expression, scope: Mapping[str, Constant], moment: datetime
    ) -> None:
        self._expression = expression
        self._scope = scope
        self._moment = moment
        self._zone = name_of(moment)

    def of(self, node: exp.Expr) -> Listed | None:
        """Return the list that a node is; None if it is none."""
        match node:
            case exp.Paren():
                return self.of(node.this)
            case exp.Column():
                return self._named(node)
            case exp.Case():
                branches = node.args["ifs"]
                return self._chosen(
                    [self._condition(node.this, branch.this) for branch in branches],
                    [*(branch.args["true"] for branch in branches), node.args.get("default")],
                )
            case exp.If():
                return self._chosen([node.this], [node.args["true"], node.args.get("false")])
            case exp.DPipe():
                return self._combined([node.this, node.expression], _joined)
        rule = _RULES.get(function_name(node) or "")
        return None if rule is None else rule(self, node.expressions)

    def _named(self, node: exp.Column) -> Listed | None:
        value = self._scope.get(node.name)
        if value is None or not isinstance(value.data_type, ArrayType):
            return None
        return Listed(value.data_type.elementType, lambda: value.value)

    def array(self, nodes: Sequence[exp.Expr]) -> Listed:
        """Return ``array(a, …)``, whose items may be lists themselves."""
        lists = [self.of(node) for node in nodes]
        if any(listed is not None for listed in lists):
            inner = self._alike(
                [listed or self._null(node) for listed, node in zip(lists, nodes, strict=True)]
            )
            kind = ArrayType(_known(inner[0].item))
            return Listed(kind, lambda: tuple(listed.compute() for listed in inner))
        terms = [analysed(self._part(node), {}, self._zone, self._scope) for node in nodes]
        known = [term for term in terms if term is not None]
        listed = alike(known, self._zone) if len(known) == len(terms) else None
        if nodes and listed is None:
            raise self._unlike()
        if not listed:
            return Listed(NullType(), tuple)
        return Listed(listed[0].data_type, lambda: self._values(listed))

    def timeseries(self, nodes: Sequence[exp.Expr]) -> Listed:
        """Return ``timeseries('1 day', 2)``, perhaps with the time zone of a place."""
        step, steps, *places = self._scalars(nodes, 2, 3)

        def compute() -> Items:
            size, count, moment = step().value, count_of(steps()), self._moment
            if not places:
                return tuple(time.value for time in timeseries(size, count, moment))
            times = timeseries_of_place(size, count, moment, places[0]().value)
            return tuple(time.value for time in times)

        return Listed(TimestampType(), compute)

    def sequence(self, nodes: Sequence[exp.Expr]) -> Listed:
        """Return ``sequence(first, last, step)``."""
        bounds = self._scalars(nodes, 2, 3)
        item = self._type(nodes[0])
        text = self._expression.text
        return Listed(item, lambda: tuple(sequence([bound() for bound in bounds], text)))

    def split(self, nodes: Sequence[exp.Expr]) -> Listed:
        """Return ``split(text, pattern, limit)``."""
        parts = self._scalars(nodes, 2, 3)
        return Listed(StringType(), lambda: self._split(*(part() for part in parts)))

    def first_known(self, nodes: Sequence[exp.Expr]) -> Listed | None:
        """Return ``coalesce(a, b, …)``."""

        def first(*lists: Callable[[], Items]) -> Items:
            return next((value for each in lists if (value := each()) is not None), None)

        return self._combined(nodes, first)

    def joined(self, nodes: Sequence[exp.Expr]) -> Listed | None:
        """Return ``concat(a, b, …)``."""
        return self._combined(nodes, _joined)

    def distinct(self, nodes: Sequence[exp.Expr]) -> Listed | None:
        """Return ``array_distinct(a)``: each item once."""
        return self.union(nodes, lists=1)

    def union(self, nodes: Sequence[exp.Expr], lists: int = 2) -> Listed | None:
        """Return ``array_union(a, b)``: each item once."""
        self._check_count(nodes, lists)

        def distinct(*lists: Callable[[], Items]) -> Items:
            together = _joined(*lists)
            return None if together is None else tuple(dict.fromkeys(together))

        return self._combined(nodes, distinct)

    def excepted(self, nodes: Sequence[exp.Expr]) -> Listed | None:
        """Return ``array_except(a, b)``."""
        self._check_count(nodes, 2)

        def excepted(*lists: Callable[[], Items]) -> Items:
            one, other = (each() for each in lists)
            if one is None or other is None:
                return None
            left_out = set(other)
            return tuple(item for item in dict.fromkeys(one) if item not in left_out)

        return self._combined(nodes, excepted)

    def reversed(self, nodes: Sequence[exp.Expr]) -> Listed | None:
        """Return ``reverse(a)``."""
        self._check_count(nodes, 1)

        def turned(*lists: Callable[[], Items]) -> Items:
            inner = _joined(*lists)
            return None if inner is None else inner[::-1]

        return self._combined(nodes, turned)

    def flattened(self, nodes: Sequence[exp.Expr]) -> Listed | None:
        """Return ``flatten(a)``."""
        self._check_count(nodes, 1)
        nested = self.of(nodes[0])
        if nested is None or not isinstance(nested.item, ArrayType):
            return None
        outer = nested.compute

        def flat() -> Items:
            lists = outer()
            return None if lists is None else _joined(*(partial(tuple, one) for one in lists))

        return Listed(nested.item.elementType, flat)

    def _condition(self, value: exp.Expr | None, test: exp.Expr) -> exp.Expr:
        """Return the condition of a branch, of a CASE with or without a compared value."""
        if value is None:
            return test
        sides = [exp.Paren(this=side.copy()) for side in (value, test)]
        return exp.EQ(this=sides[0], expression=sides[1])

    def _chosen(
        self, conditions: Sequence[exp.Expr], nodes: Sequence[exp.Expr | None]
    ) -> Listed | None:
        """Return the list of the first condition that is true, or the last one."""
        lists = [None if node is None else self.of(node) for node in nodes]
        if all(item is None for item in lists):
            return None
        each = self._alike(
            [item or self._null(node) for item, node in zip(lists, nodes, strict=True)]
        )
        tests = [self._part(condition) for condition in conditions]

        def compute() -> Items:
            taken = (
                n
                for n, test in enumerate(tests)
                if scalar(test, self._scope, self._zone).value is True
            )
            return each[next(taken, len(tests))].compute()

        return Listed(each[0].item, compute)

    def _combined(self, nodes: Sequence[exp.Expr], combine: Callable[..., Items]) -> Listed | None:
        """Return what is made of lists; None if no node is one."""
        lists = [self.of(node) for node in nodes]
        if all(item is None for item in lists):
            return None
        each = self._alike(
            [item or self._null(node) for item, node in zip(lists, nodes, strict=True)]
        )
        return Listed(each[0].item, lambda: combine(*(item.compute for item in each)))

    def _alike(self, lists: Sequence[Listed]) -> list[Listed]:
        """Return lists with items of their common type."""
        wanted = _common([listed.item for listed in lists])
        if wanted is None:
            raise self._unlike()
        return [
            listed if listed.item == wanted else Listed(wanted, partial(_cast_of, listed, wanted))
            for listed in lists
        ]

    def _null(self, node: exp.Expr | None) -> Listed:
        """Return the null list; refuse anything else."""
        if node is not None and not isinstance(node.unnest(), exp.Null):
            raise self._unlike()
        return Listed(NullType(), lambda: None)

    def _split(self, text: Constant, pattern: Constant, limit: Constant | None = None) -> Items:
        parts = None if limit is None else limit.value
        if text.value is None or pattern.value is None:
            return None
        if not isinstance(text.value, str) or not isinstance(pattern.value, str):
            raise self._unlike()
        plain = _PLAIN.findall(pattern.value)
        if not plain or "".join(plain) != pattern.value or not isinstance(parts, int | None):
            raise DefinitionError(
                f"{self._expression.text!r} cannot be computed without Spark; split at characters "
                "that stand for themselves, such as ',' or '[|]'"
            )
        most = -1 if parts is None or parts <= 0 else parts - 1
        return tuple(text.value.split("".join(one.strip("[]") for one in plain), most))

    def _scalars(self, nodes: Sequence[exp.Expr], *counts: int) -> list[Callable[[], Constant]]:
        """Return the arguments of a function, each computed when it is asked for."""
        self._check_count(nodes, *counts)
        return [partial(scalar, self._part(node), self._scope, self._zone) for node in nodes]

    def _check_count(self, nodes: Sequence[exp.Expr], *counts: int) -> None:
        if len(nodes) not in counts:
            raise self._unlike()

    def _type(self, node: exp.Expr) -> DataType:
        term = analysed(self._part(node), {}, self._zone, self._scope)
        if term is None:
            raise self._unlike()
        return term.data_type

    def _values(self, terms: Sequence[Term]) -> Items:
        return tuple(value_of(term, self._expression.text).value for term in terms)

    def _part(self, node: exp.Expr) -> Expression:
        """Return a part of the expression; it keeps the text of the whole, for messages."""
        names = dict.fromkeys(column.name for column in node.find_all(exp.Column))
        return Expression(self._expression.text, tuple(names), node)

    def _unlike(self) -> DefinitionError:
        return DefinitionError(
            f"{self._expression.text!r} cannot be listed; give items of one type that the page "
            "docs/expressions.md lists, and the arguments that the page docs/projects.md names"
        )


def _joined(*lists: Callable[[], Items]) -> Items:
    each_list = [each() for each in lists]
    if any(one is None for one in each_list):
        return None
    together = tuple(item for one in each_list if one is not None for item in one)
    if len(together) > _MOST:
        raise DefinitionError(f"a list has {len(together):,} items; the most are {_MOST:,}")
    return together


def _known(item: DataType) -> DataType:
    """Return the type of items; text if nothing says what they are."""
    if isinstance(item, ArrayType):
        return ArrayType(_known(item.elementType))
    return StringType() if isinstance(item, NullType) else item


def _common(items: Sequence[DataType]) -> DataType | None:
    """Return the common type of items, which may be lists."""
    if not any(isinstance(item, ArrayType) for item in items):
        return common(items)
    inner = [item.elementType for item in items if isinstance(item, ArrayType)]
    if any(not isinstance(item, ArrayType | NullType) for item in items):
        return None
    data_type = _common(inner)
    return None if data_type is None else ArrayType(data_type)


def _cast_of(listed: Listed, wanted: DataType) -> Items:
    return _cast(listed.compute(), listed.item, wanted)


def _cast(values: Items, item: DataType, wanted: DataType) -> Items:
    """Return items in a wider type."""
    if values is None or isinstance(item, NullType) or item == wanted:
        return values
    if isinstance(item, ArrayType) and isinstance(wanted, ArrayType):
        return tuple(_cast(one, item.elementType, wanted.elementType) for one in values)
    return tuple(value_of(widened(Constant(item, one), wanted), "a list").value for one in values)


_Rule: TypeAlias = Callable[[_Lists, Sequence[exp.Expr]], Listed | None]
_RULES: Final[Mapping[str, _Rule]] = MappingProxyType(
    {
        "array": _Lists.array,
        "timeseries": _Lists.timeseries,
        "sequence": _Lists.sequence,
        "split": _Lists.split,
        **dict.fromkeys(("coalesce", "nvl", "ifnull"), _Lists.first_known),
        "concat": _Lists.joined,
        "array_distinct": _Lists.distinct,
        "array_union": _Lists.union,
        "array_except": _Lists.excepted,
        "reverse": _Lists.reversed,
        "flatten": _Lists.flattened,
    }
)
