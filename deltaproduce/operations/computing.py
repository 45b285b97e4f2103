"""Computing: the session in which a store computes.

It is the user's, if that has the store's time zone, and otherwise one of the library
(`ZonedSession`). The invariant: whatever depends on the time zone is computed in a session that has
the store's; a store that is read stays in the user's session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from deltaproduce.engines.spark.sessions.settings import active_as_before
from deltaproduce.engines.spark.sessions.zoned import ZonedSession
from deltaproduce.errors import SessionError
from deltaproduce.operations.executor import Executor
from deltaproduce.reading.opened import Opened
from deltaproduce.reading.readers import StageReader


class StoreSessions:
    """The sessions in which one store computes, each with an executor.

    Args:
        opened: the store in the user's session.
        executor_of: returns the executor of an opened store.
        needing: why there is no executor: a stage that only Spark can analyse.
    """

    def __init__(
        self,
        opened: Opened,
        executor_of: Callable[[Opened], Executor],
        needing: SessionError | None,
    ) -> None:
        self._opened = opened
        self._executor_of = executor_of
        self._needing = needing
        self._executor = None if needing is not None else executor_of(opened)
        session = opened.engines.session
        self._zoned = None if session is None else ZonedSession(session)
        self._apart: tuple[Opened, Executor] | None = None

    def now(self, zone: str | None = None) -> tuple[Opened, Executor]:
        """Return the store in the session that computes, and its executor.

        Args:
            zone: the time zone; the store's, as of the last read of the log, if None.

        Raises:
            InvalidArgumentError: Spark does not know the time zone.
            SessionError: a stage needs Spark, and the store was opened without a session.
        """
        if self._executor is None:
            assert self._needing is not None
            raise self._needing
        engines = self._opened.engines
        wanted = engines.time_zone if zone is None else zone
        if self._zoned is None or engines.zone_of_session() == wanted:
            if self._apart is not None:
                self._apart[1].wait()
            return self._opened, self._executor
        session = self._zoned.in_zone(wanted)
        if self._apart is None:
            self._executor.wait()
            tables = self._opened.tables.in_session(session)
            opened = replace(
                self._opened,
                engines=replace(engines, session=session),
                tables=tables,
                reader=StageReader(tables, from_files=False),
            )
            self._apart = opened, self._executor_of(opened)
        return self._apart

    def store(self, zone: str) -> Opened:
        """Return the store in a session with a time zone."""
        return self._opened if self._needing is not None else self.now(zone)[0]

    @contextmanager
    def keeping_active(self) -> Iterator[None]:
        """Keep the active session of this thread, whichever computes in the block."""
        session = self._opened.engines.session
        if session is None:
            yield
            return
        with active_as_before(session, self._own):
            yield

    def _own(self) -> list[object]:
        return [] if self._apart is None else [self._apart[0].engines.session]

    def check_open(self) -> None:
        """Refuse a closed store.

        Raises:
            ClosedError: it is closed.
            SessionError: as for `now`.
        """
        if self._needing is not None:
            raise self._needing
        for executor in self._executors():
            executor.check_open()

    def wait(self) -> None:
        """Wait for the background work that is under way."""
        for executor in self._executors():
            executor.wait()

    def close(self) -> None:
        """Wait for the background work that is under way, and start no more."""
        for executor in self._executors():
            executor.close()

    def _executors(self) -> list[Executor]:
        executors = [self._executor, None if self._apart is None else self._apart[1]]
        return [executor for executor in executors if executor is not None]
