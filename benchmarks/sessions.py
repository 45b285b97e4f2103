"""Sessions: where competitors with Spark run, and with which settings.

By default that is this process, with the settings of `deltaproduce.local_session`. A cluster's
executors are other processes: they need the packages of this environment and the folder of
`benchmarks` on their path, which those have that `benchmarks.standalone` starts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

import deltaproduce as dp
from benchmarks import standalone

WORKER_MEMORY: Final = "3g"
_DELTA: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a session runs.

    Attributes:
        memory: of the Java process of the driver, in Spark's units.
        master: the master of a cluster; None for threads of this process.
        workers: start a cluster of so many workers of one core each, and 3 GB; 0 for none.
        is_tuned: whether it has the settings of `local_session`, or Delta's and no others.
    """

    memory: str = "8g"
    master: str | None = None
    workers: int = 0
    is_tuned: bool = True

    @contextmanager
    def session(self, work: Path, config: Mapping[str, str]) -> Iterator[SparkSession]:
        """Open a session there.

        Args:
            work: a folder for what a cluster writes.
            config: further settings.
        """
        if self.workers:
            with standalone.started(work, self.workers, memory=WORKER_MEMORY) as cluster:
                there = replace(self, master=cluster.master, workers=0)
                with there.session(work, config) as spark:
                    standalone.wait_for(lambda: _executors(spark) >= self.workers, "executor")
                    yield spark
            return
        settings = {**self._settings, **config}
        started = self._tuned(settings) if self.is_tuned else self._default(settings)
        with started as spark:
            yield spark

    @property
    def _settings(self) -> dict[str, str]:
        if self.master is None:
            return {}
        return {
            "spark.master": self.master,
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": WORKER_MEMORY,
            "spark.sql.execution.pyspark.python": sys.executable,
        }

    def _tuned(self, settings: Mapping[str, str]) -> SparkSession:
        return dp.local_session(memory=self.memory, config=settings)

    def _default(self, settings: Mapping[str, str]) -> SparkSession:
        """Return a session as a user of a cluster starts one: with Delta, and as Spark is."""
        from delta import configure_spark_with_delta_pip

        own = {"spark.driver.memory": self.memory, "spark.log.level": "ERROR"}
        builder = SparkSession.builder
        for name, value in {**_DELTA, **own, **settings}.items():
            builder = builder.config(name, value)
        return configure_spark_with_delta_pip(builder).getOrCreate()


def _executors(spark: SparkSession) -> int:
    """Return how many executors a session has now."""
    known = spark.sparkContext._jsc.sc().getExecutorMemoryStatus()
    return int(known.size()) - 1  # the driver has a store of blocks as well
