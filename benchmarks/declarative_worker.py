"""The process of `benchmarks.declarative`: a Spark Connect session that runs W1's views.

It reads requests from standard input, one JSON object a line: first the session's settings, then
loads and steps. It answers each with ``done``; an error ends it. All other output goes to standard
error. The four calls of ``pyspark.pipelines`` are the calls of the ``spark-pipelines`` command,
which starts a session for each run; a warm session is to the views' advantage.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark import pipelines as sdp
from pyspark.pipelines.add_pipeline_analysis_context import add_pipeline_analysis_context
from pyspark.pipelines.graph_element_registry import graph_element_registration_context
from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
from pyspark.pipelines.spark_connect_pipeline import (
    create_dataflow_graph,
    handle_pipeline_events,
    start_run,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.w1 import ORDERS, TABLES, derived


def main(directory: Path) -> None:
    """Serve until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Spark and the pipelines print to standard output
    requests = (json.loads(line) for line in sys.stdin)
    spark = _session(next(requests), directory)
    print("done", file=answers, flush=True)
    for request in requests:
        if "load" in request:
            _write_orders(spark, directory, _given(spark, directory))
            _run(spark, directory, request["stages"])
        else:
            _step(spark, directory, request["stages"], request["step"])
        print("done", file=answers, flush=True)
    spark.stop()


def _session(settings: dict[str, str], directory: Path) -> SparkSession:
    warnings.simplefilter("ignore")  # about settings that are fixed at the start
    own = {
        "spark.sql.warehouse.dir": directory.as_uri(),
        # With format="delta" the second run fails: Delta refuses the ALTER TABLE that sets the
        # provider. As the default format, it is not set.
        "spark.sql.sources.default": "delta",
    }
    builder = SparkSession.builder.remote(settings.pop("spark.master"))
    for key, value in {**settings, **own}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _step(spark: SparkSession, directory: Path, stages: Sequence[str], number: int) -> None:
    changes = _given(spark, directory)
    kept = _read(spark, directory, "orders").join(changes, "order_id", "left_anti")
    upserts = changes.where("_change_type = 'upsert'")
    kept, new = (rows.select(*ORDERS.columns) for rows in (kept, upserts))
    _write_orders(spark, directory, kept.union(new))
    last = stages[-1]
    newest = spark.sql(f"DESCRIBE HISTORY {last} LIMIT 1").collect()[0]["version"]
    before = _read(spark, directory, last, versionAsOf=newest)
    _run(spark, directory, stages)
    after = _read(spark, directory, last)
    gone = before.exceptAll(after).withColumn("_change_type", f.lit("delete"))
    new = after.exceptAll(before).withColumn("_change_type", f.lit("insert"))
    feed = gone.union(new).withColumn("_step", f.lit(number))
    feed.write.format("delta").mode("append").save(str(directory / "feed"))


def _run(spark: SparkSession, directory: Path, stages: Sequence[str]) -> None:
    graph = create_dataflow_graph(
        spark, default_catalog="spark_catalog", default_database="default", sql_conf={}
    )
    registry = SparkConnectGraphElementRegistry(spark, graph)
    with (
        graph_element_registration_context(registry),
        add_pipeline_analysis_context(spark=spark, dataflow_graph_id=graph, flow_name=None),
    ):
        for feeder, stage in zip(("orders", *stages), stages, strict=False):
            _define(spark, directory, feeder, stage)
    events = start_run(
        spark,
        graph,
        full_refresh=[],
        full_refresh_all=False,
        refresh=[],
        dry=False,
        storage=(directory / "pipeline").as_uri(),
    )
    handle_pipeline_events(events)


def _define(spark: SparkSession, directory: Path, feeder: str, stage: str) -> None:
    row = TABLES[stage].row

    @sdp.materialized_view(name=stage)
    def view() -> DataFrame:
        source = feeder == "orders"
        rows = _read(spark, directory, feeder) if source else spark.read.table(feeder)
        return derived(stage, rows).repartitionByRange(*row).sortWithinPartitions(*row)


def _write_orders(spark: SparkSession, directory: Path, rows: DataFrame) -> None:
    del spark  # the rows know it
    orders = rows.select(*ORDERS.columns)
    in_order = orders.repartitionByRange(*ORDERS.row).sortWithinPartitions(*ORDERS.row)
    in_order.write.format("delta").mode("overwrite").save(str(directory / "orders"))


def _given(spark: SparkSession, directory: Path) -> DataFrame:
    return spark.read.parquet(str(directory / "given"))


def _read(spark: SparkSession, directory: Path, name: str, **options: Any) -> DataFrame:  # noqa: ANN401
    return spark.read.format("delta").options(**options).load(str(directory / name))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
