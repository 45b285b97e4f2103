"""Delta tables as sources: after any change to them, an update equals a load of their rows.

Updates that cannot be computed are refused.
"""

import random
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from comparing import assert_same, assert_stages, read_by_delta_rs
from delta.tables import DeltaTable as SparkTable
from deltalake import DeltaTable
from forcing import WAYS, forced, setting
from pyspark.sql import SparkSession
from selecting import long

from deltaproduce import (
    DefinitionError,
    InvalidArgumentError,
    InvalidChangesError,
    NotFoundError,
    Pipeline,
    Source,
    Store,
    merge,
)
from deltaproduce.testing import Oracle, Upsert, plain_rows

Row = tuple[int, int | None, str | None]

KINDS = {
    "feed": "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    "files": "",
    "marked": "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "parts": "PARTITIONED BY (n) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "mapped": "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
}
IN_SHORT = ("feed", "parts")
"""Those in each run: one tells what changed, of the other files and marked rows are compared."""
VERSIONS = (WAYS[7], WAYS[0], WAYS[6])  # how each is made


# ---- tables of someone else, and what they should hold


@dataclass
class Existing:
    """A Delta table, and its rows in plain Python."""

    spark: SparkSession
    path: str
    properties: str = ""
    rows: list[Row] = field(default_factory=list)
    history: dict[int, list[Row]] = field(default_factory=dict)

    def create(self, rows: list[Row], how: str = "CREATE TABLE") -> None:
        self.spark.sql(f"{how} delta.`{self.path}` USING delta {self.properties} AS {select(rows)}")
        self.rows = list(rows)
        self.note()

    def sql(self, text: str) -> None:
        self.spark.sql(text.format(f"delta.`{self.path}`"))

    def note(self) -> None:
        newest = max(int(path.stem) for path in Path(self.path, "_delta_log").glob("*.json"))
        self.history[newest] = list(self.rows)

    def upserts(self) -> list[Upsert]:
        """Its rows as a load takes them: those of a key by value, nulls first."""
        ordered = sorted(
            self.rows, key=lambda row: (row[0], *((x is not None, x) for x in row[1:]))
        )
        return [Upsert((k,), (n, t)) for k, n, t in ordered]


def select(rows: list[Row]) -> str:
    values = ", ".join(str(row).replace("None", "null") for row in rows)
    typed = "CAST(k AS bigint) AS k, CAST(n AS int) AS n, CAST(t AS string) AS t"
    return f"SELECT {typed} FROM VALUES {values or '(1, 1, null)'} AS x(k, n, t)" + (
        "" if rows else " WHERE k = 0"
    )


def some_row(chance: random.Random) -> Row:
    return chance.randrange(8), chance.choice([None, 0, 1, 2]), chance.choice([None, "a", "b"])


def insert(table: Existing, chance: random.Random) -> None:
    rows = [some_row(chance) for _ in range(chance.randint(1, 4))]
    table.sql(f"INSERT INTO {{}} {select(rows)}")
    table.rows += rows


def delete(table: Existing, chance: random.Random) -> None:
    key, text = chance.randrange(8), chance.choice(["a", "b"])
    table.sql(f"DELETE FROM {{}} WHERE k = {key} AND t <=> '{text}'")
    table.rows = [row for row in table.rows if (row[0], row[2]) != (key, text)]


def delete_keys(table: Existing, chance: random.Random) -> None:
    least = chance.randrange(4, 9)
    table.sql(f"DELETE FROM {{}} WHERE k >= {least}")
    table.rows = [row for row in table.rows if row[0] < least]


def change(table: Existing, chance: random.Random) -> None:
    key = chance.randrange(8)
    table.sql(f"UPDATE {{}} SET t = 'c' WHERE k = {key}")
    table.rows = [(k, n, "c" if k == key else t) for k, n, t in table.rows]


def move(table: Existing, chance: random.Random) -> None:
    """Between keys, and between partitions."""
    number = chance.randrange(3)
    table.sql(f"UPDATE {{}} SET k = k + 1, n = 1 WHERE n = {number} AND k < 7")
    table.rows = [(k + 1, 1, t) if n == number and k < 7 else (k, n, t) for k, n, t in table.rows]


