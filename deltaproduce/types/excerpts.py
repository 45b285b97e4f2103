"""Excerpts: values, errors and texts of others as messages show them.

Pure. The invariant: an excerpt is short, and all of it prints, so text that came with the rows can
neither drive a terminal nor begin a line that looks like another message. Making one never fails.
"""

import traceback
from typing import Final

_LONGEST_TEXT: Final = 2_000


def shown(value: object, *, limit: int = 300) -> str:
    """Returns the value's repr for a message: about ``limit`` of its characters, never failing."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 a repr may do anything
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return escaped(text, limit=limit)


def described(error: BaseException) -> str:
    """Returns type and text of an exception, as the last line of its traceback says them."""
    return escaped("".join(traceback.format_exception_only(error)).strip())


def text_of(error: BaseException) -> str:
    """Returns all of an exception's own text, as it is; none if it fails to say it."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 of a class of someone else
        return ""


def escaped(text: str, *, limit: int = _LONGEST_TEXT, lines: bool = False) -> str:
    r"""Returns text of others for a message, escaped as `repr` does: ``\x1b``, ``\ud800``.

    Args:
        text: any text. Escaping it again changes nothing.
        limit: about so many of its characters are taken, of its beginning and its end.
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
    """Keeps the beginning and the end, which say most, also of tracebacks."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} … {len(text) - 2 * half} characters … {text[-half:]}"
