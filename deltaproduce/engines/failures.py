"""A producer's failure on its way from a Python worker to the driver.

A worker hands the driver a text, not an exception: Spark does so, and so do the workers on the
driver. The text carries the failure as JSON after a mark: message, stage, key, column, cause and
traceback. `failure_in` finds it within any wrapping text. Damage to a store that a worker finds
in its rows, and a file that it refuses, travel in the same way.

Invariants: a failure always arrives, with its stage and a key; what cannot travel (an exception of
a user's class, a key of megabytes) is replaced by a stand-in that describes it. And texts are data:
a mark has a secret that no row can know, the text after it is read as plain values, and no code
that it names is called.
"""

import json
import secrets
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from itertools import dropwhile
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import pyarrow as pa

from deltaproduce.errors import CorruptStoreError, InvalidChangesError, ProducerError
from deltaproduce.types.excerpts import described, escaped, shown, text_of
from deltaproduce.types.json.values import Json, NotPlainError, read, written

Failure: TypeAlias = ProducerError | CorruptStoreError | InvalidChangesError
"""What a worker reports to the driver."""

BatchFunction: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What a worker calls: for each partition of `DataFrame.mapInArrow`, or for rows of whole keys."""


class WorkerError(Exception):
    """What a Python worker raises in place of a ProducerError; its text contains the failure."""


def in_worker(run: BatchFunction) -> BatchFunction:
    """Return the function that a Python worker runs: it raises a `Failure` as a WorkerError.

    Call this on the driver: the function takes the driver's mark along.
    """
    mark = _mark()

    def run_in_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from run(batches)
        except (ProducerError, CorruptStoreError, InvalidChangesError) as error:
            raise WorkerError(_text(error, mark)) from None

    return run_in_worker


def failure_in(text: str) -> Failure | None:
    """Return the first failure in a text; None if no mark is followed by one.

    It has its ``__cause__``, and the worker's traceback as a note.
    """
    for place in text.split(_mark())[1:]:
        try:
            failure, _ = json.JSONDecoder().raw_decode(place[:_LONGEST_FAILURE])
            return _read_failure(failure)
        except (ValueError, TypeError, RecursionError):  # cut off on the way, or no failure at all
            continue
    return None


def died(stage: str) -> ProducerError:
    """Return the failure of a worker that ended while it ran a stage's function."""
    message = (
        f"stage {stage!r}: a Python worker died while it ran the function, without an exception: "
        "most often it was out of memory (let the function read its values one by one instead of "
        "keeping them), or native code that the function calls crashed"
    )
    return ProducerError(message, stage=stage)


_LONGEST_MESSAGE: Final = 8_000
_LONGEST_TRACE: Final = 16_000
_LONGEST_VALUE: Final = 16_384
_LONGEST_FAILURE: Final = 1 << 20

_PACKAGE: Final = Path(__file__).parents[1]
_PLAIN_ERRORS: Final = MappingProxyType(
    {
        kind.__name__: kind
        for kind in (
            *(ArithmeticError, FloatingPointError, OverflowError, ZeroDivisionError),
            *(LookupError, IndexError, KeyError),
            *(OSError, ConnectionError, FileExistsError, FileNotFoundError, InterruptedError),
            *(IsADirectoryError, NotADirectoryError, PermissionError, TimeoutError),
            *(RuntimeError, NotImplementedError, RecursionError),
            *(ValueError, UnicodeError, NameError, UnboundLocalError),
            *(ImportError, ModuleNotFoundError, StopIteration, SystemExit),
            *(AssertionError, AttributeError, BufferError, EOFError, MemoryError, TypeError),
            Exception,
        )
    }
)
"""The classes that a cause may have on the driver: Python's own that accept any arguments."""


@cache
def _mark() -> str:
    """Return the mark before failures of this driver's functions; no row's text contains it."""
    return f"<deltaproduce-failure {secrets.token_hex(16)} "


