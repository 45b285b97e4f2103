"""Dates and their parts, by the Gregorian calendar for all years, as in Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.stages.sql.expressions.kernels.failures import Kernel


def _part(compute: Callable[[pa.Array], pa.Array]) -> Kernel:
    return lambda wanted, dates: compute(dates).cast(wanted)


def _local_date(wanted: pa.DataType, instants: pa.Array, zone: pa.Array) -> pa.Array:
    """The dates on the clocks of a time zone."""
    if not len(instants):
        return pa.array([], wanted)
    local = pc.local_timestamp(instants.cast(pa.timestamp("us", zone[0].as_py())))
    return pc.floor_temporal(local, unit="day").cast(wanted)


def _moved(move: Callable[[pa.Array, pa.Array], pa.Array]) -> Kernel:
    """Dates some days later, or earlier."""
    return lambda wanted, dates, days: move(dates.cast(pa.int32()), days).cast(wanted)


def _difference(wanted: pa.DataType, last: pa.Array, first: pa.Array) -> pa.Array:
    return pc.subtract(last.cast(pa.int32()), first.cast(pa.int32())).cast(wanted)


def _last_day(wanted: pa.DataType, dates: pa.Array) -> pa.Array:
    nulls = np.asarray(pc.is_null(dates))
    days = np.asarray(pc.fill_null(dates.cast(pa.int32()), 0)).astype("datetime64[D]")
    last = (days.astype("datetime64[M]") + 1).astype("datetime64[D]") - 1
    return pa.array(last.astype(np.int32), pa.int32(), mask=nulls).cast(wanted)


def _cut(unit: str) -> Kernel:
    return lambda wanted, dates: pc.floor_temporal(dates, unit=unit).cast(wanted)


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
        "later": _moved(pc.add),
        "earlier": _moved(pc.subtract),
        "days between": _difference,
        "cut to year": _cut("year"),
        "cut to quarter": _cut("quarter"),
        "cut to month": _cut("month"),
        "cut to week": _cut("week"),
    }
)
"""By the names that terms call them by."""
