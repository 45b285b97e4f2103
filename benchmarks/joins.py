"""``python -m benchmarks.joins``: two large feeders that are joined, of which one changes a little.

Ours keeps content, key mappings and updates; beside it, the same tables are recomputed with
DataFrames, and merged by hand for the keys that changed. What is printed is a Markdown table with
seconds and with the bytes that all processes read.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import deltaproduce as dp
from benchmarks.measures import Processes, measured
from benchmarks.runs import say
from benchmarks.workload import digest, picked

COLUMNS: Final = ("id", "left_v", "right_v")
_MIB: Final = 1 << 20


def main(arguments: Sequence[str]) -> int:
    """Load, change and check; returns 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.joins", description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000, help="of each feeder")
    parser.add_argument("--steps", type=int, default=6, help="of each number of keys")
    parser.add_argument("--directory", help="where to work; a temporary one if none")
    given = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(dir=given.directory) as directory,
        dp.local_session(memory="8g") as spark,
    ):
        return int(not _run(spark, Path(directory), given.rows, given.steps))


def _run(spark: SparkSession, place: Path, rows: int, steps: int) -> bool:
    ours = _Ours(spark, place / "ours", rows)
    peers = {
        "join, ours": ours,
        "join, recomputed": _Recomputed(spark, place / "recomputed", ours.store),
        "join, merged by hand": _Merged(spark, place / "merged", ours.store),
    }
    say("| what | keys | seconds, median | first to last | MiB read |")
    say("| --- | ---: | ---: | --- | ---: |")
    number = 0
    for keys in (1, 1_000):
        taken: dict[str, list[Any]] = {name: [] for name in peers}
        for _ in range(steps):
            number += 1
            changes = _changes(spark, rows, keys, number)
            for name, peer in peers.items():
                call = _calling(peer.step, changes)
                taken[name].append(measured(call, peer.place, Processes()))
        for name, found in taken.items():
            last = found[len(found) // 2 :]
            seconds = sorted(step.seconds for step in last)[len(last) // 2]
            read = sorted(step.bytes_read for step in last)[len(last) // 2] / _MIB
            each = ", ".join(f"{step.seconds:.1f}" for step in found)
            say(f"| {name} | {keys:,} | {seconds:.2f} | {each} | {read:,.1f} |")
    right = {name: digest(peer.table().select(*COLUMNS)) for name, peer in peers.items()}
    say(f"\nThe tables are {'equal' if len(set(right.values())) == 1 else 'NOT equal'}.")
    return len(set(right.values())) == 1


def _calling(step: Callable[[DataFrame], None], changes: DataFrame) -> Callable[[], None]:
    return lambda: step(changes)


def _changes(spark: SparkSession, rows: int, keys: int, step: int) -> DataFrame:
    return picked(spark, rows, keys, step).select("id", f.lit(-step).cast("bigint").alias("left_v"))


class _Ours:
    def __init__(self, spark: SparkSession, place: Path, rows: int) -> None:
        pipeline = dp.Pipeline("joins")
        pipeline.source("left", key="id bigint", value="left_v bigint")
        pipeline.source("right", key="id bigint", value="right_v bigint")

        @pipeline.producer("left", "right", key="id bigint", value="left_v bigint, right_v bigint")
        def joined(key: int, left: Iterator[int], right: Iterator[int]) -> Iterator[Any]:
            found = list(right)
            for one in left:
                for other in found:
                    yield key, (one, other)

        self.place, self.store = place, dp.Store(spark, str(place), pipeline)
        ids = spark.range(rows)
        left = ids.withColumn("left_v", f.xxhash64("id"))
        right = ids.withColumn("right_v", f.xxhash64("id", f.lit(1)))
        load = measured(
            lambda: self.store.update({"left": left, "right": right}), place, Processes()
        )
        say(f"two feeders of {rows:,} rows loaded and joined in {load.seconds:.0f} s\n")

    def step(self, changes: DataFrame) -> None:
        self.store.update({"left": changes})

    def table(self) -> DataFrame:
        return self.store.content("joined")


class _ByHand:
    """The same source tables as ours, in Delta, and the join of them."""

    def __init__(self, spark: SparkSession, place: Path, store: dp.Store) -> None:
        self.spark, self.place = spark, place
        for name in ("left", "right"):
            rows = store.content(name).drop("_ordinal")
            in_order = rows.repartitionByRange("id").sortWithinPartitions("id")
            in_order.write.format("delta").save(self.path(name))
        self._join(self.read("left")).write.format("delta").save(self.path("joined"))

    def path(self, name: str) -> str:
        return str(self.place / name)

    def read(self, name: str) -> DataFrame:
        return self.spark.read.format("delta").load(self.path(name))

    def table(self) -> DataFrame:
        return self.read("joined")

    def _join(self, left: DataFrame) -> DataFrame:
        return left.join(self.read("right"), "id").select(*COLUMNS)

    def _merge(self, name: str, rows: DataFrame) -> None:
        rows.createOrReplaceTempView("merge_source")
        self.spark.sql(
            f"MERGE INTO delta.`{self.path(name)}` t USING merge_source s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )


class _Recomputed(_ByHand):
    def step(self, changes: DataFrame) -> None:
        self._merge("left", changes)
        joined = self._join(self.read("left"))
        joined.write.format("delta").mode("overwrite").save(self.path("joined"))


class _Merged(_ByHand):
    def step(self, changes: DataFrame) -> None:
        self._merge("left", changes)
        self._merge("joined", self._join(changes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