def rewrite(table: Existing, chance: random.Random) -> None:
    """The same rows, and sometimes others, in files that are all new."""
    rows = [*table.rows, *(some_row(chance) for _ in range(chance.randrange(2)))]
    table.sql(f"INSERT OVERWRITE {{}} {select(rows)}")
    table.rows = rows


def optimize(table: Existing, chance: random.Random) -> None:
    del chance
    table.sql("OPTIMIZE {}")


def restore(table: Existing, chance: random.Random) -> None:
    version = chance.choice(sorted(table.history))
    table.sql(f"RESTORE TABLE {{}} TO VERSION AS OF {version}")
    table.rows = list(table.history[version])


def replace(table: Existing, chance: random.Random) -> None:
    """Another table in its place, whose history goes on."""
    table.create([*table.rows, some_row(chance)], "CREATE OR REPLACE TABLE")


DOINGS: list[Callable[[Existing, random.Random], None]] = [
    insert,
    insert,
    delete,
    delete_keys,
    change,
    move,
    rewrite,
    optimize,
    restore,
    replace,
]


# ---- pipelines that read them


def defined(source_of: Callable[[Pipeline, str], Source], kinds: Collection[str]) -> Pipeline:
    """Every kind of table: in a merge, in a join, and alone; a merge if there are few kinds."""
    pipeline = Pipeline("existing")
    sources = {kind: source_of(pipeline, kind) for kind in kinds}
    without_feed = sources["files" if "files" in kinds else "parts"]

    @pipeline.producer(
        merge(sources["feed"], without_feed), key="n int", value="k bigint, t string"
    )
    def by_number(k, values):
        for value in values:
            yield value.n, (k, value.t)

    if "marked" in kinds:

        @pipeline.producer(sources["marked"], sources["parts"], key="k bigint", value="t string")
        def joined(k, marked, parts):
            texts = [one.t for one in marked]
            for one in parts:
                yield k, f"{one.n} {one.t} {texts}"

    if "mapped" in kinds:

        @pipeline.producer(sources["mapped"], key="t string", value="k bigint")
        def by_text(k, values):
            for value in values:
                yield value.t, k

    return pipeline


def given(kinds: Collection[str]) -> Pipeline:
    """The same pipeline of sources whose rows are given."""

    def source_of(pipeline: Pipeline, kind: str) -> Source:
        return pipeline.source(kind, key="k bigint", value="n int, t string")

    return defined(source_of, kinds)


def changed(tables: dict[str, Existing], chance: random.Random) -> None:
    for table in tables.values():
        for doing in chance.choices(DOINGS, k=chance.randrange(3)):
            doing(table, chance)
            table.note()


# ---- the law


def test_an_update_makes_what_a_load_of_the_tables_rows_would(
    spark: SparkSession, location: str, tmp_path: Path, long_run: bool
) -> None:
    """In a short run two versions, one of them in Spark, of two kinds of tables.

    In a long one more versions, all kinds, and a rollback.
    """
    chance = random.Random("tables" if long_run else "both")  # tables are changed, each of them
    kinds = KINDS if long_run else IN_SHORT
    tables = {kind: Existing(spark, str(tmp_path / kind), KINDS[kind]) for kind in kinds}
    for table in tables.values():
        table.create([some_row(chance) for _ in range(12)])
    expected = given(kinds)
    oracle = Oracle(expected)

    def source_of(pipeline: Pipeline, kind: str) -> Source:
        key = "k bigint" if kind in ("files", "mapped") else "k"
        return pipeline.delta_source(kind, table=tables[kind].path, key=key)

    pipeline = defined(source_of, kinds)
    store = Store(spark, location, pipeline)
    made = {stage.name: stage for stage in expected.graph().producers}
    for way in VERSIONS if long_run else VERSIONS[1:]:
        number = oracle.load({kind: table.upserts() for kind, table in tables.items()})
        with forced(way):
            assert store.update().number == number
        assert_stages(store, oracle, made, number)
        if long_run or number == 1:
            changed(tables, chance)
    store = Store(spark, location, pipeline)
    for number in (
        (1, oracle.head) if long_run else (1,)
    ):  # the sources too, though their tables have moved on
        assert_same(store, oracle, expected, number)
    if long_run:
        assert store.rollback(1).number == oracle.rollback(1)
        number = oracle.load({kind: table.upserts() for kind, table in tables.items()})
        assert store.update().number == number
        assert_same(store, oracle, expected, number)
    assert store.update().number == oracle.head  # nothing is new
    assert {path.name for path in Path(location, "feed").iterdir()} == {"updates"}


