"""Where a step runs on a cluster: a table of situations, and laws of the decision."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaproduce.model.limits.placement import Cluster, Work, estimate, is_certain

SMALL = Cluster(driver_cores=4, executor_cores=2, job_seconds=0.2)
MIDDLE = Cluster(driver_cores=8, executor_cores=32, job_seconds=0.3)
HUNDRED = Cluster(driver_cores=2, executor_cores=400, job_seconds=0.3)
ROW = 24
"""The bytes of a row."""


def read_at(rate, rows, keys=1_000):
    """Keys in so many rows of files, of a third of their size, which the driver reads at a rate."""
    return Work(keys, keys * ROW, rows * ROW / 3 / rate)


NEAR, FAR = 200e6, 2e6
"""A disk, and a store in another region, in bytes a second."""

SITUATIONS = {
    "ten keys of any table": (Work(80_000, 80_000 * ROW), HUNDRED, True),
    "a thousand keys of ten million rows, beside the driver": (
        read_at(NEAR, 8_192_000),
        SMALL,
        True,
    ),
    "the same with many executors": (read_at(NEAR, 1_000_000), MIDDLE, True),
    "the same far away, small beside a hundred executors": (
        read_at(FAR, 8_192_000),
        HUNDRED,
        False,
    ),
    "the same far away, and few executors": (read_at(FAR, 8_192_000), SMALL, True),
    "a hundred thousand keys of a million rows": (
        read_at(NEAR, 1_000_000, 100_000),
        SMALL,
        True,
    ),
    "a first load of a million rows that Spark has": (
        Work(1_000_000, 1_000_000 * ROW, in_spark=True),
        SMALL,
        True,
    ),
    "the same, and many executors": (
        Work(1_000_000, 1_000_000 * ROW, in_spark=True),
        MIDDLE,
        True,
    ),
    "a first load of fifty million rows, and many executors": (
        Work(50_000_000, 50_000_000 * ROW, in_spark=True),
        MIDDLE,
        False,
    ),
    "wide rows that would have to come": (
        Work(1_000_000, 1_000_000 * 2_000, in_spark=True),
        MIDDLE,
        False,
    ),
    "wide rows that would have to go": (
        Work(1_000_000, 1_000_000 * 2_000, on_driver=True),
        MIDDLE,
        True,
    ),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_step_runs_where_it_is_estimated_to_be_sooner(name):
    work, cluster, on_driver = SITUATIONS[name]
    assert estimate(work, cluster).is_on_driver == on_driver


amounts = st.integers(0, 10**9)
works = st.builds(
    Work, amounts, amounts, st.floats(0, 1e4), in_spark=st.booleans(), on_driver=st.just(False)
)
clusters = st.builds(Cluster, st.integers(1, 128), st.integers(1, 10_000), st.floats(0.02, 60))


@given(works, clusters)
def test_what_is_certain_is_decided_so_whatever_is_measured(work, cluster):
    if is_certain(work, cluster.driver_cores):
        assert estimate(work, cluster).is_on_driver


@given(works, clusters, amounts, st.integers(0, 10_000))
def test_more_rows_and_slower_jobs_take_longer(work, cluster, more, cores):
    larger = Work(work.rows + more, work.size + more, work.read_seconds, work.in_spark)
    before, after = estimate(work, cluster), estimate(larger, cluster)
    assert after.driver_seconds >= before.driver_seconds
    assert after.spark_seconds >= before.spark_seconds
    stronger = Cluster(cluster.driver_cores, cluster.executor_cores + cores, cluster.job_seconds)
    assert estimate(work, stronger).spark_seconds <= before.spark_seconds
    assert estimate(work, stronger).driver_seconds == before.driver_seconds
