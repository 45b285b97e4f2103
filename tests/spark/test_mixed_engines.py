"""One store in the hands of both engines in turn: one does all in Spark, one has no session.

Nobody can tell from the tables which way a commit was made, and the protocol holds for both in any
order: fencing, crashes, older versions.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from comparing import as_frames, assert_changes, assert_lineage
from counting import jobs
from crashing import CrashError, batch, drawn, frames, orders
from deltalake import DeltaTable
from local_stores import as_rows, assert_same_here
from pyspark.sql import SparkSession
from series import drawn as examples

from deltaproduce import ConflictError, Limits, Pipeline, Store
from deltaproduce.storage import failpoints
from deltaproduce.testing import Oracle, Upsert, strategies

IN_SPARK = Limits(local_rows=0, small_table_rows=0)
HERE = Limits(small_table_rows=0)


def opened(spark: SparkSession | None, location: str, pipeline: Pipeline) -> Store:
    """The store, all of which is done in Spark, or nothing of which is."""
    return Store(spark, location, pipeline, limits=HERE if spark is None else IN_SPARK)


@pytest.mark.parametrize("number", range(2))
def test_versions_by_both_in_turn(spark: SparkSession, location: str, number: int) -> None:
    (pipeline,) = examples(strategies.pipelines(max_producers=2), 1, number)
    histories = strategies.histories(pipeline, min_versions=4, max_versions=4)
    (history,) = examples(histories, 1, number)
    oracle = Oracle(pipeline)
    for step, changes in enumerate(history, number):
        session = spark if step % 2 else None
        with opened(session, location, pipeline) as store:
            version = store.update(as_frames(session, pipeline, changes))
            assert version.number == oracle.update(changes)
    with opened(None, location, pipeline) as store:
        assert_same_here(store, oracle, pipeline, range(oracle.head + 1))
        assert store.rollback(1).number == oracle.rollback(1)
        assert_same_here(store, oracle, pipeline, [oracle.head])


@pytest.mark.parametrize("first", ["here", "in Spark"])
def test_one_goes_on_after_a_crash_of_the_other(
    spark: SparkSession, location: str, first: str
) -> None:
    one, other = (None, spark) if first == "here" else (spark, None)
    oracle = Oracle(orders())
    for number in range(2):
        opened(one, location, orders()).update(frames(one, drawn(number)))
        oracle.update(drawn(number))
    with failpoints.armed(before_publication(fail)), suppress(CrashError):
        opened(one, location, orders()).update(frames(one, drawn(50)))
    opened(other, location, orders()).update(frames(other, drawn(2)))
    oracle.update(drawn(2))
    assert_same_here(opened(None, location, orders()), oracle, orders(), range(oracle.head + 1))


@pytest.mark.parametrize("slow", ["here", "in Spark"])
def test_of_two_writers_one_gets_a_conflict(spark: SparkSession, location: str, slow: str) -> None:
    """One has committed to all tables, and is about to publish, when the other publishes."""
    one, other = (None, spark) if slow == "here" else (spark, None)
    oracle = Oracle(orders())
    opened(None, location, orders()).update(frames(None, drawn(0)))
    oracle.update(drawn(0))
    overtaking = batch((1, 2, 3))

    def overtake() -> None:
        opened(other, location, orders()).update(frames(other, overtaking))

    with failpoints.armed(before_publication(overtake)), pytest.raises(ConflictError):
        opened(one, location, orders()).update(frames(one, drawn(7)))
    oracle.update(overtaking)
    assert_same_here(opened(None, location, orders()), oracle, orders(), range(oracle.head + 1))
    opened(one, location, orders()).update(frames(one, drawn(8)))
    oracle.update(drawn(8))
    assert_same_here(opened(None, location, orders()), oracle, orders(), [oracle.head])


@pytest.mark.parametrize("number", range(2))
def test_both_say_the_same_of_versions(spark: SparkSession, location: str, number: int) -> None:
    """What changed between two of them, and where a key comes from: rows, columns and types."""
    (pipeline,) = examples(strategies.pipelines(max_producers=2), 1, 10 + number)
    histories = strategies.histories(pipeline, min_versions=3, max_versions=3)
    (history,) = examples(histories, 1, 10 + number)
    oracle = Oracle(pipeline)
    with opened(None, location, pipeline) as store:
        for changes in history:
            store.update(as_frames(None, pipeline, changes))
            oracle.update(changes)
    stage = pipeline.stages[-1]
    keys = [row[: len(stage.schema.key)] for row in oracle.content(stage.name)]
    for session in (None, spark):
        store = opened(session, location, pipeline)
        for since, mode in ((0, "complete"), (1, "net")):
            assert_changes(store, oracle, stage.name, since, None, mode)
        for key in keys[:1]:
            given = key if key[1:] else key[0]
            assert_lineage(store, oracle, pipeline, stage.name, given, oracle.head)


def test_changes_reach_across_another_source_key(spark: SparkSession, location: str) -> None:
    """A stage may be read from other keys than before, and keep its own columns and updates."""
    oracle = Oracle(counts("n bigint"))
    for key, names in (("n bigint", "aab"), ("called string", "cab")):
        batch = {"names": [Upsert((n,), (name,)) for n, name in enumerate(names)]}
        opened(spark, location, counts(key)).update(as_frames(spark, counts(key), batch))
        oracle.update(batch)
    for session in (None, spark):
        store = opened(session, location, counts("called string"))
        assert_changes(store, oracle, "counts", 1, 2, "net")


def counts(key: str) -> Pipeline:
    """How many rows a name has, by way of a stage with some key."""
    pipeline = Pipeline("names")
    names = pipeline.source("names", key="n bigint", value="name string")

    @pipeline.producer(names, key=key, value="name string")
    def between(n: int, values: Iterator[str]) -> Iterator[Any]:
        for name in values:
            yield (n if key == "n bigint" else name), name

    @pipeline.producer(between, key="name string", value="n int")
    def counts(_: Any, values: Iterator[str]) -> Iterator[Any]:
        for name in values:
            yield name, 1

    return pipeline


def test_others_read_what_both_have_written(spark: SparkSession, location: str) -> None:
    for number in range(4):
        session = spark if number % 2 else None
        opened(session, location, orders()).update(frames(session, drawn(number)))
    path = str(Path(location, "by_customer", "updates"))
    columns = ["_version", "_change_type", "customer", "_position", "amount"]
    by = columns[:4]
    in_spark = spark.sql(f"SELECT * FROM delta.`{path}`").select(columns).orderBy(by)
    expected = [tuple(row) for row in in_spark.collect()]
    assert {row[0] for row in expected} == {1, 2, 3, 4}
    by_polars = pl.read_delta(path).select(columns).sort(by, nulls_last=False)
    assert by_polars.rows() == expected
    by_delta_rs = DeltaTable(path).to_pyarrow_table().select(columns)
    assert sorted(tuple(row.values()) for row in by_delta_rs.to_pylist()) == sorted(expected)
    history = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").select("userMetadata").collect()
    assert all(row[0] and '"attempt"' in row[0] for row in history)


def test_a_session_that_has_rows_takes_arrow_without_a_job(
    spark: SparkSession, location: str
) -> None:
    """Nothing of a small version is done in Spark."""
    pipeline = orders()
    store = Store(spark, location, pipeline)
    store.update(as_rows(pipeline, drawn(0)))
    before = jobs(spark)
    for number in range(1, 4):
        store.update(as_rows(pipeline, drawn(number)))
    assert store.head.number == 4
    assert jobs(spark) == before


def before_publication(act: Callable[[], object]) -> Callable[[failpoints.When, str, str], None]:
    """Do something before the first publication that comes."""
    done = []

    def point(when: failpoints.When, name: str, table: str) -> None:
        del table
        if (when, name) == ("before", "publish") and not done:
            done.append(True)
            act()

    return point


def fail() -> None:
    raise CrashError
