"""Sources that keep some partitions: after every version all rows are the oracle's."""

from __future__ import annotations

import os
import random
import shutil
from contextlib import suppress
from datetime import date
from itertools import count, product
from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet as pq
import pytest
from crashing import CrashAt, CrashError, fail
from local_stores import as_rows, assert_same_here
from selecting import some
from test_local_windows import FIRST, FOLDED, RUNS, history

import deltaproduce as dp
from deltaproduce import agg
from deltaproduce.stages.aggregates import kind
from deltaproduce.stages.aggregates.windowed import Way
from deltaproduce.storage import failpoints
from deltaproduce.testing import Oracle, Upsert

SEEDS = int(os.environ.get("DELTAPRODUCE_SEEDS", "1"))
VERSIONS, FEW = 5, 4
WAYS: dict[str, tuple[dp.Limits, bool | None]] = {
    "small": (dp.Limits(), None),
    "runs, moved": (RUNS, True),
    "runs, often folded, anew": (FOLDED, False),
}
"""Limits, and whether windows are always moved, or always made anew."""
SHORT = [("forget", "runs, moved"), ("delete", "runs, often folded, anew")]
"""Those of a short run."""
VALUES = {"rows": agg.count(), "total": agg.sum("n"), "least": agg.min("n"), "mode": agg.mode("n")}


class Greatest:
    """The greatest number, which does not say what it was before."""

    state = type = "bigint"

    def zero(self) -> int | None:
        return None

    def add(self, state: int | None, n: int | None) -> int | None:
        return state if n is None else self.merge(state, n)

    def merge(self, a: int | None, b: int | None) -> int | None:
        return max((one for one in (a, b) if one is not None), default=None)

    def result(self, state: int | None) -> int | None:
        return state


SKETCHES = {
    "different": agg.approx_count_distinct("n"),
    "middle": agg.approx_percentile("n", 0.5),
    "frequent": agg.approx_top_k("n", 2),
    "own": agg.own(Greatest(), "n"),
    "least": agg.min_by("id", "n"),
}
"""What makes a key again from its rows if it loses one, and an ordered function."""


def kept(expire: Literal["delete", "forget"], chosen: tuple[str, ...] = ()) -> dp.Pipeline:
    """Sources that keep rows by columns of each type, and what is made of them.

    Args:
        chosen: those of the sources that are wanted beside `days`; all if there are none.
    """
    pipeline = dp.Pipeline("kept")

    def source(name: str, key: str, value: str, retain: dp.Window | None) -> dp.Source:
        if retain is None:
            return pipeline.source(name, key=key, value=value)
        return pipeline.source(name, key=key, value=value, retain=retain, expire=expire)

    def of(name: str, feeder: Any, window: dp.Window | None = None, key: str = "m") -> None:
        pipeline.aggregate(name, feeder, key=key, values=VALUES, window=window)

    mn = "m bigint, n int"
    days = source("days", "day date, id bigint", mn, dp.window("Day", last=3))
    of("of_days", days)
    of("last_days", days, dp.window("day", last=2))
    of("by_day", days, key="day, m")
    pipeline.aggregate(
        "of_partials", "by_day", key="m", values={"n": agg.sum("rows")},
        window=dp.window("day", last=9),
    )  # fmt: skip

    sketched = pipeline.aggregate("sketched", days, key="m, day AS at", values=SKETCHES)
    of_each = {name: agg.merge(name) for name in SKETCHES}
    pipeline.aggregate("of_sketches", sketched, key="m", values=of_each)

    merged = source("merged", "day date, id bigint", mn, None)
    of("of_two", dp.merge(days, merged))
    _functions(pipeline, days, merged, with_join=expire == "delete")
    late, times, bare, seqs = (
        (
            "late",
            "Id bigint, at_day date",
            "member bigint, k int",
            dp.window("at_day", start=FIRST),
        ),
        ("times", "id bigint, at timestamp desc", mn, dp.window("at", last=2, step="week")),
        ("bare", "at timestamp_ntz, id bigint", mn, dp.window("at", last=4, lag=1)),
        ("seqs", "id bigint, seq smallint", mn, dp.window("seq", last=2, step=10)),
    )
    windows = {
        "times": dp.window("at", last=8),
        "bare": dp.window("at", last=3, lag=2),
        "seqs": dp.window("seq", last=11),
    }
    for name, key, value, retain in (late, times, bare, seqs):
        if chosen and name not in chosen:
            continue
        found = source(name, key, value, retain)
        if name == "late":
            pipeline.aggregate("of_late", found, key="member", values={"n": agg.max("k")})
            continue
        of(f"of_{name}", found)
        of(f"last_{name}", found, windows[name])
    return pipeline


