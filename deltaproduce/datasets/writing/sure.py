"""Sure rows: tuples whose values are known at once to fit and cannot change.

Checking a single row costs more than writing it, so the checks for the columns of one data set are
compiled into one function, as `dataclasses` and `namedtuple` do. The invariant: a row that it
accepts is written unchanged; a row that it does not accept may still fit, and is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from deltaproduce.types import data_types as t
from deltaproduce.types.columns import Column, Columns

SureOf: TypeAlias = Callable[[tuple[Any, ...]], bool]


def sure_of(columns: Columns) -> SureOf:
    """Return a function that tells whether a tuple is sure."""
    places = range(len(columns))
    seen = [_seen(column, f"v{place}") for place, column in enumerate(columns)]
    lines = (
        "def sure(row):",
        f" if len(row) != {len(columns)}: return False",
        f" {''.join(f'v{place}, ' for place in places)} = row",
        f" return {' and '.join(f'({one})' for one in seen)}",
    )
    namespace: dict[str, Any] = dict(_NAMES)
    exec("\n".join(lines), namespace)  # noqa: S102 this module writes all of the text
    function: SureOf = namespace["sure"]
    return function


def _seen(column: Column, value: str) -> str:
    seen = _SEEN.get(type(column.data_type), "False").format(v=value)
    return f"{value} is None or {seen}" if column.nullable else seen


def _encodes(text: str) -> bool:
    """Return whether UTF-8 can encode a text: it has no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _whole(bits: int) -> str:
    most = 1 << (bits - 1)
    return f"type({{v}}) is int and {-most} <= {{v}} < {most}"


_SEEN: Final[Mapping[type[t.DataType], str]] = MappingProxyType(
    {
        t.BooleanType: "type({v}) is bool",
        t.ByteType: _whole(8),
        t.ShortType: _whole(16),
        t.IntegerType: _whole(32),
        t.LongType: _whole(64),
        t.DoubleType: "type({v}) is float",
        t.StringType: "type({v}) is str and ({v}.isascii() or encodes({v}))",
        t.BinaryType: "type({v}) is bytes",
        t.DateType: "type({v}) is date",
        t.TimestampType: "type({v}) is datetime and {v}.tzinfo is UTC",
        t.TimestampNTZType: "type({v}) is datetime and {v}.tzinfo is None",
    }
)
"""The check that a value of a type fits; other types and values are tried."""

_NAMES: Final[Mapping[str, Any]] = MappingProxyType(
    {"UTC": UTC, "date": date, "datetime": datetime, "encodes": _encodes}
)
