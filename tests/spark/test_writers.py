"""Many writers: one of them wins each version, and nothing that another does can be seen."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from comparing import assert_same
from conftest import SETTINGS
from crashing import Child, built, drawn, frames, orders
from pyspark.sql import SparkSession
from stressing import LIMITS, changes, run

from deltaproduce import ConflictError, InvalidArgumentError, Store, failpoints, limits
from deltaproduce.testing import Oracle

VERSIONS = int(os.environ.get("STRESS_VERSIONS", "12"))


@pytest.fixture
def child() -> Iterator[Child]:
    found = Child(SETTINGS)
    yield found
    found.kill()


def test_a_writer_that_sleeps_and_wakes_up_damages_nothing(
    spark: SparkSession, location: str, child: Child
) -> None:
    """Whatever it was about to do when it was stopped, it is told that another was faster."""
    oracle = built(spark, location)
    for number in range(6):  # after it has read the head, before each of its effects
        child.start(location, "update", 2 * number)
        child.signal(signal.SIGSTOP)
        store = Store(spark, location, orders())
        changes = drawn(10 + number)
        assert store.update(frames(spark, changes)).number == oracle.update(changes)
        child.go_on()
        child.signal(signal.SIGCONT)
        assert child.outcome().startswith("ConflictError")
        for version in (oracle.head - 1, oracle.head):
            assert_same(store, oracle, orders(), version)
        changes = drawn(20 + number)  # which may find what the sleeper left, and takes it back
        version = store.update(frames(spark, changes), on_conflict="retry")
        assert version.number == oracle.update(changes)
        assert_same(store, oracle, orders(), oracle.head)


def test_a_conflict_names_the_other(spark: SparkSession, location: str) -> None:
    first, second = (Store(spark, location, orders()) for _ in range(2))
    first.update(frames(spark, changes("first", 0)))
    second.update(frames(spark, changes("second", 0)))
    overtaken = []

    def overtake(when: failpoints.When, name: str, table: str) -> None:
        if (when, name) == ("before", "publish") and not overtaken:
            overtaken.append(table)
            second.update(frames(spark, changes("second", 1)))

    with failpoints.armed(overtake), pytest.raises(ConflictError) as caught:
        first.update(frames(spark, changes("first", 1)))
    other = second.head.attempt
    assert other is not None
    assert caught.value.attempt == other.id
    assert caught.value.started_at is not None
    assert caught.value.started_at <= second.head.committed_at


def test_a_conflict_is_tried_again_if_wanted(spark: SparkSession, location: str) -> None:
    oracle = Oracle(orders())
    first = Store(spark, location, orders(), on_conflict="retry")
    second = Store(spark, location, orders())
    overtaken = []

    def overtake(when: failpoints.When, name: str, table: str) -> None:
        if (when, name) == ("before", "publish") and len(overtaken) < 2:
            overtaken.append(table)
            second.update(frames(spark, changes("second", len(overtaken))))
            oracle.update(changes("second", len(overtaken)))

    with failpoints.armed(overtake):
        version = first.update(frames(spark, changes("first", 1)), "first")
    assert version.number == 3
    assert len(overtaken) == 2
    assert oracle.update(changes("first", 1), "first") == 3
    for number in range(4):
        assert_same(second, oracle, orders(), number)
    with pytest.raises(InvalidArgumentError) as caught:
        first.update({}, on_conflict="wait")  # type: ignore[arg-type]
    assert caught.value.argument == "on_conflict"


def test_writers_and_readers_in_two_processes(
    spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every batch is in one version, and every table that a reader reads is the oracle's."""
    for name, limit in LIMITS.items():
        monkeypatch.setattr(limits, name, limit)
    count, here = VERSIONS // 2, Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parents[1]), os.environ.get("PYTHONPATH", "")])
    arguments = [location, "child", count, 2, VERSIONS, json.dumps(SETTINGS)]
    child = subprocess.Popen(
        [sys.executable, "-m", "stressing", *map(str, arguments)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable},
        text=True,
    )
    try:
        mine = run(spark, location, ["parent"], count, 1, VERSIONS)
        said, _ = child.communicate(timeout=1200)
    finally:
        child.kill()
    conflicts, reads, violations = json.loads(said)
    assert mine.violations + violations == []
    ids = [version.update_id for version in Store(spark, location, orders()).versions()]
    assert sorted(map(str, ids)) == sorted(
        f"{writer} {number}" for writer in ("parent", "child") for number in range(count)
    )
    print(
        f"{len(ids)} versions, {mine.conflicts + conflicts} conflicts, {mine.reads + reads} reads"
    )
