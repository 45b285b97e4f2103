"""Windows without a session: after every version their rows are the oracle's."""

import os
import random
from collections.abc import Collection
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from local_stores import IN_PARTS, as_rows, assert_same_here
from selecting import chosen, long, some

import deltaproduce as dp
from deltaproduce import agg
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.stages.aggregates import kind
from deltaproduce.stages.aggregates.windowed import Way
from deltaproduce.storage import failpoints
from deltaproduce.storage.parquet.files import ParquetFiles
from deltaproduce.testing import Delete, Oracle, Upsert

RUNS = dp.Limits(small_table_rows=0, replaced_percent=900, group_rows=3, partition_rows=2)
FOLDED = dp.Limits(
    small_table_rows=0,
    replaced_percent=900,
    group_rows=3,
    partition_rows=2,
    compaction_commits=2,
    compaction_rows=3,
    overlay_runs=3,
)
WAYS: dict[str, tuple[dp.Limits, bool | None]] = {
    "small": (dp.Limits(), None),
    "small, moved": (dp.Limits(), True),
    "runs, moved": (RUNS, True),
    "runs, read whole where most changes, moved": (replace(RUNS, full_rows=1), True),
    "runs, often folded, anew": (FOLDED, False),
    "in parts, moved": (IN_PARTS, True),
}
"""Limits, and whether windows are always moved, or always made anew."""
SHORT_WAYS = {
    "small": 0,
    "runs, read whole where most changes, moved": 0,
    "runs, often folded, anew": 1,
    "in parts, moved": 0,
}
"""Those of a short run, and the series that each has."""
SEEDS = int(os.environ.get("DELTAPRODUCE_SEEDS", "2"))
VERSIONS, SHORT = 8, 4
VALUES = {
    "rows": agg.count(),
    "total": agg.sum("n"),
    "mean": agg.avg("n"),
    "least": agg.min("n"),
    "kinds": agg.count_distinct("n"),
}
FIRST = date(2013, 2, 20)


def site(chosen: Collection[str] = ()) -> dp.Pipeline:
    """Windows of each sort, over columns of each type, anywhere in the key, and over aggregates.

    Args:
        chosen: those of the windows over sources that are wanted; all if there are none.
    """
    pipeline = dp.Pipeline("site")
    days = pipeline.source("days", key="day date, id bigint", value="m bigint, n int")
    late = pipeline.source("late", key="Id bigint, at_day date", value="member bigint, k int")
    times = pipeline.source("times", key="id bigint, at timestamp desc", value="m bigint, n int")
    bare = pipeline.source("bare", key="at timestamp_ntz, id bigint", value="m bigint, n int")
    seqs = pipeline.source("seqs", key="id bigint, seq smallint", value="m bigint, n int")

    def of(name: str, feeder: Any, window: dp.Window) -> None:
        if not chosen or name in chosen:
            pipeline.aggregate(name, feeder, key="m", values=VALUES, window=window)

    of("of_days", days, dp.window("day", last=3))
    of("since", days, dp.window("DAY", start="2013-02-25"))
    of("lagging", days, dp.window("day", last=4, lag=1))
    of("ended", days, dp.window("day", last=5, end=date(2013, 2, 28)))
    of("of_weeks", days, dp.window("day", last=2, step="week"))
    of("of_months", days, dp.window("day", start="2013-02-27", step="month"))
    of("of_times", times, dp.window("at", last=3))
    of("of_place", times, dp.window("at", last=3, zone="America/Chicago"))
    of("of_bare", bare, dp.window("at", start="2013-02-26"))
    of("of_seqs", seqs, dp.window("seq", last=2, step=10))
    of("of_numbers", seqs, dp.window("seq", start=-5))
    merged = pipeline.source("merged", key="day date, id bigint", value="m bigint, n int")
    of("of_two", dp.merge(days, merged), dp.window("day", last=3))
    pipeline.aggregate("late_days", late, key="at_day, member", values={"n": agg.sum("k")})
    pipeline.aggregate(
        "of_partials",
        "late_days",
        key="member",
        values={"rows": agg.count(), "n": agg.sum("n")},
        window=dp.window("at_day", last=3),
    )

    if chosen:
        return pipeline

    @pipeline.producer(days, key="next date, m bigint", value="n int")
    def moved(key: Any, values: Any) -> Any:
        for value in values:
            if key.day is not None:
                yield (key.day + timedelta(days=1), value.m), value.n

    of("of_moved", moved, dp.window("next", last=3))

    @pipeline.producer("of_days", key="total bigint", value="m bigint")
    def by_total(m: int, values: Any) -> Any:
        for value in values:
            yield value.total, m

    return pipeline


WINDOWED = [stage.name for stage in site().stages if stage.kind.upkeep.window is not None]
SOME = ("of_days", "lagging", "of_seqs", "of_two")


def some_key(chance: random.Random, source: str, version: int) -> tuple[Any, ...]:
    near = chance.choice([-9, -3, -2, -1, -1, 0, 0, 0, 1, 2])
    day = FIRST + timedelta(days=version + near)
    number = chance.randrange(4)
    hour = timedelta(hours=chance.choice([0, 1, 23]), microseconds=chance.choice([0, 1]))
    moment = datetime(day.year, day.month, day.day) + hour
    at: Any = {"seqs": 7 * version + 5 * near - 20, "times": moment, "bare": moment}.get(
        source, day
    )
    if chance.random() < 0.05:
        at = None
    return (at, number) if source in ("days", "bare", "merged") else (number, at)


