"""Data sets with a session: DataFrames in and out, and plain Delta tables for Spark."""

from collections import Counter
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from described import FORMS, SCHEMA, Row, check_sorted, crashed, found_in, made, rows_from
from pyspark.sql import DataFrame, SparkSession

import deltaproduce as dp

ROWS = rows_from(0, 40)


def as_rows(frame: DataFrame) -> Counter[Row]:
    assert isinstance(frame, DataFrame)
    assert frame.columns == ["id", "day", "kind"]
    return Counter(map(tuple, frame.collect()))


def in_session(spark: SparkSession, dataset: dp.Dataset) -> dp.Dataset:
    return dp.Dataset.find(spark, dataset.location, schema=SCHEMA)


@pytest.mark.parametrize(
    "form", ["by expressions", *(pytest.param(f, marks=pytest.mark.long) for f in FORMS)]
)
def test_rows_go_in_and_come_out_as_dataframes(spark: SparkSession, tmp_path: Path, form: str):
    """Spark reads what is written without it, and what it gives is written as other rows are."""
    dataset = dp.Dataset.find_or_create(spark, tmp_path / "d", schema=SCHEMA, **FORMS[form])
    given = spark.createDataFrame(ROWS, "ID int, day date, kind string").repartition(3)
    with dataset.writer(roll_rows=7, open_files=2, checkpoint="of spark") as writer:
        writer.write(given.select("kind", "day", "ID"))
        writer.write((100, None, "one"))
        assert writer.resume_from < 41
    assert writer.resume_from == 41
    assert as_rows(dataset.read()) == Counter([*ROWS, (100, None, "one")])
    assert as_rows(dataset.read("kind LIKE 'a%' AND id < 30")) == Counter(
        row for row in ROWS if (row[2] or "").startswith("a") and row[0] < 30
    )
    alone = dp.Dataset.find(None, dataset.location)
    assert found_in(alone) == as_rows(dataset.read())
    check_sorted(alone)
    table = spark.read.format("delta").load(dataset.location)
    assert table.count() == 41
    if form == "by expressions":
        assert table.where("`ye-ar` = 1999 AND bucket = 1").select("id").count() == sum(
            row[1] == date(1999, 12, 31) and row[0] % 3 == 1 for row in ROWS
        )
        part = dataset.partition(kind="ä %41=", bucket=1)
        assert as_rows(part.read("id > 3")) == found_in(
            alone.partition(bucket=1), "id > 3"
        ) & Counter(row for row in ROWS if row[2] == "ä %41=")
        assert as_rows(dataset.partition(kind=None).read()) == Counter(
            row for row in ROWS if row[2] is None
        )


def test_what_spark_appends_is_read_without_it(spark: SparkSession, tmp_path: Path):
    dataset = made(tmp_path / "d", "by day and kind")
    frame = spark.createDataFrame(ROWS, "id bigint NOT NULL, day date, kind string")
    frame.write.format("delta").mode("append").save(dataset.location)
    assert found_in(dataset) == Counter(ROWS) == as_rows(in_session(spark, dataset).read())
    assert dataset.files("day = '1999-12-31' AND kind = '.'")
    with dataset.writer() as writer:
        writer.write(rows_from(40, 3))
    copy = dataset.copy(tmp_path / "copy", partition=None)
    assert found_in(copy) == Counter(rows_from(0, 43))
    assert as_rows(in_session(spark, copy).read()) == Counter(rows_from(0, 43))


