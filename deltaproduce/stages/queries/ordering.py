"""The ORDER BY at the end of a query: it orders the rows of each source key.

SQL sorts a result as a whole, but a stage keeps rows by key, so a step numbers the rows of each
source key separately. For this, ORDER BY is removed from the query, and its expressions are
rewritten over the query's columns. An expression that they cannot provide becomes an additional
column of the SELECT.

The invariant: a rewritten expression means what Spark takes it for in ORDER BY, where a name is a
column of the result if there is one, and else a column of FROM.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import Token, TokenType, exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.queries.functions import check_functions, is_aggregate, own
from deltaproduce.stages.queries.projections import Projection
from deltaproduce.stages.queries.relations import Frame, names_of, same_name
from deltaproduce.stages.sql.syntax import spelled
from deltaproduce.stages.sql.text import Edit, QueryText, start_of
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
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True)
class Ordered:
    """The query that is ordered.

    Attributes:
        text: the query.
        names: its columns.
        select: the SELECT to which columns can be added; None if the query is not one, or is
            DISTINCT.
        frame: the frame of its FROM.
        columns: its columns, in more detail.
    """

    text: QueryText
    names: tuple[str, ...]
    select: exp.Select | None = None
    frame: Frame = field(default_factory=Frame)
    columns: tuple[Projection, ...] = ()


def ordering_of(order: exp.Order | None, query: Ordered) -> Ordering:
    """Return the ordering of a query's final ORDER BY.

    Args:
        order: that ORDER BY, if there is one.
        query: the query without it.

    Raises:
        DefinitionError: the rows of a source key do not determine a sort expression, or it is
            ambiguous.
    """
    if order is None:
        return Ordering()
    items = query.text.top_order()
    windows_after = query.text.tree.args.get("windows") or ()
    if len(items) != 1 + len(order.expressions) or any(
        start_of(window.this) > items[0][0].start for window in windows_after
    ):
        raise DefinitionError(f"{spelled(order)!r} is not the end of the query; put it there")
    (order_by,), *items = items
    sorts, added = [], list[tuple[str, str]]()
    for node, tokens in zip(order.expressions, items, strict=True):
        written = _without_direction(tokens, query.text.text)
        sql = _over_columns(node.this, written, query)
        if sql is None:
            name = f"_order_{len(added)}"
            added.append((name, written))
            sql = identifier(name)
        direction = "DESC" if node.args.get("desc") else "ASC"
        nulls = "FIRST" if node.args.get("nulls_first") else "LAST"
        sorts.append(f"{sql} {direction} NULLS {nulls}")
    taken_off = Edit(order_by.start, query.text.end, "")
    return Ordering(", ".join(sorts), tuple(added), (taken_off,))


def _over_columns(node: exp.Expr, written: str, query: Ordered) -> str | None:
    """Return an expression over the query's columns; None if it must become a column itself."""
    if isinstance(node, exp.Var):
        raise DefinitionError(f"'ORDER BY {node.name}' is not supported; name the columns")
    if isinstance(node, exp.Literal) and node.is_int:
        return identifier(_numbered(int(node.name), query.names))
    _check(node, query)
    references = [_Reference.of(column, query) for column in node.find_all(exp.Column)]
    aggregates = any(map(is_aggregate, node.walk()))
    if not aggregates and all(reference.is_result for reference in references):
        return written
    fields = query.frame.fields_of(node)
    for column in query.columns:
        if fields and column.fields == fields and column.name is not None:
            return identifier(column.name)
    if query.select is None:
        message = (
            f"{spelled(node)!r} sorts by what is no column of the result, which DISTINCT and set "
            "operations do not allow; add it to the columns"
        )
        raise DefinitionError(message)
    for reference in references:
        if reference.is_result and not reference.is_same_in_from:
            raise _two_meanings(node, reference)
    return None


@dataclass(frozen=True, slots=True)
class _Reference:
    """A column that an expression of ORDER BY names, and its possible meanings."""

    name: str
    is_result: bool
    is_same_in_from: bool

    @classmethod
    def of(cls, column: exp.Column, query: Ordered) -> "_Reference":
        names = names_of(column)
        found = query.frame.found(names)
        is_result = any(same_name(name, names[0]) for name in query.names)
        fields = [field for field, used in found if used == 1]
        named = [one for one in query.columns if same_name(one.name, names[0])]
        reference = cls(
            names[0],
            is_result=is_result,
            is_same_in_from=[list(one.fields) for one in named] == [fields] and len(fields) == 1,
        )
        if is_result and found and not fields:  # names both a table and a result column
            raise _two_meanings(column, reference)
        return reference


def _two_meanings(node: exp.Expr, reference: _Reference) -> DefinitionError:
    message = (
        f"{spelled(node)!r} in ORDER BY names {reference.name!r}, which is a column of the result "
        "and something else; put the query into FROM (…), and sort outside of it"
    )
    return DefinitionError(message)


def _check(node: exp.Expr, query: Ordered) -> None:
    check_functions([node], frame=query.frame, windows={}, choosing=True)
    is_grouped = query.select is not None and query.select.args.get("group") is not None
    for part in own(node):
        if isinstance(part, exp.Query | exp.Window):
            message = f"{spelled(part)!r} cannot be in ORDER BY; add it to the columns"
            raise DefinitionError(message)
        if is_aggregate(part) and not is_grouped:
            raise DefinitionError(f"{spelled(part)!r} in ORDER BY needs GROUP BY")


def _numbered(number: int, names: Sequence[str]) -> str:
    if not 0 < number <= len(names):
        message = f"ORDER BY {number} is the number of no column; there are {len(names)}"
        raise DefinitionError(message)
    return names[number - 1]


def _without_direction(tokens: Sequence[Token], text: str) -> str:
    """Return the text of an expression of ORDER BY without its direction."""
    words = ["" if t.token_type is TokenType.IDENTIFIER else t.text.upper() for t in tokens]
    length = len(words)
    if words[length - 2 : length] in (["NULLS", "FIRST"], ["NULLS", "LAST"]):
        length -= 2
    if length > 1 and words[length - 1] in {"ASC", "DESC"}:
        length -= 1
    return text[tokens[0].start : tokens[length - 1].end + 1]
