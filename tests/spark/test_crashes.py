"""After a crash at any point there is one whole version: nothing is lost, doubled or half done."""

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from comparing import assert_same
from conftest import SETTINGS
from crashing import (
    AFTERWARDS,
    FACTOR,
    OPERATIONS,
    Child,
    CrashAt,
    CrashError,
    Operation,
    Point,
    Recorder,
    built,
    copied,
    fail,
    frames,
    oracle_of,
    orders,
)
from pyspark.sql import SparkSession

from deltaproduce import Store, failpoints, limits
from deltaproduce.testing import Oracle

PUBLISHED: Point = ("after", "publish", "_versions")


@pytest.fixture(autouse=True)
def as_large_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are written as if they were large, by runs, and one after the other."""
    monkeypatch.setattr(limits, "SMALL_TABLE_ROWS", 0)
    monkeypatch.setattr("deltaproduce.publisher._WRITERS", 1)
    FACTOR[0] = 1


@pytest.fixture
def master(spark: SparkSession, tmp_path: Path) -> Iterator[Any]:
    """Makes the store that there is before an operation."""

    def make(name: str) -> Path:
        place = tmp_path / "master" / name
        built(spark, str(place), OPERATIONS[name])
        return place

    return make


def points_of(spark: SparkSession, location: str, operation: Operation) -> list[Point]:
    """The fail points that an operation comes to; nothing is stored outside of them."""
    recorder = Recorder(location)
    store = Store(spark, location, orders())
    with failpoints.armed(recorder):
        operation.run(store, spark)
    recorder.end()
    assert not recorder.outside, "stored outside of every effect"
    assert recorder.points
    return recorder.points


def assert_whole(spark: SparkSession, location: str, oracle: Oracle) -> None:
    """The newest version is the oracle's, in every table, and so are those before it."""
    store = Store(spark, location, orders())
    assert [version.number for version in store.versions()] == [*range(1, oracle.head + 1)]
    for number in range(oracle.head + 1):
        assert_same(store, oracle, orders(), number)


def assert_goes_on(
    spark: SparkSession, location: str, name: str, *, published: bool, again: bool
) -> None:
    """After a crash in an operation the store is whole, and so it is after more operations.

    Args:
        again: the operation is done once more, as by someone who does not know that it crashed
            after it was published; otherwise something else comes next.
    """
    operation, oracle = OPERATIONS[name], oracle_of(OPERATIONS[name])
    if published:
        operation.expected(oracle)
    assert_whole(spark, location, oracle)
    store = Store(spark, location, orders())
    if again:
        if not published:
            operation.expected(oracle)
        operation.run(store, spark)
        assert_whole(spark, location, oracle)
    assert store.update(frames(spark, AFTERWARDS)).number == oracle.update(AFTERWARDS)
    assert_whole(spark, location, oracle)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_crash_at_any_point(spark: SparkSession, tmp_path: Path, master: Any, name: str) -> None:
    operation, made = OPERATIONS[name], master(name)
    points = points_of(spark, copied(made, tmp_path / "all"), operation)
    assert points[::2] == [("before", *point[1:]) for point in points[1::2]]
    for number in range(len(points)):
        FACTOR[0] = 1
        location = copied(made, tmp_path / f"{number}")
        store = Store(spark, location, orders())
        with failpoints.armed(CrashAt(number, fail)), pytest.raises(CrashError):
            operation.run(store, spark)
        published = PUBLISHED in points[: number + 1]
        FACTOR[0] = 1
        assert_goes_on(spark, location, name, published=published, again=number % 2 == 0)


KILLS = [("first load", 3), ("update", 6), ("update", 9), ("rollback", 4), ("compaction", 2)]


@pytest.mark.parametrize(("name", "number"), KILLS)
def test_a_killed_process(
    spark: SparkSession, tmp_path: Path, master: Any, name: str, number: int
) -> None:
    """The process and its Java process end at a fail point, or somewhere in the effect after it."""
    made = master(name)
    points = points_of(spark, copied(made, tmp_path / "all"), OPERATIONS[name])
    FACTOR[0] = 1
    for within in (False, True):
        location = copied(made, tmp_path / f"{within}")
        child = Child(SETTINGS)
        when, *_ = child.start(location, name, number)
        is_within = within and when == "before"
        if is_within:
            child.go_on()
            time.sleep(random.Random(number).uniform(0.02, 0.4))
        child.kill()
        head = Store(spark, location, orders()).head.number
        before = len(OPERATIONS[name].before)
        published = head > before
        if not is_within:
            assert published == (PUBLISHED in points[: number + 1])
        assert_goes_on(spark, location, name, published=published, again=within)
