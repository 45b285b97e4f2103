"""Spark's grammar, as sqlglot parses it: tokens, trees, and their text in messages.

The invariant: sqlglot parses SQL here and writes it only in messages, and it is kept from knowing
functions: these are names and arguments, except a few with keywords among their arguments.
"""

from typing import ClassVar, Final

from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parsers.spark import SparkParser

AS_OF: Final = ":as_of"
"""The date of a version, which a query may name."""


def spark_dialect() -> Dialect:
    """Return the SQL dialect that stages are written in."""
    return Dialect.get_or_raise("spark")


def function_name(node: exp.Expr | None) -> str | None:
    """Return the function that the node calls, in lower case; None if it calls none."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else None


def struct_parts(node: exp.Expr) -> list[tuple[str, exp.Expr]] | None:
    """Return the fields of ``struct(…)`` with Spark's names; None if only Spark names them."""
    parts = list[tuple[str, exp.Expr]]()
    for place, part in enumerate(node.expressions, start=1):
        if isinstance(part, exp.Star | exp.Dot | exp.Lambda) or isinstance(part.this, exp.Star):
            return None
        name = part.alias or (part.name if isinstance(part, exp.Column) else f"col{place}")
        parts.append((name, part.unalias()))
    return parts


def spelled(node: exp.Expr) -> str:
    """Return approximately what the user wrote, on one line, for messages."""
    return shortened(node.sql("spark", normalize_functions=False).replace(f"`{AS_OF}`", AS_OF))


def reason(error: SqlglotError) -> str:
    """Return why a text cannot be parsed."""
    if not isinstance(error, ParseError) or not error.errors:
        return str(error)
    first = error.errors[0]
    description = str(first["description"]).split("<")[0].rstrip(". ")
    return f"{description}, at {first['highlight']!r} in line {first['line']}"


def line_of(error: SqlglotError) -> int | None:
    """Return the line at which a text cannot be parsed; None if unknown."""
    if not isinstance(error, ParseError) or not error.errors:
        return None
    return int(error.errors[0]["line"])


def shortened(text: str) -> str:
    """Return a text on one line, for messages."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


_WITH_KEYWORDS: Final = {
    *("CAST", "TRY_CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTR", "SUBSTRING", "TRIM"),
}


class GrammarParser(SparkParser):
    """Parses Spark's grammar; functions are names and arguments, except a few."""

    FUNCTIONS: ClassVar = {}
    FUNCTION_PARSERS: ClassVar = {
        name: parser
        for name, parser in SparkParser.FUNCTION_PARSERS.items()
        if name in _WITH_KEYWORDS
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar = {
        name: parser
        for name, parser in SparkParser.NO_PAREN_FUNCTION_PARSERS.items()
        if name != "ANY"  # ANY is an aggregate
    }


DEPTHS: Final = {
    TokenType.L_PAREN: 1,
    TokenType.L_BRACKET: 1,
    TokenType.L_BRACE: 1,
    TokenType.R_PAREN: -1,
    TokenType.R_BRACKET: -1,
    TokenType.R_BRACE: -1,
}
"""The change of the bracket depth after a token."""
_LONGEST: Final = 120