def history(
    seed: int, versions: int = VERSIONS
) -> list[tuple[dict[str, list[Any]], dict[str, Any]]]:
    """What each version is given, and what it is told of windows."""
    chance, found = random.Random(seed), []
    seen: dict[str, list[tuple[Any, ...]]] = {}
    names = ["days", "late", "times", "bare", "seqs", "merged"]
    for version in range(versions):
        batch: dict[str, list[Any]] = {}
        for name in chance.sample(names, chance.choice([0, 1, 3, 6])):
            keys = {some_key(chance, name, version) for _ in range(chance.choice([1, 3, 6]))}
            known = seen.setdefault(name, [])
            gone = set(chance.sample(known, min(len(known), chance.choice([0, 0, 1, 4]))))
            known += keys
            upserts = [
                Upsert(key, (chance.randrange(3), chance.choice([None, 1, 5])))
                for key in sorted(keys, key=str)
                for _ in range(chance.choice([1, 1, 2]))
            ]
            batch[name] = [*upserts, *(Delete(key) for key in sorted(gone - keys, key=str))]
        told: dict[str, Any] = {}
        if chance.random() < 0.3:
            told["as_of"] = chance.choice([None, FIRST + timedelta(days=version - 2), "2013-02-26"])
        if chance.random() < 0.3:
            named = FIRST + timedelta(days=version + chance.choice([-4, 1, 3]))
            told["partitions"] = {"days": [named, named.isoformat()], "seqs": {"seq": [version]}}
        found.append((batch, told))
    return found


@pytest.fixture
def limits(way: str, monkeypatch: pytest.MonkeyPatch) -> dp.Limits:
    limits, reused = WAYS[way]
    if reused is not None:
        monkeypatch.setattr(kind, "way", lambda *_: Way(reused, "so it is tested"))
    return limits


@pytest.mark.parametrize(
    ("seed", "way"),
    some(
        product(range(SEEDS), WAYS),
        lambda seed, way: SHORT_WAYS.get(way) == seed,
        longer="DELTAPRODUCE_SEEDS" in os.environ,
    ),
)
def test_versions_equal_the_oracle(
    location: str, seed: int, limits: dp.Limits, long_run: bool
) -> None:
    """All versions are read when the last is made: each is right then, and has stayed so."""
    pipeline = site()
    oracle = Oracle(pipeline)
    with dp.Store(None, location, pipeline, limits=limits) as store:
        for batch, told in history(seed)[: VERSIONS if long_run else SHORT]:
            version = store.update(as_rows(pipeline, batch), **told)
            assert version.number == oracle.update(batch, **told)
        assert_same_here(store, oracle, pipeline, range(store.head.number + 1))
        assert store.verify(recompute=True) == ()
        head = store.head
        made = [name for name in WINDOWED if head.delta_version(name, "updates") is not None]
        refreshed = store.refresh().stages  # states too are what a refresh makes
        for stage in made:
            before, figures = head.stages[stage].window, refreshed[stage]
            assert (figures.mode, figures.rows_added, figures.rows_removed) == ("full", 0, 0)
            assert before is not None
            assert figures.window is not None
            assert (figures.window.first, figures.window.last) == (before.first, before.last)


@pytest.mark.parametrize("seed", chosen(range(2), 0))
def test_a_version_that_is_rolled_back_to_is_gone_on_from(
    location: str, seed: int, long_run: bool
) -> None:
    """Windows, the day and partitions are those of then, also where no row differs.

    In a short run of some windows.
    """
    pipeline = site(() if long_run else SOME)
    oracle, names = Oracle(pipeline), [one for one in WINDOWED if long_run or one in SOME]
    with dp.Store(None, location, pipeline) as store:
        series = history(50 + seed, 7)
        for n, (batch, told) in enumerate(series):
            store.update(as_rows(pipeline, batch), **told)
            oracle.update(batch, **told)
            if n in (3, 5):
                back = chance_of(seed, n)
                assert store.rollback(back).number == oracle.rollback(back)
                assert store.head.as_of == store.versions()[back - 1].as_of
                for name in names:
                    now, then = (
                        v.stages[name].window for v in (store.head, store.versions()[back - 1])
                    )
                    assert (now is None) == (then is None)
                    if now is not None and then is not None:
                        assert (now.first, now.last) == (then.first, then.last)
        assert_same_here(store, oracle, pipeline, range(3, store.head.number + 1))
        assert store.verify(recompute=True) == ()


def chance_of(seed: int, version: int) -> int:
    return random.Random(10 * seed + version).randrange(1, version)


def views(*windows: dp.Window, key: str = "day date, id bigint") -> dp.Pipeline:
    pipeline = dp.Pipeline("views")
    pipeline.source("events", key=key, value="member_id bigint")
    for number, window in enumerate(windows):
        pipeline.aggregate(
            f"views_{number}", "events", key="member_id", values={"n": agg.count()}, window=window
        )
    return pipeline


def day(number: int, members: list[int]) -> list[dict[str, Any]]:
    """The events of a day of March 2013."""
    at = date(2013, 3, number)
    return [{"day": at, "id": n, "member_id": member} for n, member in enumerate(members)]


def counts(store: dp.Store, number: int | str = 0) -> dict[int, int]:
    rows = store.content(number if isinstance(number, str) else f"views_{number}")
    return dict(zip(rows["member_id"].to_pylist(), rows["n"].to_pylist(), strict=True))


FIFTEENTH = day(15, [1, 1, 1, 2, 3, 3])
SIXTEENTH = day(16, [1, 1, 2, 2, 3])
SEVENTEENTH = day(17, [1, 1, 2, 2, 2, 3, 3])


def test_the_quick_start_of_hourglass(location: str) -> None:
    pipeline = views(dp.window("day", start="2013-03-15"), dp.window("day", last=2))
    with dp.Store(None, location, pipeline) as store:
        store.update({"events": FIFTEENTH + SIXTEENTH})
        assert counts(store) == counts(store, 1) == {1: 5, 2: 3, 3: 3}
        version = store.update({"events": SEVENTEENTH})
        assert counts(store) == {1: 7, 2: 6, 3: 5}
        assert counts(store, 1) == {1: 4, 2: 5, 3: 3}
        move = version.stages["views_0"].window
        assert move is not None
        assert (move.first, move.last) == (date(2013, 3, 15), date(2013, 3, 17))
        assert (move.entered, move.left, move.reused) == ((date(2013, 3, 17),), (), True)
        move = version.stages["views_1"].window
        assert move is not None
        assert (move.entered, move.left) == ((date(2013, 3, 17),), (date(2013, 3, 15),))
        assert store.verify(recompute=True) == ()


