"""Stores in an object store, without a session: the laws of a directory hold in a bucket."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

import object_server
import pyarrow as pa
import pytest
from conflicting import OTHERS, assert_all_publish, one_that_dies, one_that_publishes
from crashing import (
    FACTOR,
    OPERATIONS,
    VERSIONS,
    CrashAt,
    CrashAtNew,
    CrashError,
    batch,
    built,
    drawn,
    fail,
    frames,
    orders,
    run_ahead,
)
from limiting import limited
from local_stores import as_rows, assert_no_orphans_here, assert_same_here, files_below
from pyarrow import fs

import deltaproduce as dp
from deltaproduce import (
    ConflictError,
    CorruptStoreError,
    Limits,
    NotFoundError,
    SessionError,
    StorageError,
    Store,
    agg,
)
from deltaproduce.engines import deltas
from deltaproduce.engines.choice import Engines
from deltaproduce.engines.delta.log import commit_file
from deltaproduce.engines.delta.tables import KEPT
from deltaproduce.engines.deltas import Deltas
from deltaproduce.engines.file_systems.choice import directory
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local import commit_probe
from deltaproduce.engines.local.delta import writes
from deltaproduce.engines.selections import Selection
from deltaproduce.storage import failpoints
from deltaproduce.storage.locations import Location
from deltaproduce.storage.parquet import seeks
from deltaproduce.storage.tables.access import TableAccess
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.testing import Oracle, Upsert
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import LongType

MINE, MORE = batch((1, 1, 10), (2, 2, 20)), batch((2, 3, 20), (7, 3, 70))
RUNS = Limits(small_table_rows=0, replaced_percent=900, compaction_commits=4)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with object_server.served() as address:
        object_server.opened(address).create_dir("lake")
        yield address


@pytest.fixture(autouse=True)
def environment(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    FACTOR[0] = 1
    for name, value in object_server.variables(address).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def location() -> str:
    return f"s3://lake/{uuid.uuid4().hex}"


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Executor]:
    """Another process: within a commit delta-rs lets this one begin no other."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        yield pool


def root(location: str) -> Directory:
    found = directory(location)
    assert found is not None
    return found


def sales(*, with_totals: bool) -> dp.Pipeline:
    """A source, a producer, and an aggregate of it."""
    pipeline = dp.Pipeline("sales")
    orders = pipeline.source("orders", key="id bigint", value="customer string, amount bigint")

    @pipeline.producer(orders, key="customer string", value="amount bigint")
    def by_customer(_: int, rows: Any) -> Any:
        for row in rows:
            yield row.customer, row.amount

    if with_totals:
        values = {"orders": agg.count(), "amount": agg.sum("amount")}
        pipeline.aggregate("totals", by_customer, key="customer", values=values)
    return pipeline


