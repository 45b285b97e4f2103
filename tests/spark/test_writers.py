"""Many writers: one of them wins each version, and no other writer's work is visible."""

import json
import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from comparing import assert_same
from conftest import SETTINGS
from crashing import (
    ALL_OPERATIONS,
    FACTOR,
    ORDERS,
    VERSIONS,
    Operation,
    Point,
    batch,
    built,
    drawn,
    frames,
    orders,
    update,
    updated,
)
from killing import Stores, assert_version
from limiting import limited
from processes import TO_THE_END, Child, Stop, all_started
from pyspark.sql import SparkSession
from selecting import chosen, long
from stressing import ALONE, IN_SPARK, expected

from deltaproduce import ConflictError, InvalidArgumentError, Progress, Store
from deltaproduce.storage import failpoints
from deltaproduce.testing import Oracle

SLEEPERS = int(os.environ.get("DELTAPRODUCE_SLEEPERS", "0"))


def test_a_conflict_names_the_other(spark: SparkSession, location: str) -> None:
    first, second = (Store(spark, location, orders()) for _ in range(2))
    first.update(frames(spark, drawn(0)))
    second.update(frames(spark, batch((9, 9, 9))))
    overtaken = []

    def overtake(when: failpoints.When, name: str, table: str) -> None:
        if (when, name) == ("before", "publish") and not overtaken:
            overtaken.append(table)
            second.update(frames(spark, batch((8, 8, 8))))

    with failpoints.armed(overtake), pytest.raises(ConflictError) as caught:
        first.update(frames(spark, drawn(1)))
    other = second.head.attempt
    assert other is not None
    assert caught.value.attempt == other.id
    assert caught.value.started_at is not None
    assert caught.value.started_at <= second.head.committed_at


def test_a_conflict_is_tried_again_if_wanted(spark: SparkSession, location: str) -> None:
    oracle = Oracle(orders())
    first, second = (Store(spark, location, orders(), on_conflict="retry") for _ in range(2))
    overtaken = []

    def overtake(when: failpoints.When, name: str, table: str) -> None:
        if (when, name) == ("before", "publish") and len(overtaken) < 2:
            overtaken.append(table)
            number = len(overtaken)
            with failpoints.armed(lambda *_: None):  # the other comes to them, too
                second.update(frames(spark, batch((number, number, number))))
            oracle.update(batch((number, number, number)))

    with failpoints.armed(overtake):
        version = first.update(frames(spark, drawn(1)), "first")
    assert version.number == 3
    assert len(overtaken) == 2
    assert oracle.update(drawn(1), "first") == 3
    for number in range(4):
        assert_same(second, oracle, orders(), number)
    with pytest.raises(InvalidArgumentError) as caught:
        first.update({}, on_conflict="wait")  # type: ignore[arg-type]
    assert caught.value.argument == "on_conflict"


def test_who_was_overtaken_is_not_in_the_way_of_the_next_one(
    spark: SparkSession, location: str
) -> None:
    """It sets back no table for a version that another has published meanwhile."""
    oracle, reached = built(None, location, 1), list[Point]()

    def overtake(progress: Progress) -> None:
        if progress.stage == "commit":
            update(Store(spark, location, orders()), spark, 1)
            updated(oracle, 1)

    store = Store(spark, location, orders(), progress=overtake)
    with pytest.raises(ConflictError), failpoints.armed(lambda *point: reached.append(point)):
        store.update(frames(spark, drawn(2)))
    by_the_other = reached.index(("after", "publish", "_versions")) + 1
    assert reached[by_the_other:] == []
    assert_same(store, oracle, orders(), oracle.head)


