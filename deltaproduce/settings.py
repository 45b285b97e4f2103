"""Settings of a session that hold for a while.

The session is the user's, who may have set it up in any way. The invariant: after a block that
needs settings of its own, those it changed are what they were before, whatever happened in it.

It stands apart because whoever reads, converts or writes rows needs some, and each restores them in
this one way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

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


def copy(session: SparkSession, other: SparkSession) -> None:
    """Give a session the settings of another that can be set; a stream's has others too."""
    own = session.conf.getAll
    differing = {n: value for n, value in other.conf.getAll.items() if own.get(n) != value}
    _set(session, {n: v for n, v in differing.items() if session.conf.isModifiable(n)})


def _set(spark: SparkSession, settings: Mapping[str, str | None]) -> None:
    for name, value in settings.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
