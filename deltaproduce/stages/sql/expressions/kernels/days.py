"""Days in the Gregorian calendar, of all years; Arrow has those up to 32767."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltaproduce.stages.sql.expressions.kernels.rows import nulls_of, whole_numbers

Days: TypeAlias = NDArray[np.int64]


def days_in(kind: str, days: Days) -> Days:
    """Return the first days of the months or years that days are in.

    Args:
        kind: ``M`` or ``Y``.
    """
    starts = days.astype("datetime64[D]").astype(f"datetime64[{kind}]").astype("datetime64[D]")
    return np.asarray(starts.astype(np.int64))


def _year(days: Days) -> Days:
    return np.asarray(days.astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64) + 1970)


def _months(days: Days) -> Days:
    """Return the months since 1970."""
    return np.asarray(days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64))


def _weekday(days: Days) -> Days:
    return (days + 3) % 7


def _week(days: Days) -> Days:
    """Return the week, which belongs to the year of its Thursday."""
    thursday = days - _weekday(days) + 3
    return (thursday - days_in("Y", thursday)) // 7 + 1


def _first_of_quarter(days: Days) -> Days:
    months = _months(days)
    first = (months - months % 3).astype("datetime64[M]").astype("datetime64[D]")
    return np.asarray(first.astype(np.int64))


PARTS: Final[Mapping[str, Callable[[Days], Days]]] = MappingProxyType(
    {
        "year": _year,
        "quarter": lambda days: _months(days) % 12 // 3 + 1,
        "month": lambda days: _months(days) % 12 + 1,
        "week": _week,
        "day": lambda days: days - days_in("M", days) + 1,
        "day of year": lambda days: days - days_in("Y", days) + 1,
        "day of week": lambda days: (days + 4) % 7 + 1,
        "weekday": _weekday,
    }
)
"""The numbers of days, by what they count; days are counted since 1970."""

CUTS: Final[Mapping[str, Callable[[Days], Days]]] = MappingProxyType(
    {
        "year": lambda days: days_in("Y", days),
        "quarter": _first_of_quarter,
        "month": lambda days: days_in("M", days),
        "week": lambda days: days - _weekday(days),
    }
)
"""The first days of units of the calendar."""


def part(name: str, dates: pa.Array) -> pa.Array:
    """Return one of `PARTS` of dates, as whole numbers of 32 bits."""
    numbers = PARTS[name](whole_numbers(dates)).astype(np.int32)
    return pa.array(numbers, pa.int32(), mask=nulls_of(dates))


def cut(name: str, dates: pa.Array) -> pa.Array:
    """Return one of `CUTS` of dates; it wraps around as 32 bits do."""
    starts = CUTS[name](whole_numbers(dates)).astype(np.int32)
    return pa.array(starts, pa.int32(), mask=nulls_of(dates)).cast(dates.type)


def padded(numbers: pa.Array, width: int) -> pa.Array:
    """Return whole numbers that are not negative as text, with zeros in front."""
    return pc.utf8_lpad(numbers.cast(pa.string()), width, "0")
