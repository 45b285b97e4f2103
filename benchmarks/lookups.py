"""``python -m benchmarks.lookups``: looks up the rows of keys in a stored stage, in several ways.

A source of members by id, with an index by email, is stored once, in a store without runs. Then the
rows of random keys are looked up: by this library with a seek, with a scan, with its own choice,
and through the index; by a join in Spark with the same Delta table; and by DuckDB over its files.
Each returns an Arrow table, whose rows are checked. The figures of each size follow it as Markdown,
with the seconds of a seek and a scan for more and more keys, which shows where they cross.
"""

from __future__ import annotations

import argparse
import hashlib
import operator
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import deltaproduce as dp
from benchmarks.runs import Bench, opened, say
from benchmarks.sessions import Place
from benchmarks.tables import NO_FIGURE, table

SIZES: Final = (1_000_000, 10_000_000)
LARGE: Final = 50_000_000
KEYS: Final = (10, 1_000, 100_000)
SHARES: Final = (0.0001, 0.001, 0.01, 0.1, 0.3, 0.6)
"""This share of a table's keys is looked up to find where seek and scan cross."""
PAIR: Final = ("seek s", "scan s", "ratio", "processor, seek s", "scan s")
WARM_UP: Final = 1
MOST_KEYS: Final = 6_000_000
"""The most keys to look up: keys take memory, too."""
MOST_SECONDS: Final = 10.0
"""After this many seconds a way is not called again, however many steps are asked for."""

Way = Callable[[pa.Table], pa.Table | dp.Lookup]
"""Maps keys, as ids and as emails, to their rows."""


@dataclass(frozen=True, slots=True)
class Figure:
    """The figures of one way for some keys.

    Attributes:
        first: seconds of the first call, which reads the footers of files.
        seconds: the median of the later calls.
        busy: the median of this process's processor seconds.
        right: whether the rows are the rows of the keys.
        groups: the share of row groups that were read; None for other tools.
    """

    first: float
    seconds: float
    busy: float
    right: bool
    groups: float | None


