"""After a crash at any point there is one whole version: nothing is lost, doubled or half done."""

import random
import time
from contextlib import suppress
from pathlib import Path

import pytest
from comparing import assert_same
from conftest import SETTINGS
from crashing import (
    FACTOR,
    OPERATIONS,
    VERSIONS,
    Child,
    CrashAt,
    CrashError,
    Operation,
    Point,
    Recorder,
    built,
    drawn,
    fail,
    frames,
    orders,
)
from pyspark.sql import SparkSession

from deltaproduce import Store, failpoints, limits
from deltaproduce.testing import Oracle


@pytest.fixture(autouse=True)
def as_large_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are written as if they were large, by runs, and one after the other."""
    monkeypatch.setattr(limits, "SMALL_TABLE_ROWS", 0)
    monkeypatch.setattr("deltaproduce.publisher._WRITERS", 1)
    FACTOR[0] = 1


def assert_whole(spark: SparkSession, location: str, oracle: Oracle) -> Store:
    """The versions are the oracle's, and the newest in every table; returns the store, opened."""
    store = Store(spark, location, orders())
    assert [version.number for version in store.versions()] == [*range(1, oracle.head + 1)]
    assert_same(store, oracle, orders(), oracle.head)
    return store


def recorded(spark: SparkSession, location: str, operation: Operation, number: int) -> list[Point]:
    """The fail points that an operation comes to; nothing is stored outside of them."""
    recorder = Recorder(location)
    store = Store(spark, location, orders())
    with failpoints.armed(recorder):
        operation.run(store, spark, number)
    recorder.end()
    assert not recorder.outside, "stored outside of every effect"
    assert recorder.points[::2] == [("before", *point[1:]) for point in recorder.points[1::2]]
    return recorder.points


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_crash_at_any_point(spark: SparkSession, location: str, name: str) -> None:
    """Before each effect in turn, and after the version; then the same is done, or an update."""
    oracle, operation, number = built(spark, location), OPERATIONS[name], VERSIONS
    assert recorded(spark, location, operation, number)
    operation.expected(oracle, number)
    store, published = assert_whole(spark, location, oracle), False
    while not published:
        point = number - VERSIONS
        number += 1
        if name in ("rollback", "compaction"):  # there is to be something to do
            changes = drawn(100 + number)
            assert store.update(frames(spark, changes)).number == oracle.update(changes)
        factor = FACTOR[0]
        with failpoints.armed(CrashAt(point, fail)), suppress(CrashError):
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
    assert point > 1
    store = assert_whole(spark, location, oracle)
    for version in range(oracle.head):
        assert_same(store, oracle, orders(), version)


def test_a_crash_in_the_first_load(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing is lost that was there before, which is nothing."""
    first = OPERATIONS["update"]
    points = recorded(spark, str(tmp_path / "all"), first, 0)
    effects = [name for when, name, _ in points if when == "before"]
    assert effects == [*["commit"] * 5, "create", "publish"]
    for number in range(len(effects) + 1):
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


@pytest.mark.parametrize(("name", "number"), [("compaction", 1)])
def test_a_killed_process(spark: SparkSession, location: str, name: str, number: int) -> None:
    """The process and its Java process end at a fail point, and in the middle of an effect."""
    oracle, operation = built(spark, location), OPERATIONS[name]
    for within in (False, True):
        child = Child(SETTINGS)
        child.start(location, name, 2 * number)
        if within:
            child.go_on()
            time.sleep(random.Random(number).uniform(0.02, 0.4))
        child.kill()
        store = assert_whole(spark, location, oracle)
        changes = drawn(10 + within)
        assert store.update(frames(spark, changes)).number == oracle.update(changes)
    operation.expected(oracle, VERSIONS)
    operation.run(store, spark, VERSIONS)
    assert_whole(spark, location, oracle)
