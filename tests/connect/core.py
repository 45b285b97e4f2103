"""The core of a store by Spark Connect: the oracle's rows, errors, and what is refused by name.

`test_connect` runs it, in a process of its own.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from comparing import as_snapshots, assert_changes, assert_read
from crashing import batch, drawn, frames, orders, snapshot
from pyspark.sql import SparkSession

from deltaproduce import ConflictError, DefinitionError, Pipeline, ProducerError, Store
from deltaproduce.engines.spark.sessions.remote import is_remote
from deltaproduce.storage import failpoints
from deltaproduce.testing import Oracle, plain_rows

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
