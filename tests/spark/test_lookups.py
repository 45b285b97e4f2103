"""Look-ups and indexes with a session: the same rows as without one, as DataFrames.

The broad laws are in `tests/local/test_local_lookups.py` and `test_local_indexes.py`.
"""

from typing import Any

import pyarrow as pa
import pytest
from forcing import WAYS, forced
from pyspark.sql import DataFrame, SparkSession
from selecting import chosen

from deltaproduce import DefinitionError, InvalidArgumentError, Pipeline, Store

SHORT = "in Spark, joined"
COLUMNS = "id bigint, email string, n int"
FIRST = [(k, None if k % 5 == 0 else f"m{k % 7}", k) for k in range(40)]


def club() -> Pipeline:
    pipeline = Pipeline("club")
    people = pipeline.source("people", key="id bigint", value="email string, n int")
    pipeline.index("by_email", people, key="email string", include="n")
    pipeline.index("by_upper", "by_email", key="upper(email) AS name, n desc")
    return pipeline


def rows_of(found: Any) -> list[tuple[Any, ...]]:
    assert isinstance(found, DataFrame)
    return [tuple(row) for row in found.collect()]


@pytest.mark.parametrize("name", chosen([way.name for way in WAYS], SHORT))
def test_the_rows_are_those_of_a_filter(
    spark: SparkSession, location: str, name: str, long_run: bool
) -> None:
    """In a long run indexes are made that way, too, and are made anew.

    `tests/local` does so in each run.
    """
    way, runs = (next(way for way in WAYS if way.name == one) for one in (name, "runs"))
    made = way if long_run else runs
    with forced(made):
        store = Store(spark, location, club(), table_type=made.table_type)
        store.update({"people": spark.createDataFrame(FIRST, COLUMNS)})
        store.update({"people": spark.createDataFrame([(3, "m1", 99), (41, None, 1)], COLUMNS)})
    with forced(way):
        now = {row[0]: row for row in [*FIRST, (3, "m1", 99), (41, None, 1)]}
        emails = spark.createDataFrame([("m1",), (None,), ("m1",), ("no",)], "EMAIL string")
        wanted = sorted(row for row in now.values() if row[1] in ("m1", None))
        for strategy in ("auto", "scan"):
            found = store.lookup("by_email", emails, strategy=strategy)
            assert sorted((row[1], row[0], row[2]) for row in rows_of(found.rows)) == wanted
            fetched = store.lookup("by_email", emails, strategy=strategy, fetch=True, ordered=True)
            assert [row[:3] for row in rows_of(fetched.rows)] == wanted
            assert fetched.rows.schema == store.content("people").schema
        before = store.lookup("people", pa.table({"id": [3, 41]}), version=1)
        assert [row[1:3] for row in rows_of(before.rows)] == [("m3", 3)]
        upper = store.lookup("by_upper", [("M1", 99), (None, 1)], fetch=True, ordered=True)
        assert [row[:2] for row in rows_of(upper.rows)] == [(None, 41), ("m1", 3)]
        if long_run:
            assert store.verify(recompute=True) == ()
            refreshed = store.refresh("by_upper").stages["by_upper"]
            assert (refreshed.rows_added, refreshed.rows_removed) == (0, 0)


def test_what_does_not_fit_is_refused(spark: SparkSession, location: str) -> None:
    pipeline = club()
    store = Store(spark, location, pipeline)
    store.update({"people": spark.createDataFrame(FIRST, COLUMNS)})
    for keys in (spark.range(3).toDF("n"), spark.createDataFrame([("1",)], "id string")):
        with pytest.raises(InvalidArgumentError) as raised:
            store.lookup("people", keys)
        assert raised.value.argument == "keys"
    pipeline.index("wrong", "people", key="nonsense(email) AS name")
    with pytest.raises(DefinitionError) as refused:
        Store(spark, location, pipeline)
    assert refused.value.stage == "wrong"
