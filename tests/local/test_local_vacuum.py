"""Vacuum without a session: what goes, what stays, and what it must not remove."""

import json
import os
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pytest
from crashing import batch, built, drawn, files, frames, orders
from deltalake import CommitProperties, DeltaTable, write_deltalake
from hazards import CASES, DOCTORED, dry_run, moved_on, rewritten, tree
from limiting import limited
from local_stores import as_rows, assert_no_orphans_here, assert_same_here
from selecting import in_turn
from series import drawn as examples

from deltaproduce import ConflictError, CorruptStoreError, Limits, NotFoundError, Pipeline, Store
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.file_systems.this_machine import ThisMachine
from deltaproduce.engines.local.files import remove_table, steps_of_removal
from deltaproduce.storage import failpoints
from deltaproduce.testing import Oracle, strategies

WAYS = {
    "small": Limits(),
    "runs": Limits(small_table_rows=0, replaced_percent=900),
    "runs, often folded": Limits(
        small_table_rows=0,
        replaced_percent=900,
        compaction_commits=2,
        compaction_rows=3,
        overlay_runs=3,
    ),
}


def assert_kept(store: Store, oracle: Oracle, pipeline: Pipeline, kept: range) -> None:
    """These versions are there, equal to the oracle's, and no others."""
    assert [version.number for version in store.versions()] == [*kept]
    assert_same_here(store, oracle, pipeline, kept)
    with pytest.raises(NotFoundError):
        store.content(pipeline.stages[0].name, version=kept[0] - 1)


