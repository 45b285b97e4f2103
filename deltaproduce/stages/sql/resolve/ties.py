"""Ties: edits of a query's text that make Spark return the same one of several equal ends.

``max_by(x, y)`` and ``mode(x)`` may return any of several values; see `expressions.ties`.
"""

from __future__ import annotations

from itertools import pairwise

from sqlglot import TokenType, exp

from deltaproduce.stages.sql.expressions.ties import decided
from deltaproduce.stages.sql.text import QueryText, TextEdit, beside, closing_of, start_of, token_at
from deltaproduce.types.data_types import DataType

_Span = tuple[int, int]
"""The first character of a part of a text, and the one after it."""


def least_of_ties(
    node: exp.Expr, function: str, kind: DataType | None, text: QueryText
) -> TextEdit | None:
    """Return the edit after which a call returns the least of the values that it may return.

    Args:
        node: the call, of ``min_by``, ``max_by`` or ``mode``.
        kind: the type of its value.

    Returns:
        None if Spark cannot be told.
    """
    is_written = "start" in node.meta
    if not is_written or any(isinstance(one, exp.Query) for one in node.walk()):
        return None
    spans = _arguments(node, text)
    if function == "mode":
        (_, end) = spans[-1]
        return TextEdit(end, end, ", true") if len(spans) == 1 else None
    if len(spans) != 2:
        return None
    value, by = (text.text[start:end] for start, end in spans)
    decider = decided(function, value, by, kind)
    return None if decider is None else TextEdit(*spans[1], f" {decider}")


def as_text(value: str) -> str:
    """Return what orders values that Spark does not order, such as maps."""
    return f"to_json(struct({value}))"


def _arguments(node: exp.Expr, text: QueryText) -> list[_Span]:
    """Return where the arguments of a call are."""
    tokens = text.tokens
    opening = token_at(tokens, start_of(node)) + 1
    closing = closing_of(tokens, opening)
    commas = [
        n for n in beside(tokens[:closing], opening + 1) if tokens[n].token_type is TokenType.COMMA
    ]
    bounds = [opening, *commas, closing]
    return [(tokens[begin].end + 1, tokens[end].start) for begin, end in pairwise(bounds)]
