"""A record index with Spark: its DataFrames, tables that Spark writes, ``MERGE`` changes."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import deltaproduce as dp
from deltaproduce.record_index import merging
from deltaproduce.record_index.decisions.xxhash64 import xxhash64
from deltaproduce.storage import failpoints


def content(spark: SparkSession, table: str) -> dict[int, tuple[str, str]]:
    rows = spark.read.format("delta").load(table).collect()
    assert len({row.id for row in rows}) == len(rows)
    return {row.id: (row.day, row.v) for row in rows}


def test_changes_of_tables_that_spark_writes(
    spark: SparkSession, tmp_path: Path, long_run: bool
) -> None:
    """One table through it all: marked rows, a session's DataFrames, Spark's commits.

    In a long run also a feature; a short run has it where a commit comes before that of a merge.
    """
    table, location = str(tmp_path / "t"), str(tmp_path / "i")
    rows = spark.range(0, 20, 1, 2).selectExpr("id", "concat('day ', id % 2) day", "'old' v")
    rows.write.format("delta").partitionBy("day").option(
        "delta.enableDeletionVectors", "true"
    ).save(table)
    spark.sql(f"DELETE FROM delta.`{table}` WHERE id IN (4, 5)")  # marks rows in two of four files
    wanted = {n: (f"day {n % 2}", "old") for n in range(20) if n not in (4, 5)}
    index = dp.RecordIndex(spark, table, "id", location)
    index.build()
    assert index.stats().records == len(wanted)

    given = spark.createDataFrame([(4,), (6,), (15,)], "id bigint")
    found = index.lookup(given)
    assert found.columns == ["id", "day", "_file"]
    assert {(row.id, row.day) for row in found.collect()} == {(6, "day 0"), (15, "day 1")}
    files = spark.read.format("delta").load(table).select("id", "_metadata.file_path")
    address = {row.id: row.file_path for row in files.collect()}
    for row in found.collect():
        assert address[row.id].endswith(row["_file"])

    # No row of its file is marked: files are replaced, and Spark reads what comes of it.
    changed = index.upsert(
        spark.createDataFrame([(15, "day 1", "new")], "id long, day string, v string")
    )
    assert (changed.updated, changed.strategy) == (1, "files")
    wanted[15] = ("day 1", "new")
    assert content(spark, table) == wanted
    assert spark.sql(f"DESCRIBE HISTORY delta.`{table}` LIMIT 1").first()["version"] == 2

    # Rows of their files are marked: Spark merges, and what is not there is as without it.
    batch = pa.table(
        {"id": [6, 7, 30, 8], "day": ["day 0", "day 0", None, "day 0"], "v": ["m", "m", "m", "old"]}
    )
    changed = index.upsert(batch)
    assert (changed.inserted, changed.updated, changed.ignored) == (1, 2, 1)
    assert changed.strategy == "merge"
    assert changed.delta_version == DeltaTable(table).version()
    wanted |= {6: ("day 0", "m"), 7: ("day 0", "m"), 30: (None, "m")}
    assert content(spark, table) == wanted
    changed = index.delete([{"id": 8}, {"id": 4}])
    assert (changed.deleted, changed.ignored, changed.strategy) == (1, 1, "merge")
    del wanted[8]
    assert content(spark, table) == wanted
    assert index.verify() == ()

    if long_run:
        spark.sql(f"ALTER TABLE delta.`{table}` ADD CONSTRAINT named CHECK (v <> 'wrong')")
        with pytest.raises(Exception, match="CHECK constraint"):
            index.upsert([{"id": 15, "day": "day 1", "v": "wrong"}])
        assert index.upsert([{"id": 15, "day": "day 1", "v": "x"}]).strategy == "merge"
        wanted[15] = ("day 1", "x")
        assert content(spark, table) == wanted
        assert index.verify() == ()

    # Without a session the same is read, and what takes Spark, as the feature does, is refused.
    alone = dp.RecordIndex(None, table, "id", location)
    assert alone.stats().records == len(wanted)
    if not long_run:
        return
    with pytest.raises(dp.SessionError):
        alone.delete([{"id": 7}])
    spark.sql(f"OPTIMIZE delta.`{table}`")
    spark.sql(f"RESTORE delta.`{table}` TO VERSION AS OF 1")
    assert alone.verify() == ()
    assert alone.stats().records == 18


@pytest.mark.parametrize(
    "moment", ["before it reads", pytest.param("after it has read", marks=pytest.mark.long)]
)
def test_a_commit_before_that_of_a_merge_is_a_conflict(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    table = str(tmp_path / "t")
    write_deltalake(table, pa.table({"id": [1, 2], "v": ["old", "old"]}))
    DeltaTable(table).alter.add_constraint({"named": "v <> 'wrong'"})
    index = dp.RecordIndex(spark, table, "id", str(tmp_path / "i"))
    index.build()
    before = DeltaTable(table).version()

    def append(version: int) -> None:
        if DeltaTable(table).version() == version:
            write_deltalake(table, pa.table({"id": [3], "v": ["theirs"]}), mode="append")

    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        append(before)
        yield from batches

    def overtaking(when: str, name: str, place: str) -> None:
        if (when, name, place) == ("before", "commit", table):
            append(before)

    def nothing(when: str, name: str, place: str) -> None:
        pass

    is_late = moment == "after it has read"
    if is_late:
        monkeypatch.setattr(merging, "_check", lambda *_: slow)
    with failpoints.armed(nothing if is_late else overtaking), pytest.raises(dp.ConflictError):
        index.upsert([{"id": 1, "v": "new"}])
    assert DeltaTable(table).version() == before + 1
    monkeypatch.undo()
    changed = index.upsert([{"id": 1, "v": "new"}])
    assert (changed.updated, changed.strategy, changed.delta_version) == (1, "merge", before + 2)
    rows = DeltaTable(table).to_pyarrow_table().to_pylist()
    assert {row["id"]: row["v"] for row in rows} == {1: "new", 2: "old", 3: "theirs"}


def test_lengths_of_text_are_checked(spark: SparkSession, tmp_path: Path) -> None:
    """The table says ``string``; Spark keeps the length beside it."""
    table = str(tmp_path / "t")
    spark.sql(f"CREATE TABLE delta.`{table}` (id LONG, v VARCHAR(3)) USING delta")
    dp.RecordIndex(None, table, "id", str(tmp_path / "i")).build()
    with pytest.raises(dp.SessionError):
        dp.RecordIndex(None, table, "id", str(tmp_path / "i")).upsert([{"id": 1, "v": "long"}])
    index = dp.RecordIndex(spark, table, "id", str(tmp_path / "i"))
    with pytest.raises(Exception, match="EXCEED"):
        index.upsert([{"id": 1, "v": "long"}])
    assert index.upsert([{"id": 1, "v": "abc"}]).strategy == "merge"


def test_hashes_are_those_of_spark(spark: SparkSession) -> None:
    """Random keys of several types together, with nulls."""
    rows = spark.range(500).select(
        *(
            f.when(f.col("id") % divisor != 0, f.expr(value)).alias(f"c{divisor}")
            for divisor, value in {
                2: "id * 7919 - 1000",
                3: "cast(id as int) - 250",
                5: "substring(repeat(cast(id * id as string), 12), 1, cast(id % 71 as int))",
                7: "cast(id * 1234567 - 9999999 as decimal(12, 3))",
                11: "cast(id as decimal(38, 0)) * 123456789012345678901 - 7",
                13: "date_add(date'1969-06-01', cast(id as int))",
                17: "timestamp_micros(id * 86399999999 - 10000000000)",
                19: "id % 3 = 0",
                23: "unhex(hex(id * id * id))",
            }.items()
        )
    )
    hashed = rows.withColumn("hash", f.xxhash64(*rows.columns)).toArrow()
    keys = hashed.drop_columns(["hash"])
    assert xxhash64(keys).tolist() == hashed.column("hash").to_pylist()


def test_a_table_in_a_catalog(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE indexed_records USING delta AS SELECT id, 'a' AS v FROM range(5)")
    try:
        index = dp.RecordIndex(spark, "indexed_records", "id bigint", str(tmp_path / "i"))
        index.build()
        assert index.upsert([{"id": 3, "v": "b"}, {"id": 9, "v": "c"}]).updated == 1
        assert spark.table("indexed_records").where("v <> 'a'").count() == 2
        with pytest.raises(dp.NotFoundError):
            dp.RecordIndex(spark, "no_such_records", "id", str(tmp_path / "j"))
        with pytest.raises(dp.SessionError):
            dp.RecordIndex(None, "indexed_records", "id", str(tmp_path / "i"))
    finally:
        spark.sql("DROP TABLE indexed_records")
