"""``python -m benchmarks.events``: the history of keys, from change events in any order.

A store without a session keeps a history (SCD type 2). Each step brings some events, most of them
late. For comparison, DuckDB recomputes the history by window functions from all events in Parquet;
with ``--spark`` also Spark into Delta, and a store with a session. Contents are compared after each
step. The output is a Markdown table.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import deltaproduce as dp
from benchmarks.runs import say
from benchmarks.tables import table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVENTS_A_KEY: Final = 10
_CITIES: Final = 100
_DELETES_IN: Final = 20
_LATEST: Final = 1 << 40
_COLUMNS: Final = "id, city, valid_from, valid_to"
_HEADER: Final = ("", "load s", "step s, median", "slowest s", "rows read a step", "right")
_HISTORY: Final = """
    WITH states AS (
      SELECT id, "at", city, op = 'D' AS gone FROM read_parquet('{files}')
      QUALIFY row_number() OVER (PARTITION BY id, "at" ORDER BY event DESC) = 1
    ), marked AS (
      SELECT *, lead("at") OVER by_key AS next_at,
        coalesce(NOT lag(gone) OVER by_key
          AND lag(city) OVER by_key IS NOT DISTINCT FROM city, false) AS follows
      FROM states WINDOW by_key AS (PARTITION BY id ORDER BY "at")
    ), spans AS (
      SELECT *, count(*) FILTER (WHERE NOT follows) OVER (PARTITION BY id ORDER BY "at") AS span
      FROM marked WHERE NOT gone
    )
    SELECT id, any_value(city) AS city, min("at") AS valid_from,
      arg_max_null(next_at, "at") AS valid_to
    FROM spans GROUP BY id, span
"""
_DIGEST: Final = "SELECT count(*), bit_xor(hash(id, city, valid_from, valid_to)) FROM history"


def pipeline() -> dp.Pipeline:
    """Return events, and the history of their keys."""
    found = dp.Pipeline("events")
    value = "id bigint, at bigint, op string, city string"
    events = found.source("events", key="event bigint", value=value)
    arguments = {"key": "id", "sequence": "at", "deleted": "op = 'D'"}
    found.history("history", events, **arguments, columns="city")
    return found


def events_of(first: int, count: int, keys: int, *, seed: int) -> pa.Table:
    """Return events at random times of random keys; one in twenty is a delete."""
    chance = np.random.default_rng(seed)
    deletes = chance.integers(0, _DELETES_IN, count) == 0
    cities = pa.array([f"city {n}" for n in range(_CITIES)])
    return pa.table(
        {
            "event": np.arange(first, first + count),
            "id": chance.integers(0, keys, count),
            "at": chance.integers(0, _LATEST, count),
            "op": pa.array(["U", "D"]).take(pa.array(deletes.astype(np.int64))),
            "city": cities.take(pa.array(chance.integers(0, _CITIES, count))),
        }
    )


class Peer(ABC):
    """One way to keep the history."""

    name: ClassVar[str]

    @abstractmethod
    def take(self, events: pa.Table) -> int | None:
        """Bring events; return how many rows were read for it, if that is known."""

    @abstractmethod
    def history(self) -> pa.Table:
        """Return the rows of the history."""

    def close(self) -> None:  # noqa: B027 most have nothing open
        """Let go of what is open."""


class Ours(Peer):
    """This library, without a session."""

    name = "deltaproduce, no session"

    def __init__(self, place: Path, session: SparkSession | None = None) -> None:
        self._store = dp.Store(session, str(place), pipeline())

    def take(self, events: pa.Table) -> int | None:
        version = self._store.update({"events": events})
        return sum(figures.rows_read for figures in version.stages.values())

    def history(self) -> pa.Table:
        self._store.wait()
        rows: Any = self._store.content("history")
        return rows if isinstance(rows, pa.Table) else rows.toArrow()

    def close(self) -> None:
        self._store.close()


class OursInSession(Ours):
    """The same with a session."""

    name = "deltaproduce, with a session"


class Duck(Peer):
    """A query over all events in Parquet, written in full, without versions."""

    name = "full recompute (DuckDB)"

    def __init__(self, place: Path) -> None:
        self._events, self._file = place / "events", place / "history.parquet"
        self._events.mkdir(parents=True)
        self._files = 0

    def take(self, events: pa.Table) -> int | None:
        pq.write_table(events, self._events / f"{self._files}.parquet")
        self._files += 1
        query = _HISTORY.format(files=self._events / "*.parquet")
        with duckdb.connect() as connection:
            connection.execute(f"COPY ({query} ORDER BY id) TO '{self._file}' (FORMAT parquet)")
        return None

    def history(self) -> pa.Table:
        return pq.read_table(self._file)


class Spark(Peer):
    """The query that the stage's definition says, over a Delta table, written in full."""

    name = "full recompute (Spark)"

    def __init__(self, place: Path, session: SparkSession) -> None:
        self._session, self._events, self._history = session, place / "events", place / "history"
        stage = pipeline().graph().stage("history")
        text = stage.kind.definition.text([f"delta.`{self._events}`"])
        assert text is not None
        self._query = text

    def take(self, events: pa.Table) -> int | None:
        given = self._session.createDataFrame(events)
        given.write.format("delta").mode("append").save(str(self._events))
        rows = self._session.sql(self._query).repartitionByRange("id").sortWithinPartitions("id")
        rows.write.format("delta").mode("overwrite").save(str(self._history))
        return None

    def history(self) -> pa.Table:
        return self._session.read.format("delta").load(str(self._history)).toArrow()


