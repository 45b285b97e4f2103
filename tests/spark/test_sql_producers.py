"""SQL producers: types that Spark finds, and queries that it refuses. See test_forms too."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_type

import deltaproduce as dp
from deltaproduce.testing import plain_rows


def shop() -> dp.Pipeline:
    pipeline = dp.Pipeline("shop")
    pipeline.source("orders", key="customer bigint, `order` int", value="amount decimal(12,2)")
    pipeline.source("names", key="id bigint", value="name string, tags map<string,int>")
    pipeline.sql("by_customer", "SELECT customer, `order`, amount FROM orders", key="customer desc")
    pipeline.sql(
        "totals",
        "SELECT customer, sum(amount) AS total, count(*) AS orders FROM by_customer "
        "GROUP BY customer",
        key="customer",
    )
    return pipeline


def test_types_are_spark_s_and_directions_the_key_s(spark: SparkSession, location: str) -> None:
    store = dp.Store(spark, location, shop())
    assert store.content("totals").dtypes == [
        ("customer", "bigint"),
        ("total", "decimal(22,2)"),
        ("orders", "bigint"),
        ("_source_customer", "bigint"),
        ("_ordinal", "bigint"),
    ]
    orders = "VALUES (1L, 1, 5.00), (2L, 1, 7.50), (2L, 2, 1.25), (null, 1, 2.00)"
    store.update({"orders": spark.sql(f"SELECT * FROM {orders} AS t(customer, `order`, amount)")})
    found = store.content("by_customer", ordered=True).select("customer", "order")
    assert plain_rows(found.collect()) == [(2, 1), (2, 2), (1, 1), (None, 1)]
    totals = store.content("totals", ordered=True).selectExpr("customer", "string(total)")
    assert plain_rows(totals.collect()) == [(None, "2.00"), (1, "5.00"), (2, "8.75")]


def test_functions_read_queries_and_queries_join_functions(
    spark: SparkSession, location: str
) -> None:
    pipeline = dp.Pipeline("mixed")
    pipeline.source("a", key="k bigint", value="v int")
    pipeline.source("b", key="id bigint", value="tags map<string,int>")

    @pipeline.producer("a", key="k bigint", value="v int")
    def doubled(k: int, values: Iterator[int]) -> Iterator[Any]:
        for v in values:
            yield k, 2 * v

    pipeline.sql(
        "joined",
        "SELECT d.k, b.tags, d.v FROM doubled d LEFT JOIN b ON d.k <=> b.id",
        key="k",
    )

    @pipeline.producer("joined", "b", key="n int", value="v int, size int")
    def sizes(k: int, values: Iterator[Any], tags: Iterator[Any]) -> Iterator[Any]:
        found = [len(tag) for tag in tags]
        for value in values:
            yield len(value.tags or ()), (value.v, sum(found))

    store = dp.Store(spark, location, pipeline)
    store.update({"a": spark.sql("SELECT * FROM VALUES (1L, 1), (2L, 2), (null, 3) AS t(k, v)")})
    store.update({"b": spark.sql("SELECT id, map('x', 1) AS tags FROM VALUES (2L), (null) t(id)")})
    found = store.content("sizes", ordered=True).select("n", "v", "size")
    assert plain_rows(found.collect()) == [(0, 2, 0), (1, 6, 1), (1, 4, 1)]
    changed = store.updates("joined", ordered=True).select("k", "_change_type")
    assert plain_rows(changed.collect()) == [(None, "update"), (2, "update")]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT customer, unheard_of(amount) AS v FROM orders",
        "SELECT customer, amount + array(1) AS v FROM orders",
    ],
)
def test_what_spark_refuses_is_found_before_anything_is_written(
    spark: SparkSession, location: str, query: str
) -> None:
    pipeline = shop()
    pipeline.sql("wrong", query, key="customer")
    with pytest.raises(dp.DefinitionError) as caught:
        dp.Store(spark, location, pipeline)
    assert caught.value.stage == "wrong"


def test_keys_of_other_types_are_found_when_a_store_is_opened(
    spark: SparkSession, location: str
) -> None:
    pipeline = dp.Pipeline("joins")
    pipeline.source("a", key="k bigint", value="v int")
    pipeline.sql("texts", "SELECT string(k) AS k, v FROM a", key="k")
    pipeline.producer("texts", "a", key="k bigint", value="v int", name="both")(
        lambda k, texts, a: []
    )
    with pytest.raises(dp.DefinitionError) as caught:
        dp.Store(spark, location, pipeline)
    assert caught.value.stage == "both"


def test_a_query_that_fails_names_its_stage_and_publishes_nothing(
    spark: SparkSession, location: str
) -> None:
    pipeline = dp.Pipeline("failing")
    pipeline.source("a", key="k bigint", value="v string")
    pipeline.sql("numbers", "SELECT k, int(v) AS v FROM a", key="k")
    store = dp.Store(spark, location, pipeline)
    with pytest.raises(dp.ProducerError) as caught:
        store.update({"a": spark.sql("SELECT 1L AS k, 'x' AS v")})
    assert caught.value.stage == "numbers"
    assert store.head.number == 0
    left = spark.sql("SHOW TABLES").where("isTemporary AND tableName LIKE '\\_deltaproduce%'")
    assert left.isEmpty()


PROJECT = {
    "deltaproduce.toml": '[project]\nname = "shop"\nlocation = "./lake"\n',
    "stages/orders.sql": (
        "EXTERNAL orders (columns (customer bigint, `order` int, amount decimal(12,2), "
        "at timestamp), key (customer, `order`));"
    ),
    "stages/by_customer.sql": (
        "STAGE by_customer (key (customer));\n"
        "SELECT customer, `order`, amount * 2 AS twice, at, map('order', `order`) AS tags\n"
        "FROM orders"
    ),
    "stages/named.sql": (
        "STAGE named (key (name));\n"
        "SELECT n.name, b.twice AS total, array(b.at) AS at FROM by_customer b "
        "JOIN names n ON n.id = b.customer"
    ),
    "stages/a_source.py": """
