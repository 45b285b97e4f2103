"""Competitors: each is one way to keep a workload's tables, in a directory of its own.

Its job: apply a batch of changes to the source, update every derived table, get deletes right, and
write a feed of the changes to the last table for downstream readers.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks.workload import Table, Workload


class Competitor(ABC):
    """One way to keep a workload's tables.

    Attributes:
        worker: the id of the separate process that takes its steps, if it has one.
    """

    name: str
    worker: int | None = None

    def __init__(self, spark: SparkSession, directory: Path, workload: Workload) -> None:
        self.spark = spark
        self.directory = directory
        self.workload = workload
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)

    def prepare(self, given: DataFrame) -> None:
        """Prepare a load or a step; this is not part of it.

        Args:
            given: the rows, or the changes, of the source that changes.
        """
        del given  # most prepare nothing

    @abstractmethod
    def load(self, rows: Mapping[str, DataFrame]) -> None:
        """Take the first load: the rows of each source, in its table's columns."""

    @abstractmethod
    def step(self, changes: DataFrame) -> None:
        """Apply one batch of changes to all tables."""

    @abstractmethod
    def table(self, name: str) -> DataFrame:
        """Return the current rows of one table, in the columns of the workload's table."""

    @abstractmethod
    def feed(self) -> DataFrame:
        """Return the last step's feed of the last table's changes, in the table's columns."""

    def figures(self) -> dict[str, Any]:
        """Return the last step's own figures, by stage."""
        return {}

    def storage(self) -> dict[str, Any]:
        """Return the storage of the tables, by stage."""
        return {}

    def settle(self) -> None:  # noqa: B027 most have no such work
        """Wait for work that continues after a step; it is reported, but not part of the step."""

    def close(self) -> None:  # noqa: B027 most have nothing to stop
        """Stop what it started. Its tables stay readable."""

    def path(self, name: str) -> str:
        """Return the path of a table."""
        return str(self.directory / name)

    def described(self, name: str) -> Table:
        """Return a table's columns and keys."""
        return self.workload.tables[name]

    @property
    def last(self) -> str:
        """The last stage's name."""
        return self.workload.stages[-1]
