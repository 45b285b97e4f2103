"""Stages of several feeders: merged, joined, and both; S10 by example and as a law."""

from collections.abc import Iterator
from typing import Any

import pytest
from comparing import as_frames, assert_same
from forcing import WAYS, Way, forced
from pyspark.sql import SparkSession
from selecting import long
from series import drawn, packed, packed_histories
from several_feeders import several

import deltaproduce as dp
from deltaproduce.storage.stored import Stored
from deltaproduce.testing import Delete, Oracle, Upsert, plain_rows, strategies


@long
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_stages_of_several_feeders_equal_the_oracle(
    spark: SparkSession, location: str, way: Way
) -> None:
    """In a short run `tests/local` has each way that takes no session."""
    single = several()
    exact = strategies.histories(single, min_versions=3, max_versions=3)
    batches = packed_histories(drawn(exact, 8, WAYS.index(way)))
    pipeline = packed(single)
    oracle = Oracle(pipeline)
    with forced(way):
        store = dp.Store(spark, location, pipeline, table_type=way.table_type)
        for batch in batches:
            version = store.update(as_frames(spark, pipeline, batch))
            assert version.number == oracle.update(batch)
            assert_same(store, oracle, pipeline, version.number)


def test_feeders_that_come_later_and_keys_that_live_in_one_of_two(
    spark: SparkSession, location: str
) -> None:
    """A source without rows takes part as nothing; deleted in one and alive in the other stays."""
    pipeline = dp.Pipeline("late")
    for name in ("early", "late"):
        pipeline.source(name, key="k bigint", value="v string")

    @pipeline.producer(dp.merge("early", "late"), key="k bigint", value="vs string")
    def merged(k: int, values: Iterator[str]) -> Iterator[tuple[int, str]]:
        yield k, "".join(values)

    @pipeline.producer("late", "early", key="k bigint", value="found string")
    def joined(k: int, late: Iterator[str], early: Iterator[str]) -> Iterator[tuple[int, str]]:
        yield k, f"{','.join(late)}|{','.join(early)}"

    store, oracle = dp.Store(spark, location, pipeline), Oracle(pipeline)
    history: list[dict[str, list[Any]]] = [
        {"early": [Upsert((1,), ("a",)), Upsert((2,), ("b",)), Upsert((None,), ("n",))]},
        {"late": [Upsert((2,), ("c",)), Upsert((2,), ("d",)), Upsert((3,), ("e",))]},
        {"early": [Delete((2,))], "late": [Upsert((None,), ("m",))]},
        {"late": [Delete((2,)), Delete((3,))], "early": [Upsert((1,), ("a",))]},
    ]
    for batch in history:
        version = store.update(as_frames(spark, pipeline, batch))
        assert version.number == oracle.update(batch)
        assert_same(store, oracle, pipeline, version.number)
    changes = store.updates("merged", 3, ordered=True).select("k", "_change_type", "vs")
    assert plain_rows(changes.collect()) == [(None, "update", "nm"), (2, "update", "cd")]
    gone = store.updates("joined", 4, ordered=True).select("k", "_change_type")
    assert plain_rows(gone.collect()) == [(2, "delete"), (3, "delete")]


def test_the_feeder_that_did_not_change_is_read_by_key(
    spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = dp.Pipeline("by key")
    pipeline.source("left", key="k bigint", value="a bigint")
    pipeline.source("right", key="k bigint", value="b bigint")

    @pipeline.producer("left", "right", key="k bigint", value="a bigint, b bigint")
    def both(k: int, left: Iterator[int], right: Iterator[int]) -> Iterator[Any]:
        yield k, (sum(left), sum(right))

    rows = spark.range(30_000).selectExpr("id AS k", "id AS a", "id AS b")
    given = {"left": rows.drop("b"), "right": rows.drop("a")}
    reads: list[tuple[str, str]] = []

    def noting(name: str) -> Any:
        read = getattr(Stored, name)

        def noted(stored: Stored, *arguments: Any) -> Any:
            own = [column.name for column in stored.columns if not column.name.startswith("_")]
            reads.append((own[-1], name))
            return read(stored, *arguments)

        return noted

    store = dp.Store(spark, location, pipeline)
    store.update(given)
    for name in ("all", "fetched", "of"):
        monkeypatch.setattr(Stored, name, noting(name))
    store.update({"left": spark.sql("SELECT 7L AS k, 1L AS a")})
    assert ("b", "of") in reads
    assert not {("b", "all"), ("b", "fetched")} & set(reads)
    found = store.updates("both").select("k", "a", "b")
    assert plain_rows(found.collect()) == [(7, 1, 7)]


def test_a_join_s_error_names_stage_and_key(spark: SparkSession, location: str) -> None:
    pipeline = dp.Pipeline("failing")
    for name in ("left", "right"):
        pipeline.source(name, key="k bigint", value="v bigint")

    @pipeline.producer("left", "right", key="k bigint", value="v bigint")
    def failing(k: int, left: Iterator[int], right: Iterator[int]) -> Iterator[Any]:
        yield k, next(left) // next(right)

    store = dp.Store(spark, location, pipeline)
    rows = spark.sql("SELECT 5L AS k, 1L AS v")
    with pytest.raises(dp.ProducerError) as caught:
        store.update({"left": rows, "right": rows.selectExpr("k", "0L AS v")})
    assert (caught.value.stage, caught.value.key) == ("failing", 5)
    assert store.head.number == 0
