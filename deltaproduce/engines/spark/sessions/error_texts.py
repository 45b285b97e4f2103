"""Error texts: what Spark's and Java's errors mean to a user.

Spark reports many facts only in the text of its errors. `explained` knows the errors of badly
configured sessions, `essence` finds the line that says what happened.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from deltaproduce.engines.spark.sessions.on_demand import spark_errors
from deltaproduce.errors import DeltaProduceError, SessionError
from deltaproduce.types.excerpts import causes, escaped

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_EXTENSIONS_KEY: Final = "spark.sql.extensions"
_CATALOG_KEY: Final = "spark.sql.catalog.spark_catalog"
_PATTERNS_KEY: Final = "spark.sql.parser.quotedRegexColumnNames"


def explained(error: BaseException) -> SessionError | None:
    """Return what is wrong with the session and how to fix it, for errors that users meet.

    It reads the messages and the notes of the error and of its causes. The library's own errors are
    clear already, so they are not explained; nor are errors that quote a row.
    """
    if isinstance(error, DeltaProduceError) or _is_of_a_row(error):
        return None
    text = _text(error)
    for explanation in _EXPLANATIONS:
        message = explanation(text)
        if message is not None:
            return SessionError(" ".join(message.split()))
    return None


def _is_of_a_row(error: BaseException) -> bool:
    """Return whether it is a data exception of SQL, or raised by the query: these quote rows."""
    state = error.getSqlState() if isinstance(error, spark_errors("PySparkException")) else None
    return state is not None and state.startswith(("22", "P0"))


def _text(error: BaseException) -> str:
    texts: list[str] = []
    for cause in causes(error):
        texts += [str(cause), *getattr(cause, "__notes__", ())]
    return "\n".join(texts)


def _java_missing(text: str) -> str | None:
    exited = "JAVA_GATEWAY_EXITED" in text
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    if "JAVA_HOME is not set" not in text and not (exited and shutil.which(java) is None):
        return None
    java_home = f"JAVA_HOME is {home!r}" if home else "JAVA_HOME is not set, no java on the PATH"
    return f"Spark found no Java ({java_home}): install Java 17 or newer, or let JAVA_HOME name it"


def _java_too_old(text: str) -> str | None:
    if "UnsupportedClassVersionError" not in text:
        return None
    match = re.search(r"recognizes class file versions up to (\d+)", text)
    version = f"Java {int(match[1]) - 44}" if match else "an older one"
    return f"Spark needs Java 17 or newer and found {version}: install it and set JAVA_HOME to it"


def _download_failed(text: str) -> str | None:
    match = re.search(r"download failed: ([^\s\]]+)", text)
    if match:
        return f"""the jar {match[1]!r} could not be downloaded. If ~/.m2 holds its pom without the
            jar, the resolver looks no further: delete its folder under ~/.m2/repository and those
            under ~/.ivy2*; otherwise check the network, and start again"""
    match = re.search(r"unresolved dependency: (\S+): ", text)
    if match:
        return f"""the package {match[1]!r} was found in no repository: check that the network
            reaches Maven Central or set spark.jars.ivySettings to a mirror, and that this version
            exists (delta-spark is pinned because some releases have no jar)"""
    return None


def _delta_missing(text: str) -> str | None:
    names = rf"{re.escape(EXTENSION)}|{re.escape(CATALOG)}"
    patterns = (
        rf"(ClassNotFoundException|NoClassDefFoundError|class not found): ?({names})",
        rf"(Cannot find|Cannot load).*({re.escape(CATALOG)})",
        r"'JavaPackage' object is not callable",
        r"DATA_SOURCE_NOT_FOUND.*\bdelta\b",
    )
    if not any(re.search(pattern, text) for pattern in patterns):
        return None
    return """Spark runs without the Delta jars. They are loaded when a Python process first starts
        Java, so start a new process with deltaproduce.local_session(), or add the delta-spark
        package to spark.jars.packages"""


def _delta_not_configured(text: str) -> str | None:
    if "DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG" not in text:
        return None
    return f"""the Spark session lacks {_EXTENSIONS_KEY}={EXTENSION} or {_CATALOG_KEY}={CATALOG}:
        stop it and start it with both, or use deltaproduce.local_session()"""


def _worker_python_differs(text: str) -> str | None:
    if "PYTHON_VERSION_MISMATCH" not in text:
        return None
    match = re.search(r"different version: (\S+) than that in driver: (\d+\.\d+)", text)
    versions = f"Python {match[1]}, the driver {match[2]}" if match else "another Python"
    return f"""Spark's workers run {versions}: set PYSPARK_PYTHON to {sys.executable!r}, or on a
        cluster to an interpreter of the driver's minor version, and start the session anew"""