def _functions(
    pipeline: dp.Pipeline, days: dp.Source, merged: dp.Source, *, with_join: bool
) -> None:
    """Stages of functions by source key, over days."""

    @pipeline.producer(days, key="m bigint", value="no bigint, n int", surrogate="no")
    def by_member(key: Any, values: Any) -> Any:
        for value in values:
            yield value.m, (None, value.n)

    @pipeline.producer(by_member, key="no bigint", value="rows bigint")
    def numbers(m: Any, values: Any) -> Any:
        found = list(values)
        yield found[0].no, len(found)

    @pipeline.producer(days, key="m bigint", value="n int", preserve=lambda v, e: e if e else v)
    def first_seen(key: Any, values: Any) -> Any:
        for value in values:
            yield value.m, value.n

    if with_join:

        @pipeline.producer(days, merged, key="id bigint", value="n bigint")
        def joined(key: Any, ours: Any, theirs: Any) -> Any:
            yield key.id, sum(1 for _ in ours) - sum(1 for _ in theirs)


@pytest.fixture
def limits(way: str, monkeypatch: pytest.MonkeyPatch) -> dp.Limits:
    limits, reused = WAYS[way]
    if reused is not None:
        monkeypatch.setattr(kind, "way", lambda *_: Way(reused, "so it is tested"))
    return limits


@pytest.mark.parametrize(
    ("expire", "way"),
    some(
        product(["delete", "forget"], WAYS),
        lambda expire, way: (expire, way) in SHORT,
        longer="DELTAPRODUCE_SEEDS" in os.environ,
    ),
)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_versions_equal_the_oracle(
    location: str,
    seed: int,
    expire: Literal["delete", "forget"],
    limits: dp.Limits,
    long_run: bool,
) -> None:
    """Loads and rollbacks too: rows that left are deleted, or what was made of them stays."""
    pipeline = kept(expire)
    oracle, chance = Oracle(pipeline), random.Random(seed)
    with dp.Store(None, location, pipeline, limits=limits) as store:
        for batch, told in history(seed, VERSIONS if long_run else FEW):
            is_load = chance.random() < 0.15
            if is_load:
                batch = {
                    name: [one for one in changes if isinstance(one, Upsert)]
                    for name, changes in batch.items()
                }
            rows = as_rows(pipeline, batch, is_snapshot=is_load)
            version = (store.load if is_load else store.update)(rows, **told)
            number = (oracle.load if is_load else oracle.update)(batch, **told)  # type: ignore[arg-type]
            assert version.number == number
            if chance.random() < 0.1 and number > 2:
                back = chance.randrange(1, number)
                assert store.rollback(back).number == oracle.rollback(back)
        assert_same_here(store, oracle, pipeline, range(store.head.number + 1))
        assert store.verify(recompute=True) == ()
        figures = [found for version in store.versions() for found in version.stages.values()]
        assert sum(found.rows_expired for found in figures)
        assert sum(found.rows_not_taken for found in figures)


def rows_of(day: int, members: list[int]) -> list[dict[str, Any]]:
    """The events of a day of March 2013."""
    at = date(2013, 3, day)
    return [{"day": at, "id": n, "m": member} for n, member in enumerate(members)]


def events(expire: Literal["delete", "forget"], retain: dp.Window | None = None) -> dp.Pipeline:
    """Events of two days, and what members did in all days."""
    pipeline = dp.Pipeline("events")
    retain = retain or dp.window("day", last=2)
    pipeline.source(
        "events", key="day date, id bigint", value="m bigint", retain=retain, expire=expire
    )
    values = {"n": agg.count(), "least": agg.min("id")}
    pipeline.aggregate("views", "events", key="m", values=values)

    @pipeline.producer("events", key="m bigint", value="id bigint")
    def ids(key: Any, values: Any) -> Any:
        for m in values:
            yield m, key.id

    return pipeline


def plain(store: dp.Store, stage: str = "events") -> list[tuple[Any, ...]]:
    """The rows of a stage, without their numbers, and days as those of the month."""
    rows = store.content(stage, ordered=True).drop_columns(["_ordinal"]).to_pylist()
    return [tuple(v.day if isinstance(v, date) else v for v in row.values()) for row in rows]


def told(store: dp.Store, stage: str = "events") -> list[tuple[str, int]]:
    """What the head's updates say of days."""
    rows = store.updates(stage).to_pylist()
    return [(row["_change_type"], row["day"].day) for row in rows]


THREE = [*rows_of(1, [7]), *rows_of(2, [7, 8]), *rows_of(3, [8])]


