"""Patterns: numeric ones of dates and times, in the letters of ``date_format``; and of ``LIKE``.

The invariant: a pattern that is found here formats, or matches, as in Spark. Names of months and
days, fractions, zones and numbers of other widths are left to Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_PIECES: Final = re.compile(
    r"(?P<field>(?P<letter>[A-Za-z])(?P=letter)*)|'(?P<quoted>[^']+)'|(?P<text>[^A-Za-z'\[\]{}#]+)"
)
FIELDS: Final = frozenset({"yyyy", "MM", "dd", "HH", "mm", "ss"})


def pieces(pattern: str) -> tuple[str, ...] | None:
    """Return the pieces of a pattern: those of `FIELDS`, and texts, each after an apostrophe.

    Returns:
        None if only Spark knows a part of it.
    """
    parts = tuple(_pieces(pattern))
    return None if "" in parts or not parts else parts


def _pieces(pattern: str) -> Iterator[str]:
    place = 0
    while place < len(pattern):
        match = _PIECES.match(pattern, place)
        if match is None or (match["field"] and match["field"] not in FIELDS):
            yield ""
            return
        yield match["field"] or f"'{match['quoted'] or match['text']}"
        place = match.end()


def with_backslashes(pattern: str, escape: str) -> str | None:
    """Return a pattern of ``LIKE`` that is escaped by backslashes, as Arrow takes it.

    Args:
        pattern: one without backslashes.
        escape: the character of ``ESCAPE``; empty if there is none.

    Returns:
        None if Spark refuses it: only ``%``, ``_`` and the character itself can be escaped.
    """
    pieces, rest = list[str](), iter(pattern)
    for character in rest:
        if character != escape:
            pieces.append(character)
            continue
        escaped = next(rest, "")
        if escaped not in ("%", "_", escape):
            return None
        pieces.append(f"\\{escaped}" if escaped in "%_" else escaped)
    return "".join(pieces)
