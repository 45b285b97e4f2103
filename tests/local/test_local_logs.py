"""A vacuum shortens the logs of the tables, and all that reads them goes on with what is left."""

import json
import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from crashing import CrashError, built, drawn, frames, orders, run_ahead, update, updated
from damaging import append, drop, log_without, remove_files
from deltalake import DeltaTable, QueryBuilder
from hazards import moved_on, tree
from local_stores import WAYS, assert_no_orphans_here, assert_same_here
from selecting import chosen
from test_local_selects import assert_read

from deltaproduce import CommitUnknownError, CorruptStoreError, Store
from deltaproduce.engines.delta.tables import KEPT
from deltaproduce.engines.file_systems.this_machine import ThisMachine
from deltaproduce.storage import failpoints
from deltaproduce.testing import Oracle

INTERVAL = 3
Needed = dict[str, set[int]]
"""Tables of a store -> the delta versions that are needed of them."""


def often(patch: pytest.MonkeyPatch) -> None:
    """New tables get a checkpoint every few commits."""
    patch.setitem(KEPT, "delta.checkpointInterval", str(INTERVAL))


@pytest.fixture(autouse=True)
def checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    often(monkeypatch)


def numbers(table: Path) -> list[int]:
    """The delta versions that the names of files in a log begin with."""
    names = (path.name for path in (table / "_delta_log").iterdir())
    return sorted(int(name[:20]) for name in names if name[0].isdigit())


def commits(table: Path) -> list[int]:
    return sorted(int(path.stem) for path in (table / "_delta_log").glob("*.json"))


def needed(store: Store, kept: int) -> Needed:
    """What the newest versions are read from, and the version log as it is."""
    location = store._opened.tables.location
    found: Needed = {"_versions": {max(commits(Path(location.address, "_versions")))}}
    for version in store.versions()[-kept:]:
        for stage, figures in version.stages.items():
            for kind, pinned in figures.delta_versions.items():
                found.setdefault(location.table(stage, kind).name, set()).add(pinned)
    return found


def assert_short(store: Store, before: Needed) -> None:
    """No log has files that only older delta versions than the needed ones need.

    Needed are those that kept versions are read from, or were, and those since the oldest of them.
    """
    first = store.versions()[0]
    assert first.committed_at is not None
    after = needed(store, len(store.versions()))
    for name in before.keys() | after.keys():
        table = Path(store._opened.tables.location.address, name)
        log, began = commits(table), first.committed_at.timestamp() * 1e9
        files = {number: table / "_delta_log" / f"{number:020}.json" for number in log}
        young = [number for number in log if files[number].stat().st_mtime_ns >= began]
        oldest = min([*before.get(name, ()), *after.get(name, ()), *young])
        assert numbers(table)[0] == log[0] <= oldest
        assert oldest - log[0] <= INTERVAL + 1, f"{name} has {log}, and needs {oldest}"


def assert_read_by_others(store: Store) -> None:
    """Delta-rs and Polars find the files of each delta version that a version is read from."""
    root = Path(store._opened.tables.location.address)
    for name, pinned in needed(store, len(store.versions())).items():
        for number in pinned:
            opened = QueryBuilder().register("found", DeltaTable(root / name, number))
            rows = pa.table(opened.execute("SELECT * FROM found"))
            if name != "_versions":  # Polars has no maps
                assert pl.read_delta(str(root / name), version=number).height == len(rows)


def done_at_random(store: Store, oracle: Oracle, draw: random.Random) -> None:
    """An update, as mostly, or a rollback to a version that is there, or a compaction."""
    what, numbers = draw.random(), [version.number for version in store.versions()]
    if numbers and what < 0.2:
        number = draw.choice(numbers)
        store.rollback(number)
        oracle.rollback(number)
    elif numbers and what < 0.3:
        store.compact()
    else:
        number = draw.randrange(1_000)
        store.update(frames(None, drawn(number)))
        oracle.update(drawn(number))
    assert store.head.number == oracle.head


