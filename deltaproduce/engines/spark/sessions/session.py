"""Spark sessions that work with Delta: start one here, check any, explain a failure to start.

Invariant: a session of `local_session` has Delta's extension and catalog, and its Python workers
run the caller's interpreter. No setting of a running session is changed, and only public interfaces
are used on it, so that `check_session` serves Spark Connect too.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from deltaproduce.engines.spark.executors.python_workers import INTERPRETER_KEY
from deltaproduce.engines.spark.sessions.error_texts import (
    _CATALOG_KEY,
    _EXTENSIONS_KEY,
    CATALOG,
    EXTENSION,
    explained,
)
from deltaproduce.errors import InvalidArgumentError, SessionError, packages_named
from deltaproduce.model import arguments
from deltaproduce.model.limits import machine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGES_KEY: Final = "spark.jars.packages"
_JSON_LOGGING_KEY: Final = "spark.log.structuredLogging.enabled"
_JAVA_OPTIONS_KEY: Final = "spark.driver.extraJavaOptions"

_OTHERS_WRITE: Final = 0o022  # Hadoop's default, which it uses instead of the process's umask
_MEMORY: Final = re.compile(r"[1-9][0-9]*[kmgt]", re.IGNORECASE)

# Catalogs that may replace Spark's own and pass Delta tables through: Delta's, and Unity Catalog's,
# which wraps it.
_DELTA_CATALOGS: Final = ("delta", "unitycatalog")

_MEND_MISSING: Final = "pip install 'deltaproduce[spark]'"
_MEND_PACKAGES: Final = "pip install 'deltaproduce[spark]' in an environment without pyspark-client"

_QUIET_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
"""Spark's logging: its own defaults, without a second report of each failed task."""


