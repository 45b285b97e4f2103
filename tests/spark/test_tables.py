"""A store's tables from outside: Delta's history, plain Spark SQL, delta-rs, a catalog."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from forcing import WAYS, Way, forced
from limiting import limited
from pyspark.sql import Row, SparkSession
from selecting import chosen, long

from deltaproduce import DefinitionError, Limits, NotFoundError, Pipeline, Store, Version
from deltaproduce.storage.parquet.files import ParquetFiles

shop = Pipeline("shop")
orders = shop.source("orders", key="order_id bigint", value="customer string, amount bigint")
visits = shop.source("visits", key="visit_id bigint", value="page string")


@shop.producer(orders, key="customer string", value="order_id bigint, amount bigint")
def by_customer(order_id: int, values: Iterator[Any]) -> Iterator[Any]:
    for value in values:
        yield value.customer, (order_id, value.amount)


@shop.producer(by_customer, key="customer string", value="total bigint")
def totals(customer: str, values: Iterator[Any]) -> Iterator[Any]:
    yield customer, sum(value.amount for value in values)


@shop.producer(visits, key="page string", value="visit_id bigint")
def by_page(visit_id: int, pages: Iterator[Any]) -> Iterator[Any]:
    for page in pages:
        yield page, visit_id


def part(*names: str) -> Pipeline:
    """Some stages of the shop: the fewer tables, the less there is to write."""
    found = Pipeline("shop")
    for stage in shop.stages:
        if stage.name in names:
            found.add(stage)
    return found


ORDER = ("order_id", "customer", "amount")
ORDERS = "order_id bigint, customer string, amount bigint"
VISITS = "visit_id bigint, page string"
TOTALS = {  # by version
    1: [("ann", 30), ("bob", 5)],
    2: [("ann", 31), ("bob", 5)],
    3: [("ann", 31), ("bob", 5)],
    4: [("ann", 11)],
}


def fill(spark: SparkSession, store: Store) -> list[Version]:
    """Four versions: a load, an amount, only visits, a delete and a move."""
    load = spark.createDataFrame([(1, "ann", 10), (2, "ann", 20), (3, "bob", 5)], ORDERS)
    pages = spark.createDataFrame([(1, "home"), (2, "help")], "visit_id bigint, page string")
    amount = spark.createDataFrame([(1, "ann", 11)], ORDERS)
    more = spark.createDataFrame([(3, "home")], "visit_id bigint, page string")
    gone = [(2, None, None, "delete"), (3, None, None, "delete")]
    deletes = spark.createDataFrame(gone, f"{ORDERS}, _change_type string")
    batches = [{"orders": load, "visits": pages}, {"orders": amount}, {"visits": more}]
    return [store.update(batch) for batch in [*batches, {"orders": deletes}]]


PLAIN = [way for way in WAYS if way.name in ("small tables", "replaced")]


@pytest.fixture(scope="module", params=chosen(PLAIN, "replaced"), ids=lambda way: way.name)
def way(request: pytest.FixtureRequest) -> Way:
    return request.param


@pytest.fixture(scope="module")
def store(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, way: Way) -> Store:
    place = str(tmp_path_factory.mktemp("tables") / "shop")
    store = Store(spark, place, shop, table_type=way.table_type)
    with forced(way):
        fill(spark, store)
    return store


@pytest.fixture(scope="module")
def path(store: Store) -> Path:
    return Path(store._opened.tables.location.address)


TABLES = [
    f"{stage}/{kind}"
    for stage in ("orders", "visits", "by_customer", "totals", "by_page")
    for kind in ("content", "updates", "key_mappings")
    if kind != "key_mappings" or stage not in ("orders", "visits")
]


@pytest.mark.parametrize("table", TABLES)
def test_one_data_commit_per_touched_table_and_version(
    store: Store, path: Path, table: str
) -> None:
    history = DeltaTable(str(path / table)).history()  # newest first
    commits = [json.loads(row["userMetadata"])["version"] for row in reversed(history)]
    touched_orders = {"content": [1, 2, 4], "updates": [1, 2, 4], "key_mappings": [1, 4]}
    touched_totals = {"content": [1, 2, 4], "updates": [1, 2, 4], "key_mappings": [1, 4]}
    touched_visits = {kind: [1, 3] for kind in ("content", "updates", "key_mappings")}
    stage, kind = table.split("/")
    expected = touched_visits if stage in ("visits", "by_page") else touched_orders
    assert commits == (touched_totals if stage == "totals" else expected)[kind]
    pinned = [version.stages[stage].delta_versions[kind] for version in store.versions()]
    assert pinned == [sum(commit <= n for commit in commits) - 1 for n in (1, 2, 3, 4)]


def test_spark_sql_reads_any_version_without_the_library(
    spark: SparkSession, path: Path, long_run: bool
) -> None:
    """In a short run one that is not the head, and has been changed."""
    for number, expected in TOTALS.items() if long_run else [(2, TOTALS[2])]:
        log = f"SELECT tables FROM delta.`{path / '_versions'}` WHERE number = {number}"
        pinned = spark.sql(log).first()
        assert pinned is not None
        delta_version = pinned.tables["totals/content"]
        found = spark.sql(
            f"SELECT customer, total FROM delta.`{path / 'totals/content'}` "
            f"VERSION AS OF {delta_version} ORDER BY customer"
        ).collect()
        assert [tuple(row) for row in found] == expected
    feed = spark.sql(
        "SELECT _change_type, customer, total FROM "
        f"delta.`{path / 'totals/updates'}` WHERE _version = 4 ORDER BY customer"
    ).collect()
    assert feed == [Row("update", "ann", 11), Row("delete", "bob", None)]


def test_delta_rs_reads_the_same_rows(store: Store, path: Path) -> None:
    for number, expected in TOTALS.items():
        delta_version = store.versions()[number - 1].stages["totals"].delta_versions["content"]
        table = DeltaTable(str(path / "totals/content"), version=delta_version)
        query = "SELECT customer, total FROM totals ORDER BY customer"
        found = QueryBuilder().register("totals", table).execute(query)
        rows = pa.table(found.read_all()).to_pylist()
        assert [tuple(row.values()) for row in rows] == expected


def test_files_of_a_first_load_are_sorted_and_disjoint(
    spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltaproduce.engines.spark.engine._ROWS_PER_TASK", 10_000)
    wide = Pipeline("wide")
    numbers = wide.source("numbers", key="n bigint desc", value="t string")

    @wide.producer(numbers, key="t string", value="n bigint")
    def swapped(n: int, texts: Iterator[str]) -> Iterator[Any]:
        for text in texts:
            yield text, n

    store = Store(spark, location, wide, limits=Limits(local_rows=0))
    rows = spark.range(25_000).selectExpr("id AS n", "cast(id * 7 % 25000 AS string) AS t")
    store.update({"numbers": rows})
    for stage, table, column, descending in (
        ("numbers", "content", "n", True),
        ("swapped", "content", "t", False),
        ("swapped", "key_mappings", "_source_n", True),
    ):
        files = [pq.read_table(file) for file in Path(location, stage, table).glob("*.parquet")]
        values = [file.column(column).to_pylist() for file in files]
        assert len(values) > 1
        assert all(found == sorted(found, reverse=descending) for found in values)
        ranges = sorted((min(found), max(found)) for found in values)
        assert all(low[1] < high[0] for low, high in itertools.pairwise(ranges))


def test_keys_are_sought_in_small_row_groups(
    spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what a table is looked up in has them: content and key mappings, not updates."""
    limited(monkeypatch, group_rows=8)
    limited(monkeypatch, small_table_rows=0, replaced_percent=900)
    store = Store(spark, location, shop)
    store.update({"orders": spark.range(400).selectExpr("id", "'c' || id % 100", "1").toDF(*ORDER)})
    for table, largest in (
        ("orders/content", 8),
        ("by_customer/content", 8),
        ("by_customer/key_mappings", 8),
        ("by_customer/updates", 400),
    ):
        (file,) = Path(location, table).glob("*.parquet")
        footer = pq.read_metadata(file)
        groups = [footer.row_group(n).num_rows for n in range(footer.num_row_groups)]
        assert max(groups) == largest, table
    reading = ParquetFiles.read_groups
    with patch.object(ParquetFiles, "read_groups", autospec=True, side_effect=reading) as read:
        version = store.update({"orders": spark.createDataFrame([(17, "c40", 5)], ORDERS)})
    assert version.stages["totals"].changed_keys == 2
    assert 0 < sum(len(call.args[2]) for call in read.call_args_list) <= 12
    found = {row.customer: row.total for row in store.content("totals").collect()}
    assert (len(found), found["c17"], found["c40"], found["c41"]) == (100, 3, 9, 4)


