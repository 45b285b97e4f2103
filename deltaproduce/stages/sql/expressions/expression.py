"""Expressions: SQL text over the columns of one row, parsed and checked without types.

The invariant: the value of an `Expression` for a row depends on the row alone, however often and
wherever it is computed, so removed rows can be matched with added ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.functions import (
    AGGREGATES,
    GENERATORS,
    PHYSICAL,
    VOLATILE,
    is_time,
    names_in,
)
from deltaproduce.stages.sql.syntax import (
    DEPTHS,
    GrammarParser,
    function_name,
    reason,
    shortened,
    spark_dialect,
    spelled,
)
from deltaproduce.types.ddl import identifier, name_from
from deltaproduce.types.excerpts import meant

_LITERALS = frozenset({"null", "true", "false"})
_SELECT = "SELECT "
_WITH_UNITS = names_in("date_add date_diff dateadd datediff timestampadd timestampdiff")
"""Functions with three arguments, the first of which is a keyword."""


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression over the columns of a row.

    Attributes:
        text: Spark SQL, with the exact names of columns; equal for texts that differ only in
            spaces, comments and the case of columns.
        columns: the names of the columns that it reads.
        tree: its sqlglot tree; columns are named as in the text.
    """

    text: str
    columns: tuple[str, ...]
    tree: exp.Expr = field(compare=False, repr=False)

    @staticmethod
    def read(text: str, columns: Sequence[str]) -> Expression:
        """Read an expression.

        Args:
            columns: the columns that it may name, ignoring case.

        Raises:
            DefinitionError: it cannot be parsed, or a row of these columns does not determine it.
        """
        name = name_from(text)
        if name is not None and name.lower() not in _LITERALS and (known := _known(name, columns)):
            return Expression.of_column(known)
        tokens, tree = _parsed(text)
        lambdas = {
            name.name.lower() for node in tree.find_all(exp.Lambda) for name in node.expressions
        }
        renamed, read = dict[int, str](), list[str]()
        for node in tree.walk():
            _check(node, columns)
            if not isinstance(node, exp.Column):
                continue
            first = node.parts[0]
            if column := _known(first.name, columns):
                renamed[int(first.meta["start"])] = identifier(column)
                first.set("this", column)
                read.append(column)
            elif first.name.lower() not in lambdas and not _is_unit(node):
                advice = meant(first.name, columns)
                message = f"{spelled(node)!r} is not one of the columns; {advice}"
                raise DefinitionError(message)
        words = "".join(before + renamed.get(start, word) for before, start, word in tokens)
        return Expression(words.strip(), tuple(dict.fromkeys(read)), tree)

    @staticmethod
    def of_column(name: str) -> Expression:
        """Return a column of exactly that name as an expression."""
        tree = exp.column(exp.to_identifier(name, quoted=True))
        return Expression(identifier(name), (name,), tree)

    @staticmethod
    def listed(text: str, columns: Sequence[str]) -> Iterator[tuple[str, Expression]]:
        """Yield a list's columns by name: ``a, b + 1 AS c``.

        An item without ``AS`` is a column, so a word such as ``case`` or ``true`` is its name.

        Args:
            columns: the columns that it may name, ignoring case.

        Raises:
            DefinitionError: it cannot be parsed, or an item is no column and has no name.
        """
        for part, name in items(text):
            if name is not None:
                yield name, Expression.read(part, columns)
                continue
            column = _known(name_from(part) or "", columns)
            expression = Expression.of_column(column) if column else Expression.read(part, columns)
            if expression.column is None:
                raise DefinitionError(f"{part!r} has no name; write {part} AS name")
            yield expression.column, expression

    @property
    def column(self) -> str | None:
        """The column that it consists of; None if it is more than a column."""
        bare = isinstance(self.tree, exp.Column) and len(self.tree.parts) == 1
        return self.columns[0] if bare and self.columns else None

    @property
    def name(self) -> str:
        """A unique name for it: a column's own name."""
        return self.column or self.text


