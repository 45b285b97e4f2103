"""W1, orders -> orders by customer -> totals -> bands: what a version costs, and what a recompute.

``python benchmarks/orders.py --rows 1000000 --changed 1000`` prints a JSON object: seconds and
Spark jobs of the first load, of incremental versions (the first two warm the session and do not
count), of a no-op batch, of a refresh of all stages, of a load anew, and of the last version's
stages.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import deltaproduce as dp

WARM_UP, MEASURED = 2, 5

w1 = dp.Pipeline("w1")
orders = w1.source(
    "orders", key="order_id bigint", value="customer_id bigint, amount decimal(12,2)"
)


@w1.producer(orders, key="customer_id bigint", value="order_id bigint, amount decimal(12,2)")
def orders_by_customer(order_id: int, values: Iterator[Any]) -> Iterator[Any]:
    """The re-key."""
    for value in values:
        yield value.customer_id, (order_id, value.amount)


@w1.producer(orders_by_customer, key="customer_id bigint", value="total decimal(22,2)")
def customer_totals(customer_id: int, values: Iterator[Any]) -> Iterator[Any]:
    """The reduce."""
    yield customer_id, sum((value.amount for value in values), Decimal(0))


@w1.producer(customer_totals, key="band int", value="customer_id bigint, total decimal(22,2)")
def customers_by_band(customer_id: int, totals: Iterator[Decimal]) -> Iterator[Any]:
    """The second re-key, to a few large keys."""
    for total in totals:
        yield int(total // 1000), (customer_id, total)


class Clock:
    """Seconds and Spark jobs of calls, one after the other."""

    def __init__(self, spark: SparkSession) -> None:
        self._tracker = spark.sparkContext.statusTracker()

    def time(self, call: Callable[[], Any]) -> tuple[Any, float, int]:
        """The result of a call, its seconds and its jobs (of any thread)."""
        jobs, started = self._jobs(), time.perf_counter()
        result = call()
        return result, round(time.perf_counter() - started, 2), self._jobs() - jobs

    def _jobs(self) -> int:
        return max(self._tracker.getJobIdsForGroup(None), default=-1)


def rows(spark: SparkSession, count: int) -> DataFrame:
    """Orders 0 to ``count``, ten a customer, spread over all of them."""
    return spark.range(count).select(
        f.col("id").alias("order_id"),
        (f.col("id") % (count // 10)).alias("customer_id"),
        (f.col("id") % 1000).cast("decimal(12,2)").alias("amount"),
    )


def changed(spark: SparkSession, count: int, keys: int, number: int) -> DataFrame:
    """``keys`` of the orders, spread over all, each with another amount and customer."""
    every = count // keys
    picked = rows(spark, count).where(f.col("order_id") % every == number % every)
    return picked.select(
        "order_id",
        ((f.col("customer_id") + number) % (count // 10)).alias("customer_id"),
        (f.col("amount") + number).cast("decimal(12,2)").alias("amount"),
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changed", type=int, default=1_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as location, dp.local_session(memory="6g") as spark:
        print(json.dumps(measure(spark, location, options.rows, options.changed), indent=2))


def measure(spark: SparkSession, location: str, count: int, keys: int) -> dict[str, Any]:
    """All figures of one size."""
    clock, store = Clock(spark), dp.Store(spark, f"{location}/w1", w1)
    _, load, load_jobs = clock.time(lambda: store.update({"orders": rows(spark, count)}))
    steps = []
    for number in range(1, WARM_UP + MEASURED + 1):
        batch = changed(spark, count, keys, number)
        steps.append(clock.time(lambda batch=batch: store.update({"orders": batch})))
    version, _, jobs = steps[-1]
    batch = changed(spark, count, keys, WARM_UP + MEASURED)
    _, no_op, no_op_jobs = clock.time(lambda: store.update({"orders": batch}))
    _, refresh, refresh_jobs = clock.time(store.refresh)
    final = store.content("orders").select("order_id", "customer_id", "amount")
    anew = dp.Store(spark, f"{location}/anew", w1)
    _, recompute, recompute_jobs = clock.time(lambda: anew.update({"orders": final}))
    return {
        "rows": count,
        "changed": keys,
        "first load": {"seconds": load, "jobs": load_jobs},
        "incremental version, median": {
            "seconds": statistics.median(seconds for _, seconds, _ in steps[WARM_UP:]),
            "jobs": jobs,
        },
        "no-op batch": {"seconds": no_op, "jobs": no_op_jobs},
        "refresh of all stages": {"seconds": refresh, "jobs": refresh_jobs},
        "load of the final rows anew, warm": {"seconds": recompute, "jobs": recompute_jobs},
        "stages of the last version": {
            name: {
                "mode": figures.mode,
                "affected keys": figures.affected_keys,
                "changed keys": figures.changed_keys,
                "seconds": figures.seconds,
            }
            for name, figures in version.stages.items()
        },
    }


if __name__ == "__main__":
    main()
