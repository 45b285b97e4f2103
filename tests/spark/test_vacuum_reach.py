"""The limits of a vacuum: it leaves alone other stores, foreign files, and targets of links.

The tests compare whole directory trees: paths, kinds, sizes and modification times.
"""

import json
import shutil
from pathlib import Path

import pytest
from comparing import assert_same
from crashing import built, drawn, frames, orders
from hazards import CASES, DOCTORED, dry_run, moved_on, rewritten, tree
from pyspark.sql import SparkSession
from selecting import chosen

from deltaproduce import CorruptStoreError, Store
from deltaproduce.testing import Oracle


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Oracle]:
    place = tmp_path_factory.mktemp("original")
    return place, built(None, str(place))


@pytest.fixture
def lake(original: tuple[Path, Oracle], tmp_path: Path) -> Path:
    """A store of three versions."""
    return Path(shutil.copytree(original[0], tmp_path / "lake"))


@pytest.mark.parametrize("case", chosen(CASES, "goes, has links"))
def test_what_is_of_others_stays(
    spark: SparkSession, original: tuple[Path, Oracle], lake: Path, tmp_path: Path, case: str
) -> None:
    """With a stage that the pipeline still has, and with one that no version has any more."""
    stage_goes = case.startswith("goes")
    store = moved_on(spark, lake) if stage_goes else Store(spark, str(lake), orders())
    theirs = [path for hazard in CASES[case] for path in hazard(original[0], lake, tmp_path)]
    before = {path: tree(path) for path in theirs}
    links = [path for path in lake.rglob("*") if path.is_symlink()]
    store.vacuum(keep_versions=1, unfinished_hours=0)
    assert {path: tree(path) for path in theirs} == before
    if not stage_goes:
        assert all(path.is_symlink() for path in links)
        assert_same(Store(spark, str(lake), orders()), original[1], orders(), 3, in_spark=True)


def test_tables_that_others_have_made_or_copied(
    spark: SparkSession, original: tuple[Path, Oracle], lake: Path
) -> None:
    """Those of another store say in their commits which of its tables they are."""
    store = moved_on(spark, lake)
    rows = spark.range(3).write.format("delta")
    rows.save(str(lake / "plain" / "content"))
    told = {"attempt": "a", "version": 1}
    rows.option("userMetadata", json.dumps(told)).save(str(lake / "told" / "content"))
    rows.option("userMetadata", json.dumps({**told, "table": "k/x"})).save(str(lake / "k" / "x"))
    shutil.copytree(original[0] / "by_customer", lake / "copy")
    names = ("plain", "told", "k", "copy")
    before = [tree(lake / name) for name in names]
    done = store.vacuum(keep_versions=1, unfinished_hours=0)
    assert {table.partition("/")[0] for table in done.tables} == {"by_customer"}
    assert [tree(lake / name) for name in names] == before


@pytest.mark.parametrize(
    "doctored",
    chosen(DOCTORED, "SQL as a delta version"),
)
def test_names_in_a_version_log_do_not_lead_out(
    spark: SparkSession, lake: Path, tmp_path: Path, doctored: str
) -> None:
    """The row is by an attempt, as far as the commit's metadata say."""
    log = f"{lake}/_versions"
    rows = spark.read.format("delta").load(log).collect()
    last = max(rows, key=lambda row: row.number)
    figures = rewritten(DOCTORED[doctored])(last.figures)
    row = [(*last[:6], figures, last.attempt) if row is last else tuple(row) for row in rows]
    told = json.dumps({"table": "_versions", "version": last.number, "attempt": last.attempt})
    schema = spark.read.format("delta").load(log).schema
    spark.createDataFrame(row, schema).coalesce(1).write.format("delta").mode("overwrite").option(
        "userMetadata", told
    ).save(log)
    shutil.copytree(lake, tmp_path / "x")
    before = tree(tmp_path)
    for action in (
        lambda store: store.vacuum(keep_versions=1, unfinished_hours=0),
        lambda store: store.update(frames(spark, drawn(5))),
    ):
        with pytest.raises(CorruptStoreError) as caught:
            action(Store(spark, str(lake), orders()))
        assert caught.value.table == "_versions"
    assert tree(tmp_path) == before


def test_a_dry_run_changes_nothing_and_says_what_goes(
    spark: SparkSession, lake: Path, long_run: bool
) -> None:
    dry_run(spark, moved_on(spark, lake), lake, (2, 1) if long_run else (1,))
