"""Values from JSON that others may have written: whether they are of the expected kinds.

What stands in a commit's metadata or in a version log is data, and may be anything. The invariant:
`fields` returns values of the declared kinds or nothing, whatever it is given, and never raises.
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
    """What a JSON text says; None if it is none."""
    try:
        return json.loads(text or "null")
    except (ValueError, RecursionError):  # also for numbers of thousands of digits
        return None


def fields(
    found: object, known: Mapping[str, Kind], required: Collection[str] = ()
) -> dict[str, Any] | None:
    """The known fields of an object; None if one is of another kind, or a required one is missing.

    Others are passed over: a later release may have added them.
    """
    if not isinstance(found, dict) or any(name not in found for name in required):
        return None
    values = {name: value for name, value in found.items() if name in known}
    return values if all(known[name](value) for name, value in values.items()) else None


def is_text(value: object) -> bool:
    """Whether it is text that can be stored: without half characters."""
    return isinstance(value, str) and (value.isascii() or not _HALF.search(value))


def is_integer(value: object) -> bool:
    """Whether it is a whole number of 64 bits; a bool is none."""
    return type(value) is int and -_LARGEST <= value < _LARGEST


def is_number(value: object) -> bool:
    """Whether it is a finite number, with or without a fraction."""
    return is_integer(value) or (isinstance(value, float) and math.isfinite(value))


def is_texts(value: object) -> bool:
    """Whether it is a list of texts."""
    return isinstance(value, list) and {*map(type, value)} <= {str} and is_text("".join(value))


def objects_of(kind: Kind) -> Kind:
    """The kind of objects with values of a kind."""
    return lambda value: (
        isinstance(value, dict) and all(map(is_text, value)) and all(map(kind, value.values()))
    )


def optional(kind: Kind) -> Kind:
    """A kind, or null."""
    return lambda value: value is None or kind(value)
