"""Tables as plain text: columns aligned by what a terminal takes for a character."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from deltaproduce.shown.table import Table, cell_text, is_number
from deltaproduce.types.excerpts import escaped


def text(tables: Iterable[Table]) -> str:
    """Some tables, one below the other, without a line break at the end."""
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
    """Whether a column is set to the right: it has a number."""
    return any(is_number(row[place]) for row in table.rows)


def _row(cells: Sequence[str], widths: Sequence[int], rights: Sequence[bool]) -> str:
    parts = []
    for cell, width, right in zip(cells, widths, rights, strict=True):
        blanks = " " * (width - _width(cell))
        parts.append(blanks + cell if right else cell + blanks)
    return "  ".join(parts).rstrip()


def _width(shown: str) -> int:
    """How many columns of a terminal a text takes (Unicode's annex 11)."""
    if shown.isascii():
        return len(shown)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in shown)
    return len(shown) + wide - sum(unicodedata.combining(character) > 0 for character in shown)