def main(arguments: Sequence[str]) -> int:
    """Store, look up and check; return 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lookups", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=SIZES, help="of the table")
    parser.add_argument("--large", action="store_true", help=f"{LARGE:,} rows, too")
    parser.add_argument("--steps", type=int, default=5, help="measured, after the first")
    parser.add_argument("--memory", default="8g", help="of the Java process")
    parser.add_argument("--directory", help="where to work; a temporary one if none")
    given = parser.parse_args(arguments)
    right = True
    with opened(given.directory, Place(memory=given.memory)) as bench:
        for rows in (*given.rows, *([LARGE] if given.large else [])):
            with stored(bench, rows) as store:
                found = dict(looked_up(store, bench.spark, rows, given.steps))
                right &= all(figure.right for figure in found.values())
                say("\n".join(["", *markdown(rows, found)]))
    return int(not right)


def club() -> dp.Pipeline:
    """Return a pipeline of members by id, and an index of them by email."""
    pipeline = dp.Pipeline("club")
    members = pipeline.source("members", key="id bigint", value="email string, n bigint")
    pipeline.index("by_email", members, key="email string")
    return pipeline


def stored(bench: Bench, rows: int) -> dp.Store:
    """Return a store without a session, where a store with a session has written the rows."""
    place, started = bench.work / f"lookups-{rows}", time.perf_counter()
    members = bench.spark.range(rows).select(
        "id",
        f.concat(f.lit("m"), f.sha1(f.col("id").cast("string"))).alias("email"),
        f.pmod(f.xxhash64("id"), f.lit(1_000)).alias("n"),
    )
    with dp.Store(bench.spark, str(place), club()) as store:
        store.update({"members": members})
    say(f"{rows:,} rows: stored in {time.perf_counter() - started:.1f} s")
    return dp.Store(None, str(place), club())


def looked_up(
    store: dp.Store, spark: SparkSession, rows: int, steps: int
) -> Iterator[tuple[tuple[str, int], Figure]]:
    """Yield the figures of each way and number of keys."""
    every = ways(store, spark)
    crossing = {name: every[name] for name in ("seek", "scan")}
    counts = {count: every for count in KEYS if count <= rows}
    shares = {int(share * rows) for share in SHARES if share * rows <= MOST_KEYS}
    counts |= dict.fromkeys(shares - counts.keys(), crossing)
    for count, some in sorted(counts.items()):
        chance = np.random.default_rng(count)
        ids = chance.choice(rows, count, replace=False)
        keys = pa.table({"id": pa.array(ids, pa.int64())})
        if some is every:
            emails = ["m" + hashlib.sha1(str(n).encode()).hexdigest() for n in ids.tolist()]
            keys = keys.append_column("email", pa.array(emails))
        for name, way in some.items():
            figure = measured(way, keys, steps)
            say(f"{rows:,} rows, {count:,} keys: {name}: {figure.seconds:.3f} s")
            yield (name, count), figure


def ways(store: dp.Store, spark: SparkSession) -> Mapping[str, Way]:
    """Return each way to look up keys, by its name."""
    place = store.sql_name("members", "content").split("`")[1]
    files = ", ".join(f"'{path}'" for path in sorted(map(str, Path(place).glob("*.parquet"))))

    def ours(strategy: dp.Strategy) -> Way:
        return lambda keys: store.lookup("members", keys, strategy=strategy)

    def by_index(keys: pa.Table) -> dp.Lookup:
        return store.lookup("by_email", keys)

    def by_spark(keys: pa.Table) -> pa.Table:
        content = spark.read.format("delta").load(place)
        return content.join(f.broadcast(spark.createDataFrame(keys.select(["id"]))), "id").toArrow()

    def by_duckdb(keys: pa.Table) -> pa.Table:
        with duckdb.connect() as connection:
            connection.register("keys", keys)
            query = f"SELECT * FROM read_parquet([{files}]) SEMI JOIN keys USING (id)"
            return connection.sql(query).to_arrow_table()

    return {
        "seek": ours("seek"),
        "scan": ours("scan"),
        "auto": ours("auto"),
        "auto, by the index": by_index,
        "join in Spark": by_spark,
        "DuckDB over the files": by_duckdb,
    }


def measured(way: Way, keys: pa.Table, steps: int) -> Figure:
    """Measure a way, once and then this many times, or as often as `MOST_SECONDS` allow."""
    seconds, busy, found = list[float](), list[float](), None
    begun = time.perf_counter()
    for number in range(WARM_UP + steps):
        if number > WARM_UP and time.perf_counter() - begun > MOST_SECONDS:
            break
        started, worked = time.perf_counter(), time.process_time()
        found = way(keys)
        seconds.append(time.perf_counter() - started)
        busy.append(time.process_time() - worked)
    is_ours = isinstance(found, dp.Lookup)
    rows, groups = found.rows if is_ours else found, None
    if is_ours and found.row_groups:
        groups = found.row_groups_read / found.row_groups
    ids = (table.column("id").combine_chunks().sort() for table in (rows, keys))
    medians = (statistics.median(some[WARM_UP:]) for some in (seconds, busy))
    return Figure(seconds[0], *medians, operator.eq(*ids), groups)


def markdown(rows: int, found: Mapping[tuple[str, int], Figure]) -> list[str]:
    """Return a row for each way, and one for each number of keys of a seek and a scan."""
    names = list(dict.fromkeys(name for name, _ in found))
    counts = [count for count in KEYS if ("auto", count) in found]
    header = ["seconds, by keys", *(f"{count:,}" for count in counts), "first of 10", "right"]
    lines = [
        [
            name,
            *(f"{found[name, count].seconds:.3f}" for count in counts),
            f"{found[name, counts[0]].first:.3f}",
            "yes" if all(found[name, count].right for count in counts) else "NO",
        ]
        for name in names
    ]
    crossing = [
        [f"{count:,}", f"{count / rows:.3%}", *_pair(found, count)]
        for count in sorted({count for _, count in found})
    ]
    return [
        f"## {rows:,} rows",
        "",
        *table(header, lines),
        *table(["keys", "of the rows", "of the row groups", *PAIR], crossing, texts=0),
    ]


def _pair(found: Mapping[tuple[str, int], Figure], count: int) -> list[str]:
    seek, scan = (found[name, count] for name in ("seek", "scan"))
    read = NO_FIGURE if seek.groups is None else f"{seek.groups:.2%}"
    ratio = f"{seek.seconds / scan.seconds:.2f}"
    times = (seek.seconds, scan.seconds, None, seek.busy, scan.busy)
    return [read, *(ratio if one is None else f"{one:.3f}" for one in times)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
