"""``python -m benchmarks.growth``: what a small version costs in a store of 1, 10 and 100 TB.

A small version of a large store reads two things: the list of all files, and the files of the keys
that changed. So here a real store of a million orders gets the list of a large one. Each table's
log names as many more files as a table of that size has, with the statistics that the library
writes, of keys that come after all others. None of these files exists, so a version that opened one
would fail. Each size has a process of its own, whose first version opens all tables. Results are
checked. The output is a Markdown table.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import numpy as np
import psutil
import pyarrow as pa
from deltalake import DeltaTable

import deltaproduce as dp
from benchmarks.flatness import changes, orders
from benchmarks.memory_here import large
from benchmarks.runs import say
from benchmarks.tables import table
from deltaproduce.engines.delta.tables import ROWS_PER_FILE

FILE_BYTES: Final = 128 << 20
"""The size of a full file whose rows have 268 bytes: a terabyte has 8,192 of them."""
FILES: Final = (0, 8_192, 81_920, 819_200)
_MIB: Final = 1 << 20
_TIB: Final = 1 << 40
_HEADER: Final = (
    "files a table",
    "million rows",
    "TiB a table",
    "log MiB",
    "open s",
    "first version s",
    "next versions s, median",
    "slowest",
    "of it processor s",
    "memory MiB",
)


@dataclass(frozen=True, slots=True)
class Cost:
    """What versions cost in one process.

    Attributes:
        opening: seconds to open the store.
        versions: seconds of each version.
        processor: processor seconds of each version.
        memory: bytes that the process has at the end and the system cannot drop.
        right: whether the rows at the end are those of the changes.
    """

    opening: float
    versions: Sequence[float]
    processor: Sequence[float]
    memory: int
    right: bool


def main(arguments: Sequence[str]) -> int:
    """Measure each size; return 1 if a store is wrong at the end."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="orders that exist")
    parser.add_argument("--changed", type=int, default=1_000, help="orders of a version")
    parser.add_argument("--versions", type=int, default=12, help="in a process")
    parser.add_argument("--files", type=_numbers, default=FILES, help="more files a table")
    parser.add_argument("--directory", help="where to work; a temporary one if none")
    given = parser.parse_args(arguments)
    lines: list[list[str]] = []
    with tempfile.TemporaryDirectory(dir=given.directory) as directory:
        base = Path(directory, "base")
        with dp.Store(None, str(base), large()) as store:
            store.load({"orders": orders(np.arange(given.rows), given.rows, 0)})
        for files in given.files:
            place = Path(directory, f"{files}")
            shutil.copytree(base, place)
            for log in place.glob("*/*/_delta_log"):
                _name_more(log, files)
            logs = sum(path.stat().st_size for path in place.rglob("*.checkpoint.parquet"))
            with ProcessPoolExecutor(1, get_context("spawn")) as process:
                work = process.submit(
                    _measured, str(place), given.rows, given.changed, given.versions
                )
                cost = work.result()
            lines.append(_line(files, logs, cost))
            if not cost.right:
                say(f"WRONG with {files:,} files")
                return 1
            shutil.rmtree(place)
    say(f"{given.changed:,} of {given.rows:,} orders a version, three stages\n")
    for line in table(_HEADER, lines):
        say(line)
    return 0


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def _name_more(log: Path, files: int) -> None:
    """Let a table's first commit name more files, of keys after all others, and checkpoint it."""
    commit = log / f"{0:020}.json"
    text = commit.read_text()
    actions = [json.loads(line) for line in text.splitlines()]
    add = next(action["add"] for action in actions if "add" in action)
    known = json.loads(add["stats"])
    with commit.open("a") as file:
        for number in range(1, files + 1):
            first = number << 32
            ends = {"minValues": first, "maxValues": first + ROWS_PER_FILE}
            stats = known | {"numRecords": ROWS_PER_FILE}
            stats |= {name: _moved(known[name], end) for name, end in ends.items()}
            path = f"part-{number:05}-00000000-0000-4000-8000-{number:012}-c000.snappy.parquet"
            more = add | {"path": path, "size": FILE_BYTES, "stats": json.dumps(stats)}
            file.write(json.dumps({"add": more}) + "\n")
    DeltaTable(str(log.parent)).create_checkpoint()


def _moved(ends: dict[str, int], end: int) -> dict[str, int]:
    """Return the ends of a file's columns, of keys elsewhere; versions stay."""
    return {name: value if name == "_version" else end for name, value in ends.items()}


def _measured(place: str, rows: int, changed: int, versions: int) -> Cost:
    """Open a store and make versions of it, in a process of their own."""
    seconds, processor = [], []
    known = orders(np.arange(rows), rows, 0)
    batches = [changes(rows, changed, number) for number in range(1, versions + 1)]
    started = time.perf_counter()
    with dp.Store(None, place, large()) as store:
        opening = time.perf_counter() - started
        for batch in batches:
            store.wait()
            started, used = time.perf_counter(), time.process_time()
            store.update({"orders": batch})
            seconds.append(time.perf_counter() - started)
            processor.append(time.process_time() - used)
        memory = psutil.Process().memory_info()
        right = _is_right(store, known, batches)
    return Cost(opening, seconds, processor, memory.rss - memory.shared, right)


def _is_right(store: dp.Store, known: pa.Table, batches: Sequence[pa.Table]) -> bool:
    """Return whether the totals of the last batch's customers are those of all orders."""
    customers, amounts = (known[name].to_numpy().copy() for name in ("customer", "amount"))
    for batch in batches:
        numbers = batch["n"].to_numpy()
        customers[numbers] = batch["customer"].to_numpy()
        gone = batch["_change_type"].to_numpy(zero_copy_only=False) == "delete"
        amounts[numbers] = np.where(gone, 0, batch["amount"].to_numpy())
        customers[numbers[gone]] = -1
    touched = np.unique(batches[-1]["customer"].to_numpy())
    sums = np.bincount(customers + 1, amounts)[touched + 1].astype(np.int64)
    there = np.isin(touched, customers)
    found = store.lookup("totals", pa.table({"customer": touched}), ordered=True).rows
    expected = pa.table({"customer": touched[there], "total": sums[there]})
    return bool(found.select(["customer", "total"]).equals(expected))


def _line(files: int, logs: int, cost: Cost) -> list[str]:
    later, used = cost.versions[1:], cost.processor[1:]
    return [
        f"{files:,}",
        f"{files * ROWS_PER_FILE // 10**6:,}",
        f"{files * FILE_BYTES / _TIB:,.0f}",
        f"{logs / _MIB:,.1f}",
        f"{cost.opening:.2f}",
        f"{cost.versions[0]:.2f}",
        f"{statistics.median(later):.3f}",
        f"{max(later):.2f}",
        f"{statistics.median(used):.3f}",
        f"{cost.memory / _MIB:,.0f}",
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
