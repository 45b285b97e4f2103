"""Rows from the driver in Spark, and back: they do not depend on the way they take."""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from forcing import setting
from pyspark.sql import DataFrame, SparkSession
from series import drawn

from deltaproduce import StorageError
from deltaproduce.engines.spark import frames
from deltaproduce.engines.spark.frames import fetched, frame, in_files, mapped
from deltaproduce.model.limits import Limits
from deltaproduce.testing.strategies import keys, values
from deltaproduce.times.zones import zone_of
from deltaproduce.types.columns import Column, row_schema
from deltaproduce.types.data_types import LongType
from deltaproduce.types.row_writers import rows_writer

THRESHOLD = "spark.sql.execution.arrow.localRelationThreshold"
SCHEMA = row_schema(
    "series int, d date desc, b binary",
    "x double, y float, a decimal(38,10), t string, f boolean, moment timestamp, "
    "plain timestamp_ntz, tags map<string,array<string>>, s struct<i:int,t:string>",
    stage="made",
)
COLUMNS = (*SCHEMA.key, *SCHEMA.value)


@pytest.fixture
def rows(spark: SparkSession) -> pa.Table:
    """Rows of random values, in chunks some of which are empty."""
    zone = zone_of(spark.conf.get("spark.sql.session.timeZone"))
    made = ((SCHEMA.key, keys), (SCHEMA.value, values))
    arrays = [
        array
        for columns, strategy in made
        for array in rows_writer(columns, zone)(drawn(strategy(columns), 40, 0))
    ]
    table = pa.table(arrays, [c.name for c in COLUMNS])
    return pa.concat_tables([table.slice(0, 3), table.slice(3, 0), table.slice(3)])


def in_plan(rows: DataFrame) -> bool:
    return "LocalRelation" in rows._jdf.queryExecution().optimizedPlan().toString()  # type: ignore[attr-defined]


def test_rows_in_a_plan_and_in_an_rdd_are_the_same(spark: SparkSession, rows: pa.Table) -> None:
    few = frame(rows, spark, COLUMNS)
    many = frame(rows, spark, COLUMNS, len(rows) - 1)
    assert in_plan(few)
    assert not in_plan(many)
    assert few.schema == many.schema
    found, expected = (repr(fetched(made, COLUMNS).to_pylist()) for made in (many, few))
    assert found == expected


def test_many_rows_stay_in_order(spark: SparkSession) -> None:
    numbers = pa.table({"n": np.arange(4 * Limits().plan_rows + 1)})
    found = frame(numbers, spark)
    assert not in_plan(found)
    assert found.coalesce(1).toArrow().equals(numbers)


def test_large_tables_go_over_in_parts_and_stay_in_order(
    spark: SparkSession, rows: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = pa.table({"n": np.arange(4 * Limits().plan_rows + 1)})
    monkeypatch.setattr(frames, "_PART_BYTES", numbers.nbytes // 3)
    found = frame(numbers, spark)
    assert found.rdd.getNumPartitions() > spark.sparkContext.defaultParallelism
    assert found.coalesce(1).toArrow().equals(numbers)
    monkeypatch.setattr(frames, "_PART_BYTES", 1)  # a row each
    made = frame(rows, spark, COLUMNS)
    assert repr(fetched(made, COLUMNS).to_pylist()) == repr(rows.to_pylist())


def test_rows_come_in_files_as_they_come_through_the_heap(
    spark: SparkSession,
    rows: pa.Table,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the order of the tasks, some of which have no rows; no file has a name afterwards."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    odd = [Column(f"{c.name}.`é", c.data_type) for c in COLUMNS]
    renamed = rows.rename_columns([c.name for c in odd])
    many = frame(pa.concat_tables([renamed] * 10), spark, odd, plan_rows=0)
    some = many.where("`series.``é` % 3 <> 0")
    for made in (many.repartition(13), some, many.where("false")):
        kept = made.localCheckpoint()
        found, expected = mapped(kept, odd), fetched(kept, odd)
        assert found.schema == expected.schema
        assert repr(found.to_pylist()) == repr(expected.to_pylist())
        with in_files(kept) as files:
            again = fetched(files.frame(), odd)
        assert repr(again.to_pylist()) == repr(expected.to_pylist())
        assert [*tmp_path.iterdir()] == []


def test_rows_that_no_file_takes_are_an_error(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the job, if there is no place for files, or after it, if a task could not write."""
    numbers, column = spark.range(9), Column("id", LongType())
    gone = TemporaryDirectory()
    gone.cleanup()
    monkeypatch.setattr(frames, "TemporaryDirectory", lambda **_: nullcontext(gone.name))
    with pytest.raises(StorageError, match="No such file or directory"):
        mapped(numbers, [column])
    monkeypatch.undo()
    monkeypatch.setattr(tempfile, "tempdir", gone.name)
    with pytest.raises(StorageError, match="No such file or directory"):
        mapped(numbers, [column])


def test_the_session_keeps_its_settings(spark: SparkSession) -> None:
    table = pa.table({"n": np.arange(Limits().plan_rows + 1)})
    with setting(spark, THRESHOLD, "7MB"):
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: in_plan(frame(table, spark)), range(24)))
        assert found == [False] * 24
        assert spark.conf.get(THRESHOLD) == "7MB"