@pytest.mark.parametrize(
    ("number", "way"), in_turn(4, WAYS, 2, kept=("small", "runs, often folded"))
)
def test_kept_versions_are_as_before_and_others_are_gone(
    location: str, number: int, way: str
) -> None:
    """Whatever comes before and after, a rollback too; and no file is left of what is gone."""
    number = number * len(WAYS) + list(WAYS).index(way)
    (pipeline,) = examples(strategies.pipelines(), 1, number)
    histories = strategies.histories(pipeline, min_versions=6, max_versions=6)
    (history,) = examples(histories, 1, number)
    oracle = Oracle(pipeline)
    with Store(None, location, pipeline, limits=WAYS[way]) as store:
        for step, changes in enumerate(history):
            store.update(as_rows(pipeline, changes))
            oracle.update(changes)
            if step == 3:
                store.rollback(2)
                oracle.rollback(2)
        store.wait()
        done = store.vacuum(keep_versions=3, unfinished_hours=0)
        first = oracle.head - 2
        assert done.versions == tuple(range(1, first))
        for opened in (store, Store(None, location, pipeline)):
            assert_kept(opened, oracle, pipeline, range(first, oracle.head + 1))
        store.rollback(first)
        oracle.rollback(first)
        store.update(as_rows(pipeline, history[0]))
        oracle.update(history[0])
        store.wait()
        for _ in range(2):  # what was read until the first goes with the second
            store.vacuum(keep_versions=2, unfinished_hours=0)
        assert_kept(store, oracle, pipeline, range(oracle.head - 1, oracle.head + 1))
        assert_no_orphans_here(store)
        assert store.verify() == ()


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of three versions, to be copied."""
    place = tmp_path_factory.mktemp("original") / "lake"
    built(None, str(place))
    return place


@pytest.fixture
def lake(original: Path, tmp_path: Path) -> Path:
    """A store of three versions."""
    return Path(shutil.copytree(original, tmp_path / "lake"))


@pytest.mark.parametrize("case", CASES)
def test_what_is_of_others_stays(lake: Path, tmp_path: Path, case: str) -> None:
    """With a stage that the pipeline still has, and with one that no version has any more."""
    original = Path(shutil.copytree(lake, tmp_path / "original"))
    oracle = Oracle(orders())
    for number in range(3):
        oracle.update(drawn(number))
    stage_goes = case.startswith("goes")
    store = moved_on(None, lake) if stage_goes else Store(None, str(lake), orders())
    theirs = [path for hazard in CASES[case] for path in hazard(original, lake, tmp_path)]
    before = {path: tree(path) for path in theirs}
    links = [path for path in lake.rglob("*") if path.is_symlink()]
    store.vacuum(keep_versions=1, unfinished_hours=0)
    assert {path: tree(path) for path in theirs} == before
    if not stage_goes:
        assert all(path.is_symlink() for path in links)
        assert_same_here(Store(None, str(lake), orders()), oracle, orders(), [3])


def test_tables_that_others_have_made_or_copied(lake: Path) -> None:
    """Those of another store say in their commits which of its tables they are."""
    store, rows = moved_on(None, lake), pa.table({"id": [0, 1, 2]})
    write_deltalake(lake / "plain" / "content", rows)
    told = {"attempt": "a", "version": 1}
    for place, table in (("told/content", {}), ("k/x", {"table": "k/x"})):
        said = CommitProperties({"userMetadata": json.dumps({**told, **table})})
        write_deltalake(lake / place, rows, commit_properties=said)
    shutil.copytree(lake / "by_customer", lake / "copy")
    names = ("plain", "told", "k", "copy")
    before = [tree(lake / name) for name in names]
    done = store.vacuum(keep_versions=1, unfinished_hours=0)
    assert {table.partition("/")[0] for table in done.tables} == {"by_customer"}
    assert [tree(lake / name) for name in names] == before
    assert not (lake / "by_customer").exists()


@pytest.mark.parametrize("doctored", DOCTORED)
def test_names_in_a_version_log_do_not_lead_out(lake: Path, tmp_path: Path, doctored: str) -> None:
    """The row is by an attempt, as far as the commit's metadata say."""
    log = lake / "_versions"
    rows = DeltaTable(log).to_pyarrow_table()
    found = sorted(rows.to_pylist(), key=lambda row: row["number"])
    last = found[-1]
    last["figures"] = rewritten(DOCTORED[doctored])(last["figures"])
    told = {"table": "_versions", "version": last["number"], "attempt": last["attempt"]}
    said = CommitProperties({"userMetadata": json.dumps(told)})
    wrong = pa.Table.from_pylist(found, rows.schema)
    write_deltalake(log, wrong, mode="overwrite", commit_properties=said)
    shutil.copytree(lake, tmp_path / "x")
    before = tree(tmp_path)
    for action in (
        lambda store: store.vacuum(keep_versions=1, unfinished_hours=0),
        lambda store: store.update(frames(None, drawn(5))),
    ):
        with pytest.raises(CorruptStoreError) as caught:
            action(Store(None, str(lake), orders()))
        assert caught.value.table == "_versions"
    assert tree(tmp_path) == before


def test_a_dry_run_changes_nothing_and_says_what_goes(lake: Path) -> None:
    dry_run(None, moved_on(None, lake), lake, (2, 1))


def test_files_of_no_version_stay_while_they_are_young(lake: Path) -> None:
    """A hidden file stays however old it is, and a checksum goes with its file."""
    table = lake / "by_customer" / "updates"
    some = next(table.glob("*.parquet"))
    names = ("part-young.parquet", "part-old.parquet", ".hidden.parquet", "_hidden.parquet")
    young, old, *hidden = [Path(shutil.copy(some, table / name)) for name in names]
    checksum = Path(shutil.copy(some, table / f".{old.name}.crc"))
    two_days_ago = time.time() - 2 * 24 * 3600
    for path in (old, *hidden):
        os.utime(path, (two_days_ago, two_days_ago))
    store = Store(None, str(lake), orders())
    assert store.vacuum(keep_versions=3).files == 1
    assert [path.exists() for path in (young, old, checksum)] == [True, False, False]
    assert store.vacuum(keep_versions=3, unfinished_hours=0).files == 1
    assert not young.exists()
    assert all(path.exists() for path in hidden)


