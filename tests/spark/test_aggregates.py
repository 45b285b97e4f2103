"""Aggregate stages in Spark and on both engines in turn: the same laws as in `tests/local`."""

import pytest
from comparing import as_frames, assert_same
from forcing import WAYS, Way, forced
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from selecting import chosen
from test_local_aggregates import EXACT, INF, NAN, PLAIN, history, orders, site

import deltaproduce as dp
from deltaproduce import agg
from deltaproduce.testing import Oracle, plain_rows

VERSIONS = 3


@pytest.mark.parametrize("way", chosen(WAYS, "mixed", "in Spark, joined"), ids=lambda way: way.name)
def test_versions_equal_the_oracle(
    spark: SparkSession, location: str, way: Way, long_run: bool
) -> None:
    """What is stored, states too, is what a refresh makes; older versions stay.

    In a short run two versions.
    """
    pipeline = site()
    oracle = Oracle(pipeline)
    with forced(way):
        store = dp.Store(spark, location, pipeline, table_type=way.table_type)
        for batch in history(100 + WAYS.index(way))[: VERSIONS if long_run else 2]:
            version = store.update(as_frames(spark, pipeline, batch))
            assert version.number == oracle.update(batch)
            assert_same(store, oracle, pipeline, version.number)
        for stage in ("by_text", "by_two", "by_rows")[: 3 if long_run else 2]:
            figures = store.refresh(stage).stages[stage]
            assert (figures.mode, figures.rows_added, figures.rows_removed) == ("full", 0, 0)
        assert_same(store, oracle, pipeline, 1)
        assert store.verify(recompute=True) == ()


def test_content_is_what_group_by_gives(spark: SparkSession, location: str) -> None:
    """Values and types."""
    pipeline = site()
    store = dp.Store(spark, location, pipeline)
    for batch in history(7)[:VERSIONS]:
        store.update(as_frames(spark, pipeline, batch))
    store.content("events").createOrReplaceTempView("aggregated_events")
    columns = ", ".join(f"{call.sql} AS {name}" for name, call in (PLAIN | EXACT).items())
    expected = spark.sql(f"SELECT t, {columns} FROM aggregated_events GROUP BY t")
    found = store.content("by_text").drop("_ordinal")
    assert found.dtypes == expected.dtypes
    plain = ["t", *PLAIN]
    assert sorted(plain_rows(found.select(plain).collect()), key=str) == sorted(
        plain_rows(expected.select(plain).collect()), key=str
    )
    spark.catalog.dropTempView("aggregated_events")


GROUPS = {
    "whole": [1.0, 2.0, -7.0, 4.0],
    "zero": [-0.0, -0.0],
    "one": [0.1],
    "nan": [1.0, NAN],
    "infinite": [1.0, INF, INF],
    "below": [-INF, 5.0],
    "both": [INF, -INF],
    "null": [None],
    "fractions": [0.1, 0.2, 0.3, 1e3, -7.7],
}


def test_doubles_are_what_group_by_gives_but_for_its_rounding(
    spark: SparkSession, location: str
) -> None:
    """Whole numbers are the same; so are nulls, zeros and what is not finite."""
    pipeline = dp.Pipeline("numbers")
    numbers = pipeline.source("numbers", key="id bigint", value="k string, x double, y float")
    pipeline.aggregate("by_k", numbers, key="k", values=EXACT)
    rows = [(k, x) for k, values in GROUPS.items() for x in values]
    given = [(n, k, x, x) for n, (k, x) in enumerate(rows)]
    frame = spark.createDataFrame(given, "id bigint, k string, x double, y float")
    store = dp.Store(spark, location, pipeline)
    store.update({"numbers": frame})
    calls = [f.expr(call.sql).alias(name) for name, call in EXACT.items()]
    expected = {row["k"]: row for row in frame.groupBy("k").agg(*calls).collect()}
    for row in store.content("by_k").collect():
        for name in EXACT:
            mine, sparks = row[name], expected[row["k"]][name]
            if row["k"] == "fractions":
                assert mine == pytest.approx(sparks, rel=1e-14)
            else:
                assert repr(mine) == repr(sparks), f"{name} of {row['k']}"


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