# ---- by hand


def orders(spark: SparkSession, tmp_path: Path, properties: str = "") -> Existing:
    table = Existing(spark, str(tmp_path / "orders"), properties)
    table.create([(1, 10, "a"), (2, 20, "b"), (2, 5, "c")])
    return table


def of_orders(table: Existing, **declared: Any) -> Pipeline:
    pipeline = Pipeline("shop")
    source = pipeline.delta_source("orders", table=table.path, **{"key": "k", **declared})

    @pipeline.producer(source, key="k bigint", value="total bigint")
    def totals(k, values):
        yield k, sum(value.n for value in values)

    return pipeline


def found(store: Store, stage: str = "totals") -> list[tuple[Any, ...]]:
    return plain_rows(read_by_delta_rs(store).content(stage, ordered=True).collect())


def test_the_log_says_which_delta_version_was_read_and_why(
    spark: SparkSession, location: str, tmp_path: Path
) -> None:
    table = orders(spark, tmp_path)
    store = Store(spark, location, of_orders(table))
    first = store.update()
    assert first.delta_version("orders", "content") == 0
    assert store.update().number == 1
    assert [step.stage.name for step in store.plan()] == []
    table.sql("INSERT INTO {} VALUES (3, 1, 'd')")
    assert [step.stage.name for step in store.plan()] == ["orders", "totals"]
    second = store.update()
    assert second.delta_version("orders", "content") == 1
    assert second.stages["orders"].changed_keys == 1
    assert "delta version 0 to delta version 1" in second.stages["orders"].reason
    log = DeltaTable(f"{location}/_versions").to_pyarrow_table().to_pylist()
    (pinned,) = (dict(row["tables"]) for row in log if row["number"] == 2)
    assert pinned[table.path] == 1
    assert "orders/content" not in pinned
    assert found(store) == [(1, 10, 1, 0), (2, 25, 2, 0), (3, 1, 3, 0)]


@long
def test_rows_given_and_rows_that_exist_make_one_version(
    spark: SparkSession, location: str, tmp_path: Path
) -> None:
    table = orders(spark, tmp_path)
    pipeline = Pipeline("both")
    existing = pipeline.delta_source("orders", table=table.path, key="k", value="n")
    names = pipeline.source("names", key="k bigint", value="name string")

    @pipeline.producer(names, existing, key="name string", value="n int")
    def by_name(k, names, numbers):
        name = next(names, None)
        for number in numbers:
            yield name, number

    store = Store(spark, location, pipeline)
    first = store.update({"names": spark.sql("SELECT 1L AS k, 'one' AS name")}, update_id="a")
    assert first.number == 1
    table.sql("INSERT INTO {} VALUES (3, 1, 'd')")
    assert store.update(update_id="a").number == 1  # not looked at
    third = store.update({"names": spark.sql("SELECT 3L AS k, 'three' AS name")})
    assert third.number == 2
    assert ("three", 1, 3, 0) in found(store, "by_name")


@long
def test_a_table_in_a_catalog_with_typed_and_descending_columns(
    spark: SparkSession, location: str
) -> None:
    spark.sql("CREATE SCHEMA IF NOT EXISTS of_others")
    try:
        spark.sql("CREATE TABLE of_others.orders USING delta AS SELECT 1 AS k, 2 AS n, 'x' AS t")
        pipeline = Pipeline("catalog")
        pipeline.delta_source(
            "orders", table="of_others.orders", key="k bigint desc", value="n int, t string"
        )
        pipeline.sql("doubled", "SELECT k, 2 * n AS n FROM orders", key="k")
        store = Store(spark, location, pipeline)
        store.update()
        spark.sql("INSERT INTO of_others.orders VALUES (7, 8, 'y')")
        assert store.update().number == 2
        assert found(store, "doubled") == [(1, 4, 1, 0), (7, 16, 7, 0)]
        assert found(store, "orders") == [(7, 8, "y", 0), (1, 2, "x", 0)]
    finally:
        spark.sql("DROP SCHEMA of_others CASCADE")


