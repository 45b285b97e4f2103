"""Vacuum: old versions go with their files, and concurrent readers and writers are not harmed."""

import os
import random
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from comparing import as_frames, assert_no_orphans, assert_same, on_disk
from crashing import batch, built, drawn, frames, orders
from forcing import WAYS, Way, forced
from local_stores import assert_same_here
from pyspark.sql import SparkSession
from selecting import long
from swapping import swap

import deltaproduce as dp
from deltaproduce import ConflictError, InvalidArgumentError, NotFoundError, Pipeline, Store
from deltaproduce.engines.delta.tables import KEPT
from deltaproduce.storage import failpoints
from deltaproduce.testing import Change, Delete, Oracle, Upsert, plain_rows

REPLACED, RUNS, FOLDED = (
    next(way for way in WAYS if way.name == name)
    for name in ("replaced", "runs", "runs, often folded")
)
WHOLE = Way("written whole", "copy_on_write", {})


def update(spark: SparkSession, store: Store, oracle: Oracle, number: int) -> None:
    assert store.update(frames(None, drawn(number))).number == oracle.update(drawn(number))


def assert_kept(
    store: Store, oracle: Oracle, pipeline: Pipeline, kept: range, *, in_spark: bool = False
) -> None:
    """These versions are there, equal to the oracle's, and no others."""
    assert [version.number for version in store.versions()] == [*kept]
    for number in kept:
        assert_same(store, oracle, pipeline, number, in_spark=in_spark)
    with pytest.raises(NotFoundError):
        store.content(pipeline.stages[0].name, version=kept[0] - 1)


def reading(theirs: str) -> Pipeline:
    """Orders, and beside them a source that is read where it is."""
    pipeline = orders()
    source = pipeline.delta_source("theirs", table=theirs, key="k bigint", value="n bigint")

    @pipeline.producer(source, key="n bigint", value="k bigint")
    def turned(k: int, values: Iterator[int]) -> Iterator[tuple[int, int]]:
        for n in values:
            yield n, k

    return pipeline


def planted(table: Path) -> tuple[Path, Path]:
    """Two files that nobody has committed, of now and of two days ago."""
    some = next(path for path in table.glob("*.parquet"))
    young, old = table / "part-young.parquet", table / "part-old.parquet"
    for path in (young, old):
        shutil.copy(some, path)
    two_days_ago = time.time() - 2 * 24 * 3600
    os.utime(old, (two_days_ago, two_days_ago))
    return young, old


def test_what_goes_and_what_stays(spark: SparkSession, tmp_path: Path) -> None:
    """In one store, in short, what the tests below say at length."""
    theirs, location = str(tmp_path / "theirs"), str(tmp_path / "store")
    spark.range(3).selectExpr("id AS k", "id AS n").write.format("delta").save(theirs)
    spark.sql(f"DELETE FROM delta.`{theirs}` WHERE k = 1")  # leaves a file that no version has
    pipeline, oracle, before = orders(), Oracle(orders()), on_disk(theirs)
    pipeline.delta_source("theirs", table=theirs, key="k bigint", value="n bigint")
    with forced(RUNS):
        store = Store(spark, location, pipeline)
        for number in range(3):
            store.update(frames(None, drawn(number)), f"id {number}")
            oracle.update(drawn(number), f"id {number}")
        reader = Store(spark, location, pipeline)
        begun = reader.content("by_customer", 3, ordered=True)
        young, old = planted(Path(location, "by_customer", "runs"))
        assert store.vacuum(keep_versions=2).versions == (1,)
        assert (young.exists(), old.exists()) == (True, False)
        assert plain_rows(begun.collect()) == plain_rows(oracle.content("by_customer", 3))
        assert_kept(reader, oracle, orders(), range(2, 4))
        opened = Store(spark, location, pipeline)
        again = opened.update(frames(spark, batch((1, 1, 1))), "id 0")
        assert (again.number, again.stages) == (1, {})
        update(spark, opened, oracle, 7)
        opened.vacuum(keep_versions=1, unfinished_hours=0)
        assert not young.exists()
        assert on_disk(theirs) == before
        assert_kept(opened, oracle, orders(), range(4, 5))
        assert opened.content("theirs").count() == 2


