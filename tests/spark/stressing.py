"""Writers and readers of one store at the same time, each checked against the oracle.

Which batch a version has is in its id, and a batch follows from its number, so that every reader
has an oracle of its own. `main` is one process of several.
"""

import json
import random
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from comparing import TABLES
from crashing import batch, frames, orders
from pyspark.sql import SparkSession

from deltaproduce import ConflictError, Store, limits, local_session
from deltaproduce.testing import Change, Oracle, plain_rows

LIMITS = {"SMALL_TABLE_ROWS": 0, "COMPACTION_COMMITS": 4}
"""Tables are written by runs, and compacted while writers and readers are at it."""


@dataclass(slots=True)
class Figures:
    """What writers and readers met.

    Attributes:
        conflicts: how often another writer was faster.
        reads: how many tables have been read at a version and found right.
        violations: what was not.
    """

    conflicts: int
    reads: int
    violations: list[str]


def changes(writer: str, number: int) -> dict[str, Sequence[Change]]:
    """A writer's batch of a number."""
    drawn = random.Random(f"{writer} {number}")
    found = []
    for order in drawn.sample(range(8), 3):
        changed = (order, drawn.randrange(4), drawn.randrange(100))
        found.append(changed if drawn.random() < 0.8 else (order,))
    return batch(*found)


def write(store: Store, spark: SparkSession, writer: str, count: int, figures: Figures) -> None:
    """Publish so many batches, each once."""
    for number in range(count):
        given, update_id = frames(spark, changes(writer, number)), f"{writer} {number}"
        try:
            store.update(given, update_id)
        except ConflictError as conflict:
            figures.conflicts += 1
            if conflict.attempt is None or conflict.started_at is None:
                figures.violations.append(f"nobody is named: {conflict}")
            store.update(given, update_id, on_conflict="retry")
    store.wait()


def read(store: Store, seed: int, versions: int, ended: threading.Event, figures: Figures) -> None:
    """Read tables of the newest version, and of older ones, until there are so many."""
    oracle, drawn = Oracle(orders()), random.Random(seed)
    while oracle.head < versions and not ended.is_set():
        for version in store.versions()[oracle.head :]:
            assert version.update_id is not None
            writer, number = version.update_id.rsplit(maxsplit=1)
            oracle.update(changes(writer, int(number)), version.update_id)
        for number in {oracle.head, drawn.randint(0, oracle.head)}:
            stage = drawn.choice(["orders", "by_customer"])
            table = drawn.choice([t for t in TABLES if t != "key_mappings" or stage != "orders"])
            found = plain_rows(getattr(store, table)(stage, number, ordered=True).collect())
            figures.reads += 1
            if found != plain_rows(getattr(oracle, table)(stage, number)):
                figures.violations.append(f"{table} of {stage} at {number}: {found}")


def run(
    spark: SparkSession, location: str, writers: Sequence[str], count: int, readers: int, total: int
) -> Figures:
    """Let some writers publish ``count`` batches each, and readers read all ``total`` versions."""
    figures, ended = Figures(0, 0, []), threading.Event()

    def store() -> tuple[Store, SparkSession]:
        session = spark.newSession()
        for name in ("spark.sql.shuffle.partitions", "spark.sql.codegen.wholeStage"):
            session.conf.set(name, spark.conf.get(name) or "")
        return Store(session, location, orders()), session

    def writing(writer: str) -> None:
        write(*store(), writer, count, figures)

    def reading(seed: int) -> None:
        read(store()[0], seed, total, ended, figures)

    with ThreadPoolExecutor(len(writers) + readers) as pool:
        tasks = [pool.submit(writing, writer) for writer in writers]
        tasks += [pool.submit(reading, seed) for seed in range(readers)]
        try:
            for task in tasks:
                task.result()
        finally:
            ended.set()
    return figures


def main(location: str, writer: str, count: str, readers: str, total: str, settings: str) -> None:
    """Be one of the processes, and say the figures."""
    for name, limit in LIMITS.items():
        setattr(limits, name, limit)
    spark = local_session("stressing", cores=2, memory="2g", config=json.loads(settings))
    found = run(spark, location, [writer], int(count), int(readers), int(total))
    print(json.dumps([found.conflicts, found.reads, found.violations]))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
