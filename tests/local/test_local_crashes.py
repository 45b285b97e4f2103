"""After a crash before any effect of any operation there is one whole version, without a session.

The whole matrix, in each run: `tests/spark/test_crashes.py` has a part of it in Spark, and kills
processes too.
"""

from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from crashing import (
    FACTOR,
    OPERATIONS,
    VERSIONS,
    CrashAt,
    CrashError,
    built,
    drawn,
    fail,
    frames,
    orders,
    recorded,
    run_ahead,
)
from limiting import limited
from local_stores import assert_same_here

from deltaproduce import Store
from deltaproduce.storage import failpoints
from deltaproduce.testing import Oracle

HERE = [name for name in OPERATIONS if name != "vacuum"]  # which lists files in Spark
LEAVES_TO_DO = ("rollback", "compaction")
"""Operations for which an update makes something to do."""


@pytest.fixture(autouse=True)
def in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltaproduce.operations.publisher._WRITERS", 1)
    FACTOR[0] = 1


@pytest.mark.parametrize("small", [True, False], ids=["rewritten", "runs"])
@pytest.mark.parametrize("name", HERE)
def test_a_crash_before_any_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, small: bool
) -> None:
    """Before each effect in turn, and after the version; then the same is done, or an update."""
    if not small:
        limited(monkeypatch, small_table_rows=0)
    operation = OPERATIONS[name]
    for point in count():
        FACTOR[0] = 1
        location = str(tmp_path / f"{point}")
        oracle = built(None, location, operation.beforehand.versions)
        if operation.beforehand.ahead:
            run_ahead(None, location)
        store = Store(None, location, orders())
        crashed = True
        with failpoints.armed(CrashAt(point, fail)), suppress(CrashError):
            operation.run(store, None, VERSIONS)
            crashed = False
        if not crashed:
            break
        store = Store(None, location, orders())
        published = store.head.number > oracle.head
        if published or point % 2:
            operation.expected(oracle, VERSIONS)
        elif name == "refresh":
            FACTOR[0] = 1
        if not published and point % 2:
            operation.run(store, None, VERSIONS)
        elif not published:
            changes = drawn(100 + point)
            assert store.update(frames(None, changes)).number == oracle.update(changes)
        assert_whole(location, oracle)
        if published:
            break  # it does not come to so many effects
    assert point >= (2 if name == "compaction" else 3)


@pytest.mark.parametrize("name", HERE)
def test_nothing_is_stored_outside_of_an_effect(location: str, name: str) -> None:
    operation = OPERATIONS[name]
    built(None, location, operation.beforehand.versions)
    assert recorded(None, location, operation, VERSIONS) or name in LEAVES_TO_DO


def assert_whole(location: str, oracle: Oracle) -> None:
    """The versions are the oracle's, in every table."""
    store = Store(None, location, orders())
    assert [version.number for version in store.versions()] == [*range(1, oracle.head + 1)]
    assert_same_here(store, oracle, orders(), range(oracle.head + 1))
