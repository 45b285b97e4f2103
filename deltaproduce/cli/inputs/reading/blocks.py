"""The text of a file in blocks of whole rows, each with the number of its first line.

The invariant: a block is as large as a few rows need, and holds UTF-8. A line ends with a line
feed, a carriage return, or both.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from deltaproduce.cli.inputs.reading.faults import FileFault

_READ_BYTES: Final = 4 << 20
_MOST_BYTES: Final = 256 << 20
"""The most bytes of a row."""

ENCODE: Final = "write the file in UTF-8, or say its encoding in the project file"

Cut = Callable[[bytes], int]
"""Returns where the last whole row of some text ends; 0 if there is none."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole rows of a file.

    Attributes:
        data: their text, in UTF-8.
        first_line: the number of its first line, from 1.
    """

    data: bytes
    first_line: int

    def text(self) -> str:
        """Return the text.

        Raises:
            FileFault: it is no UTF-8; with the line.
        """
        try:
            return self.data.decode()
        except UnicodeDecodeError as error:
            line = self.first_line + line_ends(self.data[: error.start])
            raise FileFault(
                f"the byte {self.data[error.start : error.start + 1]!r} is not UTF-8; {ENCODE}",
                line=line,
            ) from None


def line_ends(data: bytes) -> int:
    """Return how many lines end in some text."""
    if b"\r" not in data:
        return data.count(b"\n")
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")


def last_line_end(data: bytes) -> int:
    """Return where the last whole line ends; a carriage return at the end may go on."""
    return max(data.rfind(b"\n"), data.rfind(b"\r", 0, -1)) + 1


def blocks(chunks: Iterable[bytes], cut: Cut) -> Iterator[Block]:
    """Yield a text in blocks of whole rows.

    Args:
        chunks: the text, in any parts.

    Raises:
        FileFault: a row is too long.
    """
    held, line, least = b"", 1, 0
    for chunk in chunks:
        held += chunk
        if len(held) < least:
            continue
        end = cut(held)
        if end:
            yield Block(held[:end], line)
            line += line_ends(held[:end])
            held, least = held[end:], 0
        elif len(held) > _MOST_BYTES:
            raise FileFault(
                f"a row begins, and does not end within {_MOST_BYTES >> 20} MiB: perhaps a quote "
                "is not closed",
                line=line,
            )
        else:
            least = 2 * len(held)  # so that a long row is searched few times
    if held:
        yield Block(held, line)


def utf8(file: BinaryIO, encoding: str) -> Iterator[bytes]:
    """Yield the content of a file in UTF-8, without a byte order mark.

    Args:
        encoding: the encoding of the file, by its name in Python.

    Raises:
        FileFault: the content is not in this encoding; with the line. UTF-8 is not checked here.
    """
    chunks = iter(lambda: file.read(_READ_BYTES), b"")
    if codecs.lookup(encoding).name != "utf-8":
        chunks = _recoded(chunks, encoding)
    first = next(chunks, b"")
    while 0 < len(first) < len(codecs.BOM_UTF8) and (more := next(chunks, b"")):
        first += more
    yield first.removeprefix(codecs.BOM_UTF8)
    yield from chunks


def _recoded(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    decoder, line = codecs.getincrementaldecoder(encoding)(), 1
    try:
        for chunk in chunks:
            recoded = decoder.decode(chunk).encode()
            line += line_ends(recoded)
            yield recoded
        yield decoder.decode(b"", final=True).encode()
    except UnicodeError as error:
        raise FileFault(f"it is not in {encoding}: {error}", line=line) from None