@pytest.mark.parametrize("way", chosen(WAYS, "runs, often folded"))
def test_logs_stay_short_and_every_version_is_the_same(
    location: str, way: str, long_run: bool
) -> None:
    """Whatever is done between some vacuums; by a store, DuckDB, Polars and delta-rs."""
    draw, oracle, begins = random.Random(way), Oracle(orders()), set()
    with Store(None, location, orders(), limits=WAYS[way]) as store:
        for _ in range(10 if long_run else 3):
            for _ in range(draw.randint(4, 6)):
                done_at_random(store, oracle, draw)
            store.wait()
            count = draw.randint(1, 3)
            before = needed(store, count)
            store.vacuum(keep_versions=count, unfinished_hours=0)
            kept = [version.number for version in store.versions()]
            assert kept == [*range(oracle.head + 1 - count, oracle.head + 1)]
            assert_short(store, before)
            opened = Store(None, location, orders(), limits=WAYS[way])
            assert_same_here(opened, oracle, orders(), kept)
            assert_read(opened, oracle, orders(), kept)
            assert_read_by_others(opened)
            begins = {name for name in before if commits(Path(location, name))[0] > 0}
        assert store.verify() == ()
    assert begins >= {"_versions", "orders/updates", "by_customer/updates"}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Oracle]:
    """A store of nine versions."""
    place = tmp_path_factory.mktemp("original")
    with pytest.MonkeyPatch.context() as patch:
        often(patch)
        return place, built(None, str(place), 9)


@pytest.fixture
def lake(original: tuple[Path, Oracle], tmp_path: Path) -> Path:
    return Path(shutil.copytree(original[0], tmp_path / "lake"))


@pytest.fixture
def oracle(original: tuple[Path, Oracle]) -> Oracle:
    """That of the store; each test has its own."""
    del original
    found = Oracle(orders())
    for number in range(9):
        found.update(drawn(number))
    return found


@pytest.fixture
def trimmed(lake: Path) -> Path:
    """The store, with two versions and short logs."""
    Store(None, str(lake), orders()).vacuum(keep_versions=2, unfinished_hours=0)
    assert all(commits(lake / name)[0] > 0 for name in ("_versions", "by_customer/content"))
    return lake


class Removals:
    """Counts the files of logs that are removed; called before each."""

    def __init__(self, patch: pytest.MonkeyPatch, before: Callable[[int, str], None]) -> None:
        self.paths: list[str] = []
        remove = ThisMachine.remove_file

        def removed(system: ThisMachine, path: str) -> None:
            if "/_delta_log/" in path:
                before(len(self.paths), path)
                self.paths.append(path)
            remove(system, path)

        patch.setattr(ThisMachine, "remove_file", removed)


