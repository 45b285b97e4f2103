"""The first load of a stage, against a plain Spark job that computes the same content.

Both read the same stored rows of the source, from a copy that nobody has opened. Ours is `refresh`
of one stage without tables, in a store with a loaded source: only the stage's part of a first load,
with its content, key mappings, updates and the version. The plain job writes only content, sorted,
to a Delta table: for W1's first stage by `mapInArrow` with the same Python function, without
grouping, as an order is one row.
"""

from __future__ import annotations

import shutil
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import deltaproduce as dp
from benchmarks import policy, w1
from benchmarks.measures import Processes, Step, measured
from benchmarks.ours import Ours
from benchmarks.runs import Bench, medians, say
from benchmarks.workload import Workload, digest

PLAIN: Final = "plain"

_SCHEMA: Final = (
    "customer_id bigint, _source_order_id bigint, _ordinal bigint, order_id bigint, "
    "amount decimal(12,2)"
)
_ORDER: Final = ("customer_id", "_source_order_id", "_ordinal")

Load = Callable[[Path], DataFrame]
"""Loads the stage into a copy of a store with a loaded source, and returns its content."""


@dataclass(frozen=True, slots=True)
class FirstLoad:
    """One first load and its ways.

    Attributes:
        workload: the workload whose first stage is loaded.
        source_alone: the definition of its source, without stages.
        peers: the ways of ours that take part.
        plain: the name of the plain job.
        job: the plain job; it reads the content of the source in a store's directory, and writes
            there.
    """

    workload: Workload
    source_alone: Callable[[], dp.Pipeline]
    peers: Mapping[str, type[Ours]]
    plain: str
    job: Callable[[SparkSession, Path], DataFrame]

    @property
    def stage(self) -> str:
        """The name of the stage."""
        return self.workload.stages[0]

    def loads(self, spark: SparkSession) -> dict[str, Load]:
        """Return how each one loads."""
        found: dict[str, Load] = {
            name: partial(self._ours, spark, kind) for name, kind in self.peers.items()
        }
        return found | {PLAIN: partial(self.job, spark)}

    def _ours(self, spark: SparkSession, kind: type[Ours], target: Path) -> DataFrame:
        store = dp.Store(spark, str(target), self.workload.pipeline(0), **kind.settings)
        store.refresh(self.stage)
        return store.content(self.stage)


def of_w1(peers: Mapping[str, type[Ours]]) -> FirstLoad:
    """Return the first load of W1's first stage."""
    return FirstLoad(w1.workload(1), _orders_alone, peers, "mapInArrow, content alone", _mapped)


def first_load(bench: Bench, rows: int, what: FirstLoad) -> dict[str, Any]:
    """Load the stage in each way, several times, and compare the results."""
    workload, stage = what.workload, what.stage
    place = bench.work / "first-load"
    names = {name: kind.name for name, kind in what.peers.items()} | {PLAIN: what.plain}
    for name, kind in what.peers.items():
        store = dp.Store(bench.spark, str(place / name), what.source_alone(), **kind.settings)
        store.update(workload.loaded(bench.spark, rows))
        source = store.content(workload.source)
    loads = what.loads(bench.spark)
    loaded_source = {name: place / name for name in what.peers}
    loaded_source[PLAIN] = place / next(iter(what.peers))
    columns = workload.tables[stage].columns
    right = digest(workload.derived(stage, source).select(*columns))
    taken: dict[str, list[Step]] = {name: [] for name in loads}
    wrong: set[str] = set()
    effort = policy.of_first_load(rows)
    for number in range(effort.warm_up + effort.steps):
        for name, load in loads.items():
            target = place / f"{name}-{number}"
            shutil.copytree(loaded_source[name], target)
            loaded: list[DataFrame] = []
            taken[name].append(measured(lambda: loaded.append(load(target)), target, Processes()))  # noqa: B023
            say(f"first load, {rows:,} rows, {names[name]}: {taken[name][-1].seconds:.2f} s")
            if digest(loaded[0].select(*columns)) != right:
                wrong.add(name)
            shutil.rmtree(target)
    shutil.rmtree(place)
    bench.events.read()
    found: dict[str, Any] = {}
    for name, steps in taken.items():
        counted = [bench.events.counted(step) for step in steps[effort.warm_up :]]
        figures = {"failure": "wrong"} if name in wrong else {"median": medians(counted)}
        found[name] = {"name": names[name], **figures}
    return {"rows": rows, "competitors": found}


def _orders_alone() -> dp.Pipeline:
    pipeline = dp.Pipeline("w1")
    pipeline.source("orders", key=w1.ORDERS_KEY, value=w1.ORDERS_VALUE)
    return pipeline


def _mapped(spark: SparkSession, target: Path) -> DataFrame:
    function, delta = w1.by_customer(), spark.read.format("delta")
    orders = delta.load(str(target / "orders" / "content"))

    def produced(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            given = [batch.column(c).to_pylist() for c in ("order_id", "customer_id", "amount")]
            rows = [
                (target_key, order_id, ordinal, *emitted)
                for order_id, *values in zip(*given, strict=True)
                for ordinal, (target_key, emitted) in enumerate(
                    function(order_id, iter([value(*values)]))
                )
            ]
            columns = list(zip(*rows, strict=True)) or [()] * len(schema)
            arrays = [pa.array(c, t) for c, t in zip(columns, schema.types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    value = namedtuple("value", ("customer_id", "amount"))
    types = (pa.int64(), pa.int64(), pa.int64(), pa.int64(), pa.decimal128(12, 2))
    names = ("customer_id", "_source_order_id", "_ordinal", "order_id", "amount")
    schema = pa.schema(list(zip(names, types, strict=True)))
    rows = orders.mapInArrow(produced, _SCHEMA)
    in_order = rows.repartitionByRange(*_ORDER).sortWithinPartitions(*_ORDER)
    in_order.write.format("delta").save(str(target / PLAIN))
    return delta.load(str(target / PLAIN))
