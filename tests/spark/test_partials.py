"""Aggregates that merge partial states, in Spark: the same laws as in `tests/local`."""

import pytest
from comparing import as_frames, assert_same
from forcing import WAYS, Way, forced
from local_stores import assert_refreshed
from pyspark.sql import SparkSession
from selecting import long
from test_local_aggregates import history
from test_local_partials import FIRST, SAME_MEAN, STAGES, partial_site, visits

import deltaproduce as dp
from deltaproduce.testing import Oracle

VERSIONS = 3
SEEDS = (300, 324, 351, 361, 376, 383, 386, 389)
"""Of series in which both sources have rows at once, and one that is merged changes at once."""


@long
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_versions_equal_the_oracle(spark: SparkSession, location: str, way: Way) -> None:
    """What is stored, states too, is what a refresh makes."""
    pipeline = partial_site()
    oracle = Oracle(pipeline)
    with forced(way):
        store = dp.Store(spark, location, pipeline, table_type=way.table_type)
        for batch in history(SEEDS[WAYS.index(way) % len(SEEDS)])[:VERSIONS]:
            version = store.update(as_frames(spark, pipeline, batch))
            assert version.number == oracle.update(batch)
            assert_same(store, oracle, pipeline, version.number)
        assert_refreshed(store, STAGES, [name for name in STAGES if not oracle.content(name)])
        assert store.verify(recompute=True) == ()


@long
@pytest.mark.parametrize("of_type", ["double", "bigint"])
def test_a_day_that_has_no_update_has_changed_what_it_is_merged_into(
    spark: SparkSession, location: str, of_type: str
) -> None:
    """Whichever states it is of; `tests/local` has it in each run."""
    (way,) = (way for way in WAYS if way.name == "in Spark, runs")
    with forced(way):
        store = dp.Store(spark, location, visits(of_type=of_type), table_type=way.table_type)
        for rows, mean in ((FIRST, 2.5), (SAME_MEAN, 1.75)):
            plain = [tuple(row.values()) for row in rows]
            given = spark.createDataFrame(plain, "id bigint, day date, member bigint, x double")
            version = store.update({"visits": given.withColumn("x", given["x"].cast(of_type))})
            rows = store.content("by_member").collect()
            assert [(row["mean"], row["days"]) for row in rows] == [(mean, 2)]
        assert version.stages["by_day"].changed_keys == 0
        assert store.verify(recompute=True) == ()
