"""This library as a competitor: incremental, in both table types, and with every stage in full."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import deltaproduce as dp
from benchmarks.competitor import Competitor
from benchmarks.storage import stored
from benchmarks.workload import Workload

TABLE_TYPES: Final = {"ours-cow": "copy_on_write", "ours-mor": "merge_on_read"}


def default_table_type() -> str:
    """Return the default table type of a store."""
    return str(inspect.signature(dp.Store).parameters["table_type"].default)


class Ours(Competitor):
    """This library, with Python producers and the default table type."""

    name = "deltaproduce"
    settings: dict[str, Any] = {}  # noqa: RUF012 never changed

    def __init__(self, spark: SparkSession, directory: Path, workload: Workload) -> None:
        super().__init__(spark, directory, workload)
        self.store = self._open(0)
        self._before = self._version = self.store.head

    def load(self, rows: Mapping[str, DataFrame]) -> None:
        self._update(rows)

    def step(self, changes: DataFrame) -> None:
        self._update({self.workload.source: changes})

    def settle(self) -> None:
        self.store.wait()

    def table(self, name: str) -> DataFrame:
        return self.store.content(name).select(*self.described(name).columns)

    def feed(self) -> DataFrame:
        updates = self.store.updates(self.last)
        return updates if self._published else updates.limit(0)

    def figures(self) -> dict[str, Any]:
        if not self._published:
            return {}
        return {
            name: {key: value for key, value in asdict(found).items() if key != "delta_versions"}
            for name, found in self._version.stages.items()
        }

    def storage(self) -> dict[str, Any]:
        return stored(self.directory, self._version)

    @property
    def _published(self) -> bool:
        return self._version.number > self._before.number

    def _update(self, batch: Mapping[str, DataFrame | pa.Table]) -> None:
        self._before = self._version
        self._version = self.store.update(batch)

    def _open(self, edition: int) -> dp.Store:
        return dp.Store(self.spark, str(self.directory), self._pipeline(edition), **self.settings)

    def _pipeline(self, edition: int) -> dp.Pipeline:
        return self.workload.pipeline(edition)


class OursCopyOnWrite(Ours):
    name = "deltaproduce, copy on write"
    settings = {"table_type": TABLE_TYPES["ours-cow"]}  # noqa: RUF012


class OursMergeOnRead(Ours):
    name = "deltaproduce, merge on read"
    settings = {"table_type": TABLE_TYPES["ours-mor"]}  # noqa: RUF012


class OursFromArrow(Ours):
    """This library, from batches that are Arrow tables: Spark has nothing to do for a small one.

    Spark prepares the batch, which does not count in a step's time.
    """

    name = "deltaproduce, Arrow batches"

    def __init__(self, spark: SparkSession, directory: Path, workload: Workload) -> None:
        super().__init__(spark, directory, workload)
        self._batch = pa.table({})

    def prepare(self, given: DataFrame) -> None:
        self._batch = given.toArrow()

    def load(self, rows: Mapping[str, DataFrame]) -> None:
        if set(rows) != {self.workload.source}:
            raise ValueError("a workload of one source")
        self._update({self.workload.source: self._batch})

    def step(self, changes: DataFrame) -> None:
        del changes  # see `prepare`
        self._update({self.workload.source: self._batch})


class OursWithoutSession(OursFromArrow):
    """This library in a store without a Spark session.

    Spark reads the tables afterwards, which does not count in a step's time.
    """

    name = "deltaproduce, no session"

    def table(self, name: str) -> DataFrame:
        return self._in_spark().content(name).select(*self.described(name).columns)

    def feed(self) -> DataFrame:
        updates = self._in_spark().updates(self.last)
        return updates if self._published else updates.limit(0)

    def close(self) -> None:
        self.store.close()

    def _open(self, edition: int) -> dp.Store:
        return dp.Store(None, str(self.directory), self._pipeline(edition))

    def _in_spark(self) -> dp.Store:
        return dp.Store(self.spark, str(self.directory), self._pipeline(0))


class OursByAggregates(Ours):
    """This library, with aggregates instead of W1's functions where a stage has one row a key."""

    name = "deltaproduce, aggregates"

    def _pipeline(self, edition: int) -> dp.Pipeline:
        del edition  # no function of it is ever edited
        assert self.workload.aggregated is not None  # it only does W1
        return self.workload.aggregated()


class OursBySql(Ours):
    """This library, with W1's stages as SQL views."""

    name = "deltaproduce, SQL views"

    def _pipeline(self, edition: int) -> dp.Pipeline:
        del edition  # it has no functions
        assert self.workload.queried is not None  # it only does W1
        return self.workload.queried()


class OursBySqlWithoutSession(OursWithoutSession):
    """The same in a store without a Spark session, from batches that are Arrow tables."""

    name = "deltaproduce, SQL views, no session"
    _pipeline = OursBySql._pipeline


class OursChecked(OursWithoutSession):
    """This library in a store without a Spark session, with ten checks on W1's stages."""

    name = "deltaproduce, ten checks, no session"

    def _pipeline(self, edition: int) -> dp.Pipeline:
        del edition  # its functions are those of `ours`
        assert self.workload.checked is not None  # it only does W1
        return self.workload.checked()


class OursInFull(Ours):
    """This library, with all stages refreshed in each step: the same functions for all rows.

    The functions count as edited before each step, so the version that takes the batch also
    produces every stage in full: what `Store.refresh` does, in the same version as the batch.
    """

    name = "deltaproduce, all stages in full"

    def __init__(self, spark: SparkSession, directory: Path, workload: Workload) -> None:
        super().__init__(spark, directory, workload)
        self._edition = 0

    def prepare(self, given: DataFrame) -> None:
        del given  # prepares the store, so that opening it does not count
        self._edition += 1
        self.store = self._open(self._edition)
        self._version = self.store.head

    def storage(self) -> dict[str, Any]:
        return {}  # the same as for the others of ours
