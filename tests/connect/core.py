"""The core of a store by Spark Connect: the oracle's rows, errors, and refusals by name.

`test_connect` runs it in a separate process.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from comparing import as_frames, as_snapshots, assert_changes, assert_read
from crashing import batch, drawn, frames, orders, snapshot
from deltalake import DeltaTable
from forcing import WAYS, Way, forced
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from test_streams import BATCHES, streamed

from deltaproduce import ConflictError, DefinitionError, Pipeline, ProducerError, Store, agg
from deltaproduce.engines.spark.sessions.remote import is_remote
from deltaproduce.model.limits import Limits
from deltaproduce.storage import failpoints
from deltaproduce.testing import Oracle, Upsert, plain_rows

IN_SPARK = ("in Spark, joined", "in Spark, runs")
"""Nothing is brought to the driver, so that Spark joins, compares and runs functions."""
READ = [("orders", "content"), ("by_customer", "content"), ("by_customer", "key_mappings")]


def assert_same(store: Store, oracle: Oracle, version: int) -> None:
    stages = {stage.name: stage for stage in orders().stages}
    tables = [(name, stages[name], table) for name, table in (*READ, ("by_customer", "updates"))]
    assert_read(store, oracle, tables, version)


def test_the_session_is_one_of_connect(spark: SparkSession) -> None:
    assert is_remote(spark)


@pytest.mark.parametrize("place", ["path", "catalog"])
def test_versions_equal_the_oracles(spark: SparkSession, location: str, place: str) -> None:
    """Updates, a load, a rollback and a refresh; content, mappings, updates, changes, old ones."""
    if place == "catalog":
        spark.sql("CREATE SCHEMA connected")
        location = "connected"
    oracle = Oracle(orders())
    store = Store(spark, location, orders())
    assert [step.stage.name for step in store.plan(["orders"])] == ["orders", "by_customer"]
    for number in (1, 2):
        given = drawn(number)
        assert store.update(frames(spark, given)).number == oracle.update(given) == number
        assert_same(store, oracle, number)
    loaded = as_snapshots(spark, orders(), snapshot(3))
    assert store.load(loaded).number == oracle.load(snapshot(3)) == 3
    assert store.rollback(1).number == oracle.rollback(1) == 4
    for number in (3, 4):
        assert_same(store, oracle, number)
    if place == "path":
        assert_changes(store, oracle, "by_customer", 1, 3, "net")
        assert_changes(store, oracle, "by_customer", 0, 4, "complete")
    assert store.verify(recompute=True) == ()
    figures = store.refresh("by_customer").stages["by_customer"]
    assert (figures.mode, figures.rows_added, figures.rows_removed) == ("full", 0, 0)
    found = plain_rows(spark.sql(store.sql("by_customer")).collect())
    assert sorted(found, key=repr) == sorted(plain_rows(oracle.content("by_customer", 4)), key=repr)


def sold() -> Pipeline:
    """Orders by customer, beside the customers' names, and added up."""
    pipeline = orders()
    names = pipeline.source("names", key="customer bigint", value="name string")
    by_customer = pipeline.graph().stage("by_customer")

    @pipeline.producer(
        names, by_customer, key="customer bigint", value="name string, amount bigint"
    )
    def named(
        customer: int, called: Iterator[str], amounts: Iterator[int]
    ) -> Iterator[tuple[int, tuple[str | None, int]]]:
        found = list(called) or [None]
        for amount in amounts:
            for name in found:
                yield customer, (name, amount)

    sums = {"rows": agg.count(), "amount": agg.sum("amount"), "most": agg.max("amount")}
    pipeline.aggregate("by_name", named, key="name", values=sums)
    return pipeline


@pytest.mark.parametrize("way", [way for way in WAYS if way.name in IN_SPARK], ids=lambda w: w.name)
def test_steps_beyond_the_drivers_bound_equal_the_oracles(
    spark: SparkSession, location: str, way: Way
) -> None:
    """Functions of one and of two feeders, an aggregate, and content that is read at a version."""
    pipeline, called = sold(), {"names": [Upsert((n,), (f"c{n}",)) for n in range(3)]}
    oracle = Oracle(pipeline)
    read = [(stage.name, stage, "content") for stage in pipeline.stages]
    with forced(way):
        store = Store(spark, location, pipeline, table_type=way.table_type)
        for number, given in enumerate(({**drawn(1), **called}, drawn(2)), 1):
            version = store.update(as_frames(spark, pipeline, given))
            assert version.number == oracle.update(given) == number
            assert_read(store, oracle, read, number)
        assert_read(store, oracle, read, 1)
        assert_changes(store, oracle, "by_name", 0, 2, "net")
        assert store.verify(recompute=True) == ()
    for log in Path(location).rglob("_delta_log"):  # other readers know the types of all tables
        DeltaTable(log.parent).schema().to_arrow()


