"""Tables as plain text, with columns aligned by terminal width."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from deltaproduce.shown.table import Table, cell_text, is_number
from deltaproduce.types.excerpts import escaped


def text(tables: Iterable[Table]) -> str:
    """Return the tables as text, one below the other, without a final line break."""
    return "\n\n".join("\n".join(_lines(table)) for table in tables)


def _lines(table: Table) -> list[str]:
    lines = [escaped(table.title)]
    if table.columns:
        cells = [[cell_text(cell) for cell in row] for row in table.rows]
        rights = [_is_right(table, place) for place in range(len(table.columns))]
        widths = [max(map(_width, column)) for column in zip(table.columns, *cells, strict=True)]
        lines.append(_row(table.columns, widths, rights))
        lines.append("  ".join("-" * width for width in widths))
        lines += [_row(row, widths, rights) for row in cells]
    return [*lines, *map(escaped, (*table.notes, *table.listing))]


def _is_right(table: Table, place: int) -> bool:
    """Return whether a column is aligned right: it has a number."""
    return any(is_number(row[place]) for row in table.rows)


def _row(cells: Sequence[str], widths: Sequence[int], rights: Sequence[bool]) -> str:
    parts = []
    for cell, width, right in zip(cells, widths, rights, strict=True):
        blanks = " " * (width - _width(cell))
        parts.append(blanks + cell if right else cell + blanks)
    return "  ".join(parts).rstrip()


def _width(shown: str) -> int:
    """Return the number of terminal columns that a text takes (Unicode's annex 11)."""
    if shown.isascii():
        return len(shown)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in shown)
    return len(shown) + wide - sum(unicodedata.combining(character) > 0 for character in shown)
