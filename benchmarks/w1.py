"""W1: orders -> orders by customer -> totals -> bands: the workload that all competitors share.

A customer is a hash of the order's number, so changed orders hit customers, and files, all over the
tables.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import deltaproduce as dp
from benchmarks.workload import Function, Table, Workload, edition, picked
from deltaproduce import agg

ORDERS_KEY: Final = "order_id bigint"
ORDERS_VALUE: Final = "customer_id bigint, amount decimal(12,2)"
ORDERS: Final = Table(("order_id", "customer_id", "amount"), ("order_id",), ("order_id",))
BY_CUSTOMER: Final = Table(
    ("customer_id", "order_id", "amount"), ("customer_id",), ("customer_id", "order_id")
)
TOTALS: Final = Table(("customer_id", "total"), ("customer_id",), ("customer_id",))
BANDS: Final = Table(
    ("band", "customer_id", "total"), ("band", "customer_id"), ("band", "customer_id")
)
TABLES: Final = {
    "orders": ORDERS,
    "orders_by_customer": BY_CUSTOMER,
    "customer_totals": TOTALS,
    "customers_by_band": BANDS,
}
ORDERS_A_CUSTOMER: Final = 10
BAND: Final = 1000
"""The width of a band in totals; a total is about 5,000, so bands are few and large."""

QUERIES: Final = {
    "orders_by_customer": "SELECT customer_id, order_id, amount FROM {feeder}",
    "customer_totals": "SELECT customer_id, CAST(sum(amount) AS DECIMAL(22,2)) AS total "
    "FROM {feeder} GROUP BY customer_id",
    "customers_by_band": f"SELECT CAST(floor(total / {BAND}) AS INTEGER) AS band, "
    "customer_id, total FROM {feeder}",
}

_EVERY_DELETED: Final = 10


def workload(stages: int = 3) -> Workload:
    """Return W1 up to one of its stages."""
    return Workload(
        name="w1",
        what="orders by customer, their totals, and customers by band of totals",
        pipeline=lambda number: pipeline(stages, number),
        tables=dict(list(TABLES.items())[: stages + 1]),
        derived=derived,
        rows=orders,
        changes=changes,
        aggregated=lambda: aggregated(stages),
        queried=lambda: queried(stages),
        checked=lambda: checked(stages),
        queries=QUERIES,
    )


def pipeline(stages: int = 3, number: int = 0) -> dp.Pipeline:
    """Return W1's definition. The functions are nested, so workers need not import them."""
    w1, orders_by_customer = _first_stage(number)
    if stages == 1:
        return w1

    @w1.producer(orders_by_customer, key="customer_id bigint", value="total decimal(22,2)")
    @edition(number)
    def customer_totals(customer_id: int, values: Iterator[Any]) -> Iterator[Any]:
        yield customer_id, sum((value.amount for value in values), Decimal(0))

    if stages == 2:
        return w1

    @w1.producer(customer_totals, key="band int, customer_id bigint", value="total decimal(22,2)")
    @edition(number)
    def customers_by_band(customer_id: int, totals: Iterator[Decimal]) -> Iterator[Any]:
        for total in totals:
            yield (int(total // BAND), customer_id), total

    return w1


def aggregated(stages: int = 3) -> dp.Pipeline:
    """Return the same tables, with aggregates where a stage has one row a key."""
    w1, orders_by_customer = _first_stage(0)
    if stages == 1:
        return w1
    customer_totals = w1.aggregate(
        "customer_totals",
        orders_by_customer,
        key="customer_id",
        values={"total": agg.sum("amount")},
    )
    if stages == 2:
        return w1
    w1.aggregate(
        "customers_by_band",
        customer_totals,
        # No total is negative. Integers, unlike decimals, divide without Spark.
        key=f"CAST(CAST(total AS bigint) div {BAND} AS int) AS band, customer_id",
        # Over one total; a sum has ten digits more than its addends.
        values={"total": agg.sum("CAST(total AS decimal(12,2))")},
    )
    return w1


def queried(stages: int = 3) -> dp.Pipeline:
    """Return the same tables as SQL views."""
    w1 = dp.Pipeline("w1")
    feeder = w1.source("orders", key=ORDERS_KEY, value=ORDERS_VALUE).name
    for name in [*TABLES][1 : stages + 1]:
        key = ", ".join(TABLES[name].key)
        w1.sql(name, QUERIES[name].format(feeder=feeder), key=key, incremental="always")
        feeder = name
    return w1


def checked(stages: int = 3) -> dp.Pipeline:
    """Return W1's definition with ten checks, if it has all stages."""
    w1 = pipeline(stages)
    orders, by_customer, *others = w1.stages
    orders.expect(not_null="customer_id", where="amount >= 0")
    by_customer.expect(not_null="amount", unique="order_id", refers={"order_id": "orders.order_id"})
    if others:
        others[0].expect(not_null="total", unique="customer_id", where="total >= 0")
    if len(others) > 1:
        others[1].expect(unique="customer_id", where="band >= 0")
    return w1


def _first_stage(number: int) -> tuple[dp.Pipeline, dp.Producer]:
    w1 = dp.Pipeline("w1")
    orders = w1.source("orders", key=ORDERS_KEY, value=ORDERS_VALUE)
    orders_by_customer = w1.producer(
        orders, key="customer_id bigint", value="order_id bigint, amount decimal(12,2)"
    )(edition(number)(by_customer()))
    return w1, orders_by_customer


def by_customer() -> Function:
    """Return the function of the first stage: each order to its customer."""

    def orders_by_customer(order_id: int, values: Iterator[Any]) -> Iterator[Any]:
        for value in values:
            yield value.customer_id, (order_id, value.amount)

    return orders_by_customer


def orders(spark: SparkSession, count: int) -> DataFrame:
    """Return orders 0 to ``count``."""
    return order_rows(spark.range(count).withColumnRenamed("id", "order_id"), count, 0)


def changes(spark: SparkSession, count: int, keys: int, step: int) -> DataFrame:
    """Return changes: another amount, for half another customer; one order in ten is deleted."""
    gone = f.col("n") % _EVERY_DELETED == step % _EVERY_DELETED
    ids = picked(spark, count, keys, step).select(
        f.col("id").alias("order_id"),
        f.when(gone, "delete").otherwise("upsert").alias("_change_type"),
    )
    return order_rows(ids, count, step)


def order_rows(ids: DataFrame, count: int, step: int) -> DataFrame:
    """Give orders their customers and amounts as of a step."""
    customers = max(1, count // ORDERS_A_CUSTOMER)
    moves = f.when(f.col("order_id") % 2 == 0, f.lit(step)).otherwise(f.lit(0))
    cents = f.pmod(f.xxhash64("order_id", f.lit(-step)), f.lit(100_000))
    return ids.withColumns(
        {
            "customer_id": f.pmod(f.xxhash64("order_id", moves), f.lit(customers)),
            "amount": (cents / 100).cast("decimal(12,2)"),
        }
    )


def derived(stage: str, feeder: DataFrame) -> DataFrame:
    """Return a stage's rows from its feeder's."""
    match stage:
        case "orders_by_customer":
            return feeder.select(*BY_CUSTOMER.columns)
        case "customer_totals":
            total = f.sum("amount").cast("decimal(22,2)").alias("total")
            return feeder.groupBy("customer_id").agg(total)
        case _:
            band = f.floor(f.col("total") / BAND).cast("int").alias("band")
            return feeder.select(band, "customer_id", "total")
