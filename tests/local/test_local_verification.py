"""Damage and repair without a session: how damage is noticed, found and repaired."""

import pickle
import shutil
from collections.abc import Callable, Iterable
from copy import deepcopy
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pytest
from crashing import FACTOR, CrashAt, CrashError, batch, built, fail, frames, orders
from damaging import (
    COMMITS,
    FAULTS,
    LOSSES,
    append,
    delete,
    drop,
    log_without,
    planted,
    remove_files,
    truncate_files,
)
from deltalake import DeltaTable
from limiting import limited
from local_stores import as_rows, assert_same_here
from selecting import in_turn, some
from series import drawn as examples

from deltaproduce import CorruptStoreError, Limits, Store
from deltaproduce.engines.delta.tables import MARKS_ROWS
from deltaproduce.storage import failpoints
from deltaproduce.storage.attempts import Attempt
from deltaproduce.storage.versions import EMPTY
from deltaproduce.testing import Oracle, strategies

WAYS = {"small": Limits(), "runs": Limits(small_table_rows=0, replaced_percent=900)}


@pytest.mark.parametrize(("number", "way"), in_turn(6, WAYS, 2))
def test_nothing_is_found_in_a_sound_store(location: str, number: int, way: str) -> None:
    """Nor after a rollback, whatever is drawn to be produced again."""
    number = number * len(WAYS) + list(WAYS).index(way)
    (pipeline,) = examples(strategies.pipelines(), 1, number)
    histories = strategies.histories(pipeline, min_versions=4, max_versions=4)
    (history,) = examples(histories, 1, number)
    with Store(None, location, pipeline, limits=WAYS[way]) as store:
        for changes in history:
            store.update(as_rows(pipeline, changes))
            assert store.verify() == ()
        assert store.verify(recompute=True) == ()
        store.rollback(2)
        assert store.verify(recompute=2) == ()


class Place:
    """A store, to be harmed: a new one, or a copy."""

    def __init__(self, location: str, original: tuple[Path, Oracle] | None = None) -> None:
        FACTOR[0] = 1
        self.location, self.path = location, Path(location)
        if original is None:
            self.oracle = built(None, location)
        else:
            shutil.copytree(original[0], location)
            self.oracle = deepcopy(original[1])

    def open(self) -> Store:
        return Store(None, self.location, orders())

    def update(self, number: int) -> None:
        """An update that reaches every table, of a store that is opened for it."""
        changes = batch((number, number, number), (0, 0, number), (1, 1, number))
        store, expected = self.open(), self.oracle.update(changes)
        assert store.update(frames(None, changes)).number == expected
        assert_same_here(store, self.oracle, orders(), [expected])
        store.close()

    def found(self) -> set[tuple[str, str]]:
        """The tables with something wrong, and what."""
        return {(f"{f.stage}/{f.table}".lstrip("/"), f.what) for f in self.open().verify()}


LIMITED: dict[str, dict[str, int]] = {
    "rewritten": {},
    "runs": {"small_table_rows": 0, "replaced_percent": 900},
}


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Oracle]]:
    """A store of each sort, to be copied, and its oracle."""
    found = {}
    for name, limits in LIMITED.items():
        with pytest.MonkeyPatch.context() as patched:
            limited(patched, **limits)
            FACTOR[0] = 1
            place = tmp_path_factory.mktemp(name) / "store"
            found[name] = place, built(None, str(place))
    return found


def harmed(harms: Iterable[str]) -> pytest.MarkDecorator:
    """Each harm to a store of each sort; in a short run to one of them in turn."""
    in_short = {harm: [*LIMITED][number % 2] for number, harm in enumerate(harms)}
    cases = some(product(LIMITED, in_short), lambda sort, harm: in_short[harm] == sort)
    return pytest.mark.parametrize(("place", "harm"), cases, indirect=["place"])