def sold(number: int, first: int = 0, count: int = 6) -> dict[str, list[Any]]:
    """Orders of a number: some are new, others were there before."""
    return {
        "orders": [
            Upsert((n,), (f"c{(n * 7 + number) % 5}", n * 10 + number))
            for n in range(first, first + count)
        ]
    }


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(Limits(), id="small", marks=pytest.mark.long),
        pytest.param(RUNS, id="runs", marks=pytest.mark.long),
    ],
)
def test_a_whole_life(
    location: str, monkeypatch: pytest.MonkeyPatch, limits: Limits, long_run: bool
) -> None:
    """All that a store does, and what it says afterwards is the oracle's.

    In a short run there is an update and a stage less, each third version is read, and no vacuum is
    foreseen.
    """
    monkeypatch.setitem(KEPT, "delta.checkpointInterval", "2")
    pipeline, last = sales(with_totals=long_run), "totals" if long_run else "by_customer"
    oracle = Oracle(pipeline)
    with Store(None, location, pipeline, limits=limits) as store:
        assert store.head.number == 0
        for number, first in enumerate((0, 3, 5) if long_run else (0, 3)):
            assert store.update(as_rows(pipeline, sold(number, first)), f"{number}").number == (
                oracle.update(sold(number, first), f"{number}")
            )
        store.load(as_rows(pipeline, sold(7, 2, 8), is_snapshot=True))
        oracle.load(sold(7, 2, 8))
        assert store.rollback(2).number == oracle.rollback(2)
        store.compact()
        assert store.update(as_rows(pipeline, sold(8, 9, 2))).number == oracle.update(sold(8, 9, 2))
        assert store.update(as_rows(pipeline, sold(9, 9, 9)), "1").number == 2
        assert store.changes(last, since=1, until=3).num_rows
        assert store.lineage(last, "c1").upstream["orders"].num_rows
        assert store.verify() == ()
    again = Store(None, location, sales(with_totals=long_run))
    assert_same_here(again, oracle, pipeline, range(oracle.head + 1)[:: 1 if long_run else 3])
    if long_run:
        assert_foreseen(again, location, oracle)
    for _ in range(2):  # what somebody may have begun to read is left by the first
        again.vacuum(keep_versions=1, unfinished_hours=0)
    assert_same_here(again, oracle, pipeline, [oracle.head])
    assert_no_orphans_here(again)
    for table in ("_versions", "orders/updates"):  # their logs begin later
        assert not root(location).exists(f"{table}/{commit_file(0)}")
    with pytest.raises(NotFoundError):
        again.content(last, version=1)


def assert_foreseen(store: Store, location: str, oracle: Oracle) -> None:
    """A dry run removes nothing, and says what a vacuum removes."""
    before = {*files_below(root(location))}
    foreseen = store.vacuum(keep_versions=2, unfinished_hours=0, dry_run=True)
    assert {*files_below(root(location))} == before
    gone = store.vacuum(keep_versions=2, unfinished_hours=0)
    assert gone.versions == foreseen.versions == tuple(range(1, oracle.head - 1))
    assert {path.removeprefix(location.replace("s3:", "s3a:")) for path in foreseen.paths} <= {
        f"/{path}" for path in before - {*files_below(root(location))}
    }


def test_writers_who_begin_together_all_publish_what_they_were_given(
    location: str, long_run: bool
) -> None:
    assert_all_publish(location, writers=3 if long_run else 2)


@pytest.mark.parametrize(
    "other",
    [pytest.param(other, marks=pytest.mark.long) for other in (one_that_publishes, one_that_dies)],
)
def test_another_writer_comes_in_the_middle_of_a_first_commit(
    location: str,
    monkeypatch: pytest.MonkeyPatch,
    elsewhere: Executor,
    other: Callable[[str], None],
) -> None:
    """When delta-rs has found no table, and puts its files; see `tests/local/test_local_conflicts`.

    Those who begin together, above, meet in each run.
    """
    monkeypatch.setattr("deltaproduce.operations.publisher._WRITERS", 1)
    plain, met = writes.write_deltalake, []

    def meanwhile(rows: pa.Table) -> Iterator[pa.RecordBatch]:
        elsewhere.submit(other, location).result()
        yield from rows.to_batches()

    def write(table: Any, rows: pa.Table, **options: Any) -> None:
        if not met:
            met.append(table)
            rows = pa.RecordBatchReader.from_batches(rows.schema, meanwhile(rows))
        plain(table, rows, **options)

    monkeypatch.setattr(writes, "write_deltalake", write)
    with pytest.raises(ConflictError):
        Store(None, location, orders()).update(frames(None, MINE))
    oracle, store = Oracle(orders()), Store(None, location, orders())
    if other is one_that_publishes:
        oracle.update(OTHERS)
    assert store.head.number == oracle.head
    store.update(frames(None, MORE))
    oracle.update(MORE)
    assert_same_here(store, oracle, orders(), range(oracle.head + 1))


