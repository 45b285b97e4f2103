"""A producer's failure in Spark's errors: see `engines.failures`, which says how it travels.

Invariant: only a text with the driver's mark is a failure of a function; the death of a worker is
one if the action ran a function.
"""

from typing import Final

from deltaproduce.engines.failures import Failure, died, failure_in
from deltaproduce.errors import ProducerError
from deltaproduce.types.excerpts import text_of

_DEATH: Final = "Python worker exited unexpectedly"


def raised_by_producer(error: BaseException, stage: str | None = None) -> Failure | None:
    """Find the failure of a producer in an error of a Spark action.

    Args:
        error: any exception; its chain of causes is searched too.
        stage: the stage whose function the action ran, if it ran one.

    Returns:
        The ProducerError with its ``__cause__``, and the worker's traceback as a note; without a
        key if the worker died. Or the damage that a worker found. None if there is neither.
    """
    seen: set[int] = set()
    suspect: BaseException | None = error
    while suspect is not None and id(suspect) not in seen:
        if isinstance(suspect, ProducerError):
            return suspect
        text = text_of(suspect)
        failure = failure_in(text)
        if failure is not None:
            return failure
        if stage is not None and _DEATH in text:
            return died(stage)
        seen.add(id(suspect))
        suspect = suspect.__cause__ or suspect.__context__
    return None
