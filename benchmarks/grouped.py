"""Grouped: aggregate workloads: one group of all rows, and many small groups.

Readings are chosen so that sums of doubles are exact in any order: all competitors must compute the
same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import deltaproduce as dp
from benchmarks.workload import Table, Workload, picked
from deltaproduce import agg

READINGS: Final = Table(("n", "place", "v", "d", "ok"), ("n",), ("n",))
READINGS_VALUE: Final = "place bigint, v bigint, d double, ok boolean"
GROUP: Final = 10
"""The readings of each place, where there are many places."""

LEVELS: Final = 10_000
"""The number of values of `v`; the first has more rows than any other. `d` has 16 million."""

INVERTIBLE: Final = {
    "readings": (agg.count(), "count(*)"),
    "odd": (agg.count_if("v % 2 = 1"), "count_if(v % 2 = 1)"),
    "total": (agg.sum("v"), "CAST(sum(v) AS bigint)"),
    "weight": (agg.sum("d"), "sum(d)"),
    "mean": (agg.avg("d"), "avg(d)"),
    "every": (agg.bool_and("ok"), "bool_and(ok)"),
    "some": (agg.bool_or("ok"), "bool_or(ok)"),
}
ORDERED: Final = {
    "least": (agg.min("d"), "min(d)"),
    "most": (agg.max("d"), "max(d)"),
    "top": (agg.top_k("d", 3), "slice(sort_array(collect_list(d), false), 1, 3)"),
    "different": (agg.count_distinct("d"), "count(DISTINCT d)"),
    "middle": (agg.median("v"), "median(v)"),
}
"""A column -> the function, and the same in Spark."""

IN_DUCKDB: Final = {"odd": "CAST(count_if(v % 2 = 1) AS bigint)", "top": "max(d, 3)"}
"""Functions that DuckDB spells differently. Its percentiles may differ; its medians agree."""

STAGES: Final = {"invertible": INVERTIBLE, "ordered": ORDERED}


def grouped(stage: str, *, many: bool) -> Workload:
    """Return one aggregate of the readings by place.

    Args:
        stage: the name of its functions in `STAGES`.
        many: whether there are many places, of `GROUP` readings each; otherwise there is one.
    """
    functions = STAGES[stage]
    names = ", ".join(functions)

    def pipeline(edition: int) -> dp.Pipeline:
        del edition  # no function of it is ever edited
        site = dp.Pipeline("grouped")
        readings = site.source("readings", key="n bigint", value=READINGS_VALUE)
        values = {name: function for name, (function, _) in functions.items()}
        site.aggregate(stage, readings, key="place", values=values)
        return site

    def derived(stage: str, feeder: DataFrame) -> DataFrame:
        del stage  # there is one
        columns = [f.expr(text).alias(name) for name, (_, text) in functions.items()]
        return feeder.groupBy("place").agg(*columns)

    in_duckdb = (f"{IN_DUCKDB.get(name, text)} AS {name}" for name, (_, text) in functions.items())
    groups = f"{GROUP} readings a group" if many else "one group"
    return Workload(
        name=f"{stage}-{'groups' if many else 'group'}",
        what=f"{names}, of {groups}",
        pipeline=pipeline,
        tables={"readings": READINGS, stage: Table(("place", *functions), ("place",), ("place",))},
        derived=derived,
        rows=_rows(many=many),
        changes=_changes(many=many),
        queries={stage: f"SELECT place, {', '.join(in_duckdb)} FROM {{feeder}} GROUP BY place"},
    )


def _rows(*, many: bool) -> Callable[[SparkSession, int], DataFrame]:
    def rows(spark: SparkSession, count: int) -> DataFrame:
        return _readings(spark.range(count).withColumnRenamed("id", "n"), count, 0, many=many)

    return rows


def _changes(*, many: bool) -> Callable[[SparkSession, int, int, int], DataFrame]:
    """Return changes: readings get other values and another place; one in ten is deleted."""

    def changes(spark: SparkSession, count: int, keys: int, step: int) -> DataFrame:
        ids = picked(spark, count, keys, step)
        gone = f.when(f.col("n") % 10 == step % 10, "delete").otherwise("upsert")
        given = ids.select(f.col("id").alias("n"), gone.alias("_change_type"))
        return _readings(given, count, step, many=many)

    return changes


def _readings(ids: DataFrame, count: int, step: int, *, many: bool) -> DataFrame:
    drawn = f.pmod(f.xxhash64("n", f.lit(step)), f.lit(1 << 24))
    places = max(1, count // GROUP) if many else 1
    share = drawn / (1 << 24)
    return ids.withColumns(
        {
            "place": f.pmod(f.xxhash64("n", f.lit(-step)), f.lit(places)),
            "v": f.floor(share * share * LEVELS),
            "d": drawn / 16,
            "ok": drawn % 1_000 != 0,
        }
    )