def test_rows_that_leave_are_deletes_and_go_on_as_such(location: str) -> None:
    store = dp.Store(None, location, events("delete"))
    store.update({"events": THREE[1:]})
    version = store.update({"events": rows_of(4, [9])})
    assert told(store) == [("delete", 2), ("delete", 2), ("add", 4)]
    assert plain(store) == [(3, 0, 8), (4, 0, 9)]
    assert plain(store, "views") == [(8, 1, 0), (9, 1, 0)]
    figures = version.stages["events"]
    assert (figures.rows_expired, figures.rows_not_taken, figures.rows_removed) == (2, 0, 2)
    assert version.stages["ids"].rows_removed == 2
    assert store.update().stages["events"].rows_expired == 2  # nothing to do: the same version
    assert store.head.number == 2


def test_rows_for_partitions_before_the_first_are_not_taken_and_are_counted(location: str) -> None:
    """A version says so, though no row of it differs; a delete of what is gone is nothing (S3)."""
    store = dp.Store(None, location, events("delete"))
    first = store.update({"events": THREE})
    assert first.stages["events"].rows_not_taken == 1
    assert first.as_dict()["stages"]["events"]["rows_not_taken"] == 1
    version = store.update({"events": rows_of(1, [5, 6])})
    assert (version.number, version.stages["events"].rows_not_taken) == (2, 2)
    assert told(store) == []
    gone = [{"day": date(2013, 3, 1), "id": 0, "_change_type": "delete"}]
    assert store.update({"events": gone}).number == 2
    assert plain(store) == [(2, 0, 7), (2, 1, 8), (3, 0, 8)]
    assert store.load({"events": THREE}).stages["events"].rows_not_taken == 1
    assert store.update({}, partitions={"events": ["2013-03-04"]}).stages["events"].rows == 1
    version = store.update({"events": THREE[1:]}, "again")
    assert (version.number, version.stages["events"].rows_not_taken) == (5, 2)
    assert store.update({"events": THREE[1:]}, "again") == version
    assert store.verify(recompute=True) == ()


@pytest.mark.parametrize("expire", ["delete", "forget"])
def test_dropped_rows_do_not_come_back(location: str, expire: Literal["delete", "forget"]) -> None:
    """Nor do partitions: not where the day moves back, but where a version is rolled back to."""
    store = dp.Store(None, location, events(expire))
    store.update({"events": THREE[1:]})
    assert [s.reason for s in store.plan(as_of="2013-03-05") if not s.stage.feeders] == [
        f"rows before 2013-03-04 are {'deleted' if expire == 'delete' else 'forgotten'}"
    ]
    version = store.update({}, as_of="2013-03-05")
    assert (version.stages["events"].rows, version.stages["events"].rows_expired) == (0, 3)
    assert plain(store, "views") == ([] if expire == "delete" else [(7, 1, 0), (8, 2, 0)])
    store.update({}, as_of="2013-03-03")
    assert plain(store) == []
    version = store.update({"events": THREE})
    assert version.stages["events"].rows_not_taken == 4
    assert plain(store) == []
    store.rollback(1)
    assert plain(store) == [(2, 0, 7), (2, 1, 8), (3, 0, 8)]
    assert plain(store, "views") == [(7, 1, 0), (8, 2, 0)]
    version = store.update({"events": rows_of(2, [5])})
    assert version.stages["events"].rows_not_taken == 0
    assert plain(store, "views") == [(5, 1, 0), (8, 2, 0)]
    assert store.verify(recompute=True) == ()


def test_what_is_after_the_last_partition_waits(location: str) -> None:
    """It is taken, and stays where the day moves back; a null is in no partition, and stays."""
    store = dp.Store(None, location, events("delete"))
    at_none = {"day": None, "id": 0, "m": 1}
    store.update({"events": [*rows_of(9, [7]), at_none]}, as_of="2013-03-03")
    store.update({"events": THREE}, as_of="2013-03-02")
    assert plain(store) == [
        *((None, 0, 1), (2, 0, 7), (2, 1, 8), (3, 0, 8), (9, 0, 7)),
    ]
    store.update({}, as_of=None)
    assert plain(store) == [(None, 0, 1), (9, 0, 7)]


