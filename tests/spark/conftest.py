"""The Spark session that all tests of a process share."""

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaClass, JavaPackage, JVMView
from pyspark.sql import SparkSession

from deltaproduce.engines.spark.sessions.session import local_session

# What makes tests on a few rows fast: one task where one suffices, and no compiling of code that
# runs for milliseconds, by Spark or by Java.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.driver.extraJavaOptions": f"{JAVA} -Xmn1200m -XX:ReservedCodeCacheSize=512m",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    # Spark's checks of its own optimizer, a tenth of the time. Processes that start a session as
    # users do, and Connect's server, have them.
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.sql.ui.explainMode": "simple",  # the text of each plan, for a page that nobody sees
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}
QUICK_JAVA = {"JAVA_TOOL_OPTIONS": JAVA}
"""The same for the session of a process that starts it as users do.

Java says that it has found this on standard error, which a session keeps to itself while it starts.
"""


def look_classes_up_once() -> None:
    """PySpark asks for the same few at each turn, and Java looks for each name in all jars.

    That is a tenth of Java's time in tests of errors, which PySpark asks what they are.
    """
    for namespace in (JVMView, JavaPackage):

        def remembering(self: Any, name: str, look_up: Any = namespace.__getattr__) -> Any:
            found = look_up(self, name)
            if isinstance(found, (JavaClass, JavaPackage)):
                vars(self)[name] = found
            return found

        namespace.__getattr__ = remembering


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Only one process starts a session at a time: the first one may download the jars."""
    with Path(tempfile.gettempdir(), "deltaproduce-tests.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    warehouse = tmp_path_factory.mktemp("warehouse")
    look_classes_up_once()
    with one_at_a_time():
        session = local_session(
            "deltaproduce tests",
            cores=2,
            memory="4g",
            config={**SETTINGS, "spark.sql.warehouse.dir": str(warehouse)},
        )
    yield session
    session.stop()
