"""Descriptions of jobs: what Spark's own pages say that a job is for.

A description belongs to a thread, and to the threads that it begins, not to the session. The
invariant: the user's own is there again afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from pyspark.sql import SparkSession

_PROPERTY: Final = "spark.job.description"


def describing(session: SparkSession) -> Callable[[str | None], None] | None:
    """Sets the description of this thread's jobs; None sets back what it was.

    None where there is no context, as with Spark Connect.
    """
    context = getattr(session, "sparkContext", None)
    if context is None:
        return None
    before = context.getLocalProperty(_PROPERTY)

    def describe(text: str | None) -> None:
        with suppress(Exception):  # of a connection to Java that Ctrl-C has cut off: no work fails
            context.setLocalProperty(_PROPERTY, before if text is None else text)

    return describe