def test_forgotten_rows_are_in_no_update_and_what_was_made_of_them_stays(location: str) -> None:
    store = dp.Store(None, location, events("forget"))
    store.update({"events": THREE[1:]})
    version = store.update({"events": [*rows_of(4, [8]), *rows_of(3, [9])]})
    assert told(store) == [("update", 3), ("add", 4)]
    assert plain(store) == [(3, 0, 9), (4, 0, 8)]
    assert plain(store, "views") == [(7, 1, 0), (8, 2, 0), (9, 1, 0)]
    assert version.stages["events"].rows_expired == 2
    assert version.stages["ids"].changed_keys == 1
    feed = store.changes("events", 1)["_change_type"].to_pylist()
    assert sorted(feed) == ["insert", "update_postimage", "update_preimage"]
    gone = [{"day": date(2013, 3, day), "id": 0, "_change_type": "delete"} for day in (2, 3)]
    version = store.update({"events": gone})
    assert version.stages["events"].rows_not_taken == 1  # it would have to be taken from views
    assert plain(store, "views") == [(7, 1, 0), (8, 2, 0)]
    assert store.verify(recompute=True) == ()
    assert store.verify(recompute=2) == ()


def test_what_was_made_of_forgotten_rows_is_not_made_again(location: str) -> None:
    """Neither by a refresh nor by another definition; what is made of that is."""

    def pipeline(least: int, kept: str | None = "forget", column: str = "day") -> dp.Pipeline:
        found = dp.Pipeline("events")
        given: dict[str, Any] = {"key": "day date, id bigint", "value": "m bigint"}
        if kept is not None:
            given |= {"retain": dp.window(column, last=2), "expire": kept}
        found.source("events", **given)
        found.aggregate("views", "events", key="m", values={"n": agg.count()}, where=f"m > {least}")
        found.aggregate("all", "views", key="", values={"n": agg.sum("n")}, revision=f"{least % 2}")
        if least == 2:
            found.aggregate("later", "events", key="m", values={"n": agg.count()})
        return found

    store = dp.Store(None, location, pipeline(0))
    store.update({"events": THREE[1:]})
    assert store.refresh("views").stages["views"].mode == "full"  # nothing is forgotten yet
    changed = dp.Store(None, location, pipeline(5))
    with pytest.raises(dp.DefinitionError) as caught:  # not in the version that forgets, either
        changed.update({"events": rows_of(4, [8])})
    assert caught.value.stage == "views"
    dp.Store(None, location, pipeline(0)).update({"events": rows_of(4, [8])})
    store = dp.Store(None, location, pipeline(0))
    before = store.head.number
    calls: list[Any] = [
        lambda: store.refresh("views"),
        store.refresh,
        dp.Store(None, location, pipeline(4)).update,
        dp.Store(None, location, pipeline(4)).plan,
        dp.Store(None, location, pipeline(0, None)).update,
        dp.Store(None, location, pipeline(0, "delete")).update,
        dp.Store(None, location, pipeline(0, "forget", "id")).update,
    ]
    for call in calls:
        with pytest.raises(dp.DefinitionError) as caught:
            call()
        assert caught.value.stage in ("views", "events")
    with pytest.raises(dp.InvalidArgumentError) as wrong:
        store.forget("events", (date(2013, 3, 2), 0))
    assert wrong.value.argument == "key"
    assert store.head.number == before
    assert store.refresh("all").stages["all"].rows_added == 0
    assert plain(store, "views") == [(7, 1), (8, 3)]
    assert store.verify(recompute=True) == ()


def test_a_stage_that_comes_later_begins_with_the_rows_that_are_there(location: str) -> None:
    dp.Store(None, location, events("forget")).update({"events": THREE})
    pipeline = events("forget")
    pipeline.aggregate("later", "events", key="m", values={"n": agg.count()})
    dp.Store(None, location, events("forget")).update({"events": rows_of(4, [8])})
    store = dp.Store(None, location, pipeline)
    store.update()
    assert plain(store, "later") == [(8, 2)]
    assert plain(store, "views") == [(7, 1, 0), (8, 3, 0)]
    store.update({"events": rows_of(5, [8])})
    assert plain(store, "later") == [(8, 3)]
    with pytest.raises(dp.DefinitionError):
        store.refresh("later")


def test_stages_of_forgotten_rows_are_not_made_in_full_to_save_time(location: str) -> None:
    store = dp.Store(None, location, events("forget"), limits=dp.Limits(full_rows=1))
    store.update({"events": THREE[1:]})
    version = store.update({"events": [*rows_of(3, [7]), *rows_of(4, [7])]})
    assert "of changed keys" not in version.stages["views"].reason
    assert plain(store, "views") == [(7, 3, 0), (8, 1, 1)]


