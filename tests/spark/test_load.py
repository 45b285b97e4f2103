"""Full snapshots: a load makes the same tables as the equivalent changes."""

import random

import pyarrow as pa
import pytest
from comparing import as_snapshots, assert_same
from forcing import WAYS, Way, forced
from local_stores import plain_table
from pyspark.sql import SparkSession
from selecting import long
from series import drawn, packed, packed_histories

from deltaproduce import InvalidChangesError, Pipeline, Store
from deltaproduce.testing import Oracle, Upsert, strategies

ORDERS = "id bigint, n int, t string"
ORDERS_AND_ORDINAL = f"{ORDERS}, _ordinal int"


def shop() -> Pipeline:
    pipeline = Pipeline("shop")
    orders = pipeline.source("orders", key="id bigint", value="n int NOT NULL, t string")
    pipeline.source("lines", key="id bigint", value="n bigint")

    @pipeline.producer(orders, key="n int", value="id bigint")
    def by_number(id, values):
        for value in values:
            yield value.n, id

    return pipeline


# ---- the law


@long
@pytest.mark.parametrize("way", [WAYS[7]], ids=lambda way: way.name)
def test_loading_what_a_batch_leads_to_is_making_the_batch_s_version(
    spark: SparkSession, location: str, way: Way
) -> None:
    number = WAYS.index(way)
    (single,) = drawn(strategies.pipelines(max_producers=3), 1, 100 + number)
    exact = strategies.histories(single, min_versions=3, max_versions=3)
    batches = packed_histories(drawn(exact, 8, number))
    pipeline = packed(single)
    oracle = Oracle(pipeline)
    chance = random.Random(number)
    with forced(way):
        store = Store(spark, location, pipeline, table_type=way.table_type)
        for batch in batches:
            expected = oracle.update(batch)
            found = {source.name: all_rows(oracle, source, chance) for source in sources(pipeline)}
            version = store.load(as_snapshots(spark, pipeline, found))
            assert version.number == store.head.number == expected
            assert version.operation == "load"
            assert_same(store, oracle, pipeline, expected)
            assert store.load(as_snapshots(spark, pipeline, found)).number == expected


def sources(pipeline):
    return pipeline.graph().sources


def all_rows(oracle, source, chance):
    """All rows of a source, its keys in any order."""
    columns, by_key = oracle.columns(source.name, "content"), {}
    for row in oracle.content(source.name):
        named = dict(zip(columns, row, strict=True))
        schema = source.schema
        key, value = (tuple(map(named.get, part.names)) for part in (schema.key, schema.value))
        by_key.setdefault(key, []).append(Upsert(key, value))
    keys = chance.sample(list(by_key), len(by_key))
    return [upsert for key in keys for upsert in by_key[key]]


# ---- by hand: written with a session, and read without, as Spark takes a second a table


def test_a_snapshot_says_what_is_gone(spark: SparkSession, location: str) -> None:
    store, reader = (Store(session, location, shop()) for session in (spark, None))
    first = [(1, 10, "a"), (1, 11, "b"), (2, 20, "c"), (3, 30, "d")]
    version = store.load({"orders": spark.createDataFrame(first, ORDERS)})
    assert (version.number, version.operation) == (1, "load")
    assert version.stages["orders"].reason == "all rows given"
    assert version.stages["lines"].mode == "skipped"

    second = pa.table(
        {
            "t": ["c", "e", "b", "a"],
            "n": pa.array([20, 30, 11, 10], pa.int32()),
            "ID": [2, 4, 1, 1],
            "_ordinal": [0, 0, 7, 5],
        }
    )
    version = store.load({"orders": second})
    assert plain_table(reader.updates("orders", ordered=True)) == [
        (2, "delete", 3, 0, None, None),
        (2, "add", 4, 0, 30, "e"),
    ]
    assert plain_table(reader.updates("by_number", ordered=True)) == [(2, "update", 30, 0, 4)]
    figures = version.stages["orders"]
    assert (figures.changed_keys, figures.rows_added, figures.rows_removed) == (2, 1, 1)

    reordered = [(1, 10, "a", 1), (1, 11, "b", 0), (2, 20, "c", 0), (4, 30, "e", 0)]
    store.load({"orders": spark.createDataFrame(reordered, ORDERS_AND_ORDINAL)})
    assert plain_table(reader.updates("orders", ordered=True)) == [
        (3, "update", 1, 0, 11, "b"),
        (3, "update", 1, 1, 10, "a"),
    ]


