"""Stores that crash: operations on a small store, their fail points, and what must hold afterwards.

`main` runs one operation in a process of its own, says each fail point on its standard output, and
waits to be killed at the one that it was told.
"""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from comparing import as_frames
from pyspark.sql import SparkSession

from deltaproduce import Pipeline, Store, failpoints, limits, local_session, publisher
from deltaproduce.plan import TableType
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
class Operation:
    """Something that writes; the number says which of many of its kind.

    Attributes:
        run: does it to the store.
        expected: does the same to the oracle.
    """

    run: Callable[[Store, SparkSession, int], object]
    expected: Callable[[Oracle, int], object]


def frames(spark: SparkSession, changes: Mapping[str, Sequence[Change]]) -> dict[str, object]:
    """A batch as a store takes it."""
    return dict(as_frames(spark, orders(), changes))


def with_factor(factor: int, call: Callable[..., object], *arguments: object) -> object:
    """Call, with amounts that count so many times from now on."""
    FACTOR[0] = factor
    return call(*arguments)


OPERATIONS: Mapping[str, Operation] = {
    "update": Operation(
        lambda store, spark, n: store.update(frames(spark, drawn(n)), f"update {n}"),
        lambda oracle, n: oracle.update(drawn(n), f"update {n}"),
    ),
    "refresh": Operation(
        lambda store, _, n: with_factor(n + 2, store.refresh),
        lambda oracle, n: with_factor(n + 2, oracle.update, {}, f"refresh {n}"),
    ),
    "rollback": Operation(
        lambda store, _, n: store.rollback(1 + n % 2), lambda oracle, n: oracle.rollback(1 + n % 2)
    ),
    "compaction": Operation(lambda store, *_: store.compact(), lambda *_: None),
}


def built(
    spark: SparkSession,
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


def commits(location: str) -> frozenset[str]:
    """The Delta commits of all tables of a store."""
    return frozenset(
        str(path.relative_to(location)) for path in Path(location).glob("**/_delta_log/*.json")
    )


class Recorder:
    """Notes the fail points that an operation comes to, and what is stored outside of them."""

    def __init__(self, location: str) -> None:
        self.points: list[Point] = []
        self.outside: list[str] = []
        self._location = location
        self._seen = commits(location)

    def __call__(self, when: failpoints.When, name: str, table: str) -> None:
        now = commits(self._location)
        if when == "before":
            self.outside += sorted(now - self._seen)
        self._seen = now
        self.points.append((when, name, table))

    def end(self) -> None:
        """What was stored after the last effect."""
        self.outside += sorted(commits(self._location) - self._seen)


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


def fail() -> None:
    """Crash by an exception."""
    raise CrashError


class Child:
    """A process of its own that does operations and stops at each fail point; see `main`."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        here = Path(__file__).parent
        path = os.pathsep.join([str(here), str(here.parents[1]), os.environ.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "crashing", json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable},
            text=True,
            start_new_session=True,
        )
        assert self.said() == "ready"

    def said(self) -> Any:
        """What it says next: a fail point, or the outcome."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else None

    def go_on(self, told: str = "") -> None:
        """Let it go on from where it is."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{told}\n")
        self._process.stdin.flush()

    def start(self, location: str, name: str, number: int) -> None:
        """Let it do an operation up to the fail point of a number."""
        self.go_on(json.dumps([location, name]))
        for _ in range(number):
            self.said()
            self.go_on()
        self.said()

    def kill(self) -> None:
        """End it, its Java process and their workers at once."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()  # and its pipes


def main(settings: str) -> None:
    """Do operations, each told by a line of input: location and name, in JSON.

    Each fail point that one comes to is a line of output, and waits for a line of input; so is the
    outcome, which waits for the next operation.
    """
    limits.SMALL_TABLE_ROWS, publisher._WRITERS = 0, 1
    spark = local_session("crashing", cores=2, memory="2g", config=json.loads(settings))
    line = _told("ready")
    while line:
        location, name = json.loads(line)
        FACTOR[0] = 1
        store = Store(spark, location, orders())
        with failpoints.armed(lambda *point: _told(point) or os._exit(1)):
            try:
                OPERATIONS[name].run(store, spark, VERSIONS)
                outcome = "done"
            except Exception as error:  # noqa: BLE001 whoever watches is told
                outcome = f"{type(error).__name__}: {error}"
        line = _told(outcome)
    spark.stop()


def _told(what: object) -> str:
    """Say something, and wait for a line; nothing if nobody is there any more."""
    print(json.dumps(what), flush=True)
    return sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
