"""Aggregate stages in Spark and on both engines in turn: the same laws as in `tests/local`."""

import math
from dataclasses import replace

import arrow_aggregates
import own_aggregates
import pyarrow as pa
import pytest
from arrow_aggregates import SquaresOfColumns
from comparing import as_frames, assert_same, read_by_delta_rs
from forcing import WAYS, Way, forced
from local_stores import assert_refreshed
from own_aggregates import Squares
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from selecting import chosen, long
from test_local_aggregates import (
    EXACT,
    GONE,
    INF,
    NAN,
    PLAIN,
    ROUNDED,
    history,
    miscounted,
    orders,
    site,
)
from test_local_own import assert_twins
from travelling import travelling

import deltaproduce as dp
from deltaproduce import agg
from deltaproduce.stages.aggregates import in_spark
from deltaproduce.testing import Oracle, plain_rows

VERSIONS = 3
VALUES = PLAIN | ROUNDED | EXACT
ON_THE_DRIVER = next(way for way in WAYS if way.name == "replaced")


def of_every_sort() -> dp.Pipeline:
    """Days of two sources, and what merges them: numbers, least values, sketches, and one's own."""
    pipeline = dp.Pipeline("every sort")
    both = dp.merge(*(pipeline.add(source) for source in site().graph().sources))
    merged = {
        **{name: VALUES[name] for name in ("rows", "all_ok", "average", "double", "wide")},
        "members": agg.approx_count_distinct("l"),
        "middle": agg.approx_percentile("n", 0.5),
        "squares": agg.own(Squares(), "n"),
        "squares_over_arrow": agg.own(SquaresOfColumns(), "n"),
    }
    days = {**merged, "least": agg.min("n")}
    by_day = pipeline.aggregate("by_day", both, key="day, t", values=days)
    of_days = {f"all_{name}": agg.merge(name) for name in merged}
    pipeline.aggregate("by_text", by_day, key="t", values=of_days)
    return pipeline


@pytest.mark.parametrize("way", chosen(WAYS, "in Spark, joined"), ids=lambda way: way.name)
def test_functions_of_every_sort_equal_the_oracle(
    spark: SparkSession, location: str, way: Way, long_run: bool
) -> None:
    """In one store, what the laws of each sort say of more versions, stages and types.

    In a short run the driver makes the first version.
    """
    pipeline = of_every_sort()
    oracle = Oracle(pipeline)
    with travelling(own_aggregates, arrow_aggregates):
        for number, batch in enumerate(history(386)[:2]):  # both change, and days that are merged
            with forced(way if number or long_run else ON_THE_DRIVER):
                store = dp.Store(spark, location, pipeline, table_type=way.table_type)
                version = store.update(as_frames(spark, pipeline, batch))
                assert version.number == oracle.update(batch)
                assert_same(store, oracle, pipeline, version.number)
        with forced(way):
            if long_run:
                figures = store.refresh("by_text").stages["by_text"]
                assert (figures.mode, figures.rows_added, figures.rows_removed) == ("full", 0, 0)
            assert_twins(read_by_delta_rs(store), ("by_day", "by_text"))


@long
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_versions_equal_the_oracle(spark: SparkSession, location: str, way: Way) -> None:
    """What is stored, states too, is what a refresh makes; older versions stay."""
    pipeline = site()
    oracle = Oracle(pipeline)
    with forced(way):
        store = dp.Store(spark, location, pipeline, table_type=way.table_type)
        for batch in history(100 + WAYS.index(way))[:VERSIONS]:
            version = store.update(as_frames(spark, pipeline, batch))
            assert version.number == oracle.update(batch)
            assert_same(store, oracle, pipeline, version.number)
        stages = ("by_text", "by_two", "by_rows")
        assert_refreshed(store, stages, [name for name in stages if not oracle.content(name)])
        assert_same(store, oracle, pipeline, 1)
        assert store.verify(recompute=True) == ()


def test_content_is_what_group_by_gives(spark: SparkSession, location: str) -> None:
    """Types of all; values of those that are not rounded."""
    pipeline = site()
    store = dp.Store(spark, location, pipeline)
    for batch in history(7)[:VERSIONS]:
        store.update(as_frames(spark, pipeline, batch))
    store.content("events").createOrReplaceTempView("aggregated_events")
    columns = ", ".join(f"{call.sql} AS {name}" for name, call in VALUES.items())
    expected = spark.sql(f"SELECT t, {columns} FROM aggregated_events GROUP BY t")
    found = store.content("by_text").drop("_ordinal")
    assert found.dtypes == expected.dtypes
    plain = ["t", *PLAIN]
    assert sorted(plain_rows(found.select(plain).collect()), key=str) == sorted(
        plain_rows(expected.select(plain).collect()), key=str
    )
    spark.catalog.dropTempView("aggregated_events")


