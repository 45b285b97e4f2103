"""Excerpts: values, errors and foreign texts as messages show them.

Pure. The invariant: an excerpt is short and printable, so text in the data can neither control a
terminal nor begin a line that looks like another message. Making an excerpt never fails.
"""

import re
import traceback
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Final

_LONGEST_TEXT: Final = 2_000
_MOST_NAMES: Final = 20
_LONGEST_LINE: Final = 400
_FRAMES: Final = re.compile(r"(\n\s*(stack )?backtrace:?\s*)?\n\s*0: .*\Z", re.DOTALL | re.I)


def shown(value: object, *, limit: int = 300) -> str:
    """Return the value's repr for a message: about ``limit`` of its characters, never failing."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 a repr may do anything
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return escaped(text, limit=limit)


def meant(name: object, known: Iterable[str]) -> str:
    """Return advice for a name that is not known: the known one that is most like it, else all."""
    names = {one.lower(): one for one in known}
    near = get_close_matches(str(name).lower(), names, 1)
    if near:
        return f"do you mean {shown(names[near[0]])}?"
    first = [escaped(one) for one in names.values()][:_MOST_NAMES]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"known: {', '.join(first) or 'none'}{more}"


def described(error: BaseException) -> str:
    """Return the type and text of an exception, as in the last line of its traceback."""
    return escaped(_without_frames("".join(traceback.format_exception_only(error)).strip()))


def one_line(error: BaseException) -> str:
    """Return an exception's text in one line; of native libraries without their stack frames."""
    return escaped(" ".join(_without_frames(text_of(error)).split()), limit=_LONGEST_LINE)


def _without_frames(text: str) -> str:
    """Cut off the stack that Rust appends to the text of an error: numbered lines at its end."""
    match = _FRAMES.search(text)
    return text if match is None else text[: match.start()]


def text_of(error: BaseException) -> str:
    """Return an exception's full text, unescaped; empty if it fails to give it."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 a foreign class may do anything
        return ""


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, and those that it comes from: of each its cause, else its context."""
    seen: set[int] = set()
    suspect: BaseException | None = error
    while suspect is not None and id(suspect) not in seen:
        yield suspect
        seen.add(id(suspect))
        suspect = suspect.__cause__ or suspect.__context__


def escaped(text: str, *, limit: int = _LONGEST_TEXT, lines: bool = False) -> str:
    r"""Return foreign text for a message, escaped as `repr` does: ``\x1b``, ``\ud800``.

    Args:
        text: any text. Escaping it again changes nothing.
        limit: about how many of its characters to keep, from its beginning and its end.
        lines: whether line breaks stay, as in a traceback.
    """
    short = _shortened(text, limit)
    if short.isprintable():
        return short
    return "".join(
        character
        if character.isprintable() or (lines and character == "\n")
        else character.encode("unicode_escape").decode("ascii")
        for character in short
    )


def _shortened(text: str, limit: int) -> str:
    """Keep the beginning and the end, the most informative parts, also of tracebacks."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} … {len(text) - 2 * half} characters … {text[-half:]}"
