"""Time zones by name: regions, and offsets from UTC.

A store has one time zone, and each engine gets its name: Spark as a setting of its session, Arrow
as part of a type, Python as a clock. The invariant: `time_zone` returns names that mean the same to
all three.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import tzlocal

from deltaproduce.errors import DefinitionError, InvalidArgumentError
from deltaproduce.types.excerpts import shown

OF_UTC: Final = "UTC"
"""The name of UTC, also where it has others."""

_OFFSET: Final = re.compile(r"(?:UTC?|GMT)?([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?")
_SYNONYMS: Final = frozenset(
    {"UTC", "GMT", "Z", "UCT", "Zulu", "Universal", "Greenwich", "Etc/UTC", "Etc/GMT", "Etc/UCT"}
)
_MOST_HOURS: Final = 18
"""The most hours by which Java's offsets differ from UTC."""
_OF_THE_MACHINE: Final = frozenset({"localtime", "posixrules", "Factory"})
_WITH_LEAP_SECONDS: Final = ("posix/", "right/")


def time_zone(name: object, argument: str = "time_zone") -> str:
    """Return the name of a time zone that a user names, as all engines know it.

    Args:
        name: a region such as ``Europe/Paris``, or an offset such as ``+02:00`` or ``UTC-8``.
        argument: the argument that it is given for.

    Raises:
        InvalidArgumentError: there is no such time zone.
    """
    clock = known(name) if isinstance(name, str) else None
    if clock is None:
        raise InvalidArgumentError(
            f"{argument} is {shown(name)}, which is not a time zone: give a region such as "
            "'Europe/Paris', or an offset from UTC such as '+02:00'",
            argument=argument,
        )
    return clock


def known(name: str) -> str | None:
    """Return the name of a time zone as all engines know it; None if they do not all know it."""
    if name in _SYNONYMS:
        return OF_UTC
    if offset := _OFFSET.fullmatch(name):
        sign, hours, minutes = offset[1], int(offset[2]), int(offset[3] or 0)
        if minutes > 59 or int(offset[4] or 0) or hours * 60 + minutes > _MOST_HOURS * 60:
            return None
        return f"{sign}{hours:02}:{minutes:02}" if hours or minutes else OF_UTC
    if name in _OF_THE_MACHINE or name.startswith(_WITH_LEAP_SECONDS):
        return None
    try:
        return ZoneInfo(name).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def zone_of(time_zone: str) -> tzinfo:
    """Return the clock of a time zone.

    Args:
        time_zone: a region such as ``Europe/Paris``, or an offset such as ``+02:00`` or ``UTC-8``,
            as ``spark.sql.session.timeZone`` may have it.

    Raises:
        DefinitionError: Python knows no such zone.
    """
    if time_zone in {"UTC", "GMT", "Z"}:
        return UTC
    if offset := _OFFSET.fullmatch(time_zone):
        hours, minutes, seconds = (int(part or 0) for part in offset.group(2, 3, 4))
        distance = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return timezone(-distance if offset[1] == "-" else distance)
    try:
        return ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        message = (
            f"time zone {time_zone!r} is unknown to Python; set spark.sql.session.timeZone to a "
            "region or an offset, or install the package tzdata"
        )
        raise DefinitionError(message) from error


def zone_of_machine() -> str:
    """Return the time zone of this machine, which a Spark session has by default."""
    return tzlocal.get_localzone_name() or OF_UTC


def name_of(moment: datetime) -> str:
    """Return the name of the time zone whose clock a moment is on; see `zone_of`."""
    clock = moment.tzinfo
    if isinstance(clock, ZoneInfo):
        return clock.key
    name = known(str(clock))
    assert name is not None  # `zone_of` makes no other clocks
    return name


def on_clock(wall: datetime, clock: tzinfo) -> datetime:
    """Return the moment at which a clock shows a time without a zone.

    Of two moments it is the first, or the one that ``fold`` says. A time that the clock leaves out
    is moved forward by what it leaves out, as Spark does.
    """
    return wall.replace(tzinfo=clock).astimezone(UTC).astimezone(clock)


def moment_on_clock(text: str, zone: str) -> datetime:
    """Return a moment that was recorded as ISO 8601, on the clock of a time zone.

    It is what the clock of then showed, also if the store has got another time zone since.
    """
    moment, clock = datetime.fromisoformat(text), zone_of(zone)
    wall, here = moment.replace(tzinfo=None), moment.astimezone(clock)
    return here if here.replace(tzinfo=None) == wall else on_clock(wall, clock)
