"""A report of a store that only Spark can read: sample rows, and unknown values."""

from pathlib import Path

from pyspark.sql import SparkSession
from selecting import long

import deltaproduce as dp
from deltaproduce.report.gathering import report as gathered


@long
def test_a_store_in_a_catalog_has_a_report(spark: SparkSession, tmp_path: Path) -> None:
    shop = dp.Pipeline("shop")
    shop.source("orders", key="order_id bigint", value="amount bigint")
    spark.sql("CREATE SCHEMA reported")
    try:
        store = dp.Store(spark, "reported", shop)
        store.update({"orders": [{"order_id": n, "amount": n} for n in range(9)]})
        version = store.update({"orders": [{"order_id": 3, "amount": 30}]})
        assert version.committed_at is not None
        (orders,) = gathered(store._opened, "shop", None, 4, version.committed_at).stages
        assert (orders.bytes, orders.files) == (None, None)
        assert orders.difference is not None
        assert orders.difference.columns == ("order_id", "amount")
        assert orders.difference.rows == (("before", "3", "3"), ("after", "3", "30"))
        (sample,) = orders.samples
        assert sample.columns == ("_change_type", "order_id", "_position", "amount")
        assert len(sample.rows) == 4
        assert {row[0] for row in sample.rows} == {"add"}
        assert all(row[1] == row[3] for row in sample.rows)
        text = store.report(tmp_path / "report.html").read_text()
        assert "<title>shop, version 2</title>" in text
    finally:
        spark.sql("DROP SCHEMA reported CASCADE")
