"""The core of a store on a cluster: the oracle's rows, users' modules, failures and lost machines.

`test_cluster` runs it in a separate process. Most tests force rows through Spark: what the driver
does is the same everywhere.
"""

import gc
import os
import random
import signal
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import object_server
import pytest
from cluster_sessions import FEW_TASKS, Sessions, executors_of
from comparing import as_frames, as_snapshots, assert_changes, assert_same
from crashing import batch, drawn, frames, orders, snapshot
from every_kind import batch as batch_of_every_kind
from every_kind import every_kind
from forcing import WAYS, Way, forced
from local_stores import assert_same_here
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from selecting import chosen, long
from standalone import Cluster, in_object_stores, wait_for
from test_partitioned import sale, shop

from deltaproduce import Limits, Pipeline, ProducerError, Store, agg
from deltaproduce.engines.spark.checkpoints import checkpoint
from deltaproduce.engines.spark.executors.costs import ClusterCosts
from deltaproduce.engines.spark.executors.python_workers import are_as_beside, has_other_machines
from deltaproduce.storage import failpoints
from deltaproduce.testing import Oracle, plain_rows

(JOINED,) = (way for way in WAYS if way.name == "in Spark, joined")
IN_SPARK = Limits(small_table_rows=0, replaced_percent=900, local_rows=0)
"""All rows are Spark's."""


def test_tasks_are_in_processes_of_executors(spark: SparkSession) -> None:
    """In at least two, none of which is this machine's only Java."""

    def parents(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        for _ in batches:
            daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]
            yield pyarrow.RecordBatch.from_pydict({"executor": [int(daemon)]})

    assert has_other_machines(spark)
    found = spark.range(0, 8, 1, 8).mapInArrow(parents, "executor bigint").collect()
    executors = {row.executor for row in found}
    assert len(executors) == 2
    assert os.getpid() not in executors


SETTINGS = {"few tasks": FEW_TASKS, "Spark's own": {}}
"""Sessions with what makes small steps fast, and with nothing but Delta."""


@pytest.mark.parametrize("settings", chosen(SETTINGS, "few tasks"))
@pytest.mark.parametrize("way", chosen(WAYS, JOINED.name), ids=lambda way: way.name)
def test_versions_equal_the_oracles(
    sessions: Sessions, location: str, way: Way, settings: str, long_run: bool
) -> None:
    """A function: updates with deletes, a load, a rollback, a refresh, changes; all verified."""
    spark, oracle = sessions.of(SETTINGS[settings]), Oracle(orders())
    with forced(way):
        store = Store(spark, location, orders(), table_type=way.table_type)
        for number in (1, 2):
            given = drawn(number)
            assert store.update(frames(spark, given)).number == oracle.update(given) == number
            assert_same(store, oracle, orders(), number)
        if not long_run:
            return
        loaded = as_snapshots(spark, orders(), snapshot(3))
        assert store.load(loaded).number == oracle.load(snapshot(3)) == 3
        assert store.rollback(1).number == oracle.rollback(1) == 4
        for number in (3, 4):
            assert_same(store, oracle, orders(), number)
        assert_changes(store, oracle, "by_customer", 0, 4, "complete")
        store.compact()
        assert store.verify(recompute=True) == ()
        store.vacuum(keep_versions=1, unfinished_hours=0)
        assert_same(store, oracle, orders(), 4, in_spark=True)


