"""Tables as HTML, as notebooks show them: all text is escaped, and there are no own styles."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from deltaproduce.shown.table import Cell, Table, cell_text, is_number
from deltaproduce.types.excerpts import escaped


def html(tables: Iterable[Table]) -> str:
    """Return the tables as HTML, one below the other."""
    return "".join(map(_table, tables))


def _table(table: Table) -> str:
    title = escape(escaped(table.title))
    notes = "".join(f"<p>{escape(escaped(note))}</p>" for note in table.notes)
    if table.listing:
        notes += f"<pre>{'<br>'.join(escape(escaped(line)) for line in table.listing)}</pre>"
    if not table.columns:
        return f"<p><b>{title}</b></p>{notes}"
    head = "".join(f'<th style="text-align: left">{escape(name)}</th>' for name in table.columns)
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    return (
        f'<table><caption style="text-align: left"><b>{title}</b></caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{notes}"
    )


def _cell(cell: Cell) -> str:
    side = "right" if is_number(cell) else "left"
    return f'<td style="text-align: {side}">{escape(cell_text(cell))}</td>'
