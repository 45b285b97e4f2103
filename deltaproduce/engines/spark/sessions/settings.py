"""The library's own sessions, with the user's settings and additional ones.

The session that a store is given is the user's, who may do anything in it at the same time. The
invariant: nothing is set and nothing is committed in it, because Delta changes settings when it
commits; work in other sessions uses the user's settings.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from deltaproduce.engines.spark.sessions.on_demand import spark_errors
from deltaproduce.engines.spark.sessions.remote import beside, is_remote, release

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_GLOBAL_VIEWS: Final = "spark.sql.globalTempDatabase"


@contextmanager
def temporary(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set settings of a session that no other thread uses, and restore them on leaving."""
    before = {name: session.conf.get(name, None) for name in settings}
    _set(session, settings)
    try:
        yield
    finally:
        _set(session, before)


@contextmanager
def handed_over(rows: DataFrame, session: SparkSession) -> Iterator[DataFrame]:
    """Yield the same rows in another session of the same Spark, which plans the work on them.

    In the block there is a global temporary view of them: some writes look it up again.
    """
    if rows.sparkSession is session:
        yield rows
        return
    name = f"deltaproduce_{uuid.uuid4().hex}"
    rows.createGlobalTempView(name)
    try:
        yield session.table(f"{session.conf.get(_GLOBAL_VIEWS, 'global_temp')}.{name}")
    finally:
        session.catalog.dropGlobalTempView(name)


class Sessions:
    """Sessions that follow the settings of another one.

    Args:
        followed: the other session.
        beside: additional settings.
    """

    def __init__(self, followed: SparkSession, beside: Mapping[str, str] = _NOTHING) -> None:
        self._followed = followed
        self._beside = beside
        self._created: WeakSet[SparkSession] = WeakSet()
        self._idle: list[tuple[SparkSession, Mapping[str, str]]] = []
        self._reading = Lock()
        self._blocks = 0
        self._read: Mapping[str, str] | None = None

    @contextmanager
    def one(self) -> Iterator[SparkSession]:
        """Yield a session that no other thread uses; after an error it is not used again."""
        wanted = self._wanted()
        try:
            session, has = self._idle.pop()
        except IndexError:
            session, has = self._new()
        try:
            follow(session, has, wanted)
            with active_as_before(self._followed, lambda: self._created):
                yield session
        except BaseException:
            release(session)
            raise
        self._idle.append((session, wanted))

    @contextmanager
    def read_once(self) -> Iterator[None]:
        """Read settings once for the block: reading them takes Spark as long as a small job."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def _new(self) -> tuple[SparkSession, Mapping[str, str]]:
        """Return a new session, and its initial settings."""
        session = beside(self._followed)
        self._created.add(session)
        return session, session.conf.getAll

    def _count(self, blocks: int) -> None:
        with self._reading:
            self._blocks += blocks
            self._read = None

    def _wanted(self) -> Mapping[str, str]:
        with self._reading:
            conf = self._read
            if conf is None:
                conf = {**self._followed.conf.getAll, **self._beside}
            self._read = conf if self._blocks else None
            return conf


@contextmanager
def active_as_before(
    followed: SparkSession, created: Callable[[], Collection[object]]
) -> Iterator[None]:
    """Keep this thread's active session: pyspark activates whichever session creates a frame.

    A remote session becomes active only when a builder creates it.

    Args:
        followed: the user's.
        created: returns the library's own sessions.
    """
    if is_remote(followed):
        yield
        return
    from pyspark.sql import SparkSession

    sessions = SparkSession._get_j_spark_session_class(followed._jvm)
    of_thread, of_pyspark = sessions.getActiveSession(), SparkSession._activeSession
    try:
        yield
    finally:
        # PySpark remembers one session for all threads, so it may have been one of ours.
        is_ours = of_pyspark in created()
        SparkSession._activeSession = followed if is_ours else of_pyspark
        if of_thread.isDefined():
            sessions.setActiveSession(of_thread.get())
        else:
            sessions.clearActiveSession()


def follow(session: SparkSession, has: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Give a session other settings, including Hadoop's and those of new tables.

    Some cannot be set; a stream's session has settings that others do not have.
    """
    differing: dict[str, str | None] = {n: v for n, v in wanted.items() if has.get(n) != v}
    differing |= dict.fromkeys(has.keys() - wanted.keys())
    for name, value in differing.items():
        with suppress(*spark_errors("AnalysisException")):
            _set(session, {name: value})


def _set(spark: SparkSession, settings: Mapping[str, str | None]) -> None:
    for name, value in settings.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
