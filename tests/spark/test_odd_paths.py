"""Names and paths with characters that are special to SQL, Hadoop or Delta."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from comparing import assert_same
from local_stores import as_rows
from pyspark.sql import SparkSession
from selecting import chosen, long

import deltaproduce as dp
from deltaproduce.testing import Oracle, Upsert
from deltaproduce.types.ddl import identifier

SIGNS = ["`", "``", "'", '"', ";", "\n", "\\", "--", "/*", "*/", "%20", "ünï", "@v0", "*", "[a]"]
SIGNS += ["{b}", "?", "#", ":", "$x", "`; DROP TABLE x; --", "a.b", " ", "\t", "\u2028"]
WORST = "w`o'r\"s;t -- ünï *[x]{y}?#\n\\ $z `; DROP TABLE x; /* %20 @v0"


WORST_STAGE = WORST.replace("\n", "").replace("/", "")


def odd(stage: str = WORST_STAGE) -> dp.Pipeline:
    """A stage whose name, and those of its columns, have all signs that a path can hold."""
    pipeline = dp.Pipeline("odd")
    rows = pipeline.source("rows", key="id bigint", value="`a``'--/*DROP` string")

    @pipeline.producer(
        rows,
        key="`k``'\"--` string",
        value="id bigint",
        name=stage,
    )
    def produced(number: int, values: Iterator[str]) -> Iterator[tuple[str, int]]:
        for value in values:
            yield value, number

    return pipeline


def alone() -> dp.Pipeline:
    """A source with such names: the fewer tables, the less there is to write and to read."""
    pipeline = dp.Pipeline("odd")
    pipeline.source(WORST_STAGE, key="`k``'\"--` bigint", value="`a``'--/*DROP` string")
    return pipeline


def test_a_quoted_name_is_one_name(spark: SparkSession) -> None:
    for sign in [*SIGNS, WORST, *(f"a{sign}b" for sign in SIGNS)]:
        rows = spark.sql(f"SELECT 1 AS {identifier(sign)}")
        assert rows.columns == [sign]
        assert rows.select(identifier(sign)).columns == [sign]


PLACES = {"worst": WORST, "version": "x@v0", "time": "x@20200101000000000"}


@pytest.mark.parametrize("place", chosen(PLACES, "worst"))
def test_a_store_at_an_odd_path(
    spark: SparkSession, tmp_path: Path, place: str, long_run: bool
) -> None:
    """All that becomes a statement: writes, restores, deletes, compactions and vacuums.

    At the worst path of a source, with a write and a vacuum; in a long run also of a stage that
    reads one, and with all of them.
    """
    is_worst = place == "worst"  # which delta-rs cannot read: it takes %20 for a space
    pipeline = alone() if is_worst and not long_run else odd() if is_worst else odd("produced")
    source = pipeline.stages[0].name
    (tmp_path / "x").mkdir()
    beside = dp.Store(None, str(tmp_path / "x"), odd("produced"))  # whose version x@v0 could be
    beside.update(as_rows(odd("produced"), {"rows": [Upsert((9,), ("z",))]}))
    location, oracle = f"{tmp_path}/{PLACES[place]}", Oracle(pipeline)
    store = dp.Store(spark, location, pipeline, table_type="copy_on_write")
    updates = 3 if long_run else 1
    for number in range(updates):
        changes = {source: [Upsert((number,), (WORST,)), Upsert((7,), (str(number),))]}
        store.update(as_rows(pipeline, changes))
        oracle.update(changes)
    if long_run:
        store.rollback(1)
        oracle.rollback(1)
        store.compact()
    done = store.vacuum(keep_versions=2 if long_run else 1, unfinished_hours=0)
    assert done.versions == tuple(range(1, updates))
    reader = dp.Store(spark, location, pipeline)
    for number in (updates, updates + 1) if long_run else (updates,):
        assert_same(reader, oracle, pipeline, number, in_spark=is_worst)
    if is_worst and long_run:
        assert not store.verify()
    assert {path.name for path in tmp_path.iterdir()} == {"x", PLACES[place].partition("/")[0]}
    assert beside.content("rows").num_rows == 1


@long
def test_a_table_of_others_at_an_odd_path(spark: SparkSession, tmp_path: Path) -> None:
    table, pipeline = f"{tmp_path}/{WORST} not at the end", dp.Pipeline("theirs")
    pipeline.delta_source("rows", table=table, key="id bigint", value="v string")
    for number in range(2):
        rows = spark.createDataFrame([(number, "a")], "id bigint, v string")
        rows.write.format("delta").mode("append").save(table)
        store = dp.Store(spark, str(tmp_path / "store"), pipeline)
        store.update()
        assert store.content("rows").count() == number + 1


def test_a_table_of_others_is_not_named_with_a_version(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).selectExpr("id", "'a' AS v").write.format("delta").save(f"{tmp_path}/t")
    for ending in ("@v0", "@V7/", "@20200101000000000"):
        pipeline, table = dp.Pipeline("theirs"), f"{tmp_path}/t{ending}"
        pipeline.delta_source("rows", table=table, key="id bigint", value="v string")
        with pytest.raises(dp.DefinitionError):
            dp.Store(spark, str(tmp_path / "store"), pipeline)


def test_schemas_are_refused_before_anything_is_made(spark: SparkSession) -> None:
    before = {row.namespace for row in spark.sql("SHOW SCHEMAS").collect()}
    for name in ("a b", "a'b", "a;b", "ünï", "a`b", "a--b"):
        with pytest.raises(dp.DefinitionError):
            dp.Store(spark, name, odd())
    assert {row.namespace for row in spark.sql("SHOW SCHEMAS").collect()} == before


@long
def test_what_others_have_in_the_schema_of_a_store(spark: SparkSession) -> None:
    """Views, and tables of other formats: a vacuum passes them by, as it does at a path."""
    spark.sql("DROP SCHEMA IF EXISTS beside CASCADE")
    spark.sql("CREATE SCHEMA beside")
    pipeline = dp.Pipeline("plain")
    pipeline.source("rows", key="id bigint", value="v string")
    try:
        store = dp.Store(spark, "beside", pipeline)
        for number in range(2):
            store.update(as_rows(pipeline, {"rows": [Upsert((number,), ("a",))]}))
        spark.sql("CREATE VIEW beside.seen AS SELECT * FROM beside.rows")
        spark.sql("CREATE TABLE beside.other USING parquet AS SELECT 1 AS x")
        spark.sql("CREATE TABLE beside.mine USING delta AS SELECT 1 AS x")
        done = store.vacuum(keep_versions=1, unfinished_hours=0)
        assert (done.versions, done.tables) == ((1,), ())
        for name in ("seen", "other", "mine"):
            assert spark.table(f"beside.{name}").count()
    finally:
        spark.sql("DROP SCHEMA IF EXISTS beside CASCADE")