def test_a_log_that_does_not_say_all_keeps_every_file(lake: Path) -> None:
    """What someone has removed of a log, or broken, is damage; and nothing goes by what is left."""
    store = Store(None, str(lake), orders())
    store.versions()
    log = lake / "by_customer" / "content" / "_delta_log"
    commit = sorted(log.glob("*.json"))[-1]
    commit.write_text(commit.read_text() + '{"add": {"path"')
    before = {path for path in files(str(lake)) if path.endswith(".parquet")}
    with pytest.raises(CorruptStoreError) as caught:
        store.vacuum(keep_versions=3, unfinished_hours=0)
    assert caught.value.table == "by_customer/content"
    assert {path for path in files(str(lake)) if path.endswith(".parquet")} == before


def test_who_overtakes_whom(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rollback to a version that goes, an update under way, and a vacuum that comes too late."""
    limited(monkeypatch, small_table_rows=0, replaced_percent=900)
    oracle, store, other = (
        built(None, location, 4),
        *(Store(None, location, orders()) for _ in range(2)),
    )
    acts = []

    def once(wanted: str, act: object) -> failpoints.Crash:
        acts[:] = [act]

        def point(when: failpoints.When, name: str, table: str) -> None:
            if (when, name) == ("before", wanted) and acts:
                acts.pop()()

        return point

    def vacuum() -> None:
        other.vacuum(keep_versions=2, unfinished_hours=0)

    def update() -> None:
        number = oracle.head
        assert other.update(frames(None, drawn(number))).number == oracle.update(drawn(number))

    with failpoints.armed(once("publish", vacuum)), pytest.raises(ConflictError):
        store.rollback(1)
    assert_kept(store, oracle, orders(), range(3, 5))
    for moment in ("commit", "publish"):
        with failpoints.armed(once(moment, vacuum)):
            store.update(frames(None, drawn(7)), moment, on_conflict="retry")
        oracle.update(drawn(7), moment)
    assert_kept(store, oracle, orders(), range(4, 7))
    for moment in ("drop versions", "commit"):
        with failpoints.armed(once(moment, update)), pytest.raises(ConflictError):
            store.vacuum(keep_versions=1)
        assert_kept(store, oracle, orders(), range(4, oracle.head + 1))
    store = Store(None, location, orders(), on_conflict="retry")
    with failpoints.armed(once("drop versions", update)):
        store.vacuum(keep_versions=1)
    assert_kept(store, oracle, orders(), range(oracle.head, oracle.head + 1))
    assert store.verify() == ()


def test_update_ids_outlive_their_versions(location: str) -> None:
    oracle, store = Oracle(orders()), Store(None, location, orders())
    for number in range(4):
        store.update(frames(None, drawn(number)), f"id {number}")
        oracle.update(drawn(number), f"id {number}")
    for kept in (2, 1):
        store.vacuum(keep_versions=kept)
    for opened in (store, Store(None, location, orders())):
        assert opened.update_ids() == [f"id {number}" for number in range(4)]
        found = opened.update(frames(None, batch((1, 1, 1))), "id 0")
        assert (found.number, found.update_id, found.stages) == (1, "id 0", {})
        assert_kept(opened, oracle, orders(), range(4, 5))


def test_what_a_removal_leaves_can_be_read_and_removed(lake: Path, tmp_path: Path) -> None:
    """It is cut off before each of its steps in turn, on a copy."""
    table = lake / "by_customer" / "content"
    steps = [one.path for one in steps_of_removal(Directory(ThisMachine(), str(table)))]
    assert {str(path) for path in table.glob("*.parquet")} < {*steps}
    for done in range(len(steps)):
        copy = tmp_path / f"{done}" / "copy"
        shutil.copytree(table, copy)
        for step in steps[:done]:
            gone = copy / Path(step).relative_to(table)
            shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
        assert DeltaTable(copy).version() >= 0
        remove_table(Directory(ThisMachine(), str(copy)))
        assert not copy.parent.exists()
    remove_table(Directory(ThisMachine(), str(tmp_path / "none")))