@long
@pytest.mark.parametrize("way", [FOLDED, WHOLE], ids=lambda way: way.name)
def test_kept_versions_are_as_before_and_others_are_gone(
    spark: SparkSession, location: str, way: Way
) -> None:
    oracle, chance = Oracle(orders()), random.Random(7)
    with forced(way):
        store = Store(spark, location, orders(), table_type=way.table_type)
        for number in range(7):
            if number in (3, 5):
                store.rollback(oracle.head - 1)
                oracle.rollback(oracle.head - 1)
            update(spark, store, oracle, number)
            if chance.random() < 0.3:
                store.compact()
        first = oracle.head - 2
        done = store.vacuum(keep_versions=3, unfinished_hours=0)
        assert done.versions == tuple(range(1, first))
        assert done.files
        assert done.bytes
        for opened in (store, Store(spark, location, orders(), table_type=way.table_type)):
            assert_kept(opened, oracle, orders(), range(first, oracle.head + 1))
        updates = spark.read.format("delta").load(f"{location}/by_customer/updates")
        assert updates.where(f"_version < {first}").isEmpty()
        with pytest.raises(NotFoundError):
            store.changes("by_customer", first - 1)
        assert store.changes("by_customer", first).count()

        update(spark, store, oracle, 20)
        store.rollback(first)
        oracle.rollback(first)
        for _ in range(2):  # to be rid of what was read before the first
            store.vacuum(keep_versions=2, unfinished_hours=0)
        assert_kept(store, oracle, orders(), range(oracle.head - 1, oracle.head + 1))
        assert_no_orphans(store)
        update(spark, store, oracle, 30)
        assert_kept(store, oracle, orders(), range(oracle.head - 2, oracle.head + 1))