@dataclass(slots=True)
class Sleeper:
    """A writer that is stopped at a fail point, or within the effect that comes next.

    Attributes:
        point: where it is held.
        published: its version was there when it was stopped.
        outcome: what became of it when it woke up.
        factor: what amounts in its store are multiplied by.
    """

    number: int
    name: str
    stop: Stop
    within: bool
    location: str
    oracle: Oracle
    point: Point = ("before", "", "")
    published: bool = False
    outcome: str = ""
    factor: int = 1

    @property
    def operation(self) -> Operation:
        return ALL_OPERATIONS[self.name]

    def stopped(self, spark: SparkSession | None) -> None:
        """Nothing of it can be seen, unless it had published."""
        FACTOR[0] = self.factor
        store = Store(spark, self.location, orders())
        self.published = store.head.number > self.oracle.head
        assert not self.published or self.point[1] == "publish"
        if self.published:
            self.operation.expected(self.oracle, VERSIONS)
        self.factor = FACTOR[0]
        assert_version(store, self.oracle, ORDERS, self.oracle.head)

    def overtaken(self, spark: SparkSession | None) -> Store:
        """Another writer goes on meanwhile, in one of several ways."""
        FACTOR[0] = self.factor
        store, oracle = Store(spark, self.location, orders()), self.oracle
        if self.number % 4 == 3:  # with what the sleeper is about, carried on from what is there
            update(store, spark, VERSIONS)
            updated(oracle, VERSIONS)
        else:
            update(store, spark, 200 + self.number)
            updated(oracle, 200 + self.number)
        if self.number % 4 == 1:
            assert store.rollback(1).number == oracle.rollback(1)
            FACTOR[0] = self.factor = 1  # as of version 1: the rows that stay have it
        if self.number % 4 == 2:
            assert store.refresh().number == oracle.update({}, "refreshed")
            update(store, spark, 300 + self.number)
            updated(oracle, 300 + self.number)
        assert_version(store, oracle, ORDERS, oracle.head)
        return store

    def awake(self, spark: SparkSession | None, store: Store) -> None:
        """It is told that it was overtaken, or has published on top; nothing else is to be seen."""
        FACTOR[0] = self.factor
        if self.name == "retried update":
            self.operation.expected(self.oracle, VERSIONS)
        expected = "done" if self.published or self.name == "retried update" else "ConflictError:"
        assert self.outcome.startswith(expected), self.outcome
        assert_version(store, self.oracle, ORDERS, self.oracle.head)
        changes = drawn(400 + self.number)
        if self.number % 2:  # who overtook it may find what it left behind
            assert store.update(frames(spark, changes), on_conflict="retry") == store.head
        else:
            Store(spark, self.location, orders()).update(frames(spark, changes))
        assert store.head.number == self.oracle.update(changes)
        for version in range(self.oracle.head + 1):
            assert_version(store, self.oracle, ORDERS, version)


SOME_SLEEPERS: Sequence[tuple[str, Stop, bool]] = [
    ("update", 5, False),  # between two commits
    ("update", ("before", "publish"), True),
]


def all_sleepers() -> Iterator[tuple[str, Stop, bool]]:
    """An update at each fail point and within each effect; others around their last effects."""
    for stop in range(10):
        yield "update", stop, False
        if stop % 2 == 0:
            yield "update", stop, True
            yield "retried update", stop, stop % 4 == 0
    for name in ("load", "update after a crash", "refresh", "rollback"):
        first = ALL_OPERATIONS[name].effects[0]
        for effect in (first, "create" if name == "load" else "commit", "publish"):
            yield name, ("before", effect), False
            yield name, ("before", effect), True


