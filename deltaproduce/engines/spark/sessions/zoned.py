"""A session of the library in another time zone than the user's, to compute in.

Spark binds the time zone of a session when it analyses an expression, and the user's session is not
changed. The invariant: the session has the user's settings, apart from the time zone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deltaproduce.engines.spark.sessions.on_demand import spark_errors
from deltaproduce.engines.spark.sessions.remote import beside
from deltaproduce.engines.spark.sessions.settings import follow, handed_over
from deltaproduce.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIME_ZONE = "spark.sql.session.timeZone"


class ZonedSession:
    """A session that follows another one, in a time zone of its own.

    Args:
        followed: the user's.
    """

    def __init__(self, followed: SparkSession) -> None:
        self._followed = followed
        self._own: SparkSession | None = None

    def in_zone(self, zone: str) -> SparkSession:
        """Return the session, with the time zone and the settings that the user's has now.

        Raises:
            InvalidArgumentError: Spark knows no such time zone.
        """
        if self._own is None:
            self._own = beside(self._followed)
        wanted = {**self._followed.conf.getAll, TIME_ZONE: zone}
        follow(self._own, self._own.conf.getAll, wanted)
        try:
            self._own.conf.set(TIME_ZONE, zone)
        except spark_errors("PySparkException") as error:
            raise InvalidArgumentError(
                f"time_zone is {zone!r}, which Spark does not know: give another one",
                argument="time_zone",
            ) from error
        return self._own


@contextmanager
def in_session(rows: DataFrame, session: SparkSession) -> Iterator[DataFrame]:
    """Yield rows whose session has another time zone in a session, which computes with them."""
    if rows.sparkSession.conf.get(TIME_ZONE) == session.conf.get(TIME_ZONE):
        yield rows
        return
    with handed_over(rows, session) as taken:
        yield taken
