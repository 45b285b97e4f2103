"""``python -m benchmarks.flatness``: many versions in one process, and the resources they hold.

A version must cost what the first one did, and leave nothing behind: no memory of Python or Java,
no thread, file handle, or temporary or block file. Each version comes from a batch of changed
orders, one after another. The output is a Markdown table with a line for each tenth of them. The
store's contents are checked at the end.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

import deltaproduce as dp
from benchmarks.memory_here import large
from benchmarks.runs import say
from benchmarks.tables import table

PARTS: Final = 10
_CUSTOMER_ORDERS: Final = 10
_MIB: Final = 1 << 20
_DELETED: Final = 10
"""One in this many changed orders is deleted."""


@dataclass(frozen=True, slots=True)
class Use:
    """The resources that this process and its children hold at one moment.

    Attributes:
        python: bytes of this process's memory, without what the system can drop.
        workers: the same for the Python processes that it started.
        java: the same for the Java process.
        threads: threads of this process.
        handles: open files of this process.
        temporary: temporary files, including Spark's blocks.
        stored: files of the store.
    """

    python: int
    workers: int
    java: int
    threads: int
    handles: int
    temporary: int
    stored: int

    @classmethod
    def now(cls, temporary: Path, store: Path) -> Use:
        """Measure the current use."""
        this = psutil.Process()
        started = this.children(recursive=True)
        java = [process for process in started if process.name() == "java"]
        workers = [process for process in started if process.name().startswith("python")]
        return cls(
            python=_bytes([this]),
            workers=_bytes(workers),
            java=_bytes(java),
            threads=this.num_threads(),
            handles=this.num_fds(),
            temporary=_files(temporary),
            stored=_files(store),
        )


def main(arguments: Sequence[str]) -> int:
    """Run the versions; return 1 if the store is wrong at the end."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flatness", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="orders at first")
    parser.add_argument("--changed", type=int, default=10, help="orders of a version")
    parser.add_argument("--versions", type=int, default=1_000)
    parser.add_argument("--engine", choices=("spark", "local"), default="local")
    parser.add_argument("--memory", default="4g", help="of the Java process")
    parser.add_argument("--directory", help="where to work; a temporary one if none")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=given.directory) as directory:
        temporary = Path(directory, "temporary")
        temporary.mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
        session = None
        if given.engine == "spark":
            config = {"spark.local.dir": str(temporary)}
            session = dp.local_session(memory=given.memory, config=config)
        return int(not _series(session, given, temporary, Path(directory, "store")))


def _series(
    session: SparkSession | None, given: argparse.Namespace, temporary: Path, place: Path
) -> bool:
    """Run the versions and report them; return whether the store is right at the end."""
    seconds: list[float] = []
    uses: list[Use] = []
    with dp.Store(session, str(place), large()) as store:
        store.update({"orders": orders(np.arange(given.rows), given.rows, 0)})
        for number in range(1, given.versions + 1):
            batch = changes(given.rows, given.changed, number)
            started = time.perf_counter()
            store.update({"orders": batch})
            seconds.append(time.perf_counter() - started)
            if number % max(1, given.versions // PARTS) == 0:
                store.wait()
                uses.append(Use.now(temporary, place))
        right = _is_right(store)
    say(
        f"{given.engine}: {given.versions:,} versions, {given.changed:,} of {given.rows:,} orders\n"
    )
    for line in table(_HEADER, _lines(seconds, uses)):
        say(line)
    say("The store is right." if right else "The store is WRONG.")
    return right


_HEADER: Final = (
    "versions",
    "seconds, median",
    "slowest",
    "Python MiB",
    "workers MiB",
    "Java MiB",
    "threads",
    "file handles",
    "temporary files",
    "stored files",
)


def _lines(seconds: Sequence[float], uses: Sequence[Use]) -> list[list[str]]:
    size = len(seconds) // len(uses)
    return [
        [
            f"{(part + 1) * size:,}",
            f"{statistics.median(seconds[part * size : (part + 1) * size]):.3f}",
            f"{max(seconds[part * size : (part + 1) * size]):.2f}",
            *(f"{held // _MIB:,}" for held in (use.python, use.workers, use.java)),
            *(f"{held:,}" for held in (use.threads, use.handles, use.temporary, use.stored)),
        ]
        for part, use in enumerate(uses)
    ]


def orders(numbers: np.ndarray[Any, Any], rows: int, version: int) -> pa.Table:
    """Return orders with their customers and amounts as of a version."""
    customers = max(1, rows // _CUSTOMER_ORDERS)
    return pa.table(
        {
            "n": pa.array(numbers, pa.int64()),
            "customer": pa.array(
                (numbers * 7_919 + version * (numbers % 2)) % customers, pa.int64()
            ),
            "amount": pa.array((numbers * 31 + version * 17) % 1_000, pa.int64()),
        }
    )


def changes(rows: int, changed: int, version: int) -> pa.Table:
    """Return changes: other amounts, other customers for half of them, one in ten deleted."""
    numbers = np.random.default_rng(version).choice(rows, changed, replace=False)
    gone = pa.array(numbers % _DELETED == version % _DELETED)
    kinds = pc.if_else(gone, "delete", "upsert")
    return orders(numbers, rows, version).append_column("_change_type", kinds)


def _is_right(store: dp.Store) -> bool:
    """Return whether customers' totals equal those of their orders, by Arrow alone."""
    rows, totals = (_rows(store.content(stage)) for stage in ("orders", "totals"))
    expected = rows.group_by("customer").aggregate([("amount", "sum")])
    expected = expected.rename_columns(["customer", "total"]).sort_by("customer")
    return bool(totals.select(["customer", "total"]).sort_by("customer").equals(expected))


def _rows(content: Any) -> pa.Table:  # noqa: ANN401 a table, or a DataFrame
    return content if isinstance(content, pa.Table) else content.toArrow()


def _bytes(processes: Sequence[psutil.Process]) -> int:
    found = [process.memory_info() for process in processes]
    return sum(memory.rss - memory.shared for memory in found)


def _files(directory: Path) -> int:
    return sum(path.is_file() for path in directory.rglob("*"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
