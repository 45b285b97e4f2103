"""Checkpoints in Spark: small results come to the driver in the same job, large ones stay."""

from dataclasses import replace
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from counting import jobs
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.delta.tables import Place, TableWrite
from deltaproduce.engines.spark import delta
from deltaproduce.engines.spark.checkpoints import (
    checkpoint_in_files,
    checkpoint_of_few,
    estimated_bytes,
)
from deltaproduce.engines.spark.frames import fetched
from deltaproduce.model.limits import Limits
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import DoubleType, LongType, StringType

COLUMNS = (Column("n", LongType()), Column("t", StringType()), Column("x", DoubleType()))


def counted() -> dict[str, Expression]:
    return {"rows": f.count(f.lit(1)), "sum": f.coalesce(f.sum("n"), f.lit(0))}


def made(spark: SparkSession, rows: int, tasks: int, width: int = 1) -> DataFrame:
    """Rows of numbers and of a chance that falls once."""
    numbers = spark.range(0, rows, 1, tasks).withColumnRenamed("id", "n")
    return numbers.withColumns({"t": f.repeat(f.lit("x"), f.lit(width)), "x": f.rand()})


@pytest.mark.parametrize(
    ("rows", "tasks", "width", "few"),
    [
        (0, 1, 1, True),
        (2_000, 2, 1, True),
        (1_001, 1, 1, False),  # a task sends no more than the first thousand
        (70, 70, 1, False),  # of the first 64 tasks
        (3, 1, 5_000, False),  # and no rows of more than 4 KiB
    ],
)
def test_few_rows_come_in_the_job_that_computes_them(
    spark: SparkSession, rows: int, tasks: int, width: int, few: bool
) -> None:
    """All of them in their order, or none; what stays is the same, and never computed again."""
    before = jobs(spark)
    computed, counts, table = checkpoint_of_few(made(spark, rows, tasks, width), counted(), COLUMNS)
    assert jobs(spark) == before + 1
    assert counts == {"rows": rows, "sum": rows * (rows - 1) // 2}
    assert (table is not None) == few
    stays = fetched(computed, COLUMNS)
    assert stays["n"].to_pylist() == list(range(rows))
    assert table is None or table.equals(stays)
    assert stays.equals(fetched(computed, COLUMNS))
    kept = computed._jdf.queryExecution().analyzed().rdd()  # type: ignore[attr-defined]
    assert kept.isCheckpointed()


def test_rows_of_parts_that_are_empty_come_in_order(spark: SparkSession) -> None:
    some = made(spark, 40, 8).where("n % 10 < 2")
    _, counts, table = checkpoint_of_few(some, counted(), COLUMNS)
    assert counts["rows"] == 8
    assert isinstance(table, pa.Table)
    assert table["n"].to_pylist() == [n for n in range(40) if n % 10 < 2]


@pytest.mark.parametrize("comes", [True, False])
def test_rows_in_files_come_or_stay_and_are_computed_once(spark: SparkSession, comes: bool) -> None:
    """In their order; if they stay, Spark reads the files, which are gone afterwards."""
    some = made(spark, 2_500, 7).where("n < 1000 OR n >= 2000")  # some tasks have no rows
    before = jobs(spark)
    wanted = (COLUMNS[2], COLUMNS[0])
    rows, counts = checkpoint_in_files(some, counted(), wanted, lambda found: comes)
    expected = [*range(1_000), *range(2_000, 2_500)]
    assert counts == {"rows": 1_500, "sum": sum(expected)}
    if isinstance(rows, pa.Table):
        assert comes
        assert jobs(spark) == before + 1
        assert rows.column_names == ["x", "n"]
        assert rows["n"].to_pylist() == expected
    else:
        assert not comes
        stays = fetched(rows, COLUMNS)
        assert stays["n"].to_pylist() == expected
        assert stays.equals(fetched(rows, COLUMNS))
        assert rows._jdf.queryExecution().analyzed().rdd().isCheckpointed()  # type: ignore[attr-defined]


def test_rows_that_are_likely_to_come_are_computed_into_files(spark: SparkSession) -> None:
    """If Spark's estimate says that they are many, but fit; what they are decides if they come."""
    rows = made(spark, 5_000, 2)
    size = estimated_bytes(rows)
    counts = {"rows": f.count(f.lit(1)), "bytes": f.sum(f.lit(8))}
    limits = {
        "in files": Limits(fetched_bytes=size - 1, local_bytes=size),
        "too many in files": Limits(fetched_bytes=size - 1, local_bytes=size, local_rows=4_999),
        "checkpoint": Limits(fetched_bytes=size - 1, local_bytes=size - 1, local_rows=4_999),
        "through the heap": Limits(fetched_bytes=size, local_bytes=size),
    }
    limits = {way: replace(given, local_parts=1) for way, given in limits.items()}
    limits["in parts"] = replace(limits["checkpoint"], local_parts=2)
    taken = dict[str, tuple[bool, int]]()
    for way, given in limits.items():
        before = jobs(spark)
        found, counted_rows = Engines(spark, given).computed(rows, COLUMNS, counts)
        assert counted_rows["rows"] == 5_000
        taken[way] = isinstance(found, pa.Table), jobs(spark) - before
    assert taken == {
        "in files": (True, 1),
        "in parts": (True, 1),
        "too many in files": (False, 2),
        "checkpoint": (False, 1),
        "through the heap": (True, 2),
    }
    of_python = spark.createDataFrame([(1, "x", 0.5)] * 3, ["n", "t", "x"])
    assert not Limits().may_come_in_files(estimated_bytes(of_python))  # nothing is known of these


def paths(tables: delta.SparkDelta, place: Place) -> list[str]:
    return [file.removeprefix("file://") for file in tables.read(place).inputFiles()]


def test_spark_writes_many_rows_of_the_driver_in_several_files(
    spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has the next rows, in their order; few rows are one file."""
    monkeypatch.setattr(delta, "ROWS_PER_FILE", 10)
    rows = pa.table({"n": [*range(24, -1, -1)]})
    for least, name in ((24, "many"), (25, "few")):
        tables = delta.SparkDelta(spark, Limits(local_rows=least))
        place = Place(f"{location}/{name}", in_catalog=False)
        tables.write(place, TableWrite(rows, COLUMNS[:1], "create", "by a test"))
        files = [pq.read_table(file)["n"].to_pylist() for file in paths(tables, place)]
        expected = [24, 14, 4] if name == "many" else [24]
        assert sorted((file[0] for file in files), reverse=True) == expected
        assert sorted(chain(*files)) == [*range(25)]
        assert all(file == sorted(file, reverse=True) for file in files)