def copied(location: str) -> str:
    """The same store at another place."""
    copy = f"{location}-{uuid.uuid4().hex}"
    files = fs.S3FileSystem(**_told())
    for path in files_below(root(location)):
        files.copy_file(f"{root(location).path}/{path}", f"{root(copy).path}/{path}")
    return copy


def _told() -> dict[str, Any]:
    file_system = cast(Any, root("s3://lake/x").file_system)
    return {
        "endpoint_override": file_system.endpoint,
        "region": file_system.region,
        "access_key": file_system.key,
        "secret_key": file_system.secret,
    }


def crash_and_go_on(location: str, name: str, crash: Any, oracle: Oracle) -> bool:
    """Crash in an operation; then an update comes to the oracle's tables.

    Returns:
        Whether it crashed before it had published, so that there may be more to crash before.
    """
    operation, crashed, factor = OPERATIONS[name], True, FACTOR[0]
    with failpoints.armed(crash), suppress(CrashError):
        operation.run(Store(None, location, orders()), None, VERSIONS)
        crashed = False
    store = Store(None, location, orders())
    published = store.head.number > oracle.head
    if published or not crashed:
        operation.expected(oracle, VERSIONS)
    else:
        FACTOR[0] = factor
    store.update(frames(None, drawn(99)))
    oracle.update(drawn(99))
    first = store.versions()[0].number
    assert_same_here(store, oracle, orders(), range(first, oracle.head + 1))
    for _ in range(2):
        store.vacuum(keep_versions=1, unfinished_hours=0)
    assert_same_here(store, oracle, orders(), [oracle.head])
    assert_no_orphans_here(store)
    return crashed and not published


@pytest.mark.long
def test_a_crash_before_each_kind_of_effect_of_an_update(location: str) -> None:
    built(None, location)
    met: set[str] = set()
    while crash_and_go_on(copied(location), "update", CrashAtNew(met, fail), oracle_of(VERSIONS)):
        assert len(met) < 10
    assert {"probe", "commit", "publish"} <= met


@pytest.mark.long
@pytest.mark.parametrize(
    "limits", [{}, {"small_table_rows": 0, "replaced_percent": 900}], ids=["rewritten", "runs"]
)
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_crash_before_any_effect(
    location: str, monkeypatch: pytest.MonkeyPatch, name: str, limits: dict[str, int]
) -> None:
    limited(monkeypatch, **limits)
    monkeypatch.setattr("deltaproduce.operations.publisher._WRITERS", 1)
    beforehand = OPERATIONS[name].beforehand
    built(None, location, beforehand.versions)
    if beforehand.ahead:
        run_ahead(None, location)
    point = 0
    while point < 100:
        FACTOR[0] = 1
        copy, oracle = copied(location), oracle_of(beforehand.versions)
        if not crash_and_go_on(copy, name, CrashAt(point, fail), oracle):
            break
        point += 1
    assert 2 <= point < 100


def oracle_of(versions: int) -> Oracle:
    oracle = Oracle(orders())
    for number in range(versions):
        oracle.update(drawn(number))
    return oracle