def test_a_month_is_moved_by_what_leaves_and_enters(location: str) -> None:
    """And one that moves by all of its length is made anew; of equals, too."""
    pipeline = views(dp.window("day", last=20), dp.window("day", last=2))
    with dp.Store(None, location, pipeline) as store:
        for number in range(1, 24):
            version = store.update({"events": day(number, [1, 2, 2, number])})
        moves = [version.stages[f"views_{n}"].window for n in range(2)]
        assert [move and move.reused for move in moves] == [True, False]
        assert counts(store) == {1: 20, 2: 40, **dict.fromkeys(range(4, 24), 1)}
        version = store.update({}, as_of="2013-03-03")
        move = version.stages["views_0"].window
        assert move is not None
        assert not move.reused
        assert move.left == tuple(date(2013, 3, n) for n in range(4, 24))
        assert move.entered == tuple(date(2013, 3, n) for n in range(1, 4))
        assert counts(store) == {1: 4, 2: 7, 3: 1}


@pytest.mark.parametrize("step", ["day", "week", "month"])
def test_a_window_begins_where_dates_do(location: str, step: Any) -> None:
    """The first of all, which stands for no day in much data, is as any other."""
    pipeline = views(
        dp.window("day", last=30, step=step),
        dp.window("day", last=2, lag=3, step=step),
        dp.window("day", last=3, step=step, max_partitions=1),
    )
    days = [date.min, date.min + timedelta(days=1), date.min + timedelta(days=70), date.max]
    oracle = Oracle(pipeline)
    with dp.Store(None, location, pipeline) as store:
        for number, at in enumerate(days):
            batch = {"events": [Upsert((at, number), (number,))]}
            version = store.update(as_rows(pipeline, batch))
            assert version.number == oracle.update(batch)
        store.update({}, as_of=days[1])
        oracle.update({}, as_of=days[1])
        assert_same_here(store, oracle, pipeline, range(store.head.number + 1))
        assert store.verify(recompute=True) == ()


