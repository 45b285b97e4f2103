"""Crashing stores: operations on a small store, and the fail points that they reach.

`killing` runs them in processes and kills these.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from comparing import as_frames, as_snapshots
from pyspark.sql import SparkSession

from deltaproduce import Pipeline, Store, agg, window
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
class Subject:
    """What a store is of.

    Attributes:
        pipeline: its definition.
        drawn: the batch of a number.
    """

    pipeline: Callable[[], Pipeline]
    drawn: Callable[[int], dict[str, list[Change]]]

    def update(self, store: Store, spark: SparkSession | None, number: int) -> object:
        """Update with the batch of a number, which is its id too."""
        given = as_frames(spark, self.pipeline(), self.drawn(number))
        return store.update(given, f"update {number}")

    def updated(self, oracle: Oracle, number: int) -> object:
        """The same for the oracle."""
        return oracle.update(self.drawn(number), f"update {number}")


ORDERS = Subject(orders, drawn)


@dataclass(frozen=True, slots=True)
class Beforehand:
    """What a store has been through before an operation.

    Attributes:
        versions: how many it has.
        ahead: an update crashed after them, and has left its tables ahead of the head.
        subject: what it is of.
    """

    versions: int = VERSIONS
    ahead: bool = False
    subject: Subject = ORDERS


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


def vacuumed(store: Store) -> None:
    """A vacuum, and one that removes the files of what the first has cut."""
    for _ in range(2):
        store.vacuum(keep_versions=2, unfinished_hours=0)


update, updated = ORDERS.update, ORDERS.updated

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


def visits() -> Pipeline:
    """Visits by day and by member, in windows that move: what adds up, what is ordered, parts."""
    pipeline = Pipeline("visits")
    source = pipeline.source(
        "visits",
        key="day date, id bigint",
        value="member bigint, seconds bigint",
        retain=window("day", last=6),
    )
    ordered = {"rows": agg.count(), "most": agg.max("seconds")}
    since = window("day", start=_DAY)
    pipeline.aggregate("since", source, key="member", values=ordered, window=since)
    total = {"rows": agg.count(), "seconds": agg.sum("seconds")}
    by_day = pipeline.aggregate("by_day", source, key="day, member", values=total)
    merged = {"seconds": agg.merge("seconds"), "least": agg.min("rows")}
    last = window("day", last=2)
    pipeline.aggregate("two_days", by_day, key="member", values=merged, window=last)
    return pipeline


_DAY = date(2013, 3, 1)


def day(number: int) -> date:
    """The day of a number: a few days, one after the other, and then the first again."""
    return _DAY + timedelta(days=number % 7)


def drawn_visits(number: int) -> dict[str, list[Change]]:
    """The batch of a number: visits of its day, late ones and deleted ones of days before."""
    draw = random.Random(number)
    days = [day(number), *(day(number) - timedelta(days=draw.randrange(1, 4)) for _ in range(2))]
    found: list[Change] = []
    for at in sorted(set(days)):
        for visit in draw.sample(range(3), 2):
            value = draw.randrange(3), draw.randrange(100)
            is_gone = at < days[0] and draw.random() < 0.5
            found.append(Delete((at, visit)) if is_gone else Upsert((at, visit), value))
    return {"visits": found}


VISITS = Subject(visits, drawn_visits)
MOVES: Mapping[str, Operation] = {
    "update of windows": Operation(VISITS.update, VISITS.updated, Beforehand(subject=VISITS)),
    "update of windows after a crash": Operation(
        VISITS.update,
        VISITS.updated,
        Beforehand(ahead=True, subject=VISITS),
        effects=("restore", "restore"),
    ),
    "move by a day": Operation(
        lambda store, _, n: store.update({}, f"move {n}", as_of=day(n - 2)),
        lambda oracle, n: oracle.update({}, f"move {n}", as_of=day(n - 2)),
        Beforehand(subject=VISITS),
    ),
    "rollback of windows": Operation(
        lambda store, _, n: store.rollback(1 + n % 2),
        lambda oracle, n: oracle.rollback(1 + n % 2),
        Beforehand(subject=VISITS),
    ),
}
"""Those of a store that has windows."""


ALL_OPERATIONS: Mapping[str, Operation] = {
    **OPERATIONS,
    **MOVES,
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
    subject: Subject = ORDERS,
) -> Oracle:
    """Make a store of some versions; returns its oracle."""
    store = Store(spark, location, subject.pipeline(), table_type=table_type)
    oracle = Oracle(subject.pipeline())
    for number in range(versions):
        changes = subject.drawn(number)
        store.update(as_frames(spark, subject.pipeline(), changes))
        oracle.update(changes)
    return oracle


def run_ahead(spark: SparkSession | None, location: str, subject: Subject = ORDERS) -> None:
    """Have an update crash when it has committed to all of its tables."""
    store = Store(spark, location, subject.pipeline())
    with failpoints.armed(_fail_before_publication), suppress(CrashError):
        subject.update(store, spark, 50)


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
    store = Store(spark, location, operation.beforehand.subject.pipeline())
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