from pathlib import Path

def define(pipeline):
    table = str(Path(__file__).parents[1] / "names")
    pipeline.delta_source("names", table=table, key="id", value="name")
""",
    "stages/more.py": """
import deltaproduce as dp

def define(pipeline):
    most = {"most": dp.agg.max("twice")}
    pipeline.aggregate("totals", "by_customer", key="customer", values=most)

    @pipeline.producer("named", key="length int", value="total decimal(30,2)")
    def lengths(name, found):
        yield from ((len(name), one.total) for one in found)
""",
}


def test_a_store_is_read_without_a_session_in_the_types_of_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Whatever a stage is, its tables have the columns and rows that the session reads."""
    for name, text in PROJECT.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    names = "SELECT id, concat('n', id % 2) AS name FROM range(4)"
    spark.sql(names).write.format("delta").save(str(tmp_path / "names"))
    project = dp.Project(tmp_path)
    rows = "id AS customer, int(id) AS `order`, decimal(id) AS amount, timestamp_seconds(id) AS at"
    with project.store(spark) as store:
        store.update({"orders": spark.range(3).selectExpr(*rows.split(", "))})
        with project.store() as here:
            for stage, table in product(
                ("orders", "by_customer", "named", "totals", "lengths"),
                ("content", "key_mappings", "updates"),
            ):
                if table == "key_mappings" and stage in {"orders", "totals"}:
                    continue
                found = getattr(here, table)(stage, ordered=True)
                wanted = getattr(store, table)(stage, ordered=True)
                types = zip(found.column_names, found.schema.types, strict=True)
                assert [*types] == [
                    (field.name, to_arrow_type(field.dataType, timezone="UTC"))
                    for field in wanted.schema
                ]
                if table == "content" and stage in {"by_customer", "named"}:
                    assert found.to_pylist() == wanted.toArrow().to_pylist()
            with pytest.raises(dp.SessionError) as caught:
                here.content("names")  # someone else's table
            assert caught.value.stage == "names"
            stored = here.content("by_customer", ordered=True)
            with pytest.raises(dp.SessionError) as caught:
                here.update({"orders": [{"customer": 9, "order": 1, "amount": 1, "at": None}]})
            assert caught.value.stage == "names"
            assert here.head.number == 1
    (tmp_path / "stages" / "by_customer.sql").write_text(
        PROJECT["stages/by_customer.sql"].replace("amount * 2", "amount * 3")
    )
    with dp.Project(tmp_path).store() as edited:  # no version has the types of this query
        assert edited.content("by_customer", ordered=True).equals(stored)
