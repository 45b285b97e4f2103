"""An update that was cut off continues under its id: no function runs twice for a version."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from comparing import read_by_delta_rs
from crashing import CrashAt, CrashError, Point, Recorder, fail
from limiting import limited
from pyspark.sql import DataFrame, SparkSession
from selecting import chosen

from deltaproduce import Pipeline, Store
from deltaproduce.storage import failpoints

ROWS = [(1, 10), (2, 20), (3, 30)]
MORE = [(1, 11), (4, 40)]
FUNCTIONS = {"drawn", "again", "joined"}


@pytest.fixture(autouse=True)
def one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltaproduce.operations.publisher._WRITERS", 1)


def dice(calls: Path) -> Pipeline:
    """Stages that draw at random, one from the other; each call of a function leaves a file."""
    pipeline = Pipeline("dice")
    source = pipeline.source("numbers", key="k bigint", value="n bigint")

    def called(stage: str, key: Any) -> None:
        import uuid
        from pathlib import Path

        Path(str(calls), f"{stage} {key} {uuid.uuid4().hex}").touch()

    @pipeline.producer(source, key="k bigint", value="drawn string")
    def drawn(key: int, values: Iterator[int]) -> Iterator[tuple[int, str]]:
        import uuid

        called("drawn", key)
        for _ in values:
            yield key, uuid.uuid4().hex

    @pipeline.producer(drawn, key="k bigint", value="copied string, again string")
    def again(key: int, values: Iterator[str]) -> Iterator[tuple[int, tuple[str, str]]]:
        import uuid

        called("again", key)
        for value in values:
            yield key, (value, uuid.uuid4().hex)

    @pipeline.producer(drawn, again, key="k bigint", value="one string, other string, again string")
    def joined(
        key: int, ones: Iterator[str], others: Iterator[Any]
    ) -> Iterator[tuple[int, tuple[str, str, str]]]:
        called("joined", key)
        for one, other in zip(ones, others, strict=True):
            yield key, (one, other.copied, other.again)

    return pipeline


def changes(spark: SparkSession, rows: list[tuple[int, int]]) -> dict[str, DataFrame]:
    return {"numbers": spark.createDataFrame(rows, "k bigint, n bigint")}


def assert_one_run(store: Store, keys: set[int]) -> dict[str, list[tuple[Any, ...]]]:
    """What each stage has was made from what its feeders have, and the updates say the same."""
    names, read = ("drawn", "again", "joined"), read_by_delta_rs(store)
    found = {name: sorted(map(tuple, read.content(name).collect())) for name in names}
    drawn = {row[0]: row[-1] for row in found["drawn"]}
    again = {row[0]: row[-2:] for row in found["again"]}
    assert {row[0]: row[-3:] for row in found["joined"]} == {
        key: (drawn[key], *again[key]) for key in drawn
    }
    assert all(again[key][0] == drawn[key] for key in drawn)
    assert set(drawn) == keys
    for name in names:
        values = {row[0]: row[3:] for row in found[name]}
        for row in read.updates(name).collect():
            assert row["_change_type"] == "delete" or values[row["k"]] == tuple(row)[4:]
    return found


def stages_of(points: list[Point]) -> Counter[str]:
    """How many tables of each stage have been committed to after these fail points."""
    commits = (table for when, name, table in points if (when, name) == ("after", "commit"))
    return Counter(table.split("/")[0] for table in commits)


@pytest.mark.parametrize("way", chosen(("small", "runs", "in Spark"), "runs"))
def test_what_is_stored_is_not_produced_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, long_run: bool
) -> None:
    """A crash before each effect in turn; in a short run at a few, in the middle and at the end."""
    if way != "small":
        limited(monkeypatch, small_table_rows=0)
    if way == "in Spark":
        limited(monkeypatch, local_rows=0)
    calls, keys = tmp_path / "calls", set[int]()
    calls.mkdir()
    location, pipeline = str(tmp_path / "store"), dice(calls)
    store = Store(spark, location, pipeline)
    store.update(changes(spark, ROWS), "first")
    recorder = Recorder(location)
    with failpoints.armed(recorder):
        store.update(changes(spark, MORE), "second")
    whole = stages_of(recorder.points)
    effects = len(recorder.points) // 2
    few = (3, effects) if way == "runs" else (3, effects - 1)
    for number in range(effects + 1) if way == "runs" and long_run else few:
        rows = [(1, 100 + number), (5 + number, 0)]
        recorder, crash = Recorder(location), CrashAt(number, fail)

        def both(*point: Any, recorder: Recorder = recorder, crash: CrashAt = crash) -> None:
            recorder(*point)
            crash(*point)

        with failpoints.armed(both), pytest.raises(CrashError):
            store.update(changes(spark, rows), f"{number}")
        for path in calls.iterdir():
            path.unlink()
        store = store if number % 2 else Store(spark, location, pipeline)
        version = store.update(changes(spark, rows[::-1]), f"{number}")
        called = {path.name.split()[0] for path in calls.iterdir()}
        done = stages_of(recorder.points)
        assert called == {name for name in FUNCTIONS if done[name] < whole[name]}
        assert_one_run(store, {1, 2, 3, 4, *(row[0] for row in rows)} | set(keys))
        keys.add(rows[1][0])
        assert version.stages["joined"].changed_keys == 2
        assert store.update(changes(spark, ROWS), f"{number}") == version == store.head


def test_a_first_load_is_carried_on(spark: SparkSession, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    calls.mkdir()
    location, pipeline = str(tmp_path / "store"), dice(calls)
    with failpoints.armed(CrashAt(8, fail)), pytest.raises(CrashError):
        Store(spark, location, pipeline).update(changes(spark, ROWS), "first")
    assert Store(spark, location, pipeline).head.number == 0
    for path in calls.iterdir():
        path.unlink()
    store = Store(spark, location, pipeline)
    assert store.update(changes(spark, ROWS), "first").number == 1
    assert {path.name.split()[0] for path in calls.iterdir()} == {"joined"}
    assert_one_run(store, {1, 2, 3})


@pytest.mark.parametrize(
    "other", chosen(("rows", "order", "id", "function", "no id"), "rows", "function")
)
def test_another_batch_rolls_it_back(spark: SparkSession, tmp_path: Path, other: str) -> None:
    calls = tmp_path / "calls"
    calls.mkdir()
    location, pipeline = str(tmp_path / "store"), dice(calls)
    Store(spark, location, pipeline).update(changes(spark, ROWS), "first")
    two = [*MORE, (1, 12)]
    with failpoints.armed(CrashAt(8, fail)), pytest.raises(CrashError):
        Store(spark, location, pipeline).update(changes(spark, two), "second")
    for path in calls.iterdir():
        path.unlink()
    if other == "function":
        pipeline = dice(calls)
        pipeline.producer("joined", key="k bigint", value="n bigint", name="more")(
            lambda key, values: [(key, len(list(values)))]
        )
    store = Store(spark, location, pipeline)
    rows = {"rows": [*MORE, (1, 13)], "order": [MORE[1], two[2], two[0]]}.get(other, two)
    update_id = {"id": "third", "no id": None}.get(other, "second")
    assert store.update(changes(spark, rows), update_id).number == 2
    assert {path.name.split()[0] for path in calls.iterdir()} == FUNCTIONS
    keys = {1, 2, 3, 4}
    read = read_by_delta_rs(store)
    assert {row["k"] for row in read.content("joined").collect()} == keys
    expected = [(1, n) for k, n in rows if k == 1]
    values = [
        tuple(row) for row in read.content("numbers", ordered=True).collect() if row["k"] == 1
    ]
    assert [(row[0], row[-1]) for row in values] == expected
