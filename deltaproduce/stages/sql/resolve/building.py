"""Building: the relation of one SELECT while its clauses are resolved, and its expressions.

The invariant: a resolved expression names fields of the relation, or of the queries around it; a
subquery in it has become a field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from sqlglot import exp

from deltaproduce.stages.sql.algebra.expanding import Expand, Generate, generated
from deltaproduce.stages.sql.algebra.relations import Relation
from deltaproduce.stages.sql.algebra.scalars import Field, Scalar, columns_in
from deltaproduce.stages.sql.algebra.spark_only import ValueInSpark
from deltaproduce.stages.sql.functions import GENERATORS, VOLATILE, names_in
from deltaproduce.stages.sql.resolve import subqueries
from deltaproduce.stages.sql.resolve.generators import alike, columns_of, lists_in
from deltaproduce.stages.sql.resolve.names import Named, Scope, unknown
from deltaproduce.stages.sql.resolve.reading import (
    CorrelatedPredicate,
    Ctes,
    QueryContext,
    Selected,
    TextOrigin,
    rebuilt,
)
from deltaproduce.stages.sql.resolve.windows import Tie, WindowExpression, tie, windowed
from deltaproduce.stages.sql.syntax import function_name, spelled, struct_parts
from deltaproduce.types.data_types import BooleanType, DataType
from deltaproduce.types.ddl import identifier

_UNITS: Final = names_in("date_add date_diff dateadd datediff timestampadd timestampdiff")
"""Functions whose first argument of three is a unit, such as DAY."""


@dataclass
class Building:
    """The relation of a SELECT so far.

    Attributes:
        aliases: columns of the SELECT that later expressions may name, by lower-case name.
        prefers_aliases: whether they come before columns of FROM, as in ORDER BY.
        clause: the HAVING or QUALIFY that is resolved.
        links: conditions that need fields of the query around it.
        is_condition: whether what is resolved decides on rows, and is no value. As a value, Spark's
            IN with a subquery is never null.
        windows: the definitions of its WINDOW clause, by lower-case name.
    """

    reading: QueryContext
    relation: Relation
    scope: Scope
    ctes: Ctes
    aliases: Mapping[str, exp.Expr] = field(default_factory=dict)
    prefers_aliases: bool = False
    clause: exp.Expr | None = None
    links: list[CorrelatedPredicate] = field(default_factory=list)
    is_condition: bool = False
    windows: Mapping[str, exp.Window] = field(default_factory=dict)

    def column(self, node: exp.Column) -> exp.Expr:
        """Return what a name means.

        Raises:
            DefinitionError: it means nothing, or several things.
        """
        if isinstance(node.this, exp.Star):
            return node.copy()
        alias = self.alias_of(node)
        if alias is not None and self.prefers_aliases:
            return alias.copy()
        columns = self.scope.find(node)
        if columns is None:
            if alias is not None:
                return alias.copy()
            constant = self.reading.constant(node)
            if constant is not None:
                return constant
            is_call = len(node.parts) == 1 and node.name.lower() in VOLATILE
            if is_call or _is_unit(node) or self.scope.may_have_more:
                return node.copy()
            constants = (name for name, _ in self.reading.constants.values())
            raise unknown(node, [*self.scope.known, *self.aliases, *constants])
        known, used = columns
        tree = known.tree
        for part in node.parts[used:]:
            tree = exp.Dot(this=tree, expression=part.copy())
        tree.meta.update(node.parts[0].meta)
        return tree

    def alias_of(self, node: exp.Column) -> exp.Expr | None:
        """Return the column of the SELECT that a name may mean; None for none."""
        return self.aliases.get(node.name.lower()) if len(node.parts) == 1 else None

    def is_alias_first(self, name: str) -> bool:
        """Return whether a name without a table means a column of the SELECT, not of FROM."""
        return self.prefers_aliases and name.lower() in self.aliases

    def is_own(self, tree: exp.Expr) -> bool:
        """Return whether an expression names fields of the relation only."""
        own = {one.id for one in self.relation.fields}
        return all(column.name in own for column in columns_in(tree) if "#" in column.name)

    def only_in_spark(
        self, node: exp.Expr, data_type: DataType | None = None, query: Selected | None = None
    ) -> Field:
        """Add a field that only Spark computes, perhaps from a subquery."""
        field = self.reading.field("in_spark", data_type)
        links = None
        if query is not None:
            links = subqueries.links_of(query, self.relation, self.reading)
        subquery = None if query is None else query.relation
        text, named = spelled(node), self.named_in(node)
        relation = ValueInSpark(self.relation, (field,), text, node, subquery, links, named)
        self.relation = relation
        self.reading.origins[relation] = TextOrigin(node)
        return field

    def named_in(self, node: exp.Expr) -> tuple[Scalar, ...]:
        """Return the columns that a part names which only Spark computes, outside of queries.

        Raises:
            DefinitionError: a name means nothing.
        """
        scalars, fields = list[Scalar](), self.relation.fields
        for one in node.walk(prune=lambda part: isinstance(part, exp.Query) or self.is_call(part)):
            if not isinstance(one, exp.Column) or isinstance(one.this, exp.Star):
                continue
            if one.parts[0].name.lower() not in _parameters(one):
                scalars.append(self.reading.typed(self.column(one), fields, one))
        return tuple(scalars)

    def is_call(self, node: exp.Expr) -> bool:
        """Return whether a part is computed from other rows than those of the relation."""
        del node
        return False

    def generated(
        self,
        node: exp.Expr,
        names: Sequence[str] = (),
        clause: exp.Expr | None = None,
        *,
        is_outer: bool = False,
    ) -> list[Field]:
        """Add the columns of a generator, such as ``explode(…)``.

        Args:
            names: their names; Spark's if there are none.
            clause: the clause that it is.
            is_outer: whether a row of which it makes none stays.
        """
        name = function_name(node) or ""
        function = name.removesuffix("_outer")
        lists = lists_in(node, names)
        if lists is not None:
            return self._expanded(lists, names or columns_of(function), node)
        trees = [self.expression(one) for one in node.expressions]
        fields = self.relation.fields
        scalars = tuple(map(lambda t, n: self.reading.typed(t, fields, n), trees, node.expressions))
        known = generated(function, [one.data_type for one in scalars])
        if known is None or (names and len(known) != len(names)):
            own = tuple(self.reading.field(one, None) for one in names or [function])
        else:
            pairs = zip(names or [one for one, _ in known], known, strict=True)
            own = tuple(self.reading.field(one, kind) for one, (_, kind) in pairs)
        outer = is_outer or name != function
        text = spelled(clause or node)
        self.relation = Generate(self.relation, own, text, function, scalars, outer)
        return list(own)

    def _expanded(
        self, lists: list[list[exp.Expr]], names: Sequence[str], node: exp.Expr
    ) -> list[Field]:
        """Add fields with the values of lists of expressions, one row per list."""
        trees = [[self.expression(one) for one in items] for items in lists]
        own, scalars = alike(trees, lists, names, self.relation.fields, self.reading)
        self.relation = Expand(self.relation, own, scalars)
        self.reading.origins[self.relation] = TextOrigin(node)
        return list(own)

    def expression(self, node: exp.Expr) -> exp.Expr:
        """Resolve an expression without aggregates; its subqueries become fields.

        Raises:
            DefinitionError: a name means nothing.
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
        match node:
            case exp.Column():
                return self.column(node)
            case exp.Window():
                return self._window(node).tree
            case exp.Lambda() | exp.Any() | exp.All():
                query = node.find(exp.Query)
                rows = None if query is None else self._query(query)
                return self.only_in_spark(node, None, rows).tree
        if function_name(node) in GENERATORS:
            return self.generated(node)[0].tree
        if function_name(node) == "struct":
            return self._struct(node)
        return self._subquery(node)

    def _struct(self, node: exp.Expr) -> exp.Expr | None:
        """Return a struct with the names of its fields, which are told by the columns' names."""
        parts = struct_parts(node)
        if parts is None:
            return None
        named = [(exp.Literal.string(name), self.expression(part)) for name, part in parts]
        return exp.Anonymous(this="named_struct", expressions=[*chain.from_iterable(named)])

    def _subquery(self, node: exp.Expr) -> exp.Expr | None:
        """Return what a subquery becomes; None if a node is none."""
        match node:
            case exp.Exists():
                subquery = self._query(node.this)
                added = subqueries.exists(subquery, self.relation, self.reading)
                return self._with(added, node, BooleanType(), subquery)
            case exp.Not() if not self.is_condition and _asks(node.this.unnest()):
                tree = self._among(node.this.unnest())
                return exp.Not(this=_or_else(tree, exp.true()))
            case exp.In() if _asks(node):
                if self.is_condition:
                    return self._among(node)
                if isinstance(node.find_ancestor(exp.Not, exp.Query), exp.Not):
                    subquery = self._query(node.args["query"])
                    return self.only_in_spark(node, BooleanType(), subquery).tree
                return _or_else(self._among(node), exp.false())
            case exp.Subquery() | exp.Select() | exp.SetOperation():
                subquery = self._query(node)
                added = subqueries.single(node, subquery, self.relation, self.reading)
                return self._with(added, node, subquery.columns[0].field.data_type, subquery)
        return None

    def _window(self, node: exp.Window) -> Field:
        """Add the field of a window function."""
        function = WindowExpression.read(node, self.windows)
        self.relation, own = windowed(
            function, self.expression, lambda: self.relation, self.ties(), self.reading
        )
        return own

    def ties(self) -> list[Tie]:
        """Return the columns that order rows which an ORDER BY leaves equal.

        Those that USING merged are left out: rows that are equal in the others are equal in them.
        """
        return [tie(one.field, self._text_of(one)) for one in self.scope.columns]

    def _text_of(self, one: Named) -> str | None:
        """Return the name of a column in the text; None if it has none of its own."""
        if one.name is None or not self.scope.resolves_to(one):
            return None
        if one.table is None and self.is_alias_first(one.name):
            return None
        return ".".join(identifier(part) for part in (one.table, one.name) if part is not None)

    def _among(self, node: exp.Expr) -> exp.Expr:
        """Return the field of IN with a subquery."""
        value = self.expression(node.this)
        subquery = self._query(node.args["query"])
        added = subqueries.among(
            node, value, subquery, self.relation, self.reading, is_filter=_is_filter(node)
        )
        return self._with(added, node, BooleanType(), subquery)

    def _query(self, node: exp.Expr) -> Selected:
        return self.reading.query(node, self.ctes, self.scope)

    def _with(
        self,
        added: subqueries.Added | None,
        node: exp.Expr,
        data_type: DataType | None,
        query: Selected,
    ) -> exp.Expr:
        """Add the field of a subquery; if there is none, Spark computes it."""
        if added is None:
            return self.only_in_spark(node, data_type, query).tree
        self.relation = added.relation
        self.reading.origins[added.relation] = TextOrigin(node)
        return added.tree


def _parameters(node: exp.Expr) -> set[str]:
    """Return the parameters of the lambda functions around a node, in lower case."""
    names, parent = set[str](), node.parent
    while parent is not None and not isinstance(parent, exp.Query):
        if isinstance(parent, exp.Lambda):
            names |= {one.name.lower() for one in parent.expressions}
        parent = parent.parent
    return names


def _is_filter(node: exp.Expr) -> bool:
    """Return whether a condition keeps the rows for which it is true, and is no part of another."""
    parent = node.parent
    while isinstance(parent, exp.And | exp.Paren):
        parent = parent.parent
    return isinstance(parent, exp.Where | exp.Having | exp.Qualify)


def _asks(node: exp.Expr) -> bool:
    """Return whether a node is IN with a subquery."""
    return isinstance(node, exp.In) and node.args.get("query") is not None


def _or_else(tree: exp.Expr, value: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="coalesce", expressions=[tree, value])


def _is_unit(node: exp.Expr) -> bool:
    call = node.parent
    is_first = call is not None and len(call.expressions) == 3 and call.expressions[0] is node
    return is_first and function_name(call) in _UNITS
