"""Figures for people: with units, separators and UTC.

Pure. The invariant: an unknown figure is a dash, never a zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

UNKNOWN: Final = "\N{EM DASH}"
_SPACE: Final = "\N{NO-BREAK SPACE}"
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def count(number: int | None) -> str:
    """Return a count with a comma between thousands."""
    return UNKNOWN if number is None else f"{number:,}"


def counted(number: int, noun: str) -> str:
    """Return a count with its noun: ``1 row``, ``2 rows``."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def size(number: int | None) -> str:
    """Return a number of bytes in the largest binary unit that gives at least one."""
    if number is None:
        return UNKNOWN
    amount, units = float(number), [*_UNITS]
    while amount >= 1024 and len(units) > 1:
        amount, units = amount / 1024, units[1:]
    digits = 0 if units[0] == _UNITS[0] or amount >= 100 else 1
    return f"{amount:,.{digits}f}{_SPACE}{units[0]}"


def seconds(number: float | None) -> str:
    """Return a duration in seconds, to three digits."""
    if number is None:
        return UNKNOWN
    digits = 0 if number >= 100 else 1 if number >= 10 else 2 if number >= 1 else 3
    return f"{number:,.{digits}f}{_SPACE}s"


def moment(since_1970: float | None) -> str:
    """Return a time to the second, in UTC."""
    if since_1970 is None:
        return UNKNOWN
    return datetime.fromtimestamp(since_1970, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def share(part: int, whole: int) -> str:
    """Return a part of a whole in percent."""
    return UNKNOWN if not whole else f"{part / whole:.0%}"


FORMATS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "count": count,
        "counted": counted,
        "size": size,
        "seconds": seconds,
        "moment": moment,
        "share": share,
    }
)
"""The filters, by their names in the template."""
