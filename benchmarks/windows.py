"""``python -m benchmarks.windows``: a window of 30 days moves by a day.

All days are stored in advance; then the store's ``as_of`` day advances by one for each step. For
comparison, Spark into Delta and DuckDB into Parquet recompute the same aggregate from the 30 days
of a table that is partitioned by day. Content is compared after each step, and the last output is a
Markdown table.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import deltaproduce as dp
from benchmarks import policy
from benchmarks.measures import Processes, Step, measured
from benchmarks.runs import Bench, opened, say
from benchmarks.sessions import Place
from benchmarks.tables import MIB, table
from benchmarks.workload import digest
from deltaproduce import agg

LENGTH: Final = 30
FIRST: Final = date(2013, 1, 1)
EVENTS_A_MEMBER: Final = 100
QUERY: Final = (
    "SELECT member, count(*) AS events, CAST(sum(ms) AS bigint) AS ms FROM {events} "
    "WHERE day BETWEEN DATE '{first}' AND DATE '{last}' GROUP BY member"
)


class Peer(ABC):
    """One way to keep the window's aggregate."""

    name: str

    @abstractmethod
    def load(self, events: DataFrame) -> None:
        """Store all days."""

    @abstractmethod
    def move(self, last: date) -> None:
        """Bring the aggregate to the days up to this one."""

    @abstractmethod
    def content(self) -> DataFrame:
        """Return the current aggregate."""


class Ours(Peer):
    """This library."""

    name = "deltaproduce"

    def __init__(self, spark: SparkSession | None, place: Path) -> None:
        site = dp.Pipeline("windows")
        events = site.source("events", key="day date, n bigint", value="member bigint, ms bigint")
        site.aggregate(
            "month",
            events,
            key="member",
            values={"events": agg.count(), "ms": agg.sum("ms")},
            window=dp.window("day", last=LENGTH),
        )
        self.store = dp.Store(spark, str(place), site)

    def load(self, events: DataFrame | pa.Table) -> None:
        self.store.update({"events": events}, as_of=_day(LENGTH - 1))

    def move(self, last: date) -> None:
        self.store.update({}, as_of=last)

    def content(self) -> DataFrame:
        self.store.wait()
        return self.store.content("month").drop("_ordinal")


class OursWithoutSession(Ours):
    """This library, opened without a session; Spark makes the rows, and reads them."""

    name = "deltaproduce, no session"

    def __init__(self, spark: SparkSession, place: Path) -> None:
        super().__init__(None, place)
        self._spark = spark

    def load(self, events: DataFrame | pa.Table) -> None:
        super().load(events.toArrow() if isinstance(events, DataFrame) else events)

    def content(self) -> DataFrame:
        self.store.wait()
        return self._spark.createDataFrame(self.store.content("month")).drop("_ordinal")


class Spark(Peer):
    """A query over a Delta table that is partitioned by day, written in full."""

    name = "full recompute (DataFrames)"

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self._spark, self._events, self._month = spark, place / "events", place / "month"

    def load(self, events: DataFrame) -> None:
        events.write.format("delta").partitionBy("day").save(str(self._events))

    def move(self, last: date) -> None:
        made = self._spark.sql(_query(f"delta.`{self._events}`", last))
        in_order = made.repartitionByRange("member").sortWithinPartitions("member")
        in_order.write.format("delta").mode("overwrite").save(str(self._month))

    def content(self) -> DataFrame:
        return self._spark.read.format("delta").load(str(self._month))


class Duck(Peer):
    """A query over Parquet files that are partitioned by day, written in full, without versions."""

    name = "full recompute (DuckDB)"

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self._spark, self._events, self._month = spark, place / "events", place / "month.parquet"

    def load(self, events: DataFrame) -> None:
        events.write.partitionBy("day").parquet(str(self._events))

    def move(self, last: date) -> None:
        events = f"read_parquet('{self._events}/*/*.parquet', hive_partitioning = true)"
        with duckdb.connect() as connection:
            connection.execute(
                f"COPY ({_query(events, last)} ORDER BY member) TO '{self._month}' (FORMAT parquet)"
            )

    def content(self) -> DataFrame:
        return self._spark.read.parquet(str(self._month))


