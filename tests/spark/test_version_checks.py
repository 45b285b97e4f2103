"""Checks in a session: what only Spark computes, and rows that stay in Spark."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from selecting import chosen

import deltaproduce as dp


def shop() -> dp.Pipeline:
    pipeline = dp.Pipeline("shop")
    pipeline.source("customers", key="customer_id bigint", value="name string")
    value = "customer_id bigint, amount double, status string"
    orders = pipeline.source("orders", key="order_id bigint", value=value)
    orders.expect(not_null="customer_id", among={"status": ["it's new", "paid"]})
    orders.expect(refers={"customer_id": "customers.customer_id"}, unique="customer_id, status")
    orders.expect(where="amount >= 0", severity="quarantine")
    orders.expect(where="soundex(status) <> '7'", severity="quarantine", name="spoken")
    pipeline.check(
        "large",
        "SELECT customer_id, sum(amount) AS total FROM orders "
        "GROUP BY customer_id HAVING sum(amount) > 100",
        severity="warn",
        at_most=1,
    )
    pipeline.limit("orders", deleted=0.5, rows=(1, None))
    return pipeline


@pytest.mark.parametrize("where", chosen(["driver", "spark"], "driver"))
def test_checks_hold_in_a_session(spark: SparkSession, location: str, where: str) -> None:
    limits = dp.Limits() if where == "driver" else dp.Limits(local_rows=0)
    with dp.Store(spark, location, shop(), limits=limits) as store:
        columns = "order_id bigint, customer_id bigint, amount double, status string"
        customers = spark.createDataFrame(
            [(1, "ann"), (2, "bob")], "customer_id bigint, name string"
        )
        good = [
            (1, 1, 70.0, "it's new"),
            (2, 1, 40.0, "paid"),
            (3, 2, -5.0, "paid"),
            (4, 2, 1.0, "7"),
        ]
        version = store.update(
            {"customers": customers, "orders": spark.createDataFrame(good, columns)}
        )
        assert {one.name: one.rows for one in version.checks} == {
            "orders_not_null_customer_id": 0,
            "orders_among_status": 0,
            "orders_refers_customer_id": 0,
            "orders_unique_customer_id_status": 0,
            "orders_where": 0,
            "spoken": 0,
            "large": 1,
            "orders_deleted": 0,
            "orders_rows": 2,
        }
        assert [dict(row) for row in version.checks[6].sample] == [
            {"customer_id": 1, "total": 110.0}
        ]
        aside = store.content("orders__rejected").orderBy("order_id").collect()
        assert [(row["order_id"], row["_rule"], row["_version"]) for row in aside] == [
            (3, "orders_where", 1),
            (4, "spoken", 1),
        ]
        bad = [(5, 9, 1.0, "paid"), (6, None, 1.0, "lost"), (3, 2, 5.0, "paid")]
        with pytest.raises(dp.ChecksFailedError) as raised:
            store.update({"orders": spark.createDataFrame(bad, columns)}, "an id")
        assert {one.name: one.rows for one in raised.value.checks} == {
            "orders_not_null_customer_id": 1,
            "orders_among_status": 1,
            "orders_refers_customer_id": 1,
        }
        assert store.head.number == 1
        with pytest.raises(dp.ChecksFailedError) as raised:
            store.load({"orders": spark.createDataFrame(bad[2:], columns)})
        assert {one.name: one.rows for one in raised.value.checks} == {"orders_deleted": 2}
        store.update({"orders": spark.createDataFrame(bad[2:], columns)}, "an id")
        assert [row["order_id"] for row in store.content("orders__rejected").collect()] == [4]
        assert [one.name for one in store.check() if one.broken] == []


def test_a_new_check_runs_its_query_over_the_head(spark: SparkSession, location: str) -> None:
    plain = dp.Pipeline("shop")
    plain.source("orders", key="order_id bigint", value="amount double, status string")
    with dp.Store(spark, location, plain) as store:
        store.update(
            {"orders": [{"order_id": n, "amount": float(n), "status": "a"} for n in range(3)]}
        )
    plain.check("heard", "SELECT order_id, soundex(status) AS sound FROM orders WHERE amount > 1")
    with dp.Store(spark, location, plain) as store:
        (result,) = store.check()
        assert (result.rows, result.sample) == (1, ({"order_id": 2, "sound": "A000"},))
        with pytest.raises(dp.ChecksFailedError):
            store.update({})
        store.update({"orders": [{"order_id": 2, "_change_type": "delete"}]})
        assert not store.check()[0].broken
    with pytest.raises(dp.SessionError) as raised:
        dp.Store(None, location, plain)
    assert raised.value.stage == "heard"
