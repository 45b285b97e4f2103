"""Intervals: of months, and of days and times; as they are written, and their types.

A term of an interval is the number of its months, or of its microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Final

from deltaproduce.stages.sql.expressions.terms import Constant
from deltaproduce.times.local_times import DAY_MICROS
from deltaproduce.types.data_types import DayTimeIntervalType, YearMonthIntervalType

_DAY, _HOUR, _MINUTE, _SECOND = range(4)
_MONTHS: Final[Mapping[str, tuple[int, int]]] = MappingProxyType({"year": (0, 12), "month": (1, 1)})
"""By the unit: its field in types, and its months."""
_MICROS: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        "week": (_DAY, 7 * DAY_MICROS),
        "day": (_DAY, DAY_MICROS),
        "hour": (_HOUR, 3_600_000_000),
        "minute": (_MINUTE, 60_000_000),
        "second": (_SECOND, 1_000_000),
        "millisecond": (_SECOND, 1_000),
        "microsecond": (_SECOND, 1),
    }
)
_NUMBER: Final = re.compile(r"\s*([+-]?)(\d{1,9})(?:\.(\d{1,6}))?\s*", re.ASCII)
_SPANS: Final[Mapping[tuple[str, str], re.Pattern[str]]] = MappingProxyType(
    {
        ("year", "month"): re.compile(r"([+-]?)(\d{1,4})-(\d{1,2})", re.ASCII),
        ("day", "hour"): re.compile(r"([+-]?)(\d{1,6}) (\d{1,2})", re.ASCII),
        ("day", "minute"): re.compile(r"([+-]?)(\d{1,6}) (\d{1,2}):(\d{1,2})", re.ASCII),
        ("day", "second"): re.compile(
            r"([+-]?)(\d{1,6}) (\d{1,2}):(\d{1,2}):(\d{1,2}(?:\.\d{1,6})?)", re.ASCII
        ),
        ("hour", "minute"): re.compile(r"([+-]?)(\d{1,2}):(\d{1,2})", re.ASCII),
        ("hour", "second"): re.compile(
            r"([+-]?)(\d{1,2}):(\d{1,2}):(\d{1,2}(?:\.\d{1,6})?)", re.ASCII
        ),
        ("minute", "second"): re.compile(r"([+-]?)(\d{1,2}):(\d{1,2}(?:\.\d{1,6})?)", re.ASCII),
    }
)
_UNITS: Final = ("day", "hour", "minute", "second")
_BELOW: Final = MappingProxyType({"month": 12, "hour": 24, "minute": 60, "second": 60})
"""The units after the first one are less than these."""


def written(text: str, unit: str, last: str | None = None) -> Constant | None:
    """Parse an interval: ``'3' MONTH``, or from one unit to another, ``'1-2' YEAR TO MONTH``.

    Args:
        text: the number or numbers.
        unit: in any case and number.

    Returns:
        None if it is left to Spark.
    """
    unit = unit.lower().removesuffix("s")
    if last is not None:
        return _span(text, unit, last.lower().removesuffix("s"))
    match = _NUMBER.fullmatch(text)
    if match is None or (match[3] and unit != "second"):
        return None
    number = Decimal(f"{match[1]}{match[2]}.{match[3] or 0}")
    if unit in _MONTHS:
        field, months = _MONTHS[unit]
        return _of_months(int(number) * months, field, field)
    if unit in _MICROS:
        field, micros = _MICROS[unit]
        return _of_micros(int(number * micros), field, field)
    return None


def _span(text: str, first: str, last: str) -> Constant | None:
    pattern = _SPANS.get((first, last))
    match = None if pattern is None else pattern.fullmatch(text)
    if match is None:
        return None
    sign, *parts = match.groups()
    all_units = ("year", "month") if first == "year" else _UNITS
    units = all_units[all_units.index(first) : all_units.index(last) + 1]
    numbers = [Decimal(part) for part in parts]
    if any(number >= _BELOW[u] for u, number in zip(units[1:], numbers[1:], strict=True)):
        return None
    sizes = {**_MONTHS, **_MICROS}
    total = sum(int(n * sizes[u][1]) for u, n in zip(units, numbers, strict=True))
    total = -total if sign == "-" else total
    if first == "year":
        return _of_months(total, 0, 1)
    return _of_micros(total, sizes[first][0], sizes[last][0])


def _of_micros(micros: int, first: int, last: int) -> Constant | None:
    kind = DayTimeIntervalType(first, last)
    return Constant(kind, micros) if abs(micros) < 2**63 else None


def _of_months(months: int, first: int, last: int) -> Constant | None:
    kind = YearMonthIntervalType(first, last)
    return Constant(kind, months) if abs(months) < 2**31 else None
