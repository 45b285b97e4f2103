"""Batches in users' formats are stored unchanged; those that cannot be computed say why."""

import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from arrow_columns import UTC, columns, plain
from forcing import setting
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from selecting import long
from series import drawn

from deltaproduce import (
    ConflictError,
    CorruptStoreError,
    InvalidChangesError,
    Limits,
    Pipeline,
    Store,
)
from deltaproduce.stages.sources.given.formats import table_of

ROWS = [
    {"id": 1, "form": "x", "n": 7, "a": Decimal("1.50"), "tags": ["a", None]},
    {"id": 2, "form": "x", "n": None, "a": None, "tags": None},
    {"id": 2, "form": "x", "n": -1, "a": Decimal("-0.01"), "tags": []},
]
TABLE = pa.Table.from_pylist(ROWS)

FORMS: dict[str, Callable[[], Any]] = {
    "table": lambda: TABLE,
    "batch": lambda: TABLE.to_batches()[0],
    "reader": lambda: TABLE.to_reader(),
    "list": lambda: ROWS,
    "polars": lambda: pl.DataFrame(ROWS),
    "pandas": lambda: pd.DataFrame(ROWS, index=["p", "q", "r"]),
}


def shop() -> Pipeline:
    pipeline = Pipeline("shop")
    value = "n int, a decimal(5,2), tags array<string>"
    forms = pipeline.source("forms", key="form string, id bigint", value=value)
    pipeline.source("orders", key="id bigint", value="n int NOT NULL")

    @pipeline.producer(forms, key="id bigint", value="form string, n int")
    def by_id(key, values):
        for value in values:
            yield key.id, (key.form, value.n)

    return pipeline


