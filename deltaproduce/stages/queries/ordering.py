"""The ORDER BY at the end of a query: it orders the rows of each source key.

SQL sorts a result as a whole, but a stage keeps rows by key, so a step numbers the rows of each
source key separately. For this, ORDER BY is removed from the query's text, and its expressions are
rewritten over the query's columns. An expression that they cannot provide becomes an additional
column of the SELECT.

The invariant: a rewritten expression means what Spark takes it for in ORDER BY, where a name is a
column of the result if there is one, and else a column of FROM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import Token, TokenType, exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.queries.keys import fields_of
from deltaproduce.stages.sql.algebra.relations import ProjectRelation
from deltaproduce.stages.sql.resolve import Resolved, Scope, is_aggregate
from deltaproduce.stages.sql.syntax import spelled
from deltaproduce.stages.sql.text import TextEdit, start_of
from deltaproduce.types.ddl import identifier


@dataclass(frozen=True, slots=True)
class Ordering:
    """The sort order of the rows of a source key.

    Attributes:
        order: the text after ORDER BY; None if the query does not end with one.
        added: expressions that the SELECT must have as columns, by name.
        edits: the edits that remove ORDER BY from the text.
    """

    order: str | None = None
    added: tuple[tuple[str, str], ...] = ()
    edits: tuple[TextEdit, ...] = ()


def ordering_of(query: Resolved) -> Ordering:
    """Return the ordering of a query's final ORDER BY.

    Raises:
        DefinitionError: the rows of a source key do not determine a sort expression, or it is
            ambiguous.
    """
    text = query.reading.text
    order = text.tree.args.get("order")
    if order is None:
        return Ordering()
    items = text.top_order()
    windows_after = text.tree.args.get("windows") or ()
    if len(items) != 1 + len(order.expressions) or any(
        start_of(window.this) > items[0][0].start for window in windows_after
    ):
        raise DefinitionError(f"{spelled(order)!r} is not the end of the query; put it there")
    (order_by,), *items = items
    columns = {one.field.id: one.name or "" for one in query.columns}
    result = _Result.of(query)
    sorts, added = [], list[tuple[str, str]]()
    for node, key, tokens in zip(order.expressions, query.order, items, strict=True):
        written = _without_direction(tokens, text.text)
        result.check(node.this)
        if result.provides(node.this):
            sql = written
        elif key.field.id in columns:
            sql = identifier(columns[key.field.id])
        else:
            result.check_same(node.this)
            sql = f"_order_{len(added)}"
            added.append((sql, written))
            sql = identifier(sql)
        direction = "DESC" if key.descending else "ASC"
        nulls = "FIRST" if key.nulls_first else "LAST"
        sorts.append(f"{sql} {direction} NULLS {nulls}")
    taken_off = TextEdit(order_by.start, text.end, "")
    return Ordering(", ".join(sorts), tuple(added), (taken_off,))


@dataclass(frozen=True, slots=True)
class _Result:
    """The columns that ORDER BY can name.

    Attributes:
        fields: the columns of the result -> the fields of FROM that they are, by lower-case name.
        scope: the columns of FROM.
    """

    fields: dict[str, tuple[str, ...]]
    scope: Scope

    @staticmethod
    def of(query: Resolved) -> _Result:
        select, known = query.relation, dict[str, tuple[str, ...]]()
        origin = query.reading.origins.get(select)
        if isinstance(select, ProjectRelation):
            known = {o.field.id: fields_of(o.scalar.expression.tree) for o in select.outputs}
        fields = {(c.name or "").lower(): known.get(c.field.id, ()) for c in query.columns}
        scope = Scope() if origin is None or origin.scope is None else origin.scope
        return _Result(fields, scope)

    def provides(self, node: exp.Expr) -> bool:
        """Return whether an expression names columns of the result only, and is no number."""
        if isinstance(node, exp.Literal) and node.is_int:
            return False
        return all(self._is_result(one) for one in node.find_all(exp.Column)) and not any(
            map(is_aggregate, node.walk())
        )

    def check(self, node: exp.Expr) -> None:
        """Refuse what cannot be in ORDER BY, and names with two meanings."""
        for part in node.walk(prune=lambda one: isinstance(one, exp.Query)):
            if isinstance(part, exp.Query | exp.Window):
                message = f"{spelled(part)!r} cannot be in ORDER BY; add it to the columns"
                raise DefinitionError(message)
            if isinstance(part, exp.Column) and self._is_result(part):
                columns = self.scope.find(part)
                if columns is not None and columns[1] > 1:  # names both a table and a result column
                    raise _two_meanings(part, part)

    def check_same(self, node: exp.Expr) -> None:
        """Refuse a name that means another column in the SELECT than in ORDER BY."""
        for one in node.find_all(exp.Column):
            if self._is_result(one):
                columns = self.scope.find(one)
                own = self.fields[one.parts[0].name.lower()]
                if columns is None or own != (columns[0].id,):
                    raise _two_meanings(node, one)

    def _is_result(self, column: exp.Column) -> bool:
        return column.parts[0].name.lower() in self.fields


def _two_meanings(node: exp.Expr, column: exp.Column) -> DefinitionError:
    message = (
        f"{spelled(node)!r} in ORDER BY names {column.parts[0].name!r}, which is a column of the "
        "result and something else; put the query into FROM (…), and sort outside of it"
    )
    return DefinitionError(message)


def _without_direction(tokens: Sequence[Token], text: str) -> str:
    """Return the text of an expression of ORDER BY without its direction."""
    words = ["" if t.token_type is TokenType.IDENTIFIER else t.text.upper() for t in tokens]
    length = len(words)
    if words[length - 2 : length] in (["NULLS", "FIRST"], ["NULLS", "LAST"]):
        length -= 2
    if length > 1 and words[length - 1] in {"ASC", "DESC"}:
        length -= 1
    return text[tokens[0].start : tokens[length - 1].end + 1]
