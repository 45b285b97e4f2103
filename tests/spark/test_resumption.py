"""Resumption in Spark: no function runs twice for a version; see `tests/local`."""

from pathlib import Path

import pytest
from limiting import limited
from pyspark.sql import SparkSession
from selecting import long
from test_local_resumption import assert_carried_on


@pytest.fixture(autouse=True)
def one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltaproduce.operations.publisher._WRITERS", 1)


@long
def test_what_is_stored_is_not_produced_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables with runs, in Spark."""
    limited(monkeypatch, small_table_rows=0, replaced_percent=900, local_rows=0)
    assert_carried_on(spark, tmp_path, in_full=False)
