"""A query as the user wrote it: its text, its syntax tree, and edits of the text.

`QueryText.read` parses the text with sqlglot. Each `TextEdit` replaces a range of the text;
`edited` applies them.

The invariant: text outside of all edits stays as written. sqlglot parses SQL here and never writes
it, since it does not always write what it has read: ``unix_timestamp()`` becomes
``UNIX_TIMESTAMP(CURRENT_TIMESTAMP())``, and a date's pattern ``'E'`` becomes ``'EEE'``. For the
same reason it is kept from knowing functions, and parses the grammar alone.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.syntax import (
    AS_OF,
    DEPTHS,
    GrammarParser,
    line_of,
    reason,
    shortened,
    spark_dialect,
    spelled,
)
from deltaproduce.types.ddl import identifier


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replaces ``text[start:end]``.

    Attributes:
        start: the first character to replace.
        end: the first one after them; the same as `start` to insert.
        text: the replacement.
        feeder: the feeder whose view is named before `text`, if there is one.
    """

    start: int
    end: int
    text: str
    feeder: str | None = None


def edited(text: str, edits: Iterable[TextEdit], views: Mapping[str, str]) -> str:
    """Return the text with all edits applied, and views in place of feeders."""
    pieces, position = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        view = "" if edit.feeder is None else identifier(views[edit.feeder])
        pieces += [text[position : edit.start], view, edit.text]
        position = edit.end
    return "".join([*pieces, text[position:]])


@dataclass(frozen=True, slots=True)
class QueryText:
    """A parsed query.

    Attributes:
        text: the user's text.
        tokens: its tokens, without a final semicolon.
        tree: its sqlglot tree. A SELECT has the position of its first column.
    """

    text: str
    tokens: tuple[Token, ...]
    tree: exp.Query

    @classmethod
    def read(cls, text: str) -> "QueryText":
        """Parse the text of one query.

        Raises:
            DefinitionError: it is not one query, or not in the grammar that sqlglot knows.
        """
        dialect = spark_dialect()
        trees: list[exp.Expr | None] = []
        try:
            tokens = tuple(dialect.tokenize(text))
            while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
                tokens = tokens[:-1]
            if any(token.token_type is TokenType.PIPE_GT for token in tokens):
                raise DefinitionError("'|>' is not supported in a query; write SELECT … FROM …")
            if tokens and tokens[0].token_type in BEGINNINGS:
                trees = GrammarParser(dialect=dialect).parse(list(_marked(_named(tokens))), text)
        except SqlglotError as error:
            raise DefinitionError(
                f"the query cannot be read: {reason(error)}", line=line_of(error)
            ) from None
        if len(trees) != 1 or not isinstance(trees[0], exp.Query):
            raise DefinitionError(f"{shortened(text)!r} is not a query; write one SELECT")
        for select in trees[0].find_all(exp.Select):
            _unmark(select)
        return cls(text, tokens, trees[0])

    @property
    def end(self) -> int:
        """The end of the last token."""
        return self.tokens[-1].end + 1

    def top_order(self) -> list[list[Token]]:
        """Return the tokens of each expression of the outermost ORDER BY, which comes last."""
        depth, items = 0, list[list[Token]]()
        for token in self.tokens:
            depth += DEPTHS.get(token.token_type, 0)
            if depth == 0 and token.token_type is TokenType.ORDER_BY:
                items = [[token], []]
            elif depth == 0 and token.token_type is TokenType.COMMA:
                items.append([])
            elif items:
                items[-1].append(token)
        return items


def start_of(node: exp.Expr) -> int:
    """Return where a node with a position begins: a name, literal, star, or a SELECT's columns."""
    return int(node.meta["start"])


def end_of(node: exp.Expr) -> int:
    """Return where a node with a position ends: the first character after it."""
    return int(node.meta["end"]) + 1


def token_at(tokens: Sequence[Token], start: int) -> int:
    """Return the place of the token that begins at a character."""
    return next(place for place, token in enumerate(tokens) if token.start == start)


def beside(tokens: Sequence[Token], place: int) -> Iterator[int]:
    """Yield the places of the tokens from a place on that are in no parentheses after it."""
    depth = 0
    for n in range(place, len(tokens)):
        change = DEPTHS.get(tokens[n].token_type, 0)
        if depth == 0 and change <= 0:
            yield n
        depth += change


def closing_of(tokens: Sequence[Token], opening: int) -> int:
    """Return the place of the parenthesis that closes another one."""
    return next(n for n in beside(tokens, opening + 1) if DEPTHS.get(tokens[n].token_type, 0) < 0)


def line_at(node: exp.Expr) -> int | None:
    """Return the line of a node in the text; None if no part of it has a position."""
    return next((int(part.meta["line"]) for part in node.dfs() if "line" in part.meta), None)


def refused(node: exp.Expr, advice: str) -> DefinitionError:
    """Return the error for a part of a query, with its line."""
    return DefinitionError(f"{spelled(node)!r} {advice}", line=line_at(node))


BEGINNINGS: Final = {TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.L_PAREN}
"""The tokens that a query may begin with."""
_BEFORE_COLUMNS: Final = {TokenType.HINT, TokenType.ALL, TokenType.DISTINCT}
_MARK: Final = "_first_column"
_OPERANDS: Final = {
    *(TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.R_BRACKET),
}


def _named(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield the tokens, with the name of a version's date as one name, which has a place."""
    place = 0
    while place < len(tokens):
        token, *after = tokens[place : place + 2]
        is_named = token.token_type is TokenType.COLON and after and _continues(token, after[0])
        if is_named and not (place and _is_operand(tokens[place - 1], token)):
            end = after[0].end
            yield Token(TokenType.IDENTIFIER, AS_OF, token.line, token.col, token.start, end)
            place += 2
        else:
            yield token
            place += 1


def _continues(colon: Token, name: Token) -> bool:
    return name.start == colon.end + 1 and f":{name.text.lower()}" == AS_OF


def _is_operand(before: Token, colon: Token) -> bool:
    """Return whether a colon takes a part of what is before it."""
    return before.end + 1 == colon.start and before.token_type in _OPERANDS


def _marked(tokens: Iterable[Token]) -> Iterator[Token]:
    """Mark the start of each SELECT's columns by an added column, so that the tree has it."""
    after_select = False
    for token in tokens:
        if after_select and token.token_type not in _BEFORE_COLUMNS:
            after_select = False
            at = {name: getattr(token, name) for name in ("line", "col", "start", "end")}
            yield Token(TokenType.VAR, _MARK, **at)
            yield Token(TokenType.COMMA, ",", **at)
        after_select = after_select or token.token_type is TokenType.SELECT
        yield token


def _unmark(select: exp.Select) -> None:
    columns = select.expressions
    if not columns or columns[0].name != _MARK:
        raise DefinitionError(f"{spelled(select)!r} names no columns; write SELECT …")
    if len(columns) == 1:
        columns[0].pop()
        raise DefinitionError(f"{spelled(select)!r} has no columns; name at least one")
    mark = columns[0].pop()
    select.update_positions(mark.find(exp.Identifier))
