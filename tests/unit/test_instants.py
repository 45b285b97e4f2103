"""Instants of local times, against Python's own time zones."""

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deltaproduce.times.instants import instants_of, starts_of_days
from deltaproduce.times.local_times import DAY_MICROS, local_micros
from deltaproduce.times.zones import zone_of

ZONES = (
    *("UTC", "America/New_York", "America/Sao_Paulo", "America/St_Johns", "Australia/Lord_Howe"),
    *("Pacific/Apia", "Africa/Casablanca", "America/Toronto", "+05:30"),
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
zones = st.sampled_from(ZONES)
clocks = st.datetimes(datetime(1, 1, 5), datetime(9999, 12, 26))
AROUND = st.timedeltas(timedelta(hours=-3), timedelta(hours=3))


def micros(clock: datetime) -> int:
    return (clock.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


def array(number: int) -> np.ndarray:
    return np.array([number], np.int64)


@given(zones, clocks, st.booleans())
@example("America/New_York", datetime(2013, 3, 10, 2, 30), False)  # left out
@example("America/New_York", datetime(2013, 11, 3, 1, 30), True)  # shown twice
@example("America/New_York", datetime(2041, 11, 3, 1, 30), True)
@example("Pacific/Apia", datetime(2011, 12, 30, 12), False)
def test_instants_are_those_of_python(zone: str, clock: datetime, second: bool) -> None:
    """The earlier one of a time that is shown twice, or the one that is near another instant."""
    own = clock.replace(tzinfo=zone_of(zone))
    wanted = micros((own.replace(fold=0) - own.utcoffset()).replace(tzinfo=None))
    (found,) = instants_of(array(micros(clock)), zone).tolist()
    assert found == wanted
    later = own.replace(fold=1)
    shown = micros((later - later.utcoffset()).replace(tzinfo=None)) if second else wanted
    if local_micros(array(shown), zone).tolist() == [micros(clock)]:
        assert instants_of(array(micros(clock)), zone, near=array(shown)).tolist() == [shown]


@given(zones, st.dates(date(1, 1, 5), date(9999, 12, 26)))
@example("America/Sao_Paulo", date(2013, 10, 20))  # it has no midnight
@example("America/Toronto", date(1919, 3, 31))  # it begins at 00:30
@example("America/St_Johns", date(2006, 10, 29))
def test_a_day_starts_when_a_clock_first_shows_it(zone: str, day: date) -> None:
    number = day.toordinal() - date(1970, 1, 1).toordinal()
    (start,) = starts_of_days(array(number), zone).tolist()
    shown = local_micros(np.array([start - 1, start], np.int64), zone) // DAY_MICROS
    assert shown[0] < number <= shown[1]


@pytest.mark.parametrize("cycles", [20, 25, 400])
@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Apia"])
def test_years_that_python_lacks_are_like_others(cycles: int, zone: str) -> None:
    """400 years later, days have the same weekdays, so clocks change at the same local times."""
    clock = np.arange(micros(datetime(2400, 1, 1)), micros(datetime(2401, 1, 1)), 9 * 10**8)
    moved = cycles * 146_097 * DAY_MICROS
    assert (instants_of(clock + moved, zone) - moved).tolist() == instants_of(clock, zone).tolist()
