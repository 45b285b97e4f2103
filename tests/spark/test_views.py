"""Views of the head: a reader by SQL alone sees one version, whatever happens to writers."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest
from crashing import CrashError, batch, frames, orders
from forcing import WAYS, forced
from pyspark.sql import SparkSession
from selecting import chosen, long

from deltaproduce import (
    DefinitionError,
    InvalidArgumentError,
    NotFoundError,
    Pipeline,
    SessionError,
    Store,
    ViewError,
)
from deltaproduce.storage import failpoints
from deltaproduce.testing import Oracle, plain_rows

ROOT = Path(__file__).parents[2]
RUNS = next(way for way in WAYS if way.name == "runs")
STAGES = ("orders", "by_customer")


@pytest.fixture
def schema(spark: SparkSession) -> Iterator[str]:
    name = f"shown_{uuid.uuid4().hex[:8]}"
    yield name
    spark.sql(f"DROP SCHEMA IF EXISTS {name} CASCADE")


def assert_shown(
    spark: SparkSession, schema: str, oracle: Oracle, version: int, suffix: str = ""
) -> None:
    for stage in STAGES:
        found = plain_rows(spark.sql(f"SELECT * FROM {schema}.{stage}{suffix}").collect())
        expected = plain_rows(oracle.content(stage, version))
        assert sorted(found, key=repr) == sorted(expected, key=repr), (stage, version)


def names_in(spark: SparkSession, schema: str) -> set[str]:
    """The views of a schema; Spark also shows those of the session, which other tests may leave."""
    shown = spark.sql(f"SHOW VIEWS IN {schema}").collect()
    return {row.viewName for row in shown if not row.isTemporary}


def updated(store: Store, oracle: Oracle, spark: SparkSession, *changes: tuple[int, ...]) -> int:
    given = batch(*changes)
    number = store.update(frames(spark, given)).number
    assert number == oracle.update(given)
    return number


def renamed() -> Pipeline:
    """The orders, and another stage in the place of the one that there was."""
    pipeline = Pipeline("orders")
    source = pipeline.source("orders", key="id bigint", value="customer bigint, amount bigint")

    @pipeline.producer(source, key="customer bigint", value="amount bigint")
    def by_buyer(_, rows):
        yield from rows

    return pipeline


@long
@pytest.mark.parametrize("place", ["catalog", "path"])
def test_views_show_the_head(spark: SparkSession, location: str, schema: str, place: str) -> None:
    """Over base and runs; through updates, a crash, a rollback, vacuums and a change of stages."""
    tables = f"{schema}_tables"
    if place == "catalog":
        spark.sql(f"CREATE SCHEMA {tables}")
        location = tables
    try:
        with forced(RUNS):
            walk(spark, location, schema)
    finally:
        spark.sql(f"DROP SCHEMA IF EXISTS {tables} CASCADE")


def walk(spark: SparkSession, location: str, schema: str) -> None:
    oracle = Oracle(orders())
    store = Store(spark, location, orders(), views=schema)
    assert not spark.catalog.databaseExists(schema)  # nothing is to be shown
    updated(store, oracle, spark, (1, 2, 3), (2, 2, 4), (3, 1, 5))
    assert names_in(spark, schema) == set(STAGES)
    updated(store, oracle, spark, (1, 3, 30), (2,))
    assert "ANTI JOIN" in store.sql("by_customer")
    assert_shown(spark, schema, oracle, 2)
    by_duckdb = duckdb.sql(store.sql("by_customer", dialect="duckdb")).fetchall()
    assert sorted(by_duckdb) == sorted(oracle.content("by_customer", 2))

    with failpoints.armed(crashing("before", "publish")), suppress(CrashError):
        store.update(frames(spark, batch((1, 1, 12_345))))
    assert_shown(spark, schema, oracle, 2)  # though the tables have the rows
    store = Store(spark, location, orders(), views=schema)
    updated(store, oracle, spark, (4, 4, 4))
    assert_shown(spark, schema, oracle, 3)

    assert store.rollback(1).number == oracle.rollback(1) == 4
    assert_shown(spark, schema, oracle, 4)
    for stage in STAGES:
        assert store.create_view(stage, 3) == f"`spark_catalog`.`{schema}`.`{stage}__at_3`"
        store.create_view(stage, 1)
    assert_shown(spark, schema, oracle, 3, "__at_3")
    for _ in range(2):  # the second removes what the first has cut
        store.vacuum(keep_versions=2, unfinished_hours=0)
        assert_shown(spark, schema, oracle, 4)
        assert_shown(spark, schema, oracle, 3, "__at_3")
    at_three = {f"{stage}__at_3" for stage in STAGES}
    assert names_in(spark, schema) == {*STAGES, *at_three}
    with pytest.raises(NotFoundError):
        store.create_view("orders", 1)

    store = Store(spark, location, renamed(), views=schema)
    assert "by_customer" in names_in(spark, schema)  # the head still has it
    store.update(frames(spark, batch((7, 7, 7))))
    assert names_in(spark, schema) == {"orders", "by_buyer", "orders__at_3"}
    assert spark.sql(f"SELECT amount FROM {schema}.by_buyer WHERE customer = 7").count() == 1


def crashing(when: failpoints.When, name: str, skipped: int = 0) -> failpoints.Crash:
    """Crashes at one fail point of that name, after so many others of it."""
    left = [skipped]

    def crash(at: failpoints.When, effect: str, table: str) -> None:
        del table
        if (at, effect) == (when, name):
            left[0] -= 1
            if left[0] < 0:
                raise CrashError

    return crash


@pytest.mark.parametrize("place", chosen(range(4), 1))
def test_a_writer_that_ends_before_its_views_is_mended(
    spark: SparkSession, location: str, schema: str, place: int
) -> None:
    """After it has published, before or after each view: whoever opens the store brings them on."""
    when, skipped = ("before", "after")[place % 2], place // 2
    oracle = Oracle(orders())
    store = Store(spark, location, orders(), views=schema)
    updated(store, oracle, spark, (1, 2, 3), (2, 2, 4))
    changes = batch((1, 3, 30))
    with failpoints.armed(crashing(when, "replace view", skipped)), pytest.raises(CrashError):
        store.update(frames(spark, changes))
    assert oracle.update(changes) == Store(spark, location, orders()).head.number == 2
    if place < 3:
        with pytest.raises(AssertionError):
            assert_shown(spark, schema, oracle, 2)
    Store(spark, location, orders(), views=schema)
    assert_shown(spark, schema, oracle, 2)


def test_a_writer_that_is_overtaken_shows_what_the_other_has_published(
    spark: SparkSession, location: str, schema: str
) -> None:
    """It was about to replace the views of the other by its own."""
    oracle = Oracle(orders())
    store = Store(spark, location, orders(), views=schema)
    other = Store(spark, location, orders(), views=schema)
    updated(store, oracle, spark, (1, 2, 3))
    overtaken = []

    def overtake(when: failpoints.When, name: str, table: str) -> None:
        del table
        if (when, name) == ("before", "replace view") and not overtaken:
            overtaken.append(name)
            assert other.update(frames(spark, batch((2, 2, 4)))).number == 3

    with failpoints.armed(overtake):
        assert store.update(frames(spark, batch((1, 5, 6)))).number == 2
    assert overtaken
    oracle.update(batch((1, 5, 6)))
    oracle.update(batch((2, 2, 4)))
    assert_shown(spark, schema, oracle, 3)


def test_a_view_that_cannot_be_replaced_is_said_and_tried_again(
    spark: SparkSession, location: str, schema: str
) -> None:
    oracle = Oracle(orders())
    store = Store(spark, location, orders(), views=schema)
    updated(store, oracle, spark, (1, 2, 3))

    def fail(when: failpoints.When, name: str, table: str) -> None:
        if (when, name) == ("before", "replace view") and table.endswith("`by_customer`"):
            raise PermissionError("no")

    changes = batch((1, 2, 4))
    with failpoints.armed(fail), pytest.raises(ViewError) as failed:
        store.update(frames(spark, changes), "again")
    assert (failed.value.version, failed.value.view) == (
        2,
        f"`spark_catalog`.`{schema}`.`by_customer`",
    )
    assert store.update(frames(spark, changes), "again").number == oracle.update(changes) == 2
    assert_shown(spark, schema, oracle, 2)


def test_what_is_not_the_stores_is_refused_before_anything_is_written(
    spark: SparkSession, location: str, schema: str
) -> None:
    spark.sql(f"CREATE SCHEMA {schema}")
    for kind in ("TABLE", "VIEW"):
        using = "USING delta " if kind == "TABLE" else ""
        spark.sql(f"CREATE {kind} {schema}.By_Customer {using}AS SELECT 1 AS theirs")
        with pytest.raises(DefinitionError, match="by_customer"):
            Store(spark, location, orders(), views=schema)
        assert spark.sql(f"SELECT theirs FROM {schema}.by_customer").count() == 1
        spark.sql(f"DROP {kind} {schema}.By_Customer")
    spark.sql(f"CREATE VIEW {schema}.orders__at_1 AS SELECT 1 AS theirs")
    store = Store(spark, location, orders(), views=schema)
    assert not Path(location).exists()
    store.update(frames(spark, batch((1, 2, 3))))
    with pytest.raises(DefinitionError, match="orders__at_1"):
        store.create_view("orders", 1)
    with pytest.raises(DefinitionError, match="orders"):  # which another store has made
        Store(spark, f"{location}2", orders(), views=schema)
    assert spark.sql(f"SELECT theirs FROM {schema}.orders__at_1").count() == 1
    with pytest.raises(DefinitionError, match=schema):
        Store(spark, schema, orders(), views=schema)
    with pytest.raises(InvalidArgumentError):
        Store(spark, location, orders(), views="./shown")
    with pytest.raises(SessionError):
        Store(None, location, orders(), views=schema)
    with pytest.raises(InvalidArgumentError, match="views"):
        Store(spark, location, orders()).create_view("orders", 1)


@pytest.mark.parametrize("name", ["a b", "a__at_3"])
def test_stages_that_cannot_be_views_are_refused(
    spark: SparkSession, location: str, schema: str, name: str
) -> None:
    pipeline = Pipeline("odd")
    pipeline.source(name, key="k bigint", value="v bigint")
    with pytest.raises(DefinitionError) as refused:
        Store(spark, location, pipeline, views=schema)
    assert refused.value.stage == name


KILLED = """
import os, sys
import deltaproduce as dp
from deltaproduce.storage import failpoints

