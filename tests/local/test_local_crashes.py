"""A crash before any effect of any operation leaves one whole version, without a session.

Each run has the whole matrix of tables with runs, and that of small tables for those operations
whose effects differ most. `tests/spark/test_crashes.py` has a part of it in Spark, and also kills
processes.
"""

import shutil
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from itertools import count, product
from pathlib import Path

import pytest
from crashing import (
    FACTOR,
    OPERATIONS,
    VERSIONS,
    CrashAt,
    CrashError,
    Operation,
    built,
    drawn,
    fail,
    frames,
    orders,
    recorded,
    run_ahead,
)
from damaging import append, drop, remove_files
from deltalake import DeltaTable
from limiting import limited
from local_stores import assert_no_orphans_here, assert_same_here
from selecting import some

from deltaproduce import Store
from deltaproduce.engines.delta.tables import KEPT
from deltaproduce.storage import failpoints
from deltaproduce.testing import Oracle

HERE = {
    **OPERATIONS,
    "repair": Operation(
        lambda store, *_: store.repair(), lambda oracle, _: oracle.update({}, "repair")
    ),
}
LEAVES_TO_DO = ("rollback", "compaction")
"""Operations for which an update makes something to do."""


@pytest.fixture(autouse=True)
def in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltaproduce.operations.publisher._WRITERS", 1)
    FACTOR[0] = 1


@pytest.mark.parametrize(
    ("name", "way"),
    some(
        product(HERE, ["rewritten", "runs"]),
        lambda name, way: way == "runs" or name == "update",
    ),
)
def test_a_crash_before_any_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, way: str, long_run: bool
) -> None:
    """Before each effect in turn, and after the version; then the same is done, or an update.

    Behind each other crash, and in a long run behind each, all versions are read and verified, and
    behind the rest what vacuums leave.
    """
    store_of(monkeypatch, name, small=way == "rewritten")
    operation, origin = HERE[name], tmp_path / "origin"
    before = prepared(str(origin), name)
    origin.mkdir(exist_ok=True)  # a store without a version has no files
    for point in count():
        FACTOR[0] = 1
        location, oracle = str(tmp_path / f"{point}"), deepcopy(before)
        shutil.copytree(origin, location)
        store = Store(None, location, orders())
        crashed = True
        with failpoints.armed(CrashAt(point, fail)), suppress(CrashError):
            operation.run(store, None, VERSIONS)
            crashed = False
        if not crashed:
            break
        store = Store(None, location, orders())
        published = store.head.number > oracle.head
        again = point % 2 or name == "repair"  # nothing else is done to a store that is damaged
        if published or again:
            operation.expected(oracle, VERSIONS)
        elif name == "refresh":
            FACTOR[0] = 1
        if not published and again:
            operation.run(store, None, VERSIONS)
        elif not published:
            changes = drawn(100 + point)
            assert store.update(frames(None, changes)).number == oracle.update(changes)
        both = long_run or published
        assert_whole(location, oracle, name, in_full=both or point % 2 > 0 or name == "vacuum")
        if both or not point % 2:
            assert_nothing_is_left(location, oracle)
        if published:
            break  # it does not come to so many effects
    assert point >= (2 if name == "compaction" else 3)


def store_of(monkeypatch: pytest.MonkeyPatch, name: str, *, small: bool) -> None:
    """Set what the store of an operation is made with."""
    if not small:
        limited(monkeypatch, small_table_rows=0, replaced_percent=900)
    if name == "vacuum":  # it removes files of logs that have a checkpoint
        monkeypatch.setitem(KEPT, "delta.checkpointInterval", "2")


def prepared(location: str, name: str) -> Oracle:
    """The store that an operation is for, to be copied; returns its oracle."""
    beforehand = HERE[name].beforehand
    oracle = built(None, location, beforehand.versions)
    if beforehand.ahead:
        run_ahead(None, location)
    harmed(location, name)
    return oracle


def harmed(location: str, name: str) -> None:
    """What there is to be repaired: someone else's commit, files and a table that are gone."""
    if name == "repair":
        append(Path(location, "orders/content"))
        remove_files(Path(location, "by_customer/content"))
        drop(Path(location, "by_customer/key_mappings"))


@pytest.mark.parametrize("name", HERE)
def test_nothing_is_stored_outside_of_an_effect(
    location: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(KEPT, "delta.checkpointInterval", "2")
    prepared(location, name)
    points = recorded(None, location, HERE[name], VERSIONS)
    assert points or name in LEAVES_TO_DO
    assert (name == "vacuum") == any(effect == "trim" for _, effect, _ in points)


def test_nothing_is_stored_outside_of_an_effect_unnoticed(location: str) -> None:
    """What holds the fail points to be all that there are can fail: of commits, and of files."""
    update, origin = OPERATIONS["update"], f"{location}-origin"
    built(None, origin)

    def committing(store: Store, spark: None, number: int) -> None:
        update.run(store, spark, number)
        properties = DeltaTable(f"{location}/orders/updates").alter
        properties.set_table_properties({"noticed": "no"}, raise_if_not_exists=False)

    def writing(store: Store, spark: None, number: int) -> None:
        Path(location, "orders/updates/left.parquet").touch()
        update.run(store, spark, number)

    def removing(store: Store, spark: None, number: int) -> None:
        update.run(store, spark, number)
        next(Path(location, "orders/updates").glob("*.parquet")).unlink()

    for run in (committing, writing, removing):
        shutil.copytree(origin, location)
        with pytest.raises(AssertionError, match="outside of every effect"):
            recorded(None, location, replace(update, run=run), VERSIONS)
        shutil.rmtree(location)


def assert_whole(location: str, oracle: Oracle, name: str, *, in_full: bool) -> None:
    """The versions are the oracle's, in every table, and nothing is wrong.

    Args:
        in_full: otherwise only the newest version is read.
    """
    store = Store(None, location, orders())
    numbers = [version.number for version in store.versions()]
    first = 1 if name != "vacuum" else numbers[0]
    assert numbers == [*range(first, oracle.head + 1)]
    readable = numbers if in_full and name != "repair" else numbers[-1:]  # its files were harmed
    assert_same_here(store, oracle, orders(), readable)
    if in_full:
        assert store.verify() == ()


def assert_nothing_is_left(location: str, oracle: Oracle) -> None:
    """Once versions are dropped, there is no file of them, or of what has crashed."""
    store = Store(None, location, orders())
    for _ in range(2):  # what somebody may have begun to read is left by the first
        store.vacuum(keep_versions=1, unfinished_hours=0)
    assert_same_here(store, oracle, orders(), [oracle.head])
    assert_no_orphans_here(store)
