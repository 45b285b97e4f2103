"""Spark SQL by path, and other readers of what Spark has written: the rows of exactly one version.

`tests/local/test_readers_by_path.py` has the law without a session.
"""

import random

import pyarrow as pa
import pytest
from comparing import as_frames, assert_read
from crashing import drawn, orders
from local_stores import as_rows, assert_same_here
from other_readers import READERS
from pyspark.sql import SparkSession
from reading_by_path import MARKING, Life, assert_documented, recipes, visits
from selecting import long
from test_column_order import as_before, order_of

from deltaproduce import Limits, Store
from deltaproduce.testing import Oracle

IN_SPARK = Limits(local_rows=0, small_table_rows=0)
KINDS = {"marked": MARKING, "in Spark": IN_SPARK}


@long
@pytest.mark.parametrize("kind", KINDS)
def test_each_reader_opens_what_both_engines_have_written_in_turn(
    spark: SparkSession, location: str, kind: str
) -> None:
    def by_spark_sql(path: str, at: int | None) -> pa.Table:
        version = "" if at is None else f" VERSION AS OF {at}"
        return spark.sql(f"SELECT * FROM delta.`{path}`{version}").toArrow()

    life = Life(
        location,
        [None, spark],
        visits(),
        visits(as_model=True),
        random.Random(kind),
        limits=KINDS[kind],
    )
    spark_sql = {"Spark SQL, `VERSION AS OF`": by_spark_sql}
    for _ in range(30):
        life.step()
        life.read({**spark_sql, **READERS})
    life.assert_no_others()
    assert_documented(life.seen, whole=[*spark_sql])
    told = recipes(location, "visits", life.store.head.delta_version("visits", "content"))
    pinned, rows = map(spark.sql, told["Spark SQL"])
    assert pinned.collect()[0][0] == life.store.head.delta_version("visits", "content")
    assert rows.count() == len(life.oracle.content("visits"))


@long
@pytest.mark.parametrize(
    "limits",
    [pytest.param(IN_SPARK, id="in Spark"), pytest.param(Limits(), id="small", marks=long)],
)
def test_spark_goes_on_where_columns_are_in_the_order_of_before(
    spark: SparkSession, location: str, limits: Limits, long_run: bool
) -> None:
    """The tables get the order of now with the next write of all rows, by either engine."""
    oracle = Oracle(orders())
    with as_before(), Store(None, location, orders(), limits=limits) as store:
        for number in range(2):
            store.update(as_rows(orders(), drawn(number))), oracle.update(drawn(number))
        assert order_of(store, "by_customer") == ["customer", "_source_id", "_ordinal", "amount"]
    with Store(spark, location, orders(), limits=limits) as store:
        for number in range(2, 6 if long_run else 4):
            made = store.update(as_frames(spark, orders(), drawn(number)))
            assert made.number == oracle.update(drawn(number))
        assert order_of(store, "by_customer") == ["customer", "amount", "_source_id", "_ordinal"]
        assert store.verify(recompute=long_run) == ()
        assert_read(store, oracle, [("by_customer", orders().stages[1], "content")], 2)
    with Store(None, location, orders(), limits=limits) as store:
        assert_same_here(store, oracle, orders(), range(oracle.head + 1))
        assert store.rollback(1).number == oracle.rollback(1)
        assert_same_here(store, oracle, orders(), [oracle.head])