spark = dp.local_session(cores=1, config={"spark.sql.catalogImplementation": "hive"})
library = dp.Pipeline("library")
documents = library.source("documents", key="document_id bigint", value="text string")

def shown():
    return [row.text for row in spark.sql("SELECT text FROM shown.documents").collect()]

def die(when, name, table):
    if (when, name) == ("before", "replace view"):
        os._exit(9)

if sys.argv[1] == "dies":
    store = dp.Store(spark, "lake", library, views="shown")
    store.update({"documents": [{"document_id": 1, "text": "old"}]})
    assert shown() == ["old"]
    with failpoints.armed(die):
        store.update({"documents": [{"document_id": 1, "text": "new"}]})
assert shown() == ["old"], shown()
store = dp.Store(spark, "lake", library, views="shown")
assert (store.head.number, shown()) == (2, ["new"])
spark.stop()
"""


@long
@pytest.mark.usefixtures("spark")  # which has fetched the jars
def test_a_process_that_is_killed_between_publication_and_views(tmp_path: Path) -> None:
    """In a catalog that lasts: the next process shows the head when it opens the store."""
    for what, code in (("dies", 9), ("mends", 0)):
        ran = subprocess.run(
            [sys.executable, "-c", KILLED, what],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert ran.returncode == code, ran.stderr
