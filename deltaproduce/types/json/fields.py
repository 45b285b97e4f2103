"""Values from JSON that others may have written: whether they are of the expected kinds.

The content of a commit's metadata or of a version log is data, and may be anything. The invariant:
`fields` returns values of the declared kinds or nothing, for any input, and never raises.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

Kind: TypeAlias = Callable[[object], bool]
"""Tells whether a value is of a kind."""

_LARGEST: Final = 2**63
_HALF: Final = re.compile("[\ud800-\udfff]")


def parsed(text: str | None) -> object:
    """Return the value of a JSON text; None if it is no JSON."""
    try:
        return json.loads(text or "null")
    except (ValueError, RecursionError):  # also for numbers of thousands of digits
        return None


def fields(
    object_: object, known: Mapping[str, Kind], required: Collection[str] = ()
) -> dict[str, Any] | None:
    """Return the known fields of an object; None if one is wrong or a required one is missing.

    A field is wrong if its value is of another kind. Unknown fields are ignored: a later release
    may have added them.
    """
    if not isinstance(object_, dict) or any(name not in object_ for name in required):
        return None
    values = {name: value for name, value in object_.items() if name in known}
    return values if all(known[name](value) for name, value in values.items()) else None


def is_text(value: object) -> bool:
    """Return whether a value is text that can be stored: without lone surrogates."""
    return isinstance(value, str) and (value.isascii() or not _HALF.search(value))


def is_integer(value: object) -> bool:
    """Return whether a value is a 64-bit whole number; a bool is none."""
    return type(value) is int and -_LARGEST <= value < _LARGEST


def is_number(value: object) -> bool:
    """Return whether a value is a finite number, with or without a fraction."""
    return is_integer(value) or (isinstance(value, float) and math.isfinite(value))


def is_texts(value: object) -> bool:
    """Return whether a value is a list of texts."""
    return isinstance(value, list) and {*map(type, value)} <= {str} and is_text("".join(value))


def objects_of(kind: Kind) -> Kind:
    """Return the kind of objects with values of a kind."""
    return lambda value: (
        isinstance(value, dict) and all(map(is_text, value)) and all(map(kind, value.values()))
    )


def optional(kind: Kind) -> Kind:
    """Return the kind that also accepts null."""
    return lambda value: value is None or kind(value)
