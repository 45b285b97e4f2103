"""The library's own sessions follow the settings of another session, and add their own."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import pytest
from forcing import WAYS, forced, setting
from pyspark.sql import SparkSession
from pyspark.sql.conf import RuntimeConfig

from deltaproduce import Pipeline, SessionError, Store
from deltaproduce.engines.spark.columns import of, same
from deltaproduce.engines.spark.sessions import settings
from deltaproduce.engines.spark.sessions.settings import Sessions
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import LongType

THRESHOLD = "spark.sql.execution.arrow.localRelationThreshold"
ZONE = "spark.sql.session.timeZone"
OWN = "fs.someone.elses"
PATTERNS = "spark.sql.parser.quotedRegexColumnNames"


def test_settings_are_restored_whatever_happens(spark: SparkSession) -> None:
    def block() -> Iterator[None]:
        with settings.temporary(spark, {THRESHOLD: "1", OWN: "2"}):
            assert spark.conf.get(THRESHOLD) == "1"
            assert spark.conf.get(OWN) == "2"
            raise OSError("in the block")
        yield

    before = spark.conf.get(THRESHOLD)
    with pytest.raises(OSError, match="in the block"):
        next(block())
    assert spark.conf.get(THRESHOLD) == before
    assert spark.conf.get(OWN, None) is None


def test_a_session_follows_what_is_set_and_unset(spark: SparkSession) -> None:
    sessions = Sessions(spark)
    followed = setting(spark, ZONE, "Asia/Tokyo"), settings.temporary(spark, {OWN: "1"})
    with followed[0], followed[1], sessions.one() as first:
        assert first.conf.get(ZONE) == "Asia/Tokyo"
        assert first.conf.get(OWN) == "1"
        with sessions.one() as second:
            assert second is not first
    found = {}
    for _ in range(2):
        with sessions.one() as session:
            found[session] = session.conf.get(ZONE), session.conf.get(OWN, None)
    assert found == {first: (spark.conf.get(ZONE), None)}


def test_what_is_set_beside_them_is_the_users_nowhere(spark: SparkSession) -> None:
    sessions, before = Sessions(spark, {ZONE: "Asia/Tokyo", OWN: "1"}), spark.conf.getAll
    for block in (nullcontext(), sessions.read_once()):
        with block, sessions.one() as session:
            assert (session.conf.get(ZONE), session.conf.get(OWN)) == ("Asia/Tokyo", "1")
    assert spark.conf.getAll == before


def test_rows_are_handed_over_to_another_session(spark: SparkSession) -> None:
    session = spark.newSession()
    rows = spark.range(5).localCheckpoint().where("id > 2")
    with settings.handed_over(rows, session) as found, settings.handed_over(found, session) as same:
        assert found.sparkSession is session
        assert same is found
        assert [row.id for row in found.collect()] == [3, 4]
    assert [row.id for row in found.collect()] == [3, 4]
    assert not spark.sql("SHOW VIEWS IN global_temp").where("viewName LIKE 'deltaproduce%'").count()


def numbered(values: str) -> Pipeline:
    """Stages whose steps in Spark join frames, replace rows by their keys, and run a query."""
    pipeline = Pipeline("shop")
    orders = pipeline.source("orders", key="id int", value=values)

    @pipeline.producer(orders, key="customer int", value="no bigint", surrogate="no")
    def customers(_: int, values: Any) -> Iterator[tuple[int, None]]:
        for value in values:
            yield value[0], None

    @pipeline.producer(
        orders, key="id int", value="n int", preserve=lambda value, old: min(value, old or value)
    )
    def least(key: int, values: Any) -> Iterator[tuple[int, int]]:
        for value in values:
            yield key, value[1]

    pipeline.sql("more", "SELECT id, `customer` + 1 AS `next` FROM orders", key="id")
    return pipeline


def test_frames_are_joined_by_names_whatever_a_session_takes_them_for(spark: SparkSession) -> None:
    key = [Column("a-b", LongType()), Column("_n", LongType())]
    one = spark.range(3).selectExpr("id", "id % 2").toDF("a-b", "_n")
    other = spark.range(1, 5).selectExpr("id", "id % 2").toDF("a-b", "_n")
    with setting(spark, PATTERNS, "true"):
        joined = one.join(other, same(one, other, key)).select(of(other, "a-b"), of(one, "_n"))
        assert sorted(map(tuple, joined.collect())) == [(1, 1), (2, 0)]


@pytest.mark.long
def test_quoted_names_are_names_whatever_a_session_takes_them_for(
    spark: SparkSession, location: str
) -> None:
    (way,) = [way for way in WAYS if way.name == "in Spark, joined"]
    pipeline = numbered("customer int, n int")
    with setting(spark, PATTERNS, "true"), forced(way):
        store = Store(spark, location, pipeline)
        for n in (5, 7):
            rows = [(i, i % 3, n + i) for i in range(6)]
            store.update({"orders": spark.createDataFrame(rows, "id int, customer int, n int")})
        found = {
            name: sorted(map(tuple, store.content(name).select(*columns).collect()))
            for name, columns in {
                "customers": ("customer", "no"),
                "least": ("id", "n"),
                "more": ("id", "next"),
            }.items()
        }
        assert store.verify() == ()
    assert {customer for customer, _ in found["customers"]} == {0, 1, 2}
    assert {number for _, number in found["customers"]} == {1, 2, 3}
    assert found["least"] == [(i, 5 + i) for i in range(6)]
    assert found["more"] == [(i, i % 3 + 1) for i in range(6)]


def test_names_that_a_session_takes_for_patterns_are_told(
    spark: SparkSession, location: str
) -> None:
    pipeline = Pipeline("shop")
    pipeline.source("orders", key="id int", value="`a-b` int")
    with setting(spark, PATTERNS, "true"):
        store = Store(spark, location, pipeline)
        frame = spark.sql("SELECT 1 AS id, 2 AS b").toDF("id", "a-b")
        with pytest.raises(SessionError, match=f"spark.conf.unset.'{PATTERNS}'"):
            store.update({"orders": frame})
        store.update({"orders": [{"id": 1, "a-b": 2}]})
    store.update({"orders": frame})
    assert store.head.number == 1


def test_what_cannot_be_set_is_left(spark: SparkSession) -> None:
    static = "spark.sql.warehouse.dir"
    before = spark.newSession().conf.get(static)
    wanted = {static: "elsewhere", OWN: "1"}
    settings.follow(session := spark.newSession(), session.conf.getAll, wanted)
    assert session.conf.get(static) == before
    assert session.conf.get(OWN) == "1"


def test_a_session_in_which_something_failed_is_not_used_again(spark: SparkSession) -> None:
    sessions = Sessions(spark)
    with pytest.raises(OSError, match="disk"), sessions.one() as failed:
        raise OSError("disk")
    with sessions.one() as session:
        assert session is not failed


def test_in_a_block_settings_are_read_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions, reads = Sessions(spark), []
    read = RuntimeConfig.getAll.fget

    def counting(conf: RuntimeConfig) -> dict[str, str]:
        reads.append(conf)
        return read(conf)

    monkeypatch.setattr(RuntimeConfig, "getAll", property(counting))

    def use(_: int) -> str:
        with sessions.one() as session:
            return session.conf.get(OWN)

    for value in ("1", "2"):
        with settings.temporary(spark, {OWN: value}), sessions.read_once():
            with ThreadPoolExecutor(4) as pool:
                assert list(pool.map(use, range(8))) == [value] * 8
            assert reads.count(spark.conf) == 1
            reads.clear()
    with settings.temporary(spark, {OWN: "3"}):
        assert use(0) == "3"


def test_the_active_session_stays_what_it_was(spark: SparkSession) -> None:
    """Whichever session makes a frame becomes active in its thread; ours must not stay so."""
    spark.createDataFrame([(1,)], "n int")
    with Sessions(spark).one() as session:
        session.createDataFrame([(1,)], "n int")
        assert SparkSession.active() is session
    assert SparkSession.active() is spark
