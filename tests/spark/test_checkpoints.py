"""Checkpoints in Spark: small results come to the driver in the same job, large ones stay."""

import pyarrow as pa
import pytest
from counting import jobs
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DoubleType, LongType, StringType

from deltaproduce.engines.spark.checkpoints import checkpoint_of_few
from deltaproduce.engines.spark.frames import fetched
from deltaproduce.types.columns import Column

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
