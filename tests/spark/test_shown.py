"""The display of a store with a session: printing runs no Spark job; diffs, job descriptions."""

import pytest
from comparing import as_frames
from forcing import WAYS, forced
from pyspark.sql import SparkSession
from selecting import long
from series import drawn
from test_local_diffs import assert_diff, shop

from deltaproduce import Progress, Store
from deltaproduce.testing import Oracle, Upsert, strategies

IN_SPARK = next(way for way in WAYS if way.name == "in Spark, runs")
DESCRIPTION = "spark.job.description"


def orders(*rows: tuple[int, str, int]) -> dict[str, list[Upsert]]:
    return {"orders": [Upsert((number,), (customer, amount)) for number, customer, amount in rows]}


@long
def test_diffs_in_spark_are_those_of_the_models(spark: SparkSession, location: str) -> None:
    """As `tests/local` has them in each run."""
    pipeline = shop()
    oracle = Oracle(pipeline)
    with forced(IN_SPARK):
        store = Store(spark, location, pipeline, table_type=IN_SPARK.table_type)
        for batch in (orders((1, "ann", 5), (2, "bob", 7)), orders((1, "cid", 5), (3, "bob", 1))):
            store.update(as_frames(spark, pipeline, batch))
            oracle.update(batch)
        for before, after in ((1, 2), (2, 1), (0, 2)):
            assert_diff(store, oracle, pipeline.stages, before, after)


@long
@pytest.mark.parametrize("number", range(2))
def test_diffs_of_random_series_in_spark(spark: SparkSession, location: str, number: int) -> None:
    (pipeline,) = drawn(strategies.pipelines(), 1, number + 5_000)
    histories = strategies.histories(pipeline, min_versions=3, max_versions=3)
    (history,) = drawn(histories, 1, number + 5_000)
    oracle = Oracle(pipeline)
    with forced(IN_SPARK):
        store = Store(spark, location, pipeline, table_type=IN_SPARK.table_type)
        for batch in history:
            store.update(as_frames(spark, pipeline, batch))
            oracle.update(batch)
        for before, after in ((1, 3), (3, 2), (0, 3)):
            assert_diff(store, oracle, pipeline.stages, before, after)


def test_jobs_are_described_and_then_as_the_user_has_it(spark: SparkSession, location: str) -> None:
    context, seen = spark.sparkContext, dict[str, str | None]()

    def look(progress: Progress) -> None:
        if progress.event == "begins" and progress.phase:
            seen[f"{progress.stage} {progress.phase}"] = context.getLocalProperty(DESCRIPTION)

    pipeline = shop()
    context.setLocalProperty(DESCRIPTION, "the user's")
    try:
        with Store(spark, location, pipeline, progress=look) as store:
            store.update(as_frames(spark, pipeline, orders((1, "ann", 5))))
        assert context.getLocalProperty(DESCRIPTION) == "the user's"
    finally:
        context.setLocalProperty(DESCRIPTION, None)
    assert seen["totals computing"] == "deltaproduce: update totals computing"
    assert seen[" publishing"] == "deltaproduce: update publishing"


def test_printing_a_store_and_a_lineage_runs_no_job(spark: SparkSession, location: str) -> None:
    pipeline = shop()
    store = Store(spark, location, pipeline)
    store.update(as_frames(spark, pipeline, orders((1, "ann", 5))))
    lineage = store.lineage("totals", "ann")
    context = spark.sparkContext
    context.setJobGroup("shown", "what is printed")
    try:
        text = "\n".join(map(str, (store, store.head, lineage, pipeline, store.plan(["orders"]))))
        assert "in Spark; use them as a DataFrame" in text
        assert store._repr_html_()
        assert list(context.statusTracker().getJobIdsForGroup("shown")) == []
    finally:
        for name in ("spark.jobGroup.id", DESCRIPTION):
            context.setLocalProperty(name, None)
