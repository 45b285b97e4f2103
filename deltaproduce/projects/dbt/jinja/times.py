"""Times: the moment of a run, which Jinja may write into a query as text.

A query of ours is not of one run, so the moment is marked, and what marks it in the SQL becomes the
date of the version (`sql/moments.py`). The invariant: arithmetic on the moment loses the mark, and
is refused there.
"""

from __future__ import annotations

import datetime as clock
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final
from zoneinfo import ZoneInfo

from deltaproduce.projects.dbt.sql.moments import MOMENT


class _Time(clock.datetime):
    """A time whose clock shows the moment of a run."""

    @classmethod
    def now(cls, tz: clock.tzinfo | None = None) -> _Time:
        """Return the moment."""
        return cls.combine(MOMENT.date(), MOMENT.time(), tz)

    @classmethod
    def utcnow(cls) -> _Time:
        """Return the moment, without a zone."""
        return cls.now()

    @classmethod
    def today(cls) -> _Time:
        """Return the moment, without a zone."""
        return cls.now()

    def astimezone(self, tz: clock.tzinfo | None = None) -> _Time:
        """Return the same time elsewhere; the moment is the same date in each zone."""
        if self.replace(tzinfo=None) == MOMENT:
            return self.now(tz)
        return super().astimezone(tz)


class _Date(clock.date):
    """A date whose clock shows the day of a run."""

    @classmethod
    def today(cls) -> _Date:
        """Return the day."""
        return cls(MOMENT.year, MOMENT.month, MOMENT.day)


STARTED: Final = _Time.now(clock.UTC)
"""`run_started_at`."""

MODULES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "datetime": {
            "datetime": _Time,
            "date": _Date,
            "time": clock.time,
            "timedelta": clock.timedelta,
            "timezone": clock.timezone,
        },
        "pytz": {"timezone": ZoneInfo, "utc": clock.UTC, "UTC": clock.UTC},
    }
)
"""`modules.datetime` and `modules.pytz`."""
