"""Days of a place: windows and series over the days of a time zone that is not the store's."""

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from local_stores import IN_PARTS, as_rows, assert_same_here
from selecting import some

import deltaproduce as dp
from deltaproduce import agg
from deltaproduce.testing import Delete, Oracle, Upsert

CHICAGO = "America/Chicago"
AROUND = {
    CHICAGO: [datetime(2024, 3, 10), datetime(2024, 11, 3), datetime(1883, 11, 18)],
    "Asia/Kathmandu": [datetime(2024, 3, 10), datetime(1985, 12, 31)],
    "Australia/Lord_Howe": [datetime(2024, 4, 7), datetime(2024, 10, 6)],
    "America/Sao_Paulo": [datetime(2018, 11, 4), datetime(2018, 2, 18)],
    "Pacific/Apia": [datetime(2011, 12, 30)],
}
"""Time zones, and days there on which clocks were changed: over midnight, by half an hour, a day.

Before its time zones were agreed on, Chicago's offset had seconds.
"""
RUNS = dp.Limits(small_table_rows=0, replaced_percent=900, group_rows=3, partition_rows=2)
WAYS = {"small": dp.Limits(), "runs": RUNS, "in parts": IN_PARTS}


def rides(*windows: tuple[str, dp.Window], key: str = "id bigint, at timestamp") -> dp.Pipeline:
    """Rides counted in some windows."""
    pipeline = dp.Pipeline("rides")
    pipeline.source("rides", key=key, value="m bigint")
    for name, window in windows:
        values = {"rows": agg.count(), "least": agg.min("id")}
        pipeline.aggregate(name, "rides", key="m", values=values, window=window)
    return pipeline


@pytest.mark.parametrize(
    ("number", "way"),
    some(((n, w) for w in WAYS for n in range(3)), lambda number, way: number == 0),
)
def test_versions_equal_the_oracle(location: str, number: int, way: str) -> None:
    """Windows of several places, days, weeks and months, over times when clocks are changed."""
    chance = random.Random(31 * number + [*WAYS].index(way))
    zone = chance.choice([*AROUND])
    windows = [
        ("days", dp.window("at", last=2, zone=zone)),
        ("weeks", dp.window("at", last=2, step="week", zone=chance.choice([*AROUND]))),
        ("stores", dp.window("at", last=2)),
        ("months", dp.window("at", last=1, lag=1, step="month", zone=zone)),
    ]
    pipeline = rides(*windows)
    oracle, near = Oracle(pipeline), chance.choice(AROUND[zone])
    known = list[Any]()
    with dp.Store(None, location, pipeline, limits=WAYS[way], time_zone="UTC") as store:
        for version in range(5):
            keys = {(n, moment(chance, near, zone, version)) for n in range(chance.randrange(6))}
            gone = set(chance.sample(known, min(len(known), chance.randrange(3)))) - keys
            known += sorted(keys)
            batch = {
                "rides": [
                    *(Upsert(key, (chance.randrange(3),)) for key in sorted(keys)),
                    *(Delete(key) for key in sorted(gone)),
                ]
            }
            told = chance.choice(
                [
                    {},
                    {"as_of": (near + timedelta(days=version)).date()},
                    {"as_of": near + timedelta(hours=13 * version)},
                    {"as_of": None},
                    {"partitions": {"rides": [near.date() + timedelta(days=version + 1)]}},
                ]
            )
            number_made = oracle.update(batch, **told)
            assert store.update(as_rows(pipeline, batch), **told).number == number_made
        assert_same_here(store, oracle, pipeline, range(store.head.number + 1))
        assert store.verify(recompute=True) == ()


def moment(chance: random.Random, near: datetime, zone: str, version: int) -> datetime:
    """A moment in UTC, often at midnight there or beside it."""
    day = near + timedelta(days=version + chance.randrange(-3, 2))
    midnight = day.replace(tzinfo=ZoneInfo(zone), fold=chance.randrange(2))
    beside = timedelta(
        hours=chance.choice([0, 0, -1, 1, 13]), microseconds=chance.choice([0, 0, -1, 1])
    )
    return (midnight.astimezone(UTC) + beside).replace(tzinfo=None)


