"""Lost rows: what a version had computed, and an executor took along when it was gone.

Rows of a checkpoint are on one executor's disk (decision 2). Spark computes nothing of a checkpoint
again, since a function might return other rows, so jobs that need these rows fail. The invariant:
an attempt that fails so is made anew from its beginning; nothing of it is in the next one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from deltaproduce.errors import SessionError
from deltaproduce.types.excerpts import causes, text_of

_SIGN: Final = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
_ATTEMPTS: Final = 4
"""As many as Spark makes of a task."""

_Outcome = TypeVar("_Outcome")


def are_lost(error: BaseException) -> bool:
    """Return whether an error, or one that it comes from, says that computed rows are gone."""
    return any(_SIGN in text_of(suspect) for suspect in causes(error))


def persistent(attempt: Callable[[], _Outcome]) -> _Outcome:
    """Return the outcome of an attempt, which is made again if its rows are lost.

    Raises:
        SessionError: the rows of several attempts were lost, one after the other.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return attempt()
        except Exception as error:
            if not are_lost(error):
                raise
            logging.getLogger("deltaproduce").warning(
                "an executor is gone, and computed rows with it: they are computed again"
            )
    try:
        return attempt()
    except Exception as error:
        if not are_lost(error):
            raise
        raise SessionError(
            f"executors were lost, with rows that were computed on them, in {_ATTEMPTS} attempts: "
            "nothing of this is visible, and you can try again. If the cluster takes executors "
            "away that are idle, leave spark.dynamicAllocation.cachedExecutorIdleTimeout unset"
        ) from error
