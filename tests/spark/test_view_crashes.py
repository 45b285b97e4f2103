"""A crash of an update of views in a store with a session leaves one whole version.

The views have hidden tables, joins, groups and a limit (`view_stores`); `tests/local` has them
without a session, and all operations.
"""

from contextlib import suppress

import pytest
from comparing import as_frames, assert_same
from crashing import CrashAt, CrashError, fail
from pyspark.sql import SparkSession
from selecting import long
from view_stores import CHANGE, FIRST, OTHER, VIEWS, views

from deltaproduce import Limits, Store
from deltaproduce.storage import failpoints
from deltaproduce.testing import Oracle

LARGE = Limits(small_table_rows=0, replaced_percent=900)
LIMITS = {"small steps": LARGE, "all rows in Spark": Limits(local_rows=0, local_bytes=0)}


@long
@pytest.mark.parametrize("way", LIMITS)
def test_a_crash_of_an_update_of_views(
    spark: SparkSession,
    location: str,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
) -> None:
    """Before each third effect; then it goes on, or another does."""
    monkeypatch.setattr("deltaproduce.operations.publisher._WRITERS", 1)
    pipeline, limits = views(), LIMITS[way]
    oracle, published = Oracle(pipeline), False
    with Store(None, location, pipeline, limits=LARGE) as store:
        for changes in FIRST:
            store.update(dict(as_frames(None, pipeline, changes)))
            oracle.update(changes)
    batches = (CHANGE, OTHER, *FIRST)
    for point in range(40):
        batch, name = batches[point % len(batches)], f"update {point}"
        crash = CrashAt(3 * point, fail)
        with (
            Store(spark, location, pipeline, limits=limits) as store,
            failpoints.armed(crash),
            suppress(CrashError),
        ):
            store.update(dict(as_frames(spark, pipeline, batch)), name)
            break  # it does not come to so many
        with Store(spark, location, pipeline, limits=limits) as store:
            published = store.head.number > oracle.head
            if published or point % 2 == 0:
                oracle.update(batch, name)
            if not published:
                other = batches[(point + 1) % len(batches)]
                again = (batch, name) if point % 2 == 0 else (other, f"other {point}")
                if point % 2:
                    oracle.update(*again)
                store.update(dict(as_frames(spark, pipeline, again[0])), again[1])
            assert_same(store, oracle, pipeline, oracle.head)
        if published:
            break
    with Store(spark, location, pipeline, limits=limits) as store:
        assert not store.verify()
    assert set(VIEWS) <= {stage.name for stage in pipeline.stages}
