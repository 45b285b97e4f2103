"""Compaction runs while versions go on, and shows only in the small number of files."""

import logging
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from comparing import as_frames, assert_same
from deltalake import DeltaTable
from forcing import Way, forced
from pyspark.sql import SparkSession
from selecting import chosen, long
from swapping import swap

from deltaproduce import ClosedError, ConflictError, Store
from deltaproduce.testing import Change, Delete, Oracle, Upsert

OFTEN = Way(
    "often",
    "merge_on_read",
    {"small_table_rows": 0, "replaced_percent": 900, "compaction_commits": 2},
)
REWRITTEN = Way(
    "rewritten",
    "merge_on_read",
    {"small_table_rows": 0, "replaced_percent": 900, "overlay_runs": 0},
)
SELDOM = Way("seldom", "merge_on_read", {"small_table_rows": 0, "replaced_percent": 900})


def changes(number: int) -> list[Change]:
    """A new key, a moved one, and one that goes."""
    return [
        Upsert((number,), (number % 4,)),
        Upsert((number // 2,), (-number,)),
        Delete((number // 3 - 1,)),
    ]


def update(spark: SparkSession, store: Store, oracle: Oracle, number: int) -> None:
    given = {"pairs": changes(number)}
    assert store.update(as_frames(None, swap, given)).number == oracle.update(given)


def live(store: Store, table: str) -> int:
    """How many files a table has as the head has it."""
    stage, kind = table.split("/")
    path = f"{store._opened.tables.location.address}/{table}"
    pinned = store.head.stages[stage].delta_versions[kind]
    return len(DeltaTable(path, version=pinned).file_uris())


def test_runs_are_folded_and_small_files_put_together_beside_the_versions(
    spark: SparkSession, location: str
) -> None:
    oracle = Oracle(swap)
    with forced(OFTEN):
        store = Store(spark, location, swap)
        for number in range(1, 7):
            update(spark, store, oracle, number)
            if number % 2:  # otherwise the next version comes meanwhile
                store.wait()
        versions = store.versions()
        modes = {version.stages["swapped"].mode for version in versions[1:]}
        assert modes == {"seek"}  # no version wrote its tables anew
        assert versions[-1].stages["swapped"].base.folded > 1
        assert all(version.stages["swapped"].base.runs <= 4 for version in versions)
        for table in ("updates", "runs", "content", "key_mappings"):
            assert live(store, f"swapped/{table}") <= 4
        for number in (3, 6):
            assert_same(Store(spark, location, swap), oracle, swap, number)


@long
def test_who_follows_the_updates_sees_each_row_once(spark: SparkSession, location: str) -> None:
    oracle, store = Oracle(swap), Store(spark, location, swap)
    target = str(Path(location).parent / "followed")

    def follow() -> None:
        rows = spark.readStream.format("delta").load(f"{location}/swapped/updates")
        writer = rows.writeStream.format("delta").option("checkpointLocation", f"{target}-state")
        writer.trigger(availableNow=True).start(target).awaitTermination()

    for number in range(1, 4):
        update(spark, store, oracle, number)
        if number == 2:
            follow()
    assert live(store, "swapped/updates") == 3
    store.compact()
    update(spark, store, oracle, 4)
    assert live(store, "swapped/updates") == 2  # versions 1 to 3 together, and version 4
    follow()
    expected = spark.read.format("delta").load(f"{location}/swapped/updates")
    found = spark.read.format("delta").load(target)
    assert sorted(map(tuple, found.collect()), key=str) == sorted(
        map(tuple, expected.collect()), key=str
    )


@long
def test_another_store_goes_on_from_a_compaction(spark: SparkSession, location: str) -> None:
    """As `tests/local` has it in each run."""
    oracle = Oracle(swap)
    with forced(SELDOM):
        store, other = Store(spark, location, swap), Store(spark, location, swap)
        for number in range(1, 4):
            update(spark, store, oracle, number)
        before = store.head
        store.compact()
        assert store.head == before
        update(spark, other, oracle, 4)
        update(spark, store, oracle, 5)
        history = spark.sql(f"DESCRIBE HISTORY delta.`{location}/swapped/updates`")
        assert "RESTORE" not in {row.operation for row in history.collect()}
        for number in (3, 4, 5):
            assert_same(store, oracle, swap, number)


@pytest.mark.parametrize("notices", chosen((True, False), True))
def test_a_fold_that_another_writer_overtook_is_as_good_as_not_made(
    spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch, notices: bool
) -> None:
    oracle = Oracle(swap)
    with forced(SELDOM):
        store, other = Store(spark, location, swap), Store(spark, location, swap)
        for number in (1, 2):
            update(spark, store, oracle, number)
        old = store.head
    with forced(REWRITTEN):
        update(spark, other, oracle, 3)
    with forced(SELDOM), monkeypatch.context() as patched:
        if not notices:  # the other's commits came after it had looked
            patched.setattr("deltaproduce.operations.compaction.current", lambda pinned, _: pinned)
        store._writer.executor._compactor.start(old, at_once=True)
        with nullcontext() if notices else pytest.raises(ConflictError):
            store._writer.executor._compactor.finish(raises=True)
    with forced(REWRITTEN):
        update(spark, store, oracle, 4)
    for number in (2, 4):
        assert_same(Store(spark, location, swap), oracle, swap, number)


@long
def test_a_compaction_that_fails_is_logged_and_does_no_harm(
    spark: SparkSession,
    location: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    oracle = Oracle(swap)

    def failing(*_: Any, **__: Any) -> Any:
        raise OSError("disk full")

    with forced(OFTEN), monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr("deltaproduce.operations.compaction.compacted_edit", failing)
        store = Store(spark, location, swap)
        for number in range(1, 5):
            update(spark, store, oracle, number)
        with pytest.raises(OSError, match="disk full"):
            store.compact()
    assert "disk full" in caplog.text
    assert_same(store, oracle, swap, 4)


@long
def test_a_closed_store_is_read_and_publishes_nothing(spark: SparkSession, location: str) -> None:
    oracle, calls = Oracle(swap), 0
    with Store(spark, location, swap) as store:
        update(spark, store, oracle, 1)
        writer = store.stream_writer("pairs")
    store.close()
    assert_same(store, oracle, swap, 1, in_spark=True)
    assert store.verify() == ()
    assert [step.how for step in store.plan(["pairs"])] == ["changes", "incremental"]
    for refused in (
        lambda: store.update(as_frames(spark, swap, {"pairs": changes(2)})),
        lambda: store.load({"pairs": []}),
        store.refresh,
        lambda: store.rollback(0),
        lambda: store.forget("pairs", 1),
        store.repair,
        store.compact,
        lambda: store.vacuum(1),
    ):
        with pytest.raises(ClosedError):
            refused()
        calls += 1
    assert (calls, store.head.number) == (8, 1)
    update(spark, Store(spark, location, swap), oracle, 2)
    batch = as_frames(spark, swap, {"pairs": changes(3)})["pairs"]
    writer(batch, 0)  # it has a store of its own
    assert store.head.number == 3