def _text(error: Failure, mark: str) -> str:
    """Return the error's message, and the whole error after the mark."""
    message = escaped(text_of(error), limit=_LONGEST_MESSAGE)
    cause = error.__cause__
    stage = key = column = None
    if isinstance(error, ProducerError):
        stage, key, column = error.stage, error.key, error.column
    failure = {
        "message": message,
        "is_damage": isinstance(error, CorruptStoreError),
        "refused": _refused(error) if isinstance(error, InvalidChangesError) else None,
        "stage": stage if stage is None else str(stage),
        "key": _plain(key, shown(key)),
        "column": column,
        "cause": None if cause is None else _written_cause(cause),
        "trace": _trace(error),
    }
    return f"{message}\n{mark}{json.dumps(failure)}>"


def _refused(error: InvalidChangesError) -> dict[str, Json]:
    """Return where the wrong value is: in a file, or in the rows of some keys."""
    columns: list[Json] = [*error.columns]
    where = {"source": error.source, "file": error.file, "line": error.line, "columns": columns}
    return {**where, "keys": _plain(error.keys, None)}


def _plain(value: object, stand_in: Json) -> Json:
    """Return a value as JSON, or its stand-in if it has no JSON or its JSON is too long."""
    try:
        json_value = written(value)
        return json_value if len(json.dumps(json_value)) <= _LONGEST_VALUE else stand_in
    except Exception:  # noqa: BLE001 a value of another type may do anything
        return stand_in


def _written_cause(cause: BaseException) -> dict[str, Json]:
    """Return the nearest class that may travel, with arguments that give the same text."""
    names = (kind.__name__ for kind in type(cause).__mro__ if kind in _PLAIN_ERRORS.values())
    name = next(names, Exception.__name__)
    if type(cause) is not _PLAIN_ERRORS[name]:
        return {"class": name, "args": _plain((described(cause),), None)}
    text = (escaped(text_of(cause)),)
    same = text_of(_PLAIN_ERRORS[name](*cause.args)) == text_of(cause)
    return {"class": name, "args": _plain(cause.args if same else text, _plain(text, None))}


def _trace(error: Failure) -> str:
    """Return the traceback of the cause, starting at the first line of the user's code.

    It is empty for an error of the library itself, whose message is complete.
    """
    trace = traceback.TracebackException.from_exception(error.__cause__ or error)
    theirs = list(dropwhile(_is_of_library, trace.stack))
    if not theirs and error.__cause__ is None:
        return ""
    trace.stack = traceback.StackSummary.from_list(theirs or trace.stack)
    return escaped("".join(trace.format()), limit=_LONGEST_TRACE, lines=True)


def _is_of_library(frame: traceback.FrameSummary) -> bool:
    return Path(frame.filename).is_relative_to(_PACKAGE)


def _read_failure(failure: object) -> Failure:
    match failure:
        case {
            "message": str(message),
            "is_damage": bool(is_damage),
            "refused": refused,
            "stage": str() | None as stage,
            "key": key,
            "column": str() | None as column,
            "cause": None | {"class": str(), "args": [*_]} as cause,
            "trace": str(trace),
        }:
            if is_damage:
                return CorruptStoreError(message)
            if refused is not None:
                return _read_refused(message, refused)
            error = ProducerError(message, stage=stage, key=read(key), column=column)
            if cause is not None:
                error.__cause__ = _read_cause(cause)
            if trace:
                error.add_note(f"In the Python worker:\n{trace.rstrip()}")
            return error
    raise NotPlainError("it is not a failure")


def _read_refused(message: str, refused: object) -> InvalidChangesError:
    match refused:
        case {
            "source": str() | None as source,
            "file": str() | None as file,
            "line": int() | None as line,
            "columns": [*columns],
            "keys": keys,
        }:
            names = tuple(map(str, columns))
            known_keys = read(keys)
            return InvalidChangesError(
                message,
                source=source,
                column=next(iter(names), None),
                columns=names,
                keys=known_keys if isinstance(known_keys, tuple) else (),
                file=file,
                line=line,
            )
    raise NotPlainError("it is not a failure")


def _read_cause(cause: dict[str, Any]) -> BaseException:
    kind, args = _PLAIN_ERRORS.get(cause["class"]), read(cause["args"])
    if kind is None or type(args) is not tuple:
        raise NotPlainError("it is not a cause")
    return kind(*args)