KINDS: Final = {"ours": Ours, "ours-here": OursWithoutSession, "spark": Spark, "duckdb": Duck}


@dataclass(slots=True)
class Moves:
    """The figures of one way."""

    peer: Peer
    place: Path
    load: Step | None = None
    steps: list[Step] = field(default_factory=list)
    right: bool = True


def main(arguments: Sequence[str]) -> int:
    """Load, move and check; return 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.windows", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="in a window")
    parser.add_argument("--steps", type=int, default=5, help="measured, after those that warm up")
    parser.add_argument("--memory", default="8g", help="of the Java process")
    parser.add_argument("--directory", help="where to work; a temporary one if none")
    given = parser.parse_args(arguments)
    with opened(given.directory, Place(memory=given.memory)) as bench:
        found = moves(bench, given.rows, policy.MAIN.of(given.steps))
    say(f"\nA window of {LENGTH} days, {given.rows:,} rows, moves by a day\n")
    say("\n".join(markdown(found)))
    return int(not all(one.right for one in found))


def moves(bench: Bench, rows: int, effort: policy.Effort) -> list[Moves]:
    """Load the days of a window and of all steps, and move the window by a day for each step."""
    steps = effort.warm_up + effort.steps
    events = _events(bench.spark, rows, LENGTH + steps)
    found = []
    for name, kind in KINDS.items():
        place = bench.work / "windows" / name
        place.mkdir(parents=True)
        one = Moves(kind(bench.spark, place), place)
        one.load = measured(lambda: one.peer.load(events), place, Processes())  # noqa: B023
        say(f"{one.peer.name}: load: {one.load.seconds:.2f} s")
        found.append(one)
    for number in range(steps):
        last = _day(LENGTH + number)
        expected = digest(_right(events, last))
        for one in found:
            step = measured(lambda: one.peer.move(last), one.place, Processes())  # noqa: B023
            say(f"{one.peer.name}: {step.seconds:.2f} s")
            one.right &= digest(one.peer.content()) == expected
            if number >= effort.warm_up:
                one.steps.append(step)
    return found


def markdown(found: Sequence[Moves]) -> list[str]:
    """Return a row for each way."""

    def median(one: Moves) -> float:
        return statistics.median(step.seconds for step in one.steps)

    rows = [
        [
            one.peer.name,
            f"{one.load.seconds:.1f}" if one.load else "",
            f"{median(one):.2f}",
            f"{median(one) / median(found[0]):.2f}",
            f"{statistics.median(step.bytes_read for step in one.steps) / MIB:.1f}",
            f"{statistics.median(step.bytes_written for step in one.steps) / MIB:.1f}",
            "yes" if one.right else "NO",
        ]
        for one in found
    ]
    header = ["", "load s", "move s, median", "ratio", "MiB read", "MiB written", "right"]
    return table(header, rows)


def _day(number: int) -> date:
    return FIRST + timedelta(days=number)


def _query(events: str, last: date) -> str:
    first = last - timedelta(days=LENGTH - 1)
    return QUERY.format(events=events, first=first, last=last)


def _events(spark: SparkSession, rows: int, days: int) -> DataFrame:
    """Return as many rows a day as a window of this many rows has."""
    a_day = rows // LENGTH
    return spark.range(a_day * days).select(
        f.date_add(f.lit(FIRST), (f.col("id") / a_day).cast("int")).alias("day"),
        f.col("id").alias("n"),
        f.pmod(f.xxhash64("id"), f.lit(max(1, rows // EVENTS_A_MEMBER))).alias("member"),
        f.pmod(f.xxhash64("id", f.lit(1)), f.lit(10_000)).alias("ms"),
    )


def _right(events: DataFrame, last: date) -> DataFrame:
    """Return the answer, from the definition of the events alone."""
    return events.sparkSession.sql(_query("{events}", last), events=events)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