def items(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield the items of a list: ``"a, b + 1 AS c"`` is `("a", None)` and `("b + 1", "c")`.

    Raises:
        DefinitionError: it cannot be parsed, or an item is empty.
    """
    parts, depth, query = [list[Token]()], 0, _SELECT + text
    for token in _tokens(query)[1:]:  # at the beginning, SHOW and such would be a statement
        depth += DEPTHS.get(token.token_type, 0)
        if depth == 0 and token.token_type is TokenType.COMMA:
            parts.append([])
        else:
            parts[-1].append(token)
    for part in parts:
        if not part:
            raise DefinitionError(f"{shortened(text)!r} has an empty part; name a column")
        name = part[-1].text if len(part) > 2 and part[-2].token_type is TokenType.ALIAS else None
        last = part[-1] if name is None else part[-3]
        yield query[part[0].start : last.end + 1], name


def _known(name: str, columns: Sequence[str]) -> str | None:
    """Return a column as it is spelled; None if there is none of that name."""
    return next((column for column in columns if column.lower() == name.lower()), None)


def _tokens(text: str) -> list[Token]:
    try:
        return spark_dialect().tokenize(text)
    except SqlglotError as error:
        raise DefinitionError(f"{shortened(text)!r} cannot be read: {reason(error)}") from None


def _parsed(text: str) -> tuple[list[tuple[str, int, str]], exp.Expr]:
    """Return an expression's words, each with the text before it and its position, and its tree."""
    query = _SELECT + text
    tokens = _tokens(query)
    try:
        (tree,) = GrammarParser(dialect=spark_dialect()).parse(tokens, query)
    except (SqlglotError, ValueError) as error:
        message = reason(error) if isinstance(error, SqlglotError) else "it is more than one"
        raise DefinitionError(f"{shortened(text)!r} cannot be read: {message}") from None
    others = (
        {name for name, value in tree.args.items() if value} - {"expressions"} if tree else {""}
    )
    if not isinstance(tree, exp.Select) or others or len(tree.expressions) != 1:
        raise DefinitionError(f"{shortened(text)!r} is not one expression over columns")
    words = list[tuple[str, int, str]]()
    for before, token in pairwise(tokens):
        if token.start > before.start:  # a number with a suffix is several tokens
            strings = before.token_type is token.token_type is TokenType.STRING
            gap = "" if strings and token.start == before.end + 1 else " "  # 'it''s' is one token
            words.append((gap, token.start, query[token.start : token.end + 1]))
    return words, tree.expressions[0]


def _check(node: exp.Expr, columns: Sequence[str]) -> None:
    """Refuse whatever one row does not determine."""
    name = function_name(node)
    fault = None
    if isinstance(node, exp.Query):
        fault = "is a query; join the stages first, in a stage before this one"
    elif isinstance(node, exp.Window) or name in AGGREGATES:
        fault = "is computed from many rows; an expression is computed from one"
    elif isinstance(node, exp.Alias | exp.Star):
        fault = "is not a value of a row; write an expression over its columns"
    elif name in GENERATORS:
        fault = "makes several rows of one; make them in a stage before this one"
    elif name in VOLATILE or is_time(node) or _is_bare_function(node, columns):
        fault = "differs from run to run; take the value from a column"
    elif name in PHYSICAL:
        fault = "depends on how rows are stored; take the value from a column"
    if fault:
        raise DefinitionError(f"{spelled(node)!r} {fault}")


def _is_bare_function(node: exp.Expr, columns: Sequence[str]) -> bool:
    """Return whether a name such as ``user`` is a function, as it is if there is no such column."""
    if not isinstance(node, exp.Column) or len(node.parts) > 1 or node.name.lower() not in VOLATILE:
        return False
    return node.name.lower() not in {name.lower() for name in columns}


def _is_unit(node: exp.Column) -> bool:
    """Return whether a column is a unit, such as ``DAY`` in ``datediff(DAY, a, b)``."""
    call = node.parent
    is_first = call is not None and len(call.expressions) == 3 and call.expressions[0] is node
    return is_first and function_name(call) in _WITH_UNITS
