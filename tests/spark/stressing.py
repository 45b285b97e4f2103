"""Concurrent writers and readers of one store, each in its own process, with both engines.

The id of a version names its batch, and a number determines a batch. So the list of versions
determines what every table must have held at each. `main` is one of the processes: it prints what
it met, line by line, and judges nothing.
"""

import hashlib
import json
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
from comparing import TABLES
from crashing import drawn, frames, orders
from limiting import limit
from local_stores import tuples
from pyspark.sql import SparkSession

from deltaproduce import ConflictError, Progress, Store, local_session
from deltaproduce.engines.engine import Rows
from deltaproduce.model.layouts import Layout
from deltaproduce.testing import Oracle, plain_rows
from deltaproduce.types.columns import Columns

LIMITS = {"small_table_rows": 0, "replaced_percent": 900, "compaction_commits": 4}
"""Tables are written by runs, and compacted while writers and readers are at it."""

IN_SPARK, ALONE = "in Spark", "alone"
"""Engines: nothing is done on the driver, or there is no session."""

READ = [("orders", table) for table in TABLES if table != "key_mappings"]
READ += [("by_customer", table) for table in TABLES]
"""All tables: stage and kind."""

Read = tuple[int, str, str, str]
"""What a reader found: version, stage, kind, and a digest of the rows in order."""


def digest(rows: Sequence[tuple[Any, ...]]) -> str:
    """What stands for rows."""
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def write(spark: SparkSession | None, location: str, first: int, step: int, versions: int) -> None:
    """Publish batches ``first``, ``first + step``, … below ``versions``; say attempts of each.

    A quick writer does not run ahead of a slow one: they meet at every version.
    """
    attempts = [0]

    def progress(progress: Progress) -> None:
        begins = progress.event == "begins" and not progress.phase
        attempts[0] += begins and progress.done == 0 and progress.stage != "commit"

    store = Store(spark, location, orders(), on_conflict="retry", progress=progress)
    for number in range(first, versions, step):
        attempts[0], given_up = 0, 0
        while store.head.number < number - step:
            time.sleep(0.01)
        while True:
            try:
                store.update(frames(spark, drawn(number)), f"update {number}")
                break
            except ConflictError:  # after many attempts
                given_up += 1
        say("wrote", number, attempts[0], given_up)
    store.wait()


def read(
    spark: SparkSession | None, location: str, seed: int, versions: int, seconds: float
) -> None:
    """Read all tables of the newest version, and of an older one, until there are so many."""
    store, draw, head = Store(spark, location, orders()), random.Random(seed), 0
    until = time.monotonic() + seconds
    while head < versions and time.monotonic() < until:
        head = store.head.number
        for version in {head, draw.randint(0, head)}:
            for stage, kind in READ:
                rows = getattr(store, kind)(stage, version, ordered=True)
                say("read", version, stage, kind, digest(plain_rows(_rows(rows, stage, kind))))


def _rows(rows: Rows, stage: str, kind: str) -> Sequence[Any]:
    if not isinstance(rows, pa.Table):
        return rows.collect()
    layout = Layout.of(orders().graph().stage(stage))
    return tuples(rows, Columns(tuple(layout.columns(kind))))


def expected(update_ids: Sequence[str | None]) -> Iterator[Read]:
    """What each table holds at each version, if the versions are those of these updates."""
    oracle = Oracle(orders())
    for number, update_id in enumerate([None, *update_ids]):
        if update_id is not None:
            assert oracle.update(drawn(int(update_id.removeprefix("update "))), update_id) == number
        for stage, kind in READ:
            yield number, stage, kind, digest(getattr(oracle, kind)(stage, number))


def say(*what: object) -> None:
    """Tell whoever watches."""
    print(json.dumps(what), flush=True)


def main(role: str, engine: str, settings: str, location: str, *numbers: str) -> None:
    """Be a writer or a reader."""
    limit(**LIMITS, **({"local_rows": 0} if engine == IN_SPARK else {}))
    if role == "read":
        os.nice(10)  # with its Java process: writers come first, or versions would be few
    with ExitStack() as ends:
        spark = None
        if engine == IN_SPARK:
            config = json.loads(settings)
            spark = ends.enter_context(
                local_session("stressing", cores=1, memory="2g", config=config)
            )
            spark.conf.set("spark.sql.shuffle.partitions", "1")
        {"write": write, "read": read}[role](spark, location, *map(int, numbers))
        say("ended")


if __name__ == "__main__":
    main(*sys.argv[1:])
