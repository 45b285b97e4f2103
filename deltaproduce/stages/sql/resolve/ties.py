"""Ties: the text that makes Spark return the same one of several equal ends.

``max_by(x, y)`` and ``mode(x)`` may return any of several values. The library takes the least of
them, nulls first, and Spark's text is edited so that it does, too: ``y`` becomes a struct of ``y``
and of something that is greatest for the least ``x``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import Token, TokenType, exp

from deltaproduce.stages.sql.syntax import DEPTHS
from deltaproduce.stages.sql.text import Edit, QueryText, start_of
from deltaproduce.types.data_types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    TimestampType,
)

_Span = tuple[int, int]
"""The first character of a part of a text, and the one after it."""


@dataclass(frozen=True, slots=True)
class _Written:
    """A call in a text, with where its arguments are."""

    start: int
    arguments: tuple[_Span, ...]

    @property
    def size(self) -> int:
        return self.arguments[-1][1] - self.start

    def has(self, place: int) -> bool:
        return self.start <= place < self.arguments[-1][1]


def least_of_ties(
    node: exp.Expr, function: str, kind: DataType | None, text: QueryText
) -> Edit | None:
    """Return the edit after which a call returns the least of the values that it may return.

    Args:
        node: the call, of ``min_by``, ``max_by`` or ``mode``.
        kind: the type of its value.

    Returns:
        None if Spark cannot be told.
    """
    written = _found(node, function, text)
    if written is None or any(isinstance(one, exp.Query) for one in node.walk()):
        return None
    if function == "mode":
        end = written.arguments[0][1]
        return Edit(end, end, ", true") if len(written.arguments) == 1 else None
    if len(written.arguments) != 2:
        return None
    value, by = (text.text[start:end] for start, end in written.arguments)
    order = [value] if function == "min_by" else _reversed(value, kind)
    if not order:
        return None
    fields = ", ".join(f"'{place}', {one}" for place, one in enumerate((by, *order)))
    decider = f"CASE WHEN ({by}) IS NOT NULL THEN named_struct({fields}) END"
    return Edit(*written.arguments[1], f" {decider}")


def _found(node: exp.Expr, function: str, text: QueryText) -> _Written | None:
    """Return where a call is written: the innermost one around its first name or literal."""
    place = min((start_of(one) for one in node.walk() if "start" in one.meta), default=None)
    if place is None:
        return None
    around = (one for one in _calls(function, text.tokens) if one.has(place))
    return min(around, key=lambda one: one.size, default=None)


def _calls(function: str, tokens: Sequence[Token]) -> Iterator[_Written]:
    for place, token in enumerate(tokens[:-1]):
        opened = tokens[place + 1].token_type is TokenType.L_PAREN
        if opened and token.text.lower() == function:
            spans = tuple(_arguments(tokens[place + 1 :]))
            if spans:
                yield _Written(token.start, spans)


def _arguments(tokens: Sequence[Token]) -> Iterator[_Span]:
    """Yield where the arguments are, of tokens that begin with their parenthesis."""
    depth, begin = 0, tokens[0].end + 1
    for token in tokens:
        depth += DEPTHS.get(token.token_type, 0)
        if depth == 0 or (depth == 1 and token.token_type is TokenType.COMMA):
            yield begin, token.start
            begin = token.end + 1
        if depth == 0:
            return


def _reversed(value: str, kind: DataType | None) -> list[str]:
    """Return expressions that order the values of an expression from the greatest to the least.

    Null is the greatest of them. There are none for a type whose order cannot be turned round.
    """
    for types, parts in _REVERSED:
        if isinstance(kind, types):
            return [f"({value}) IS NULL", *(part.format(value) for part in parts)]
    return []


_REVERSED: Final[Sequence[tuple[tuple[type[DataType], ...], tuple[str, ...]]]] = (
    ((IntegralType,), ("-CAST({} AS DECIMAL(20, 0))",)),
    ((DecimalType,), ("-({})",)),
    ((FloatType, DoubleType), ("NOT isnan({})", "-({})")),
    # UTF-8's order: each half of a byte counts down, and the end is the greatest
    (
        (StringType, BinaryType),
        ("translate(hex({}), '0123456789ABCDEF', 'FEDCBA9876543210') || 'G'",),
    ),
    ((BooleanType,), ("NOT ({})",)),
    ((DateType,), ("-unix_date({})",)),
    ((TimestampType,), ("-CAST(unix_micros({}) AS DECIMAL(20, 0))",)),
)
"""Types, and what orders their values the other way round."""
