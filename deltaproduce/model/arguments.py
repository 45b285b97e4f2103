"""Arguments of calls: each has its type and is in its range, or an error names it.

Pure, and checked before anything is read or written. The invariant: each function returns a plain
value of the requested type, even for a subclass or a NumPy number; a bool is no number.
"""

from __future__ import annotations

import math
import os
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import partial
from numbers import Integral, Real
from typing import Final, NoReturn, TypeVar

from deltaproduce.errors import InvalidArgumentError
from deltaproduce.types.excerpts import shown

_Function = TypeVar("_Function", bound=Callable[..., object])

FIRST_MOMENT: Final = datetime.fromtimestamp(0, tz=UTC)
"""No version is older."""

_MAX_NAME_LENGTH: Final = 100
# Unicode's control characters, lone surrogates, and line and paragraph separators.
_UNSTORABLE_CATEGORIES: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})


def text(value: object, argument: str) -> str:
    """Return the value as a str; refuse one that is empty or that UTF-8 cannot encode.

    Raises:
        InvalidArgumentError: the value is refused, as by all of these functions.
    """
    if fault := text_fault(value):
        _refuse(value, argument, fault)
    return str.__str__(value)


def name_fault(name: object) -> str | None:
    """Return what is wrong with a stage's name, which becomes a directory or part of a table's."""
    if not isinstance(name, str):
        return "a name is a str"
    if not name.strip():
        return "it is empty; give it a name"
    if name.startswith("_"):
        return "names that begin with '_' are reserved; rename it"
    if name in {".", ".."}:
        return "that is a directory of its own meaning; rename it"
    if len(name) > _MAX_NAME_LENGTH:
        return f"it has {len(name)} characters; use at most {_MAX_NAME_LENGTH}"
    for character in name:
        if character == "/" or unicodedata.category(character) in _UNSTORABLE_CATEGORIES:
            return f"no path can hold {character!r}; rename it"
    return None


def text_fault(value: object) -> str | None:
    """Return what to give in place of a value that is no such text; None if it is one."""
    if not isinstance(value, str):
        return "a str"
    if not value:
        return "a str that is not empty"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "a str without half characters, which UTF-8 does not have"
    return None


def integer(value: object, argument: str, *, least: int | None = None) -> int:
    """Return the value as an int; refuse one that is not a whole number."""
    wanted = "an int" if least is None else f"an int from {least} on"
    if isinstance(value, bool) or not isinstance(value, Integral):
        _refuse(value, argument, wanted)
    number = int(value)
    if least is not None and number < least:
        _refuse(value, argument, wanted)
    return number


def number(value: object, argument: str, *, least: float = 0) -> float:
    """Return the value as a float; refuse one that is not a finite number."""
    wanted = f"a number from {least:g} on"
    if isinstance(value, bool) or not isinstance(value, Real):
        _refuse(value, argument, wanted)
    try:
        number = float(value)
    except OverflowError:
        _refuse(value, argument, wanted)
    if not math.isfinite(number) or number < least:
        _refuse(value, argument, wanted)
    return number


def day(value: object, argument: str) -> date | None:
    """Return the value as a date, also from ISO 8601 text; None stays None."""
    day = value
    if isinstance(value, str):
        try:
            day = date.fromisoformat(value)
        except ValueError:
            day = value
    if day is None or (isinstance(day, date) and not isinstance(day, datetime)):
        return day
    _refuse(value, argument, "a date, also as text in ISO 8601, or None")


def flag(value: object, argument: str) -> bool:
    """Return the value if it is True or False; 0, 1, and empty or non-empty values are refused."""
    if not isinstance(value, bool):
        _refuse(value, argument, "True or False")
    return value


def flag_or_count(value: object, argument: str) -> bool | int:
    """Return the value if it is True, False, or a number from 1 to the 32-bit limit of Spark."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, Integral) or not 1 <= int(value) < 2**31:
        _refuse(value, argument, f"True, False, or an int from 1 to {2**31 - 1}")
    return int(value)


def choice(value: object, argument: str, known: Sequence[str]) -> None:
    """Refuse a value that is not one of the known words."""
    if not isinstance(value, str) or value not in known:
        _refuse(value, argument, f"one of {', '.join(map(repr, known))}")


def function(value: _Function, argument: str) -> _Function:
    """Return the value if it can be called."""
    if not callable(value):
        _refuse(value, argument, "a function")
    return value


def clock(value: Callable[[], datetime]) -> Callable[[], datetime]:
    """Return a function that calls a clock, and checks that a version may have each time."""
    return partial(_moment, function(value, "clock"))


def place(value: object, argument: str) -> str:
    """Return the value as a str if it is a path or name: a str, or a path object of one."""
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str):
        _refuse(value, argument, "a str or a pathlib.Path")
    return text(path, argument)


def mapping(value: object, argument: str, wanted: str) -> Mapping[str, object]:
    """Return the value if it is a mapping by name.

    Args:
        wanted: what to give, for the message.

    Raises:
        InvalidArgumentError: it is none.
    """
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        _refuse(value, argument, wanted)
    return value


def _moment(value: Callable[[], datetime]) -> datetime:
    time = value()
    if not isinstance(time, datetime) or time.utcoffset() is None or time < FIRST_MOMENT:
        raise InvalidArgumentError(
            f"clock gave {shown(time)}; a clock gives a datetime with time zone, from 1970 on, as "
            "datetime.now(timezone.utc) does",
            argument="clock",
        )
    return time


def _refuse(value: object, argument: str, wanted: str) -> NoReturn:
    raise InvalidArgumentError(f"{argument} is {shown(value)}; give {wanted}", argument=argument)
