"""User-defined aggregates in Spark: its workers compute the same as the driver's workers."""

from collections.abc import Iterator

import arrow_aggregates
import own_aggregates
import pyarrow as pa
import pytest
import test_local_own
from comparing import as_frames, assert_same
from forcing import WAYS, Way, forced
from pyspark.sql import SparkSession
from selecting import long
from test_local_own import STAGES, assert_twins, failing_shop, own_history, own_site
from travelling import travelling

import deltaproduce as dp
from deltaproduce.engines import calls, choice
from deltaproduce.testing import Oracle


@pytest.fixture(autouse=True)
def by_value() -> Iterator[None]:
    with travelling(own_aggregates, arrow_aggregates, test_local_own):
        yield


@long
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_versions_equal_the_oracle(spark: SparkSession, location: str, way: Way) -> None:
    """What is stored, states too, is what a refresh makes."""
    pipeline = own_site()
    oracle = Oracle(pipeline)
    with forced(way):
        store = dp.Store(spark, location, pipeline, table_type=way.table_type)
        for batch in own_history(600 + WAYS.index(way), 4):
            version = store.update(as_frames(spark, pipeline, batch))
            assert version.number == oracle.update(batch)
            assert_same(store, oracle, pipeline, version.number)
        assert_twins(store, STAGES)
        for stage in STAGES:
            figures = store.refresh(stage).stages[stage]
            assert (figures.rows_added, figures.rows_removed) == (0, 0)
            assert figures.mode == "full" or not oracle.content(stage)
        assert store.verify(recompute=True) == ()


def test_what_a_method_raises_in_spark_has_stage_key_and_cause(
    spark: SparkSession, location: str
) -> None:
    """It is told as of a worker beside the driver."""
    (way,) = (way for way in WAYS if way.name == "in Spark, joined")
    pipeline = failing_shop(add=KeyError("no"))
    with forced(way):
        store = dp.Store(spark, location, pipeline, table_type=way.table_type)
        rows = spark.createDataFrame([(1, "a", 1), (2, "b", 13)], "id bigint, g string, n int")
        with pytest.raises(dp.ProducerError, match="value 'own'") as caught:
            store.update({"rows": rows})
        assert (caught.value.stage, caught.value.key) == ("by_g", "b")
        assert isinstance(caught.value.__cause__, KeyError)
        assert store.head.number == 0


def test_rows_on_the_driver_go_to_spark_where_its_workers_are_others(
    spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a session has files that a process beside the driver has not."""
    for module in (calls, choice):
        monkeypatch.setattr(module, "are_as_beside", lambda _: False)
    monkeypatch.setattr(calls, "process_workers", lambda: None)  # none is asked for
    store = dp.Store(spark, location, failing_shop())
    store.update({"rows": pa.table({"id": [1, 2, 3], "g": ["a", "b", "a"], "n": [1, 2, 4]})})
    store.update({"rows": pa.table({"id": [4, 5], "g": ["a", "c"], "n": [None, 3]})})
    content = store.content("by_g", ordered=True).select("g", "rows", "own").collect()
    assert list(map(tuple, content)) == [("a", 3, 5), ("b", 1, 2), ("c", 1, 3)]
