"""Sessions on a cluster, one at a time: a process has one session's context.

Tests that need settings of their own get a session that has them, and the next test gets the usual
one again.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from delta.pip_utils import configure_spark_with_delta_pip
from pyspark.sql import SparkSession
from standalone import S3_EXCLUDED, Cluster, wait_for

from deltaproduce.engines.spark.sessions.error_texts import CATALOG, EXTENSION

DELTA = {"spark.sql.extensions": EXTENSION, "spark.sql.catalog.spark_catalog": CATALOG}
AS_ON_A_CLUSTER = {
    **DELTA,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.executor.memory": "1g",
    "spark.sql.execution.pyspark.python": sys.executable,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
"""What every session of the suite has; otherwise it is Spark's own settings."""
FEW_TASKS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
}
"""What makes tests on a few rows fast."""


class Sessions:
    """The sessions of one process: one after the other, on one cluster."""

    def __init__(self, cluster: Cluster, warehouse: Path, packages: Sequence[str]) -> None:
        self._cluster = cluster
        self._place = {"spark.sql.warehouse.dir": str(warehouse)}
        self._packages = packages
        self._running: tuple[Mapping[str, str], SparkSession] | None = None

    def of(self, settings: Mapping[str, str], executors: int = 2) -> SparkSession:
        """The session with these settings, and with so many executors that are ready."""
        if self._running is None or self._running[0] != settings:
            self.stop()
            builder = SparkSession.builder.master(self._cluster.master)
            for name, value in {**AS_ON_A_CLUSTER, **self._place, **settings}.items():
                builder = builder.config(name, value)
            if self._packages:
                builder = builder.config("spark.jars.excludes", S3_EXCLUDED)
            configured = configure_spark_with_delta_pip(builder, [*self._packages])
            self._running = settings, configured.getOrCreate()
        session = self._running[1]
        wait_for(lambda: executors_of(session) >= executors, f"executor {executors}")
        return session

    def stop(self) -> None:
        """End the session, and let its executors go."""
        if self._running is not None:
            self._running[1].stop()
        self._running = None


def executors_of(spark: SparkSession) -> int:
    """How many executors a session has now."""
    known = spark.sparkContext._jsc.sc().getExecutorMemoryStatus()
    return int(known.size()) - 1  # the driver has a store of blocks as well
