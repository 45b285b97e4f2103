"""Tabular values: values that print as tables, and show as tables in notebooks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from deltaproduce.shown.html import html
from deltaproduce.shown.table import Table
from deltaproduce.shown.text import text
from deltaproduce.types.excerpts import escaped, shown

_LONGEST_LINE: Final = 118
_LONGEST_PART: Final = 40


class Tabular(ABC):
    """A value that prints as tables; its repr is one line."""

    __slots__ = ()

    @abstractmethod
    def as_tables(self) -> tuple[Table, ...]:
        """Return the content as tables, without reading anything."""

    def __str__(self) -> str:
        return text(self.as_tables())

    def _repr_html_(self) -> str:
        """Return the tables as a notebook shows them."""
        return html(self.as_tables())


class Word(str):
    """A text that `one_line` shows without quotes."""

    __slots__ = ()


def one_line(of: object, *parts: object, **named: object) -> str:
    """Return the repr of a value: its class and distinctive parts, in less than 120 characters.

    Args:
        parts: the parts without a name; a `Word` appears without quotes.
        named: the parts with a name; None is left out.
    """
    texts = [_part(part) for part in parts]
    texts += [f"{name}={_part(part)}" for name, part in named.items() if part is not None]
    line = f"{type(of).__name__}({', '.join(texts)}"
    return f"{line[: _LONGEST_LINE - 2]}…)" if len(line) >= _LONGEST_LINE else f"{line})"


def _part(part: object) -> str:
    if isinstance(part, Word):
        return escaped(part)
    return shown(part, limit=_LONGEST_PART)
