"""The cost of a version in Spark jobs and Delta commits."""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from counting import jobs
from forcing import WAYS, Way, forced
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from selecting import long

from benchmarks import w1
from deltaproduce import Limits, Store

BOUNDS = {  # way -> jobs and data commits of a version that reaches all four stages
    "small tables": (33, 11),
    "runs": (20, 8),
}


def commits(location: str) -> int:
    return len([*Path(location).rglob("_delta_log/*.json")])


@pytest.mark.parametrize("way", [w for w in WAYS if w.name in BOUNDS], ids=lambda way: way.name)
def test_jobs_and_commits_of_a_version(spark: SparkSession, location: str, way: Way) -> None:
    workload = w1.workload()
    most_jobs, most_commits = BOUNDS[way.name]
    with forced(way):
        store = Store(spark, location, workload.pipeline(0), table_type=way.table_type)
        store.update({"orders": workload.rows(spark, 2_000)})
        store.update({"orders": workload.changes(spark, 2_000, 100, 1)})  # makes the tables of runs
        changes = workload.changes(spark, 2_000, 100, 2)
        jobs_before, commits_before = jobs(spark), commits(location)
        version = store.update({"orders": changes})
        assert all(stage.changed_keys for stage in version.stages.values())
        assert jobs(spark) - jobs_before <= most_jobs
        assert commits(location) - commits_before <= most_commits + 1  # the version's own


def test_few_rows_of_a_frame_come_in_the_one_job_that_computes_them(
    spark: SparkSession, location: str
) -> None:
    """Whatever the frame is made of; the function that makes the rows is called once for each."""
    store = Store(spark, location, w1.workload().pipeline(0))
    store.update({"orders": w1.workload().rows(spark, 2_000)})
    calls = spark.sparkContext.accumulator(0)

    def made(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            calls.add(len(batch))
            yield batch

    columns = "order_id bigint, customer_id bigint, amount decimal(12,2)"
    rows = [(n, n, Decimal(7)) for n in range(10)]
    listed = spark.createDataFrame(rows, columns)
    eights, nines = (listed.withColumn("amount", f.lit(n).cast("decimal(12,2)")) for n in (8, 9))
    for frame, called in (
        (w1.workload().changes(spark, 2_000, 10, 1), 0),
        (listed, 0),
        (eights.repartition(3), 0),
        (nines.mapInArrow(made, columns), len(rows)),
    ):
        before, number = jobs(spark), store.head.number
        version = store.update({"orders": frame})
        assert version.number == number + 1
        assert version.stages["orders"].changed_keys == 10
        assert jobs(spark) - before == 1
        assert calls.value == called


@pytest.mark.parametrize(
    "others",
    [pytest.param({}, marks=long), {"seek_rows": 0, "seek_keys": 9}],
    ids=["by row groups", "in all rows"],
)
def test_keys_of_more_rows_than_one_part_are_looked_up_without_spark(
    spark: SparkSession, location: str, others: Mapping[str, int]
) -> None:
    """A fifth of the orders are of nearly all customers, whose orders are more than one part."""
    workload = w1.workload()
    limits = Limits(
        small_table_rows=0,
        replaced_percent=900,
        group_rows=8,
        local_rows=300,
        local_parts=9,
        **others,
    )
    store = Store(spark, location, workload.pipeline(0), limits=limits)
    store.update({"orders": workload.rows(spark, 2_000).toArrow()})
    changes = workload.changes(spark, 2_000, 400, 1).toArrow()
    before = jobs(spark)
    version = store.update({"orders": changes})
    assert version.stages["orders"].changed_keys == 400
    assert jobs(spark) == before
    assert Store(None, location, workload.pipeline(0)).verify(recompute=True) == ()


def test_a_batch_that_changes_nothing_commits_nothing(spark: SparkSession, location: str) -> None:
    workload = w1.workload()
    store = Store(spark, location, workload.pipeline(0))
    store.update({"orders": workload.rows(spark, 2_000)})
    same = workload.rows(spark, 2_000).where("order_id % 7 = 3")
    jobs_before, commits_before = jobs(spark), commits(location)
    assert store.update({"orders": same}).number == 1
    assert jobs(spark) - jobs_before <= 4
    assert commits(location) == commits_before


def test_the_head_is_read_without_a_job_unless_it_moved(spark: SparkSession, location: str) -> None:
    """Of a store by path; one in a catalog is asked for its history."""
    workload = w1.workload(1)
    store, other = (Store(spark, location, workload.pipeline(0)) for _ in range(2))
    store.update({"orders": workload.rows(spark, 100)})
    assert other.head.number == 1
    jobs_before = jobs(spark)
    assert (store.head.number, other.head.number) == (1, 1)
    assert jobs(spark) == jobs_before
    assert other.update({"orders": workload.changes(spark, 100, 10, 1)}).number == 2
    assert (store.head.number, other.head.number) == (2, 2)
    assert jobs(spark) > jobs_before
