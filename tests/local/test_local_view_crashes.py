"""Views that follow changes, through what else happens to a store: crashes, rollbacks, other keys.

`view_stores` has the views.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from itertools import count
from pathlib import Path
from random import Random

import pytest
from crashing import CrashAt, CrashError, fail
from damaging import remove_files
from local_stores import as_rows, assert_no_orphans_here
from random_views import batch
from selecting import chosen
from test_local_views import same
from view_stores import CHANGE, FIRST, OTHER, VIEWS, views

import deltaproduce as dp
from deltaproduce.storage import failpoints
from deltaproduce.testing import Oracle, Upsert

LIMITS = {"rewritten": dp.Limits(), "runs": dp.Limits(small_table_rows=0, replaced_percent=900)}


@pytest.fixture(scope="module", params=chosen(LIMITS, "runs"))
def built(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Oracle, dp.Limits]:
    """A store to copy, and its oracle."""
    place, oracle = tmp_path_factory.mktemp("built") / "store", Oracle(views())
    limits = LIMITS[request.param]
    with dp.Store(None, str(place), views(), limits=limits) as store:
        for changes in FIRST:
            store.update(as_rows(views(), changes))
            assert oracle.update(changes) == store.head.number
    return place, oracle, limits


def test_a_crash_before_any_effect_leaves_a_whole_version(
    built: tuple[Path, Oracle, dp.Limits],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    long_run: bool,
) -> None:
    """Then the update goes on under its id, or another one comes; before each eleventh in short."""
    monkeypatch.setattr("deltaproduce.operations.publisher._WRITERS", 1)
    origin, before, limits = built
    for crashes in count():
        point = crashes if long_run else 11 * crashes
        location, oracle, crashed = str(tmp_path / f"{point}"), deepcopy(before), True
        shutil.copytree(origin, location)
        with (
            dp.Store(None, location, views(), limits=limits) as store,
            failpoints.armed(CrashAt(point, fail)),
            suppress(CrashError),
        ):
            store.update(as_rows(views(), CHANGE), "an id")
            crashed = False
        with dp.Store(None, location, views(), limits=limits) as store:
            was_published = store.head.number > before.head
            same_id = bool(crashes % 2) or was_published
            if same_id:
                assert oracle.update(CHANGE, "an id") == before.head + 1
                assert store.update(as_rows(views(), CHANGE), "an id").number == oracle.head
            changes = CHANGE if not same_id else OTHER
            assert store.update(as_rows(views(), changes)).number == oracle.update(changes)
            same(store, oracle, list(VIEWS))
            if crashes == 1:
                assert not store.verify(recompute=True)
                for _ in range(2):
                    store.vacuum(keep_versions=1, unfinished_hours=0)
                assert_no_orphans_here(store)
        if not crashed or was_published:
            break
    assert point >= len(VIEWS)


def nothing(oracle: Oracle) -> None:
    del oracle


SNAPSHOT = {"t": [Upsert((n,), (n % 2, n, "x")) for n in range(5)], "u": [Upsert((1,), (2, 1))]}
HIDDEN = "_ordered_1_first"
OPERATIONS: Mapping[str, tuple[Callable[[dp.Store], object], Callable[[Oracle], object]]] = {
    "rollback": (lambda store: store.rollback(2), lambda oracle: oracle.rollback(2)),
    "load": (
        lambda store: store.load(as_rows(views(), SNAPSHOT, is_snapshot=True)),
        lambda oracle: oracle.load(SNAPSHOT),
    ),
    "repair": (lambda store: store.repair(), lambda oracle: oracle.update({}, "repair")),
    "compaction": (lambda store: store.compact(), nothing),
    "vacuum": (
        lambda store: [store.vacuum(keep_versions=1, unfinished_hours=0) for _ in range(2)],
        nothing,
    ),
}
"""What else writes, and what it is for the oracle."""


@pytest.mark.parametrize("name", chosen(OPERATIONS, "rollback", "repair"))
def test_a_crash_of_what_else_writes(
    built: tuple[Path, Oracle, dp.Limits],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    long_run: bool,
) -> None:
    """Then it is done again, or an update comes; in short before each seventeenth effect.

    Before a repair a hidden table has lost its files.
    """
    monkeypatch.setattr("deltaproduce.operations.publisher._WRITERS", 1)
    origin, before, limits = built
    run, expected = OPERATIONS[name]
    for crashes in count():
        location, oracle, crashed = str(tmp_path / f"{crashes}"), deepcopy(before), True
        shutil.copytree(origin, location)
        if name == "repair":
            remove_files(Path(location, HIDDEN, "content"))
        point = crashes if long_run else 17 * crashes
        with (
            dp.Store(None, location, views(), limits=limits) as store,
            failpoints.armed(CrashAt(point, fail)),
            suppress(CrashError),
        ):
            run(store)
            crashed = False
        with dp.Store(None, location, views(), limits=limits) as store:
            was_published = store.head.number > before.head
            if was_published or crashes % 2 or name == "repair":
                expected(oracle)
            if not was_published and (crashes % 2 or name == "repair"):
                run(store)
            assert store.head.number == oracle.head
            assert store.update(as_rows(views(), CHANGE)).number == oracle.update(CHANGE)
            same(store, oracle, list(VIEWS))
            assert not store.verify(recompute=crashes == 1)
        if not crashed or was_published:
            break
    assert crashes


def test_an_unfinished_update_goes_on_with_another_query(
    built: tuple[Path, Oracle, dp.Limits],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    long_run: bool,
) -> None:
    """What a crash left of a view is not that of its new query, nor are its hidden tables."""
    monkeypatch.setattr("deltaproduce.operations.publisher._WRITERS", 1)
    origin, before, limits = built
    other = views(
        sums="SELECT a, sum(b) AS s, max(b) AS n, avg(k) AS m FROM t GROUP BY a",
        first="SELECT k, a, b FROM t ORDER BY a DESC, b LIMIT 2",
    )
    for crashes in count():
        point = 3 * crashes if long_run else 9 * crashes + 2
        location, oracle = str(tmp_path / f"{point}"), deepcopy(before)
        shutil.copytree(origin, location)
        with (
            dp.Store(None, location, views(), limits=limits) as store,
            failpoints.armed(CrashAt(point, fail)),
            suppress(CrashError),
        ):
            store.update(as_rows(views(), CHANGE), "an id")
        oracle._graph = other.graph()
        with dp.Store(None, location, other, limits=limits) as store:
            if store.head.number > before.head:
                break
            assert store.update(as_rows(other, CHANGE), "an id").number == before.head + 1
            oracle.update(CHANGE, "an id")
            same(store, oracle, list(VIEWS))
            assert not store.verify(recompute=crashes == 1)
    assert crashes > 1


@pytest.mark.parametrize("damaged", ["sums", HIDDEN])
def test_lost_files_are_found_and_made_again(
    built: tuple[Path, Oracle, dp.Limits], tmp_path: Path, damaged: str
) -> None:
    """Those of a view's states, and of a hidden table."""
    origin, before, limits = built
    location, oracle = str(tmp_path / "store"), deepcopy(before)
    shutil.copytree(origin, location)
    remove_files(Path(location, damaged, "content"))
    with dp.Store(None, location, views(), limits=limits) as store:
        assert damaged in {one.stage for one in store.verify(recompute=True)}
        store.repair()
        assert not store.verify(recompute=True)
        oracle.update({}, "repair")
        assert store.update(as_rows(views(), CHANGE)).number == oracle.update(CHANGE)
        same(store, oracle, list(VIEWS))


