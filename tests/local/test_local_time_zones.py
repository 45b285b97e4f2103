"""A store computes in one time zone, whatever the zone of the machine is, without a session."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import deltaproduce as dp
from deltaproduce.times.zones import zone_of

ZONES = (
    "America/New_York",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "-03:30",
)
MACHINES = ("Pacific/Kiritimati", "UTC", "America/Los_Angeles")
NIGHTS = (
    datetime(2006, 10, 29, 3, tzinfo=UTC),
    datetime(2018, 2, 18, 2, tzinfo=UTC),
    datetime(2018, 11, 4, 3, tzinfo=UTC),
    datetime(2026, 3, 8, 7, tzinfo=UTC),
    datetime(2026, 4, 4, 15, tzinfo=UTC),
    datetime(2045, 7, 1, 4, tzinfo=UTC),
)
"""Clocks are changed in these nights, or show summer time that Arrow does not know."""


def shop() -> dp.Pipeline:
    pipeline = dp.Pipeline("shop")
    orders = pipeline.source("orders", key="order_id bigint, at timestamp", value="amount bigint")
    pipeline.aggregate("by_day", orders, key="date(at) AS day", values={"n": dp.agg.count()})
    pipeline.aggregate(
        "by_month", orders, key="date_format(at, 'yyyy-MM') AS month", values={"n": dp.agg.count()}
    )
    pipeline.aggregate("latest", orders, key="amount % 3 AS part", values={"at": dp.agg.max("at")})
    pipeline.aggregate(
        "two_days",
        orders,
        key="amount % 3 AS part",
        values={"n": dp.agg.count()},
        window=dp.window("at", last=2),
    )

    @pipeline.producer(orders, key="hour int", value="order_id bigint")
    def by_hour(key: Any, amounts: Any) -> Any:
        yield from ((key.at.hour, key.order_id) for _ in amounts)

    return pipeline


def rows_of(store: dp.Store, stage: str, *columns: str) -> list[tuple[Any, ...]]:
    content = store.content(stage)
    return sorted(zip(*(content[name].to_pylist() for name in columns), strict=True))


def expected(
    orders: Mapping[tuple[int, datetime], int], zone: str, ever: Iterable[datetime] = ()
) -> dict[str, Any]:
    """What the stages have, in plain Python.

    Args:
        ever: the times that orders had in any version.
    """
    clock = zone_of(zone)
    days = {key: key[1].astimezone(clock).date() for key in orders}
    newest = max(at.astimezone(clock).date() for at in (*ever, *(at for _, at in orders)))
    window = {newest, newest - timedelta(days=1)}
    return {
        "by_day": sorted(Counter(days.values()).items()),
        "by_month": sorted(Counter(f"{day:%Y-%m}" for day in days.values()).items()),
        "latest": sorted(
            {n % 3: max(at for (_, at), m in orders.items() if m % 3 == n % 3)
             for n in orders.values()}.items()
        ),
        "two_days": sorted(
            Counter(n % 3 for key, n in orders.items() if days[key] in window).items()
        ),
        "by_hour": sorted((at.astimezone(clock).hour, n) for n, at in orders),
    }  # fmt: skip


def found(store: dp.Store) -> dict[str, Any]:
    return {
        "by_day": rows_of(store, "by_day", "day", "n"),
        "by_month": rows_of(store, "by_month", "month", "n"),
        "latest": rows_of(store, "latest", "part", "at"),
        "two_days": rows_of(store, "two_days", "part", "n"),
        "by_hour": rows_of(store, "by_hour", "hour", "order_id"),
    }


def near(chance: random.Random, night: datetime) -> datetime:
    return night + timedelta(minutes=chance.randrange(-2 * 1440, 2 * 1440))


@pytest.mark.parametrize("zone", ZONES)
def test_machines_of_other_zones_compute_in_the_stores(
    zone: str, tmp_path: Path, machine: Any
) -> None:
    """After any series of changes on any machines, stages have what the store's clock says."""
    chance = random.Random(zone)
    night = chance.choice(NIGHTS)
    orders, ever = dict[tuple[int, datetime], int](), list[datetime]()
    for version in range(4):
        machine(MACHINES[version % len(MACHINES)])
        with dp.Store(
            None, tmp_path / "store", shop(), time_zone=zone if not version else None
        ) as store:
            new = {
                (n, near(chance, night)): chance.randrange(100)
                for n in range(version * 12, version * 12 + 12)
            }
            gone = chance.sample(sorted(orders), len(orders) // 4)
            changes = [
                {"order_id": n, "at": at, "amount": amount, "_change_type": "upsert"}
                for (n, at), amount in new.items()
            ] + [
                {"order_id": n, "at": at, "amount": None, "_change_type": "delete"}
                for n, at in gone
            ]
            orders = {k: v for k, v in {**orders, **new}.items() if k not in gone}
            store.update({"orders": changes})
            ever += [at for _, at in new]
            assert found(store) == expected(orders, zone, ever)
            assert store.time_zone == store.head.time_zone == zone
    assert store.verify() == ()
    assert store.verify(recompute=True) == ()


def test_another_zone_is_a_change_of_what_depends_on_it(tmp_path: Path) -> None:
    """The plan says so; the next version computes it again; rollback carries the zone back."""
    orders = {(n, NIGHTS[3] + timedelta(minutes=97 * n)): n for n in range(60)}
    rows = [{"order_id": n, "at": at, "amount": amount} for (n, at), amount in orders.items()]
    place = tmp_path / "store"
    with dp.Store(None, place, shop()) as store:
        store.load({"orders": rows})
        assert store.time_zone == store.head.time_zone == "UTC"
    with dp.Store(None, place, shop(), time_zone="Asia/Kathmandu") as store:
        assert found(store) == expected(orders, "UTC")
        planned = {step.stage.name: step for step in store.plan()}
        assert planned.keys() == {"by_day", "by_month", "two_days", "by_hour"}
        for step in planned.values():
            assert (step.how, step.cause, step.redefined) == ("full", "changed", True)
            assert "'Asia/Kathmandu'" in step.reason
            assert "'UTC'" in step.reason
            assert [(part.part, part.before, part.after) for part in step.altered] == [
                ("time zone", "UTC", "Asia/Kathmandu")
            ]
        version = store.update({})
        assert version.time_zone == "Asia/Kathmandu"
        assert version.stages["latest"].mode == "skipped"
        assert found(store) == expected(orders, "Asia/Kathmandu")
        assert store.verify(recompute=True) == ()
        assert not store.plan()
        assert store.update({}).number == version.number
    with dp.Store(None, place, shop()) as store:
        assert store.time_zone == "Asia/Kathmandu"
        assert store.rollback(1).time_zone == store.time_zone == "UTC"
        assert found(store) == expected(orders, "UTC")
        store.update({"orders": [{**rows[0], "_change_type": "delete"}]})
        del orders[0, rows[0]["at"]]
        assert found(store) == expected(orders, "UTC")
        assert store.head.time_zone == "UTC"


def test_a_zone_that_changes_no_row_is_recorded(tmp_path: Path) -> None:
    pipeline = dp.Pipeline("shop")
    orders = pipeline.source("orders", key="id bigint", value="amount bigint")
    pipeline.aggregate("total", orders, key="", values={"n": dp.agg.sum("amount")})
    with dp.Store(None, tmp_path / "store", pipeline) as store:
        store.load({"orders": [{"id": 1, "amount": 2}]})
    with dp.Store(None, tmp_path / "store", pipeline, time_zone="Europe/Paris") as store:
        assert not store.plan()
        version = store.update({})
        assert (version.number, version.time_zone) == (2, "Europe/Paris")
        assert {one.mode for one in version.stages.values()} == {"skipped"}


def test_a_strict_store_refuses_another_zone(tmp_path: Path) -> None:
    row = {"order_id": 1, "at": NIGHTS[0], "amount": 1}
    with dp.Store(None, tmp_path / "store", shop()) as store:
        store.load({"orders": [row]})
    with (
        dp.Store(None, tmp_path / "store", shop(), policy="strict", time_zone="+01:00") as store,
        pytest.raises(dp.DefinitionError, match=r"\+01:00"),
    ):
        store.update({})
    assert store.head.number == 1


def test_an_unknown_zone_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(dp.InvalidArgumentError, match="'Mars/Olympus'"):
        dp.Store(None, tmp_path / "store", shop(), time_zone="Mars/Olympus")
    assert not (tmp_path / "store").exists()


def test_times_without_a_zone_are_on_the_stores_clock(tmp_path: Path, machine: Any) -> None:
    """One that the clock leaves out is moved forward, as Spark does."""
    machine("Asia/Tokyo")
    given = [datetime(2026, 3, 8, 2, 42), datetime(2026, 7, 1, 0, 30)]
    with dp.Store(None, tmp_path / "store", shop(), time_zone="America/New_York") as store:
        store.load(
            {"orders": [{"order_id": n, "at": at, "amount": n} for n, at in enumerate(given)]}
        )
        assert store.content("orders")["at"].to_pylist() == [
            datetime(2026, 3, 8, 7, 42, tzinfo=UTC),
            datetime(2026, 7, 1, 4, 30, tzinfo=UTC),
        ]
        assert rows_of(store, "by_hour", "hour", "order_id") == [(0, 1), (3, 0)]
        assert store.lookup("orders", [(1, given[1])]).rows.num_rows == 1


def test_tasks_are_those_of_the_stores_days(tmp_path: Path, machine: Any) -> None:
    """A time series has the days of the store's clock, also those of 23 and of 25 hours."""
    machine("Asia/Tokyo")
    pipeline = dp.Pipeline("shop")
    pipeline.source("sales", key="id bigint", value="day string, at timestamp")
    pipeline.partitioned(
        "daily",
        "SELECT id, date_format(at, 'yyyy-MM-dd HH:mm') AS told FROM sales WHERE sales.day = d",
        key="id",
        partition="day = d",
        scopes="FOR t IN timeseries('1 day', 2), LET d = date_format(t, 'yyyy-MM-dd')",
    )
    at = datetime(2026, 3, 8, 6, 30, tzinfo=UTC)
    with dp.Store(None, tmp_path / "store", pipeline, time_zone="America/New_York") as store:
        store.load({"sales": [{"id": 1, "day": "2026-03-08", "at": at}]})
        tasks = store.tasks(as_of="2026-03-09")
        assert [task.partition["day"] for task in tasks] == ["2026-03-09", "2026-03-08"]
        assert [task.scope["t"] for task in tasks] == [
            datetime(2026, 3, 9, 4, tzinfo=UTC),
            datetime(2026, 3, 8, 5, tzinfo=UTC),
        ]
        store.run(as_of="2026-03-09")
        assert rows_of(store, "daily", "id", "told") == [(1, "2026-03-08 01:30")]
        assert {task.state for task in store.tasks()} == {"present"}
    with dp.Store(None, tmp_path / "store", pipeline, time_zone="UTC") as store:
        assert [str(task) for task in store.tasks()] == [str(task) for task in tasks]
        assert {task.state for task in store.tasks()} == {"dirty"}
        store.run(as_of="2026-03-09")
        assert rows_of(store, "daily", "id", "told") == [(1, "2026-03-08 06:30")]


PROCESS = """
import sys
from datetime import datetime, timezone
import deltaproduce as dp

pipeline = dp.Pipeline("shop")
orders = pipeline.source("orders", key="id bigint", value="t timestamp")
pipeline.aggregate("by_day", orders, key="date(t) AS day", values={"n": dp.agg.count()})
with dp.Store(None, sys.argv[1], pipeline, time_zone=sys.argv[2] or None) as store:
    if sys.argv[2]:
        at = [datetime(2026, 7, 1, hour, tzinfo=timezone.utc) for hour in (1, 2, 12)]
        store.load({"orders": [{"id": n, "t": t} for n, t in enumerate(at)]})
    else:
        store.update({"orders": [{"id": 0, "t": None, "_change_type": "delete"}]})
    print([(str(row["day"]), row["n"]) for row in store.content("by_day").to_pylist()])
    assert not store.verify()
"""


def test_processes_of_two_zones_change_the_same_groups(tmp_path: Path) -> None:
    """What one process has loaded is changed by another on a machine with another zone."""

    def told(machine: str, zone: str) -> str:
        command = [sys.executable, "-c", PROCESS, str(tmp_path / "store"), zone]
        env = {**os.environ, "TZ": machine}
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout

    assert told("America/New_York", "America/New_York") == (
        "[('2026-06-30', 2), ('2026-07-01', 1)]\n"
    )
    assert told("UTC", "") == "[('2026-06-30', 1), ('2026-07-01', 1)]\n"