def test_rows_beyond_the_limits_are_loaded_on_the_driver_in_parts(
    spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark reads and computes none of them; what its tasks make of them is the same."""
    values = {"n": agg.sum("n"), "mean": agg.avg("n"), "rows": agg.count()}
    source = dp.Pipeline("orders")
    source.source("orders", key="id bigint", value="k string, n bigint")
    given = pa.table({"id": range(5_000), "k": [f"{n % 700}" for n in range(5_000)]})
    given = given.append_column("n", given.column("id"))
    few = dp.Limits(small_table_rows=0, replaced_percent=900, local_rows=500, group_rows=100)
    dp.Store(spark, location, source, limits=replace(few, local_rows=10_000)).update(
        {"orders": given}
    )
    with monkeypatch.context() as patched:
        patched.setattr(in_spark, "states_of", None)
        store = dp.Store(spark, location, orders(**values), limits=few)
        assert store.refresh("by_k").stages["by_k"].rows == 700
    rows = given.group_by("k").aggregate([("n", "sum"), ("n", "mean"), ("n", "count")])
    found = {row["k"]: row for row in store.content("by_k").drop("_ordinal").toLocalIterator()}
    assert {k: tuple(row) for k, row in found.items()} == {
        row["k"]: (row["k"], row["n_sum"], row["n_mean"], row["n_count"])
        for row in rows.to_pylist()
    }
    there = dp.Store(spark, location, orders(**values), limits=replace(few, local_rows=0))
    figures = there.refresh("by_k").stages["by_k"]
    assert (figures.mode, figures.rows_added, figures.rows_removed) == ("full", 0, 0)


GROUPS = {
    "whole": [1.0, 2.0, -7.0, 4.0],
    "zero": [-0.0, -0.0],
    "one": [0.1],
    "nan": [1.0, NAN],
    "infinite": [1.0, INF, INF],
    "below": [-INF, 5.0],
    "both": [INF, -INF],
    "null": [None],
    "fractions": [0.1, 0.2, 0.3, 1e3, -7.7, None],
}
FUNCTIONS = ("sum", "avg", "var_pop", "var_samp", "stddev_pop", "stddev_samp")
TYPES = {
    "x": "double",
    "y": "float",
    "n": "int",
    "l": "bigint",
    "p": "decimal(10,2)",
    "w": "decimal(38,6)",
}


def test_numbers_are_what_group_by_gives_but_for_its_rounding(
    spark: SparkSession, location: str
) -> None:
    """Sums of whole numbers are the same; so are nulls, zeros, types, and what is not finite."""
    pipeline = dp.Pipeline("numbers")
    value = ", ".join(f"{name} {of_type}" for name, of_type in TYPES.items())
    numbers = pipeline.source("numbers", key="id bigint", value=f"k string, {value}")
    calls = {f"{n}_{c}": getattr(agg, n)(c) for n in FUNCTIONS for c in TYPES}
    pipeline.aggregate("by_k", numbers, key="k", values=calls)
    rows = [(n, k, x) for k, values in GROUPS.items() for n, x in enumerate(values)]
    doubles = spark.createDataFrame(
        [(n, k, x) for n, (_, k, x) in enumerate(rows)], "id bigint, k string, d double"
    )
    finite = f.when(f.abs("d") < 1e9, f.col("d"))
    columns = [
        (f.col("d") if t in ("double", "float") else finite).cast(t).alias(c)
        for c, t in TYPES.items()
    ]
    frame = doubles.select("id", "k", *columns)
    store = dp.Store(spark, location, pipeline)
    store.update({"numbers": frame})
    expected = frame.groupBy("k").agg(*(f.expr(c.sql).alias(name) for name, c in calls.items()))
    found = store.content("by_k").drop("_ordinal")
    assert found.dtypes == expected.dtypes
    sparks = {row["k"]: row for row in expected.collect()}
    for row in found.collect():
        for name in calls:
            mine, theirs = row[name], sparks[row["k"]][name]
            near = isinstance(theirs, float) and math.isfinite(theirs) and theirs
            if near:
                assert mine == pytest.approx(theirs, rel=1e-12), f"{name} of {row['k']}"
            else:
                assert repr(mine) == repr(theirs), f"{name} of {row['k']}"


def test_a_sum_that_does_not_fit_names_the_key_in_spark_too(
    spark: SparkSession, location: str
) -> None:
    (way,) = (way for way in WAYS if way.name == "in Spark, joined")
    rows = [(n, "a" if n else "b", 2**62) for n in range(3)]
    with forced(way):
        store = dp.Store(spark, location, orders(n=agg.sum("n")))
        with pytest.raises(dp.ProducerError) as caught:
            store.update({"orders": spark.createDataFrame(rows, "id bigint, k string, n bigint")})
    assert (caught.value.stage, caught.value.key) == ("by_k", "a")
    assert store.head.number == 0


@long
def test_a_group_of_fewer_rows_than_none_is_damage_in_spark_too(
    spark: SparkSession, location: str
) -> None:
    """As `tests/local` has it in each run."""
    (way,) = (way for way in WAYS if way.name == "in Spark, joined")
    pipeline = miscounted(location)
    with forced(way), pytest.raises(dp.CorruptStoreError):
        dp.Store(spark, location, pipeline).update({"orders": GONE})
