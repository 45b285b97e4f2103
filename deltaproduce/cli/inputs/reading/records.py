"""The rows of a CSV file as text: where each begins and ends, and what is in it.

Rows follow RFC 4180: a value in quotes may have line ends, delimiters and doubled quotes, and
nothing stands between its closing quote and the next delimiter. Beyond it, a quote inside a value
without quotes is a character like others, and lines without a character are no rows.

`records` says this value by value. The invariant of `end_of_rows` and `is_plain`, which only look
at quotes and are fast: they agree with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from deltaproduce.cli.inputs.reading.blocks import last_line_end
from deltaproduce.cli.inputs.reading.faults import FileFault, no_value

_QUOTE: Final = ord('"')
_LINE_END: Final = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Record:
    """A row.

    Attributes:
        values: its values; None where nothing is written, not even quotes.
        line: the number of its first line.
        end: where it ends in the text.
    """

    values: tuple[str | None, ...]
    line: int
    end: int


def records(
    text: str, delimiter: str, first_line: int = 1, *, is_end: bool = True
) -> Iterator[Record]:
    """Yield the rows of a text, which begins with a row.

    Args:
        first_line: the number of its first line.
        is_end: whether the file ends with the text; otherwise a last row that is not whole is left
            out.

    Raises:
        FileFault: a quote is not closed, or something follows a closing quote; with the line.
    """
    field = re.compile(
        rf'(?:"([^"]*+(?:""[^"]*+)*+)"|(?!")([^{re.escape(delimiter)}\r\n]*))'
        rf"({re.escape(delimiter)}|\r\n|\n|\r|\Z)"
    )
    place, first, line = 0, first_line, first_line
    values: list[str | None] = []
    while place < len(text) or values:
        value = field.match(text, place)
        if value is None:
            _refuse_quote(text, place, first, is_end=is_end)
            return
        quoted, bare, separator = value.groups()
        ends_early = not separator or (separator == "\r" and value.end() == len(text))
        if ends_early and not is_end:
            return
        values.append(bare or None if quoted is None else quoted.replace('""', '"'))
        line += len(_LINE_END.findall(quoted or "")) + (separator not in ("", delimiter))
        place = value.end()
        if separator == delimiter:
            continue
        if values != [None]:
            yield Record(tuple(values), first, place)
        first, values = line, []


def end_of_rows(data: bytes, delimiter: str) -> int:
    """Return where the last whole row ends, in a part of a file that begins with a row.

    It returns 0 if there is none yet, and where the text ends if a row is wrong.
    """
    quotes = _quotes(data)
    end = last_line_end(data)
    while end:
        before = int(np.searchsorted(quotes, end))
        if not before % 2:
            break
        end = last_line_end(data[: quotes[before - 1]] + b" ")
    if is_plain(data[:end], delimiter) and (end or not len(quotes)):
        return end
    place = 0
    try:
        for record in records(data.decode("latin-1"), delimiter, is_end=False):
            place = record.end
    except FileFault:
        return place or len(data)
    return place


def is_plain(data: bytes, delimiter: str) -> bool:
    """Return whether all quotes of whole rows open or close a value, or are doubled in one."""
    quotes = _quotes(data)
    if not len(quotes):
        return True
    if len(quotes) % 2:
        return False
    beside = np.zeros(256, bool)
    beside[[ord(delimiter), *b'\r\n"']] = True
    padded = np.frombuffer(b"\n" + data + b"\n", np.uint8)
    opening, closing = quotes[::2], quotes[1::2]
    return bool(beside[padded[opening]].all() and beside[padded[closing + 2]].all())


def _quotes(data: bytes) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if b'"' not in data:
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.frombuffer(data, np.uint8) == _QUOTE)


def _refuse_quote(text: str, place: int, line: int, *, is_end: bool) -> None:
    """Refuse what begins with a quote here, unless it may be closed after the text.

    Args:
        line: the first line of the row.

    Raises:
        FileFault: it is not closed, or something follows.
    """
    quoted = re.compile(r'"[^"]*+(?:""[^"]*+)*+("?)').match(text, place)
    assert quoted is not None
    if quoted.end() == len(text) and not is_end:
        return
    if not quoted[1]:
        raise FileFault(no_value(quoted[0][:40], "value", "its quote is not closed"), line=line)
    after = text[quoted.end() : quoted.end() + 10]
    raise FileFault(
        f"{after!r} follows the closing quote of {quoted[0][-40:]!r}; double the quotes in a value",
        line=line,
    )
