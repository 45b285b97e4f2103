"""Headers: the part of a SQL file before its query: ``STAGE …;``, ``EXTERNAL …;``, ``CHECK …;``.

A file with a query alone has none: it defines the stage, or the check, that is named after the
file.

Pure. The invariant: a header has each of its clauses once and no others, and an error names its
line in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, NoReturn

from sqlglot import Token, TokenType
from sqlglot.errors import SqlglotError

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.syntax import DEPTHS, reason, shortened, spark_dialect
from deltaproduce.stages.sql.text import BEGINNINGS

Sort = Literal["STAGE", "EXTERNAL", "CHECK"]

_CLAUSES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "STAGE": frozenset({"key", "partition", "scopes", "retention", "tags", "group"}),
        "EXTERNAL": frozenset(
            {"columns", "key", "partition", "scopes", "table", "unique", "tags", "group"}
        ),
        "CHECK": frozenset({"severity", "at_most"}),
    }
)
_IN_PARENTHESES: Final = frozenset({"key", "partition", "columns", "tags"})
LABELS: Final = ("tags", "group")
"""Clauses that say how selections find a stage, and nothing of its rows."""
_OF_TYPES: Final[Mapping[TokenType, int]] = MappingProxyType(
    {**DEPTHS, TokenType.LT: 1, TokenType.GT: -1}
)
"""The depths of tokens in a list of columns: ``struct<a: int, b: int>`` is one type."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause of a header.

    Attributes:
        text: its text, without its keyword and without parentheses around it.
        line: the line of the file where the text begins.
        is_text: whether it is a quoted text and not SQL.
    """

    text: str
    line: int
    is_text: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """The content of a project's SQL file.

    Attributes:
        clauses: the clauses by keyword.
        select: the query after the header; empty if there is none.
        line: the line where the header begins.
        select_line: the line where the query begins.
    """

    sort: Sort
    name: str
    clauses: Mapping[str, Clause]
    select: str
    line: int
    select_line: int

    def text(self, clause: str) -> str | None:
        """Return the text of a clause; None if the header has no such clause."""
        of_clause = self.clauses.get(clause)
        return None if of_clause is None else of_clause.text

    @property
    def labels(self) -> frozenset[str]:
        """Its tags and its group, as selections name them: ``tag:nightly``, ``group:finance``."""
        tags = {f"tag:{tag}" for tag in (self.text("tags") or "").split("\n") if tag}
        group = self.text("group")
        return frozenset(tags if group is None else {*tags, f"group:{group}"})

    def columns(self) -> dict[str, str]:
        """Return the columns of an EXTERNAL, by name, as DDL.

        Raises:
            DefinitionError: there are no columns, or one is there twice; with `line`.
        """
        columns = dict[str, str]()
        for part in self._listed("columns"):
            name = part.tokens[0].text
            if name.lower() in map(str.lower, columns):
                _refuse(
                    f"column {name!r} is there twice; name it once", self.clauses["columns"].line
                )
            columns[name] = part.text
        return columns

    def key(self) -> list[tuple[str, str]]:
        """Return the names in the key of an EXTERNAL, each with what follows it, such as ``desc``.

        Raises:
            DefinitionError: there is no key; with `line`.
        """
        return [
            (part.tokens[0].text, " ".join(token.text for token in part.tokens[1:]))
            for part in self._listed("key")
        ]

    def _listed(self, clause: str) -> list[_Part]:
        """Return the parts of a clause between its commas."""
        of_clause = self.clauses.get(clause)
        if of_clause is None:
            _refuse(f"EXTERNAL {self.name} has no {clause} (…); add it", self.line)
        try:
            text = (
                f"SELECT {of_clause.text}"  # at the beginning, SHOW and such would be a statement
            )
            return [*_parts(_tokens(text)[1:], text, _OF_TYPES)]
        except DefinitionError as error:
            _refuse(str(error), of_clause.line + (error.line or 1) - 1)


def words(text: str) -> frozenset[str]:
    """Return the words and names in a SQL text, in lower case.

    Raises:
        DefinitionError: the text cannot be tokenized; with `line`.
    """
    strings = {TokenType.STRING, TokenType.NUMBER}
    return frozenset(t.text.lower() for t in _tokens(text) if t.token_type not in strings)


def place_of(name: str | None, text: str) -> int | None:
    """Return the first line of a SQL text that contains a name; None if no line does."""
    wanted = (name or "").lower()
    return next((t.line for t in _tokens(text) if t.text.lower() == wanted), None)


def parsed(text: str, name: str, *, is_check: bool = False) -> Statement:
    """Parse the statement of a file.

    Args:
        name: the name of the stage, or the check, if the file has a query alone.
        is_check: whether the file defines a check.

    Raises:
        DefinitionError: the text is not a statement; with `line`.
    """
    tokens = _tokens(text)
    word = tokens[0].text.upper() if tokens else ""
    if tokens and tokens[0].token_type in BEGINNINGS:
        alone: Sort = "CHECK" if is_check else "STAGE"
        _check_query(alone, tokens)
        query = text[tokens[0].start :].rstrip().rstrip(";")
        return Statement(alone, name, {}, query, tokens[0].line, tokens[0].line)
    sorts: tuple[Sort, ...] = ("CHECK",) if is_check else ("STAGE", "EXTERNAL")
    if word not in sorts:
        beginning = f"begins with {shortened(tokens[0].text)!r}" if tokens else "is empty"
        headers = " or ".join(f"{one} name (…);" for one in sorts)
        _refuse(f"it {beginning}; begin with SELECT, or {headers}", tokens[0].line if tokens else 1)
    sort = next(one for one in sorts if one == word)
    if len(tokens) < 3 or tokens[2].token_type is not TokenType.L_PAREN:
        _refuse(f"after {word} write a name, and clauses in parentheses", tokens[0].line)
    end = _closing(tokens, 2)
    if end + 1 >= len(tokens) or tokens[end + 1].token_type is not TokenType.SEMICOLON:
        _refuse(f"after the clauses of {word} {tokens[1].text} write ;", tokens[end].line)
    rest = tokens[end + 2 :]
    query = text[rest[0].start :].rstrip().rstrip(";") if rest else ""
    _check_query(sort, rest)
    clauses = _clauses(sort, tokens[3:end], text)
    return Statement(
        sort, tokens[1].text, clauses, query, tokens[0].line, rest[0].line if rest else 0
    )


def _check_query(sort: Sort, rest: Sequence[Token]) -> None:
    if sort == "EXTERNAL" and rest:
        _refuse("an EXTERNAL has no query: it names a table, or a source", rest[0].line)
    ends = [n for n, token in enumerate(rest) if token.token_type is TokenType.SEMICOLON]
    if ends and ends[0] < len(rest) - 1:
        line = rest[ends[0] + 1].line
        _refuse("a file has one statement; put the other one in a file of its own", line)


@dataclass(frozen=True, slots=True)
class _Part:
    """The part between two commas."""

    tokens: Sequence[Token]
    text: str


def _clauses(sort: Sort, tokens: Sequence[Token], text: str) -> dict[str, Clause]:
    clauses = dict[str, Clause]()
    last, begins = "", 0
    for part in _parts(tokens, text):
        word, line = part.tokens[0].text.lower(), part.tokens[0].line
        if word in {"for", "let"} and last == "scopes":
            whole = text[begins : part.tokens[-1].end + 1]
            clauses["scopes"] = Clause(whole, clauses["scopes"].line)
            continue
        if word not in _CLAUSES[sort]:
            known = ", ".join(sorted(_CLAUSES[sort]))
            _refuse(f"{part.tokens[0].text!r} is not a clause of {sort}; known: {known}", line)
        if word in clauses:
            _refuse(f"clause {word} is there twice; write it once", line)
        if word == "key" and sort == "EXTERNAL" and _is_unique(part):
            part = _Part(part.tokens[:-1], part.text)
            clauses["unique"] = Clause("", line)
        clauses[word] = _clause(word, part, text)
        last, begins = word, part.tokens[min(1, len(part.tokens) - 1)].start
    return clauses


def _is_unique(part: _Part) -> bool:
    """Return whether a key is followed by the word ``unique``, as in ``key (id) unique``."""
    *_, before, last = (None, *part.tokens)
    is_after = before is not None and before.token_type is TokenType.R_PAREN
    return is_after and last is not None and last.text.lower() == "unique"


def _clause(word: str, part: _Part, text: str) -> Clause:
    inner = part.tokens[1:]
    if word in _IN_PARENTHESES:
        if not inner or inner[0].token_type is not TokenType.L_PAREN:
            _refuse(f"after {word} write a list in parentheses", part.tokens[0].line)
        closing = _closing(inner, 0)
        if closing < len(inner) - 1:
            after = inner[closing + 1]
            _refuse(f"write a comma between {word} (…) and {after.text!r}", after.line)
        inner = inner[1:closing]
    if word == "unique":
        if inner:
            _refuse(f"write a comma after unique, before {inner[0].text!r}", inner[0].line)
        return Clause("", part.tokens[0].line)
    if not inner:
        _refuse(f"clause {word} says nothing", part.tokens[0].line)
    if word in LABELS:
        return _labels(word, inner, text)
    if word == "table":
        is_text = inner[0].token_type is TokenType.STRING
        if len(inner) != 1 or not (is_text or inner[0].text.isidentifier()):
            _refuse(
                "after table write its path or name as text, 'lake/events', or a variable",
                inner[0].line,
            )
        return Clause(inner[0].text, inner[0].line, is_text=is_text)
    return Clause(text[inner[0].start : inner[-1].end + 1], inner[0].line)


def _labels(word: str, tokens: Sequence[Token], text: str) -> Clause:
    """Return a clause of names, one a line: words, or texts in quotes."""
    names = list[str]()
    for part in _parts(tokens, text):
        first = part.tokens[0]
        is_name = first.token_type is TokenType.STRING or first.text.isidentifier()
        if len(part.tokens) != 1 or not is_name or "\n" in first.text:
            _refuse(f"write {shortened(part.text)!r} of {word} in quotes, as text", first.line)
        names.append(first.text)
    if word == "group" and len(names) != 1:
        _refuse(f"group has {len(names)} names: a stage has one group", tokens[0].line)
    return Clause("\n".join(names), tokens[0].line, is_text=True)


def _parts(
    tokens: Sequence[Token], text: str, depths: Mapping[TokenType, int] = DEPTHS
) -> Iterator[_Part]:
    depth, part = 0, list[Token]()
    for token in tokens:
        depth += depths.get(token.token_type, 0)
        if depth == 0 and token.token_type is TokenType.COMMA:
            if not part:
                _refuse("there is nothing before a comma", token.line)
            yield _Part(part, text[part[0].start : part[-1].end + 1])
            part = []
        else:
            part.append(token)
    if tokens and not part:
        _refuse("there is nothing after a comma", tokens[-1].line)
    if part:
        yield _Part(part, text[part[0].start : part[-1].end + 1])


def _closing(tokens: Sequence[Token], opening: int) -> int:
    """Return the position of the parenthesis that closes the one at ``opening``."""
    depth = 0
    for place in range(opening, len(tokens)):
        depth += DEPTHS.get(tokens[place].token_type, 0)
        if depth == 0:
            return place
    return _refuse("a parenthesis is not closed", tokens[opening].line)


def _tokens(text: str) -> list[Token]:
    try:
        return spark_dialect().tokenize(text)
    except SqlglotError as error:
        return _refuse(f"it cannot be read: {reason(error)}", text.count("\n") + 1)


def _refuse(fault: str, line: int) -> NoReturn:
    raise DefinitionError(fault, line=line)
