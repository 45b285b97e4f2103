"""Micro-batches of a stream are versions, each exactly once, however the query ends."""

from pathlib import Path
from typing import Any

import pytest
from comparing import assert_same
from crashing import CrashAt, batch, frames, orders
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from deltaproduce import NotFoundError, Pipeline, Store
from deltaproduce.storage import failpoints
from deltaproduce.testing import Oracle

BATCHES = [
    batch((1, 1, 10), (2, 1, 20)),
    batch((2, 2, 20), (3, 2, 30)),
    batch((1,), (4, 1, 40)),
]


class QueryEndedError(Exception):
    """What ends a query; Java is told of exceptions only."""


def end() -> None:
    raise QueryEndedError


class Stream:
    """Changes that arrive in a directory, one file a batch, and the query that takes them."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self.spark = spark
        self.place = place

    def arrive(self, number: int) -> None:
        (rows,) = frames(self.spark, BATCHES[number]).values()
        rows.coalesce(1).write.mode("append").parquet(str(self.place / "arrived"))  # type: ignore[attr-defined]

    def run(self, writer: Any, checkpoint: str = "checkpoint") -> None:
        """Take all that has arrived, one file at a time."""
        columns = "id bigint, customer bigint, amount bigint, _change_type string"
        arrived = self.spark.readStream.schema(columns).option("maxFilesPerTrigger", 1)
        query = (
            arrived.parquet(str(self.place / "arrived"))
            .writeStream.foreachBatch(writer)
            .option("checkpointLocation", str(self.place / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()


def streamed(spark: SparkSession, location: str, tmp_path: Path) -> tuple[Stream, Store, Oracle]:
    """A stream of orders, the store that takes it, and the model of the store."""
    return Stream(spark, tmp_path), Store(spark, location, orders()), Oracle(orders())


def test_each_micro_batch_is_one_version(
    spark: SparkSession, location: str, tmp_path: Path, long_run: bool
) -> None:
    """The query is ended before some effects of each batch, and goes on from its checkpoint."""
    stream, store, oracle = streamed(spark, location, tmp_path)
    crashes = 0
    for number, changes in enumerate(BATCHES):
        stream.arrive(number)
        for point in range(1, 30, 5 if long_run else 9):  # each time it gets further
            try:
                with failpoints.armed(CrashAt(point, end)):
                    stream.run(store.stream_writer("orders"))
            except StreamingQueryException:
                crashes += 1
            else:
                break
        else:
            pytest.fail("it never gets to the end of the batch")
        assert oracle.update(changes) == number + 1
        stream.run(store.stream_writer("orders"))  # there is nothing new
        assert store.head.number == number + 1
        for version in range(number + 2):
            assert_same(store, oracle, orders(), version)
    assert crashes >= len(BATCHES)


def expecting(most: int) -> Pipeline:
    """Orders, of which at most so many are of more than 20."""
    pipeline = orders()
    pipeline.check("few_large", "SELECT id FROM orders WHERE amount > 20", at_most=most)
    return pipeline


def test_a_micro_batch_that_breaks_a_check_ends_the_query(
    spark: SparkSession, location: str, tmp_path: Path
) -> None:
    """Nothing of it is published, by a second attempt neither; once the check allows it, it is."""
    stream, oracle = Stream(spark, tmp_path), Oracle(orders())
    strict = Store(spark, location, expecting(1))
    for changes in BATCHES[:2]:  # the second has one order of 30
        stream.arrive(oracle.update(changes) - 1)
        stream.run(strict.stream_writer("orders"))
    stream.arrive(2)  # the third has another, of 40
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="few_large"):
            stream.run(strict.stream_writer("orders"))
        assert strict.head.number == 2
        assert len(strict.update_ids()) == 2
    lenient = Store(spark, location, expecting(2))
    stream.run(lenient.stream_writer("orders"))
    assert oracle.update(BATCHES[2]) == lenient.head.number == 3
    for version in range(4):
        assert_same(lenient, oracle, orders(), version)
    assert [check.rows for check in lenient.check()] == [2]


def test_a_batch_that_spark_forgot_is_not_doubled(
    spark: SparkSession, location: str, tmp_path: Path
) -> None:
    stream, store = Stream(spark, tmp_path), Store(spark, location, orders())
    writer = store.stream_writer("orders")

    def forgotten(changes: Any, number: int) -> None:
        writer(changes, number)
        raise QueryEndedError

    stream.arrive(0)
    with pytest.raises(StreamingQueryException):
        stream.run(forgotten)
    assert store.head.number == 1
    stream.run(store.stream_writer("orders"))
    assert store.head.number == 1
    stream.arrive(1)
    stream.run(writer)
    assert store.head.number == 2


def test_a_stream_that_begins_anew_needs_another_name(
    spark: SparkSession, location: str, tmp_path: Path
) -> None:
    stream, store = Stream(spark, tmp_path), Store(spark, location, orders())
    for number in (0, 1):
        stream.arrive(number)
        stream.run(store.stream_writer("orders"))
    with pytest.raises(StreamingQueryException, match="began anew"):
        stream.run(store.stream_writer("orders"), "another checkpoint")
    assert store.head.number == 2
    stream.run(store.stream_writer("orders", stream="second try"), "one more checkpoint")
    assert [version.update_id for version in store.versions()][2:] == [
        "stream second try: 0",
        "stream second try: 1",
    ]
    with pytest.raises(NotFoundError):
        store.stream_writer("by_customer")