def test_more_rows_than_come_to_the_client(spark: SparkSession, location: str) -> None:
    """A load, and an update of each thousandth row: sums are those that are counted by hand."""
    store = Store(spark, location, orders(), table_type="merge_on_read")
    ids = range(Limits().of_cluster(is_remote=True).local_rows + 10_000)

    def given(rows: DataFrame, amount: int) -> dict[str, DataFrame]:
        return {"orders": rows.selectExpr("id", "id % 7 AS customer", f"{amount}L AS amount")}

    store.load(given(spark.range(len(ids)), 2))
    figures = store.update(given(spark.range(0, len(ids), 1000), 50)).stages["by_customer"]
    assert (figures.mode, figures.rows_added) == ("seek", len(ids[::1000]))
    sums = Counter[int]()
    for id in ids:
        sums[id % 7] += 50 if id % 1000 == 0 else 2
    found = store.content("by_customer").groupBy("customer").sum("amount").collect()
    assert dict(map(tuple, found)) == sums


def test_each_micro_batch_of_a_stream_is_one_version(
    spark: SparkSession, location: str, tmp_path: Path
) -> None:
    """The server's worker opens the store; a stream that goes on, and one that begins anew."""
    stream, store, oracle = streamed(spark, location, tmp_path)
    for arriving in ((0, 1), (2,)):
        for number in arriving:
            stream.arrive(number)
            oracle.update(BATCHES[number])
        stream.run(store.stream_writer("orders"))
    assert [version.update_id for version in store.versions()] == [
        f"stream orders: {number}" for number in range(3)
    ]
    assert_same(store, oracle, 3)
    with pytest.raises(StreamingQueryException, match="began anew"):
        stream.run(store.stream_writer("orders"), "another checkpoint")
    assert store.head.number == 3


def test_a_function_that_fails_says_where(spark: SparkSession, location: str) -> None:
    pipeline = Pipeline("failing")
    source = pipeline.source("words", key="id bigint", value="word string")

    @pipeline.producer(source, key="word string", value="id bigint")
    def turned(id: int, words: Iterator[str]) -> Iterator[tuple[str, int]]:
        for word in words:
            if word == "bad":
                raise ValueError("no such word")
            yield word, id

    store = Store(spark, location, pipeline)
    rows: Any = spark.createDataFrame([(1, "good"), (7, "bad")], "id bigint, word string")
    with pytest.raises(ProducerError) as failed:
        store.update({"words": rows})
    assert (failed.value.stage, failed.value.key) == ("turned", 7)
    assert isinstance(failed.value.__cause__, ValueError)
    assert store.head.number == 0


def test_of_two_writers_one_wins(spark: SparkSession, location: str) -> None:
    store, other = (Store(spark, location, orders()) for _ in range(2))
    store.update(frames(spark, batch((1, 2, 3))))
    overtaken = []

    def overtake(when: failpoints.When, name: str, table: str) -> None:
        del table
        if (when, name) == ("before", "publish") and not overtaken:
            overtaken.append(name)
            other.update(frames(spark, batch((2, 2, 4))))

    with failpoints.armed(overtake), pytest.raises(ConflictError):
        store.update(frames(spark, batch((3, 3, 3))))
    assert overtaken
    assert store.head.number == 2
    assert store.content("by_customer").count() == 2
    assert store.update(frames(spark, batch((3, 3, 3)))).number == 3


def test_views_show_the_head(spark: SparkSession, location: str) -> None:
    store = Store(spark, location, orders(), views="shown")
    for amount in (3, 4):
        store.update(frames(spark, batch((1, 2, amount))))
        (row,) = spark.sql("SELECT amount FROM shown.by_customer").collect()
        assert row.amount == amount


def test_what_cannot_work_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    """A client does not know the server's directory."""
    with pytest.raises(DefinitionError, match="relative path"):
        Store(spark, "lake/orders", orders())


def test_a_store_computes_in_its_own_time_zone(spark: SparkSession, location: str) -> None:
    """In a session of the library, as this one has another; its settings stay as they are."""
    pipeline, key = Pipeline("zones"), "spark.sql.session.timeZone"
    given = pipeline.source("orders", key="id bigint", value="at timestamp")
    pipeline.aggregate(
        "by_day", given, key="date(date_trunc('day', at)) AS day", values={"n": agg.count()}
    )
    before = spark.conf.get(key)
    spark.conf.set(key, "Asia/Tokyo")
    try:
        limits = Limits(small_table_rows=0, replaced_percent=900, local_rows=0)
        store = Store(spark, location, pipeline, time_zone="America/New_York", limits=limits)
        rows = spark.range(4).selectExpr("id", "timestamp_seconds(id * 21600) AS at")
        store.update({"orders": rows})
        assert spark.conf.get(key) == "Asia/Tokyo"
        assert store.head.time_zone == "America/New_York"
        found = store.content("by_day").select("day", "n").collect()
        assert {str(row.day): row.n for row in found} == {"1969-12-31": 1, "1970-01-01": 3}
        assert store.verify() == ()
    finally:
        spark.conf.set(key, str(before))