def test_views_follow_after_a_rollback_and_a_refresh(
    built: tuple[Path, Oracle, dp.Limits], tmp_path: Path
) -> None:
    origin, before, limits = built
    location, oracle = str(tmp_path / "store"), deepcopy(before)
    shutil.copytree(origin, location)
    with dp.Store(None, location, views(), limits=limits) as store:
        store.rollback(2)
        assert oracle.rollback(2) == store.head.number
        assert store.update(as_rows(views(), CHANGE)).number == oracle.update(CHANGE)
        same(store, oracle, list(VIEWS))
        modes = store.update(as_rows(views(), OTHER)).stages
        oracle.update(OTHER)
        same(store, oracle, list(VIEWS))
        assert "full" not in {one.mode for one in modes.values()}
        assert all(one.changed_keys == 0 for one in store.refresh().stages.values())


def test_a_redefined_view_is_made_again_and_follows(
    built: tuple[Path, Oracle, dp.Limits], tmp_path: Path
) -> None:
    """With other functions, other states, and then without any."""
    origin, _, limits = built
    location = str(tmp_path / "store")
    shutil.copytree(origin, location)
    for query in (
        "SELECT a, sum(b) AS s, max(b) AS n, avg(k) AS m FROM t GROUP BY a",
        "SELECT a, sum(b) AS s, count(DISTINCT b) AS n, max(k) AS m FROM t GROUP BY a",
        VIEWS["sums"],
    ):
        pipeline = views(sums=query)
        with dp.Store(None, location, pipeline, limits=limits) as store:
            store.update(as_rows(pipeline, CHANGE))
            store.update(as_rows(pipeline, OTHER))
            assert not store.verify(recompute=True)
            changed = {"t": [Upsert((n,), (n % 2, n, "x")) for n in range(4)]}
            assert store.update(as_rows(pipeline, changed)).stages["sums"].mode != "full"
            assert not store.verify(recompute=True)


@pytest.mark.parametrize("seed", range(2))
def test_an_update_is_a_refresh_bit_for_bit(tmp_path: Path, seed: int, long_run: bool) -> None:
    """States too; and the feed of all versions, folded, is the content."""
    random, pipeline = Random(seed), views()
    with dp.Store(None, str(tmp_path / "store"), pipeline) as store:
        for _ in range(30 if long_run else 6):
            store.update(as_rows(pipeline, batch(random)))
        kept = {name: rows(store, name) for name in VIEWS}
        refreshed = store.refresh()
        assert all(one.changed_keys == 0 for one in refreshed.stages.values())
        assert all(one.rows_added == one.rows_removed == 0 for one in refreshed.stages.values())
        assert kept == {name: rows(store, name) for name in VIEWS}


def rows(store: dp.Store, name: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = store.content(name, ordered=True).to_pylist()
    return found
