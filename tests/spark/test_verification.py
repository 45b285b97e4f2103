"""Verification finds nothing in a healthy store, and exactly the fault in a faulty one."""

import pickle
import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from comparing import as_frames
from counting import jobs
from crashing import FACTOR, built, orders
from forcing import WAYS, Way, forced
from limiting import limited
from pyspark.sql import SparkSession
from selecting import long
from series import drawn as examples
from series import packed, packed_histories

from deltaproduce import Limits, Store
from deltaproduce.storage.attempts import Attempt
from deltaproduce.testing import Oracle, strategies

METADATA = "spark.databricks.delta.commitInfo.userMetadata"
JOBS_A_STAGE = 35
"""Spark jobs for a stage of four tables, those of Delta for the lists of files among them."""

DELETE_LAST = "DELETE FROM {t} WHERE _source_id = {last}"
FAULTS = {
    "numbers, mappings and words": (
        {
            "content": "UPDATE {t} SET _ordinal = _ordinal + 1",
            "key_mappings": DELETE_LAST,
            "updates": "UPDATE {t} SET _change_type = 'add' WHERE _change_type = 'update'",
        },
        {("content", "rows"), ("key_mappings", "pairs"), ("updates", "steps")},
    ),
    "a row less, and later updates": (
        {"content": DELETE_LAST, "updates": "INSERT INTO {t} SELECT 99, 'add', 99, 0, 9"},
        {("content", "rows"), ("key_mappings", "pairs"), ("updates", "steps"), ("updates", "fold")},
    ),
    "other values, and pairs twice": (
        {
            "content": "UPDATE {t} SET amount = amount + 1",
            "key_mappings": "INSERT INTO {t} SELECT * FROM {t}",
        },
        {("updates", "fold"), ("key_mappings", "pairs")},
    ),
    "out of order, and other updates": (
        {
            "content": "INSERT OVERWRITE {t} SELECT * FROM {t} ORDER BY customer DESC",
            "updates": "UPDATE {t} SET amount = amount + 1",
        },
        {("content", "order"), ("updates", "fold")},
    ),
    "columns": (
        {
            "content": "ALTER TABLE {t} ADD COLUMN more int",
            "updates": "UPDATE {t} SET _position = _position + 1 WHERE _version = 1",
        },
        {("content", "columns"), ("updates", "steps")},
    ),
}
"""What is done to tables of a stage -> what is found of them."""
BY_SPARK = Limits(small_table_rows=0, replaced_percent=900)
"""Tables are checked in Spark, however few rows they have."""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of plain tables, to be copied and made wrong."""
    place = tmp_path_factory.mktemp("original") / "store"
    FACTOR[0] = 1
    with pytest.MonkeyPatch.context() as patched:
        limited(patched, small_table_rows=0, replaced_percent=900)
        built(None, str(place), table_type="copy_on_write")
    return place


def planted(spark: SparkSession, store: Store, statements: Mapping[str, str]) -> None:
    """Make tables wrong, as if a version had done so."""
    head = store.head
    attempt = Attempt.after(head, datetime.now(UTC))
    stages = {name: figures.carried() for name, figures in head.stages.items()}
    last = store.key_mappings("by_customer").agg({"_source_id": "max"}).collect()[0][0]
    for kind, statement in statements.items():
        table = store._opened.tables.location.table("by_customer", kind)
        spark.conf.set(METADATA, attempt.metadata(table.name))
        try:
            spark.sql(statement.format(t=table.sql, last=last))
        finally:
            spark.conf.unset(METADATA)
        newest = store._opened.tables.reader.recent_commits(table)[0].delta_version
        wrong = stages["by_customer"].at({kind: newest})
        added = {**wrong.base.added, kind: 0 if "ORDER" in statement else 1}
        stages["by_customer"] = replace(wrong, base=replace(wrong.base, added=added))
    version = replace(head, number=head.number + 1, stages=stages, attempt=attempt)
    store._opened.log.publish(version, attempt)


@long
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_put_right(
    spark: SparkSession, original: Path, tmp_path: Path, fault: str
) -> None:
    statements, expected = FAULTS[fault]
    shutil.copytree(original, tmp_path / "store")
    store = Store(
        spark, str(tmp_path / "store"), orders(), table_type="copy_on_write", limits=BY_SPARK
    )
    planted(spark, store, statements)
    findings = store.verify()
    assert {(finding.table, finding.what) for finding in findings} == expected
    assert {finding.stage for finding in findings} == {"by_customer"}
    assert pickle.loads(pickle.dumps(findings)) == findings
    number = store.head.number + 1
    assert store.repair().number == number
    again = Store(spark, tmp_path / "store", orders(), table_type="copy_on_write", limits=BY_SPARK)
    assert again.verify(recompute=True) == ()


def test_small_tables_are_checked_on_the_driver(
    spark: SparkSession, original: Path, tmp_path: Path
) -> None:
    """Spark is asked for the columns of each table, and for no rows."""
    shutil.copytree(original, tmp_path / "store")
    store = Store(spark, str(tmp_path / "store"), orders(), table_type="copy_on_write")
    jobs_before = jobs(spark)
    assert store.verify() == ()
    assert jobs(spark) - jobs_before <= 5
    table = store._opened.tables.location.table("by_customer", "updates")
    next((tmp_path / "store" / table.name).rglob("*.parquet")).write_bytes(b"broken")
    (finding,) = Store(spark, str(tmp_path / "store"), orders()).verify()
    assert (finding.stage, finding.table, finding.what) == ("by_customer", "updates", "unreadable")


@long
def test_functions_are_run_again_if_wanted(
    spark: SparkSession, original: Path, tmp_path: Path
) -> None:
    shutil.copytree(original, tmp_path / "store")
    jobs_before = jobs(spark)
    store = Store(
        spark, str(tmp_path / "store"), orders(), table_type="copy_on_write", limits=BY_SPARK
    )
    assert store.verify() == ()
    assert 0 < jobs(spark) - jobs_before <= 2 * JOBS_A_STAGE
    assert store.verify(recompute=3) == store.verify(recompute=True) == ()
    FACTOR[0] = 2
    try:
        assert store.verify() == ()
        for recompute in (3, True):
            (finding,) = store.verify(recompute)
            assert (finding.stage, finding.what) == ("by_customer", "recomputed")
        assert store.repair(recompute=True).operation == "repair"
        assert store.verify(recompute=True) == ()
    finally:
        FACTOR[0] = 1


@long
@pytest.mark.parametrize(
    "way",
    [way for way in WAYS if way.name in ("runs", "mixed")],
    ids=lambda w: w.name,
)
def test_nothing_is_found_in_a_healthy_store(spark: SparkSession, location: str, way: Way) -> None:
    number = WAYS.index(way)
    (single,) = examples(strategies.pipelines(), 1, number)
    histories = strategies.histories(single, min_versions=3, max_versions=3)
    pipeline = packed(single)
    oracle = Oracle(pipeline)
    with forced(way):
        store = Store(spark, location, pipeline, table_type=way.table_type)
        for changes in packed_histories(examples(histories, 8, number)):
            store.update(as_frames(spark, pipeline, changes))
            oracle.update(changes)
        assert store.verify(recompute=True) == ()
        store.rollback(1)
        assert store.verify(recompute=5) == ()
        store.update(as_frames(spark, pipeline, {}))