@long
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("where", ["in Spark", "mixed", "by chance", "where it is sooner"])
def test_stages_of_every_kind_equal_the_oracle(
    sessions: Sessions,
    location: str,
    where: str,
    settings: str,
    user_module: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Functions, joins, merges, queries, views, aggregates, windows, an index; with limits or not.

    An aggregate is of the user's own module, which the executors find where they look for modules.
    """
    spark, squares = sessions.of(SETTINGS[settings]), user_module.Squares()
    pipeline, twin = (every_kind(squares, with_query=query) for query in (True, False))
    oracle = Oracle(twin)
    mixed = Limits(small_table_rows=9, local_rows=6, local_bytes=2_000, local_parts=1, seek_keys=4)
    limits = {"in Spark": IN_SPARK, "mixed": mixed}.get(where, Limits(small_table_rows=0))
    if where == "by chance":
        chance = random.Random(settings)
        monkeypatch.setattr(ClusterCosts, "is_on_driver", lambda *_: chance.random() < 0.5)
    store = Store(spark, location, pipeline, limits=limits)
    for number in (1, 2, 3):
        given = batch_of_every_kind(number)
        version = store.update(as_frames(spark, pipeline, given))
        assert version.number == oracle.update(given) == number
        assert_same(store, oracle, twin, number)
    assert store.verify(recompute=True) == ()


def test_the_plan_and_the_version_say_how_long_both_ways_take(
    spark: SparkSession, location: str
) -> None:
    store = Store(spark, location, orders())
    first = batch((1, 1, 3), (2, 1, 4))
    for given in (first, drawn(2)):
        figures = store.update(frames(spark, given)).stages
        for stage in ("orders", "by_customer"):
            assert 0 < figures[stage].spark_seconds > figures[stage].driver_seconds
            assert figures[stage].as_dict()["spark_seconds"] == figures[stage].spark_seconds
    planned = {step.stage.name: step for step in store.plan(as_frames(None, orders(), first))}
    for stage in ("orders", "by_customer"):
        assert planned[stage].estimate.driver_seconds < planned[stage].estimate.spark_seconds
        assert planned[stage].as_dict()["spark_seconds"] > 0
    with Store(None, location, orders()) as plain:
        assert plain.head.stages["orders"].spark_seconds > 0
        later = plain.update(as_frames(None, orders(), batch((9, 9, 9))))
        assert later.stages["orders"].spark_seconds == 0


@long
def test_tasks_of_partitioned_stages(spark: SparkSession, location: str) -> None:
    store = Store(spark, location, shop(), limits=IN_SPARK)
    given = [sale("31", "Paris", n) for n in range(4)] + [sale("30", "Detroit", 1)]
    store.update({"sales": given})
    assert len(store.run(as_of="2022-03-31").done) == 6
    store.update({"sales": [sale("31", "Paris", 0, 5)]}, as_of="2022-03-31")
    totals = store.content("totals").selectExpr("product_id", "nb_sales").collect()
    assert sorted(map(tuple, totals)) == [(0, 6), (1, 1), (1, 2)]
    assert store.verify() == ()


MODULE = """
    def doubled(_, rows):
        for row in rows:
            yield row.customer, row.amount * 2

    class Squares:
        state = "bigint"
        type = "bigint"

        def zero(self):
            return 0

        def add(self, state, value):
            return state if value is None else state + value * value

        def merge(self, a, b):
            return a + b

        def subtract(self, a, b):
            return a - b

        def result(self, state):
            return state
    """


@pytest.fixture
def module_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a module that the driver finds, and the executors do not; each has a new name."""
    path = tmp_path / "mine" / f"pricing_{random.randrange(1 << 60)}.py"
    path.parent.mkdir()
    path.write_text(textwrap.dedent(MODULE))
    monkeypatch.syspath_prepend(str(path.parent))
    yield path
    sys.modules.pop(path.stem, None)


@pytest.fixture
def user_module(module_file: Path, cluster: Cluster) -> ModuleType:
    """The same module, which is installed where the executors look."""
    (cluster.installed / module_file.name).write_text(module_file.read_text())
    return import_module(module_file.stem)


def priced(module: ModuleType) -> Pipeline:
    """Amounts by customer, doubled by a function of a module, and added up by its aggregate."""
    pipeline = Pipeline("priced")
    source = pipeline.source("orders", key="id bigint", value="customer bigint, amount bigint")
    doubled = pipeline.producer(source, key="customer bigint", value="amount bigint")(
        module.doubled
    )
    squares = agg.own(module.Squares(), "amount")
    pipeline.aggregate("squares", doubled, key="customer", values={"squares": squares})
    return pipeline


@pytest.mark.parametrize("shipped", chosen(["installed", "by addPyFile"], "by addPyFile"))
def test_functions_of_a_users_module_run_where_it_is_shipped(
    spark: SparkSession, location: str, module_file: Path, cluster: Cluster, shipped: str
) -> None:
    """Until then it is an error that says how to ship it, and nothing is written."""
    pipeline = priced(import_module(module_file.stem))
    store = Store(spark, location, pipeline, limits=IN_SPARK)
    given = batch((1, 1, 3), (2, 1, 4), (3, 2, 5))
    with pytest.raises(ProducerError) as caught:
        store.update(as_frames(spark, pipeline, given))
    assert caught.value.stage == "doubled"
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)
    for said in (repr(module_file.stem), "addPyFile", "executors"):
        assert said in str(caught.value)
    assert store.head.number == 0
    if shipped == "installed":
        (cluster.installed / module_file.name).write_text(module_file.read_text())
    else:
        spark.sparkContext.addPyFile(str(module_file))
        assert are_as_beside(spark), "the driver has it too"
    oracle = Oracle(pipeline)
    store.update(as_frames(spark, pipeline, given))
    oracle.update(given)
    assert_same(store, oracle, pipeline, 1)


