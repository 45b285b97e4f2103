"""The time zone of a store: which it is, and what was computed in another one.

A store has one time zone, in which all that depends on one is computed, on every machine and in
every session. Each version records it. The invariant: this module alone decides which zone it is.

Versions of releases without it record none. They were computed in the session's zone, or the
machine's without a session, and their partitions of timestamps were days of UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from deltaproduce.storage.version_log import VersionLog
from deltaproduce.storage.versions import Version
from deltaproduce.times.zones import OF_UTC, zone_of_machine


@dataclass(frozen=True, slots=True)
class StoreZone:
    """The time zone of one store.

    Attributes:
        log: its versions.
        named: the zone that it was opened with; None for the head's.
        of_session: returns the session's zone; None without a session.
    """

    log: VersionLog
    named: str | None
    of_session: Callable[[], str | None]

    def __call__(self) -> str:
        """Return the zone, as of the last read of the log."""
        head = self.log.head() if self.log.delta_version is None else self.log.last_read
        return self.named or self.recorded(head)

    def recorded(self, version: Version) -> str:
        """Return the zone that a version was computed in; that of a new store for the empty one."""
        if version.time_zone is not None:
            return version.time_zone
        return self.of_session() or (zone_of_machine() if version.number else OF_UTC)
