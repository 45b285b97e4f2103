"""Spark Declarative Pipelines (``pyspark.pipelines``): materialized views in Delta, for W1.

They need Spark Connect, which cannot share a process with the others' session: a worker process has
its own session, kept warm, with the same settings. README.md says how they work with Delta.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.competitor import Competitor
from benchmarks.workload import Workload

_SETTINGS: Final = (
    "spark.buffer.", "spark.databricks.", "spark.driver.extraJavaOptions", "spark.driver.memory",
    "spark.eventLog.", "spark.jars.packages", "spark.log.level", "spark.master",
    "spark.python.", "spark.sql.", "spark.ui.",
)  # fmt: skip
"""The prefixes of settings that the worker's session copies from this one."""


def available() -> bool:
    """Return whether Spark Connect's packages are installed: ``pyspark[pipelines]``."""
    return all(find_spec(name) for name in ("grpc", "grpc_status", "zstandard", "yaml"))


class Declarative(Competitor):
    """Materialized views: each run truncates and recomputes all of them.

    The orders are a table that is overwritten as in a full recompute, since the views must read
    something; the feed compares the last view's rows before and after.
    """

    name = "Spark Declarative Pipelines"

    def __init__(self, spark: SparkSession, directory: Path, workload: Workload) -> None:
        super().__init__(spark, directory, workload)
        self._steps = 0
        self._process: subprocess.Popen[str] | None = None

    def prepare(self, given: DataFrame) -> None:
        if self._process is None:
            self._start()
        given.write.mode("overwrite").parquet(self.path("given"))

    def load(self, rows: Mapping[str, DataFrame]) -> None:
        del rows  # prepared
        self._ask({"stages": self.workload.stages, "load": True})

    def step(self, changes: DataFrame) -> None:
        del changes  # prepared
        self._steps += 1
        self._ask({"stages": self.workload.stages, "step": self._steps})

    def table(self, name: str) -> DataFrame:
        return self.spark.read.format("delta").load(self.path(name))

    def feed(self) -> DataFrame:
        return self.table("feed").where(f.col("_step") == self._steps)

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate(timeout=60)  # the end of its input ends it

    def _start(self) -> None:
        root = Path(__file__).parents[1]
        paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
        with (self.directory / "worker.log").open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.declarative_worker", str(self.directory)],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self.directory,
            )
        self.worker = self._process.pid
        settings = {row.key: row.value for row in self.spark.sql("SET").collect()}
        self._ask({key: value for key, value in settings.items() if key.startswith(_SETTINGS)})

    def _ask(self, request: dict[str, object]) -> None:
        assert self._process is not None
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with suppress(BrokenPipeError):  # its log says why
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
        answer = stdout.readline()
        if answer.strip() != "done":
            end = (self.directory / "worker.log").read_text()[-4000:]
            raise RuntimeError(f"the worker failed; the end of its log:\n{end}")
