"""The console: the one place that writes to standard output and standard error.

Answers go to standard output, everything else to standard error. The invariant: text from rows
prints literally, so it can neither control a terminal nor count as markup; a message is never cut;
and a pipe gets no colours and no wrapped lines.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from deltaproduce.cli.answers.answer import Answer
from deltaproduce.shown.table import Cell, Table, is_number
from deltaproduce.shown.table import cell_text as shortened
from deltaproduce.types.excerpts import escaped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Drawn

_WIDTH_OF_PIPES: Final = 1_000_000
_STYLES: Final = {"-": "red", "+": "green", "@": "cyan"}
"""The colours of a diff's lines, on terminals."""


def cell_text(cell: Cell) -> str:
    """Return a cell as it is printed: whole, since a message ends with what to do."""
    return shortened(cell, limit=None)


def print_answer(answer: Answer, *, as_json: bool) -> None:
    """Print an answer: as indented JSON, or as tables and text."""
    if as_json:
        sys.stdout.write(json.dumps(answer.data, indent=2) + "\n")
        return
    console = _console()
    for place, part in enumerate(answer.parts):
        if any(isinstance(one, Table) for one in answer.parts[max(place - 1, 0) : place + 1]):
            sys.stdout.write("\n" if place else "")  # a blank line around tables
        if isinstance(part, Table):
            _print_table(console, part)
        else:
            text = escaped(part, limit=len(part), lines=True)
            console.print(text, markup=False, highlight=False, soft_wrap=True)


def print_error(message: str) -> None:
    """Print in one line what went wrong, to standard error."""
    sys.stderr.write(f"error: {escaped(' '.join(message.split()))}\n")


def print_trace(text: str) -> None:
    """Print where an error came from, to standard error."""
    sys.stderr.write(text)


def _console() -> Console:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _WIDTH_OF_PIPES)


def drawn(table: Table) -> Drawn:
    """Return a table as rich draws it, without its notes."""
    from rich import box
    from rich.table import Table as Drawn
    from rich.text import Text

    headed = any(table.columns)
    grid = Drawn(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, show_header=headed)
    grid.title_justify = "left"
    grid.title = Text(cell_text(table.title)) if table.title else None
    for place, name in enumerate(table.columns):
        right = _are_numbers(row[place] for row in table.rows)
        grid.add_column(
            Text(cell_text(name)), justify="right" if right else "left", overflow="fold"
        )
    for row in table.rows:
        grid.add_row(*(Text(cell_text(cell)) for cell in row))
    return grid


def _print_table(console: Console, table: Table) -> None:
    from rich.text import Text

    lines = [cell_text(table.title)]
    if table.columns:
        with console.capture() as captured:
            console.print(drawn(table))
        lines = [line.rstrip() for line in captured.get().splitlines()]
    sys.stdout.write("".join(f"{line}\n" for line in (*lines, *map(cell_text, table.notes))))
    for line in table.listing:
        console.print(Text(escaped(line), _STYLES.get(line[:1], "")), soft_wrap=True)


def _are_numbers(cells: Iterable[Cell]) -> bool:
    """Return whether a column has numbers, and nothing else."""
    present = [cell for cell in cells if cell is not None]
    return bool(present) and all(map(is_number, present))
