"""W1: orders -> orders by customer -> totals -> bands. The data, the pipeline, the right answer.

Each row is a function of its number and of the step's, so that all competitors get the same rows
whatever order they run in. Customers are a hash of the order's number, so that changed orders hit
customers, and files, all over the tables.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import deltaproduce as dp

STAGES: Final = ("orders_by_customer", "customer_totals", "customers_by_band")
COLUMNS: Final = {
    "orders": ("order_id", "customer_id", "amount"),
    "orders_by_customer": ("customer_id", "order_id", "amount"),
    "customer_totals": ("customer_id", "total"),
    "customers_by_band": ("band", "customer_id", "total"),
}
ORDERS_A_CUSTOMER: Final = 10
BAND: Final = 1000
"""A band is this much of a total; a total is about 5,000, so bands are few and large."""

_EVERY_DELETED: Final = 10


def pipeline(stages: int = len(STAGES)) -> dp.Pipeline:
    """W1 up to one of its stages. The functions are nested, so workers need not import them."""
    w1 = dp.Pipeline("w1")
    orders = w1.source(
        "orders", key="order_id bigint", value="customer_id bigint, amount decimal(12,2)"
    )

    @w1.producer(orders, key="customer_id bigint", value="order_id bigint, amount decimal(12,2)")
    def orders_by_customer(order_id: int, values: Iterator[Any]) -> Iterator[Any]:
        for value in values:
            yield value.customer_id, (order_id, value.amount)

    if stages == 1:
        return w1

    @w1.producer(orders_by_customer, key="customer_id bigint", value="total decimal(22,2)")
    def customer_totals(customer_id: int, values: Iterator[Any]) -> Iterator[Any]:
        yield customer_id, sum((value.amount for value in values), Decimal(0))

    if stages == 2:
        return w1

    @w1.producer(customer_totals, key="band int", value="customer_id bigint, total decimal(22,2)")
    def customers_by_band(customer_id: int, totals: Iterator[Decimal]) -> Iterator[Any]:
        for total in totals:
            yield int(total // BAND), (customer_id, total)

    return w1


def orders(spark: SparkSession, count: int) -> DataFrame:
    """Orders 0 to ``count``."""
    return _orders(spark.range(count).withColumnRenamed("id", "order_id"), count, 0)


def changes(spark: SparkSession, count: int, keys: int, step: int) -> DataFrame:
    """Changes of ``keys`` orders, spread evenly over all of them, others in each step.

    Each order gets another amount and, every second one, another customer; one in ten is deleted.
    The columns are those of the orders and ``_change_type``.
    """
    spread = count // keys
    picked = spark.range(keys).select(
        (f.col("id") * spread + (step * 7919) % spread).alias("order_id"),
        f.when(f.col("id") % _EVERY_DELETED == step % _EVERY_DELETED, "delete")
        .otherwise("upsert")
        .alias("_change_type"),
    )
    return _orders(picked, count, step)


def _orders(ids: DataFrame, count: int, step: int) -> DataFrame:
    customers = max(1, count // ORDERS_A_CUSTOMER)
    moves = f.when(f.col("order_id") % 2 == 0, f.lit(step)).otherwise(f.lit(0))
    return ids.withColumns(
        {
            "customer_id": f.pmod(f.xxhash64("order_id", moves), f.lit(customers)),
            "amount": (f.pmod(f.xxhash64("order_id", f.lit(-step)), f.lit(100_000)) / 100).cast(
                "decimal(12,2)"
            ),
        }
    )


def derived(stage: str, feeder: DataFrame) -> DataFrame:
    """A stage's rows as a DataFrame query over its feeder's rows: what a full recompute does."""
    match stage:
        case "orders_by_customer":
            return feeder.select(*COLUMNS[stage])
        case "customer_totals":
            total = f.sum("amount").cast("decimal(22,2)").alias("total")
            return feeder.groupBy("customer_id").agg(total)
        case _:
            band = f.floor(f.col("total") / BAND).cast("int").alias("band")
            return feeder.select(band, "customer_id", "total")


def digest(rows: DataFrame) -> tuple[int, int]:
    """The number of rows and a sum of their hashes: equal for equal multisets of rows."""
    hashed = rows.select(f.xxhash64(*rows.columns).cast("decimal(38,0)").alias("hash"))
    found = hashed.agg(f.count("*").alias("rows"), f.sum("hash").alias("hashes")).collect()[0]
    return found["rows"], int(found["hashes"] or 0)
