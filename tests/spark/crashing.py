"""Stores that crash: operations on a small store, and the fail points that they come to.

`killing` has processes that do them and are killed.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from comparing import as_frames, as_snapshots
from pyspark.sql import SparkSession

from deltaproduce import Pipeline, Store
from deltaproduce.operations.step.plan import TableType
from deltaproduce.storage import failpoints
from deltaproduce.testing import Change, Delete, Oracle, Upsert

Point = tuple[failpoints.When, str, str]
"""When, the effect, its table."""


class CrashError(BaseException):
    """What a fail point raises in place of the end of the process: nobody catches it."""


FACTOR = [1]
"""What amounts are multiplied by: no part of a fingerprint, so a change of it takes a refresh."""


def orders() -> Pipeline:
    """Orders by customer: keys move, are merged, and go."""
    pipeline = Pipeline("orders")
    source = pipeline.source("orders", key="id bigint", value="customer bigint, amount bigint")

    @pipeline.producer(source, key="customer bigint", value="amount bigint")
    def by_customer(_: int, rows: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        for customer, amount in rows:
            yield customer, amount * FACTOR[0]

    return pipeline


def batch(*changes: tuple[int, ...]) -> dict[str, list[Change]]:
    """Orders (id, customer, amount), or the deletion of (id,)."""
    return {"orders": [Upsert(c[:1], c[1:]) if c[1:] else Delete(c) for c in changes]}


def drawn(number: int) -> dict[str, list[Change]]:
    """The batch of a number: it changes orders, moves some to other customers, and deletes some."""
    draw = random.Random(number)
    found = []
    for order in draw.sample(range(8), 4):
        changed = (order, draw.randrange(4), draw.randrange(1000))
        found.append(changed if draw.random() < 0.8 else (order,))
    return batch(*found)


VERSIONS = 3
"""How many versions a store has before an operation."""


@dataclass(frozen=True, slots=True)
class Beforehand:
    """What a store has been through before an operation.

    Attributes:
        versions: how many it has.
        ahead: an update crashed after them, and has left its tables ahead of the head.
    """

    versions: int = VERSIONS
    ahead: bool = False


AS_USUAL = Beforehand()


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that writes; the number says which of many of its kind.

    Attributes:
        run: does it to the store.
        expected: does the same to the oracle.
        beforehand: which store it is for.
        effects: one that comes early, and its last one.
    """

    run: Callable[[Store, Any, int], object]
    expected: Callable[[Oracle, int], object]
    beforehand: Beforehand = AS_USUAL
    effects: tuple[str, str] = ("commit", "publish")


def frames(
    spark: SparkSession | None, changes: Mapping[str, Sequence[Change]]
) -> dict[str, object]:
    """A batch as a store takes it."""
    return dict(as_frames(spark, orders(), changes))


def with_factor(factor: int, call: Callable[..., object], *arguments: object) -> object:
    """Call, with amounts that count so many times from now on."""
    FACTOR[0] = factor
    return call(*arguments)


def snapshot(number: int) -> dict[str, list[Upsert]]:
    """All orders of a load of a number."""
    return {"orders": [change for change in drawn(number)["orders"] if isinstance(change, Upsert)]}


def update(store: Store, spark: SparkSession | None, number: int) -> object:
    """Update with the batch of a number, which is its id too."""
    return store.update(frames(spark, drawn(number)), f"update {number}")


def vacuumed(store: Store) -> None:
    """A vacuum, and one that removes the files of what the first has cut."""
    for _ in range(2):
        store.vacuum(keep_versions=2, unfinished_hours=0)


def updated(oracle: Oracle, number: int) -> object:
    """The same for the oracle."""
    return oracle.update(drawn(number), f"update {number}")


