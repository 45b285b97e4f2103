"""The cluster and the session of the core suite: a master, and two workers of one core each."""

from collections.abc import Iterator

import pytest
from cluster_sessions import FEW_TASKS, Sessions
from pyspark.sql import SparkSession
from standalone import S3_PACKAGES, Cluster, started


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with started(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="session")
def sessions(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory, long_run: bool
) -> Iterator[Sessions]:
    """A long run's have what they need in object stores: Java gets packages when it starts."""
    packages = S3_PACKAGES if long_run else ()
    running = Sessions(cluster, tmp_path_factory.mktemp("warehouse"), packages)
    yield running
    running.stop()


@pytest.fixture
def spark(sessions: Sessions) -> SparkSession:
    return sessions.of(FEW_TASKS)