@long
@pytest.mark.parametrize("of", ["an aggregate", "an import in a function"])
def test_a_missing_module_of_other_code_is_told_too(
    spark: SparkSession, location: str, module_file: Path, of: str
) -> None:
    """Of a user's own aggregate, and of a function that imports when it is called."""
    name, module = module_file.stem, import_module(module_file.stem)
    pipeline = Pipeline("missing")
    source = pipeline.source("orders", key="id bigint", value="customer bigint, amount bigint")
    if of == "an aggregate":
        squares = agg.own(module.Squares(), "amount")
        pipeline.aggregate("wrong", source, key="customer", values={"squares": squares})
    else:

        @pipeline.producer(source, key="customer bigint", value="amount bigint")
        def wrong(_: int, rows: Iterator[Any]) -> Iterator[Any]:
            yield from import_module(name).doubled(_, rows)

    store = Store(spark, location, pipeline, limits=IN_SPARK)
    with pytest.raises(ProducerError) as caught:
        store.update(as_frames(spark, pipeline, batch((1, 1, 3))))
    assert caught.value.stage == "wrong"
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)
    for said in (repr(name), "addPyFile", "executors"):
        assert said in str(caught.value)
    assert store.head.number == 0


def test_a_function_that_fails_says_where(spark: SparkSession, location: str) -> None:
    """The stage and the key, as of a function beside the driver; nothing is written."""
    pipeline = Pipeline("failing")
    source = pipeline.source("words", key="id bigint", value="word string")

    @pipeline.producer(source, key="word string", value="id bigint")
    def turned(id: int, words: Iterator[str]) -> Iterator[tuple[str, int]]:
        for word in words:
            if word == "bad":
                raise ValueError("no such word")
            yield word, id

    store = Store(spark, location, pipeline, limits=IN_SPARK)
    rows: Any = spark.createDataFrame([(1, "good"), (7, "bad")], "id bigint, word string")
    with pytest.raises(ProducerError) as failed:
        store.update({"words": rows})
    assert (failed.value.stage, failed.value.key) == ("turned", 7)
    assert isinstance(failed.value.__cause__, ValueError)
    assert store.head.number == 0


@long
def test_more_rows_than_come_to_the_driver(spark: SparkSession, location: str) -> None:
    """A load, and an update of each thousandth row: sums are those that are counted by hand."""
    limits = Limits(local_rows=20_000, local_parts=1)
    store = Store(spark, location, orders(), limits=limits, table_type="merge_on_read")
    ids = range(100_000)

    def given(rows: Any, amount: int) -> dict[str, Any]:
        return {"orders": rows.selectExpr("id", "id % 7 AS customer", f"{amount}L AS amount")}

    store.load(given(spark.range(len(ids)), 2))
    figures = store.update(given(spark.range(0, len(ids), 1000), 50)).stages["by_customer"]
    assert figures.rows_added == len(ids[::1000])
    sums = Counter[int]()
    for id in ids:
        sums[id % 7] += 50 if id % 1000 == 0 else 2
    found = store.content("by_customer").groupBy("customer").sum("amount").collect()
    assert dict(map(tuple, found)) == sums


def killing_once(marker: str) -> Callable[[], None]:
    """A function that kills the executor whose task it is called in, the first time."""

    def kill() -> None:
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        parent = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]
        os.kill(int(parent), signal.SIGKILL)

    return kill


def copied(kill: Callable[[], None]) -> Pipeline:
    """Orders by customer, by a function that may kill its executor, and the orders of these."""
    pipeline = Pipeline("copied")
    source = pipeline.source("orders", key="id bigint", value="customer bigint, amount bigint")

    @pipeline.producer(source, key="customer bigint", value="amount bigint")
    def by_customer(_: int, rows: Iterator[Any]) -> Iterator[tuple[int, int]]:
        for row in rows:
            yield row.customer, row.amount

    @pipeline.producer(by_customer, key="customer bigint", value="total bigint")
    def totals(customer: int, amounts: Iterator[int]) -> Iterator[tuple[int, int]]:
        if customer != -1:  # the oracle has no executor
            kill()
        yield customer, sum(amounts)

    return pipeline


@long
def test_a_version_outlives_an_executor(spark: SparkSession, location: str, tmp_path: Path) -> None:
    """It dies in the second stage; rows that an earlier job has computed die with it."""
    pipeline = copied(killing_once(str(tmp_path / "killed")))
    oracle = Oracle(copied(lambda: None))
    store = Store(spark, location, pipeline, limits=IN_SPARK)
    for number in (1, 2):
        given = drawn(number)
        assert store.update(as_frames(spark, pipeline, given)).number == oracle.update(given)
        assert_same(store, oracle, pipeline, number)
    assert (tmp_path / "killed").exists()
    assert store.verify(recompute=True) == ()


