"""An update that was cut off continues under its id: no function runs twice for a version.

Without a session; `tests/spark/test_resumption.py` has the same in Spark.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crashing import CrashAt, CrashError, Point, Recorder, fail
from limiting import limited
from pyspark.sql import SparkSession
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


def changes(rows: list[tuple[int, int]]) -> dict[str, list[dict[str, int]]]:
    return {"numbers": [{"k": k, "n": n} for k, n in rows]}


def assert_one_run(store: Store, keys: set[int]) -> None:
    """What each stage has was made from what its feeders have, and the updates say the same.

    Args:
        store: without a session.
    """
    found = {
        name: [tuple(row.values()) for row in store.content(name).to_pylist()] for name in FUNCTIONS
    }
    drawn = {row[0]: row[1] for row in found["drawn"]}
    again = {row[0]: row[1:3] for row in found["again"]}
    assert {row[0]: row[1:4] for row in found["joined"]} == {
        key: (drawn[key], *again[key]) for key in drawn
    }
    assert all(again[key][0] == drawn[key] for key in drawn)
    assert set(drawn) == keys
    for name in FUNCTIONS:
        values = {row[0]: row[1:-2] for row in found[name]}
        for row in store.updates(name).to_pylist():
            told = tuple(row.values())
            assert row["_change_type"] == "delete" or values[row["k"]] == told[4:]


def stages_of(points: list[Point]) -> Counter[str]:
    """How many tables of each stage have been committed to after these fail points."""
    commits = (table for when, name, table in points if (when, name) == ("after", "commit"))
    return Counter(table.split("/")[0] for table in commits)


@pytest.mark.parametrize("way", chosen(("small", "runs"), "runs"))
def test_what_is_stored_is_not_produced_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, long_run: bool
) -> None:
    """A crash before each effect in turn; in a short run at a few, in the middle and at the end."""
    if way == "runs":
        limited(monkeypatch, small_table_rows=0, replaced_percent=900)
    assert_carried_on(None, tmp_path, in_full=way == "runs" and long_run)


def assert_carried_on(spark: SparkSession | None, tmp_path: Path, *, in_full: bool) -> None:
    """Updates that crash go on from what is stored, and call no function twice.

    Args:
        in_full: they crash before each effect in turn, otherwise in the middle and after the last.
    """
    calls, keys = tmp_path / "calls", set[int]()
    calls.mkdir()
    location, pipeline = str(tmp_path / "store"), dice(calls)
    store, reader = Store(spark, location, pipeline), Store(None, location, pipeline)
    store.update(changes(ROWS), "first")
    recorder = Recorder(location)
    with failpoints.armed(recorder):
        store.update(changes(MORE), "second")
    whole = stages_of(recorder.points)
    effects = len(recorder.points) // 2
    for number in range(effects + 1) if in_full else (3, effects):
        rows = [(1, 100 + number), (5 + number, 0)]
        recorder, crash = Recorder(location), CrashAt(number, fail)

        def both(*point: Any, recorder: Recorder = recorder, crash: CrashAt = crash) -> None:
            recorder(*point)
            crash(*point)

        with failpoints.armed(both), pytest.raises(CrashError):
            store.update(changes(rows), f"{number}")
        for path in calls.iterdir():
            path.unlink()
        store = store if number % 2 else Store(spark, location, pipeline)
        version = store.update(changes(rows[::-1]), f"{number}")
        called = {path.name.split()[0] for path in calls.iterdir()}
        done = stages_of(recorder.points)
        assert called == {name for name in FUNCTIONS if done[name] < whole[name]}
        assert_one_run(reader, {1, 2, 3, 4, *(row[0] for row in rows)} | set(keys))
        keys.add(rows[1][0])
        assert version.stages["joined"].changed_keys == 2
        assert store.update(changes(ROWS), f"{number}") == version == store.head


def test_a_first_load_is_carried_on(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    calls.mkdir()
    location, pipeline = str(tmp_path / "store"), dice(calls)
    with failpoints.armed(CrashAt(8, fail)), pytest.raises(CrashError):
        Store(None, location, pipeline).update(changes(ROWS), "first")
    assert Store(None, location, pipeline).head.number == 0
    for path in calls.iterdir():
        path.unlink()
    store = Store(None, location, pipeline)
    assert store.update(changes(ROWS), "first").number == 1
    assert {path.name.split()[0] for path in calls.iterdir()} == {"joined"}
    assert_one_run(store, {1, 2, 3})


@pytest.mark.parametrize(
    "other", chosen(("rows", "order", "id", "function", "no id"), "rows", "function")
)
def test_another_batch_rolls_it_back(tmp_path: Path, other: str) -> None:
    calls = tmp_path / "calls"
    calls.mkdir()
    location, pipeline = str(tmp_path / "store"), dice(calls)
    Store(None, location, pipeline).update(changes(ROWS), "first")
    two = [*MORE, (1, 12)]
    with failpoints.armed(CrashAt(8, fail)), pytest.raises(CrashError):
        Store(None, location, pipeline).update(changes(two), "second")
    for path in calls.iterdir():
        path.unlink()
    if other == "function":
        pipeline = dice(calls)
        pipeline.producer("joined", key="k bigint", value="n bigint", name="more")(
            lambda key, values: [(key, len(list(values)))]
        )
    store = Store(None, location, pipeline)
    rows = {"rows": [*MORE, (1, 13)], "order": [MORE[1], two[2], two[0]]}.get(other, two)
    update_id = {"id": "third", "no id": None}.get(other, "second")
    assert store.update(changes(rows), update_id).number == 2
    assert {path.name.split()[0] for path in calls.iterdir()} == FUNCTIONS
    keys = {1, 2, 3, 4}
    assert {*store.content("joined").column("k").to_pylist()} == keys
    found = store.content("numbers", ordered=True).to_pylist()
    assert [row["n"] for row in found if row["k"] == 1] == [n for k, n in rows if k == 1]
