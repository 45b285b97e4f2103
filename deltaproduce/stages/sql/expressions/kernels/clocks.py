"""Clocks: the local times of instants in a time zone, and the instants of local times.

A time zone is an array of one name, repeated.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError
from deltaproduce.stages.sql.expressions.kernels.rows import nulls_of, whole_numbers
from deltaproduce.times.instants import instants_of, starts_of_days
from deltaproduce.times.local_times import DAY_MICROS, GREATEST, LEAST, Micros, local_micros

_FIRST_DAY: Final = LEAST // DAY_MICROS + 3
_LAST_DAY: Final = GREATEST // DAY_MICROS - 3


def local(instants: pa.Array, zone: pa.Array) -> pa.Array:
    """Return local times, as timestamps without a zone."""
    if not len(instants):
        return pa.array([], pa.timestamp("us"))
    micros = local_micros(whole_numbers(instants), zone[0].as_py())
    return pa.array(micros, mask=nulls_of(instants)).cast(pa.timestamp("us"))


def local_date(wanted: pa.DataType, instants: pa.Array, zone: pa.Array) -> pa.Array:
    """Return the local dates in a time zone."""
    return pc.floor_temporal(local(instants, zone), unit="day").cast(wanted)


def midnight(wanted: pa.DataType, dates: pa.Array, zone: pa.Array) -> pa.Array:
    """Return the first instants of days in a time zone."""
    if not len(dates):
        return pa.array([], wanted)
    days = whole_numbers(dates)
    check_days(days)
    starts = starts_of_days(days, zone[0].as_py())
    return pa.array(starts, mask=nulls_of(dates)).cast(wanted)


def instant(wanted: pa.DataType, clock: pa.Array, zone: pa.Array) -> pa.Array:
    """Return the instants of local times, which are microseconds."""
    if not len(clock):
        return pa.array([], wanted)
    return pa.array(instants_of(whole_numbers(clock), zone[0].as_py())).cast(wanted)


def check_days(days: Micros) -> None:
    """Refuse days that no timestamp has."""
    if ((days <= _FIRST_DAY) | (days >= _LAST_DAY)).any():
        raise EvaluationError("", "a time is beyond what a timestamp holds: long overflow")


def in_months(days: Micros, months: Micros) -> Micros:
    """Return the same days of other months, or these months' last days if they are shorter."""
    dates = days.astype("datetime64[D]")
    of_month = dates.astype("datetime64[M]")
    then = of_month + months
    last = (then + 1).astype("datetime64[D]") - 1
    later = np.minimum(then.astype("datetime64[D]") + (dates - of_month), last)
    return np.asarray(later, np.int64)
