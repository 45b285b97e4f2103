"""Aggregate stages in Spark and on both engines in turn: the same laws as in `tests/local`."""

import pytest
from comparing import as_frames, assert_same
from forcing import WAYS, Way, forced
from pyspark.sql import SparkSession
from selecting import chosen
from test_local_aggregates import history, orders, site

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
        for stage in ("by_text", "by_two", "by_rows") if long_run else ("by_two",):
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
    expected = spark.sql(
        "SELECT t, count(*) AS rows, count(n) AS ns, count(day) AS days, sum(n) AS total, "
        "sum(b) AS small, sum(l) AS long, sum(price) AS price, count_if(ok) AS yes, "
        "bool_and(ok) AS all_ok, bool_or(ok) AS any_ok FROM aggregated_events GROUP BY t"
    )
    found = store.content("by_text").drop("_ordinal")
    assert found.dtypes == expected.dtypes
    assert sorted(plain_rows(found.collect()), key=str) == sorted(
        plain_rows(expected.collect()), key=str
    )
    spark.catalog.dropTempView("aggregated_events")


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
