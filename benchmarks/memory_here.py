"""The cases of `memory` for a store without a session, with the limits of a small machine.

Measures memory that the system cannot drop (it can drop pages of mapped files), over all processes
together. It is sampled: the system's own limits count what allocators reserve and never use.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import deltaproduce as dp
from benchmarks.measures import Processes, measured
from benchmarks.runs import say
from deltaproduce import agg

_MIB: Final = 1 << 20
_SHARE: Final = 48
"""Limits are the defaults of a machine with this much memory."""
_ROW_BYTES: Final = 1_500
_BATCH_ROWS: Final = 100_000
_CUSTOMER_ORDERS: Final = 10


def limits_of(memory: int) -> dp.Limits:
    """Return the limits of a machine with this much memory."""
    return dp.Limits(local_bytes=memory // _SHARE, local_rows=memory // _ROW_BYTES)


def giant() -> dp.Pipeline:
    """Return a pipeline that gathers all values under one key, which the next stage reads."""
    pipeline = dp.Pipeline("giant")
    numbers = pipeline.source("numbers", key="n bigint", value="v bigint")

    @pipeline.producer(numbers, key="k int", value="n bigint, v bigint")
    def together(n: int, values: Iterator[int]) -> Iterator[Any]:
        for v in values:
            yield 0, (n, v)

    @pipeline.producer(together, key="k int", value="total bigint")
    def total(k: int, values: Iterator[Any]) -> Iterator[Any]:
        yield k, sum(value.v for value in values)

    return pipeline


def giant_key(place: Path, rows: int, changed: int, limits: dp.Limits) -> Iterator[bool]:
    """Load and change the giant key; yield if it is right."""
    every = max(rows // changed, 1)
    steps = {
        "a giant key: load": (range(rows), lambda n: n % 1_000),
        f"a giant key: {changed:,} changed": (range(1, rows, every), lambda n: n * 0 - 1),
    }
    with dp.Store(None, str(place), giant(), limits=limits) as store:
        for what, (found, value) in steps.items():
            columns = {"n": lambda n: n, "v": value}
            yield _measured(what, place, store, "numbers", _reader(found, columns), "v", "total")


def large() -> dp.Pipeline:
    """Return a pipeline of orders by customer, and each customer's total."""
    pipeline = dp.Pipeline("large")
    orders = pipeline.source("orders", key="n bigint", value="customer bigint, amount bigint")

    @pipeline.producer(orders, key="customer bigint", value="n bigint, amount bigint")
    def by_customer(n: int, values: Iterator[Any]) -> Iterator[Any]:
        for value in values:
            yield value.customer, (n, value.amount)

    pipeline.aggregate("totals", by_customer, key="customer", values={"total": agg.sum("amount")})
    return pipeline


def large_tables(place: Path, rows: int, changed: int, limits: dp.Limits) -> Iterator[bool]:
    """Load and change orders by customer and totals; yield if they are right."""
    customers, every = max(rows // _CUSTOMER_ORDERS, 1), max(rows // changed, 1)
    steps = {
        "a large table: load": (range(rows), lambda n: n % 1_000),
        f"a large table: {changed:,} changed": (range(1, rows, every), lambda n: n * 0 - 1),
    }
    with dp.Store(None, str(place), large(), limits=limits) as store:
        for what, (found, amount) in steps.items():
            columns = {
                "n": lambda n: n,
                "customer": lambda n: n * 7_919 % customers,
                "amount": amount,
            }
            batches = _reader(found, columns)
            yield _measured(what, place, store, "orders", batches, "amount", "totals")


def _reader(numbers: range, columns: dict[str, Any]) -> pa.RecordBatchReader:
    """Return a reader that generates the rows of these numbers as they are read."""
    schema = pa.schema([(name, pa.int64()) for name in columns])

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(numbers), _BATCH_ROWS):
            some = numbers[start : start + _BATCH_ROWS]
            n = np.arange(some.start, some.stop, some.step)
            yield pa.record_batch([made(n) for made in columns.values()], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _measured(
    what: str,
    place: Path,
    store: dp.Store,
    source: str,
    batches: pa.RecordBatchReader,
    value: str,
    stage: str,
) -> bool:
    step = measured(lambda: store.update({source: batches}), place, Processes(), own=True)
    content: Any = store.content(source)
    right = pc.sum(content[value]) == pc.sum(store.content(stage)["total"])
    peak, told = step.peak_memory_bytes // _MIB, "yes" if right else "no"
    say(f"| {what} | {len(content):,} | {step.seconds:.1f} | {peak:,} | {told} |")
    return bool(right)
