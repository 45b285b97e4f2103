"""A crash at any effect of an update that moves windows leaves whole versions.

The stages are additive and ordered aggregates, each with a window, and a window that few partitions
may enter at once, so that an update is several versions. `test_local_crashes` has the other
operations.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from crashing import CrashAt, CrashError, fail
from local_stores import as_rows, assert_no_orphans_here, assert_same_here
from selecting import chosen

import deltaproduce as dp
from deltaproduce import agg
from deltaproduce.storage import failpoints
from deltaproduce.testing import Change, Delete, Oracle, Upsert

LIMITS = {"rewritten": dp.Limits(), "runs": dp.Limits(small_table_rows=0, replaced_percent=900)}


def site() -> dp.Pipeline:
    pipeline = dp.Pipeline("site")
    events = pipeline.source("events", key="day date, id bigint", value="member bigint, n bigint")
    values = {"rows": agg.count(), "n": agg.sum("n % 1000")}
    by_day = pipeline.aggregate("by_day", events, key="day, member", values=values)
    some = {"rows": agg.merge("rows"), "most": agg.max("n")}
    last = dp.window("day", last=3)
    pipeline.aggregate("last_days", by_day, key="member", values=some, window=last)
    slow = dp.window("day", start="2013-03-01", max_partitions=1)
    ordered = {**values, "most": agg.max("n")}
    since = pipeline.aggregate("since", events, key="member", values=ordered, window=slow)

    @pipeline.producer(since, key="rows bigint", value="member bigint")
    def by_rows(member: int, values: Iterator[Any]) -> Iterator[Any]:
        for value in values:
            yield value.rows, member

    return pipeline


def day(number: int, *members: int) -> list[Change]:
    at = date(2013, 3, number)
    return [Upsert((at, n), (member, 10 * number + n)) for n, member in enumerate(members)]


FIRST: list[list[Change]] = [day(1, 1, 2, 2) + day(2, 1, 3), day(3, 2, 2, 4), day(4, 1, 4)]
OTHER = {"events": [*day(3, 9), Delete((date(2013, 3, 4), 0))]}
"""What comes next, where it is something else: a late row, and one that is gone."""
OPERATIONS: dict[str, tuple[Mapping[str, list[Change]], dict[str, Any]]] = {
    "an update": ({"events": [*day(2, 7, 3), Delete((date(2013, 3, 3), 1))]}, {}),
    "a move": ({}, {"as_of": "2013-03-02"}),
    "several versions": ({"events": day(5, 1) + day(6, 2, 2) + day(7, 5)}, {}),
}


@pytest.fixture(scope="module", params=chosen(LIMITS, "runs"))
def built(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Oracle, dp.Limits]:
    """A store to copy, and its oracle."""
    place, oracle = tmp_path_factory.mktemp("built") / "store", Oracle(site())
    limits = LIMITS[request.param]
    with dp.Store(None, str(place), site(), limits=limits) as store:
        for changes in FIRST:
            store.update(as_rows(site(), {"events": changes}))
            assert oracle.update({"events": changes}) == store.head.number
    return place, oracle, limits


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_crash_before_any_effect(
    built: tuple[Path, Oracle, dp.Limits],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    long_run: bool,
) -> None:
    """Before each effect, and behind each version; then the same is done, or something else.

    In a short run before every third: one after the other they are of each sort of table.
    """
    monkeypatch.setattr("deltaproduce.operations.publisher._WRITERS", 1)
    origin, before, limits = built
    (batch, told), pipeline = OPERATIONS[name], site()

    def update(store: dp.Store) -> dp.Version:
        return store.update(as_rows(pipeline, batch), name, **told)

    for crashes in count():
        point = crashes if long_run else 3 * crashes
        location, oracle = str(tmp_path / f"{point}"), deepcopy(before)
        shutil.copytree(origin, location)
        crashed = True
        with (
            dp.Store(None, location, pipeline, limits=limits) as store,
            failpoints.armed(CrashAt(point, fail)),
            suppress(CrashError),
        ):
            update(store)
            crashed = False
        assert oracle.update(batch, name, **told) > before.head
        with dp.Store(None, location, pipeline, limits=limits) as store:
            reached = store.head.number
            if crashes % 2:
                assert update(store).number == oracle.head
            else:  # those versions that were published stay
                oracle = upto(oracle, reached)
                number = oracle.update(OTHER)
                assert store.update(as_rows(pipeline, OTHER)).number == number
            assert_same_here(store, oracle, pipeline, range(before.head, oracle.head + 1))
            if crashes == 1:
                assert_same_here(store, oracle, pipeline, range(before.head))
                assert store.verify() == ()
                for _ in range(2):
                    store.vacuum(keep_versions=1, unfinished_hours=0)
                assert_no_orphans_here(store)
        if not crashed or reached > before.head:
            break
    assert point >= len(pipeline.stages)


def upto(oracle: Oracle, version: int) -> Oracle:
    """The oracle, of which later versions were not published."""
    found = deepcopy(oracle)
    del found._versions[version + 1 :]
    return found
