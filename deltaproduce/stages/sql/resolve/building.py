"""Building: the relation of one SELECT while its clauses are resolved, and its expressions.

The invariant: a resolved expression names fields of the relation, or of the queries around it; a
subquery in it has become a field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql.types import BooleanType, DataType
from sqlglot import exp

from deltaproduce.stages.sql.algebra.relations import Relation
from deltaproduce.stages.sql.algebra.scalars import Field, columns_in
from deltaproduce.stages.sql.functions import PHYSICAL, VOLATILE, is_time, names_in
from deltaproduce.stages.sql.resolve import subqueries
from deltaproduce.stages.sql.resolve.names import Scope, refused, unknown
from deltaproduce.stages.sql.resolve.reading import Ctes, Link, Reading, Selected, rebuilt
from deltaproduce.stages.sql.syntax import function_name

_UNITS: Final = names_in("date_add date_diff dateadd datediff timestampadd timestampdiff")
"""Functions whose first argument of three is a unit, such as DAY."""

_BY_PLACE: Final = names_in(
    "any_value array_agg collect_list collect_set first first_value lag last last_value lead "
    "listagg nth_value ntile row_number string_agg"
)
"""Window functions that depend on the order of rows that are equal in it."""


@dataclass
class Building:
    """The relation of a SELECT so far.

    Attributes:
        aliases: columns of the SELECT that later expressions may name, by lower-case name.
        prefers_aliases: whether they come before columns of FROM, as in ORDER BY.
        links: conditions that need fields of the query around it.
        is_condition: whether what is resolved decides on rows, and is no value. As a value, Spark's
            IN with a subquery is never null.
    """

    reading: Reading
    relation: Relation
    scope: Scope
    ctes: Ctes
    aliases: Mapping[str, exp.Expr] = field(default_factory=dict)
    prefers_aliases: bool = False
    links: list[Link] = field(default_factory=list)
    is_condition: bool = False

    def column(self, node: exp.Column) -> exp.Expr:
        """Return what a name means.

        Raises:
            DefinitionError: it means nothing, several things, or a value that changes by itself.
        """
        if isinstance(node.this, exp.Star):
            return node.copy()
        alias = self.aliases.get(node.name.lower()) if len(node.parts) == 1 else None
        if alias is not None and self.prefers_aliases:
            return alias.copy()
        found = self.scope.find(node)
        if found is None:
            if alias is not None:
                return alias.copy()
            if len(node.parts) == 1 and node.name.lower() in VOLATILE:
                raise refused(node, "differs from run to run; take the value from a column")
            if _is_unit(node):
                return node.copy()
            raise unknown(node, [*self.scope.known, *self.aliases])
        known, used = found
        tree = known.tree
        for part in node.parts[used:]:
            tree = exp.Dot(this=tree, expression=part.copy())
        tree.meta.update(node.parts[0].meta)
        return tree

    def is_own(self, tree: exp.Expr) -> bool:
        """Return whether an expression names fields of the relation only."""
        own = {one.id for one in self.relation.fields}
        return all(column.name in own for column in columns_in(tree) if "#" in column.name)

    def only_in_spark(self, node: exp.Expr, data_type: DataType | None = None) -> Field:
        """Add a field that only Spark computes."""
        found = self.reading.field("in_spark", data_type)
        fields = (*self.relation.fields, found)
        self.relation = self.reading.in_spark(node, [self.relation], fields)
        return found

    def expression(self, node: exp.Expr) -> exp.Expr:
        """Resolve an expression without aggregates; its subqueries become fields.

        Raises:
            DefinitionError: a name means nothing, or the value changes by itself.
        """
        return rebuilt(node, self.replaced)

    def condition(self, node: exp.Expr) -> exp.Expr:
        """Resolve a condition on rows; see `expression`."""
        self.is_condition = True
        try:
            return self.expression(node)
        finally:
            self.is_condition = False

    def replaced(self, node: exp.Expr) -> exp.Expr | None:
        """Return what a part of an expression becomes; None if its parts decide."""
        check_determined(node)
        match node:
            case exp.Column():
                return self.column(node)
            case exp.Exists():
                found = self._query(node.this)
                added = subqueries.exists(found, self.relation, self.reading)
                return self._with(added, node, BooleanType())
            case exp.Not() if not self.is_condition and _asks(node.this.unnest()):
                tree = self._among(node.this.unnest())
                return exp.Not(this=_or_else(tree, exp.true()))
            case exp.In() if _asks(node):
                if self.is_condition:
                    return self._among(node)
                if isinstance(node.find_ancestor(exp.Not, exp.Query), exp.Not):
                    return self.only_in_spark(node, BooleanType()).tree
                return _or_else(self._among(node), exp.false())
            case exp.Subquery() | exp.Select() | exp.SetOperation():
                found = self._query(node)
                added = subqueries.single(node, found, self.relation, self.reading)
                return self._with(added, node, found.columns[0].field.data_type)
            case exp.Window():
                _check_window(node)
                return self.only_in_spark(node).tree
            case exp.Lambda() | exp.Any() | exp.All():
                return self.only_in_spark(node).tree
        return None

    def _among(self, node: exp.Expr) -> exp.Expr:
        """Return the field of IN with a subquery."""
        value = self.expression(node.this)
        found = self._query(node.args["query"])
        added = subqueries.among(node, value, found, self.relation, self.reading)
        return self._with(added, node, BooleanType())

    def _query(self, node: exp.Expr) -> Selected:
        return self.reading.query(node, self.ctes, self.scope)

    def _with(
        self, added: subqueries.Added | None, node: exp.Expr, data_type: DataType | None
    ) -> exp.Expr:
        """Add the field of a subquery; if there is none, Spark computes it."""
        if added is None:
            return self.only_in_spark(node, data_type).tree
        self.relation = added.relation
        return added.tree


def check_determined(node: exp.Expr) -> None:
    """Refuse a function whose value differs from run to run.

    Raises:
        DefinitionError: with `line`.
    """
    name = function_name(node)
    if name in VOLATILE or is_time(node):
        raise refused(node, "differs from run to run; take the value from a column")
    if name in PHYSICAL:
        raise refused(node, "depends on how rows are stored; leave it out")
    if name == "identifier":
        raise refused(node, "hides what is named; write the name itself")
    if isinstance(node, exp.Placeholder):
        raise refused(node, "is a parameter, and there are none; write the value")


def _check_window(node: exp.Window) -> None:
    """Refuse a window function whose value depends on the order of rows that are equal in it.

    Raises:
        DefinitionError: with `line`.
    """
    call = node.this
    while isinstance(call, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        call = call.this
    spec = node.args.get("spec")
    by_rows = spec is not None and spec.args.get("kind") == "ROWS"
    if by_rows or function_name(call) in _BY_PLACE:
        raise refused(
            node,
            "depends on the order of rows that its ORDER BY leaves equal, which a view does not "
            "define; use rank() or a RANGE frame, or read a stage that is keyed by PARTITION BY",
        )


def _asks(node: exp.Expr) -> bool:
    """Return whether a node is IN with a subquery."""
    return isinstance(node, exp.In) and node.args.get("query") is not None


def _or_else(tree: exp.Expr, value: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="coalesce", expressions=[tree, value])


def _is_unit(node: exp.Expr) -> bool:
    call = node.parent
    is_first = call is not None and len(call.expressions) == 3 and call.expressions[0] is node
    return is_first and function_name(call) in _UNITS
