"""Tables for display: a title, columns, rows and notes, without any format.

The invariant: cells are plain values, so a table can become text, HTML, JSON, or a command line's
output. An unknown value is None, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from deltaproduce.types.excerpts import escaped

Cell: TypeAlias = str | int | float | None
"""A value: text, a count, a measure such as seconds, or None if there is no value."""

UNKNOWN: Final = "unknown"
"""Shown for an unknown number, which is not the same as none."""

LONGEST_CELL: Final = 200
"""About how many characters of a value are shown in a cell."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table for display.

    Attributes:
        title: the subject, in a few words.
        columns: the headings.
        rows: one cell per column.
        notes: sentences below the table.
        listing: lines below the notes, shown unchanged.
    """

    title: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()
    notes: tuple[str, ...] = ()
    listing: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the table as JSON has it."""
        return {
            "title": self.title,
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows],
            "notes": list(self.notes),
            "listing": list(self.listing),
        }


def is_number(cell: Cell) -> bool:
    """Return whether a cell is aligned right, as numbers are."""
    return isinstance(cell, int | float)


def cell_text(cell: Cell, *, limit: int | None = LONGEST_CELL) -> str:
    """Return a cell as people read it: 1,234 and 0.25; others as one printable line.

    Args:
        limit: about how many characters of a text to keep; all if None.
    """
    match cell:
        case None:
            return ""
        case bool():
            return "yes" if cell else "no"
        case int():
            return f"{cell:,}"
        case float():
            return f"{cell:,.2f}"
    return escaped(cell, limit=len(cell) if limit is None else limit)
