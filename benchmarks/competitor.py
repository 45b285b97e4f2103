"""What a competitor is: one way to keep a workload's tables, in a directory of its own.

Its job: apply a batch of changes to the source, bring every derived table up to date, get deletes
right, and write a feed of what changed in the last table for whoever reads on.
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
        worker: the id of a process of its own that takes its steps, if it has one.
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
        """What precedes a load or a step and is not part of it.

        Args:
            given: the rows, or the changes, of the source that changes.
        """
        del given  # for most, nothing does

    @abstractmethod
    def load(self, rows: Mapping[str, DataFrame]) -> None:
        """The first load: the rows of each source, in its table's columns."""

    @abstractmethod
    def step(self, changes: DataFrame) -> None:
        """One batch of changes, through all tables."""

    @abstractmethod
    def table(self, name: str) -> DataFrame:
        """The rows of one table now, in the columns of the workload's table."""

    @abstractmethod
    def feed(self) -> DataFrame:
        """What the last step told of the last table's changes; it has the table's columns."""

    def figures(self) -> dict[str, Any]:
        """What the last step said of itself, a stage."""
        return {}

    def storage(self) -> dict[str, Any]:
        """What the tables take up, a stage."""
        return {}

    def settle(self) -> None:  # noqa: B027 most have nothing that goes on
        """Wait for what goes on after a step; not measured with it, but told."""

    def close(self) -> None:  # noqa: B027 most have nothing to end
        """End what it started. Its tables stay readable."""

    def path(self, name: str) -> str:
        """Where a table is."""
        return str(self.directory / name)

    def described(self, name: str) -> Table:
        """A table's columns and keys."""
        return self.workload.tables[name]

    @property
    def last(self) -> str:
        """The last stage's name."""
        return self.workload.stages[-1]