@long
@pytest.mark.parametrize("effect", ["commit", "publish"])
def test_a_version_outlives_a_worker_that_is_killed(
    spark: SparkSession, location: str, cluster: Cluster, effect: str
) -> None:
    """When it begins to write, and at its end; another machine comes later."""
    pipeline, killed = copied(lambda: None), []
    oracle, store = Oracle(pipeline), Store(spark, location, pipeline, limits=IN_SPARK)
    first = drawn(1)
    store.update(as_frames(spark, pipeline, first))
    oracle.update(first)

    def kill(when: failpoints.When, name: str, table: str) -> None:
        del table
        if (when, name) == ("before", effect) and not killed:
            killed.append(name)
            cluster.kill_worker()
            wait_for(lambda: executors_of(spark) < 2, "executor fewer")

    try:
        with failpoints.armed(kill):
            second = drawn(2)
            version = store.update(as_frames(spark, pipeline, second))
        assert killed
        assert version.number == oracle.update(second) == 2
        assert_same(store, oracle, pipeline, 2)
    finally:
        if killed:
            cluster.start_worker()
    third = drawn(3)
    assert store.update(as_frames(spark, pipeline, third)).number == oracle.update(third)
    assert_same(store, oracle, pipeline, 3)
    assert store.verify(recompute=True) == ()


SPECULATING = {
    **FEW_TASKS,
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "100ms",
}


def drawn_in_tasks(place: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A task's function, whose rows differ in each attempt; two of the second task end together."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import secrets

        import pyarrow
        from pyspark import TaskContext

        rows = sum(len(batch) for batch in batches)
        yield pyarrow.RecordBatch.from_pydict({"drawn": [secrets.token_hex(8)] * rows})
        context = TaskContext.get()
        if context is not None and context.partitionId() == 1:
            Path(place, f"attempt-{context.taskAttemptId()}").touch()
            end = time.monotonic() + 60
            while len(list(Path(place).iterdir())) < 2 and time.monotonic() < end:
                time.sleep(0.001)

    return run


@long
def test_rows_are_of_one_attempt_when_tasks_are_attempted_twice(
    sessions: Sessions, tmp_path: Path
) -> None:
    """Whoever reads what a function has returned finds the same rows, in whichever executor."""
    spark, place = sessions.of(SPECULATING), tmp_path / "attempts"
    place.mkdir()
    rows = spark.range(0, 20, 1, 2).mapInArrow(drawn_in_tasks(str(place)), "drawn string")
    computed, counts = checkpoint(rows, {"rows": f.count(f.lit(1))}, stage="drawn")
    assert len(list(place.iterdir())) >= 2, "no task was attempted twice"
    read = {tuple(sorted(row.drawn for row in computed.collect())) for _ in range(20)}
    assert len(read) == 1
    assert counts == {"rows": 20}


DYNAMIC = {
    **FEW_TASKS,
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
    "spark.dynamicAllocation.shuffleTracking.timeout": "1s",
}


@long
def test_executors_that_come_and_go(sessions: Sessions, location: str) -> None:
    """In the middle of a version those that hold its rows stay; without rows to hold all go."""
    spark, pipeline = sessions.of(DYNAMIC, executors=0), copied(lambda: None)
    oracle, store = Oracle(pipeline), Store(spark, location, pipeline, limits=IN_SPARK)
    rested = []

    def rest(when: failpoints.When, name: str, table: str) -> None:
        del table
        if (when, name) == ("before", "commit") and len(rested) < store.head.number + 1:
            rested.append(name)
            time.sleep(3)

    for number in (1, 2):
        given = drawn(number)
        with failpoints.armed(rest):
            version = store.update(as_frames(spark, pipeline, given))
        assert version.number == oracle.update(given) == number
        assert_same(store, oracle, pipeline, number)
    assert len(rested) == 2

    def are_gone() -> bool:
        gc.collect()
        spark._jvm.System.gc()  # computed rows go with the objects of Java that name them
        return executors_of(spark) == 0

    wait_for(are_gone, "end of all executors")
    third = drawn(3)
    assert store.update(as_frames(spark, pipeline, third)).number == oracle.update(third)
    assert_same(store, oracle, pipeline, 3)


@long
def test_a_store_in_an_object_store(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors and the driver read and write by S3's protocol; a store without Spark reads it."""
    with object_server.served() as address:
        for name, value in object_server.variables(address).items():
            monkeypatch.setenv(name, value)
        object_server.opened(address).create_dir("lake")
        spark = sessions.of({**FEW_TASKS, **in_object_stores(address)})
        pipeline = copied(lambda: None)
        oracle, store = Oracle(pipeline), Store(spark, "s3a://lake/shop", pipeline, limits=IN_SPARK)
        for number in (1, 2):
            given = drawn(number)
            assert store.update(as_frames(spark, pipeline, given)).number == oracle.update(given)
        found = store.content("totals", ordered=True).collect()
        assert plain_rows(found) == plain_rows(oracle.content("totals", 2))
        plain = Store(None, "s3a://lake/shop", pipeline)
        assert_same_here(plain, oracle, pipeline, (1, 2))
        assert plain.verify(recompute=True) == ()