def test_an_empty_snapshot_deletes_all_rows_of_its_source_alone(
    spark: SparkSession, location: str
) -> None:
    store, reader = (Store(session, location, shop()) for session in (spark, None))
    none = spark.createDataFrame([], ORDERS)
    assert store.load({"orders": none}).number == 0
    assert store.load({}).number == 0
    store.load(
        {
            "orders": spark.createDataFrame([(1, 10, "a"), (None, 20, None)], ORDERS),
            "lines": spark.createDataFrame([(1, 1), (2, 2)], "id bigint, n bigint"),
        }
    )
    assert store.load({"orders": none}).number == 2
    assert plain_table(reader.updates("orders", ordered=True)) == [
        (2, "delete", None, 0, None, None),
        (2, "delete", 1, 0, None, None),
    ]
    assert plain_table(reader.content("by_number")) == plain_table(reader.content("orders")) == []
    assert plain_table(reader.content("lines", ordered=True)) == [(1, 1, 0), (2, 2, 0)]
    assert store.load({"orders": none}).number == 2


def test_an_update_id_is_one_name_for_loads_and_updates(spark: SparkSession, location: str) -> None:
    store, reader = (Store(session, location, shop()) for session in (spark, None))
    one = spark.createDataFrame([(1, 10, "a")], ORDERS)
    assert store.load({"orders": one}, "monday").number == 1
    assert store.load({"orders": one.limit(0)}, "monday").number == 1
    assert store.update({"orders": one.limit(0)}, "monday").number == 1
    assert store.load({"orders": one}, update_id="tuesday").number == 2  # S9: it is remembered
    assert store.load({"orders": one.limit(0)}, "tuesday").number == 2
    assert plain_table(reader.content("orders")) == [(1, 10, "a", 0)]


@long
def test_content_that_is_not_small_is_compared_in_full(spark: SparkSession, location: str) -> None:
    store, reader = (Store(session, location, shop()) for session in (spark, None))
    day = spark.range(30_000).selectExpr("id", "cast(id % 97 AS int) AS n", "'x' AS t")
    assert store.load({"orders": day}).number == 1
    assert store.load({"orders": day.repartition(3)}).number == 1
    next_day = day.where("id != 5").selectExpr("id", "n", "if(id = 6, 'y', t) AS t")
    store.load({"orders": next_day.union(spark.createDataFrame([(-1, 0, "z")], ORDERS))})
    assert plain_table(reader.updates("orders", ordered=True)) == [
        (2, "add", -1, 0, 0, "z"),
        (2, "delete", 5, 0, None, None),
        (2, "update", 6, 0, 6, "y"),
    ]
    assert store.content("orders").count() == 30_000
    few = spark.createDataFrame([(7, 7, "x"), (8, 8, "y")], ORDERS)
    assert store.load({"orders": few}).stages["orders"].changed_keys == 29_999
    assert plain_table(reader.content("by_number", ordered=True)) == [(7, 7, 7, 0), (8, 8, 8, 0)]


# ---- mistakes

INVALID = {
    "change types": ([(1, 1, "a", "upsert")], f"{ORDERS}, _change_type string", "_change_type"),
    "CHANGE TYPES": ([(1, 1, "a", "delete")], f"{ORDERS}, _Change_Type string", "_change_type"),
    "a missing column": ([(1, 1)], "id bigint, n int", "t"),
    "a wider type": ([(1, 1, "a")], "id bigint, n bigint, t string", "n"),
    "an unknown column": ([(1, 1, "a", 1)], f"{ORDERS}, more int", "more"),
    "a null": ([(1, 1, "a"), (2, None, "a")], ORDERS, "n"),
    "an ordinal that is no integer": ([(1, 1, "a", 0.5)], f"{ORDERS}, _ordinal double", "_ordinal"),
}


def test_snapshots_that_do_not_fit(spark: SparkSession, location: str) -> None:
    store, reader = (Store(session, location, shop()) for session in (spark, None))
    right = spark.createDataFrame([(1, 10, "a")], ORDERS)
    store.load({"orders": right})
    for case, (found, ddl, column) in INVALID.items():
        with pytest.raises(InvalidChangesError) as caught:
            store.load({"orders": spark.createDataFrame(found, ddl)})
        assert (caught.value.source, caught.value.column) == ("orders", column), case
    for wrong in ({"other": right}, {"by_number": right}, {"orders": [(1, 10, "a")]}, right):
        with pytest.raises(InvalidChangesError):
            store.load(wrong)
    assert store.head.number == 1
    assert plain_table(reader.content("orders")) == [(1, 10, "a", 0)]
