"""Scopes: what the names in a task's query stand for, by ``FOR x IN list`` and ``LET x = value``.

A scope is made of the date that is scheduled, and of nothing else. The invariant: two evaluations
for one date give the same scopes in the same order, on every machine and in every session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

from pyspark.sql.types import DataType
from sqlglot import Token, TokenType
from sqlglot.errors import SqlglotError

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.partitioned.scope.lists import as_one, is_dated, is_list, listed
from deltaproduce.stages.partitioned.scope.scalars import scalar
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.terms import Constant
from deltaproduce.stages.sql.syntax import DEPTHS, reason, shortened, spark_dialect

Scope: TypeAlias = Mapping[str, Constant]
"""The names of one task, in the order in which they are defined, and what they stand for."""

_SAMPLE: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""Types do not depend on the date; this one is as good as any other."""


@dataclass(frozen=True, slots=True)
class Clause:
    """``FOR name IN expression``, or ``LET name = expression``.

    Attributes:
        repeats: whether it is a FOR, which makes a scope of each item of a list.
    """

    repeats: bool
    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Scopes:
    """What the scopes of a stage are made of.

    Attributes:
        text: as the user wrote it, on one line.
        sample: a scope, for the names and the types of what they stand for.
    """

    text: str
    clauses: tuple[Clause, ...]
    sample: Scope

    @staticmethod
    def read(text: str) -> Scopes:
        """The scopes that a text defines; one scope without names if it is empty.

        Raises:
            DefinitionError: it cannot be read, or a part is not determined by the date; with the
                `line` in the text.
        """
        clauses = list[Clause]()
        for tokens in _parts(text):
            try:
                clauses.append(_clause(tokens, text, [clause.name for clause in clauses]))
            except DefinitionError as error:
                raise DefinitionError(str(error), line=tokens[0].line) from None
        sample = next(_expanded(clauses, _SAMPLE, typing=True))
        return Scopes(" ".join(text.split()), tuple(clauses), sample)

    @property
    def types(self) -> dict[str, DataType]:
        """The names, in order, and the types of what they stand for."""
        return {name: value.data_type for name, value in self.sample.items()}

    @property
    def timeless(self) -> Iterator[Scope]:
        """The scopes of all dates, if they are the same at each; else none."""
        is_timeless = not any(is_dated(clause.expression) for clause in self.clauses)
        return _expanded(self.clauses, _SAMPLE) if is_timeless else iter(())

    def of(self, moment: datetime) -> list[Scope]:
        """The scopes of a date, in the order of their lists.

        Args:
            moment: the date that is scheduled, in UTC.

        Raises:
            DefinitionError: a value cannot be computed.
        """
        return list(_expanded(self.clauses, moment))


def _parts(text: str) -> Iterator[list[Token]]:
    """The clauses of a text, which commas part."""
    try:
        tokens = spark_dialect().tokenize(text)
    except SqlglotError as error:
        raise DefinitionError(f"{shortened(text)!r} cannot be read: {reason(error)}") from None
    depth, part = 0, list[Token]()
    for token in tokens:
        depth += DEPTHS.get(token.token_type, 0)
        if depth == 0 and token.token_type is TokenType.COMMA:
            yield part
            part = []
        else:
            part.append(token)
    if tokens:
        yield part or [tokens[-1]]


def _clause(tokens: Sequence[Token], text: str, known: Sequence[str]) -> Clause:
    """One clause, whose expression may name those before it."""
    words = [token.text.upper() for token in tokens[:3]]
    if len(tokens) < 4 or (words[0], words[2]) not in {("FOR", "IN"), ("LET", "=")}:
        told = shortened(text[tokens[0].start : tokens[-1].end + 1])
        raise DefinitionError(
            f"{told!r} is no part of scopes; write FOR x IN list or LET x = value"
        )
    name = tokens[1].text
    if not name.isidentifier() or name.startswith("_"):
        raise DefinitionError(f"{name!r} cannot be a name in a scope; use letters and digits")
    if name.lower() in map(str.lower, known):
        raise DefinitionError(f"{name!r} is defined twice in one scope; rename one")
    expression = Expression.read(text[tokens[3].start : tokens[-1].end + 1], known)
    return Clause(words[0] == "FOR", name, expression)


def _expanded(
    clauses: Sequence[Clause], moment: datetime, *, typing: bool = False
) -> Iterator[Scope]:
    """All scopes of a date.

    Args:
        typing: types are all that matters, so that no list is empty.
    """
    scopes: Iterator[Scope] = iter([{}])
    for clause in clauses:
        scopes = _extended(scopes, clause, moment, typing=typing)
    yield from scopes


def _extended(
    scopes: Iterator[Scope], clause: Clause, moment: datetime, *, typing: bool
) -> Iterator[Scope]:
    """Scopes with one more name each."""
    for scope in scopes:
        if clause.repeats:
            items = listed(clause.expression, scope, moment, typing=typing)
            yield from ({**scope, clause.name: item} for item in items)
        elif is_list(clause.expression, scope):
            items = listed(clause.expression, scope, moment, typing=typing)
            yield {**scope, clause.name: as_one(items, clause.expression, scope, moment)}
        else:
            yield {**scope, clause.name: scalar(clause.expression, scope)}