@dataclass(slots=True)
class Found:
    """The figures of one way, in seconds and rows."""

    peer: Peer
    load: float = 0.0
    steps: list[float] = field(default_factory=list)
    rows_read: list[int] = field(default_factory=list)
    right: bool = True


def main(arguments: Sequence[str]) -> int:
    """Load, bring events and check; return 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.events", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="events")
    parser.add_argument("--new", type=int, default=1_000, help="events of a step")
    parser.add_argument("--steps", type=int, default=5, help="measured, after one that warms up")
    parser.add_argument("--spark", action="store_true", help="also with Spark")
    parser.add_argument("--memory", default="8g", help="of the Java process")
    parser.add_argument("--directory", help="where to work; a temporary one if none")
    given = parser.parse_args(arguments)
    session = dp.local_session(memory=given.memory) if given.spark else nullcontext()
    with tempfile.TemporaryDirectory(dir=given.directory) as directory, session as spark:
        found = [Found(peer) for peer in _peers(Path(directory), spark)]
        try:
            _measure(found, given)
        finally:
            for one in found:
                one.peer.close()
    say(f"\nThe history of {given.rows:,} events, {given.new:,} new ones a step\n")
    for line in table(_HEADER, map(_line, found)):
        say(line)
    return int(not all(one.right for one in found))


def _peers(place: Path, spark: SparkSession | None) -> list[Peer]:
    peers: list[Peer] = [Ours(place / "ours"), Duck(place / "duckdb")]
    if spark is not None:
        peers += [OursInSession(place / "session", spark), Spark(place / "spark", spark)]
    return peers


def _measure(found: Sequence[Found], given: argparse.Namespace) -> None:
    """Load all events, then bring some, to one way after the other."""
    keys = max(1, given.rows // _EVENTS_A_KEY)
    rows = events_of(0, given.rows, keys, seed=0)
    for one in found:
        one.load, _ = _timed(one.peer, rows)
        say(f"{one.peer.name}: load: {one.load:.2f} s")
    for step in range(given.steps + 1):
        new = events_of(given.rows + step * given.new, given.new, keys, seed=step + 1)
        for one in found:
            seconds, read = _timed(one.peer, new)
            if step:
                one.steps.append(seconds)
                one.rows_read += [] if read is None else [read]
        digests = [_digest(one.peer.history()) for one in found]
        for one, digest in zip(found, digests, strict=True):
            one.right &= digest == digests[1]  # DuckDB's


def _timed(peer: Peer, events: pa.Table) -> tuple[float, int | None]:
    started = time.perf_counter()
    read = peer.take(events)
    return time.perf_counter() - started, read


def _digest(history: pa.Table) -> Any:  # noqa: ANN401 a row of numbers
    with duckdb.connect() as connection:
        connection.register("history", history.select(_COLUMNS.split(", ")))
        return connection.execute(_DIGEST).fetchone()


def _line(one: Found) -> list[str]:
    return [
        one.peer.name,
        f"{one.load:.2f}",
        f"{statistics.median(one.steps):.3f}",
        f"{max(one.steps):.3f}",
        f"{statistics.median(one.rows_read):,.0f}" if one.rows_read else "-",
        "yes" if one.right else "NO",
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
