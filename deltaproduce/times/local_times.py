"""Local times of instants, in a time zone, for whole columns; and the instants of local days.

Instants and local times are microseconds since 1970, of any year that Spark has. The invariant: a
local time is the one that Spark computes. Arrow has no daylight saving time after 2037; Python's
time zones do, by rules that repeat with the calendar, every 400 years.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltaproduce.times.zones import OF_UTC, zone_of
from deltaproduce.types.pandas_on_demand import in_numpy

Micros: TypeAlias = NDArray[np.int64]

_SECOND: Final = 1_000_000
DAY_MICROS: Final = 24 * 3_600 * _SECOND
LEAST: Final = -(2**63)
GREATEST: Final = 2**63 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST: Final = (datetime(1, 1, 3, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
"""Before it every zone has its first offset."""
_RULED: Final = (datetime(2037, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
"""From it on, zones follow rules, which Arrow does not know."""
_REPEATING: Final = (datetime(2100, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
"""From it on, no zone has changes that follow no rule."""
CYCLE: Final = 146_097 * DAY_MICROS
"""400 years, after which dates fall on the same weekdays again."""
_AROUND: Final = 3 * DAY_MICROS
"""More than a local time differs from UTC, and a clock is ever moved."""
_PROBED: Final = 900 * _SECOND


def local_micros(instants: Micros, zone: str) -> Micros:
    """Return the local times of instants."""
    if zone == OF_UTC:
        return instants
    micros: Micros = np.clip(instants, LEAST + DAY_MICROS, GREATEST - DAY_MICROS)
    return micros + _offsets(micros, zone)


def instants_from(day: int, zone: str) -> tuple[tuple[int, int], ...]:
    """Return the instants whose local day is the given one or a later one, as ranges.

    There is more than one range if the clock was moved back over midnight.

    Args:
        day: the days since 1970.
    """
    midnight = day * DAY_MICROS
    if midnight - _AROUND <= LEAST:
        return ((LEAST, GREATEST),)
    if midnight + _AROUND >= GREATEST:
        return ()
    if zone == OF_UTC:
        return ((midnight, GREATEST),)
    return _instants_from(midnight, zone)


@lru_cache(maxsize=10_000)
def _instants_from(midnight: int, zone: str) -> tuple[tuple[int, int], ...]:
    """Return the instants whose local time is at least a midnight.

    Between two changes of the clock, local times differ from instants by the same.
    """
    changes = list[tuple[int, int]]()
    begins = [midnight - _AROUND, *_changes(midnight - _AROUND, midnight + _AROUND, zone)]
    for begin, end in zip(begins, [*begins[1:], GREATEST + 1], strict=True):
        first = max(begin, midnight - _offset(begin, zone))
        if first >= end:
            continue
        if changes and changes[-1][1] == first - 1:
            first = changes.pop()[0]
        changes.append((first, end - 1))
    return tuple(changes)


def _changes(first: int, end: int, zone: str) -> list[int]:
    """Return the instants at which a clock is changed, from the first on and before the end."""
    probed = np.append(np.arange(first, end, _PROBED), end)
    offsets = _offsets(probed, zone)
    changes = []
    for at in np.flatnonzero(np.diff(offsets)).tolist():
        before, after = int(probed[at]), int(probed[at + 1])
        while after - before > 1:
            middle = (before + after) // 2
            if _offset(middle, zone) == offsets[at]:
                before = middle
            else:
                after = middle
        changes.append(after)
    return changes


def _offset(instant: int, zone: str) -> int:
    return int(_offsets(np.array([instant], np.int64), zone)[0])


def _offsets(instants: Micros, zone: str) -> Micros:
    """Return by how much local times are ahead of instants."""
    within = np.maximum(instants, _FIRST)
    ruled = within >= _RULED
    if not ruled.any():
        return _offsets_in_arrow(within, zone)
    offsets_within: Micros = np.empty(len(within), np.int64)
    offsets_within[~ruled] = _offsets_in_arrow(within[~ruled], zone)
    changes, offsets = _rules(zone)
    later = within[ruled]
    in_cycle = _REPEATING + (later - _REPEATING) % CYCLE
    once = np.where(later < _REPEATING, later, in_cycle)
    offsets_within[ruled] = offsets[changes.searchsorted(once, "right") - 1]
    return offsets_within


def _offsets_in_arrow(instants: Micros, zone: str) -> Micros:
    moments = pa.array(instants).cast(pa.timestamp("us", zone))
    local: Micros = in_numpy(pc.local_timestamp(moments).cast(pa.int64()), np.int64)
    return local - instants


@lru_cache(maxsize=64)
def _rules(zone: str) -> tuple[Micros, Micros]:
    """Return the changes of a clock after Arrow's, for 400 years of rules, and the offsets then.

    A rule changes a clock some weeks after another.
    """
    clock, week = zone_of(zone), timedelta(days=7)

    def offset(moment: datetime) -> timedelta:
        seconds = moment.astimezone(clock).utcoffset()
        assert seconds is not None
        return seconds

    at = _EPOCH + timedelta(microseconds=_RULED)
    end = _EPOCH + timedelta(microseconds=_REPEATING + CYCLE) + week
    known = offset(at)
    changes = [(at, known)]
    while at < end:
        following = at + week
        if offset(following) != known:
            before, after = at, following
            while after - before > timedelta(seconds=1):
                middle = before + timedelta(seconds=(after - before) // timedelta(seconds=2))
                before, after = (middle, after) if offset(middle) == known else (before, middle)
            known = offset(after)
            changes.append((after, known))
        at = following
    micros = timedelta(microseconds=1)
    return (
        np.array([(at - _EPOCH) // micros for at, _ in changes], np.int64),
        np.array([known // micros for _, known in changes], np.int64),
    )