def _worker_module_missing(text: str) -> str | None:
    match = re.search(r"^ModuleNotFoundError: No module named '([\w.]+)'", text, re.MULTILINE)
    if not match or "Python worker" not in text:
        return None
    return f"""Spark's workers have no module {match[1]!r}: install it into the Python they run, or
        send it with spark.addArtifacts(..., pyfile=True), or set PYSPARK_PYTHON to an interpreter
        that has it"""


def _session_stopped(text: str) -> str | None:
    signs = (
        "stopped SparkContext",
        "SparkContext was shut down",
        'SparkContext.dagScheduler()" is null',
    )
    if not any(sign in text for sign in signs):
        return None
    return """the Spark session was stopped: start another, open the store with it, and make the
        DataFrames anew"""


def _names_are_patterns(text: str) -> str | None:
    if "INVALID_USAGE_OF_STAR_OR_REGEX" not in text or "regular expression" not in text:
        return None
    return f"""the Spark session has {_PATTERNS_KEY}=true, so that a quoted name which has more than
        letters, digits and underscores is a pattern: unset it, spark.conf.unset({_PATTERNS_KEY!r}),
        or rename the columns"""


_EXPLANATIONS: Final[tuple[Callable[[str], str | None], ...]] = (
    _java_missing,
    _java_too_old,
    _download_failed,
    _worker_python_differs,
    _worker_module_missing,
    _delta_not_configured,
    _delta_missing,
    _session_stopped,
    _names_are_patterns,
)


def essence(error: BaseException) -> str:
    """Return the line of an error that says what happened, without Java's frames.

    Control characters are escaped. For a Python function it is the last line of the traceback; for
    Java the first, or that of the cause if the first only says that a thread was waited for.
    """
    text = str(error).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    if isinstance(error, spark_errors("PythonException")):  # a row may quote a traceback, too
        message = lines[-1]
    elif len(lines) > 1 and _JAVA_CLASS.match(lines[1]):
        messages = (_JAVA_CLASS.sub("", line) for line in lines if _JAVA_CLASS.match(line))
        message = next((one for one in messages if not one.startswith(_WAITED)), lines[0])
    else:
        message = lines[0]
    return escaped(_SQL_STATE.sub("", message), limit=_LONGEST)


_WAITED: Final = "Exception thrown in awaitResult"
_JAVA_CLASS: Final = re.compile(r"^(?:Caused by)?: (?:[\w$]+\.)+[\w$]+: ")
_SQL_STATE: Final = re.compile(r"\s*SQLSTATE: \w{5}\s*$")
_LONGEST: Final = 500


def is_missing_path(error: PySparkException) -> bool:
    """Return whether Spark found nothing at a path, or by its pattern."""
    return error.getCondition() == "PATH_NOT_FOUND"


def raise_interrupt(error: BaseException) -> None:
    """Raise the interrupt that an error comes from, if it does.

    After Ctrl-C, pyspark only says that a job was cancelled, or that Java does not answer.

    Raises:
        KeyboardInterrupt: the error was raised while one was handled.
    """
    if any(isinstance(earlier, KeyboardInterrupt) for earlier in _contexts(error)):
        raise KeyboardInterrupt from error


def _contexts(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors that were being handled when an error was raised, newest first."""
    while error.__context__ is not None:
        error = error.__context__
        yield error
