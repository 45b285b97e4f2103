"""Latest and history in Spark: the same laws as in `tests/local`, in one store."""

import random

import pytest
from comparing import as_frames, assert_same
from forcing import WAYS, Way, forced
from local_stores import as_rows
from pyspark.sql import SparkSession
from selecting import chosen, long
from test_local_events import customers, definition_of, some_batch

import deltaproduce as dp
from deltaproduce.testing import Oracle, plain_rows

ON_THE_DRIVER = next(way for way in WAYS if way.name == "replaced")
FEW = ("events", "now", "named")


def few() -> dp.Pipeline:
    """Stages of one source, with a sequence of one column and of two."""
    pipeline = dp.Pipeline("few")
    for stage in customers().stages:
        if stage.name in FEW:
            pipeline.add(stage)
    return pipeline


@pytest.mark.parametrize("way", chosen(WAYS, "in Spark, joined"), ids=lambda way: way.name)
def test_versions_equal_the_oracle_and_sparks_query(
    spark: SparkSession, location: str, way: Way, long_run: bool
) -> None:
    """And ties are those that the driver counts; a null sequence has its key."""
    chance, pipeline = random.Random(23), few()
    oracle, twin = Oracle(pipeline), dp.Store(None, f"{location}_twin", pipeline, time_zone="UTC")
    for number in range(4 if long_run else 2):  # in a short run the driver makes the first
        with forced(way if number or long_run else ON_THE_DRIVER):
            store = dp.Store(spark, location, pipeline, table_type=way.table_type)
            batch = {"events": some_batch(chance)["events"]}
            version = store.update(as_frames(spark, pipeline, batch))
            assert version.number == oracle.update(batch)
            assert_same(store, oracle, pipeline, version.number)
            here = twin.update(as_rows(pipeline, batch))
            for name in ("now", "named"):
                assert version.stages[name].ties == here.stages[name].ties
    with forced(way):
        store.content("events").createOrReplaceTempView("events")
        expected = spark.sql(definition_of(pipeline, "named"))
        found = store.content("named").select(expected.columns)
        assert sorted(map(repr, plain_rows(found.collect()))) == sorted(
            map(repr, plain_rows(expected.collect()))
        )
        with pytest.raises(dp.InvalidChangesError) as caught:
            store.update({"events": spark.sql(WITHOUT_SEQUENCE)})
        assert (caught.value.source, caught.value.column) == ("events", "at")
        assert caught.value.keys == (99,)
        assert store.head.number == version.number


WITHOUT_SEQUENCE = """
    SELECT 99L AS event, 1L AS id, CAST(NULL AS timestamp) AS at, 'U' AS op, '' AS name, 0D AS x
"""


@long
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_all_stages_equal_the_oracle(spark: SparkSession, location: str, way: Way) -> None:
    """What is stored is what a refresh makes; older versions stay."""
    chance, pipeline = random.Random(100 + WAYS.index(way)), customers()
    oracle = Oracle(pipeline)
    with forced(way):
        store = dp.Store(spark, location, pipeline, table_type=way.table_type)
        for _ in range(3):
            batch = some_batch(chance)
            version = store.update(as_frames(spark, pipeline, batch))
            assert version.number == oracle.update(batch)
            assert_same(store, oracle, pipeline, version.number)
        assert_same(store, oracle, pipeline, 1)
        assert store.verify(recompute=True) == ()