# ---- what goes wrong


def refused(store: Store, source: str = "orders") -> str:
    head = store.head.number
    with pytest.raises(InvalidChangesError) as caught:
        store.update()
    assert caught.value.source == source
    assert store.head.number == head
    return str(caught.value)


def test_a_table_made_again_is_refused_and_a_refresh_takes_it(
    spark: SparkSession, location: str, tmp_path: Path, long_run: bool
) -> None:
    """In a long run an update comes next."""
    table = orders(spark, tmp_path)
    store = Store(spark, location, of_orders(table))
    store.update()
    shutil.rmtree(table.path)
    assert "gone" in refused(store)
    table.create([(9, 9, "z")])
    table.sql("INSERT INTO {} VALUES (1, 11, 'a')")
    assert "refresh('orders')" in refused(store)
    refreshed = store.refresh("orders")
    assert refreshed.number == 2
    assert found(store) == [(1, 11, 1, 0), (9, 9, 9, 0)]
    moved = {row.k: row._change_type for row in store.updates("totals").collect()}
    assert moved == {1: "update", 2: "delete", 9: "add"}
    with pytest.raises(NotFoundError):
        store.changes("orders", 1, 2)
    if long_run:
        table.sql("DELETE FROM {} WHERE k = 9")
        assert store.update().number == 3
        assert found(store) == [(1, 11, 1, 0)]
        assert len(store.changes("orders", 2, 3).collect()) == 1


def test_files_that_a_vacuum_removed_are_missed(
    spark: SparkSession, location: str, tmp_path: Path, long_run: bool
) -> None:
    table = orders(spark, tmp_path)
    store = Store(spark, location, of_orders(table))
    store.update()
    table.sql("DELETE FROM {} WHERE k = 1")
    removed(table)
    assert "VACUUM" in refused(store)
    assert store.refresh("orders").number == 2
    assert found(store) == [(2, 25, 2, 0)]
    if long_run:
        table.sql("DELETE FROM {}")
        assert store.refresh("orders").number == 3
        assert found(store) == found(store, "orders") == []


@long
def test_a_log_that_was_cleaned_leads_to_a_comparison_of_all_rows(
    spark: SparkSession, location: str, tmp_path: Path
) -> None:
    table = orders(spark, tmp_path)
    for number in range(3, 13):  # a checkpoint is made at the tenth
        table.sql(f"INSERT INTO {{}} VALUES ({number}, 1, 'd')")
    store = Store(spark, location, of_orders(table))
    store.update()
    table.sql("DELETE FROM {} WHERE k = 1")
    table.sql("INSERT INTO {} VALUES (2, 100, 'd')")
    for delta_version in (11, 12):
        Path(table.path, "_delta_log", f"{delta_version:020d}.crc").unlink(missing_ok=True)
    log = Path(table.path, "_delta_log", f"{11:020d}.json")
    hidden = log.rename(log.with_suffix(".hidden"))
    try:
        with pytest.raises(Exception):  # noqa: B017, PT011 whoever refuses it, nothing is published
            Store(spark.newSession(), location, of_orders(table)).update()
    finally:
        hidden.rename(log)
    assert store.head.number == 1
    assert store.update().number == 2
    assert found(store)[0] == (2, 125, 2, 0)


def removed(table: Existing) -> None:
    """Remove what a vacuum would: files that the newest state of the table has not."""
    needed = {unquote(path.rpartition("/")[2]) for path in DeltaTable(table.path).file_uris()}
    for path in Path(table.path).glob("*.parquet"):
        if path.name not in needed:
            path.unlink()


