"""A store computes in its own time zone in Spark, whatever the zone of the session is."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from forcing import setting
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from selecting import long

import deltaproduce as dp
from deltaproduce.times.zones import zone_of

KEY = "spark.sql.session.timeZone"
ZONE = "America/St_Johns"
SESSIONS = ("Asia/Kolkata", ZONE, "America/New_York")
NIGHT = datetime(2026, 3, 8, 6, tzinfo=UTC)
"""Its clocks go forward half an hour before."""
IN_SPARK = dp.Limits(small_table_rows=0, replaced_percent=900, group_rows=2, local_rows=0)


TURNS = (
    ("Pacific/Kiritimati", None),
    ("UTC", SESSIONS[0]),
    ("America/Los_Angeles", None),
    ("Asia/Kathmandu", SESSIONS[2]),
    ("UTC", None),
    ("Pacific/Kiritimati", SESSIONS[1]),
)
"""The zone of the machine, and of the session; None if there is no session."""

Orders = dict[tuple[int, datetime], int]
"""Numbers and times -> amounts."""


def shop(*, by_spark_only: bool = True) -> dp.Pipeline:
    """Stages whose expressions the driver computes; and an expression and a query of Spark."""
    pipeline = dp.Pipeline("shop")
    orders = pipeline.source("orders", key="order_id bigint, at timestamp", value="amount bigint")
    pipeline.aggregate("by_day", orders, key="date(at) AS day", values={"n": dp.agg.count()})
    pipeline.aggregate(
        "two_days",
        orders,
        key="amount % 3 AS part",
        values={"n": dp.agg.count()},
        window=dp.window("at", last=2),
    )
    if by_spark_only:
        midnight = "date_trunc('day', at) AS at"
        pipeline.aggregate("by_midnight", orders, key=midnight, values={"n": dp.agg.count()})
        pipeline.sql(
            "times",
            "SELECT order_id, at, CAST(at AS string) AS told, hour(at) AS hour FROM orders",
            key="order_id",
        )

    @pipeline.producer(orders, key="hour int", value="order_id bigint")
    def by_hour(key: Any, amounts: Any) -> Any:
        yield from ((key.at.hour, key.order_id) for _ in amounts)

    return pipeline


def rows_of(store: dp.Store, stage: str, *columns: str) -> list[tuple[Any, ...]]:
    content: Any = store.content(stage)
    table = content if isinstance(content, pa.Table) else content.toArrow()
    return sorted(
        tuple(v.astimezone(UTC) if isinstance(v, datetime) else v for v in row.values())
        for row in table.select(list(columns)).to_pylist()
    )


def drawn(chance: random.Random, orders: Orders, version: int) -> tuple[Orders, list[Any]]:
    """Eight new orders around the night, and the keys of a quarter of those that there are."""
    new = {
        (n, NIGHT + timedelta(minutes=chance.randrange(-3000, 3000))): chance.randrange(99)
        for n in range(version * 8, version * 8 + 8)
    }
    return new, chance.sample(sorted(orders), len(orders) // 4)


def as_frame(spark: SparkSession, new: Orders, gone: list[Any]) -> DataFrame:
    rows = [(n, int(at.timestamp()), amount, "upsert") for (n, at), amount in new.items()]
    rows += [(n, int(at.timestamp()), None, "delete") for n, at in gone]
    columns = "order_id bigint, at bigint, amount bigint, _change_type string"
    return spark.createDataFrame(rows, columns).withColumn("at", f.timestamp_seconds("at"))


def as_dicts(new: Orders, gone: list[Any]) -> list[dict[str, Any]]:
    rows = [{"order_id": n, "at": at, "amount": amount} for (n, at), amount in new.items()]
    return rows + [{"order_id": n, "at": at, "_change_type": "delete"} for n, at in gone]


def expected(orders: Orders, ever: list[datetime]) -> dict[str, Any]:
    clock = zone_of(ZONE)
    local = {key: key[1].astimezone(clock) for key in orders}
    newest = max(at.astimezone(clock).date() for at in ever)
    window = (newest, newest - timedelta(days=1))
    midnights = (
        at.replace(hour=0, minute=0, second=0, fold=0).astimezone(UTC) for at in local.values()
    )
    return {
        "by_day": sorted(Counter(at.date() for at in local.values()).items()),
        "by_midnight": sorted(Counter(midnights).items()),
        "two_days": sorted(
            Counter(n % 3 for key, n in orders.items() if local[key].date() in window).items()
        ),
        "times": sorted((n, f"{local[n, at]:%F %T}", local[n, at].hour) for n, at in orders),
        "by_hour": sorted((local[n, at].hour, n) for n, at in orders),
    }


COLUMNS = {
    "by_day": ("day", "n"),
    "by_midnight": ("at", "n"),
    "two_days": ("part", "n"),
    "times": ("order_id", "told", "hour"),
    "by_hour": ("hour", "order_id"),
}


def assert_right(store: dp.Store, orders: Orders, ever: list[datetime]) -> None:
    """All stages have what the store's clock says; the orders had these times in any version."""
    wanted, stages = expected(orders, ever), {stage.name for stage in store._opened.defined}
    for name in COLUMNS.keys() & stages:
        assert rows_of(store, name, *COLUMNS[name]) == wanted[name], name


