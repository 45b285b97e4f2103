"""A store computes in its own time zone in Spark, whatever the zone of the session is."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from forcing import setting
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import deltaproduce as dp
from deltaproduce.times.zones import zone_of

KEY = "spark.sql.session.timeZone"
ZONE = "America/St_Johns"
SESSIONS = ("Asia/Kolkata", ZONE, "America/New_York")
NIGHT = datetime(2026, 3, 8, 6, tzinfo=UTC)
"""Its clocks go forward half an hour before."""
IN_SPARK = dp.Limits(small_table_rows=0, group_rows=2, local_rows=0)


def shop() -> dp.Pipeline:
    """Stages whose expressions and query the driver computes, and that only Spark computes."""
    pipeline = dp.Pipeline("shop")
    orders = pipeline.source("orders", key="order_id bigint, at timestamp", value="amount bigint")
    pipeline.aggregate("by_day", orders, key="date(at) AS day", values={"n": dp.agg.count()})
    pipeline.aggregate(
        "by_midnight", orders, key="date_trunc('day', at) AS at", values={"n": dp.agg.count()}
    )
    pipeline.aggregate(
        "two_days",
        orders,
        key="amount % 3 AS part",
        values={"n": dp.agg.count()},
        window=dp.window("at", last=2),
    )
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
    table = content.toArrow().select(list(columns))
    return sorted(
        tuple(v.astimezone(UTC) if isinstance(v, datetime) else v for v in row.values())
        for row in table.to_pylist()
    )


def expected(orders: dict[tuple[int, datetime], int], ever: list[datetime]) -> dict[str, Any]:
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


def found(store: dp.Store) -> dict[str, Any]:
    return {
        "by_day": rows_of(store, "by_day", "day", "n"),
        "by_midnight": rows_of(store, "by_midnight", "at", "n"),
        "two_days": rows_of(store, "two_days", "part", "n"),
        "times": rows_of(store, "times", "order_id", "told", "hour"),
        "by_hour": rows_of(store, "by_hour", "hour", "order_id"),
    }


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(dp.Limits(), id="on the driver"),
        pytest.param(IN_SPARK, id="in Spark", marks=pytest.mark.long),
    ],
)
def test_sessions_of_other_zones_compute_in_the_stores(
    spark: SparkSession, tmp_path: Path, limits: dp.Limits
) -> None:
    """After any changes in sessions of any zones, all stages have what the store's clock says."""
    chance = random.Random(1)
    orders, ever = dict[tuple[int, datetime], int](), list[datetime]()
    for version, zone in enumerate(SESSIONS):
        with setting(spark, KEY, zone):
            named = ZONE if not version else None
            store = dp.Store(spark, tmp_path / "store", shop(), limits=limits, time_zone=named)
            new = {
                (n, NIGHT + timedelta(minutes=chance.randrange(-3000, 3000))): chance.randrange(99)
                for n in range(version * 8, version * 8 + 8)
            }
            gone = chance.sample(sorted(orders), len(orders) // 4)
            rows = [(n, int(at.timestamp()), amount, "upsert") for (n, at), amount in new.items()]
            rows += [(n, int(at.timestamp()), None, "delete") for n, at in gone]
            given = spark.createDataFrame(
                rows, "order_id bigint, at bigint, amount bigint, _change_type string"
            ).withColumn("at", f.timestamp_seconds("at"))
            orders = {key: n for key, n in {**orders, **new}.items() if key not in gone}
            ever += [at for _, at in new]
            store.update({"orders": given})
            assert store.time_zone == store.head.time_zone == ZONE
            assert spark.conf.get(KEY) == zone
            assert SparkSession.getActiveSession() is spark
            assert found(store) == expected(orders, ever)
            if version != 1:  # there the session has the store's zone
                local = {key: key[1].astimezone(zone_of(ZONE)).date() for key in orders}
                day = chance.choice(sorted(local.values()))
                keys = store.lineage("by_day", day).upstream["orders"].collect()
                made = sorted(n for (n, at), of in local.items() if of == day)
                assert sorted(key.order_id for key in keys) == made
            if version == len(SESSIONS) - 1:
                assert store.verify(recompute=True) == ()
            store.close()


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