def test_a_retention_may_be_defined_later_or_otherwise_or_not_any_more(location: str) -> None:
    """What leaves then is in the plan; of a longer one, rows are taken that were not."""
    bare = dp.Pipeline("events")
    bare.source("events", key="day date, id bigint", value="m bigint")
    dp.Store(None, location, bare).update({"events": THREE})

    def opened(last: int) -> dp.Store:
        pipeline = dp.Pipeline("events")
        retain = dp.window("day", last=last)
        pipeline.source("events", key="day date, id bigint", value="m bigint", retain=retain)
        return dp.Store(None, location, pipeline)

    store = opened(2)
    (step,) = store.plan()
    assert step.how == "changes"
    assert store.update().stages["events"].rows_expired == 1
    assert store.plan() == ()
    assert store.update().number == 2
    assert opened(1).update().stages["events"].rows_expired == 2
    assert opened(9).update().number == 4
    assert opened(9).update({"events": THREE}).stages["events"].rows_not_taken == 0
    store = dp.Store(None, location, bare)
    store.update({"events": [*rows_of(1, [1]), {"day": date(1990, 1, 1), "id": 0, "m": 1}]})
    assert len(plain(store)) == 5
    assert store.verify(recompute=True) == ()


@pytest.mark.parametrize(
    ("expire", "small"),
    [pytest.param("delete", True, marks=pytest.mark.long), ("forget", False)],
)
def test_a_crash_before_any_effect(
    location: str, expire: Literal["delete", "forget"], small: bool
) -> None:
    """Rows leave in one version or not at all; the same update, or another, goes on."""
    limits, origin = dp.Limits() if small else RUNS, f"{location}/origin"
    dp.Store(None, origin, events(expire), limits=limits).update({"events": THREE[1:]})
    for point in count():
        pipeline, place = events(expire), str(shutil.copytree(origin, f"{location}/{point}"))
        store = dp.Store(None, place, pipeline, limits=limits)
        more = {"events": [*rows_of(1, [7]), *rows_of(4, [8, 9])]}
        with failpoints.armed(CrashAt(point, fail)), suppress(CrashError):
            store.update(more, "more")
        store = dp.Store(None, place, pipeline, limits=limits)
        published = store.head.number == 2
        assert plain(store)[-1] == ((4, 1, 9) if published else (3, 0, 8))
        version = store.update(more, "more" if point % 2 else None)
        figures = (
            version.stages["events"]
            if version.number == 2
            else store.versions()[1].stages["events"]
        )
        assert (figures.rows_expired, figures.rows_not_taken) == (2, 1)
        assert plain(store) == [(3, 0, 8), (4, 0, 8), (4, 1, 9)]
        n = {8: 2, 9: 1} if expire == "delete" else {7: 1, 8: 3, 9: 1}
        assert {row[0]: row[1] for row in plain(store, "views")} == n
        assert store.verify(recompute=True) == ()
        if published:
            break
    assert point > 3


def test_vacuum_removes_what_is_forgotten(location: str) -> None:
    """Its bytes are in no file any more, once no version is kept that has it."""
    pipeline = dp.Pipeline("events")
    pipeline.source(
        "events", key="day date, id bigint", value="t string",
        retain=dp.window("day", last=1), expire="forget",
    )  # fmt: skip
    store = dp.Store(None, location, pipeline, limits=RUNS)

    def given(day: int, text: str) -> dict[str, Any]:
        return {"events": [{"day": date(2013, 3, day), "id": 1, "t": text}]}

    store.update(given(1, "secret-of-the-first"))
    store.update(given(2, "of-the-second"))
    store.compact()
    store.update(given(2, "of-the-second-again"))
    for _ in range(2):  # what the first cuts from updates is removed by the second
        store.vacuum(keep_versions=1, unfinished_hours=0)
    texts = [
        value
        for file in Path(location).rglob("*.parquet")
        if "t" in (table := pq.read_table(file)).column_names
        for value in table.column("t").to_pylist()
    ]
    assert texts
    assert "secret-of-the-first" not in texts
    assert store.verify() == ()


def test_a_source_that_forgets_is_repaired_without_what_it_forgot(location: str) -> None:
    """And what was made of forgotten rows is put right from its updates, or not at all."""
    store = dp.Store(None, location, events("forget"))
    store.update({"events": THREE[1:]})
    store.update({"events": rows_of(4, [8])})
    shutil.rmtree(f"{location}/events/content")
    assert dp.Store(None, location, events("forget")).repair().number == 3
    store = dp.Store(None, location, events("forget"))
    assert plain(store) == [(3, 0, 8), (4, 0, 8)]
    assert plain(store, "views") == [(7, 1, 0), (8, 3, 0)]
    assert store.verify(recompute=True) == ()
    shutil.rmtree(f"{location}/views/content")
    store = dp.Store(None, location, events("forget"))
    with pytest.raises(dp.CorruptStoreError):
        store.repair()
    assert store.head.number == 3
