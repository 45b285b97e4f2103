"""One session, several threads: a user's work and a store's do not affect each other.

DELTAPRODUCE_ROUNDS sets the number of rounds over all ways.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from comparing import assert_same
from crashing import batch, drawn, frames, orders
from forcing import WAYS, Way, forced
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from selecting import long

from deltaproduce import Pipeline, Progress, Store
from deltaproduce.storage import failpoints
from deltaproduce.testing import Oracle

ROUNDS = int(os.environ.get("DELTAPRODUCE_ROUNDS", "1"))
SMALL, LARGE = (next(w for w in WAYS if w.name == name) for name in ("runs", "in Spark, replaced"))
PATH, CATALOG = "path", "catalog"
EVERY = [(place, way) for place in (PATH, CATALOG) for way in (SMALL, LARGE)]


def cases(*short: tuple[str, Way]) -> list[Any]:
    """Places and ways; those not in ``short`` are long, if no rounds are asked for."""
    return [
        pytest.param(place, way, id=f"{place}, {way.name}", marks=() if kept else long)
        for place, way in EVERY
        for kept in [ROUNDS > 1 or (place, way) in short]
    ]


class User:
    """What the user of a session does in it meanwhile, with a Delta table of their own."""

    def __init__(self, spark: SparkSession, table: str) -> None:
        self.spark = spark
        self.table = f"delta.`{table}`"
        self.settings = settings(spark)
        self.rows = 1
        spark.range(1).selectExpr("id", "0 AS part").write.format("delta").save(table)
        self.path = table

    def append(self) -> None:
        """Commit to the table; Delta notes that in the session's settings."""
        rows = self.spark.range(1).selectExpr("id", "0 AS part")
        rows.write.format("delta").mode("append").save(self.path)
        self.rows += 1

    def replace_wrongly(self) -> None:
        """Rows that the predicate does not hold for are refused, as the session's settings say."""
        rows = self.spark.range(1).selectExpr("id", "1 AS part")
        writer = rows.write.format("delta").mode("overwrite").option("replaceWhere", "part = 2")
        with pytest.raises(PySparkException, match="part = 2"):
            writer.save(self.path)

    def check_settings(self) -> None:
        """All settings are as they were, but for what Delta notes of the user's own commits."""
        assert without_notes(settings(self.spark)) == without_notes(self.settings)

    def check_rows(self) -> None:
        """The table has what the user has put there, and nothing was taken for the store's."""
        history = self.spark.sql(f"DESCRIBE HISTORY {self.table}").collect()
        assert all(row.userMetadata is None for row in history)
        assert self.spark.sql(f"SELECT * FROM {self.table}").count() == self.rows

    @contextmanager
    def busy(self) -> Iterator[None]:
        """In a thread, all of it again and again."""
        ended, failures = Event(), list[BaseException]()

        def work() -> None:
            try:
                while not ended.wait(0.1):
                    self.append()
                    self.check_settings()
                    self.replace_wrongly()
            except BaseException as error:  # noqa: BLE001 told below
                failures.append(error)

        thread = Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        assert not failures, failures


def settings(spark: SparkSession) -> frozenset[str]:
    """All settings of a session, with their values, in one call: by name each would be two."""
    told: str = spark.conf._jconf.getAll().mkString("\0")
    return frozenset(told.split("\0"))


def without_notes(settings: frozenset[str]) -> frozenset[str]:
    return frozenset(one for one in settings if "lastCommitVersion" not in one)


@pytest.fixture
def places(place: str, spark: SparkSession, tmp_path: Path) -> Iterator[list[str]]:
    """Where two stores are."""
    if place == "path":
        yield [str(tmp_path / name) for name in ("one", "other")]
        return
    names = ["shared_session_one", "shared_session_other"]
    for name in names:
        spark.sql(f"CREATE SCHEMA {name}")
    try:
        yield names
    finally:
        for name in names:
            spark.sql(f"DROP SCHEMA {name} CASCADE")


def check(spark: SparkSession, place: str, oracle: Oracle, *versions: int) -> None:
    """Another store finds what the oracle says."""
    store = Store(spark, place, orders())
    for number in versions or (oracle.head,):
        assert_same(store, oracle, orders(), number, in_spark="/" not in place)


@pytest.mark.parametrize(("place", "way"), cases((PATH, SMALL)))
def test_two_stores_and_a_user_in_threads_of_one_session(
    spark: SparkSession, places: list[str], tmp_path: Path, way: Way
) -> None:
    user, oracles = User(spark, str(tmp_path / "mine")), [Oracle(orders()) for _ in places]
    stores = [Store(spark, place, orders(), table_type=way.table_type) for place in places]

    def update(number: int, index: int) -> None:
        changes = drawn(2 * number + index)
        version = stores[index].update(frames(spark, changes), f"round {number}")
        assert version.number == oracles[index].update(changes, f"round {number}")
        assert version == stores[index].head

    with forced(way), ThreadPoolExecutor(2) as pool:
        for number in range(max(2, ROUNDS)):
            with user.busy():
                for job in [pool.submit(update, number, index) for index in range(2)]:
                    job.result()
            user.check_settings()
            user.check_rows()
            for place, oracle in zip(places, oracles, strict=True):
                check(spark, place, oracle)


def at_each_effect(does: Callable[[], None]) -> failpoints.Crash:
    """What a thread of the user's does just before and just behind each effect of a store."""
    return lambda *_: does()


