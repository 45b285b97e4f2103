"""The benchmark's competitors all do the job: after some steps their tables are right."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks import w1
from benchmarks.competitors import COMPETITORS
from benchmarks.measures import measured

ORDERS = 300


@pytest.mark.parametrize("name", [name for name in COMPETITORS if name != "refresh"])
def test_a_competitor_is_right(spark: SparkSession, tmp_path: Path, name: str) -> None:
    competitor = COMPETITORS[name](spark, tmp_path / name, w1.STAGES)
    competitor.load(w1.orders(spark, ORDERS))
    orders = {row.order_id: row for row in w1.orders(spark, ORDERS).collect()}
    for number in (1, 2):
        batch = w1.changes(spark, ORDERS, 30, number)
        competitor.prepare(batch)
        step = measured(lambda batch=batch: competitor.step(batch), competitor.directory)
        assert step.files_written > 0
        for row in batch.collect():
            orders.pop(row.order_id, None)
            if row._change_type == "upsert":
                orders[row.order_id] = row
    expected = spark.createDataFrame(
        [(row.order_id, row.customer_id, row.amount) for row in orders.values()],
        "order_id bigint, customer_id bigint, amount decimal(12,2)",
    )
    assert w1.digest(competitor.table("orders")) == w1.digest(expected)
    for stage in w1.STAGES:
        expected = w1.derived(stage, expected)
        assert w1.digest(competitor.table(stage)) == w1.digest(expected), stage
