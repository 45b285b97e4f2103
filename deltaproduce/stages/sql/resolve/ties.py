"""Ties: the text that makes Spark return the same one of several equal ends.

``max_by(x, y)`` and ``mode(x)`` may return any of several values. The library takes the least of
them, nulls first, and Spark's text is edited so that it does, too: ``y`` becomes a struct of ``y``
and of something that is greatest for the least ``x``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from sqlglot import TokenType, exp

from deltaproduce.stages.sql.text import Edit, QueryText, beside, closing_of, start_of, token_at
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
    is_written = "start" in node.meta
    if not is_written or any(isinstance(one, exp.Query) for one in node.walk()):
        return None
    spans = _arguments(node, text)
    if function == "mode":
        (_, end) = spans[-1]
        return Edit(end, end, ", true") if len(spans) == 1 else None
    if len(spans) != 2:
        return None
    value, by = (text.text[start:end] for start, end in spans)
    order = [value] if function == "min_by" else _reversed(value, kind)
    if not order:
        return None
    fields = ", ".join(f"'{place}', {one}" for place, one in enumerate((by, *order)))
    decider = f"CASE WHEN ({by}) IS NOT NULL THEN named_struct({fields}) END"
    return Edit(*spans[1], f" {decider}")


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