def hours(first: datetime, count: int) -> Iterator[dict[str, Any]]:
    """A ride an hour, from a moment in UTC on."""
    for n in range(count):
        yield {"id": n, "at": first + timedelta(hours=n), "m": 0}


@pytest.mark.parametrize(("day", "length"), [("2024-03-10", 23), ("2024-11-03", 25)])
def test_days_have_as_many_hours_as_there(location: str, day: str, length: int) -> None:
    """A ride at midnight is in one day: that which begins."""
    on = date.fromisoformat(day)
    days = [(on + timedelta(days=n)).isoformat() for n in (-1, 0, 1)]
    windows = [
        (f"day_{n}", dp.window("at", start=one, end=one, zone=CHICAGO))
        for n, one in enumerate(days)
    ]
    first = datetime(on.year, on.month, on.day, tzinfo=ZoneInfo(CHICAGO)).astimezone(UTC)
    with dp.Store(None, location, rides(*windows), time_zone="Asia/Tokyo") as store:
        store.update({"rides": [*hours(first - timedelta(hours=30), 100)]})
        found = [store.content(name).column("rows").to_pylist() for name, _ in windows]
        assert found == [[24], [length], [24]]
        least = store.content("day_1").column("least").to_pylist()
        assert least == [30]  # at midnight


def test_days_of_a_place_do_not_depend_on_the_zone_of_the_store(location: str) -> None:
    """Another zone of the store makes windows over its own days again, and no others."""
    windows = [("there", dp.window("at", last=2, zone=CHICAGO)), ("here", dp.window("at", last=2))]
    rows = [*hours(datetime(2024, 3, 8, tzinfo=UTC), 90)]
    with dp.Store(None, location, rides(*windows), time_zone="UTC") as store:
        store.update({"rides": rows})
        before = store.content("there")
    with dp.Store(None, location, rides(*windows), time_zone="Asia/Tokyo") as store:
        assert [step.stage.name for step in store.plan({})] == ["here"]
        version = store.update({})
        assert version.stages["there"].mode == "skipped"
        assert store.content("there").equals(before)
        assert store.verify(recompute=True) == ()


def test_a_date_is_that_of_each_place_and_a_time_an_instant(location: str) -> None:
    """Named partitions, too, are days of each window's own place."""
    there, here = dp.window("at", last=1, zone="Pacific/Auckland"), dp.window("at", last=1)
    rows = [*hours(datetime(2024, 6, 1, tzinfo=UTC), 72)]
    with dp.Store(None, location, rides(("there", there), ("here", here))) as store:
        store.update({"rides": rows}, as_of="2024-06-02")
        assert places(store) == {"there": date(2024, 6, 2), "here": date(2024, 6, 2)}
        store.update({}, as_of=datetime(2024, 6, 2, 13, tzinfo=UTC))
        assert places(store) == {"there": date(2024, 6, 3), "here": date(2024, 6, 2)}
        store.update({}, as_of=None)
        assert places(store) == {"there": date(2024, 6, 4), "here": date(2024, 6, 3)}
        store.update({}, partitions={"rides": ["2024-06-05"]})
        assert places(store) == {"there": date(2024, 6, 5), "here": date(2024, 6, 5)}


def places(store: dp.Store) -> dict[str, Any]:
    windows = {name: figures.window for name, figures in store.head.stages.items()}
    return {name: window.last for name, window in windows.items() if window is not None}


def test_files_end_where_days_of_the_first_window_do(location: str) -> None:
    """The other window reads the files that overlap its days, and no others."""
    windows = [
        ("first", dp.window("at", last=1, zone=CHICAGO)),
        ("second", dp.window("at", last=1, zone="Asia/Kathmandu")),
    ]
    pipeline = rides(*windows, key="at timestamp, id bigint")
    rows = [*hours(datetime(2024, 6, 1, 5, tzinfo=UTC), 24 * 20)]  # from midnight in Chicago
    with dp.Store(None, location, pipeline, limits=RUNS) as store:
        store.update({"rides": rows}, as_of="2024-06-05")
        starts = [start.astimezone(ZoneInfo(CHICAGO)) for start in first_times(location)]
        assert len(starts) == 20
        assert {(start.hour, start.minute) for start in starts} == {(0, 0)}
    with dp.Store(None, location, pipeline, limits=RUNS) as store:
        version = store.update({}, as_of="2024-06-06")
        for name in ("first", "second"):
            assert version.stages[name].rows_read <= 24 * 4 + 2, name
        assert store.verify(recompute=True) == ()