def after_effects(does: Callable[[], None], *, most: int) -> failpoints.Crash:
    """What comes behind an effect is before the next one, and half as much.

    Args:
        most: behind how many effects of each kind.
    """
    met = Counter[str]()

    def point(when: failpoints.When, name: str, table: str) -> None:
        del table  # an effect of a kind is made by the same code, whichever table it is on
        met[name] += when == "after"
        if when == "after" and met[name] <= most:
            does()

    return point


@pytest.mark.parametrize(("place", "way"), cases((PATH, SMALL)))
def test_a_commit_of_the_users_around_each_of_ours(
    spark: SparkSession, places: list[str], tmp_path: Path, way: Way, long_run: bool
) -> None:
    """A session's last commit is the user's then, at another delta version than any of ours.

    In a short run behind one of each kind.
    """
    user, oracle, place = User(spark, str(tmp_path / "mine")), Oracle(orders()), places[0]
    store = Store(spark, place, orders(), table_type=way.table_type)
    user.append()
    most = sys.maxsize if long_run else 1
    with forced(way), failpoints.armed(after_effects(user.append, most=most)):
        for number in range(3 if long_run else 2):
            store.update(frames(spark, drawn(number)))
            oracle.update(drawn(number))
        store.rollback(1)
        oracle.rollback(1)
        store.compact()
        store.vacuum(keep_versions=oracle.head - 1)
        store.update(frames(spark, drawn(9)))
        oracle.update(drawn(9))
        user.check_settings()
        check(spark, place, oracle, oracle.head - 1, oracle.head)


@pytest.mark.parametrize(("place", "way"), cases())
def test_who_is_overtaken_while_the_user_commits_has_published_nothing(
    spark: SparkSession, places: list[str], tmp_path: Path, way: Way, long_run: bool
) -> None:
    user, oracle, place = User(spark, str(tmp_path / "mine")), Oracle(orders()), places[0]
    store = Store(spark, place, orders(), on_conflict="retry", table_type=way.table_type)
    other, overtaken = Store(spark, place, orders(), table_type=way.table_type), list[str]()

    append = after_effects(user.append, most=sys.maxsize if long_run else 2)

    def overtake(when: failpoints.When, name: str, table: str) -> None:
        append(when, name, table)
        if (when, name) == ("before", "publish") and not overtaken:
            overtaken.append(table)
            with failpoints.armed(lambda *_: None):
                other.update(frames(spark, batch((9, 9, 9))), "other")

    store.update(frames(spark, drawn(0)))
    oracle.update(drawn(0))
    with forced(way), failpoints.armed(overtake):
        version = store.update(frames(spark, drawn(1)), "mine")
    oracle.update(batch((9, 9, 9)), "other")
    assert version.number == oracle.update(drawn(1), "mine") == 3
    assert [found.update_id for found in other.versions()] == [None, "other", "mine"]
    check(spark, place, oracle)


def test_the_settings_are_the_users_all_the_time(spark: SparkSession, location: str) -> None:
    """Those that a user without a Delta table of their own sees at each effect: not one is new."""
    before, seen = settings(spark), list[frozenset[str]]()

    def look(_: Progress) -> None:
        seen.append(settings(spark))

    store = Store(spark, location, orders(), progress=look)
    with failpoints.armed(at_each_effect(lambda: seen.append(settings(spark)))):
        for number in range(2):
            store.update(frames(spark, drawn(number)))
        store.rollback(1)
        store.compact()
        store.vacuum(keep_versions=1)
    assert len(seen) > 20
    assert all(found == before for found in seen)
    assert settings(spark) == before


def test_no_view_is_left(spark: SparkSession, location: str) -> None:
    store = Store(spark, location, orders())
    names = _views(spark)
    with forced(LARGE):
        store.update(frames(spark, drawn(0)))
        store.vacuum(keep_versions=1)
    assert _views(spark) == names
    assert not spark.sql("SHOW VIEWS IN global_temp").where("namespace <> ''").count()


def _views(spark: SparkSession) -> list[str]:
    """The session's temporary views; its tables, which other tests have left, are not looked at."""
    return [row.viewName for row in spark.sql("SHOW VIEWS").where("isTemporary").collect()]


@long
@pytest.mark.parametrize("place", ["catalog"])
def test_names_mean_what_they_meant_when_the_store_was_opened(
    spark: SparkSession, places: list[str]
) -> None:
    """Whichever schema a thread of the session makes the current one."""
    one, other = places
    for schema, row in ((one, "(1, 7)"), (other, "(2, 8)")):
        spark.sql(f"CREATE TABLE {schema}.arrived (id bigint, amount bigint) USING delta")
        spark.sql(f"INSERT INTO {schema}.arrived VALUES {row}")
    pipeline = Pipeline("named")
    pipeline.delta_source("arrivals", table="arrived", key="id")
    before = spark.catalog.currentDatabase()
    try:
        spark.sql(f"USE {one}")
        store = Store(spark, one, pipeline)
        spark.sql(f"USE {other}")
        store.update()
        spark.sql(f"INSERT INTO {one}.arrived VALUES (3, 9)")
        assert store.update().number == 2
        found = store.content("arrivals", ordered=True).select("id", "amount").collect()
    finally:
        spark.sql(f"USE {before}")
    assert [tuple(row) for row in found] == [(1, 7), (3, 9)]
