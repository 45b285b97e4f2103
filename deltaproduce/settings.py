"""Settings of a session: for a while, and in other sessions.

The session is the user's, who may have set it up in any way. The invariants: after a block that
needs settings of its own, those it changed are what they were before, whatever happened in it; and
what is done in other sessions is done with the user's settings.

It stands apart because whoever reads, converts or writes rows needs some, and each restores them in
this one way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Lock

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession


@contextmanager
def temporary(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """A session's settings, restored on leaving."""
    before = {name: spark.conf.get(name, None) for name in settings}
    _set(spark, settings)
    try:
        yield
    finally:
        _set(spark, before)


class Sessions:
    """Sessions that follow the settings of another one.

    Args:
        followed: the session.
    """

    def __init__(self, followed: SparkSession) -> None:
        self._followed = followed
        self._idle: list[tuple[SparkSession, Mapping[str, str]]] = []
        self._reading = Lock()
        self._blocks = 0
        self._read: Mapping[str, str] | None = None

    @contextmanager
    def one(self) -> Iterator[SparkSession]:
        """A session that nobody else has meanwhile; after an error nobody gets it again."""
        wanted = self._wanted()
        try:
            session, has = self._idle.pop()
        except IndexError:
            session, has = self._new()
        _follow(session, has, wanted)
        yield session
        self._idle.append((session, wanted))

    def another(self) -> SparkSession:
        """A session of one's own, with the settings as they are now."""
        session, has = self._new()
        _follow(session, has, self._wanted())
        return session

    @contextmanager
    def read_once(self) -> Iterator[None]:
        """Settings do not change in the block: to read them takes Spark as long as a small job."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def _new(self) -> tuple[SparkSession, Mapping[str, str]]:
        """A session, and the settings that it begins with."""
        session = self._followed.newSession()
        return session, session.conf.getAll

    def _count(self, blocks: int) -> None:
        with self._reading:
            self._blocks += blocks
            self._read = None

    def _wanted(self) -> Mapping[str, str]:
        with self._reading:
            found = self._followed.conf.getAll if self._read is None else self._read
            self._read = found if self._blocks else None
            return found


def _follow(session: SparkSession, has: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Give a session other settings, Hadoop's and those of new tables among them.

    Some cannot be set; a stream's session has such as others do not have.
    """
    differing: dict[str, str | None] = {n: v for n, v in wanted.items() if has.get(n) != v}
    differing |= dict.fromkeys(has.keys() - wanted.keys())
    for name, value in differing.items():
        with suppress(AnalysisException):
            _set(session, {name: value})


def _set(spark: SparkSession, settings: Mapping[str, str | None]) -> None:
    for name, value in settings.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
