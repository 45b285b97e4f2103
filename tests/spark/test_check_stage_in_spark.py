"""`check_stage` with a session, for a stage that only Spark computes. `tests/local` has the law."""

import pytest
from pyspark.sql import SparkSession

import deltaproduce as dp
from deltaproduce.testing import check_stage


def test_a_stage_that_needs_a_session(spark: SparkSession) -> None:
    pipeline = dp.Pipeline("names")
    pipeline.source("names", key="id int", value="name string, n double")
    pipeline.sql("sounds", "SELECT id, soundex(name) AS sound, n FROM names")
    pipeline.sql("sums", "SELECT sound, sum(n) AS n FROM sounds GROUP BY sound")
    names = [{"id": 1, "name": "Robert", "n": 0.1}, {"id": 2, "name": "Rupert"}, {"id": 3}]
    expected = [{"id": 1, "sound": "R163"}, {"id": 2, "sound": "R163"}, {"id": 3, "sound": None}]
    with pytest.raises(dp.SessionError):
        check_stage(pipeline, "sounds", {"names": names}, expected)
    check_stage(pipeline, "sounds", {"names": names}, expected, spark=spark)
    rows = [{"sound": "R163", "n": 0.1}, {"sound": "R163", "n": 0.2}, {"n": 1.0}]
    summed = [{"sound": "R163", "n": 0.3}, {"n": 1.0}]
    check_stage(pipeline, "sums", {"sounds": rows}, summed, spark=spark)
    with pytest.raises(AssertionError, match="1 of 2 are missing, and 1 of 2 are too many"):
        check_stage(pipeline, "sums", {"sounds": rows}, [{"n": 0.3}, {"n": 1.5}], spark=spark)