@long
def test_a_catalog_store_is_the_same(spark: SparkSession) -> None:
    spark.sql("CREATE SCHEMA shop_catalog")
    pipeline = part("orders", "by_customer")
    store = Store(spark, "shop_catalog", pipeline)
    assert store.head.number == 0
    assert store.content("by_customer").columns == [
        *("customer", "order_id", "amount", "_source_order_id", "_ordinal")
    ]
    load = [(1, "ann", 10), (2, "ann", 20), (3, "bob", 5)]
    store.update({"orders": [dict(zip(ORDER, row, strict=True)) for row in load]})
    store.update({"orders": [{"order_id": n, "_change_type": "delete"} for n in (2, 3)]})
    for number, expected in {1: [("ann", 10), ("ann", 20), ("bob", 5)], 2: [("ann", 10)]}.items():
        rows = store.content("by_customer", number, ordered=True).select("customer", "amount")
        assert [tuple(row) for row in rows.collect()] == expected
    assert [tuple(row)[1:] for row in store.updates("by_customer", ordered=True).collect()] == [
        ("update", "ann", 0, 1, 10),
        ("delete", "bob", 0, None, None),
    ]
    store.compact()
    again = Store(spark, "spark_catalog.shop_catalog", pipeline)
    assert again.head == store.head
    pinned = store.head.stages["by_customer"].delta_versions["key_mappings"]
    name = store.sql_name("by_customer", "key_mappings")
    assert name.endswith("`shop_catalog`.`by_customer__key_mappings`")
    sql = f"SELECT * FROM {name} VERSION AS OF {pinned}"
    assert spark.sql(sql).collect() == [Row(1, "ann")]
    odd = Pipeline("odd")
    odd.source("it's", key="k int", value="v int")
    with pytest.raises(DefinitionError) as refused:
        Store(spark, "shop_catalog", odd)
    assert refused.value.stage == "it's"