@pytest.mark.parametrize("where", chosen(["in Spark", "here"], "here"))
def test_a_writer_that_sleeps_is_fenced_off(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Wherever it is stopped: others go on, and when it wakes up it damages nothing.

    DELTAPRODUCE_SLEEPERS says how many of `all_sleepers` there are to be, drawn at random.
    """
    limited(monkeypatch, small_table_rows=0, replaced_percent=900)
    monkeypatch.setattr("deltaproduce.operations.publisher._WRITERS", 1)
    session, settings = (spark, SETTINGS) if where == "in Spark" else (None, None)
    stores, child, sleepers = Stores(session, tmp_path, settings), Child(settings), []
    try:
        drawn_ones = random.Random(SLEEPERS).sample([*all_sleepers()], SLEEPERS)
        for number, (name, stop, within) in enumerate(drawn_ones or SOME_SLEEPERS):
            copy = stores.copy(f"sleeper-{number}", ALL_OPERATIONS[name].beforehand)
            sleepers.append(Sleeper(number, name, stop, within, *copy))
        put_to_sleep(child, sleepers)
        for sleeper in sleepers:
            sleeper.stopped(session)
        overtaking = [sleeper.overtaken(session) for sleeper in sleepers]
        wake_up(child, sleepers)
    finally:
        child.kill()
    for sleeper, store in zip(sleepers, overtaking, strict=True):
        print(sleeper.number, sleeper.name, sleeper.point, sleeper.within, sleeper.outcome)
        sleeper.awake(session, store)
    told = sum(sleeper.outcome.startswith("ConflictError") for sleeper in sleepers)
    print(
        f"{len(sleepers)} writers stopped: {sum(s.within for s in sleepers)} within an effect, "
        f"{sum(s.published for s in sleepers)} had published, {told} got a ConflictError, "
        f"{len(sleepers) - told - sum(s.published for s in sleepers)} published on top"
    )


def put_to_sleep(child: Child, sleepers: Sequence[Sleeper]) -> None:
    """Have each come to where it is to be, and stop the process."""
    for sleeper in sleepers:
        said, _, *point = child.start(sleeper.location, sleeper.name, VERSIONS, sleeper.stop)
        assert said == "at", point
        sleeper.point = point[0], point[1], point[2]
    within = [sleeper.location for sleeper in sleepers if sleeper.within]
    child.go_on(0, *within)
    time.sleep(random.Random(len(within)).uniform(0.05, 0.4))
    child.signal(signal.SIGSTOP)


def wake_up(child: Child, sleepers: Sequence[Sleeper]) -> None:
    """Let the process go on to the end of everything."""
    child.signal(signal.SIGCONT)
    child.go_on(TO_THE_END, *(sleeper.location for sleeper in sleepers))
    awake = {sleeper.location: sleeper for sleeper in sleepers}
    while awake:
        said, location, *rest = child.said()
        if said == "ended":
            awake.pop(location).outcome = rest[0]


VERSIONS_UNDER_STRESS = int(os.environ.get("DELTAPRODUCE_STRESS_VERSIONS", "6"))
WRITERS = (IN_SPARK, ALONE)
READERS = (IN_SPARK, ALONE, ALONE)
SECONDS_A_VERSION = 120
"""After which a process is taken to hang: it takes a few if the machine has nothing else to do."""


@long
def test_writers_and_readers_in_processes_of_their_own(
    spark: SparkSession, location: str, tmp_path: Path
) -> None:
    """Each batch is one version, and each table that was read held what its version says.

    One writer and one reader do all in Spark, the others have no session.
    DELTAPRODUCE_STRESS_VERSIONS says how many versions there are to be.
    """
    versions, settings = VERSIONS_UNDER_STRESS, json.dumps(SETTINGS)
    seconds = 120 + versions * SECONDS_A_VERSION
    wanted: dict[Path, tuple[object, ...]] = {
        tmp_path / f"writer-{n}": ("write", engine, settings, location, n, 2, versions)
        for n, engine in enumerate(WRITERS)
    }
    for seed, engine in enumerate(READERS):
        arguments = ("read", engine, settings, location, seed, versions, seconds)
        wanted[tmp_path / f"reader-{seed}"] = arguments
    started_at = time.monotonic()
    with all_started("stressing", wanted) as processes:
        for process in processes.values():
            assert process.wait(started_at + seconds - time.monotonic()) == 0
    said = [json.loads(line) for path in wanted for line in path.read_text().splitlines()]
    store = Store(spark, location, orders())
    update_ids = [version.update_id for version in store.versions()]
    assert sorted(map(str, update_ids)) == sorted(f"update {n}" for n in range(versions))
    rows = {found[:3]: found[3] for found in expected(update_ids)}
    read = [line[1:] for line in said if line[0] == "read"]
    violations = [found for found in read if rows[found[0], found[1], found[2]] != found[3]]
    attempts = sum(line[2] for line in said if line[0] == "wrote")
    print(
        f"{versions} versions of 2 writers, {attempts - versions} conflicts that were tried again, "
        f"{sum(line[3] for line in said if line[0] == 'wrote')} updates given up at first, "
        f"{len(read)} tables read by {len(READERS)} readers at "
        f"{len({found[0] for found in read})} versions, {len(violations)} violations, "
        f"{time.monotonic() - started_at:.0f} s"
    )
    assert not violations
    assert {found[0] for found in read} >= {versions}
    replayed = Oracle(orders())
    for update_id in update_ids:
        replayed.update(drawn(int(str(update_id).removeprefix("update "))), update_id)
    assert_same(store, replayed, orders(), versions)
