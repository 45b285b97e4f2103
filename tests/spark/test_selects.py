"""SQL text of queries, run by Spark: it returns the rows of the oracle at every version.

`tests/local/test_local_selects.py` tests DuckDB's text on random series.
"""

from pathlib import Path

import pytest
from comparing import TABLES
from crashing import batch, built, frames, orders
from forcing import WAYS, forced
from local_stores import plain_table
from other_readers import of_text
from pyspark.sql import SparkSession
from selecting import long

from deltaproduce import InvalidArgumentError, Limits, Pipeline, Store
from deltaproduce.testing import Oracle, plain_rows

RUNS = next(way for way in WAYS if way.name == "runs")


def assert_selected(spark: SparkSession, store: Store, oracle: Oracle, version: int) -> None:
    for stage in ("orders", "by_customer"):
        for table in TABLES if stage == "by_customer" else ("content", "updates"):
            rows = spark.sql(store.sql(stage, version, table=table))
            own = getattr(store, table)(stage, version)
            assert rows.schema.names == own.schema.names
            assert [f.dataType for f in rows.schema] == [f.dataType for f in own.schema]
            found = sorted(plain_rows(rows.collect()), key=repr)
            expected = plain_rows(getattr(oracle, table)(stage, version))
            assert found == sorted(expected, key=repr), (stage, table, version)


@long
def test_spark_reads_a_version_by_its_text(spark: SparkSession, location: str) -> None:
    """With runs beside the tables, and when these are folded."""
    with forced(RUNS):
        oracle = built(None, location, 3)
        store = Store(spark, location, orders())
        texts = {n: store.sql("by_customer", n) for n in range(4)}
        assert "ANTI JOIN" in texts[3]
        for number in (0, 3):
            assert_selected(spark, store, oracle, number)
        store.compact()
        changes = batch((0, 1, 77), (9, 1, 78))
        assert store.update(frames(spark, changes)).number == oracle.update(changes)
        assert_selected(spark, store, oracle, 4)
    for number, text in texts.items():  # what is written later does not matter
        assert store.sql("by_customer", number) == text
        found = sorted(plain_rows(spark.sql(text).collect()), key=repr)
        assert found == sorted(plain_rows(oracle.content("by_customer", number)), key=repr)
    inside = f"SELECT customer, sum(amount) FROM ({store.sql('by_customer')}) GROUP BY customer"
    assert spark.sql(inside).count() == len({row[0] for row in oracle.content("by_customer", 4)})


def test_marked_rows_are_read_by_spark_and_by_duckdb_s_extension(
    spark: SparkSession, location: str
) -> None:
    """By the text of a version each."""
    limits, oracle = (
        Limits(small_table_rows=0, group_rows=3, replaced_percent=900),
        Oracle(orders()),
    )
    store = Store(spark, location, orders(), limits=limits)
    for changes in (batch(*((n, n % 5, n) for n in range(20))), batch((3, 1, 77), (4,))):
        assert store.update(frames(spark, changes)).number == oracle.update(changes)
    expected = sorted(plain_rows(oracle.content("by_customer", 2)), key=repr)
    assert sorted(plain_rows(spark.sql(store.sql("by_customer")).collect()), key=repr) == expected
    text = store.sql("by_customer", dialect="duckdb")
    assert "delta_scan(" in text
    assert sorted(plain_table(of_text(text)), key=repr) == expected


def test_a_source_that_is_read_in_place_is_a_table_already(
    spark: SparkSession, tmp_path: Path
) -> None:
    theirs = str(tmp_path / "theirs")
    spark.range(3).selectExpr("id AS k", "id AS n").write.format("delta").save(theirs)
    pipeline = Pipeline("reading")
    pipeline.delta_source("theirs", table=theirs, key="k bigint", value="n bigint")
    store = Store(spark, tmp_path / "store", pipeline)
    store.update()
    with pytest.raises(InvalidArgumentError) as refused:
        store.sql("theirs")
    assert f"{theirs!r} at delta version 0" in str(refused.value)