def test_a_service_that_overwrites_what_is_there_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before anything of a store is written; and what the probe has written is removed."""
    with object_server.served("deaf") as deaf:
        object_server.opened(deaf).create_dir("lake")
        monkeypatch.setenv("AWS_ENDPOINT_URL", deaf)
        store = Store(None, "s3://lake/shop", orders())
        assert store.head.number == 0
        for _ in range(2):
            with pytest.raises(StorageError):
                store.update(frames(None, MINE))
        assert not [*files_below(root("s3://lake/shop"))]


def test_the_probe_is_made_once_and_leaves_nothing(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert commit_probe.fault(root(location)) is None
    assert not [*files_below(root(location))]
    monkeypatch.setattr(commit_probe, "write_deltalake", None)
    assert commit_probe.fault(root(location)) is None


def test_a_service_that_cannot_be_reached_is_no_damage(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(None, location, orders()).update(frames(None, MINE))
    with pytest.raises(StorageError, match="nowhere"):
        Store(None, "s3://nowhere/shop", orders()).update(frames(None, MINE))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(StorageError, match=r"127\.0\.0\.1:1"):
        Store(None, location, orders()).content("by_customer")


def test_a_file_that_is_gone_is_damage_that_a_repair_mends(location: str) -> None:
    store, oracle = Store(None, location, orders()), Oracle(orders())
    store.update(frames(None, MINE))
    oracle.update(MINE)
    table = root(location).at("by_customer/content")
    for path in [path for path in files_below(table) if path.endswith(".parquet")]:
        table.remove_file(path)
    store = Store(None, location, orders())
    with pytest.raises(CorruptStoreError):
        store.content("by_customer")
    assert {finding.stage for finding in store.verify()} == {"by_customer"}
    store.repair()
    oracle.update({}, "repair")
    assert_same_here(store, oracle, orders(), [2])
    assert store.verify() == ()


def test_both_schemes_name_one_store_and_odd_places_are_for_spark(location: str) -> None:
    Store(None, location, orders()).update(frames(None, MINE))
    assert Store(None, location.replace("s3:", "s3a:"), orders()).head.number == 1
    for odd in ("s3://lake/a#b", "s3://lake/a%20b", "s3://lake/a/../b", "s3://lake/a//b"):
        with pytest.raises(SessionError):
            Store(None, odd, orders())


def test_beside_a_session_keys_are_sought_here_and_commits_are_sparks(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits of both do not exclude each other there; and without a key none is read."""
    Store(None, location, orders()).update(frames(None, MINE))
    monkeypatch.setattr(deltas, "is_local", lambda *_: False)
    engines = Engines(cast(Any, object()), Limits())
    found = Tables(TableAccess(engines, Location.parse(location)))
    table = found.location.table("orders", "content")
    files = found.reader.files(table, 0)
    assert files is not None
    columns = tuple(Column(name, LongType()) for name in ("id", "customer", "amount"))
    keys = Selection(columns[:1], pa.table({"id": pa.array([2, 9], pa.int64())}), engines)
    rows = seeks.rows_of(files, keys, columns, 100)
    assert rows is not None
    assert rows.to_pylist() == [{"id": 2, "customer": 2, "amount": 20}]
    place = Deltas(engines).within(table.place)
    assert place.directory is not None
    assert Deltas(engines)._here(place) is None
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    assert Deltas(engines).within(table.place).directory is None


def test_the_page_prints_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).parents[2] / "docs" / "object-stores.md"
    blocks = re.findall(r"^```([^`\n]*)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    ((_, code), (_, shown)) = blocks
    exec(code, {"__name__": "__main__"})
    assert capsys.readouterr().out == shown


def test_a_window_moves_by_the_files_of_what_leaves_and_enters(location: str) -> None:
    """They are put in the bucket one by one, and committed together."""
    site = dp.Pipeline("site")
    site.source("events", key="seq int, id int", value="m int")
    values = {"n": agg.count()}
    site.aggregate("last", "events", key="m", values=values, window=dp.window("seq", last=4))
    limits = Limits(small_table_rows=0, replaced_percent=900, group_rows=3, partition_rows=2)
    rows = [{"seq": seq, "id": n, "m": n} for seq in range(8) for n in range(3)]
    with Store(None, location, site, limits=limits) as store:
        store.update({"events": rows[:-6]})
        assert (
            len([path for path in files_below(root(location)) if "events/content/part" in path])
            == 6
        )
    with Store(None, location, site, limits=limits) as store:
        version = store.update({}, partitions={"events": [6]})
        move = version.stages["last"].window
        assert move is not None
        assert (move.reused, move.left) == (True, (2,))
        assert version.stages["last"].rows_read == 3 + 3
        assert store.verify(recompute=True) == ()
