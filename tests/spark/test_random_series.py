"""S16 on random pipelines: after every version, every table equals a computation from scratch.

Each way of doing a step gets its own pipelines and histories. ``RANDOM_PIPELINES`` (a way) and
``RANDOM_SERIES`` (environment) make the search longer; ``RANDOM_SEED`` changes it.
"""

import os
import random

import pytest
from comparing import as_frames, assert_same
from forcing import WAYS, Way, forced
from pyspark.sql import SparkSession
from selecting import chosen
from series import drawn, packed, packed_histories

from deltaproduce import Store
from deltaproduce.testing import Oracle, strategies

PIPELINES = int(os.environ.get("RANDOM_PIPELINES", "1"))
SERIES = int(os.environ.get("RANDOM_SERIES", "8"))
SEED = int(os.environ.get("RANDOM_SEED", "0"))
VERSIONS = 3
ON_THE_DRIVER = next(way for way in WAYS if way.name == "replaced")
SHORT = "in Spark, replaced"  # what takes no session is in tests/local, "mixed" in test_load


@pytest.mark.parametrize("number", range(SEED, SEED + PIPELINES))
@pytest.mark.parametrize("way", chosen(WAYS, SHORT), ids=lambda way: way.name)
def test_incremental_versions_equal_the_oracle(
    spark: SparkSession, location: str, way: Way, number: int, long_run: bool
) -> None:
    """In a short run the driver makes the first version, and few series are packed."""
    number = number * len(WAYS) + WAYS.index(way)
    most = 4 if long_run else 1
    (single,) = drawn(strategies.pipelines(max_producers=most), 1, number)
    exact = strategies.histories(single, min_versions=VERSIONS, max_versions=VERSIONS)
    batches = packed_histories(drawn(exact, SERIES if long_run else SERIES // 2, number))
    pipeline = packed(single)
    oracle = Oracle(pipeline)
    for step, batch in enumerate(batches if long_run else batches[:2]):
        with forced(way if step or long_run else ON_THE_DRIVER):
            store = Store(spark, location, pipeline, table_type=way.table_type)
            version = store.update(as_frames(spark, pipeline, batch))
            assert version.number == oracle.update(batch)
            assert_same(store, oracle, pipeline, version.number)
    with forced(way):
        store = Store(spark, location, pipeline, table_type=way.table_type)
        chance, versions = random.Random(number), range(store.head.number + 1)
        for older in chance.sample(versions, 2 if long_run else 1):  # time travel
            assert_same(store, oracle, pipeline, older, in_spark=long_run)
