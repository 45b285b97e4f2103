"""Instants of local times, in a time zone, for whole columns.

Instants and local times are microseconds since 1970, of any year that Spark has. The invariant: an
instant is the one that Spark finds. It may be beyond the instants that Spark has: callers check.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import numpy as np

from deltaproduce.times.local_times import (
    CYCLE,
    DAY_MICROS,
    GREATEST,
    LEAST,
    Micros,
    instants_from,
    local_micros,
)
from deltaproduce.times.zones import OF_UTC, zone_of

_EPOCH: Final = datetime(1970, 1, 1)
_LEAST_IN_PYTHON: Final = (datetime(1, 1, 3) - _EPOCH) // timedelta(microseconds=1)
_GREATEST_IN_PYTHON: Final = (datetime(9999, 12, 1) - _EPOCH) // timedelta(microseconds=1)
_WITHIN: Final = 3 * DAY_MICROS
"""More than a local time differs from UTC."""


def instants_of(clock: Micros, zone: str, near: Micros | None = None) -> Micros:
    """Return the instants at which a clock shows local times.

    A time that the clock leaves out, as it is moved forward, counts from before: 02:30 is 03:30. A
    time that it shows twice is the one that is as far from UTC as an instant ``near`` it, or the
    earlier one.

    Args:
        clock: at least three days from the ends of what 64 bits hold.
    """
    if zone == OF_UTC:
        return clock
    early, late = (clock + move for move in (-DAY_MICROS, DAY_MICROS))
    before, after = (local_micros(moved, zone) - moved for moved in (early, late))
    instants: Micros = clock - before
    for place in np.flatnonzero(before != after).tolist():
        instants[place] = _instant(int(clock[place]), zone)
    if near is None:
        return instants
    kept = clock - (local_micros(near, zone) - near)
    shown = local_micros(kept, zone) == clock
    return np.where(shown, kept, instants)


def starts_of_days(days: Micros, zone: str) -> Micros:
    """Return the first instants of local days, given as days since 1970.

    Args:
        days: at least three days from the ends of what 64 bits hold.
    """
    if zone == OF_UTC:
        return days * DAY_MICROS
    known, places = np.unique(days, return_inverse=True)
    starts = [instants_from(day, zone)[0][0] for day in known.tolist()]
    return np.array(starts, np.int64)[places] if starts else days


def fits(clock: Micros) -> bool:
    """Return whether local times have instants."""
    within = (clock >= LEAST + _WITHIN) & (clock <= GREATEST - _WITHIN)
    return bool(within.all())


def _instant(clock: int, zone: str) -> int:
    """Return the instant of a local time near to a change of the clock."""
    cycles = 0
    if not _LEAST_IN_PYTHON < clock < _GREATEST_IN_PYTHON:
        cycles = (clock - _GREATEST_IN_PYTHON) // CYCLE + 1
    moment = _EPOCH + timedelta(microseconds=clock - cycles * CYCLE)
    offset = moment.replace(tzinfo=zone_of(zone)).utcoffset()
    assert offset is not None
    return clock - offset // timedelta(microseconds=1)
