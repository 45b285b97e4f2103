"""What verification finds: nothing in a healthy store, and of each fault exactly that."""

import pickle
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from comparing import as_frames
from crashing import FACTOR, built, drawn, orders
from forcing import WAYS, Way, forced
from pyspark.sql import SparkSession
from series import drawn as examples
from series import packed, packed_histories

from deltaproduce import Store, limits
from deltaproduce.testing import Oracle, strategies
from deltaproduce.versions import Attempt

METADATA = "spark.databricks.delta.commitInfo.userMetadata"
JOBS_A_STAGE = 45
"""Spark jobs for a stage of four tables, those of Delta for the lists of files among them."""

FAULTS = {
    "ordinals": (
        "content",
        "UPDATE {t} SET _ordinal = _ordinal + 1",
        {("content", "rows")},
    ),
    "a row less": (
        "content",
        "DELETE FROM {t} WHERE _source_id = (SELECT max(_source_id) FROM {t})",
        {("content", "rows"), ("key_mappings", "pairs"), ("updates", "fold")},
    ),
    "other values": (
        "content",
        "UPDATE {t} SET amount = amount + 1",
        {("updates", "fold")},
    ),
    "a pair less": (
        "key_mappings",
        "DELETE FROM {t} WHERE _source_id = (SELECT max(_source_id) FROM {t})",
        {("key_mappings", "pairs")},
    ),
    "a pair twice": (
        "key_mappings",
        "INSERT INTO {t} SELECT * FROM {t}",
        {("key_mappings", "pairs")},
    ),
    "other updates": (
        "updates",
        "UPDATE {t} SET amount = amount + 1",
        {("updates", "fold")},
    ),
    "positions": (
        "updates",
        "UPDATE {t} SET _position = _position + 1 WHERE _version = 1",
        {("updates", "steps")},
    ),
    "words": (
        "updates",
        "UPDATE {t} SET _change_type = 'add' WHERE _change_type = 'update' AND _position = 0",
        {("updates", "steps")},
    ),
    "later versions": (
        "updates",
        "INSERT INTO {t} SELECT 99, 'add', 99, 0, 9",
        {("updates", "steps")},
    ),
    "columns": ("content", "ALTER TABLE {t} ADD COLUMN more int", {("content", "columns")}),
    "order": (
        "content",
        "INSERT OVERWRITE {t} SELECT * FROM {t} ORDER BY customer DESC",
        {("content", "order")},
    ),
}


@pytest.fixture(scope="module")
def original(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of plain tables, to be copied and made wrong."""
    place = tmp_path_factory.mktemp("original") / "store"
    FACTOR[0] = 1
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(limits, "SMALL_TABLE_ROWS", 0)
        built(spark, str(place), table_type="copy_on_write")
    return place


def planted(spark: SparkSession, store: Store, kind: str, statement: str) -> None:
    """Make a table wrong, as if a version had done so."""
    head = store.head
    attempt = Attempt.after(head, datetime.now(UTC))
    table = store._tables.location.table("by_customer", kind)
    spark.conf.set(METADATA, attempt.metadata(table.name))
    try:
        spark.sql(statement.format(t=table.sql))
    finally:
        spark.conf.unset(METADATA)
    newest = store._tables.recent_commits(table)[0].delta_version
    stages = {name: figures.carried() for name, figures in head.stages.items()}
    wrong = stages["by_customer"].at({kind: newest})
    stages["by_customer"] = replace(
        wrong, added={**wrong.added, kind: 0 if "ORDER" in statement else 1}
    )
    version = replace(head, number=head.number + 1, stages=stages, attempt=attempt)
    store._log.publish(version, attempt)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_put_right(
    spark: SparkSession, original: Path, tmp_path: Path, fault: str
) -> None:
    kind, statement, expected = FAULTS[fault]
    shutil.copytree(original, tmp_path / "store")
    store = Store(spark, str(tmp_path / "store"), orders(), table_type="copy_on_write")
    planted(spark, store, kind, statement)
    findings = store.verify()
    assert {(finding.table, finding.what) for finding in findings} == expected
    assert {finding.stage for finding in findings} == {"by_customer"}
    assert pickle.loads(pickle.dumps(findings)) == findings
    number = store.head.number + 1
    assert store.repair().number == number
    assert Store(spark, str(tmp_path / "store"), orders()).verify(recompute=True) == ()


def test_functions_are_run_again_if_wanted(
    spark: SparkSession, original: Path, tmp_path: Path
) -> None:
    shutil.copytree(original, tmp_path / "store")
    store = Store(spark, str(tmp_path / "store"), orders(), table_type="copy_on_write")
    jobs = len(spark.sparkContext.statusTracker().getJobIdsForGroup(None))
    assert store.verify() == ()
    done = len(spark.sparkContext.statusTracker().getJobIdsForGroup(None)) - jobs
    assert done <= 2 * JOBS_A_STAGE
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


@pytest.mark.parametrize(
    "way", [way for way in WAYS if way.name in ("runs", "mixed")], ids=lambda way: way.name
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
    assert drawn(0)
