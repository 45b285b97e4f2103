"""S16 on random pipelines: after every version, every table is what the oracle computes from
scratch.

``RANDOM_PIPELINES`` and ``RANDOM_SERIES`` (environment) make a longer search than CI's;
``RANDOM_SEED`` another.
"""

import os
import random

import pytest
from comparing import as_frames, assert_same
from pyspark.sql import SparkSession
from series import drawn, packed, packed_histories

from deltaproduce import Store
from deltaproduce.testing import Oracle, strategies

PIPELINES = int(os.environ.get("RANDOM_PIPELINES", "1"))
SERIES = int(os.environ.get("RANDOM_SERIES", "20"))
SEED = int(os.environ.get("RANDOM_SEED", "0"))
VERSIONS = 6


@pytest.mark.parametrize("number", range(SEED, SEED + PIPELINES))
def test_incremental_versions_equal_the_oracle(
    spark: SparkSession, location: str, number: int
) -> None:
    (single,) = drawn(strategies.pipelines(), 1, number)
    exact = strategies.histories(single, min_versions=VERSIONS, max_versions=VERSIONS)
    batches = packed_histories(drawn(exact, SERIES, number))
    pipeline = packed(single)
    store, oracle = Store(spark, location, pipeline), Oracle(pipeline)
    for batch in batches:
        version = store.update(as_frames(spark, pipeline, batch))
        assert version.number == oracle.update(batch)
        assert_same(store, oracle, pipeline, version.number)
    for older in random.Random(number).sample(range(store.head.number), 2):  # time travel
        assert_same(store, oracle, pipeline, older)