def test_wrong_dataframes_are_refused_before_anything_is_computed(spark: SparkSession, tmp_path):
    dataset = dp.Dataset.create(spark, tmp_path / "d", schema=SCHEMA)
    wrong: dict[str, Any] = {
        "id": spark.range(1).selectExpr("'x' AS id", "DATE '2026-01-31' AS day", "'a' AS kind"),
        "kind": spark.range(1).selectExpr("id", "DATE '2026-01-31' AS day"),
        "more": spark.range(1).selectExpr("id", "NULL AS day", "'a' AS kind", "1 AS more"),
    }
    for column, frame in wrong.items():
        with pytest.raises(dp.InvalidChangesError) as refused, dataset.writer() as writer:
            writer.write(frame)
        assert refused.value.column == column
    nulls = spark.range(3).selectExpr("nullif(id, 1L) AS id", "NULL AS day", "'a' AS kind")
    with pytest.raises(dp.InvalidChangesError) as refused, dataset.writer() as writer:
        writer.write(nulls.coalesce(1))
    assert "row 1 (from 0)" in str(refused.value)
    assert dataset.files() == []


def test_spark_reads_rows_in_one_of_two_wherever_an_absorption_stops(
    spark: SparkSession, tmp_path: Path, long_run: bool
):
    outcomes = set[bool]()
    for at in (6, 7, 9) if long_run else (6, 9):
        into, other = made(tmp_path / f"a{at}"), made(tmp_path / f"b{at}")
        for place, rows in ((into, ROWS[:4]), (other, ROWS[4:])):
            with place.writer() as writer:
                writer.write(rows)
        assert crashed(lambda: into.absorb(other), at)  # noqa: B023 it is called at once
        ours, theirs = (as_rows(in_session(spark, one).read()) for one in (into, other))
        assert ours + theirs == Counter(ROWS)
        assert theirs in (Counter(), Counter(ROWS[4:]))
        outcomes.add(not theirs)
        in_session(spark, into).absorb(in_session(spark, other))
        assert as_rows(in_session(spark, into).read()) == Counter(ROWS)
    assert outcomes == {True, False}


def test_rows_that_spark_has_marked_as_deleted_do_not_come_back(spark: SparkSession, tmp_path):
    into, other = made(tmp_path / "a"), made(tmp_path / "b")
    with other.writer() as writer:
        writer.write(ROWS)
    table = f"delta.`{other.location}`"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM {table} WHERE id = 3")
    with pytest.raises(dp.SessionError):
        other.read()
    with pytest.raises(dp.InvalidArgumentError):
        into.absorb(other)
    kept = Counter(row for row in ROWS if row[0] != 3)
    assert as_rows(in_session(spark, other).read()) == kept
    spark.sql(f"REORG TABLE {table} APPLY (PURGE)")
    into.absorb(other)
    assert found_in(into) == kept


def test_what_spark_wrote_into_odd_partitions_is_absorbed_from_a_copy(
    spark: SparkSession, tmp_path: Path
):
    """Spark leaves letters in paths as they are; delta-rs would not remove the files."""
    into, other = (
        dp.Dataset.create(None, tmp_path / name, schema="id int, kind string", partition="kind")
        for name in "ab"
    )
    rows = spark.createDataFrame([(1, "ä"), (2, "x y"), (3, "a/b=%")], "id int, kind string")
    rows.write.format("delta").mode("append").partitionBy("kind").save(other.location)
    with pytest.raises(dp.InvalidArgumentError):
        into.absorb(other)
    into.absorb(other.copy(tmp_path / "copy"))
    assert sorted(into.read().column("kind").to_pylist()) == ["a/b=%", "x y", "ä"]
    assert dp.Dataset.find(spark, into.location).read().count() == 3


def test_timestamps_are_instants_in_any_session(spark: SparkSession, tmp_path: Path):
    dataset = dp.Dataset.create(
        spark, tmp_path / "d", schema="n int, t timestamp", partition="date(t) AS day"
    )
    moment = datetime.fromisoformat("2026-01-31T23:30:00+00:00")
    with dataset.writer() as writer:
        writer.write((1, moment))
        writer.write(spark.createDataFrame([(2, moment)], "n int, t timestamp"))
    (path,) = dataset.files()
    assert path.startswith("day=2026-01-31/")
    found = dataset.read().selectExpr("n", "unix_micros(t) AS t").collect()
    assert {tuple(row) for row in found} == {(n, 1769902200000000) for n in (1, 2)}