def test_a_move_reads_the_row_groups_of_what_leaves_and_enters(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two days of twenty in one file, each a row group, though late rows lie beside them."""
    read: list[int] = []
    reads = ParquetFiles.read_groups

    def counted(files: ParquetFiles, footers: Any, groups: Any, *names: Any, **named: Any) -> Any:
        if "events" in str(files._table):
            read.extend(group.number for group in groups)
        return reads(files, footers, groups, *names, **named)

    pipeline = views(dp.window("day", last=15))
    store = dp.Store(None, location, pipeline, limits=replace(RUNS, partition_rows=100))
    rows = [row for number in range(1, 21) for row in day(number, [1, number % 3, 5])]
    store.update({"events": rows}, as_of="2013-03-18")
    store.update({"events": day(12, [7, 7])})
    monkeypatch.setattr(ParquetFiles, "read_groups", counted)
    version = store.update({}, as_of="2013-03-19")
    assert sorted(read) == [3, 18]
    figures = version.stages["views_0"]
    own = 4 + 3  # its states, of which three are in a file beside the others
    assert (figures.rows_read, version.stages["events"].rows_read) == (6 + own, 0)
    assert figures.bytes_read > 0
    assert version.as_dict()["stages"]["views_0"]["rows_read"] == 6 + own
    move = version.stages["views_0"].window
    assert move is not None
    assert (move.reused, move.left) == (True, (date(2013, 3, 4),))
    assert store.verify(recompute=True) == ()
    assert counts(store) == {0: 4, 1: 19, 2: 5, 5: 15, 7: 2}


def test_a_move_that_reaches_nearly_all_groups_writes_them_whole(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the files before it; of few groups it leaves a file."""
    monkeypatch.setattr(kind, "way", lambda *_: Way(True, "so it is tested"))
    most = [*range(1, 19)]
    pipeline = views(dp.window("day", last=2))
    with dp.Store(None, location, pipeline, limits=replace(RUNS, full_rows=10)) as store:

        def moved(rows: list[dict[str, Any]]) -> tuple[str, int, int]:
            made = store.update({"events": rows}).stages["views_0"]
            assert store.verify(recompute=True) == ()
            return made.mode, made.affected_keys, made.base.added["content"]

        store.update({"events": day(1, most) + day(2, [*most, 40])})
        assert moved(day(3, most * 2)) == ("rewrite", 18, 0)
        assert counts(store) == {**dict.fromkeys(most, 3), 40: 1}
        late = [{"day": date(2013, 3, 3), "id": 100, "member_id": 5}]
        assert moved(late) == ("seek", 1, 1)
        assert moved(day(4, most * 3)) == ("rewrite", 19, 0)
        assert counts(store) == {**dict.fromkeys(most, 5), 5: 6}


def content_files(location: str, stage: str = "events") -> dict[str, tuple[date, date]]:
    """The files of a stage's content, and the first and the last day of each."""
    table = DeltaTable(f"{location}/{stage}/content")
    told = pa.table(table.get_add_actions(flatten=True))
    ends = zip(told["min.day"].to_pylist(), told["max.day"].to_pylist(), strict=True)
    return dict(zip(told["path"].to_pylist(), ends, strict=True))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of which row groups are read."""
    found: list[str] = []
    parquet = Directory.parquet

    def counted(directory: Directory, inside: str, footer: Any = None) -> Any:
        found.append(f"{directory.path.split('/', maxsplit=-1)[-2]}/{inside}")
        return parquet(directory, inside, footer)

    monkeypatch.setattr(Directory, "parquet", counted)
    return found


@pytest.mark.parametrize("key", ["day date, id bigint", "id bigint, day date desc"])
def test_partitions_that_a_move_does_not_need_may_be_unreadable(
    location: str, opened: list[str], key: str
) -> None:
    """Files are of one day each, wherever it is in the key; a key is sought in its day alone."""
    pipeline = views(dp.window("day", last=10), key=key)
    rows = [row for number in range(1, 21) for row in day(number, [1, number % 3, 5])]
    with dp.Store(None, location, pipeline, limits=RUNS) as store:
        store.update({"events": rows}, as_of="2013-03-12")
        ordered = store.content("events", ordered=True)
    assert (
        ordered.to_pylist()
        == store.content("events")
        .sort_by(
            [
                (name, "descending" if "desc" in key and name == "day" else "ascending")
                for name in ordered.column_names[:2]
            ]
        )
        .to_pylist()
    )
    files = content_files(location)
    assert sorted(files.values()) == [(date(2013, 3, n), date(2013, 3, n)) for n in range(1, 21)]
    needed = {name for name, (day, _) in files.items() if day.day in (3, 13)}
    for name in files.keys() - needed:
        (Path(location) / "events" / "content" / name).write_bytes(b"garbage")
    with dp.Store(None, location, pipeline, limits=RUNS) as store:
        opened.clear()
        version = store.update({}, as_of="2013-03-13")
        move = version.stages["views_0"].window
        assert move is not None
        assert (move.reused, move.left, move.entered) == (
            *(True, (date(2013, 3, 3),)),
            (date(2013, 3, 13),),
        )
        assert sorted(name for name in opened if name.startswith("events/")) == sorted(
            f"events/{name}" for name in needed
        )
        assert version.stages["views_0"].rows_read == 6 + len(counts(store))
        assert counts(store) == {0: 3, 1: 14, 2: 3, 5: 10}
        opened.clear()
        store.update({"events": day(13, [7]) + day(21, [7])})
        assert {name for name in opened if "events/part" in name} == {
            f"events/{name}" for name, (day, _) in files.items() if day.day == 13
        }
        assert counts(store) == {0: 3, 1: 13, 2: 3, 5: 10, 7: 1}


def test_windows_over_one_feeder_read_each_partition_once(location: str, opened: list[str]) -> None:
    """Of three windows the second finds all that it needs, and the third all but a day."""
    windows = [dp.window("day", last=last) for last in (10, 10, 9)]
    pipeline = views(*windows)
    rows = [row for number in range(1, 21) for row in day(number, [1, number % 3, 5])]
    with dp.Store(None, location, pipeline, limits=RUNS) as store:
        store.update({"events": rows}, as_of="2013-03-12")
    with dp.Store(None, location, pipeline, limits=RUNS) as store:
        opened.clear()
        version = store.update({}, as_of="2013-03-13")
        days = {f"events/{name}": first.day for name, (first, _) in content_files(location).items()}
        assert sorted(days[name] for name in opened if name in days) == [3, 4, 13]
        states = [len(counts(store, n)) for n in range(3)]
        read = [version.stages[f"views_{n}"].rows_read - states[n] for n in range(3)]
        assert read == [6, 0, 3]
        assert store.verify(recompute=True) == ()


def test_a_feeder_is_stored_by_the_column_that_most_windows_are_over(location: str) -> None:
    """Once it is written whole: until then its rows are read as they are."""
    key = "id bigint, day date"
    with dp.Store(None, location, views(key=key), limits=RUNS) as store:
        store.update({"events": [row for n in range(1, 9) for row in day(n, [1, n % 3, 5])]})
        assert len(content_files(location)) == 1
    windows = (dp.window("id", last=1), *(dp.window("day", last=last) for last in (3, 5)))
    with dp.Store(None, location, views(*windows, key=key), limits=RUNS) as store:
        store.update({"events": day(9, [2, 2])})
        assert len(content_files(location)) == 2
        assert counts(store, 1) == {1: 3, 2: 3, 5: 2}
        assert store.verify(recompute=True) == ()
        before = store.content("events", ordered=True)
        store.compact()
        store.update({"events": day(10, [4, 4])})
        assert store.content("events", 2, ordered=True).equals(before)
        ends = sorted(content_files(location).values())
        assert ends == [(date(2013, 3, n), date(2013, 3, n)) for n in range(1, 11)]
        assert store.verify(recompute=True) == ()


def test_the_day_moves_a_window_without_rows_and_is_kept(location: str) -> None:
    pipeline = views(dp.window("day", last=2), dp.window("day", last=2, lag=1))
    with dp.Store(None, location, pipeline) as store:
        store.update({"events": FIFTEENTH + SIXTEENTH + SEVENTEENTH})
        assert counts(store, 1) == {1: 5, 2: 3, 3: 3}
        steps = store.plan(as_of="2013-03-16")
        assert [(step.stage.name, step.how) for step in steps] == [("views_0", "incremental")]
        assert "2013-03-15 to 2013-03-16" in steps[0].reason
        version = store.update({}, as_of=date(2013, 3, 16))
        assert (version.number, version.as_of) == (2, date(2013, 3, 16))
        assert counts(store) == counts(store, 1) == {1: 5, 2: 3, 3: 3}
        assert store.update({}, as_of="2013-03-16").number == 2
        store.update({"events": day(18, [9])})  # it waits
        assert counts(store) == {1: 5, 2: 3, 3: 3}
        assert store.head.as_of == date(2013, 3, 16)
        store.update({}, as_of=None)
        assert counts(store) == {1: 2, 2: 3, 3: 2, 9: 1}
        assert store.head.as_of is None
        assert store.rollback(2).as_of == date(2013, 3, 16)
        assert counts(store) == {1: 5, 2: 3, 3: 3}


def test_partitions_that_are_named_are_there_without_rows(location: str) -> None:
    with dp.Store(None, location, views(dp.window("day", last=2))) as store:
        assert store.update({}, partitions={"events": ["2013-03-14"]}).number == 1
        store.update({"events": FIFTEENTH})
        version = store.update({}, partitions={"events": {"day": [date(2013, 3, 17)]}})
        assert version.number == 3
        assert counts(store) == {}
        move = version.stages["views_0"].window
        assert move is not None
        assert (move.first, move.last) == (date(2013, 3, 16), date(2013, 3, 17))
        assert move.entered == (date(2013, 3, 17),)
        assert move.left == (date(2013, 3, 14), date(2013, 3, 15))
        assert store.update({}, partitions={"events": ["2013-03-17"]}).number == 3
        gone = [{"day": row["day"], "id": row["id"], "_change_type": "delete"} for row in FIFTEENTH]
        store.update({"events": gone})
        store.update({"events": day(16, [1])})
        assert counts(store) == {1: 1}
        version = store.rollback(2)  # no row of the window differs in what is read
        assert counts(store) == {1: 3, 2: 1, 3: 2}
        store.update({"events": SIXTEENTH})
        assert counts(store) == {1: 5, 2: 3, 3: 3}


def test_partitions_of_more_than_64_bits_are_refused(location: str) -> None:
    """No version could be read that has them."""
    pipeline = dp.Pipeline("p")
    numbers = pipeline.source("numbers", key="n bigint", value="v bigint")
    window = dp.window("n", last=3)
    pipeline.aggregate("sums", numbers, key="", values={"v": agg.sum("v")}, window=window)
    least = -(2**63)
    with dp.Store(None, location, pipeline) as store:
        for wrong in (2**63, least - 1):
            with pytest.raises(dp.InvalidArgumentError):
                store.update({}, partitions={"numbers": [wrong]})
        version = store.update({"numbers": [{"n": least + 1, "v": 2}]})
        move = version.stages["sums"].window
        assert move is not None
        assert (move.first, move.last, move.entered) == (least, least + 1, (least + 1,))
    with dp.Store(None, location, pipeline) as store:
        assert store.content("sums").column("v").to_pylist() == [2]


def test_partitions_that_are_missing_are_an_error_where_that_is_wanted(location: str) -> None:
    window = dp.window("day", last=3, on_missing="error")
    with dp.Store(None, location, views(window)) as store:
        with pytest.raises(dp.MissingPartitionsError) as caught:
            store.update({"events": FIFTEENTH + SEVENTEENTH})
        assert caught.value.stage == "views_0"
        assert caught.value.partitions == (date(2013, 3, 16),)
        assert store.head.number == 0
        named = {"events": ["2013-03-16"]}
        store.update({"events": FIFTEENTH + SEVENTEENTH}, partitions=named)
        assert counts(store) == {1: 5, 2: 4, 3: 4}
        for asking in (partial(store.update, {}), store.plan):
            with pytest.raises(dp.MissingPartitionsError) as caught:
                asking(as_of="2013-03-16")
            assert caught.value.partitions == (date(2013, 3, 14),)
            with pytest.raises(dp.MissingPartitionsError) as caught:
                asking(as_of="2013-03-19")
            assert caught.value.partitions == (date(2013, 3, 18), date(2013, 3, 19))
            with pytest.raises(dp.MissingPartitionsError) as caught:
                asking(as_of="2013-03-19", partitions={"events": ["2013-03-19"]})
            assert caught.value.partitions == (date(2013, 3, 18),)
        assert store.plan(["events"], as_of="2013-03-19")  # its rows may be of these days
        assert (store.head.number, store.head.as_of) == (1, None)


def test_partitions_are_missing_too_where_nothing_reaches_the_stage(location: str) -> None:
    """The source of the window has no row yet, and something else is given, or nothing."""
    pipeline = views(dp.window("day", last=2, on_missing="error"))
    pipeline.source("others", key="n int", value="m int")
    others = {"others": [{"n": 1, "m": 1}]}
    with dp.Store(None, location, pipeline) as store:
        for told in ({"as_of": "2013-03-16"}, {"partitions": {"events": ["2013-03-16"]}}):
            for asking in (store.update, store.plan):
                with pytest.raises(dp.MissingPartitionsError) as caught:
                    asking(others, **told)  # type: ignore[arg-type]
                assert caught.value.stage == "views_0"
            assert store.head.number == 0
        assert store.update(others).number == 1
        both = {"events": ["2013-03-15", "2013-03-16"]}
        assert store.update({}, partitions=both, as_of="2013-03-16").number == 2


def test_each_feeder_must_have_the_partitions_that_are_not_to_be_missing(location: str) -> None:
    pipeline = dp.Pipeline("two")
    both = [pipeline.source(n, key="day date", value="n int") for n in ("web", "till")]
    for name, on_missing in (("loose", "skip"), ("strict", "error")):
        window = dp.window("day", last=1, on_missing=on_missing)  # type: ignore[arg-type]
        values = {"rows": agg.count()}
        pipeline.aggregate(name, dp.merge(*both), key="n", values=values, window=window)
    with dp.Store(None, location, pipeline) as store:
        rows = {"web": [{"day": date(2013, 3, 15), "n": 1}]}
        with pytest.raises(dp.MissingPartitionsError) as caught:
            store.update(rows)
        assert caught.value.stage == "strict"
        store.update(rows, partitions={"till": ["2013-03-15"]})
        assert store.content("loose").to_pylist() == store.content("strict").to_pylist()


def test_a_window_over_an_aggregate_has_the_partitions_of_its_source(location: str) -> None:
    pipeline = views()
    days = pipeline.aggregate("days", "events", key="day, member_id", values={"n": agg.count()})
    window = dp.window("day", last=2, on_missing="error")
    pipeline.aggregate("all", days, key="member_id", values={"n": agg.sum("n")}, window=window)
    with dp.Store(None, location, pipeline) as store:
        store.update({"events": FIFTEENTH}, partitions={"events": ["2013-03-14"]})
        version = store.update({}, partitions={"events": ["2013-03-16"]})
        assert store.content("all").select(["member_id", "n"]).to_pylist() == [
            {"member_id": 1, "n": 3},
            {"member_id": 2, "n": 1},
            {"member_id": 3, "n": 2},
        ]
        move = version.stages["all"].window
        assert move is not None
        assert (move.first, move.last) == (date(2013, 3, 15), date(2013, 3, 16))


@pytest.mark.parametrize("seed", range(2))
def test_what_enters_does_so_in_the_version_that_names_it(location: str, seed: int) -> None:
    """Also if the source has never had a row: a version has what is new in the window's place."""
    chance, present = random.Random(seed), set[date]()
    pipeline = views(dp.window("day", last=4))
    days = pipeline.aggregate("days", "events", key="day, member_id", values={"n": agg.min("id")})
    window = dp.window("day", start=FIRST + timedelta(days=2))
    pipeline.aggregate("all", days, key="member_id", values={"n": agg.merge("n")}, window=window)
    inside, last = dict[str, set[date]](), 0
    with dp.Store(None, location, pipeline) as store:
        for number in range(12):
            named = {FIRST + timedelta(days=chance.randrange(3 + number)) for _ in range(2)}
            as_of = chance.choice([None, None, FIRST + timedelta(days=number)])
            rows = [{"day": one, "id": number, "member_id": 1} for one in named if number > 7]
            version = store.update({"events": rows}, partitions={"events": [*named]}, as_of=as_of)
            present |= named
            for name in ("views_0", "all"):
                move = version.stages[name].window or dp.WindowMove()  # none while it is empty
                place = {d for d in present if move.first and move.first <= d <= move.last}
                entered = {*move.entered} if version.number > last else set()
                assert entered == place - inside.get(name, set())
                inside[name] = place
            last = version.number
        assert store.verify(recompute=True) == ()


def test_what_is_as_it_was_is_no_version(location: str) -> None:
    with dp.Store(None, location, views(dp.window("day", last=2))) as store:
        assert store.update({}, partitions={"events": []}).number == 0
        store.update({"events": FIFTEENTH + SIXTEENTH}, as_of="2013-03-16")
        assert store.update({"events": FIFTEENTH}).number == 1
        assert store.update().number == 1
        assert store.rollback(1).number == 1
        named = {"events": ["2013-03-15"]}
        assert store.update({}, as_of="2013-03-16", partitions=named).number == 1


def test_a_limited_window_catches_up_version_by_version(location: str) -> None:
    """Rows and other windows come first; the id is that of the last version."""
    limited = dp.window("day", start="2013-03-01", max_partitions=3)
    pipeline = views(limited, dp.window("day", start="2013-03-01"))
    rows = [row for number in range(1, 8) for row in day(number, [1, number])]
    with dp.Store(None, location, pipeline) as store:
        version = store.update({"events": rows}, "first")
        assert (version.number, version.update_id) == (4, "first")
        assert store.update({"events": rows}, "first").number == 4
        told = [
            [(move.last, len(move.entered)) for move in moves]
            for moves in zip(
                *(
                    [v.stages[f"views_{n}"].window or dp.WindowMove() for v in store.versions()]
                    for n in range(2)
                ),
                strict=True,
            )
        ]
        third, sixth, seventh = (date(2013, 3, n) for n in (3, 6, 7))
        assert told == [
            [(None, 0), (seventh, 7)],
            [(third, 3), (seventh, 0)],
            [(sixth, 3), (seventh, 0)],
            [(seventh, 1), (seventh, 0)],
        ]
        assert store.content("views_0", 2, ordered=True)["n"].to_pylist() == [4, 1, 1]
        assert counts(store) == counts(store, 1)
        version = store.update({"events": day(2, [9, 9]) + day(8, [1])})
        assert version.number == 6  # the late one at once
        assert [v.stages["views_0"].rows for v in store.versions()[3:]] == [7, 7, 7]
        assert counts(store) == counts(store, 1)
        store.rollback(2)
        assert store.verify(recompute=True) == ()
        store.refresh("views_0")
        assert store.content("views_0", ordered=True)["n"].to_pylist() == [4, 1, 1]
        assert store.plan()[0].stage.name == "views_0"
        assert store.update().number == 9 + 1
        assert counts(store) == counts(store, 1)
        assert store.verify(recompute=True) == ()


def test_no_more_partitions_enter_in_the_first_move_than_in_others(location: str) -> None:
    """Though there are more, and older ones, than a window of a fixed length has."""
    pipeline = views(dp.window("day", last=9, max_partitions=2), dp.window("day", last=2))
    oracle = Oracle(pipeline)
    days = [*range(1, 15), 17, 18, 20]
    rows = {"events": [Upsert((date(2013, 3, n), 1), (n % 3,)) for n in days]}
    with dp.Store(None, location, pipeline) as store:
        version = store.update(as_rows(pipeline, rows), "all")
        assert version.number == oracle.update(rows, "all")
        moves = [one.stages["views_0"].window or dp.WindowMove() for one in store.versions()]
        assert [move.last and move.last.day for move in moves] == [
            *(None, 2, 4, 6, 8, 10, 12, 14, 18, 20)
        ]
        assert [len(move.entered) for move in moves[1:]] == [2, 2, 2, 2, 2, 2, 2, 2, 1]
        assert_same_here(store, oracle, pipeline, range(version.number + 1))
        assert [one.update_id for one in store.versions()][-2:] == [None, "all"]
        assert store.verify(recompute=True) == ()


def limited_site(values: dict[str, agg.AggregateCall], most: int | None = 1) -> dp.Pipeline:
    """Windows that few partitions may enter at once, of ordered functions and others."""
    pipeline = dp.Pipeline("site")
    days = pipeline.source("days", key="day date, id bigint", value="m bigint, n int")
    more = pipeline.source("merged", key="day date, id bigint", value="m bigint, n int")
    two = None if most is None else most + 1
    for name, feeder, window in (
        ("last", days, dp.window("day", last=3, max_partitions=most)),
        ("since", dp.merge(days, more), dp.window("day", start=FIRST, max_partitions=two)),
    ):
        pipeline.aggregate(name, feeder, key="m", values=values, window=window)
    return pipeline


@pytest.mark.parametrize(
    ("way", "seed"),
    some(
        [(way, n) for n, way in enumerate(WAYS)],
        lambda way, _: way in ("runs, often folded, anew", "in parts, moved"),
    ),
)
def test_ordered_functions_catch_up_with_the_others(
    location: str, seed: int, limits: dp.Limits, long_run: bool
) -> None:
    """After each of the versions of an update they are of the partitions that are in the window."""
    pipeline = limited_site(VALUES)
    oracle = Oracle(pipeline)
    with dp.Store(None, location, pipeline, limits=limits) as store:
        series = history(130 + seed)[: VERSIONS if long_run else SHORT]
        for batch, told in series:
            batch = {name: batch[name] for name in ("days", "merged") if name in batch}
            if "partitions" in told:
                told["partitions"] = {"days": told["partitions"]["days"]}
            version = store.update(as_rows(pipeline, batch), **told)
            assert version.number == oracle.update(batch, **told)
        assert version.number > len(series)
        assert_same_here(store, oracle, pipeline, range(version.number + 1))
        store.rollback(version.number // 2)
        oracle.rollback(version.number // 2)
        assert store.update(as_rows(pipeline, batch)).number == oracle.update(batch)
        assert_same_here(store, oracle, pipeline, range(version.number, oracle.head + 1))
        assert store.verify(recompute=True) == ()


DAYS = {"events": [date(2013, 3, n) for n in (1, 2, 3)]}


@pytest.mark.parametrize("given", [{"last": 3}, {"start": "2013-03-01", "end": "2013-03-09"}])
@pytest.mark.parametrize(
    "told",
    [
        [{"partitions": DAYS}],
        pytest.param([{"as_of": "2013-03-05"}, {"as_of": "2013-03-02"}], marks=long),
        pytest.param([{}], marks=long),
        [{"as_of": "2013-03-05"}, {"partitions": DAYS}, {"as_of": None}],
    ],
)
def test_a_limited_window_catches_up_before_there_is_a_row(
    location: str, given: dict[str, Any], told: list[dict[str, Any]]
) -> None:
    """It begins when a partition is there; rows of those that it has reached count at once."""
    pipeline = limited_views(max_partitions=1, **given)
    oracle = Oracle(pipeline)
    with dp.Store(None, location, pipeline) as store:
        for one in told:
            assert store.update({}, **one).number == oracle.update({}, **one)
        rows = {"events": [Upsert((date(2013, 3, n), 1), (n,)) for n in (1, 2, 3, 4)]}
        assert store.update(as_rows(pipeline, rows)).number == oracle.update(rows)
        assert_same_here(store, oracle, pipeline, range(1, oracle.head + 1))
        assert store.rollback(1).number == oracle.rollback(1)
        assert store.update(as_rows(pipeline, rows)).number == oracle.update(rows)
        assert_same_here(store, oracle, pipeline, range(1, oracle.head + 1))
        assert store.verify(recompute=True) == ()


def test_a_limited_window_without_rows_begins_anew_with_another_definition(location: str) -> None:
    with dp.Store(None, location, limited_views(start="2013-03-01", max_partitions=3)) as store:
        assert store.update({}, partitions=DAYS).number == 2
    with dp.Store(None, location, limited_views(start="2013-03-02", max_partitions=1)) as store:
        first = store.update({"events": day(3, [1])}).number
        windows = [
            version.stages["views"].window or dp.WindowMove() for version in store.versions()
        ]
        assert [move.last and move.last.day for move in windows] == [None, 3, None, 2, 3]
        assert first == store.head.number
        assert counts(store, "views") == {1: 1}


def limited_views(**given: Any) -> dp.Pipeline:
    """An ordered function and another in a window that few partitions may enter at once."""
    pipeline = dp.Pipeline("views")
    pipeline.source("events", key="day date, id bigint", value="member_id bigint")
    values = {"n": agg.count(), "least": agg.min("id")}
    window = dp.window("day", **given)
    pipeline.aggregate("views", "events", key="member_id", values=values, window=window)
    return pipeline


def test_what_an_ordered_function_is_answered_from_begins_anew_with_it(location: str) -> None:
    """On the way of a window that few partitions may enter: all of its stages are where it is."""
    least, more = (
        {"least": agg.min("n")},
        {"least": agg.min("n"), "kinds": agg.count_distinct("id")},
    )
    rows = [
        {"day": FIRST + timedelta(days=number), "id": n, "m": n % 2, "n": n - number}
        for number in range(6)
        for n in range(3)
    ]
    defined = [(more, 1), (least, 2), (least, None), (more, None), ({**more, "n": agg.sum("n")}, 2)]
    with dp.Store(None, location, limited_site(least)) as store:
        store.update({"days": rows})
        store.rollback(4)
    for values, most in defined:
        with dp.Store(None, location, limited_site(values, most)) as store:
            first = store.head.number + 1
            last = store.update().number
            for version in store.versions()[first - 1 : last]:
                for name in ("last", "since"):
                    move = version.stages[name].window
                    assert move is not None
                    inside = [r for r in rows if move.first and move.first <= r["day"] <= move.last]
                    of_each = {m: [r for r in inside if r["m"] == m] for m in (0, 1) if inside}
                    found = store.content(name, version.number, ordered=True).to_pylist()
                    assert [(row["m"], row["least"]) for row in found] == [
                        (m, min(r["n"] for r in some)) for m, some in of_each.items()
                    ]
                    assert [row["kinds"] for row in found if "kinds" in row] == [
                        len({r["id"] for r in some})
                        for some in of_each.values()
                        if "kinds" in values
                    ]
            assert store.verify(recompute=True) == ()
            if most == 1:
                assert last - first == 6  # one for each day
                store.rollback(last - 1)  # on the way


def test_versions_before_one_that_fails_stay(location: str) -> None:
    pipeline = views(dp.window("day", start="2013-03-01", max_partitions=1))
    rows = [row for number in range(1, 4) for row in day(number, [number])]
    store = dp.Store(None, location, pipeline)

    class CrashedError(Exception):
        pass

    def crash(when: str, name: str, table: str) -> None:
        if (when, name) == ("before", "publish") and store.head.number == 2:
            raise CrashedError

    with failpoints.armed(crash), pytest.raises(CrashedError):
        store.update({"events": rows}, "some")
    assert store.head.number == 2
    assert counts(store) == {1: 1}
    version = dp.Store(None, location, pipeline).update({"events": rows}, "some")
    assert (version.number, version.update_id) == (4, "some")
    assert counts(store) == {1: 1, 2: 1, 3: 1}


def test_holes_are_looked_for_where_a_limited_window_is_to_be(location: str) -> None:
    window = dp.window("day", start="2013-03-01", max_partitions=1, on_missing="error")
    store = dp.Store(None, location, views(window))
    with pytest.raises(dp.MissingPartitionsError) as caught:
        store.update({"events": [row for number in (1, 2, 4) for row in day(number, [1])]})
    assert caught.value.partitions == (date(2013, 3, 3),)
    assert store.head.number == 0


def test_windows_end_on_the_day_of_a_time(location: str) -> None:
    with dp.Store(None, location, views(dp.window("day", last=2))) as store:
        store.update({"events": [*day(4, [1]), *day(5, [2])]})
        evening = datetime(2013, 3, 4, 23, tzinfo=timezone(timedelta(hours=-2)))
        for time, end in ((datetime(2013, 3, 4, 15), 4), (evening, 5)):
            version = store.update({}, as_of=time)
            move = version.stages["views_0"].window
            assert move is not None
            assert version.as_of == move.last == date(2013, 3, end)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("as_of", "yesterday"),
        ("as_of", 5),
        ("partitions", ["2013-03-15"]),
        ("partitions", {"events": "2013-03-15"}),
        ("partitions", {"events": [5]}),
        ("partitions", {"events": ["x"]}),
        ("partitions", {"events": {"id": [5]}}),
        ("partitions", {"others": [5]}),
    ],
)
def test_what_is_no_day_or_partition_is_refused(location: str, argument: str, value: Any) -> None:
    pipeline = views(dp.window("day", last=2))
    pipeline.source("others", key="n int", value="m int")
    store = dp.Store(None, location, pipeline)
    calls: list[Any] = [partial(store.update, {}), partial(store.load, {}), store.plan]
    for call in calls:
        with pytest.raises(dp.InvalidArgumentError) as caught:
            call(**{argument: value})
        assert caught.value.argument == argument
    with pytest.raises(dp.NotFoundError):
        store.update({}, partitions={"none": []})
    assert store.head.number == 0


def test_which_source_column_partitions_are_of_is_said_where_windows_are_over_several(
    location: str,
) -> None:
    pipeline = views(dp.window("day", last=1), dp.window("id", last=1, step=10))
    store = dp.Store(None, location, pipeline)
    with pytest.raises(dp.InvalidArgumentError):
        store.update({}, partitions={"events": ["2013-03-15"]})
    store.update({"events": FIFTEENTH}, partitions={"events": {"id": [27]}})
    assert (counts(store), counts(store, 1)) == ({1: 3, 2: 1, 3: 2}, {})


def test_a_window_that_is_defined_later_knows_what_there_is(location: str) -> None:
    dp.Store(None, location, views()).update({"events": FIFTEENTH + SIXTEENTH})
    store = dp.Store(None, location, views(dp.window("day", last=1)))
    assert store.update().stages["views_0"].mode == "full"
    assert counts(store) == {1: 2, 2: 2, 3: 1}
    changed = dp.Store(None, location, views(dp.window("day", last=2)))
    assert changed.update().stages["views_0"].mode == "full"
    assert counts(changed) == {1: 5, 2: 3, 3: 3}
    assert changed.verify(recompute=True) == ()


def test_a_feeder_is_in_order_when_no_window_is_over_it_any_more(location: str) -> None:
    """It stays as the window had it until it is written whole."""
    key = "id bigint, day date"
    with dp.Store(None, location, views(dp.window("day", last=1), key=key)) as store:
        store.update({"events": FIFTEENTH + SIXTEENTH})
    with dp.Store(None, location, views(key=key), limits=RUNS) as store:
        store.update({"events": [{"id": 1, "day": date(2013, 3, 15), "_change_type": "delete"}]})
        assert store.verify() == ()


def test_the_lineage_of_a_window_ends_where_it_does(location: str) -> None:
    store = dp.Store(None, location, views(dp.window("day", last=1)))
    store.update({"events": FIFTEENTH + SIXTEENTH})
    up = store.lineage("views_0", 3).upstream["events"].to_pylist()
    assert up == [{"day": date(2013, 3, 16), "id": 4}]
    down = [
        store.lineage("events", (date(2013, 3, n), 0)).downstream["views_0"].to_pylist()
        for n in (15, 16)
    ]
    assert down == [[], [{"member_id": 1}]]


def test_versions_say_where_windows_are_as_json(location: str) -> None:
    store = dp.Store(None, location, views(dp.window("day", last=1)))
    told = store.update({"events": FIFTEENTH}).as_dict()["stages"]
    assert told["views_0"]["window"] == {
        "first": "2013-03-15",
        "last": "2013-03-15",
        "entered": ["2013-03-15"],
        "left": [],
        "reused": False,
        "why": "first version of this stage",
    }
    assert "window" not in told["events"]