@long
def test_spark_reads_on_when_logs_are_shorter(
    spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also tables that it had read before; history and a vacuum of Delta's own work."""
    monkeypatch.setitem(KEPT, "delta.checkpointInterval", "3")
    oracle, table = built(None, location, 7), f"{location}/by_customer/content"
    first = spark.read.format("delta").load(table)
    assert first.count() == len(oracle.content("by_customer", 7))
    store = Store(spark, location, orders())
    store.vacuum(keep_versions=2, unfinished_hours=0)
    names = {path.name for path in Path(table, "_delta_log").iterdir()}
    assert {f"{0:020}.json", f"{5:020}.json"} & names == {f"{5:020}.json"}
    assert first.count() == len(oracle.content("by_customer", 7))
    versions = store.versions()
    assert [version.number for version in versions] == [6, 7]
    for version in versions:
        pinned = version.stages["by_customer"].delta_versions["content"]
        rows = spark.read.format("delta").option("versionAsOf", pinned).load(table)
        assert rows.count() == len(oracle.content("by_customer", version.number))
    commits = [name for name in names if name.endswith(".json")]
    assert spark.sql(f"DESCRIBE HISTORY delta.`{table}`").count() == len(commits)
    spark.sql(f"VACUUM delta.`{table}`")
    with forced(RUNS):
        update(spark, store, oracle, 8)
        store.rollback(6)
        oracle.rollback(6)
    assert_same_here(Store(None, location, orders()), oracle, orders(), range(6, 10))


@long
def test_only_the_newest_version_is_kept(spark: SparkSession, location: str) -> None:
    """What is left is one file for each table, and no vector of deleted rows."""
    oracle, store = Oracle(orders()), Store(spark, location, orders(), table_type="copy_on_write")
    with forced(REPLACED):
        for number in range(4):
            update(spark, store, oracle, number)
        commits = Path(location, "by_customer/content/_delta_log").glob("*.json")
        assert any('"deletionVector":{' in commit.read_text() for commit in commits)
        for number in (3, 2):
            store.rollback(number)
            oracle.rollback(number)
        for _ in range(2):
            store.vacuum(keep_versions=1, unfinished_hours=0)
        vectors = {name for name in on_disk(location) if name.endswith(".bin")}
        pinned = store.head.stages["by_customer"].delta_versions["content"]
        reader = spark.read.format("delta").option("versionAsOf", pinned)
        content = reader.load(f"{location}/by_customer/content")
        assert len(vectors) <= 3 * len(content.inputFiles())
        assert_kept(store, oracle, orders(), range(oracle.head, oracle.head + 1))


@long
def test_who_has_begun_to_read_can_go_on(spark: SparkSession, location: str) -> None:
    oracle, store = Oracle(orders()), Store(spark, location, orders())
    with forced(FOLDED):
        for number in range(6):
            update(spark, store, oracle, number)
        reader, read = Store(spark, location, orders()), []
        for number in (5, 6):
            for table in ("content", "key_mappings", "updates"):
                expected = getattr(oracle, table)("by_customer", number)
                read.append((getattr(reader, table)("by_customer", number, ordered=True), expected))
        read.append((reader.changes("by_customer", 5), oracle.changes("by_customer", 5, 6, "net")))
        store.vacuum(keep_versions=2, unfinished_hours=0)
        for frame, expected in read:
            assert frame.count() == len(expected)
        assert_kept(reader, oracle, orders(), range(5, 7))


@long
def test_a_rollback_to_a_version_that_goes_meanwhile(spark: SparkSession, location: str) -> None:
    """It conflicts: its tables would be without files. `tests/local` has it in each run."""
    oracle, store, other = Oracle(orders()), *(Store(spark, location, orders()) for _ in range(2))
    with forced(RUNS):
        for number in range(4):
            update(spark, store, oracle, number)

        def vacuum(when: failpoints.When, name: str, table: str) -> None:
            if (when, name) == ("before", "publish") and len(other.versions()) > 1:
                other.vacuum(keep_versions=1, unfinished_hours=0)

        with failpoints.armed(vacuum), pytest.raises(ConflictError):
            store.rollback(1)
        assert_kept(store, oracle, orders(), range(4, 5))
        update(spark, store, oracle, 9)
        assert_kept(other, oracle, orders(), range(4, 6))


@long
@pytest.mark.parametrize("moment", ["commit", "publish"])
def test_an_update_that_is_under_way(spark: SparkSession, location: str, moment: str) -> None:
    """What it has written stays, and it is tried again behind the vacuum."""
    oracle, store, other = Oracle(orders()), *(Store(spark, location, orders()) for _ in range(2))
    for number in range(4):
        update(spark, store, oracle, number)
    vacuumed: list[dp.Vacuumed] = []

    def vacuum(when: failpoints.When, name: str, table: str) -> None:
        if (when, name) == ("before", moment) and not vacuumed:
            vacuumed.append(dp.Vacuumed((), (), 0, 0))
            vacuumed.append(other.vacuum(keep_versions=2, unfinished_hours=0))

    with failpoints.armed(vacuum):
        store.update(frames(spark, drawn(7)), "seven", on_conflict="retry")
    oracle.update(drawn(7), "seven")
    assert vacuumed[-1].versions == (1, 2)
    assert_kept(store, oracle, orders(), range(3, 6))


@long
def test_a_vacuum_that_is_overtaken(spark: SparkSession, location: str) -> None:
    oracle, store, other = Oracle(orders()), *(Store(spark, location, orders()) for _ in range(2))
    for number in range(4):
        update(spark, store, oracle, number)

    def overtake(when: failpoints.When, name: str, table: str) -> None:
        if (when, name) == ("before", wanted[0]):
            wanted[0] = ""
            update(spark, other, oracle, 10 + oracle.head)

    for moment in ("drop versions", "commit"):
        wanted = [moment]
        with failpoints.armed(overtake), pytest.raises(ConflictError):
            store.vacuum(keep_versions=1)
        assert [version.number for version in store.versions()] == [*range(1, oracle.head + 1)]
        assert_same(store, oracle, orders(), oracle.head)
    wanted = ["drop versions"]
    store = Store(spark, location, orders(), on_conflict="retry")
    with failpoints.armed(overtake):
        store.vacuum(keep_versions=1)
    assert_kept(store, oracle, orders(), range(oracle.head, oracle.head + 1))


@long
def test_an_update_that_was_cut_off_is_carried_on_behind_a_vacuum(
    spark: SparkSession, location: str
) -> None:
    """Its commits are on tables that the vacuum has not touched, or has set back."""
    oracle, store = Oracle(orders()), Store(spark, location, orders())
    for number in range(4):
        update(spark, store, oracle, number)

    def crash(when: failpoints.When, name: str, table: str) -> None:
        if (when, name) == ("before", "publish"):
            raise RuntimeError

    with failpoints.armed(crash), pytest.raises(RuntimeError):
        store.update(frames(spark, drawn(8)), "eight")
    Store(spark, location, orders()).vacuum(keep_versions=2, unfinished_hours=0)
    store.update(frames(spark, drawn(8)), "eight")
    oracle.update(drawn(8), "eight")
    assert_kept(store, oracle, orders(), range(3, 6))


@long
def test_update_ids_outlive_their_versions(spark: SparkSession, location: str) -> None:
    oracle, store = Oracle(orders()), Store(spark, location, orders())
    for number in range(4):
        store.update(frames(None, drawn(number)), f"id {number}")
        oracle.update(drawn(number), f"id {number}")
    for kept in (2, 1):
        store.vacuum(keep_versions=kept)
    for opened in (store, Store(spark, location, orders())):
        assert opened.update_ids() == [f"id {number}" for number in range(4)]
        found = opened.update(frames(spark, batch((1, 1, 1))), "id 0")
        assert (found.number, found.update_id, found.stages) == (1, "id 0", {})
        assert_kept(opened, oracle, orders(), range(4, 5))
    write = store.stream_writer("orders", stream="s")
    write(frames(spark, drawn(5))["orders"], 7)
    oracle.update(drawn(5), "stream s: 7")
    update(spark, store, oracle, 6)
    store.vacuum(keep_versions=1)
    write(frames(spark, drawn(5))["orders"], 7)
    with pytest.raises(InvalidArgumentError):
        write(frames(spark, drawn(5))["orders"], 0)
    assert_kept(store, oracle, orders(), range(6, 7))


@long
def test_versions_of_so_many_days(spark: SparkSession, location: str) -> None:
    """The one that was the newest when they began is among them."""
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    oracle, store = Oracle(orders()), Store(spark, location, orders(), clock=lambda: now[0])
    for number in range(5):
        update(spark, store, oracle, number)
        now[0] += timedelta(days=2)
    assert store.vacuum(keep_versions=2, keep_days=3).versions == (1, 2, 3)
    assert store.vacuum(keep_versions=2, keep_days=0.5).versions == ()
    assert store.vacuum(keep_days=1.9).versions == (4,)
    assert_kept(store, oracle, orders(), range(5, 6))
    assert store.vacuum(keep_days=0).versions == ()


@pytest.mark.parametrize(
    "wrong",
    [{}, {"keep_versions": 0}, {"keep_versions": 1.5}, {"keep_versions": True}, {"keep_days": -1}],
    ids=str,
)
def test_what_is_to_be_kept_has_to_be_said(
    spark: SparkSession, location: str, wrong: dict[str, Any]
) -> None:
    store = Store(spark, location, orders())
    with pytest.raises(InvalidArgumentError):
        store.vacuum(**wrong)
    assert store.vacuum(keep_versions=1) == dp.Vacuumed((), (), 0, 0)


def wider() -> Pipeline:
    """The same orders, by other stages, of which one has a name that is no plain path."""
    pipeline = Pipeline("wider")
    source = pipeline.source("orders", key="id bigint", value="customer bigint, amount bigint")

    @pipeline.producer(source, key="amount bigint", value="customer bigint", name="by 50% [amount]")
    def by_amount(_: int, rows: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        for customer, amount in rows:
            yield amount, customer

    return pipeline


@long
def test_stages_that_no_version_has_any_more(spark: SparkSession, tmp_path: Path) -> None:
    """Their tables go, if they are the store's own, not another's, and not of an unfinished one."""
    location = str(tmp_path / "a store {1} 50%25 [x]")
    oracle, wide = Oracle(wider()), Store(spark, location, wider())
    for number in range(3):
        given = as_frames(spark, wider(), drawn(number))
        assert wide.update(given).number == oracle.update(drawn(number))
    wide.vacuum(keep_versions=2, unfinished_hours=0)
    assert_kept(wide, oracle, wider(), range(2, 4), in_spark=True)  # delta-rs takes %25 for %
    spark.range(3).write.format("delta").save(f"{location}/others/content")
    store = Store(spark, location, orders())
    changed = drawn(9)
    assert store.update(frames(spark, changed)).number == 4
    assert store.vacuum(keep_versions=2, unfinished_hours=0).tables == ()
    assert store.update(frames(spark, batch((9, 9, 9)))).number == 5
    theirs = "by~2050~25~20~5Bamount~5D"
    tables = [f"{theirs}/{kind}" for kind in ("content", "key_mappings", "updates")]
    assert store.vacuum(keep_versions=1, unfinished_hours=24).tables == ()
    assert sorted(store.vacuum(keep_versions=1, unfinished_hours=0).tables) == tables
    names = {path.name for path in Path(location).iterdir()}
    assert names == {"orders", "by_customer", "others", "_versions"}  # only Spark sees the folder
    assert spark.read.format("delta").load(f"{location}/others/content").count() == 3
    again = Oracle(orders())
    for changes in (drawn(0), drawn(1), drawn(2), drawn(9), batch((9, 9, 9))):
        again.update(changes)
    found = store.content("by_customer", ordered=True).collect()
    assert [tuple(row) for row in found] == [*again.content("by_customer", 5)]


@long
def test_a_store_in_a_catalog(spark: SparkSession) -> None:
    spark.sql("DROP SCHEMA IF EXISTS vacuumed CASCADE")
    spark.sql("CREATE SCHEMA vacuumed")
    oracle, store = Oracle(swap), Store(spark, "vacuumed", swap)
    try:
        for number in range(5):
            changes: dict[str, list[Change]] = {
                "pairs": [Upsert((number,), (number % 3,)), Delete((number - 2,))]
            }
            assert store.update(as_frames(spark, swap, changes)).number == oracle.update(changes)
        assert store.vacuum(keep_versions=2, unfinished_hours=0).files
        assert [version.number for version in store.versions()] == [4, 5]
        for number in (4, 5):
            assert_same(Store(spark, "vacuumed", swap), oracle, swap, number, in_spark=True)
    finally:
        spark.sql("DROP SCHEMA IF EXISTS vacuumed CASCADE")


@long
def test_a_source_that_is_read_in_place_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "theirs")
    for number in range(4):
        rows = spark.range(number + 2).selectExpr("id AS k", f"id + {number} AS n")
        rows.write.format("delta").mode("overwrite").save(place)
        store = Store(spark, str(tmp_path / "store"), reading(place))
        store.update()
    files = on_disk(place)
    store.vacuum(keep_versions=1, unfinished_hours=0)
    assert on_disk(place) == files
    assert store.content("turned").count() == 5


@long
def test_unfinished_files_stay_for_a_while(spark: SparkSession, location: str) -> None:
    oracle, store = Oracle(orders()), Store(spark, location, orders())
    for number in range(3):
        update(spark, store, oracle, number)
    young, old = planted(Path(location, "by_customer", "content"))
    store.vacuum(keep_versions=3)
    assert (young.exists(), old.exists()) == (True, False)
    store.vacuum(keep_versions=3, unfinished_hours=0)
    assert not young.exists()
    assert_same(store, oracle, orders(), 3)