@pytest.fixture(params=LIMITED)
def place(
    request: pytest.FixtureRequest,
    originals: dict[str, tuple[Path, Oracle]],
    location: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Place:
    limited(monkeypatch, **LIMITED[request.param])
    return Place(location, originals[request.param])


def refused(place: Place, table: str, operation: Callable[[Store], object]) -> None:
    with pytest.raises(CorruptStoreError) as caught:
        operation(place.open())
    assert caught.value.table == table
    assert table in str(caught.value)


def update(store: Store) -> object:
    """An update that reaches every table."""
    return store.update(frames(None, batch((9, 9, 9), (0, 0, 1), (1, 1, 1))))


def mended(place: Place, *, begun: bool = False) -> None:
    """After a repair all is as the oracle says, nothing is wrong any more, and updates go on.

    Args:
        begun: updates of a stage had to be begun anew.
    """
    number = place.oracle.update({}, "repair")
    version = place.open().repair()
    assert (version.number, version.operation) == (number, "repair")
    if not begun:
        assert_same_here(place.open(), place.oracle, orders(), [number])
    assert place.open().verify() == ()
    assert place.open().repair().number == number
    place.update(7)
    assert place.open().verify() == ()


@harmed(COMMITS)
def test_a_commit_by_someone_else_is_noticed_and_set_back(place: Place, harm: str) -> None:
    tables = [f"by_customer/{kind}" for kind in ("content", "key_mappings", "updates")]
    for table in tables:
        COMMITS[harm](place.path / table)
    assert_same_here(place.open(), place.oracle, orders(), [place.oracle.head])
    with pytest.raises(CorruptStoreError):
        update(place.open())
    assert place.found() == {(table, "foreign") for table in tables}
    mended(place)


@harmed(LOSSES)
def test_a_stage_that_lost_files_is_produced_again(place: Place, harm: str) -> None:
    """Reads and updates notice it, verification finds it, and a repair makes its tables anew."""
    table = "by_customer/content"
    properties = DeltaTable(place.path / table).metadata().configuration
    properties[MARKS_ROWS] = "true"  # once rows have been marked
    LOSSES[harm](place.path / table)
    refused(place, table, update)
    what = "unreadable" if harm.endswith("files") else "gone"
    LOSSES[harm](place.path / "by_customer/key_mappings")
    assert place.found() == {(table, what), ("by_customer/key_mappings", what)}
    mended(place)
    found = DeltaTable(place.path / table).metadata().configuration
    assert {**found, MARKS_ROWS: "true"} == properties


def test_damage_of_several_kinds_is_found_and_mended(place: Place) -> None:
    delete(place.path / "by_customer/updates")
    remove_files(place.path / "by_customer/content")
    drop(place.path / "by_customer/key_mappings")
    truncate_files(place.path / "orders/content")
    assert place.found() == {
        ("by_customer/updates", "foreign"),
        ("by_customer/content", "unreadable"),
        ("by_customer/key_mappings", "gone"),
        ("orders/content", "unreadable"),
    }
    mended(place)


def test_updates_begin_anew_if_they_are_lost(place: Place) -> None:
    drop(place.path / "by_customer/updates")
    mended(place, begun=True)
    repaired = place.oracle.head - 1
    store = place.open()
    assert len(store.updates("by_customer", repaired)) == len(
        store.content("by_customer", repaired)
    )


def test_a_source_that_is_lost_is_loaded(place: Place) -> None:
    for kind in ("content", "updates"):
        remove_files(place.path / f"orders/{kind}")
    refused(place, "orders/content", lambda store: store.repair())
    rows = {"orders": batch((1, 1, 1), (20, 2, 2))["orders"]}
    number = place.oracle.load(rows)
    store = place.open()
    assert store.load(as_rows(orders(), rows, is_snapshot=True)).number == number
    assert store.verify() == ()
    place.update(7)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_put_right(
    location: str, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    faults, expected = FAULTS[fault]
    place = Place(location)
    store = place.open()
    planted(store, faults)
    findings = store.verify()
    assert {(finding.table, finding.what) for finding in findings} == expected
    assert {finding.stage for finding in findings} == {"by_customer"}
    assert pickle.loads(pickle.dumps(findings)) == findings
    number = store.head.number + 1
    assert store.repair().number == number
    assert store.verify(recompute=True) == ()


def test_functions_are_run_again_if_wanted(location: str) -> None:
    place = Place(location)
    store = place.open()
    try:
        FACTOR[0] = 2
        assert store.verify() == ()
        for recompute in (3, True):
            (finding,) = store.verify(recompute)
            assert (finding.stage, finding.what) == ("by_customer", "recomputed")
        assert store.repair(recompute=True).operation == "repair"
        assert store.verify(recompute=True) == ()
    finally:
        FACTOR[0] = 1


def test_a_repair_that_crashes_is_done_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each of its effects in turn, and after it is published."""
    monkeypatch.setattr("deltaproduce.operations.publisher._WRITERS", 1)
    append(place.path / "orders/content")
    drop(place.path / "by_customer/key_mappings")
    number = 0
    while place.open().head.number == place.oracle.head:
        with failpoints.armed(CrashAt(number, fail)), pytest.raises(CrashError):
            place.open().repair()
        number += 1
    assert number > 3
    place.oracle.update({}, "repair")
    assert place.open().verify() == ()
    place.update(7)


def test_the_version_log_is_watched_and_set_back(place: Place) -> None:
    log_without(2, place.location)
    refused(place, "_versions", lambda store: store.head)
    assert place.found() == {("_versions", "versions")}
    mending = place.open()
    mending._opened.log.repair(Attempt.after(EMPTY, datetime.now(UTC)))
    assert place.open().head == mending.head
    log_without(3, place.location)
    assert place.open().repair().number == place.oracle.head  # there is nothing left to repair
    place.update(7)


def test_more_rows_than_fit_in_memory_are_looked_at_in_parts(location: str) -> None:
    place = Place(location)
    store = Store(None, location, orders(), limits=Limits(local_rows=3))
    assert store.verify() == ()
    append(place.path / "orders/content")
    assert store.verify() == place.open().verify() != ()
