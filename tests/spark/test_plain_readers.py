"""Readers without the library: plain SQL and delta-rs, and what SQL has to ask."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from comparing import plain_rows
from crashing import CrashError, batch, built, frames, orders
from deltalake import DeltaTable
from forcing import WAYS, Way, forced
from pyspark.sql import DataFrame, SparkSession
from selecting import chosen, long

from deltaproduce import InvalidArgumentError, NotFoundError, Pipeline, Store
from deltaproduce.model.limits import Limits
from deltaproduce.operations.step.plan import TableType
from deltaproduce.storage import failpoints

RUNS = next(way for way in WAYS if way.name == "runs")
REPLACED = next(way for way in WAYS if way.name == "replaced")
DELETION_VECTORS = "delta.enableDeletionVectors"


def rows_of(found: pa.Table | pd.DataFrame) -> list[tuple[Any, ...]]:
    """Sorted, without order of their own."""
    table = pa.Table.from_pandas(found) if isinstance(found, pd.DataFrame) else found
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def expected(rows: DataFrame, table: DeltaTable) -> list[tuple[Any, ...]]:
    names = [field.name for field in table.schema().fields]
    return sorted(plain_rows(rows.select(*names).collect()), key=repr)


@long
@pytest.mark.parametrize("way", chosen((WAYS[0], RUNS), RUNS.name), ids=lambda way: way.name)
def test_delta_rs_reads_tables_as_pandas_and_arrow(
    spark: SparkSession, location: str, way: Way, long_run: bool
) -> None:
    """Even where the session wants deletion vectors in every new table."""
    versions = 4 if long_run else 2
    default = f"spark.databricks.delta.properties.defaults.{DELETION_VECTORS.split('.')[1]}"
    spark.conf.set(default, "true")
    try:
        with forced(way):
            built(spark, location, versions)
    finally:
        spark.conf.unset(default)
    store = Store(spark, location, orders())
    tables = {"_versions": spark.read.format("delta").load(f"{location}/_versions")}
    for stage in ("orders", "by_customer"):
        feed = store.updates(stage, 1)
        for number in range(2, versions + 1):
            feed = feed.union(store.updates(stage, number))
        tables[f"{stage}/updates"] = feed
        if way is RUNS:
            tables[f"{stage}/runs"] = spark.read.format("delta").load(f"{location}/{stage}/runs")
        else:
            tables[f"{stage}/content"] = store.content(stage)
    if way is not RUNS:
        tables["by_customer/key_mappings"] = store.key_mappings("by_customer")
    for name, rows in tables.items():
        table = DeltaTable(f"{location}/{name}")
        if name == "_versions":
            columns = ["number", "operation", "figures"]
            wanted = sorted(plain_rows(rows.select(*columns).collect()), key=repr)
            assert rows_of(table.to_pyarrow_table(columns=columns)) == wanted
            assert len(table.to_pandas()) == len(wanted) == versions
            continue
        wanted = expected(rows, table)
        assert wanted
        assert rows_of(table.to_pyarrow_table()) == wanted, name
        assert len(table.to_pandas()) == len(wanted), name


@long
@pytest.mark.parametrize("before", ["as now", "as it was"])
def test_a_stage_that_changes_over_marks_rows_from_then_on(
    spark: SparkSession, location: str, before: str
) -> None:
    """From runs to replaced rows, in tables with deletion vectors enabled or not.

    In a short run Spark marks rows of tables that were written without it (`test_mixed_engines`).
    """
    tables = [f"{location}/{name}" for name in ("orders/content", "by_customer/content")]
    with forced(RUNS):
        oracle = built(None, location, 2)
        if before == "as it was":
            for table in tables:
                enable = f"SET TBLPROPERTIES ('{DELETION_VECTORS}' = 'true')"
                spark.sql(f"ALTER TABLE delta.`{table}` {enable}")
        # These change nothing of the tables themselves: they go to the table of runs.
        changes = batch((0, 1, 77), (1, 2, 78))
        Store(spark, location, orders()).update(frames(None, changes))
        oracle.update(changes)
    enabled = [DeltaTable(t).metadata().configuration.get(DELETION_VECTORS) for t in tables]
    assert enabled == [{"as now": "false", "as it was": "true"}[before]] * 2
    with forced(REPLACED):
        store = Store(spark, location, orders(), table_type="copy_on_write")
        batches = [batch((0, 1, 5)), batch((0, 2, 6), (1,)), batch((2, 2, 9))]
        for number, changes in enumerate(batches, 4):
            assert store.update(frames(None, changes)).number == oracle.update(changes) == number
            for stage in ("orders", "by_customer"):
                found = plain_rows(store.content(stage, ordered=True).collect())
                assert found == plain_rows(oracle.content(stage, number))
                at = store.head.delta_version(stage, "content")
                plain = spark.sql(
                    f"SELECT * FROM {store.sql_name(stage)} VERSION AS OF {at}"
                ).collect()
                assert sorted(plain_rows(plain), key=repr) == sorted(found, key=repr)
    assert store.verify() == ()
    for table in tables:
        assert DeltaTable(table).metadata().configuration[DELETION_VECTORS] == "true"
        commits = [*Path(table, "_delta_log").glob("*.json")]
        logged = [line for commit in commits for line in commit.read_text().splitlines()]
        assert any('"deletionVector":{' in line for line in logged), "files were copied"
        protocols = [line for line in logged if line.startswith('{"protocol"')]
        assert sum("deletionVectors" in line for line in protocols) == 1
    with forced(RUNS):  # and back
        store = Store(spark, location, orders())
        changes = batch((3, 3, 3))
        number = oracle.update(changes)
        assert store.update(frames(None, changes)).number == number
        found = plain_rows(store.content("by_customer", ordered=True).collect())
        assert found == plain_rows(oracle.content("by_customer", number))


def accounts() -> Pipeline:
    pipeline = Pipeline("accounts")
    source = pipeline.source("entries", key="id bigint", value="amount bigint")

    @pipeline.producer(source, key="account bigint", value="amount bigint")
    def balances(id: int, amounts: Iterator[int]) -> Iterator[tuple[int, int]]:
        for amount in amounts:
            yield id * 7, amount

    return pipeline


@long
@pytest.mark.parametrize("table_type", chosen(("merge_on_read", "copy_on_write"), "copy_on_write"))
def test_sql_reads_a_stage_above_the_small_ones_or_is_told_that_it_cannot(
    spark: SparkSession, location: str, table_type: TableType
) -> None:
    count = Limits().small_table_rows + 700
    store = Store(spark, location, accounts(), table_type=table_type)
    first = store.update({"entries": spark.range(count).selectExpr("id", "4L AS amount")})
    rows = spark.createDataFrame([(5, 100), (6, -10)], "id bigint, amount bigint")
    version = store.update({"entries": rows})

    def total(at: int | None, stage: str) -> int:
        sums = f"SELECT sum(amount) FROM {store.sql_name(stage)} VERSION AS OF {at}"
        return int(spark.sql(sums).collect()[0][0])

    for stage in ("entries", "balances"):
        right = store.content(stage).groupBy().sum("amount").collect()[0][0]
        assert right == 4 * count + 82
        assert total(first.delta_version(stage, "content"), stage) == 4 * count
        if table_type == "copy_on_write":
            assert total(version.delta_version(stage, "content"), stage) == right
            continue
        assert total(version.pinned(stage, "content"), stage) == 4 * count  # what it would read
        with pytest.raises(InvalidArgumentError) as refused:
            version.delta_version(stage, "content")
        assert f"store.content({stage!r}, 2)" in str(refused.value)
    mappings = f"SELECT * FROM {store.sql_name('balances', 'key_mappings')}"
    if table_type == "copy_on_write":
        at = version.delta_version("balances", "key_mappings")
        assert spark.sql(f"{mappings} VERSION AS OF {at}").count() == count
    else:
        with pytest.raises(InvalidArgumentError):
            version.delta_version("balances", "key_mappings")
    assert version.delta_version("balances", "updates") is not None


def feed(store: Store, stage: str) -> str:
    """The recipe of the README and of the page for consumers."""
    updates, versions = store.sql_name(stage, "updates"), store.sql_name("_versions")
    return f"SELECT * FROM {updates} WHERE _version <= (SELECT max(number) FROM {versions})"


def test_the_feed_by_sql_has_nothing_of_a_version_that_was_not_published(
    spark: SparkSession, location: str, long_run: bool
) -> None:
    """Of the source and of the stage that reads it; in a short run of the stage."""
    built(None, location, 2)
    store = Store(spark, location, orders())
    stages = STAGES if long_run else STAGES[1:]
    before = {stage: plain_rows(spark.sql(feed(store, stage)).collect()) for stage in stages}

    def crash(when: failpoints.When, name: str, table: str) -> None:
        del table
        if (when, name) == ("before", "publish"):
            raise CrashError

    with failpoints.armed(crash), suppress(CrashError):
        store.update(frames(None, batch((0, 1, 12_345))))
    for stage in stages:
        unbounded = spark.sql(f"SELECT _version FROM {store.sql_name(stage, 'updates')}")
        assert {row[0] for row in unbounded.collect()} == {1, 2, 3}  # it is there
        found = plain_rows(spark.sql(feed(store, stage)).collect())
        assert sorted(found, key=repr) == sorted(before[stage], key=repr)
    again = Store(spark, location, orders())
    assert again.update(frames(None, batch((0, 1, 777)))).number == 3
    numbers = {row._version for row in spark.sql(feed(again, "orders")).collect()}
    assert numbers == {1, 2, 3}


STAGES = ("orders", "by_customer")


@long
def test_tables_are_named_for_sql(spark: SparkSession, tmp_path: Path) -> None:
    theirs = str(tmp_path / "their`s")
    spark.range(3).selectExpr("id AS k", "id AS n").write.format("delta").save(theirs)
    pipeline = orders()
    pipeline.delta_source("theirs", table=theirs, key="k")
    place = tmp_path / "it's a `store`"
    store = Store(spark, place, pipeline)
    store.update()
    rows = spark.sql(f"SELECT * FROM {store.sql_name('theirs')}").collect()
    assert sorted(tuple(row) for row in rows) == [(0, 0), (1, 1), (2, 2)]
    assert spark.sql(f"SELECT number FROM {store.sql_name('_versions')}").collect()[0][0] == 1
    store.update(frames(None, batch((1, 2, 3))))
    for stage, table in (("orders", "content"), ("by_customer", "key_mappings")):
        assert spark.sql(f"SELECT * FROM {store.sql_name(stage, table)}").count() == 1
    with pytest.raises(NotFoundError):
        store.sql_name("nowhere")
    with pytest.raises(NotFoundError):
        store.sql_name("orders", "key_mappings")
    with pytest.raises(InvalidArgumentError):
        store.sql_name("orders", "rows")


@long
def test_sql_names_of_a_catalog(spark: SparkSession) -> None:
    """Rows are replaced there as at a path, also in a table that was made for merge on read."""
    spark.sql("CREATE SCHEMA IF NOT EXISTS named_for_sql")
    store = Store(spark, "named_for_sql", orders())
    store.update(frames(None, batch((1, 2, 3), (2, 2, 4))))
    assert spark.sql(feed(store, "by_customer")).count() == 1 + 1
    with forced(REPLACED):
        store = Store(spark, "named_for_sql", orders(), table_type="copy_on_write")
        for number, amount in ((2, 30), (3, 31)):
            assert store.update(frames(None, batch((1, 2, amount)))).number == number
            at = store.head.delta_version("by_customer", "content")
            content = f"SELECT amount FROM {store.sql_name('by_customer')} VERSION AS OF {at}"
            assert sorted(row.amount for row in spark.sql(content).collect()) == [4, amount]
