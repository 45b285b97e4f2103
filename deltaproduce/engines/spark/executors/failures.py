"""A producer's failure in Spark's errors: see `engines.failures`, which says how it travels.

Invariant: only a text with the driver's mark is a failure of a function. If the action ran one, so
are the death of a worker, and code that a worker cannot load.
"""

import re
from typing import Final

from deltaproduce.engines.failures import Failure, died, failure_in
from deltaproduce.engines.spark.sessions.on_demand import spark_errors
from deltaproduce.errors import ProducerError
from deltaproduce.types.excerpts import causes, text_of

_DEATH: Final = "Python worker exited unexpectedly"
_MISSING: Final = re.compile(
    r"^(?:ModuleNotFoundError: )?(No module named '([\w.]+)')", re.MULTILINE
)
_OLDER: Final = re.compile(
    r"^AttributeError: (Can't get attribute '\w+' on <module '([\w.]+)'.*)$", re.MULTILINE
)
_OF_LIBRARY: Final = frozenset({"deltaproduce", "numpy", "pandas", "pyarrow", "pyspark"})
"""Modules that every worker needs, whatever the function: without them the session is at fault."""


def raised_by_producer(error: BaseException, stage: str | None = None) -> Failure | None:
    """Find the failure of a producer in an error of a Spark action.

    Args:
        error: any exception; its chain of causes is searched too.
        stage: the stage whose function the action ran, if it ran one.

    Returns:
        The ProducerError with its ``__cause__``, and the worker's traceback as a note; without a
        key if the worker died. Or the damage that a worker found. None if there is neither.
    """
    for suspect in causes(error):
        if isinstance(suspect, ProducerError):
            return suspect
        text = text_of(suspect)
        failure = failure_in(text)
        if failure is not None:
            return _saying_how_to_ship(failure)
        if stage is not None and _DEATH in text:
            return died(stage)
        if stage is not None and isinstance(suspect, spark_errors("PythonException")):
            unloaded = _unloaded(text, stage)
            if unloaded is not None:
                return unloaded
    return None


def _unloaded(text: str, stage: str) -> ProducerError | None:
    """Return the failure of a worker that could not load a stage's function; None for others."""
    missing, older = _MISSING.search(text), _OLDER.search(text)
    if missing is not None:
        cause: Exception = ModuleNotFoundError(missing[1], name=missing[2])
        lacking, module = f"do not have the module {missing[2]!r}", missing[2]
    elif older is not None:
        cause = AttributeError(older[1])
        lacking, module = f"have another version of the module {older[2]!r}: {older[1]}", older[2]
    else:
        return None
    if _root(module) in _OF_LIBRARY:
        return None
    message = f"stage {stage!r}: its function cannot be loaded: Spark's executors {lacking}"
    error = ProducerError(f"{message}; {_how_to_ship(module)}", stage=stage)
    error.__cause__ = cause
    return error


def _saying_how_to_ship(failure: Failure) -> Failure:
    """Return a failure which, if a function lacked a module when it was called, says what to do."""
    cause = failure.__cause__
    missing = _MISSING.search(text_of(cause)) if isinstance(cause, ModuleNotFoundError) else None
    if missing is None or not isinstance(failure, ProducerError):
        return failure
    lacking = f"Spark's executors do not have the module {missing[2]!r}"
    error = ProducerError(
        f"{failure}. {lacking}: {_how_to_ship(missing[2])}",
        stage=failure.stage,
        key=failure.key,
        column=failure.column,
    )
    error.__cause__ = cause
    for note in getattr(failure, "__notes__", ()):
        error.add_note(note)
    return error


def _how_to_ship(module: str) -> str:
    root = _root(module)
    return (
        "install it in the Python that they run, or ship it before the update: "
        f"spark.sparkContext.addPyFile('{root}.py'), or a .zip file of a package; with Spark "
        f"Connect spark.addArtifacts('{root}.py', pyfile=True)"
    )


def _root(module: str) -> str:
    return module.partition(".")[0]
