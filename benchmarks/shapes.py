"""Shapes: workloads that each show one kind of stage or change, in addition to W1."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import deltaproduce as dp
from benchmarks import w1
from benchmarks.workload import Table, Workload, edition, picked

FAN: Final = 20
TARGETS: Final = 1_000_003
PRICED: Final = Table(("order_id", "customer_id", "gross"), ("order_id",), ("order_id",))
GROSS_BY_CUSTOMER: Final = Table(
    ("customer_id", "order_id", "gross"), ("customer_id",), ("customer_id", "order_id")
)
BY_BAND: Final = Table(("band", "customer_id", "total"), ("band",), ("band", "customer_id"))
BASKET: Final = {"key": "customer_id bigint", "value": "order_id bigint, amount decimal(12,2)"}
CUSTOMERS: Final = Table(("customer_id", "region"), ("customer_id",), ("customer_id",))
CUSTOMER_SALES: Final = Table(
    ("customer_id", "region", "total"), ("customer_id",), ("customer_id",)
)
REGIONS: Final = 50


def key_local_map() -> Workload:
    """Each row gives one row of the same key."""

    def pipeline(number: int) -> dp.Pipeline:
        shop = dp.Pipeline("map")
        _priced(shop, number)
        return shop

    return Workload(
        "map", "key-local map: each order with twice its amount, under the same key", pipeline,
        {"orders": w1.ORDERS, "priced": PRICED}, _derived_gross, w1.orders, w1.changes,
    )  # fmt: skip


def re_key() -> Workload:
    """Each row gives one row of another key."""
    w = w1.workload(1)
    return Workload(
        "rekey", "re-key: orders by customer", w.pipeline, w.tables, w.derived, w.rows, w.changes
    )


def reduce() -> Workload:
    """Ten rows of a key give one."""

    def pipeline(number: int) -> dp.Pipeline:
        shop = dp.Pipeline("reduce")
        baskets = shop.source("baskets", **BASKET)

        @shop.producer(baskets, key="customer_id bigint", value="total decimal(22,2)")
        @edition(number)
        def customer_totals(customer_id: int, values: Iterator[Any]) -> Iterator[Any]:
            yield customer_id, sum((value.amount for value in values), Decimal(0))

        return shop

    return Workload(
        "reduce", "reduce: the ten rows of a customer to one total", pipeline,
        {"baskets": w1.BY_CUSTOMER, "customer_totals": w1.TOTALS}, w1.derived, _baskets,
        _changed_baskets,
    )  # fmt: skip


def join(orders_a_customer: int = w1.ORDERS_A_CUSTOMER) -> Workload:
    """Customers, which do not change, and their orders, which do: a left outer join by key.

    One customer in twenty is unknown. A customer whose orders are deleted stays, without a total.
    """

    def pipeline(number: int) -> dp.Pipeline:
        shop = dp.Pipeline("join")
        customers = shop.source("customers", key="customer_id bigint", value="region int")
        baskets = shop.source("baskets", **BASKET)

        @shop.producer(
            customers, baskets, key="customer_id bigint", value="region int, total decimal(22,2)"
        )
        @edition(number)
        def customer_sales(
            customer_id: int, regions: Iterator[int], orders: Iterator[Any]
        ) -> Iterator[Any]:
            amounts = [order.amount for order in orders]
            total = sum(amounts, Decimal(0)) if amounts else None
            for region in regions:
                yield customer_id, (region, total)

        return shop

    def rows(spark: SparkSession, count: int) -> DataFrame:
        return _baskets(spark, count, orders_a_customer)

    def changes(spark: SparkSession, count: int, keys: int, step: int) -> DataFrame:
        return _changed_baskets(spark, count, keys, step, orders_a_customer)

    def customers(spark: SparkSession, count: int) -> DataFrame:
        known = spark.range(count // orders_a_customer * 19 // 20)
        region = f.pmod(f.xxhash64("id"), f.lit(REGIONS)).cast("int").alias("region")
        return known.select(f.col("id").alias("customer_id"), region)

    def derived(stage: str, baskets: DataFrame, customers: DataFrame) -> DataFrame:
        del stage  # there is one
        totals = w1.derived("customer_totals", baskets)
        joined = customers.join(totals, "customer_id", "left_outer")
        return joined.select(*CUSTOMER_SALES.columns)

    return Workload(
        "join", "two feeders joined (left outer): customers, which stay, and the totals of their "
        f"orders ({orders_a_customer} each), which change", pipeline,
        {"baskets": w1.BY_CUSTOMER, "customers": CUSTOMERS, "customer_sales": CUSTOMER_SALES},
        derived, rows, changes, {"customers": customers},
    )  # fmt: skip


def merge() -> Workload:
    """Orders on the web, which change, and at the till, which do not: one total for each customer.

    Half of the customers have both, so a customer that is deleted on the web may remain.
    """

    def pipeline(number: int) -> dp.Pipeline:
        shop = dp.Pipeline("merge")
        web, till = (shop.source(name, **BASKET) for name in ("web", "till"))

        @shop.producer(dp.merge(web, till), key="customer_id bigint", value="total decimal(22,2)")
        @edition(number)
        def customer_totals(customer_id: int, values: Iterator[Any]) -> Iterator[Any]:
            yield customer_id, sum((value.amount for value in values), Decimal(0))

        return shop

    def till(spark: SparkSession, count: int) -> DataFrame:
        orders = spark.range(count // 2, count // 2 + count).withColumnRenamed("id", "order_id")
        return _in_baskets(w1.order_rows(orders, count, -1))

    def derived(stage: str, web: DataFrame, till: DataFrame) -> DataFrame:
        return w1.derived(stage, web.unionByName(till))

    return Workload(
        "merge", "two feeders merged: orders on the web, which change, and as many at the till, "
        "which stay, to one total a customer; half of the customers have both", pipeline,
        {"web": w1.BY_CUSTOMER, "till": w1.BY_CUSTOMER, "customer_totals": w1.TOTALS},
        derived, _baskets, _changed_baskets, {"till": till},
    )  # fmt: skip


def chain() -> Workload:
    """Four stages, one after the other."""

    def pipeline(number: int) -> dp.Pipeline:
        shop = dp.Pipeline("chain")
        priced = _priced(shop, number)

        @shop.producer(
            priced, key="customer_id bigint", value="order_id bigint, gross decimal(13,2)"
        )
        @edition(number)
        def priced_by_customer(order_id: int, values: Iterator[Any]) -> Iterator[Any]:
            for value in values:
                yield value.customer_id, (order_id, value.gross)

        @shop.producer(priced_by_customer, key="customer_id bigint", value="total decimal(22,2)")
        @edition(number)
        def customer_totals(customer_id: int, values: Iterator[Any]) -> Iterator[Any]:
            yield customer_id, sum((value.gross for value in values), Decimal(0))

        _banded(shop, customer_totals, number)
        return shop

    def derived(stage: str, feeder: DataFrame) -> DataFrame:
        match stage:
            case "priced":
                return _derived_gross(stage, feeder)
            case "priced_by_customer":
                return feeder.select(*GROSS_BY_CUSTOMER.columns)
            case "customer_totals":
                return w1.derived(stage, feeder.withColumnRenamed("gross", "amount"))
            case _:
                return w1.derived(stage, feeder)

    tables = {
        "orders": w1.ORDERS,
        "priced": PRICED,
        "priced_by_customer": GROSS_BY_CUSTOMER,
        "customer_totals": w1.TOTALS,
        "customers_by_band": w1.BANDS,
    }
    return Workload(
        "chain", "chain of four stages: map, re-key, reduce, re-key", pipeline, tables, derived,
        w1.orders, w1.changes,
    )  # fmt: skip


def fan_out() -> Workload:
    """Each row gives twenty rows of other keys, on a tenth of the rows."""

    def pipeline(number: int) -> dp.Pipeline:
        shop = dp.Pipeline("fan")
        items = shop.source("items", key="item bigint", value="weight bigint")

        @shop.producer(items, key="target bigint", value="weight bigint")
        @edition(number)
        def spread(item: int, weights: Iterator[int]) -> Iterator[Any]:
            for weight in weights:
                for i in range(FAN):
                    yield (item * 31 + i * 7919 + weight) % TARGETS, weight

        return shop

    def weighed(ids: DataFrame, step: int) -> DataFrame:
        return ids.withColumn("weight", f.pmod(f.xxhash64("item", f.lit(step)), f.lit(1000)))

    def rows(spark: SparkSession, count: int) -> DataFrame:
        return weighed(spark.range(max(1, count // 10)).withColumnRenamed("id", "item"), 0)

    def changes(spark: SparkSession, count: int, keys: int, step: int) -> DataFrame:
        items = max(1, count // 10)
        gone = f.when(f.col("n") % 10 == step % 10, "delete").otherwise("upsert")
        ids = picked(spark, items, min(keys, items), step)
        return weighed(ids.select(f.col("id").alias("item"), gone.alias("_change_type")), step)

    def derived(stage: str, feeder: DataFrame) -> DataFrame:
        del stage  # there is one
        i = f.explode(f.sequence(f.lit(0), f.lit(FAN - 1)))
        each = feeder.select("item", "weight", i.alias("i"))
        target = (f.col("item") * 31 + f.col("i") * 7919 + f.col("weight")) % TARGETS
        return each.select(target.alias("target"), "weight")

    return Workload(
        "fan-out", f"fan-out: each row to {FAN} other keys (source rows: a tenth)", pipeline,
        {
            "items": Table(("item", "weight"), ("item",), ("item",)),
            "spread": Table(("target", "weight"), ("target",), ("target", "weight")),
        },
        derived, rows, changes,
    )  # fmt: skip


def deletes_only() -> Workload:
    """Every change is a delete."""
    w = w1.workload(1)

    def changes(spark: SparkSession, count: int, keys: int, step: int) -> DataFrame:
        return w.changes(spark, count, keys, step).withColumn("_change_type", f.lit("delete"))

    return Workload(
        "deletes", "deletes only: orders by customer, and orders go", w.pipeline, w.tables,
        w.derived, w.rows, changes,
    )  # fmt: skip


def giant_key() -> Workload:
    """All rows under a few keys, so that each change changes a key of a tenth of them."""

    def pipeline(number: int) -> dp.Pipeline:
        shop = dp.Pipeline("giant")
        totals = shop.source("totals", key="customer_id bigint", value="total decimal(22,2)")

        @shop.producer(totals, key="band int", value="customer_id bigint, total decimal(22,2)")
        @edition(number)
        def customers_by_band(customer_id: int, totals: Iterator[Decimal]) -> Iterator[Any]:
            for total in totals:
                yield int(total // w1.BAND), (customer_id, total)

        return shop

    def as_totals(orders: DataFrame) -> DataFrame:
        total = (f.col("amount") * 10).cast("decimal(22,2)").alias("total")
        kept = [c for c in orders.columns if c not in w1.ORDERS.columns]
        return orders.select(f.col("order_id").alias("customer_id"), total, *kept)

    def rows(spark: SparkSession, count: int) -> DataFrame:
        return as_totals(w1.orders(spark, count))

    def changes(spark: SparkSession, count: int, keys: int, step: int) -> DataFrame:
        return as_totals(w1.changes(spark, count, keys, step))

    return Workload(
        "giant", "giant keys: all customers under ten bands", pipeline,
        {"totals": w1.TOTALS, "customers_by_band": BY_BAND}, w1.derived, rows, changes,
    )  # fmt: skip


def no_op() -> Workload:
    """Rows are sent again unchanged."""
    w = w1.workload(1)

    def changes(spark: SparkSession, count: int, keys: int, step: int) -> DataFrame:
        ids = picked(spark, count, keys, step).select(f.col("id").alias("order_id"))
        return w1.order_rows(ids, count, 0).withColumn("_change_type", f.lit("upsert"))

    return Workload(
        "no-op", "no-op: orders by customer, and orders are sent again as they are", w.pipeline,
        w.tables, w.derived, w.rows, changes,
    )  # fmt: skip


SHAPES: Final = {
    "map": key_local_map,
    "rekey": re_key,
    "reduce": reduce,
    "chain": chain,
    "fan-out": fan_out,
    "deletes": deletes_only,
    "giant": giant_key,
    "no-op": no_op,
    "join": join,
    "merge": merge,
}


def _baskets(
    spark: SparkSession, count: int, orders_a_customer: int = w1.ORDERS_A_CUSTOMER
) -> DataFrame:
    return _in_baskets(w1.orders(spark, count), orders_a_customer)


def _changed_baskets(
    spark: SparkSession,
    count: int,
    keys: int,
    step: int,
    orders_a_customer: int = w1.ORDERS_A_CUSTOMER,
) -> DataFrame:
    """Return changes: other amounts for customers' orders; one customer in ten loses all orders."""
    customers = max(1, count // orders_a_customer)
    gone = f.when(f.col("n") % 10 == step % 10, "delete").otherwise("upsert")
    first = f.col("id") * orders_a_customer
    orders = picked(spark, customers, min(keys, customers), step).select(
        f.explode(f.sequence(first, first + orders_a_customer - 1)).alias("order_id"),
        gone.alias("_change_type"),
    )
    return _in_baskets(w1.order_rows(orders, count, step), orders_a_customer)


def _in_baskets(orders: DataFrame, orders_a_customer: int = w1.ORDERS_A_CUSTOMER) -> DataFrame:
    """Group orders by customer, this many in a row of each."""
    return orders.withColumn("customer_id", f.floor(f.col("order_id") / orders_a_customer))


def _priced(shop: dp.Pipeline, number: int) -> Any:  # noqa: ANN401 a stage
    orders = shop.source("orders", key=w1.ORDERS_KEY, value=w1.ORDERS_VALUE)

    @shop.producer(orders, key="order_id bigint", value="customer_id bigint, gross decimal(13,2)")
    @edition(number)
    def priced(order_id: int, values: Iterator[Any]) -> Iterator[Any]:
        for value in values:
            yield order_id, (value.customer_id, value.amount * 2)

    return priced


def _banded(shop: dp.Pipeline, totals: Any, number: int) -> None:  # noqa: ANN401 a stage
    @shop.producer(totals, key="band int, customer_id bigint", value="total decimal(22,2)")
    @edition(number)
    def customers_by_band(customer_id: int, totals: Iterator[Decimal]) -> Iterator[Any]:
        for total in totals:
            yield (int(total // w1.BAND), customer_id), total


def _derived_gross(stage: str, feeder: DataFrame) -> DataFrame:
    del stage  # there is one
    gross = (f.col("amount") * 2).cast("decimal(13,2)").alias("gross")
    return feeder.select("order_id", "customer_id", gross)
