"""Dates and their parts, in the Gregorian calendar for all years, as in Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.stages.sql.expressions.kernels.failures import Kernel
from deltaproduce.stages.sql.expressions.patterns import pieces
from deltaproduce.times.local_times import local_micros
from deltaproduce.types.pandas_on_demand import in_numpy


def _part(compute: Callable[[pa.Array], pa.Array]) -> Kernel:
    return lambda wanted, dates: compute(dates).cast(wanted)


def _local_date(wanted: pa.DataType, instants: pa.Array, zone: pa.Array) -> pa.Array:
    """Return the local dates in a time zone."""
    if not len(instants):
        return pa.array([], wanted)
    return pc.floor_temporal(_local(instants, zone), unit="day").cast(wanted)


def _local(instants: pa.Array, zone: pa.Array) -> pa.Array:
    """Return the local times in a time zone, of at least one timestamp."""
    numbers = in_numpy(pc.fill_null(instants.cast(pa.int64()), 0), np.int64)
    local = local_micros(numbers, zone[0].as_py())
    return pa.array(local, mask=in_numpy(pc.is_null(instants))).cast(pa.timestamp("us"))


def _formatted(
    wanted: pa.DataType, moments: pa.Array, pattern: pa.Array, zone: pa.Array
) -> pa.Array:
    """Format dates or timestamps by a pattern of `pieces`."""
    if not len(moments):
        return pa.array([], wanted)
    is_date = pa.types.is_date(moments.type)
    clock = moments.cast(pa.timestamp("us")) if is_date else _local(moments, zone)
    parts = [
        pa.repeat(piece[1:], len(moments)) if piece.startswith("'") else _FIELDS[piece](clock)
        for piece in pieces(pattern[0].as_py()) or ()
    ]
    return pc.binary_join_element_wise(*parts, "", null_handling="emit_null")


def _padded(compute: Callable[[pa.Array], pa.Array], width: int) -> Callable[[pa.Array], pa.Array]:
    return lambda clock: pc.utf8_lpad(compute(clock).cast(pa.string()), width, "0")


def _year(clock: pa.Array) -> pa.Array:
    """Return the year of its era; a year of more than four digits has a sign."""
    years = pc.year(clock)
    of_era = pc.if_else(pc.greater(years, 0), years, pc.subtract(1, years))
    signs = pc.if_else(pc.greater(of_era, 9999), "+", "")
    padded = pc.utf8_lpad(of_era.cast(pa.string()), 4, "0")
    return pc.binary_join_element_wise(signs, padded, "")


def _months_later(wanted: pa.DataType, dates: pa.Array, months: pa.Array) -> pa.Array:
    """Return the same day of another month, or that month's last day if it is shorter."""
    nulls = in_numpy(pc.is_null(dates))
    days = in_numpy(pc.fill_null(dates.cast(pa.int32()), 0)).astype("datetime64[D]")
    of_month = days.astype("datetime64[M]")
    moved = of_month + in_numpy(months)
    last = (moved + 1).astype("datetime64[D]") - 1
    found = np.minimum(moved.astype("datetime64[D]") + (days - of_month), last)
    return pa.array(found.astype(np.int32), pa.int32(), mask=nulls).cast(wanted)


def _moved(move: Callable[[pa.Array, pa.Array], pa.Array]) -> Kernel:
    """Return a kernel that moves dates by days, forwards or backwards."""
    return lambda wanted, dates, days: move(dates.cast(pa.int32()), days).cast(wanted)


def _difference(wanted: pa.DataType, last: pa.Array, first: pa.Array) -> pa.Array:
    return pc.subtract(last.cast(pa.int32()), first.cast(pa.int32())).cast(wanted)


def _last_day(wanted: pa.DataType, dates: pa.Array) -> pa.Array:
    nulls = in_numpy(pc.is_null(dates))
    days = in_numpy(pc.fill_null(dates.cast(pa.int32()), 0)).astype("datetime64[D]")
    last = (days.astype("datetime64[M]") + 1).astype("datetime64[D]") - 1
    return pa.array(last.astype(np.int32), pa.int32(), mask=nulls).cast(wanted)


def _cut(unit: str) -> Kernel:
    return lambda wanted, dates: pc.floor_temporal(dates, unit=unit).cast(wanted)


_FIELDS: Final[Mapping[str, Callable[[pa.Array], pa.Array]]] = MappingProxyType(
    {
        "yyyy": _year,
        "MM": _padded(pc.month, 2),
        "dd": _padded(pc.day, 2),
        "HH": _padded(pc.hour, 2),
        "mm": _padded(pc.minute, 2),
        "ss": _padded(pc.second, 2),
    }
)
"""By the letters of patterns."""

CALENDAR: Final[Mapping[str, Kernel]] = MappingProxyType(
    {
        "local date": _local_date,
        "year": _part(pc.year),
        "quarter": _part(pc.quarter),
        "month": _part(pc.month),
        "week": _part(pc.iso_week),
        "day": _part(pc.day),
        "day of year": _part(pc.day_of_year),
        "day of week": _part(
            lambda dates: pc.day_of_week(dates, count_from_zero=False, week_start=7)
        ),
        "weekday": _part(pc.day_of_week),
        "last day": _last_day,
        "formatted": _formatted,
        "months later": _months_later,
        "later": _moved(pc.add),
        "earlier": _moved(pc.subtract),
        "days between": _difference,
        "cut to year": _cut("year"),
        "cut to quarter": _cut("quarter"),
        "cut to month": _cut("month"),
        "cut to week": _cut("week"),
    }
)
"""By the names in terms."""
