"""A crash at any point leaves one whole version: nothing is lost, doubled or half done."""

import os
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
from comparing import assert_no_orphans, assert_same
from conftest import SETTINGS
from crashing import (
    FACTOR,
    OPERATIONS,
    VERSIONS,
    CrashAt,
    CrashAtNew,
    CrashError,
    built,
    drawn,
    fail,
    frames,
    orders,
    recorded,
    run_ahead,
)
from killing import Stores, all_cases, as_table, killed, some_cases
from limiting import limited
from pyspark.sql import SparkSession
from selecting import chosen, long

from deltaproduce import Store
from deltaproduce.storage import failpoints
from deltaproduce.testing import Oracle


@pytest.fixture(autouse=True)
def as_large_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are written as if they were large, by runs, and one after the other."""
    limited(monkeypatch, small_table_rows=0, replaced_percent=900)
    monkeypatch.setattr("deltaproduce.operations.publisher._WRITERS", 1)
    FACTOR[0] = 1


def assert_whole(spark: SparkSession, location: str, oracle: Oracle) -> Store:
    """The versions are the oracle's, and the newest in every table; returns the store, opened."""
    store = Store(spark, location, orders())
    numbers = [version.number for version in store.versions()]
    assert numbers == [*range(numbers[0], oracle.head + 1)]
    assert_same(store, oracle, orders(), oracle.head)
    return store


ON_A_STORE = [name for name, found in OPERATIONS.items() if found.beforehand.versions]
LEAVES_TO_DO = ("rollback", "compaction", "vacuum")
"""Operations for which an update makes something to do."""


@pytest.mark.parametrize("name", chosen(ON_A_STORE, "update"))
def test_a_crash_at_any_point(
    spark: SparkSession, location: str, name: str, long_run: bool
) -> None:
    """Before each effect in turn, and after the version; then the same is done, or an update.

    A short run has one crash before each kind of effect; `tests/local` has all in each run.
    """
    oracle, operation, number = built(None, location), OPERATIONS[name], VERSIONS
    assert recorded(spark, location, operation, number)
    operation.expected(oracle, number)
    store, published = assert_whole(spark, location, oracle), False
    ahead = operation.beforehand.ahead
    met = {"commit", "publish"} if ahead else set()
    while not published and not (ahead and met >= {*operation.effects}):
        point = number - VERSIONS
        number += 1
        if name in LEAVES_TO_DO:
            changes = drawn(100 + number)
            assert store.update(frames(spark, changes)).number == oracle.update(changes)
        if ahead:
            run_ahead(spark, location)
            store = Store(spark, location, orders())
        factor = FACTOR[0]
        crash = CrashAt(point, fail) if long_run else CrashAtNew(met, fail)
        with failpoints.armed(crash), suppress(CrashError):
            operation.run(store, spark, number)
            break  # it does not come to so many
        store = Store(spark, location, orders())
        published = store.head.number > oracle.head
        if published or point % 2:
            operation.expected(oracle, number)
        if not published:
            FACTOR[0] = factor
        if not published and point % 2:
            operation.run(store, spark, number)
        elif not published:
            assert store.update(frames(spark, drawn(number))).number == oracle.update(drawn(number))
        assert_same(store, oracle, orders(), oracle.head)
    assert point or ahead
    assert long_run or met >= {*operation.effects}
    store = assert_whole(spark, location, oracle)
    for version in store.versions():
        assert_same(store, oracle, orders(), version.number)
    if long_run:
        assert_nothing_is_left(spark, location, oracle)


@long
@pytest.mark.parametrize("place", ["on this machine", "only Spark's #1"])
def test_a_crash_of_a_vacuum(spark: SparkSession, tmp_path: Path, place: str) -> None:
    """Before each kind of effect, each time between two updates; the next one leaves nothing.

    `tests/local` has crashes before each effect of a vacuum in each run.
    """
    location = str(tmp_path / place)  # Python cleans the one, Spark the other
    session = None if place == "on this machine" else spark
    oracle, vacuum, met = built(session, location), OPERATIONS["vacuum"], set[str]()
    while not met >= {*vacuum.effects}:
        store = Store(spark, location, orders())
        assert store.update(frames(spark, drawn(100))).number == oracle.update(drawn(100))
        with failpoints.armed(CrashAtNew(met, fail)), pytest.raises(CrashError):
            vacuum.run(store, spark, 0)
        store = assert_whole(spark, location, oracle)
        assert store.update(frames(spark, drawn(101))).number == oracle.update(drawn(101))
    for version in assert_whole(spark, location, oracle).versions():
        assert_same(store, oracle, orders(), version.number)
    assert_nothing_is_left(spark, location, oracle)


def assert_nothing_is_left(spark: SparkSession, location: str, oracle: Oracle) -> None:
    """A vacuum finds whatever crashes have left behind."""
    run_ahead(spark, location)
    for _ in range(2):  # what somebody may have begun to read is left by the first
        recorded(spark, location, OPERATIONS["vacuum"], 0)
    assert_no_orphans(assert_whole(spark, location, oracle))


def test_a_crash_in_the_first_load(spark: SparkSession, tmp_path: Path, long_run: bool) -> None:
    """Nothing is lost that was there before, which is nothing."""
    first = OPERATIONS["update"]
    points = recorded(spark, str(tmp_path / "all"), first, 0)
    effects = [name for when, name, _ in points if when == "before"]
    assert effects == [*["commit"] * 5, "create", "publish"]
    for number in range(len(effects) + 1) if long_run else (1, 5, 6, 7):
        location, oracle = str(tmp_path / f"{number}"), Oracle(orders())
        with failpoints.armed(CrashAt(number, fail)), pytest.raises(CrashError):
            first.run(Store(spark, location, orders()), spark, 0)
        published = number == len(effects)
        assert Store(spark, location, orders()).head.number == published
        if published:
            first.expected(oracle, 0)
        first.expected(oracle, number % 2)
        first.run(Store(spark, location, orders()), spark, number % 2)
        assert_whole(spark, location, oracle)


def test_tables_that_were_only_begun(spark: SparkSession, location: str) -> None:
    """A process ended in a first load, when it had made the folder of a table's log, and no commit.

    Kills within effects come to it only now and then.
    """
    for table in ("_versions", "orders/content", "by_customer/updates"):
        Path(location, table, "_delta_log").mkdir(parents=True)
    assert_whole(spark, location, built(spark, location, 2))


WANTED = os.environ.get("DELTAPRODUCE_KILLS", "")
ALL_KILLS = [name for name in OPERATIONS if WANTED == "all" or name in WANTED.split(",")]


@long
def test_killed_processes(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A process and its Java process end at a fail point, and in the middle of an effect.

    Operations in an effect, and after their last; at every fail point and in every effect those
    that DELTAPRODUCE_KILLS names (``load,update``; ``all``), which takes an hour for all of them.
    Then a table is printed. `tests/local` has kills in each run.
    """
    stores = Stores(spark, tmp_path, SETTINGS)
    operations = {name: OPERATIONS[name] for name in ALL_KILLS or OPERATIONS}
    wanted = all_cases(stores, operations) if ALL_KILLS else some_cases(operations)
    outcomes = []
    with capsys.disabled() if ALL_KILLS else nullcontext():
        try:
            for outcome in killed(stores, wanted, at_once=20 if ALL_KILLS else 6):
                outcomes.append(outcome)
                print(outcome, flush=True)
        finally:
            print(f"\n\n{as_table(outcomes)}\n")
    assert not [outcome for outcome in outcomes if outcome.is_wrong]
    assert {outcome.case.name for outcome in outcomes} == set(operations)