def test_the_store_is_the_same_before_each_removal(
    lake: Path, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a store that is opened meanwhile."""

    def read(number: int, path: str) -> None:
        opened = Store(None, str(lake), orders())
        assert_same_here(opened, oracle, orders(), [8 + number % 2])
        table = Path(path).parent.parent
        for pinned in needed(opened, 2)[str(table.relative_to(lake))]:
            assert DeltaTable(table, pinned).version() == pinned

    removals = Removals(monkeypatch, read)
    done = Store(None, str(lake), orders()).vacuum(keep_versions=2, unfinished_hours=0)
    assert 20 < len(removals.paths) < done.files
    assert_same_here(Store(None, str(lake), orders()), oracle, orders(), [8, 9])


@pytest.mark.parametrize("stop", [0, 3, 11, 17])
def test_a_vacuum_that_stops_in_a_log_is_done_by_the_next(
    lake: Path, oracle: Oracle, stop: int
) -> None:
    def crash(number: int, _: str) -> None:
        if number == stop:
            raise CrashError

    store = Store(None, str(lake), orders())
    with pytest.MonkeyPatch.context() as patch:
        Removals(patch, crash)
        with pytest.raises(CrashError):
            store.vacuum(keep_versions=2, unfinished_hours=0)
    store = Store(None, str(lake), orders())
    assert_same_here(store, oracle, orders(), [8, 9])
    assert store.verify() == ()
    if stop % 2:
        store.update(frames(None, drawn(9)))
        oracle.update(drawn(9))
    for _ in range(2):  # what somebody may have begun to read is left by the first
        before = needed(store, 1)
        store.vacuum(keep_versions=1, unfinished_hours=0)
    assert_short(store, before)
    assert_same_here(store, oracle, orders(), [oracle.head])
    assert_no_orphans_here(store)


def test_a_dry_run_lists_what_goes_of_the_logs(lake: Path) -> None:
    before = tree(lake)
    store = Store(None, str(lake), orders())
    seen = store.vacuum(keep_versions=2, unfinished_hours=0, dry_run=True)
    assert tree(lake) == before
    paths = [Path(path.removeprefix("file:")) for path in seen.paths]
    assert sum(path.stat().st_size for path in paths) == seen.bytes
    logs = [path for path in paths if path.parent.name == "_delta_log"]
    assert 20 < len(logs) < len(paths) == seen.files
    done = store.vacuum(keep_versions=2, unfinished_hours=0)
    assert done.files >= seen.files
    assert not any(path.exists() for path in paths)


def test_what_is_young_stays(lake: Path, oracle: Oracle) -> None:
    """As of data, for a day; and whatever came since the oldest version that is kept."""
    store = Store(None, str(lake), orders())
    store.vacuum(keep_versions=2)
    tables = [lake / name for name in needed(store, 2)]
    assert {commits(table)[0] for table in tables} == {0}
    two_days_ago = time.time() - 2 * 24 * 3600
    for table in tables:
        for path in (table / "_delta_log").iterdir():
            os.utime(path, (two_days_ago, two_days_ago))
    store.vacuum(keep_versions=2)
    assert all(commits(table)[0] > 0 for table in tables if table.name == "content")
    assert_same_here(Store(None, str(lake), orders()), oracle, orders(), [8, 9])


def a_directory(log: Path) -> None:
    (log / "_sidecars").mkdir()


def another_checkpoint(log: Path) -> None:
    (log / f"{1:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet").touch()


def a_link(log: Path) -> None:
    (log / f"{1:020}.json").rename(log.parent.parent / "moved.json")
    (log / f"{1:020}.json").symlink_to(log.parent.parent / "moved.json")


def of_another_version(log: Path) -> None:
    old, new = (log / f"{number:020}.checkpoint.parquet" for number in (2, 5))
    shutil.copy(old, new)


def a_broken_checkpoint(log: Path) -> None:
    path = log / f"{5:020}.checkpoint.parquet"
    path.write_bytes(path.read_bytes()[:100])


@pytest.mark.parametrize(
    "odd", [a_directory, another_checkpoint, a_link, of_another_version, a_broken_checkpoint]
)
def test_a_log_that_is_not_understood_stays(
    lake: Path, odd: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    """And the others get shorter; with a warning if the files contradict each other."""
    log = lake / "by_customer" / "content" / "_delta_log"
    assert [p.name[:20] for p in sorted(log.glob("*.checkpoint.parquet"))] == [
        f"{number:020}" for number in (2, 5, 8)
    ]
    odd(log)
    before = tree(log)
    Store(None, str(lake), orders()).vacuum(keep_versions=2, unfinished_hours=0)
    assert tree(log) == before
    assert commits(lake / "by_customer" / "key_mappings")[0] > 0
    is_wrong = odd in (of_another_version, a_broken_checkpoint)
    assert [r.levelname for r in caplog.records if "storage" in r.name] == ["WARNING"] * is_wrong


def test_readers_begin_where_the_log_says(lake: Path) -> None:
    """A log that tells them to begin with an old checkpoint keeps that."""
    log = lake / "by_customer" / "content" / "_delta_log"
    told = json.loads((log / "_last_checkpoint").read_text())
    (log / "_last_checkpoint").write_text(json.dumps({**told, "version": 2}))
    Store(None, str(lake), orders()).vacuum(keep_versions=2, unfinished_hours=0)
    assert numbers(lake / "by_customer" / "content")[0] == 2


def test_stores_go_on_after_failures_and_damage(trimmed: Path, oracle: Oracle) -> None:
    """An attempt that stopped is carried on, damage is repaired, and what is left over goes."""
    location = str(trimmed)
    run_ahead(None, location)
    update(Store(None, location, orders()), None, 50)
    updated(oracle, 50)
    assert_same_here(Store(None, location, orders()), oracle, orders(), [8, 9, 10])
    store = Store(None, location, orders())
    store.rollback(8)
    oracle.rollback(8)
    store.compact()
    assert_same_here(Store(None, location, orders()), oracle, orders(), [8, 9, 10, 11])
    append(trimmed / "orders/content")
    remove_files(trimmed / "by_customer/content")
    drop(trimmed / "by_customer/key_mappings")
    store = Store(None, location, orders())
    assert store.verify()
    store.repair()
    oracle.update({}, "repair")
    log_without(oracle.head, location)
    with pytest.raises(CorruptStoreError):
        Store(None, location, orders()).versions()
    assert Store(None, location, orders()).repair().number == oracle.head
    left = trimmed / "by_customer/content/part-left.parquet"
    left.write_bytes(b"of no commit")
    store = Store(None, location, orders())
    for _ in range(2):
        store.vacuum(keep_versions=1, unfinished_hours=0)
    assert not left.exists()
    assert_no_orphans_here(store)
    assert_same_here(Store(None, location, orders()), oracle, orders(), [oracle.head])


def test_who_was_away_for_longer_than_the_log_reaches_back(location: str) -> None:
    """A reader reads all versions again, and a writer does not know whether it has published."""
    oracle, reader = built(None, location), Store(None, location, orders())
    assert len(reader.versions()) == oracle.head
    store, other = (Store(None, location, orders()) for _ in range(2))
    met = []

    def meanwhile(when: failpoints.When, name: str, table: str) -> None:
        if (when, name) == ("after", "publish") and not met:
            met.append(table)
            oracle.update(drawn(3))
            for number in range(4, 10):
                other.update(frames(None, drawn(number)))
                oracle.update(drawn(number))
            other.vacuum(keep_versions=1, unfinished_hours=0)

    with failpoints.armed(meanwhile), pytest.raises(CommitUnknownError):
        store.update(frames(None, drawn(3)))
    for opened in (reader, store, other):
        assert [version.number for version in opened.versions()] == [oracle.head]
        assert_same_here(opened, oracle, orders(), [oracle.head])
    store.update(frames(None, drawn(10)))
    oracle.update(drawn(10))
    assert_same_here(reader, oracle, orders(), [oracle.head - 1, oracle.head])


def test_tables_with_short_logs_go_with_their_stage(trimmed: Path) -> None:
    done = moved_on(None, trimmed).vacuum(keep_versions=1, unfinished_hours=0)
    assert {name.partition("/")[0] for name in done.tables} == {"by_customer"}
    assert not (trimmed / "by_customer").exists()


def test_a_store_with_a_short_log_is_seen_in_a_folder(trimmed: Path, tmp_path: Path) -> None:
    """So the folder stays, although it has tables of a stage that is gone."""
    inner = Path(shutil.copytree(trimmed, tmp_path / "inner"))
    store = moved_on(None, trimmed)
    shutil.copytree(inner, trimmed / "by_customer", dirs_exist_ok=True)
    before = tree(trimmed / "by_customer")
    store.vacuum(keep_versions=1, unfinished_hours=0)
    assert tree(trimmed / "by_customer") == before