def local_session(
    app_name: str = "deltaproduce",
    *,
    cores: int | None = None,
    memory: str = "2g",
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a Spark session in this process that can read and write Delta tables.

    A running session that can work with Delta is returned as it is, whatever you pass. Otherwise a
    new one starts. Its workers run this interpreter (unless the variable PYSPARK_PYTHON names
    another), the web UI and the progress bar are off, and Spark logs errors only. Output on
    standard error during the start is shown only if the start fails. Failed tasks are not logged,
    since they raise an error; a ``log4j2.properties`` where Spark looks for one takes precedence.
    The session is tuned for many small plans: adaptive planning is off, and errors do not name the
    Python line that made a column. Files and directories get the permissions of this process's
    umask, and are never writable by others.

    Cost: about six seconds; the very first start also downloads the Delta jars.

    Args:
        app_name: the session's name in Spark's logs.
        cores: the number of threads, and of partitions of a shuffle; by default all cores that
            this process may use.
        memory: the heap of the one Java process, in Spark's units. It is fixed when this Python
            process starts Java, so a later session of the same process cannot change it.
        config: further Spark settings. They override those made here, except that Delta stays in
            `spark.jars.packages` and `spark.sql.extensions`, and that options in
            `spark.driver.extraJavaOptions` are added, and override one by one.

    Raises:
        SessionError: no session can start, or the running one lacks Delta; the message says what to
            do.
        InvalidArgumentError: an argument has the wrong type.
    """
    _check_arguments(app_name, cores, memory, config)
    if find_spec("pyspark") is None:
        raise SessionError(f"there is no package pyspark: {_MEND_MISSING}")
    if find_spec("pyspark.core") is None:
        message = "PySpark's client is installed, which starts no Spark of its own"
        raise SessionError(f"{message}: {_MEND_PACKAGES}")
    _check_delta()
    running = _running_session()
    if running is not None:
        check_session(running)
        return running
    with _held_back_stderr() as said:
        try:
            spark = _started(_builder(app_name, cores, memory, dict(config or {})))
        except Exception as error:
            # spark-submit resolves the jars and ends when it cannot. PySpark then only knows that
            # it ended; the reason is in what that process wrote to standard error.
            error.add_note(said())
            explanation = explained(error)
            if explanation is None:
                raise
            raise explanation from error
    _silence_query_context()
    return spark


def check_session(spark: SparkSession) -> None:
    """Raise an error that says what to do if a session cannot work with Delta tables.

    Works on Spark Connect sessions too. Databricks has Delta built in, without these settings, so
    nothing is checked there. Cost: two settings are read, no job runs.

    Raises:
        SessionError: the session lacks Delta's extension or catalog.
        InvalidArgumentError: it is no session.
    """
    if not hasattr(getattr(spark, "conf", None), "get"):
        message = f"spark is a {type(spark).__name__}; give a SparkSession, as local_session() is"
        raise InvalidArgumentError(message, argument="spark")
    _check_delta()
    if "DATABRICKS_RUNTIME_VERSION" in os.environ:  # documented as set on every cluster
        return
    mend = "stop it and start it with this setting (a running session cannot get it), or use "
    mend += "deltaproduce.local_session() in a new Python process"
    extensions = spark.conf.get(_EXTENSIONS_KEY, "") or ""
    if EXTENSION not in [name.strip() for name in extensions.split(",")]:
        msg = (
            f"the Spark session lacks {_EXTENSIONS_KEY}={EXTENSION} (found {extensions!r}): {mend}"
        )
        raise SessionError(msg)
    catalog = spark.conf.get(_CATALOG_KEY, "") or ""
    if not any(name in catalog.lower() for name in _DELTA_CATALOGS):
        msg = f"the Spark session lacks {_CATALOG_KEY}={CATALOG} (found {catalog!r}): {mend}"
        raise SessionError(msg)


def _check_delta() -> None:
    """Raise a SessionError if Delta's Python package is missing."""
    if find_spec("delta") is None:
        raise SessionError(f"there is no package delta-spark: {_MEND_PACKAGES}")


def _check_arguments(app_name: object, cores: object, memory: object, config: object) -> None:
    arguments.text(app_name, "app_name")
    if cores is not None:
        arguments.integer(cores, "cores", least=1)
    if not _MEMORY.fullmatch(arguments.text(memory, "memory")):
        message = f"memory is {memory!r}; give a number and its unit, such as '2g' or '512m'"
        raise InvalidArgumentError(message, argument="memory")
    if config is None:
        return
    if not isinstance(config, Mapping):
        message = f"config is a {type(config).__name__}; give a mapping of settings to values"
        raise InvalidArgumentError(message, argument="config")
    for key, value in config.items():
        arguments.text(key, "config")
        if not isinstance(value, str):
            message = f"config: {key!r} is {value!r}; give its value as text"
            raise InvalidArgumentError(message, argument="config")


def _running_session() -> SparkSession | None:
    with packages_named():
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    with suppress(PySparkRuntimeError):
        return SparkSession.active()
    return None


def _started(builder: SparkSession.Builder) -> SparkSession:
    spark = builder.getOrCreate()
    try:
        # Only this loads the catalog's class. It is missing if this process has started Java
        # before, without Delta: Spark fetches packages only when it starts Java.
        spark.catalog.currentDatabase()
    except Exception:
        spark.stop()
        raise
    return spark


def _builder(
    app_name: str, cores: int | None, memory: str, config: dict[str, str]
) -> SparkSession.Builder:
    threads = cores or machine.cores()
    packages = [name for name in config.pop(_PACKAGES_KEY, "").split(",") if name]
    extensions = [name for name in config.pop(_EXTENSIONS_KEY, "").split(",") if name]
    settings = {
        _EXTENSIONS_KEY: ",".join(dict.fromkeys([EXTENSION, *extensions])),
        _CATALOG_KEY: CATALOG,
        "spark.driver.memory": memory,
        "spark.sql.shuffle.partitions": str(threads),
        "spark.databricks.delta.snapshotPartitions": "1",
        # Each sort and hash table starts with a page; clearing Spark's choice of up to 64 MiB costs
        # more than sorting most steps' rows.
        "spark.buffer.pageSize": "2m",
        # A version's plans generate more classes than Spark's default of 100 keeps, and recompiling
        # them for each version takes a third of its processor time.
        "spark.sql.codegen.cache.maxEntries": "10000",
        # Each shuffle would be a job of its own, to choose a number of tasks that is already right.
        "spark.sql.adaptive.enabled": "false",
        _JAVA_OPTIONS_KEY: " ".join(_java_options(config)),
        # It looks up the line of Python behind each expression, at a millisecond each.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.hadoop.fs.permissions.umask-mode": f"{_umask() | _OTHERS_WRITE:03o}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    if "PYSPARK_PYTHON" not in os.environ:  # Spark's default is the python3 on the PATH
        settings[INTERPRETER_KEY] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{threads}]").appName(app_name)
    for key, value in {**settings, **config}.items():
        builder = builder.config(key, value)
    from delta import configure_spark_with_delta_pip

    return configure_spark_with_delta_pip(builder, packages)


def _java_options(config: dict[str, str]) -> Iterator[str]:
    """Yield the options of the Java process; the user's come last, so each overrides ours."""
    # Generated code fills Java's default code cache of 240 MiB, which stops Java's compiler.
    yield "-XX:ReservedCodeCacheSize=512m"
    if _QUIET_LOGGING.is_file() and not _is_logging_set_up(config):
        yield f"-Dlog4j2.configurationFile={_QUIET_LOGGING.as_uri()}"
    if wanted := config.pop(_JAVA_OPTIONS_KEY, ""):
        yield wanted


def _is_logging_set_up(config: Mapping[str, str]) -> bool:
    """Return whether the user has set up logging where Spark, or Log4j, looks for it."""
    if "LOG4J_CONFIGURATION_FILE" in os.environ or _JSON_LOGGING_KEY in config:
        return True
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR", home and os.path.join(home, "conf"))
    return bool(folder) and any(Path(str(folder)).glob("log4j2*.*"))


def _umask() -> int:
    """Return this process's umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _silence_query_context() -> None:
    """Keep PySpark from also logging each error that it raises, as a line of JSON.

    Loggers that the user gave another level than PySpark's default are left alone.
    """
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logger = PySparkLogger.getLogger(name)
        if logger.level == logging.WARNING:
            logger.setLevel(logging.CRITICAL)


@contextmanager
def _held_back_stderr() -> Iterator[Callable[[], str]]:
    """Hold back standard error, of child processes too; yield a function that returns it.

    The packages' resolver prints a hundred lines at each start, without a setting to stop it. The
    Java process keeps the pipe that it started with, so a thread goes on reading it: output after
    the start is passed on. If the block raises an error, the held-back output is passed on too,
    unless the error is a SessionError, which says it all in one line.
    """
    try:
        terminal = os.dup(2)
    except OSError:  # there is no standard error, so nothing to hold back
        yield lambda: ""
        return
    mark = os.urandom(16)  # separates held-back output from passed-on output
    marked = Event()
    held = bytearray()
    read_end, write_end = os.pipe()
    os.dup2(write_end, 2)
    os.close(write_end)

    def pump() -> None:
        while chunk := os.read(read_end, 1 << 16):
            if marked.is_set():
                os.write(2, chunk)
                continue
            held.extend(chunk)
            if mark in held:
                rest = held.partition(mark)[2]
                del held[held.index(mark) :]
                marked.set()
                os.write(2, rest)
        marked.set()
        os.close(read_end)

    def release() -> str:
        if not marked.is_set():
            os.write(2, mark)
            os.dup2(terminal, 2)
            marked.wait(timeout=5)
        return held.decode(errors="replace")

    Thread(target=pump, name="deltaproduce-stderr", daemon=True).start()
    try:
        yield release
    except SessionError:
        raise
    except BaseException:
        os.write(terminal, release().encode())
        raise
    finally:
        release()
        os.close(terminal)
