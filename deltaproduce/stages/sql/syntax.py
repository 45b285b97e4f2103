"""Spark's grammar, as sqlglot reads it: tokens, trees, and what messages show of them.

Invariant: sqlglot reads SQL here and never writes it but for messages, and is kept from knowing
functions: these are names and arguments, but for the few that have words of their own among them.
"""

from typing import ClassVar, Final

from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parsers.spark import SparkParser


def spark_dialect() -> Dialect:
    """The dialect of SQL that stages are written in."""
    return Dialect.get_or_raise("spark")


def function_name(node: exp.Expr | None) -> str | None:
    """Returns the function that the node calls, in lower case; None if it calls none."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else None


def spelled(node: exp.Expr) -> str:
    """Returns about what the user wrote, on one line, for messages."""
    return shortened(node.sql("spark", normalize_functions=False))


def reason(error: SqlglotError) -> str:
    """Why a text cannot be read."""
    if not isinstance(error, ParseError) or not error.errors:
        return str(error)
    first = error.errors[0]
    description = str(first["description"]).split("<")[0].rstrip(". ")
    return f"{description}, at {first['highlight']!r} in line {first['line']}"


def line_of(error: SqlglotError) -> int | None:
    """The line at which a text cannot be read; None if it is not known."""
    if not isinstance(error, ParseError) or not error.errors:
        return None
    return int(error.errors[0]["line"])


def shortened(text: str) -> str:
    """A text on one line, for messages."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


_WITH_KEYWORDS: Final = {
    *("CAST", "TRY_CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTR", "SUBSTRING", "TRIM"),
}


class GrammarParser(SparkParser):
    """Reads Spark's grammar, in which functions are names and arguments, but for a few."""

    FUNCTIONS: ClassVar = {}
    FUNCTION_PARSERS: ClassVar = {
        name: parser
        for name, parser in SparkParser.FUNCTION_PARSERS.items()
        if name in _WITH_KEYWORDS
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar = {
        name: parser
        for name, parser in SparkParser.NO_PAREN_FUNCTION_PARSERS.items()
        if name != "ANY"  # which is an aggregate
    }


DEPTHS: Final = {
    TokenType.L_PAREN: 1,
    TokenType.L_BRACKET: 1,
    TokenType.L_BRACE: 1,
    TokenType.R_PAREN: -1,
    TokenType.R_BRACKET: -1,
    TokenType.R_BRACE: -1,
}
"""How much deeper in brackets the text is after a token."""
_LONGEST: Final = 120
