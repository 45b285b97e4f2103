"""Partitioned stages in Spark: the tasks of two days and two stores, and their effects."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from selecting import long

import deltaproduce as dp


def scopes(days: int) -> str:
    """Of so many days up to the one of a run."""
    of_each = "LET partition_day = date_format(t, 'yyyy-MM-dd')"
    return f"FOR t IN timeseries('1 day', {days}), {of_each}"


DAYS = scopes(2)


def shop() -> dp.Pipeline:
    pipeline = dp.Pipeline("shop")
    pipeline.source(
        "sales",
        key="day string, store string, sale_id bigint",
        value="product_id bigint, quantity bigint, price decimal(12,2)",
        partition="day, store",
    )
    pipeline.partitioned(
        "stores_sales",
        "SELECT product_id, sum(quantity) AS nb_sales, sum(quantity * price) AS revenue "
        "FROM sales WHERE sales.day = partition_day AND sales.store = s GROUP BY product_id",
        key="product_id",
        partition="day = partition_day, store = s",
        scopes=f"{DAYS}, FOR s IN array('Detroit', 'Paris')",
    )
    pipeline.partitioned(
        "products_sales",
        "SELECT product_id, sum(nb_sales) AS nb_sales, collect_set(store) AS stores "
        "FROM stores_sales WHERE stores_sales.day = partition_day GROUP BY product_id",
        key="product_id",
        partition="day = partition_day",
        scopes=DAYS,
    )

    @pipeline.producer("products_sales", key="product_id bigint", value="nb_sales bigint")
    def totals(key: Any, values: Iterator[Any]) -> Iterator[Any]:
        yield key.product_id, sum(value.nb_sales for value in values)

    return pipeline


def sale(day: str, store: str, number: int, quantity: int = 1) -> dict[str, Any]:
    return {
        "day": f"2022-03-{day}",
        "store": store,
        "sale_id": number,
        "product_id": number % 2,
        "quantity": quantity,
        "price": Decimal("1.50"),
    }


@long
def test_tasks_run_in_order_and_only_where_rows_changed(spark: SparkSession, location: str) -> None:
    """As `tests/local` has them in each run; a short run has tasks in Spark of tables of others."""
    store = dp.Store(spark, location, shop())
    store.update({"sales": [sale("31", "Paris", n) for n in range(4)] + [sale("30", "Detroit", 1)]})
    run = store.run(as_of="2022-03-31")
    assert list(map(str, run.done)) == [
        "stores_sales/day=2022-03-31/store=Detroit",
        "stores_sales/day=2022-03-31/store=Paris",
        "stores_sales/day=2022-03-30/store=Detroit",
        "stores_sales/day=2022-03-30/store=Paris",
        "products_sales/day=2022-03-31",
        "products_sales/day=2022-03-30",
    ]
    assert {
        field.name: field.dataType.simpleString() for field in store.content("stores_sales").schema
    }["revenue"] == "decimal(38,2)"
    found = store.content("stores_sales", ordered=True).selectExpr("day", "store", "nb_sales")
    assert [tuple(row) for row in found.collect()] == [
        ("2022-03-30", "Detroit", 1),
        ("2022-03-31", "Paris", 2),
        ("2022-03-31", "Paris", 2),
    ]
    assert store.run(as_of="2022-03-31") == dp.Run()
    version = store.update({"sales": [sale("31", "Paris", 0, 5)]}, as_of="2022-03-31")
    assert version.tasks == (
        "stores_sales/day=2022-03-31/store=Paris",
        "products_sales/day=2022-03-31",
    )
    totals = store.content("totals").selectExpr("product_id", "nb_sales")
    assert sorted(tuple(row) for row in totals.collect()) == [(0, 6), (1, 1), (1, 2)]
    assert not store.verify()


def test_a_query_that_spark_refuses_is_refused_when_a_store_opens(
    spark: SparkSession, location: str
) -> None:
    pipeline = shop()
    pipeline.partitioned("wrong", "SELECT nope(product_id) AS x FROM sales", partition="day = 'a'")
    with pytest.raises(dp.DefinitionError) as caught:
        dp.Store(spark, location, pipeline)
    assert caught.value.stage == "wrong"


@long
def test_a_table_of_others_is_read_by_its_partitions(
    spark: SparkSession, location: str, long_run: bool
) -> None:
    """What is present follows the table's rows, or the scopes.

    In a long run of two days, rows go, and what was present once stays so.
    """
    days = scopes(1 + long_run)
    table = f"{location}_theirs"

    def write(mode: str, *rows: tuple[str, str, int]) -> None:
        found = spark.createDataFrame([*rows], "day string, store string, n bigint")
        found.write.format("delta").partitionBy("day").mode(mode).save(table)

    def states(stage: str) -> dict[str, tuple[str, list[str]]]:
        found = store.tasks(as_of="2022-03-31")
        return {
            str(task): (task.state, [str(one) for one in task.dependencies])
            for task in found
            if task.stage == stage
        }

    def content(stage: str) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, store.content(stage).selectExpr("day", "store", "n").collect()))

    pipeline = dp.Pipeline("shop")
    columns = {"key": "day string, store string", "value": "n bigint", "table": table}
    pipeline.delta_source("found", **columns, partition="day, store")
    expected = f"{days}, FOR s IN array('Detroit', 'Paris')"
    pipeline.delta_source(
        "wanted", **columns, partition="day = partition_day, store = s", scopes=expected
    )
    for feeder in ("found", "wanted"):
        pipeline.partitioned(
            f"of_{feeder}",
            f"SELECT store, sum(n) AS n FROM {feeder} WHERE day = partition_day GROUP BY store",
            key="store",
            partition="day = partition_day",
            scopes=days,
        )
    write("overwrite", ("2022-03-31", "Paris", 1), ("2022-03-30", "Paris", 2))
    with dp.Store(spark, location, pipeline) as store:
        run = store.run(as_of="2022-03-31")
        ran = "day=2022-03-31", "day=2022-03-30"
        assert list(map(str, run.done)) == [f"of_found/{day}" for day in ran[: 1 + long_run]]
        assert list(map(str, run.blocked)) == [f"of_wanted/{day}" for day in ran[: 1 + long_run]]
        write("append", ("2022-03-31", "Detroit", 5))
        run = store.run(as_of="2022-03-31")
        assert list(map(str, run.done)) == ["of_found/day=2022-03-31", "of_wanted/day=2022-03-31"]
        there = [("2022-03-31", "Detroit", 5), ("2022-03-31", "Paris", 1)]
        assert content("of_wanted") == there
        if not long_run:
            return
        spark.sql(f"DELETE FROM delta.`{table}` WHERE day = '2022-03-30'")
        store.update({}, partitions={"wanted": [{"day": "2022-03-30", "store": "Detroit"}]})
        assert states("of_found")["of_found/day=2022-03-30"] == (
            "dirty",
            ["found/day=2022-03-30/store=Paris"],
        )
        run = store.run(as_of="2022-03-31")
        assert list(map(str, run.done)) == ["of_found/day=2022-03-30", "of_wanted/day=2022-03-30"]
        assert content("of_found") == content("of_wanted") == there
        assert store.run(as_of="2022-03-31") == dp.Run()
        assert not store.verify()