def test_a_timestamp_is_one_whatever_a_session_takes_the_word_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Also in a part of a value, and in another time zone."""
    pipeline = Pipeline("p")
    value = "at timestamp, plain timestamp_ntz, parts struct<at: timestamp, n: bigint>"
    pipeline.source("events", key="id bigint", value=value)
    moment = "timestamp_micros(1)"
    text = f"""SELECT 1 AS id, {moment} AS at, TIMESTAMP_NTZ'2026-01-01' AS plain,
        named_struct('at', {moment}, 'n', 2) AS parts"""
    with (
        setting(spark, "spark.sql.timestampType", "TIMESTAMP_NTZ"),
        setting(spark, "spark.sql.session.timeZone", "Asia/Tokyo"),
    ):
        store = Store(spark, tmp_path / "store", pipeline)
        store.update({"events": spark.sql(text)})
    found = store.content("events").selectExpr(
        "unix_micros(at) AS at", "CAST(plain AS string) AS plain", "unix_micros(parts.at) AS inside"
    )
    assert [tuple(row) for row in found.collect()] == [(1, "2026-01-01 00:00:00", 1)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("given") / "store"


@pytest.fixture(scope="module")
def store(spark: SparkSession, path: Path) -> Store:
    made = Store(spark, path, shop())
    made.update({"orders": spark.createDataFrame([(1, 1)], "id bigint, n int")})
    return made


def as_given(form: str) -> Any:
    """The rows in a form, under keys of its own."""
    found = FORMS[form]()
    match found:
        case list():
            return [{**row, "form": form} for row in found]
        case pl.DataFrame():
            return found.with_columns(pl.lit(form).alias("form").cast(pl.Categorical))
        case pd.DataFrame():
            return found.assign(form=pd.Categorical([form] * len(found)))
        case pa.RecordBatchReader():
            table = found.read_all()
            return table.set_column(1, "form", pa.array([form] * len(table))).to_reader()
        case _:
            return found.set_column(1, "form", pa.array([form] * found.num_rows))


def test_all_forms_are_stored_as_the_same_rows(spark: SparkSession, store: Store) -> None:
    for form in FORMS:
        head = store.update({"forms": as_given(form)}, f"of {form}")
        assert head.update_id == f"of {form}"
    found = store.content("forms", ordered=True).collect()
    for form in FORMS:
        rows = [tuple(row)[1:] for row in found if row.form == form]
        assert rows == [
            (row["id"], *list(row.values())[2:], i if row["id"] == 2 else 0)
            for row, i in zip(ROWS, (0, 0, 1), strict=True)
        ]
    before = store.head.number
    together: list[dict[str, Any]] = [{**row, "form": form} for form in FORMS for row in ROWS]
    assert store.load({"forms": together}).number == before  # nothing differs
    assert store.load({"forms": pl.DataFrame(together)}).number == before
    deletes = [{"form": form, "id": 2, "_change_type": "delete"} for form in FORMS]
    assert store.update({"forms": deletes}).stages["forms"].changed_keys == len(FORMS)
    assert store.content("by_id").count() == len(FORMS)


def test_a_reader_is_read_once_though_an_update_is_tried_again(
    spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(spark, location, shop(), on_conflict="retry")
    run, tries = store._writer.executor.update, []

    def overtaken(*args: Any, **options: Any) -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise ConflictError("overtaken")
        return run(*args, **options)

    monkeypatch.setattr(store._writer.executor, "update", overtaken)
    reader = pa.table({"id": [1, 2], "n": [1, 2]}).to_reader()
    store.update({"orders": reader})
    assert len(tries) == 2
    assert store.content("orders").count() == 2
    with pytest.raises(InvalidChangesError):
        store.load({"orders": reader})
    assert store.content("orders").count() == 2


def test_all_that_is_wrong_is_told_at_once(spark: SparkSession, store: Store, path: Path) -> None:
    rows = spark.createDataFrame([("1", 2, 3.5)], "ID string, more int, _ordinal double")
    error = refused(store, path, rows)
    assert error.columns == ("n", "more", "id", "_ordinal")
    assert error.column == "n"
    assert refused(store, path, pd.DataFrame({"ID": ["1"], "more": [2]})).columns == (
        "n",
        "more",
        "id",
    )
    null = refused(store, path, pl.DataFrame({"id": [1, 2], "n": [1, None]}))
    assert (null.column, null.keys) == ("n", (2,))


# ---- batches that cannot be computed


def listing(path: Path) -> dict[str, tuple[int, int]]:
    found = (file for file in path.rglob("*") if file.is_file())
    return {str(file): (file.stat().st_size, file.stat().st_mtime_ns) for file in found}


def refused(store: Store, path: Path, changes: object) -> InvalidChangesError:
    before = listing(path)
    with pytest.raises(InvalidChangesError) as caught:
        store.update({"orders": changes})
    assert listing(path) == before
    assert caught.value.source == "orders"
    assert "'orders'" in str(caught.value)
    assert str(caught.value).replace("\n", "").isprintable()
    return caught.value


def of(spark: SparkSession, n: str) -> DataFrame:
    return spark.range(1, 3).selectExpr("id", f"{n} AS n")


def with_function(spark: SparkSession) -> DataFrame:
    def failing(value):
        raise LookupError(f"\x1b[31mno {value}")

    return spark.range(3).select("id", f.udf(failing, "int")("id").alias("n"))


PLANS: dict[str, tuple[Callable[[SparkSession, Path], DataFrame], str]] = {
    "cast": (lambda spark, _: of(spark, "cast(concat('x\x1b', id) as int)"), "'x\\x1b"),
    "division": (lambda spark, _: of(spark, "cast(1 / (id - 1) as int)"), "DIVIDE_BY_ZERO"),
    "raise": (lambda spark, _: of(spark, "cast(raise_error('no\x07 way') as int)"), "no\\x07 way"),
    "udf": (lambda spark, _: with_function(spark), "LookupError: \\x1b[31mno"),
    "gone": (lambda spark, place: vanished(spark, place), "FILE_NOT_EXIST"),
    "no parquet": (lambda spark, place: spoiled(spark, place), "FAILED_READ_FILE"),
}


def vanished(spark: SparkSession, place: Path) -> DataFrame:
    of(spark, "1").write.parquet(str(place / "gone"))
    found = spark.read.parquet(str(place / "gone"))
    shutil.rmtree(place / "gone")
    return found


def spoiled(spark: SparkSession, place: Path) -> DataFrame:
    (place / "spoiled.parquet").write_text("no parquet at all")
    return spark.read.schema("id bigint, n int").parquet(str(place / "spoiled.parquet"))


@pytest.mark.parametrize("plan", PLANS)
def test_a_plan_that_fails(
    spark: SparkSession, store: Store, path: Path, tmp_path: Path, plan: str
) -> None:
    make, said = PLANS[plan]
    error = refused(store, path, make(spark, tmp_path))
    assert error.__cause__ is not None
    assert said in str(error)
    assert len(str(error)) < 700
    assert "\tat " not in str(error)


def test_a_stream_is_no_batch(spark: SparkSession, store: Store, path: Path) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("value AS id", "1 AS n")
    assert "stream_writer" in str(refused(store, path, stream))


def test_a_frame_of_another_session_is_one(spark: SparkSession, location: str) -> None:
    store = Store(spark, location, shop())
    store.update({"orders": of(spark.newSession(), "1")})
    assert store.content("orders").count() == 2


def test_a_file_of_the_store_itself_that_is_gone_is_damage(
    spark: SparkSession, location: str
) -> None:
    store = Store(spark, location, shop())
    store.update({"orders": of(spark, "1")})
    mine = spark.read.format("delta").load(f"{location}/orders/content").select("id", "n")
    for file in Path(location, "orders", "content").glob("*.parquet"):
        file.unlink()
    with pytest.raises(CorruptStoreError):
        store.update({"orders": mine})


def test_what_is_taken_is_what_is_stored(spark: SparkSession, location: str) -> None:
    made: list[tuple[pa.Array, str]] = [
        column for column in drawn(columns(), 150, 7) if taken(*column) is not None
    ]
    size = max(len(array) for array, _ in made)
    assert len(made) > 40
    names = [f"v{place}" for place in range(len(made))]
    arrays = [
        pa.concat_arrays([array, pa.nulls(size - len(array), array.type)]) for array, _ in made
    ]
    pipeline = Pipeline("wide")
    value = ", ".join(f"{name} {ddl}" for name, (_, ddl) in zip(names, made, strict=True))
    pipeline.source("orders", key="id bigint", value=value)
    store = Store(spark, location, pipeline)
    store.update({"orders": pa.table([pa.array(range(size)), *arrays], ["id", *names])})
    found = store.content("orders", ordered=True).toArrow()
    for name, array in zip(names, arrays, strict=True):
        assert plain(found.column(name).to_pylist()) == plain(array.to_pylist()), array.type


def taken(array: pa.Array, declared: str) -> pa.Table | None:
    """The array as it is to be stored; None if it is refused."""
    source = Pipeline("p").source("orders", key="id bigint", value=f"v {declared}")
    table = pa.table({"id": pa.array(range(len(array)), pa.int64()), "v": array})
    try:
        return table_of(table, source, UTC, is_snapshot=False)
    except InvalidChangesError:
        return None


STRUCT = "struct<n: int NOT NULL, t: string>"
LOOSE = "struct<n: int, t: string>"


@pytest.mark.parametrize(
    ("limits", "table_type"),
    [
        pytest.param({}, "copy_on_write", marks=long),
        ({"small_table_rows": 0, "replaced_percent": 900}, "merge_on_read"),
        pytest.param(
            {"small_table_rows": 0, "replaced_percent": 900, "local_rows": 0},
            "merge_on_read",
            marks=long,
        ),
    ],
)
def test_a_struct_may_be_null_whose_fields_may_not(
    spark: SparkSession, tmp_path: Path, limits: dict[str, int], table_type: Any, long_run: bool
) -> None:
    pipeline = Pipeline("structs")
    value = f"s {STRUCT}, a array<{STRUCT}>"
    given = pipeline.source("given", key="id int", value=value)

    @pipeline.producer(given, key="id int", value=value)
    def copied(key, values):
        for each in values:
            yield key, each

    three = {"n": 3, "t": None}
    rows = [{"id": 1, "s": None, "a": [None]}, {"id": 2, "s": three, "a": [three]}]
    store = Store(
        spark, tmp_path / "store", pipeline, limits=Limits(**limits), table_type=table_type
    )
    store.update({"given": rows})
    frame = spark.createDataFrame([(2, None, [(4, "t")])], f"id int, s {LOOSE}, a array<{LOOSE}>")
    store.update({"given": frame})
    found = store.content("copied").orderBy("id").select("id", "s", "a").collect()
    assert [tuple(row) for row in found] == [(1, None, [None]), (2, None, [(4, "t")])]
    null = spark.createDataFrame([(5, None, [(None, "t")])], frame.schema)
    with pytest.raises(InvalidChangesError, match=r"'a' is NOT NULL in 'element\.n'.* keys \(5,"):
        store.update({"given": null})
    found = store.content("given", 1).orderBy("id").collect()
    assert [row.s and tuple(row.s) for row in found] == [None, (3, None)]
    if long_run:
        assert store.verify() == ()
        assert store.changes("copied", 0).count() >= 2
    store.close()


@pytest.mark.parametrize("local_rows", [0, 1000], ids=["in Spark", "here"])
def test_a_key_twice_in_a_unique_source_is_refused_with_both_positions(
    spark: SparkSession, location: str, local_rows: int
) -> None:
    """Positions are those in the DataFrame, over all of its partitions, or in the table."""
    pipeline = Pipeline("unique")
    pipeline.source("orders", key="id bigint", value="n int", unique=True)
    store = Store(spark, location, pipeline, limits=Limits(local_rows=local_rows))
    id = "CASE id WHEN 4 THEN 3 WHEN 17 THEN 9 ELSE id END AS id"
    kind = "IF(id = 4, 'update_preimage', 'upsert') AS _change_type"
    frame = spark.range(20, numPartitions=3).selectExpr(id, "CAST(id AS int) AS n", kind)
    given = pa.Table.from_pylist([row.asDict() for row in frame.collect()])
    for one in (frame.coalesce(1), given) if local_rows else (frame, given):
        with pytest.raises(InvalidChangesError) as caught:
            store.update({"orders": one})
        assert caught.value.keys == (9,)
        numbers = [n for n, id in enumerate(given.column("id").to_pylist()) if id == 9]
        wanted = numbers
        if local_rows and one is not given:  # rows that are ignored were left out in Spark
            types = given.column("_change_type").to_pylist()
            wanted = [n - types[:n].count("update_preimage") for n in numbers]
        assert list(caught.value.rows) == wanted
    assert store.head.number == 0
    once = frame.where("_change_type = 'upsert'").dropDuplicates(["id"])
    assert store.update({"orders": once}).stages["orders"].rows == 18
