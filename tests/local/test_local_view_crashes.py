"""Views that follow changes, through what else happens to a store: crashes, rollbacks, other keys.

The views are groups with states, a join, groups of a join that are filtered, and a view of views.
Three have hidden tables: a limit, subqueries, and groups of groups.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from itertools import count
from pathlib import Path
from random import Random

import pytest
from crashing import CrashAt, CrashError, fail
from local_stores import as_rows, assert_no_orphans_here
from random_views import batch, stages_alone
from selecting import chosen
from test_local_views import same

import deltaproduce as dp
from deltaproduce.storage import failpoints
from deltaproduce.testing import Change, Delete, Oracle, Upsert

VIEWS = {
    "sums": "SELECT a, sum(b) AS s, count(*) AS n, min(b) AS m FROM t GROUP BY a",
    "pairs": "SELECT t.k, t.a, u.n FROM t LEFT JOIN u ON t.a = u.n",
    "many": "SELECT t.b, count(*) AS c FROM t JOIN u ON t.a = u.a GROUP BY t.b HAVING count(*) > 1",
    "total": "SELECT count(*) AS n, sum(s) AS s FROM sums",
    "first": "SELECT k, a, b FROM t ORDER BY b DESC, a LIMIT 3 OFFSET 1",
    "above": "SELECT k FROM t WHERE a >= (SELECT avg(n) FROM u) AND b IN (SELECT a FROM u)",
    "sizes": "SELECT c, count(*) AS n FROM (SELECT a, count(*) AS c FROM t GROUP BY a) v "
    "GROUP BY c HAVING count(*) > 0",
    "lone": "SELECT p.k, p.n FROM pairs p LEFT ANTI JOIN many m ON m.b = p.n",
}
LIMITS = {"rewritten": dp.Limits(), "runs": dp.Limits(small_table_rows=0, replaced_percent=900)}
FIRST: list[dict[str, list[Change]]] = [
    {"t": [Upsert((n,), (n % 3, n % 2, "x")) for n in range(8)]},
    {"u": [Upsert((n,), (n % 4, n % 3)) for n in range(6)]},
    {"t": [Upsert((9,), (1, None, "y")), Delete((2,))], "u": [Delete((0,))]},
]
CHANGE: Mapping[str, list[Change]] = {
    "t": [Upsert((1,), (2, 1, "z")), Delete((4,)), Upsert((12,), (0, 1, ""))],
    "u": [Upsert((3,), (1, 1)), Delete((5,))],
}
OTHER: Mapping[str, list[Change]] = {"t": [Delete((n,)) for n in range(8)]}


def views(**other: str) -> dp.Pipeline:
    pipeline = stages_alone()
    for name, query in {**VIEWS, **other}.items():
        pipeline.sql(name, query, incremental="always")
    return pipeline


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


def test_views_follow_after_rollback_refresh_and_repair(
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