def first_times(location: str) -> Iterable[datetime]:
    from deltalake import DeltaTable

    actions = pa.table(DeltaTable(f"{location}/rides/content").get_add_actions(flatten=True))
    return sorted(actions.column("min.at").to_pylist())


def test_a_source_keeps_days_of_a_place(location: str) -> None:
    """Rows before them are dropped; a window that may reach further is refused."""
    pipeline = dp.Pipeline("kept")
    kept = dp.window("at", last=2, zone=CHICAGO)
    pipeline.source("rides", key="id bigint, at timestamp", value="m bigint", retain=kept)
    with dp.Store(None, location, pipeline) as store:
        store.update({"rides": [*hours(datetime(2024, 6, 1, 5, tzinfo=UTC), 60)]})
        times = [row["at"].astimezone(ZoneInfo(CHICAGO)) for row in content(store, "rides")]
        assert Counter(time.date() for time in times) == {
            date(2024, 6, 2): 24,
            date(2024, 6, 3): 12,
        }
    forgetting = dp.Pipeline("forgetting")
    forgetting.source(
        "rides", key="id bigint, at timestamp", value="m bigint", retain=kept, expire="forget"
    )
    values = {"rows": agg.count()}
    forgetting.aggregate("same", "rides", key="m", values=values, window=kept)
    forgetting.aggregate("less", "rides", key="m", values=values, window=dp.window("at", last=1))
    with pytest.raises(dp.DefinitionError):
        forgetting.aggregate(
            "more", "rides", key="m", values=values, window=dp.window("at", last=2)
        )


def content(store: dp.Store, stage: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = store.content(stage).to_pylist()
    return rows


def test_the_day_of_a_place_is_an_expression(location: str) -> None:
    """In a store in UTC, without a session; and back."""
    pipeline = dp.Pipeline("days")
    pipeline.source("rides", key="id bigint", value="at timestamp")
    pipeline.sql(
        "by_day",
        f"SELECT to_date(from_utc_timestamp(at, '{CHICAGO}')) AS day, count(*) AS rides, "
        f"max(to_utc_timestamp(from_utc_timestamp(at, '{CHICAGO}'), '{CHICAGO}')) AS last "
        "FROM rides GROUP BY 1",
    )
    chance = random.Random(5)
    moments = [
        datetime(1850 + chance.randrange(200), chance.randrange(1, 13), chance.randrange(1, 28))
        + timedelta(seconds=chance.randrange(86_400))
        for _ in range(300)
    ]
    rows = [{"id": n, "at": at.replace(tzinfo=UTC)} for n, at in enumerate(moments)]
    with dp.Store(None, location, pipeline, time_zone="UTC") as store:
        store.update({"rides": rows})
        found = {row["day"]: row["rides"] for row in content(store, "by_day")}
        assert found == Counter(row["at"].astimezone(ZoneInfo(CHICAGO)).date() for row in rows)


def test_tasks_of_the_days_of_a_place(location: str) -> None:
    """A date is that of the place; a day there has its rows, 23 hours of them."""
    pipeline = dp.Pipeline("tasks")
    pipeline.source("rides", key="id bigint", value="at timestamp")
    pipeline.partitioned(
        "daily",
        f"SELECT id, at FROM rides WHERE to_date(from_utc_timestamp(at, '{CHICAGO}')) = to_date(t)",
        key="id",
        partition="day = d",
        scopes=f"FOR t IN timeseries('1 day', 2, '{CHICAGO}'), "
        "LET d = date_format(t, 'yyyy-MM-dd')",
    )
    rows = [
        {"id": row["id"], "at": row["at"]} for row in hours(datetime(2024, 3, 9, tzinfo=UTC), 72)
    ]
    with dp.Store(None, location, pipeline, time_zone="UTC") as store:
        store.update({"rides": rows})
        store.run(as_of="2024-03-11")
        assert Counter(row["day"] for row in content(store, "daily")) == {
            "2024-03-10": 23,
            "2024-03-11": 19,
        }
        tasks = store.tasks(as_of=datetime(2024, 3, 11, 4, tzinfo=UTC))
        assert str(tasks[0]) == "daily/day=2024-03-10"