def test_what_is_not_there_is_not_found(store: Store) -> None:
    for wrong in (
        lambda: store.content("nowhere"),
        lambda: store.content("totals", 5),
        lambda: store.updates("totals", -1),
        lambda: store.key_mappings("orders"),
        lambda: store.refresh("orders"),
    ):
        with pytest.raises(NotFoundError):
            wrong()
    assert store.content("totals", 0).collect() == []


def test_versions_say_what_happened(store: Store, way: Way) -> None:
    versions = store.versions()
    assert [version.number for version in versions] == [1, 2, 3, 4]
    assert versions[-1] == store.head
    modes = [version.stages["totals"].mode for version in versions]
    step = "rewrite" if way.name == "small tables" else "seek"
    assert modes == ["full", step, "skipped", step]
    last = store.head.stages["totals"]
    assert (last.affected_keys, last.changed_keys) == (2, 2)
    assert (last.rows_added, last.rows_removed, last.rows) == (1, 2, 1)


@pytest.mark.parametrize(
    "way", [way for way in WAYS if way.name == "in Spark, joined"], ids=lambda way: way.name
)
def test_changes_may_come_from_another_session(
    spark: SparkSession, location: str, way: Way
) -> None:
    other, pipeline = spark.newSession(), part("visits")
    store = Store(spark, location, pipeline, table_type=way.table_type)
    with forced(way):
        store.update({"visits": other.createDataFrame([(1, "home"), (2, "help")], VISITS)})
        store.update({"visits": other.createDataFrame([(2, "home")], VISITS)})
    pages = store.content("visits", ordered=True).select("page", "visit_id").collect()
    assert [tuple(row) for row in pages] == [("home", 1), ("home", 2)]


def test_only_known_table_types(spark: SparkSession, location: str) -> None:
    with pytest.raises(DefinitionError):
        Store(spark, location, shop, table_type="copy_on_read")  # type: ignore[arg-type]


@long
def test_delta_may_compact_files_behind_a_commit(spark: SparkSession) -> None:
    """In a catalog, where Spark commits."""
    lone = Pipeline("lone")
    lone.source("visits", key="visit_id bigint", value="page string")
    settings = {"enabled": "true", "minNumFiles": "2"}
    spark.sql("CREATE SCHEMA IF NOT EXISTS compacted_behind")
    store = Store(spark, "compacted_behind", lone)
    for name, value in settings.items():
        spark.conf.set(f"spark.databricks.delta.autoCompact.{name}", value)
    try:
        with forced(WAYS[1]):
            for number in range(3):
                rows = [(1, f"page {number}"), (number, "new")]
                store.update({"visits": spark.createDataFrame(rows[number == 1 :], VISITS)})
    finally:
        for name in settings:
            spark.conf.unset(f"spark.databricks.delta.autoCompact.{name}")
    history = spark.sql(f"DESCRIBE HISTORY {store.sql_name('visits')}").select("operation")
    assert "OPTIMIZE" in {row.operation for row in history.collect()}
    found = store.content("visits", ordered=True).select("visit_id", "page").collect()
    assert [tuple(row) for row in found] == [(0, "new"), (1, "page 2"), (2, "new")]