@long
@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(dp.Limits(), id="on the driver"),
        pytest.param(IN_SPARK, id="in Spark", marks=pytest.mark.long),
    ],
)
def test_sessions_of_other_zones_compute_in_the_stores(
    spark: SparkSession, tmp_path: Path, limits: dp.Limits, long_run: bool
) -> None:
    """After any changes in sessions of any zones, all stages have what the store's clock says.

    A short run leaves out the session that has the store's zone, as those of other tests do.
    """
    chance = random.Random(1)
    orders, ever = Orders(), list[datetime]()
    sessions = SESSIONS if long_run else (SESSIONS[0], SESSIONS[2])
    for version, zone in enumerate(sessions):
        with setting(spark, KEY, zone):
            named = ZONE if not version else None
            store = dp.Store(spark, tmp_path / "store", shop(), limits=limits, time_zone=named)
            new, gone = drawn(chance, orders, version)
            orders = {key: n for key, n in {**orders, **new}.items() if key not in gone}
            ever += [at for _, at in new]
            store.update({"orders": as_frame(spark, new, gone)})
            assert store.time_zone == store.head.time_zone == ZONE
            assert spark.conf.get(KEY) == zone
            assert SparkSession.getActiveSession() is spark
            assert_right(store, orders, ever)
            if zone != ZONE:
                local = {key: key[1].astimezone(zone_of(ZONE)).date() for key in orders}
                day = chance.choice(sorted(local.values()))
                keys = store.lineage("by_day", day).upstream["orders"].collect()
                made = sorted(n for (n, at), of in local.items() if of == day)
                assert sorted(key.order_id for key in keys) == made
            if version == len(sessions) - 1:
                assert store.verify(recompute=True) == ()
            store.close()


@long
def test_engines_in_turn_compute_in_the_stores(
    spark: SparkSession, tmp_path: Path, machine: Callable[[str], None]
) -> None:
    """After any changes by either engine, on machines and in sessions of any zones, the same."""
    chance, turns = random.Random(2), TURNS
    orders, ever = Orders(), list[datetime]()
    for version, (home, zone) in enumerate(turns):
        machine(home)
        new, gone = drawn(chance, orders, version)
        orders = {key: n for key, n in {**orders, **new}.items() if key not in gone}
        ever += [at for _, at in new]
        with (
            nullcontext() if zone is None else setting(spark, KEY, zone),
            dp.Store(
                None if zone is None else spark,
                tmp_path / "store",
                shop(by_spark_only=False),
                limits=dp.Limits() if zone is None else IN_SPARK,
                time_zone=None if version else ZONE,
            ) as store,
        ):
            store.update(
                {"orders": as_dicts(new, gone) if zone is None else as_frame(spark, new, gone)}
            )
            assert store.time_zone == store.head.time_zone == ZONE
            assert_right(store, orders, ever)
            assert store.verify(recompute=True) == ()


def test_what_a_user_has_computed_is_in_the_zone_of_the_session(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A DataFrame means what its own session says; a new store has the session's zone."""
    pipeline = dp.Pipeline("shop")
    source = pipeline.source("orders", key="id bigint", value="day date, at timestamp")
    pipeline.aggregate("by_day", source, key="date(at) AS day", values={"n": dp.agg.count()})
    with setting(spark, KEY, "Asia/Tokyo"):
        given = spark.range(1).selectExpr(
            "id", "date(timestamp_seconds(61200)) AS day", "timestamp'1970-01-02 02:00:00' AS at"
        )
        with dp.Store(spark, tmp_path / "new", pipeline) as store:
            assert store.time_zone == "Asia/Tokyo"
        with dp.Store(spark, tmp_path / "store", pipeline, time_zone="UTC") as store:
            store.update({"orders": given})
            assert [str(day) for day, _ in rows_of(store, "orders", "day", "id")] == ["1970-01-02"]
            assert [str(day) for (day,) in rows_of(store, "by_day", "day")] == ["1970-01-01"]
            assert store.content("orders").sparkSession is spark
