"""Local times and days of instants, against Python's own time zones."""

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deltaproduce.errors import InvalidArgumentError
from deltaproduce.model.partitions import Partitioning, Ranges, day_number
from deltaproduce.times.local_times import DAY_MICROS, instants_from, local_micros
from deltaproduce.times.zones import known, moment_on_clock, name_of, on_clock, time_zone, zone_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICRO = timedelta(microseconds=1)
ZONES = (
    "UTC",
    "America/New_York",
    "America/Sao_Paulo",  # its clocks went forward at midnight
    "America/St_Johns",  # its clocks went back over midnight
    "Australia/Lord_Howe",  # by half an hour
    "Asia/Kathmandu",
    "Pacific/Apia",  # it has left out a day
    "Africa/Casablanca",  # it has changes that follow no rule
    "+05:30",
    "-11:00",
)
zones = st.sampled_from(ZONES)
moments = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)).map(
    lambda moment: moment.replace(tzinfo=UTC)
)
days = st.dates(date(1, 1, 5), date(9999, 12, 27))


def micros(moment: datetime) -> int:
    return (moment - EPOCH) // MICRO


@given(zones, st.lists(moments, min_size=1))
@example("America/New_York", [datetime(2041, 7, 1, tzinfo=UTC)])  # after Arrow's time zones
def test_local_times_are_those_of_python(zone: str, some: list[datetime]) -> None:
    """A local time is what a clock of the zone shows at the instant, in each year."""
    found = local_micros(np.array([micros(moment) for moment in some], np.int64), zone)
    clock = zone_of(zone)
    assert found.tolist() == [
        micros(moment.astimezone(clock).replace(tzinfo=UTC)) for moment in some
    ]


@given(zones, days, st.timedeltas(timedelta(days=-2), timedelta(days=2)))
@example("America/St_Johns", date(2006, 10, 30), timedelta(hours=2, minutes=30, seconds=30))
@example("America/St_Johns", date(2006, 10, 30), timedelta(hours=2, minutes=45))
@example("Pacific/Apia", date(2011, 12, 30), timedelta(hours=10))
def test_a_day_has_the_instants_whose_local_day_it_is(
    zone: str, day: date, later: timedelta
) -> None:
    """Also where a day has no midnight, or two, or does not exist."""
    partitions, number = Partitioning("moments", "day", zone), day_number(day)
    instant = micros(datetime(day.year, day.month, day.day, tzinfo=UTC) + later)
    local = int(local_micros(np.array([instant], np.int64), zone)[0]) // DAY_MICROS

    def has(ranges: Ranges) -> bool:
        return any(first <= instant <= last for first, last in ranges.pairs)

    assert has(partitions.values(Ranges(((number, number),)))) == (local == number)
    assert has(partitions.values(Ranges(((number, number + 2),)))) == (0 <= local - number <= 2)
    assert has(partitions.values_before(number)) == (local < number)
    assert has(Ranges(instants_from(number, zone))) == (local >= number)
    assert partitions.units(np.array([instant], np.int64)).tolist() == [local]


@pytest.mark.parametrize(
    ("given_name", "canonical"),
    [
        ("Europe/Paris", "Europe/Paris"),
        ("UTC", "UTC"),
        ("Z", "UTC"),
        ("Etc/UTC", "UTC"),
        ("+00:00", "UTC"),
        ("+2", "+02:00"),
        ("UTC-8", "-08:00"),
        ("GMT+05:30", "+05:30"),
        ("-1830", None),
        ("+05:30:15", None),
        ("Mars/Olympus", None),
        ("localtime", None),
        ("right/Europe/Paris", None),
        ("../passwd", None),
        ("", None),
    ],
)
def test_names_of_zones(given_name: str, canonical: str | None) -> None:
    assert known(given_name) == canonical
    if canonical is None:
        with pytest.raises(InvalidArgumentError) as raised:
            time_zone(given_name)
        assert repr(given_name) in str(raised.value)
        assert raised.value.argument == "time_zone"
    else:
        assert known(canonical) == canonical
        moment = datetime(2026, 7, 1, tzinfo=zone_of(canonical))
        assert name_of(moment) == canonical


def test_no_text_is_no_zone() -> None:
    with pytest.raises(InvalidArgumentError):
        time_zone(2)


def test_a_time_that_a_clock_leaves_out_is_moved_forward() -> None:
    """As Spark does: 02:42 of the night when clocks go forward is 03:42."""
    clock = zone_of("America/New_York")
    found = on_clock(datetime(2026, 3, 8, 2, 42), clock)
    assert found == datetime(2026, 3, 8, 7, 42, tzinfo=UTC)
    assert found.replace(tzinfo=None) == datetime(2026, 3, 8, 3, 42)
    twice = on_clock(datetime(2026, 11, 1, 1, 30), clock)
    assert twice.astimezone(UTC) == datetime(2026, 11, 1, 5, 30, tzinfo=UTC)


def test_recorded_dates_stay_on_the_clock() -> None:
    """The date of tasks is what the clock showed, also after the store gets another zone."""
    paris = moment_on_clock("2026-07-01T00:00:00+02:00", "Europe/Paris")
    assert paris == datetime(2026, 6, 30, 22, tzinfo=UTC)
    moved = moment_on_clock("2026-07-01T00:00:00+02:00", "America/New_York")
    assert moved == datetime(2026, 7, 1, 4, tzinfo=UTC)
    assert moment_on_clock("2026-07-01T00:00:00+00:00", "UTC") == datetime(2026, 7, 1, tzinfo=UTC)
