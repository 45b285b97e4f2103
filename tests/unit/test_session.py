"""Messages when no session can start: recorded texts of Spark, and no Java at all."""

import os
import subprocess
import sys

import pytest
from pyspark.errors import PySparkException

from deltaproduce.engines.spark.sessions.error_texts import explained, raise_interrupt
from deltaproduce.engines.spark.sessions.session import check_session
from deltaproduce.errors import ProducerError, SessionError

IVY_EXIT = "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number."


def failed_start(said):
    error = RuntimeError(IVY_EXIT)
    error.add_note(said)
    return error


@pytest.fixture(autouse=True)
def java_installed(monkeypatch, tmp_path):
    """A machine with a java, whether this one has it or not."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))


RECORDED = [
    pytest.param(
        RuntimeError(
            "An error occurred while calling o76.localCheckpoint.\n"
            ": java.lang.NullPointerException: Cannot invoke "
            '"org.apache.spark.scheduler.DAGScheduler.cleanupQueryJobs(long)" because the return '
            'value of "org.apache.spark.SparkContext.dagScheduler()" is null\n\tat org.apache.…'
        ),
        "was stopped",
        id="stopped",
    ),
    pytest.param(failed_start("JAVA_HOME is not set\n"), "install Java", id="no java"),
    pytest.param(
        failed_start(
            "Error: LinkageError occurred while loading main class org.apache.spark.launcher.Main\n"
            "java.lang.UnsupportedClassVersionError: org/apache/spark/launcher/Main has been "
            "compiled by a more recent version of the Java Runtime (class file version 61.0), this "
            "version of the Java Runtime only recognizes class file versions up to 55.0\n"
        ),
        "found Java 11",
        id="old java",
    ),
    pytest.param(
        failed_start(
            "\t\t::::::::::::::::::::::::::::::::::::::::::::::\n"
            "\t\t:: unresolved dependency: io.delta#delta-spark_4.2_2.13;4.4.1: not found\n"
            'Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: '
            "io.delta#delta-spark_4.2_2.13;4.4.1: not found]\n"
        ),
        "'io.delta#delta-spark_4.2_2.13;4.4.1'",
        id="unresolved",
    ),
    pytest.param(
        failed_start(
            "\t\t::              FAILED DOWNLOADS            ::\n"
            "java.lang.RuntimeException: [download failed: "
            "org.antlr#antlr4-runtime;4.13.1!antlr4-runtime.jar]\n"
        ),
        "~/.m2",
        id="poms without jars",
    ),
    pytest.param(TypeError("'JavaPackage' object is not callable"), "Delta jars", id="package"),
    pytest.param(
        RuntimeError(
            "java.lang.ClassNotFoundException: io.delta.sql.DeltaSparkSessionExtension\n\tat java"
        ),
        "Delta jars",
        id="class",
    ),
    pytest.param(
        RuntimeError("[DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG] This Delta"),
        "spark.sql.extensions",
        id="not configured",
    ),
    pytest.param(
        RuntimeError(
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in "
            "driver: 3.11, PySpark cannot run with different minor versions."
        ),
        "Python 3.12, the driver 3.11",
        id="worker version",
    ),
    pytest.param(
        RuntimeError(
            "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most "
            "recent call last):\nModuleNotFoundError: No module named 'pyarrow'\n"
        ),
        "'pyarrow'",
        id="worker module",
    ),
]


@pytest.mark.parametrize(("error", "part"), RECORDED)
def test_a_known_error_becomes_one_line_that_names_what_was_found(error, part):
    explanation = explained(error)
    assert isinstance(explanation, SessionError)
    assert part in str(explanation)
    assert "\n" not in str(explanation)


def test_the_cause_is_read_too():
    error = ValueError("the stage failed")
    error.__cause__ = RuntimeError("[PYTHON_VERSION_MISMATCH] ...")
    assert explained(error) is not None


@pytest.mark.parametrize(
    "error",
    [
        failed_start("java.lang.OutOfMemoryError: Java heap space"),
        ValueError("any other"),
        ModuleNotFoundError("No module named 'pyarrow'"),
        ProducerError("Python worker: ModuleNotFoundError: No module named 'mine'"),
    ],
)
def test_other_errors_are_left_as_they_are(error):
    assert explained(error) is None


class InvalidCast(PySparkException):
    """As Spark raises it, for a value that it quotes."""

    def getSqlState(self):  # noqa: N802 its name in PySpark
        return "22018"


@pytest.mark.parametrize(("recorded", "_"), RECORDED)
def test_a_row_that_quotes_such_an_error_is_not_believed(recorded, _):
    said = "\n".join([str(recorded), *getattr(recorded, "__notes__", ())])
    assert explained(InvalidCast(f"[CAST_INVALID_INPUT] The value '{said}' is malformed")) is None


def test_only_the_last_line_of_a_traceback_names_a_module():
    said = "from the Python worker: ValueError: \"ModuleNotFoundError: No module named 'evil'\""
    assert explained(RuntimeError(said)) is None


class Conf(dict):
    """Stands in for a session: `check_session` only reads settings."""

    @property
    def conf(self):
        return self


DELTA = {
    "spark.sql.extensions": "other.Extension, io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def test_only_an_error_raised_while_an_interrupt_was_handled_is_one():
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 it is raised in a handler
        try:
            try:
                raise KeyboardInterrupt
            except KeyboardInterrupt:
                raise RuntimeError("Java does not answer") from None
        except RuntimeError as error:
            raise_interrupt(error)
    raise_interrupt(RuntimeError("Java does not answer"))


def test_a_session_with_extension_and_catalog_passes(monkeypatch):
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    check_session(Conf(DELTA))
    check_session(Conf(DELTA | {"spark.sql.catalog.spark_catalog": "io.unitycatalog.spark.UCX"}))


@pytest.mark.parametrize("key", list(DELTA))
def test_a_session_without_one_of_them_is_refused_by_the_name_of_the_setting(key, monkeypatch):
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    with pytest.raises(SessionError, match=key):
        check_session(Conf({k: v for k, v in DELTA.items() if k != key}))


def test_databricks_is_not_asked_for_the_settings(monkeypatch):
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "18.1")
    check_session(Conf())


def test_no_java_at_all_is_said_in_one_line_and_nothing_else(tmp_path):
    """In a process of its own, whose PATH has the shell's tools but no java."""
    for tool in ("env", "bash", "sh", "dirname", "basename", "ps", "uname", "id"):
        for folder in ("/usr/bin", "/bin"):
            if os.path.exists(f"{folder}/{tool}") and not (tmp_path / tool).exists():
                (tmp_path / tool).symlink_to(f"{folder}/{tool}")
    environment = {k: v for k, v in os.environ.items() if k not in {"JAVA_HOME", "SPARK_HOME"}}
    script = """
from deltaproduce.errors import SessionError
from deltaproduce.engines.spark.sessions.session import local_session
try:
    local_session()
except SessionError as error:
    print(error)
"""
    ran = subprocess.run(
        [sys.executable, "-c", script],
        env=environment | {"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "install Java 17" in ran.stdout
    assert ran.stdout.count("\n") == 1
    assert ran.stderr == ""
