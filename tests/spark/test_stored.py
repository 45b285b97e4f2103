"""Content stored by partitions, with a session: written by both engines, and read by Spark.

`tests/local/test_stored.py` has the law on random pipelines, without a session.
"""

from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from comparing import as_frames, assert_same
from forcing import WAYS, Way, forced
from pyspark.sql import DataFrame, SparkSession
from selecting import chosen, long

import deltaproduce as dp
from deltaproduce.engines.local.delta import writes
from deltaproduce.testing import Change, Delete, Oracle, Upsert

SOME = ("small tables", "replaced", "in Spark, replaced", "in Spark, runs", "mixed")
STORED = {"partition": "day, kind, id % 3 AS bucket", "order": "n desc", "compression": "zstd"}
KINDS = ("a", "ä %41=", None)


def site(stored: dict[str, str] | None, of_kinds: dict[str, str] | None = None) -> dp.Pipeline:
    pipeline = dp.Pipeline("site")
    columns = {"key": "id bigint", "value": "day date, kind string, n bigint"}
    events = pipeline.source("events", **columns, stored=stored)
    columns = {"key": "kind string", "value": "id bigint, n bigint"}

    @pipeline.producer(events, **columns, stored=of_kinds)
    def by_kind(number: int, values: Iterator[Any]) -> Iterator[Any]:  # here for Spark's workers
        for value in values:
            yield value.kind, (number, value.n)

    return pipeline


def row(number: int, n: int) -> Change:
    return Upsert((number,), (date(2026, 1, 1 + number % 3), KINDS[number % 3], n))


BATCHES: list[list[Change]] = [
    [row(n, n % 5) for n in range(24)],
    [row(3, 9), Delete((4,)), Upsert((5,), (None, "b", 7)), row(30, 1)],
    [row(3, 9), row(6, 8), Delete((30,))],
]


def partitions(spark: SparkSession, location: str) -> list[str]:
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{location}`").collect()[0]
    return list(detail.partitionColumns)


def as_tuples(rows: Any) -> list[tuple[Any, ...]]:
    assert isinstance(rows, DataFrame)
    return sorted(map(tuple, rows.collect()), key=repr)


@long
@pytest.mark.parametrize("way", [way for way in WAYS if way.name in SOME], ids=lambda way: way.name)
def test_rows_are_the_same_however_they_are_stored(
    spark: SparkSession, location: str, way: Way
) -> None:
    """Stored by partitions and sorted, then otherwise, then plainly; and pruned by Spark.

    `tests/local` has the law in each run, and `test_described` what Spark reads of partitions.
    """
    definitions = [site(STORED, {"order": "n"}), site(STORED), site(None, {"partition": "kind"})]
    oracle = Oracle(definitions[0])
    with forced(way):
        for number, (pipeline, batch) in enumerate(zip(definitions, BATCHES, strict=True)):
            with dp.Store(spark, location, pipeline, table_type=way.table_type) as store:
                given = as_frames(spark, pipeline, {"events": batch})
                assert store.update(given).number == oracle.update({"events": batch})
                assert_same(store, oracle, pipeline, store.head.number, in_spark=number == 1)
                found = store.dataset("events")
                by = [] if number == 2 else ["day", "kind", "bucket"]
                assert partitions(spark, found.location) == by
                content = as_tuples(store.content("events"))
                assert as_tuples(found.read()) == content
                if number == 1:
                    part = found.partition(kind="ä %41=", bucket=1)
                    wanted = [one for one in content if one[2] == "ä %41=" and one[0] % 3 == 1]
                    assert as_tuples(part.read("n < 100")) == wanted != []
                    nothing = found.partition(kind=None)
                    assert as_tuples(nothing.read()) == [x for x in content if x[2] is None]
                    if way.table_type != "copy_on_write":  # which may mark rows as deleted
                        assert {*part.files()} <= {*found.files()}
        with dp.Store(spark, location, definitions[2], table_type=way.table_type) as store:
            assert store.verify() == ()
            assert store.rollback(1).number == oracle.rollback(1)
            assert_same(store, oracle, definitions[2], 4)
            store.compact()
            store.vacuum(keep_versions=1, unfinished_hours=0)
            assert_same(store, oracle, definitions[2], 4)
            assert store.verify() == ()


@pytest.mark.parametrize("who", chosen(("delta-rs", "Spark", "Spark, in a catalog"), "Spark"))
def test_other_partitions_keep_their_files(
    spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    """Whoever commits: in Spark, Delta removes the files of the partitions of a predicate.

    `tests/local` has delta-rs in each run.
    """
    pipeline, written = site(STORED), writes.written
    if who == "Spark":
        monkeypatch.setattr(
            writes,
            "written",
            lambda at, write, *x, **y: (
                written(at, write, *x, **y) if write.within is None else None
            ),
        )
    if who == "Spark, in a catalog":
        location = "parted_content"
        spark.sql(f"CREATE SCHEMA {location}")
    goes: list[Change] = [Delete((n,)) for n in range(1, 24, 3)]
    batches = BATCHES[0], [row(3, 9), Delete((6,))], goes
    expected = {n: n % 5 for n in range(24)}, {3: 9, 6: None}, dict.fromkeys(range(1, 24, 3))
    rows: dict[int, int | None] = {}
    files = list[set[str]]()
    with dp.Store(spark, location, pipeline) as store:
        for batch, changed in zip(batches, expected, strict=True):
            store.update(as_frames(spark, pipeline, {"events": batch}))
            rows = {n: value for n, value in {**rows, **changed}.items() if value is not None}
            content = as_tuples(store.content("events"))
            assert {one[0]: one[3] for one in content} == rows
            assert as_tuples(store.dataset("events").read()) == content
            files.append({*store.dataset("events").files()})
        assert [len(one) for one in files] == [3, 3, 2]
        assert len(files[0] & files[1]) == 2
        assert files[2] < files[1]
    if who == "Spark, in a catalog":
        spark.sql(f"DROP SCHEMA {location} CASCADE")


def test_rows_of_no_partition_are_refused_in_spark(spark: SparkSession, location: str) -> None:
    pipeline = site({"partition": "kind"})
    (in_spark,) = (way for way in WAYS if way.name == "in Spark, runs")
    with forced(in_spark), dp.Store(spark, location, pipeline) as store:
        batch = [*BATCHES[0], Upsert((99,), (None, "", 1))]
        with pytest.raises(dp.InvalidChangesError) as told:
            store.update(as_frames(spark, pipeline, {"events": batch}))
        assert (told.value.column, told.value.keys) == ("kind", (99,))
        assert store.head.number == 0
