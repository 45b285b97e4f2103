"""Descriptions of jobs: what Spark's UI says a job is for.

A description belongs to a thread and the threads that it starts, not to the session. The invariant:
the user's own description is restored afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROPERTY: Final = "spark.job.description"


def describing(session: SparkSession) -> Callable[[str | None], None] | None:
    """Return a function that sets the description of this thread's jobs; None restores it.

    None without a context, as with Spark Connect.
    """
    context = getattr(session, "sparkContext", None)
    if context is None:
        return None
    before = context.getLocalProperty(_PROPERTY)

    def describe(text: str | None) -> None:
        with suppress(Exception):  # Ctrl-C may have cut the connection to Java: no work fails
            context.setLocalProperty(_PROPERTY, before if text is None else text)

    return describe
