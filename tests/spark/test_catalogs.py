"""Stores in schemas: where they may be, and relative paths that mean one place to all readers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from crashing import batch, frames, orders
from pyspark.sql import SparkSession
from selecting import long

from deltaproduce import DefinitionError, Pipeline, Store
from deltaproduce.engines.spark import file_systems

ROOT = Path(__file__).parents[2]


def test_a_name_that_was_meant_as_a_path_is_refused(spark: SparkSession) -> None:
    for text in ("nowhere_made", "spark_catalog.nowhere_made"):
        with pytest.raises(DefinitionError) as refused:
            Store(spark, text, orders())
        assert f"'./{text}'" in str(refused.value)
    assert not spark.catalog.databaseExists("nowhere_made")


def test_a_path_object_is_a_path(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Store(spark, Path("lake"), orders()).update(frames(spark, batch((1, 2, 3))))
    assert (tmp_path / "lake" / "_versions").is_dir()
    for location in ("lake/", "./lake", tmp_path / "lake", f"file:{tmp_path}/lake"):
        assert Store(spark, location, orders()).head.number == 1
    store = Store(spark, "./lake", orders())
    monkeypatch.chdir("/")
    assert store.update(frames(spark, batch((2, 2, 4)))).number == 2
    assert store.content("by_customer").count() == 2


def test_files_that_another_process_has_left_are_noticed(
    spark: SparkSession, tmp_path: Path
) -> None:
    made, left = tmp_path / "made", tmp_path / "left"
    spark.sql(f"CREATE SCHEMA left_behind LOCATION '{made}'")
    try:
        Store(spark, "left_behind", orders()).update(frames(spark, batch((1, 2, 3))))
        assert Store(spark, "left_behind", orders()).head.number == 1
        shutil.copytree(made, left)
    finally:
        spark.sql("DROP SCHEMA left_behind CASCADE")
    spark.sql(f"CREATE SCHEMA left_behind LOCATION '{left}'")
    try:
        with pytest.raises(DefinitionError) as refused:
            Store(spark, "left_behind", orders())
        assert f"{left}/_versions" in str(refused.value)
    finally:
        spark.sql("DROP SCHEMA left_behind CASCADE")


KEPT = """
import deltaproduce as dp

spark = dp.local_session(cores=1, config={"spark.sql.catalogImplementation": "hive"})
library = dp.Pipeline("library")
documents = library.source("documents", key="document_id bigint", value="text string")
store = dp.Store(spark, "lake", library)
found = store.head.number
rows = spark.createDataFrame([(found, "x")], ["document_id", "text"])
version = store.update({"documents": rows})
print(found, version.number, store.content("documents").count())
spark.stop()
"""


@long
def test_a_catalog_that_lasts_has_the_store_in_the_next_process(
    spark: SparkSession, tmp_path: Path
) -> None:
    printed = []
    for _ in range(2):
        ran = subprocess.run(
            [sys.executable, "-c", KEPT],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert ran.returncode == 0, ran.stderr
        printed.append(ran.stdout)
    assert printed == ["0 1 1\n", "1 2 2\n"]


@long
def test_a_relative_path_to_a_table_of_others(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the same table wherever the process is later, and whoever reads the version."""
    monkeypatch.chdir(tmp_path)
    theirs = tmp_path / "lake" / "ingested"
    spark.range(3).selectExpr("id AS k", "id AS n").write.format("delta").save(str(theirs))

    def pipeline(table: str) -> Pipeline:
        reading = Pipeline("reading")
        source = reading.delta_source("theirs", table=table, key="k bigint", value="n bigint")

        @reading.producer(source, key="n bigint", value="k bigint")
        def turned(k: int, values: Any) -> Any:
            for n in values:
                yield n, k

        return reading

    store = Store(spark, "./lake/store", pipeline("lake/ingested/"))
    assert store.update().number == 1
    monkeypatch.chdir("/")
    spark.range(3, 4).selectExpr("id AS k", "id AS n").write.format("delta").mode("append").save(
        str(theirs)
    )
    assert store.update().number == 2
    assert store.head.stages["theirs"].origin.table == str(theirs)
    elsewhere = Store(spark, tmp_path / "lake" / "store", pipeline(f"{theirs}/../ingested"))
    for number, count in ((1, 3), (2, 4)):
        assert elsewhere.content("theirs", number).count() == count
    assert elsewhere.update().number == 2


@long
def test_a_version_that_named_its_table_otherwise_is_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Version logs of before have the text that the pipeline had, such as one with a slash more."""
    theirs = f"{tmp_path}/theirs"
    spark.range(3).selectExpr("id AS k", "id AS n").write.format("delta").save(theirs)
    pipeline = Pipeline("reading")
    pipeline.delta_source("theirs", table=theirs, key="k bigint", value="n bigint")
    store = Store(spark, tmp_path / "store", pipeline)
    store.update()
    log = tmp_path / "store" / "_versions"
    rows = spark.read.format("delta").load(str(log))
    (row,) = rows.collect()
    assert theirs in row.figures
    older = row.figures.replace(theirs, f"{theirs}//")
    for file in log.glob("*.parquet"):
        assert file.exists()
    other = tmp_path / "other"
    shutil.copytree(tmp_path / "store", other)
    shutil.rmtree(other / "_versions")
    changed = spark.createDataFrame([(*row[:6], older, row.attempt)], rows.schema)
    metadata = spark.sql(f"DESCRIBE HISTORY delta.`{log}`").where("userMetadata IS NOT NULL")
    told = metadata.collect()[0].userMetadata
    writer = changed.coalesce(1).write.format("delta").option("userMetadata", told)
    writer.save(str(other / "_versions"))
    again = Store(spark, other, pipeline)
    assert again.head.stages["theirs"].origin.table == f"{theirs}//"
    assert again.content("theirs").count() == 3
    assert again.update().number == 1


def test_a_relative_path_is_refused_where_paths_are_elsewhere(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_systems, "is_local", lambda *_: False)
    with pytest.raises(DefinitionError, match="lake/x"):
        Store(spark, "lake/x", orders())
    pipeline = Pipeline("reading")
    pipeline.delta_source("theirs", table="lake/theirs", key="k bigint", value="n bigint")
    with pytest.raises(DefinitionError, match="lake/theirs"):
        Store(spark, "/nowhere/x", pipeline)
