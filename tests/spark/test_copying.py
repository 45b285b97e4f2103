"""Changes for a copy of a store with a session: the same as without a session."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest
from comparing import as_frames
from copied import Copy, assert_copied
from pyspark.sql import SparkSession
from selecting import long
from series import drawn, instructed

from deltaproduce import Limits, MissingPartitionsError, Store
from deltaproduce.testing import strategies


@long
@pytest.mark.parametrize("place", ["path", "schema"])
def test_a_copy_that_takes_what_it_lacks_is_equal(
    spark: SparkSession, tmp_path: Path, place: str
) -> None:
    """Of files that are read here, and of tables that only Spark sees.

    `tests/local` has it in each run.
    """
    (pipeline,) = drawn(strategies.pipelines(strict=True), 1, 9_001)
    (history,) = drawn(instructed(pipeline, 3), 1, 9_001)
    chance, copy = random.Random(1), Copy()
    location = str(tmp_path / "store") if place == "path" else "copied_store"
    spark.sql(f"CREATE SCHEMA IF NOT EXISTS copied_store LOCATION '{tmp_path}/schema'")
    try:
        limits = Limits(small_table_rows=0, replaced_percent=900, group_rows=2)
        with Store(spark, location, pipeline, limits=limits) as store:
            for batch, told in history:
                with suppress(MissingPartitionsError):
                    store.update(as_frames(spark, pipeline, batch), **told)
                if chance.random() < 0.7:
                    copy.take(store)
                    assert_copied(copy, store, pipeline)
            copy.take(store)
            assert_copied(copy, store, pipeline)
    finally:
        spark.sql("DROP SCHEMA copied_store CASCADE")
