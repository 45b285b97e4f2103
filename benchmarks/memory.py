"""``python -m benchmarks.memory``: large tables, and a giant key, in little memory.

Two cases that must not need memory in proportion to the data: tables of many rows under a small
Java heap, and one key whose values do not fit into a batch. Both are loaded, changed slightly, and
checked. The output is a Markdown table with the peak memory. With ``--engine local`` there is no
Spark, and limits are set for that much memory (`memory_here`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import deltaproduce as dp
from benchmarks import memory_here, w1
from benchmarks.measures import Processes, measured
from benchmarks.runs import say
from benchmarks.workload import digest

CHANGED: Final = 1_000
_MIB: Final = 1 << 20


def main(arguments: Sequence[str]) -> int:
    """Load, change and check; return 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--rows", type=int, default=30_000_000, help="of the large tables")
    parser.add_argument("--giant", type=int, default=5_000_000, help="values of the one key")
    parser.add_argument("--memory", default="2g", help="of the Java process, or of a machine")
    parser.add_argument("--engine", choices=("spark", "local"), default="spark")
    parser.add_argument("--directory", help="where to work; a temporary one if none")
    given = parser.parse_args(arguments)
    if given.engine == "local":
        return _without_spark(given)
    with (
        tempfile.TemporaryDirectory(dir=given.directory) as directory,
        dp.local_session(memory=given.memory) as spark,
    ):
        say(f"Java heap {given.memory}; peaks of all processes together\n")
        say("| what | rows | seconds | peak MiB | right |")
        say("| --- | ---: | ---: | ---: | --- |")
        right = [
            *giant_key(spark, Path(directory, "giant"), given.giant),
            *large_tables(spark, Path(directory, "large"), given.rows),
        ]
    return int(not all(right))


def _without_spark(given: argparse.Namespace) -> int:
    limits = memory_here.limits_of(_bytes(given.memory))
    with tempfile.TemporaryDirectory(dir=given.directory) as directory:
        say(f"limits of {given.memory}; peaks of all processes together, without mapped files\n")
        say("| what | rows | seconds | peak MiB | right |")
        say("| --- | ---: | ---: | ---: | --- |")
        right = [
            *memory_here.giant_key(Path(directory, "giant"), given.giant, CHANGED, limits),
            *memory_here.large_tables(Path(directory, "large"), given.rows, CHANGED, limits),
        ]
    return int(not all(right))


def _bytes(said: str) -> int:
    """Read a number of bytes in Java's form: ``2g``, ``400m``."""
    return int(said[:-1]) << {"m": 20, "g": 30}[said[-1]]


def giant_key(spark: SparkSession, place: Path, rows: int) -> Iterator[bool]:
    """Load and change one giant key, which the next stage reads through; yield if it is right."""
    store = dp.Store(spark, str(place), memory_here.giant())

    def is_right() -> bool:
        expected = store.content("numbers").agg(f.sum("v")).first()
        return store.content("total").select("total").first() == expected

    ids = spark.range(rows).withColumnRenamed("id", "n")
    loaded = ids.withColumn("v", f.col("n") % 1_000)
    changed = ids.where(f.col("n") % (rows // CHANGED) == 1).withColumn("v", f.lit(-1))
    for what, batch in (("a giant key: load", loaded), ("a giant key: 1,000 changed", changed)):
        yield _measured(what, place, store, "numbers", batch, rows, is_right)


def large_tables(spark: SparkSession, place: Path, rows: int) -> Iterator[bool]:
    """Load and change large content, key mappings and updates; yield if they are right."""
    workload = w1.workload(1)
    store = dp.Store(spark, str(place), workload.pipeline(0))

    def is_right() -> bool:
        orders = store.content("orders").select(*w1.ORDERS.columns)
        expected = digest(workload.derived("orders_by_customer", orders))
        found = store.content("orders_by_customer").select(*w1.BY_CUSTOMER.columns)
        mapped = store.key_mappings("orders_by_customer").count()
        return digest(found) == expected and mapped == found.count()

    batches = {"load": workload.rows(spark, rows)}
    batches |= {
        f"1,000 changed, {number}": workload.changes(spark, rows, CHANGED, number)
        for number in (1, 2)
    }
    for what, batch in batches.items():
        yield _measured(f"a large table: {what}", place, store, "orders", batch, rows, is_right)


def _measured(
    what: str,
    place: Path,
    store: dp.Store,
    source: str,
    batch: DataFrame,
    rows: int,
    is_right: Callable[[], bool],
) -> bool:
    step = measured(lambda: store.update({source: batch}), place, Processes())
    right = is_right()
    peak = step.peak_memory_bytes // _MIB
    say(f"| {what} | {rows:,} | {step.seconds:.1f} | {peak:,} | {'yes' if right else 'no'} |")
    return right


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
