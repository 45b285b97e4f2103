"""Series: the items of ``timeseries(…)`` and ``sequence(…)``.

The invariant: a series has an end, and at most a million items.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.expressions.terms import Constant
from deltaproduce.times.zones import known, on_clock, zone_of
from deltaproduce.types.data_types import DateType, IntegralType, TimestampType

_STEP: Final = re.compile(r"\s*([1-9][0-9]{0,5})\s+(hour|day|week|month)s?\s*", re.IGNORECASE)
_MOST: Final = 1_000_000
"""The most items of a list."""


def timeseries(step: object, count: int, moment: datetime) -> list[Constant]:
    """Return ``count`` times, a step apart, up to a moment truncated to the unit; newest first.

    Days, weeks and months are those of the moment's clock; an hour is always as long. Weeks begin
    on Mondays.

    Raises:
        DefinitionError: the step is invalid.
    """
    match = _STEP.fullmatch(step) if isinstance(step, str) else None
    if match is None:
        raise DefinitionError(
            f"{step!r} is not a step of a time series; write '1 day', or another number of hours, "
            "days, weeks or months"
        )
    size, unit = int(match[1]), match[2].lower()
    try:
        if unit == "hour":
            hour = moment.replace(minute=0, second=0, microsecond=0).astimezone(UTC)
            times = [hour - timedelta(hours=number * size) for number in range(count)]
        else:
            clock = moment.tzinfo
            assert clock is not None
            last = _first_day(moment, unit)
            days = (_before(last, unit, number * size) for number in range(count))
            times = [on_clock(day, clock).astimezone(UTC) for day in days]
    except (OverflowError, ValueError):
        raise DefinitionError(
            f"a time series of {count} steps of {step!r} begins before year 1"
        ) from None
    return [Constant(TimestampType(), time) for time in times]


def timeseries_of_place(step: object, count: int, moment: datetime, zone: object) -> list[Constant]:
    """Return the same on the clock of a place, each as the time that this clock shows.

    A moment without a time of day is a day of the place, and any other one an instant. Hours are
    those that the clock shows: one that it leaves out is none, one that it shows twice is one.

    Args:
        moment: on the clock of the store, by which the items are timestamps.
        zone: the time zone of the place.

    Raises:
        DefinitionError: the step or the zone is invalid.
    """
    place = known(zone) if isinstance(zone, str) else None
    if place is None:
        raise DefinitionError(
            f"{zone!r} is not a time zone of a time series; write a region such as "
            "'Europe/Paris', or an offset from UTC such as '+02:00'"
        )
    clock, store = zone_of(place), moment.tzinfo
    assert store is not None
    is_day = moment == moment.replace(hour=0, minute=0, second=0, microsecond=0)
    there = moment.replace(tzinfo=clock) if is_day else moment.astimezone(clock)
    match = _STEP.fullmatch(step) if isinstance(step, str) else None
    if match is not None and match[2].lower() == "hour":
        walls = _hours(there, int(match[1]), count)
    else:
        days = timeseries(step, count, there)
        walls = [one.value.astimezone(clock).replace(tzinfo=None, fold=0) for one in days]
    times = (on_clock(wall, store).astimezone(UTC) for wall in walls)
    return [Constant(TimestampType(), time) for time in times]


def _hours(moment: datetime, size: int, count: int) -> list[datetime]:
    """Return hours that a clock shows, up to that of a moment, newest first."""
    clock, hours = moment.tzinfo, list[datetime]()
    assert clock is not None
    hour = moment.replace(tzinfo=None, minute=0, second=0, microsecond=0, fold=0)
    while len(hours) < count:
        if on_clock(hour, clock).replace(tzinfo=None, fold=0) == hour:
            hours.append(hour)
        try:
            hour -= timedelta(hours=size)
        except OverflowError:
            raise DefinitionError(
                f"a time series of {count} steps of {size} hours begins before year 1"
            ) from None
    return hours


def _first_day(moment: datetime, unit: str) -> datetime:
    """Return the midnight at which a day, a week or a month begins, on the moment's clock."""
    last = moment.replace(tzinfo=None, hour=0, minute=0, second=0, microsecond=0, fold=0)
    if unit == "week":
        return last - timedelta(days=last.weekday())
    return last.replace(day=1) if unit == "month" else last


def _before(last: datetime, unit: str, units: int) -> datetime:
    if unit != "month":
        return last - timedelta(**{f"{unit}s": units})
    year, month = divmod(last.year * 12 + last.month - 1 - units, 12)
    return last.replace(year=year, month=month + 1)


def count_of(steps: Constant) -> int:
    """Return the number of steps of a time series.

    Raises:
        DefinitionError: it is none.
    """
    if not isinstance(steps.data_type, IntegralType) or steps.value not in range(_MOST + 1):
        raise DefinitionError(
            f"a time series has {steps.value!r} steps; give a whole number from 0 to {_MOST:,}"
        )
    return int(steps.value)


def sequence(bounds: Sequence[Constant], text: str) -> list[Any]:
    """Return whole numbers, or days, from the first to the last, inclusive.

    Args:
        bounds: the first, the last and perhaps the step.
        text: the expression, for messages.

    Raises:
        DefinitionError: they are no such bounds, or the step leads away from the last.
    """
    first, last, *steps = bounds
    kinds = (IntegralType, DateType) if not steps else (IntegralType,)
    values = [bound.value for bound in bounds]
    alike_ones = first.data_type == last.data_type and isinstance(first.data_type, kinds)
    if not alike_ones or None in values or (steps and values[2] == 0):
        raise DefinitionError(
            f"{text!r} cannot be listed; give two whole numbers, with or without a "
            "step, or two dates"
        )
    numbers = [v.toordinal() if isinstance(v, date) else int(v) for v in values[:2]]
    direction = 1 if numbers[1] >= numbers[0] else -1
    step = int(values[2]) if steps else direction
    if step * direction < 0 or abs(numbers[1] - numbers[0]) // abs(step) >= _MOST:
        raise DefinitionError(f"{text!r} does not end, or has over {_MOST:,} items")
    ordinals = range(numbers[0], numbers[1] + direction, step)
    is_days = isinstance(first.data_type, DateType)
    return [date.fromordinal(number) if is_days else number for number in ordinals]
