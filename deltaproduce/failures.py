"""A producer's failure on its way from a Python worker to the driver.

Spark hands the driver no exception of a worker, only its text. So the text carries the exception:
`armoured` appends it to the message as base64 between markers, and `raised_by_producer` finds it
in whatever Spark has wrapped around.

Invariant: a failure always arrives, with its stage and a key; what cannot travel (an exception
that does not unpickle, a key of megabytes) is replaced by a stand-in that says what it was.

It stands apart because nothing else depends on how Spark reports errors.
"""

import base64
import re
import traceback
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa
from pyspark import cloudpickle

from deltaproduce.errors import ProducerError

BatchFunction: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What Spark calls for each partition, in `DataFrame.mapInArrow`."""


class WorkerError(Exception):
    """What a Python worker raises in place of a ProducerError; its text is `armoured`."""


def shown(value: object, *, limit: int = 300) -> str:
    """Returns the value's repr for a message: at most about ``limit`` characters, never failing."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 a repr may do anything
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return _shortened(text, limit)


def described(error: BaseException) -> str:
    """Returns type and text of an exception, as the last line of its traceback says them."""
    return _shortened("".join(traceback.format_exception_only(error)).strip(), 2_000)


def armoured(error: ProducerError) -> str:
    """Returns the error's message followed by the error itself, as ASCII text."""
    cause = error.__cause__
    failure = _Failure(
        message=str(error),
        stage=error.stage,
        key=_pickled(error.key),
        key_text=shown(error.key),
        cause=None if cause is None else _pickled(cause),
        cause_text="" if cause is None else described(cause),
        trace=_shortened("".join(traceback.format_exception(error)), 16_000),
    )
    payload = base64.b64encode(zlib.compress(_dumps(failure))).decode("ascii")
    return f"{error}\n<deltaproduce-failure {payload}>"


def in_worker(run: BatchFunction) -> BatchFunction:
    """Returns what a Python worker runs: a ProducerError leaves it as a WorkerError."""

    def run_in_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from run(batches)
        except ProducerError as error:
            raise WorkerError(armoured(error)) from None

    return run_in_worker


def raised_by_producer(error: BaseException, stage: str | None = None) -> ProducerError | None:
    """Finds the failure of a producer in what a Spark action raised.

    Args:
        error: any exception; its chain of causes is searched too. Its text is trusted as far as
            Spark's workers are: the failure in it is unpickled.
        stage: the stage whose function the action ran, if it ran one.

    Returns:
        The ProducerError with its ``__cause__``, and the worker's traceback as a note; without a
        key if the worker died. None if no producer failed.
    """
    seen: set[int] = set()
    suspect: BaseException | None = error
    while suspect is not None and id(suspect) not in seen:
        if isinstance(suspect, ProducerError):
            return suspect
        if armour := _ARMOUR.search(str(suspect)):
            return _restored(zlib.decompress(base64.b64decode(armour[1])))
        if stage is not None and _DEATH in str(suspect):
            return _died(stage, suspect)
        seen.add(id(suspect))
        suspect = suspect.__cause__ or suspect.__context__
    return None


_ARMOUR: Final = re.compile(r"<deltaproduce-failure ([A-Za-z0-9+/=]+)>")
_DEATH: Final = "Python worker exited unexpectedly"
_LONGEST_PICKLE_BYTES: Final = 16_384


@dataclass(frozen=True, slots=True)
class _Failure:
    """A ProducerError in parts, so that one that does not unpickle leaves the others readable."""

    message: str
    stage: str | None
    key: bytes | None
    key_text: str
    cause: bytes | None
    cause_text: str
    trace: str


def _died(stage: str, cause: BaseException) -> ProducerError:
    message = (
        f"stage {stage!r}: a Python worker died while it ran the function, without an exception: "
        "most often it was out of memory (let the function read its values one by one instead of "
        "keeping them), or native code that the function calls crashed"
    )
    error = ProducerError(message, stage=stage)
    error.__cause__ = cause
    return error


def _restored(pickled: bytes) -> ProducerError:
    failure: _Failure = cloudpickle.loads(pickled)
    error = ProducerError(
        failure.message, stage=failure.stage, key=_unpickled(failure.key, failure.key_text)
    )
    if failure.cause_text:
        cause = _unpickled(failure.cause, None)
        stand_in = RuntimeError(failure.cause_text)
        error.__cause__ = cause if isinstance(cause, BaseException) else stand_in
    error.add_note(f"In the Python worker:\n{failure.trace}")
    return error


def _pickled(value: object) -> bytes | None:
    """Returns the value as bytes; None if they would be too many or could not be read back."""
    try:
        pickled = _dumps(value)
        cloudpickle.loads(pickled)
    except Exception:  # noqa: BLE001 pickling runs code of the value
        return None
    return pickled if len(pickled) <= _LONGEST_PICKLE_BYTES else None


def _dumps(value: object) -> bytes:
    pickled: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return pickled


def _unpickled(pickled: bytes | None, stand_in: object) -> object:
    """Reads a part back; the driver may lack a module that the worker had."""
    try:
        return stand_in if pickled is None else cloudpickle.loads(pickled)
    except Exception:  # noqa: BLE001 unpickling runs code of the value
        return stand_in


def _shortened(text: str, limit: int) -> str:
    """Keeps the beginning and the end, which say most, also of tracebacks."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} … {len(text) - 2 * half} characters … {text[-half:]}"
