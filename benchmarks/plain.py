"""``python -m benchmarks.plain``: plain content against merge on read, without a session.

Both table types take the same batches, a version of one after a version of the other, so that what
else the machine does is shared. The output is a Markdown table of processor and wall time, medians
without the first version of a case, and the bytes of the stores. Processor time has that of
compactions beside the versions, and not that of worker processes. Contents are compared at the end.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

import deltaproduce as dp
from benchmarks.runs import say
from benchmarks.tables import table
from deltaproduce import agg

KEYS: Final = (10, 1_000, 100_000)
TYPES: Final[tuple[dp.TableType, ...]] = ("copy_on_write", "merge_on_read")
_CUSTOMER_ORDERS: Final = 10
_MIB: Final = 1 << 20
_HEADER: Final = (
    "orders",
    "changed",
    "table type",
    "processor ms",
    "wall ms",
    "slowest ms",
    "processor, against merge on read",
)


@dataclass(slots=True)
class Times:
    """What versions took, in seconds: each of them, one after the other."""

    processor: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    def add(self, act: Callable[[], object]) -> None:
        """Do something, and note what it took."""
        processor, wall = time.process_time(), time.perf_counter()
        act()
        self.processor.append(time.process_time() - processor)
        self.wall.append(time.perf_counter() - wall)


def pipeline() -> dp.Pipeline:
    """Return orders, orders by customer (a function), and customers' sums."""
    found = dp.Pipeline("plain")
    orders = found.source("orders", key="n bigint", value="customer bigint, amount bigint")

    @found.producer(orders, key="customer bigint", value="n bigint, amount bigint")
    def by_customer(n: int, values: Iterator[Any]) -> Iterator[Any]:
        for value in values:
            yield value.customer, (n, value.amount)

    values = {"total": agg.sum("amount"), "orders": agg.count()}
    found.aggregate("totals", orders, key="customer", values=values)
    return found


def batch(rows: int, changed: int, version: int) -> pa.Table:
    """Return orders as of a version: all of them, or some at random."""
    chosen = np.random.default_rng(version).choice(rows, changed, replace=False)
    numbers = np.arange(rows) if changed == rows else np.sort(chosen)
    customers = (numbers * 2_654_435_761 + version) % max(1, rows // _CUSTOMER_ORDERS)
    return pa.table(
        {"n": numbers, "customer": customers, "amount": (numbers * 7 + version) % 100_000}
    )


def measured(
    stores: Mapping[dp.TableType, dp.Store], rows: int, changed: int, steps: int, since: int
) -> dict[dp.TableType, Times]:
    """Return what some versions took in each store.

    Args:
        since: the number of versions that they have.
    """
    found = {name: Times() for name in stores}
    for version in range(since, since + steps + 1):
        orders = batch(rows, changed, version)
        for name, store in stores.items():
            found[name].add(lambda store=store, orders=orders: store.update({"orders": orders}))
    return found


def main(arguments: Sequence[str]) -> int:
    """Measure and report; return 1 if the stores differ at the end."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plain", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="orders")
    parser.add_argument("--changed", type=int, nargs="+", default=KEYS, help="orders of a version")
    parser.add_argument("--steps", type=int, default=20, help="versions of each case")
    parser.add_argument("--directory", help="where to work; a temporary one if none")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=given.directory) as directory:
        return int(not _compared(given, {name: Path(directory, name) for name in TYPES}))


def _compared(given: argparse.Namespace, places: Mapping[dp.TableType, Path]) -> bool:
    """Measure all cases, and report; return whether the stores are alike at the end."""
    stores = {
        name: dp.Store(None, place, pipeline(), table_type=name) for name, place in places.items()
    }
    try:
        loads = measured(stores, given.rows, given.rows, 0, 1)
        lines, since = _lines(given.rows, given.rows, loads), 2
        for changed in given.changed:
            found = measured(stores, given.rows, changed, given.steps, since)
            lines += _lines(given.rows, changed, found)
            since += given.steps + 1
        contents = [store.content("totals").sort_by("customer") for store in stores.values()]
    finally:
        for store in stores.values():
            store.close()
    for line in table(_HEADER, lines):
        say(line)
    for name, place in places.items():
        size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
        say(f"{name}: {size // _MIB:,} MiB after {since - 1:,} versions")
    alike = contents[0].equals(contents[1])
    say("The stores are alike." if alike else "The stores DIFFER.")
    return bool(alike)


def _lines(rows: int, changed: int, found: Mapping[dp.TableType, Times]) -> list[list[str]]:
    medians = {name: _median(times.processor) for name, times in found.items()}
    return [
        [
            f"{rows:,}",
            f"{changed:,}",
            name,
            f"{medians[name] * 1e3:,.0f}",
            f"{_median(times.wall) * 1e3:,.0f}",
            f"{max(times.wall) * 1e3:,.0f}",
            f"{medians[name] / medians['merge_on_read']:.2f}",
        ]
        for name, times in found.items()
    ]


def _median(seconds: Sequence[float]) -> float:
    return statistics.median(seconds[1:] or seconds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
