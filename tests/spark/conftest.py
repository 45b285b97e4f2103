"""The one Spark session that all tests share, and a place for a store."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from deltaproduce.session import local_session

# What makes tests on a few rows fast: one task where one suffices.
SETTINGS = {
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    warehouse = tmp_path_factory.mktemp("warehouse")
    session = local_session(
        "deltaproduce tests",
        cores=2,
        memory="4g",
        config={**SETTINGS, "spark.sql.warehouse.dir": str(warehouse)},
    )
    yield session
    session.stop()


@pytest.fixture
def location(tmp_path: Path) -> str:
    return str(tmp_path / "store")
