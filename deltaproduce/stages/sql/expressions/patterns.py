"""Patterns of dates and times: those that give numbers, in letters of Spark's ``date_format``.

The invariant: a pattern that has pieces here gives what Spark gives. Names of months and days,
fractions, zones and numbers of other widths are left to Spark.
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
    """The pieces of a pattern: those of `FIELDS`, and texts, each behind an apostrophe.

    Returns:
        None if there is something in it that only Spark knows.
    """
    found = tuple(_told(pattern))
    return None if "" in found or not found else found


def _told(pattern: str) -> Iterator[str]:
    place = 0
    while place < len(pattern):
        match = _PIECES.match(pattern, place)
        if match is None or (match["field"] and match["field"] not in FIELDS):
            yield ""
            return
        yield match["field"] or f"'{match['quoted'] or match['text']}"
        place = match.end()
