"""The library's use of Hadoop's file systems."""

import shutil
from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from deltaproduce.engines.spark.file_systems import remove_table, removed_in_turn

NAME = "by 50% [amount] {x} %5B"


def written(spark: SparkSession, path: Path, commits: int) -> str:
    for number in range(commits):
        rows = spark.range(number).write.format("delta").mode("overwrite")
        rows.option("delta.checkpointInterval", "2").save(str(path))
    return str(path)


def test_a_table_is_removed_and_its_folder_with_the_last(
    spark: SparkSession, tmp_path: Path
) -> None:
    one = written(spark, tmp_path / NAME / "one", 1)
    other = written(spark, tmp_path / NAME / "other", 1)
    remove_table(spark, one)
    assert [path.name for path in (tmp_path / NAME).iterdir()] == ["other"]
    remove_table(spark, other)
    assert not [*tmp_path.iterdir()]
    remove_table(spark, other)


def test_what_a_removal_leaves_can_be_read_and_removed(
    spark: SparkSession, tmp_path: Path, long_run: bool
) -> None:
    """It is cut off before each of its steps in turn, on a copy, which Delta has not read yet.

    In a short run before each third.
    """
    table = Path(written(spark, tmp_path / "table", 4))
    system = spark._jvm.org.apache.hadoop.fs.FileSystem.getLocal(  # type: ignore[union-attr]
        spark._jsc.hadoopConfiguration()
    )
    path = spark._jvm.org.apache.hadoop.fs.Path(str(table))  # type: ignore[union-attr]
    steps = [entry.toUri().getPath() for entry in removed_in_turn(system, path)]
    assert {str(p) for p in table.glob("*.parquet")} < set(steps)
    assert len([step for step in steps if "/_delta_log/" in step]) >= 4
    for done in range(0, len(steps), 1 if long_run else 3):
        copy = tmp_path / f"copy {done}"
        shutil.copytree(table, copy)
        for step in steps[:done]:
            gone = copy / Path(step).relative_to(table)
            shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
            gone.with_name(f".{gone.name}.crc").unlink(missing_ok=True)
        assert DeltaTable.isDeltaTable(spark, str(copy))
        assert DeltaTable.forPath(spark, str(copy)).history().count()
        remove_table(spark, str(copy))
        assert not copy.exists()