def vacuumed(spark: SparkSession, table: Existing) -> None:
    with (
        setting(spark, "spark.databricks.delta.retentionDurationCheck.enabled", "false"),
        setting(spark, "spark.sql.sources.parallelPartitionDiscovery.parallelism", "2"),
    ):
        SparkTable.forPath(spark, table.path).vacuum(0)


@long
def test_columns_that_changed_since_the_store_was_opened(
    spark: SparkSession, location: str, tmp_path: Path
) -> None:
    table = orders(spark, tmp_path)
    store = Store(spark, location, of_orders(table))
    store.update()
    table.sql("ALTER TABLE {} ADD COLUMNS (extra string)")
    table.sql("INSERT INTO {} VALUES (3, 30, 'd', 'e')")
    assert "extra" in refused(store)
    again = Store(spark, location, of_orders(table))
    version = again.update()
    assert version.number == 2
    assert found(again, "orders")[-1] == (3, 30, "d", "e", 0)
    assert plain_rows(again.content("orders", 1, ordered=True).collect())[0] == (1, 10, "a", 0)
    assert {row._change_type for row in again.updates("orders").collect()} == {"add", "update"}


@long
def test_columns_that_a_source_does_not_read_may_change(
    spark: SparkSession, location: str, tmp_path: Path
) -> None:
    table = orders(spark, tmp_path)
    store = Store(spark, location, of_orders(table, value="n, t"))
    store.update()
    table.sql("ALTER TABLE {} ADD COLUMNS (extra string)")
    table.sql("INSERT INTO {} VALUES (3, 30, 'd', 'e')")
    assert store.update().number == 2


def test_what_a_store_refuses_when_it_is_opened(
    spark: SparkSession, location: str, tmp_path: Path
) -> None:
    table = orders(spark, tmp_path)
    missing = Existing(spark, str(tmp_path / "missing"))
    for pipeline, column in (
        (of_orders(missing), None),
        (of_orders(table, key="nothing"), "nothing"),
        (of_orders(table, key="k string"), "k"),
        (of_orders(table, key="k bigint NOT NULL"), "k"),
        (of_orders(table, value="n int, other string"), "other"),
    ):
        with pytest.raises(DefinitionError) as caught:
            Store(spark, location, pipeline)
        assert caught.value.stage == "orders"
        assert caught.value.column == column


def test_what_is_refused_of_a_table_that_is_read_in_place(
    spark: SparkSession, location: str, tmp_path: Path
) -> None:
    table = orders(spark, tmp_path)
    store = Store(spark, location, of_orders(table))
    rows = spark.sql("SELECT 1L AS k, 1 AS n, 'x' AS t")
    for operation in (store.update, store.load):
        with pytest.raises(InvalidChangesError) as caught:
            operation({"orders": rows})
        assert caught.value.source == "orders"
    store.update()
    with pytest.raises(InvalidArgumentError):
        store.forget("orders", 1)
    with pytest.raises(NotFoundError):
        store.key_mappings("orders")
    moved = Pipeline("shop")
    moved.source("orders", key="k bigint", value="n int, t string")
    with pytest.raises(DefinitionError) as refusal:
        Store(spark, location, moved).update({"orders": rows})
    assert refusal.value.stage == "orders"


@long
def test_a_table_that_only_moves_on_is_noted_when_the_head_is_old(
    spark: SparkSession, location: str, tmp_path: Path
) -> None:
    table = orders(spark, tmp_path)
    pipeline = of_orders(table)
    Store(spark, location, pipeline).update()
    table.sql("OPTIMIZE {}")
    table.sql("INSERT OVERWRITE {} " + select(table.rows))
    assert Store(spark, location, pipeline).update().number == 1
    later = Store(spark, location, pipeline, clock=lambda: datetime.now(UTC) + timedelta(days=2))
    version = later.update()
    assert version.number == 2
    assert {figures.mode for figures in version.stages.values()} == {"skipped"}
    vacuumed(spark, table)
    table.sql("DELETE FROM {} WHERE k = 1")
    assert later.update().number == 3
    assert found(later) == [(2, 25, 2, 0)]