OPERATIONS: Mapping[str, Operation] = {
    "load": Operation(
        lambda store, spark, n: store.load(as_snapshots(spark, orders(), snapshot(n))),
        lambda oracle, n: oracle.load(snapshot(n)),
        Beforehand(versions=0),
    ),
    "update": Operation(update, updated),
    "update after a crash": Operation(
        update, updated, Beforehand(ahead=True), effects=("restore", "restore")
    ),
    "refresh": Operation(
        lambda store, _, n: with_factor(n + 2, store.refresh),
        lambda oracle, n: with_factor(n + 2, oracle.update, {}, f"refresh {oracle.head}"),
    ),
    "rollback": Operation(
        lambda store, _, n: store.rollback(1 + n % 2), lambda oracle, n: oracle.rollback(1 + n % 2)
    ),
    "compaction": Operation(
        lambda store, *_: store.compact(), lambda *_: None, effects=("commit", "optimize")
    ),
    "vacuum": Operation(
        lambda store, *_: vacuumed(store),
        lambda *_: None,
        effects=("drop versions", "vacuum"),
    ),
}


ALL_OPERATIONS: Mapping[str, Operation] = {
    **OPERATIONS,
    "retried update": Operation(
        lambda store, spark, n: store.update(
            frames(spark, drawn(n)), f"update {n}", on_conflict="retry"
        ),
        updated,
    ),
}
"""Those that processes can be told to do."""


def built(
    spark: SparkSession | None,
    location: str,
    versions: int = VERSIONS,
    table_type: TableType = "merge_on_read",
) -> Oracle:
    """Make a store of some versions; returns its oracle."""
    store = Store(spark, location, orders(), table_type=table_type)
    oracle = Oracle(orders())
    for number in range(versions):
        store.update(frames(spark, drawn(number)))
        oracle.update(drawn(number))
    return oracle


def run_ahead(spark: SparkSession | None, location: str) -> None:
    """Have an update crash when it has committed to all of its tables."""
    store = Store(spark, location, orders())
    with failpoints.armed(_fail_before_publication), suppress(CrashError):
        store.update(frames(spark, drawn(50)))


def _fail_before_publication(when: failpoints.When, name: str, table: str) -> None:
    del table
    if (when, name) == ("before", "publish"):
        raise CrashError


def files(location: str) -> frozenset[str]:
    """The files of a store: Delta's commits and data, but not the checksums beside them."""
    found = (path for path in Path(location).rglob("*") if path.is_file())
    return frozenset(str(path.relative_to(location)) for path in found if path.suffix != ".crc")


class Recorder:
    """Notes the fail points that an operation comes to, and what is stored outside of them.

    Attributes:
        outside: the files that were made or removed while no effect was under way.
    """

    def __init__(self, location: str) -> None:
        self.points: list[Point] = []
        self.outside: list[str] = []
        self._location = location
        self._seen = files(location)

    def __call__(self, when: failpoints.When, name: str, table: str) -> None:
        if when == "before":
            self.look()
        else:
            self._seen = files(self._location)
        self.points.append((when, name, table))

    def look(self) -> None:
        """See what was stored since the last effect."""
        now = files(self._location)
        self.outside += sorted(now ^ self._seen)
        self._seen = now


def recorded(
    spark: SparkSession | None, location: str, operation: Operation, number: int
) -> list[Point]:
    """The fail points that an operation comes to; nothing is stored outside of them."""
    recorder = Recorder(location)
    store = Store(spark, location, orders())
    with failpoints.armed(recorder):
        operation.run(store, spark, number)
    recorder.look()
    assert not recorder.outside, "stored outside of every effect"
    assert recorder.points[::2] == [("before", *point[1:]) for point in recorder.points[1::2]]
    return recorder.points


class CrashAt:
    """Crashes before the effect of a number, or after the version is published.

    What is stored after an effect is what is stored before the next one.
    """

    def __init__(self, number: int, crash: Callable[[], object]) -> None:
        self._left = number
        self._crash = crash

    def __call__(self, when: failpoints.When, name: str, table: str) -> None:
        del table
        if when == "before":
            self._left -= 1
        if self._left < 0 or (when, name) == ("after", "publish"):
            self._crash()


class CrashAtNew:
    """Crashes before the first effect of a kind that is new, or after the version is published.

    Args:
        met: the kinds of effects that are not; what it crashes before is added.
    """

    def __init__(self, met: set[str], crash: Callable[[], object]) -> None:
        self._met = met
        self._crash = crash

    def __call__(self, when: failpoints.When, name: str, table: str) -> None:
        del table
        if (when == "before" and name not in self._met) or (when, name) == ("after", "publish"):
            self._met.add(name)
            self._crash()


def fail() -> None:
    """Crash by an exception."""
    raise CrashError
