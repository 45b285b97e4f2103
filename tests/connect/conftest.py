"""The Spark Connect session that the core suite shares: a server on this machine, and a client.

A process is a client of Connect or has Spark in it, never both, so the suite has its own process.
"""

import sys
import warnings
from collections.abc import Iterator

import pytest
from delta.pip_utils import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

from deltaproduce.engines.spark.sessions.error_texts import CATALOG, EXTENSION

SETTINGS = {
    "spark.sql.extensions": EXTENSION,
    "spark.sql.catalog.spark_catalog": CATALOG,
    "spark.sql.execution.pyspark.python": sys.executable,
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    builder = SparkSession.builder.remote("local[2]")
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    for name, value in {**SETTINGS, "spark.sql.warehouse.dir": warehouse}.items():
        builder = builder.config(name, value)
    with pytest.MonkeyPatch.context() as environment, warnings.catch_warnings():
        # Of a stream's functions the server asks its environment alone where Python is.
        environment.setenv("PYSPARK_PYTHON", sys.executable)
        warnings.simplefilter("ignore", UserWarning)  # it has been told what a client cannot set
        session = configure_spark_with_delta_pip(builder).getOrCreate()
    yield session
    session.stop()
