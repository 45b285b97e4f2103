"""Changes by someone else to a store's tables are noticed, named, and repaired in a version."""

import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from comparing import as_snapshots, assert_changes, assert_same, on_disk
from crashing import FACTOR, CrashAt, CrashError, batch, built, drawn, fail, frames, orders
from deltalake import DeltaTable
from limiting import limited
from pyspark.sql import SparkSession
from selecting import chosen, long

from deltaproduce import CorruptStoreError, NotFoundError, Store
from deltaproduce.operations.step.plan import TableType
from deltaproduce.storage import failpoints
from deltaproduce.storage.attempts import Attempt
from deltaproduce.storage.versions import EMPTY
from deltaproduce.testing import Oracle, plain_rows

Harm = Callable[[SparkSession, Path], object]
"""Something done to a table, given its directory."""


@pytest.fixture(autouse=True)
def as_large_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are written as if they were large, by runs or by pairs."""
    limited(monkeypatch, small_table_rows=0, replaced_percent=900)
    FACTOR[0] = 1


@pytest.fixture(scope="module")
def originals(
    tmp_path_factory: pytest.TempPathFactory, long_run: bool
) -> Iterator[dict[TableType, tuple[Path, Oracle]]]:
    """A store of each table type."""
    with pytest.MonkeyPatch.context() as patched:
        limited(patched, small_table_rows=0, replaced_percent=900)
        found: dict[TableType, tuple[Path, Oracle]] = {}
        for table_type in TABLE_TYPES if long_run else TABLE_TYPES[:1]:
            place = tmp_path_factory.mktemp(table_type) / "store"
            found[table_type] = place, built(None, str(place), table_type=table_type)
        yield found


TABLE_TYPES: tuple[TableType, ...] = ("merge_on_read", "copy_on_write")


@pytest.fixture(params=chosen(TABLE_TYPES, "merge_on_read"))
def table_type(request: pytest.FixtureRequest) -> TableType:
    return request.param


class Place:
    """A copy of a store, to be harmed."""

    def __init__(
        self, spark: SparkSession, original: tuple[Path, Oracle], path: Path, table_type: TableType
    ) -> None:
        shutil.copytree(original[0], path)
        self.spark, self.path, self.table_type = spark, path, table_type
        self.oracle = Oracle(orders())
        for number in range(original[1].head):
            self.oracle.update(drawn(number))

    def open(self) -> Store:
        return Store(self.spark, str(self.path), orders(), table_type=self.table_type)

    def update(self, number: int) -> None:
        """An update that reaches every table, of a store that is opened for it."""
        changes = batch((number, number, number), (0, 0, number), (1, 1, number))
        store, expected = self.open(), self.oracle.update(changes)
        assert store.update(frames(None, changes)).number == expected
        assert_same(store, self.oracle, orders(), expected)


@pytest.fixture
def place(
    spark: SparkSession,
    originals: dict[TableType, tuple[Path, Oracle]],
    table_type: TableType,
    tmp_path: Path,
) -> Place:
    return Place(spark, originals[table_type], tmp_path / "store", table_type)


def sql(*statements: str) -> Harm:
    """Statements on a table, which they call ``{t}``."""

    def harm(spark: SparkSession, table: Path) -> None:
        for statement in statements:
            spark.sql(statement.format(t=f"delta.`{table}`"))

    return harm


def drop(_: SparkSession, table: Path) -> None:
    shutil.rmtree(table)


def recreate(spark: SparkSession, table: Path) -> None:
    rows = spark.read.format("delta").load(str(table)).toArrow()
    shutil.rmtree(table)
    for _ in range(8):
        spark.createDataFrame(rows).write.format("delta").mode("append").save(str(table))


def remove_files(_: SparkSession, table: Path) -> None:
    for file in table.glob("*.parquet"):
        file.unlink()


def truncate_files(_: SparkSession, table: Path) -> None:
    for file in table.glob("*.parquet"):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def empty_log(_: SparkSession, table: Path) -> None:
    for file in (table / "_delta_log").glob("*.*"):
        file.unlink()


COMMITS = {
    "append": sql("INSERT INTO {t} SELECT * FROM {t}"),
    "delete": sql("DELETE FROM {t} WHERE customer IS NOT NULL"),
    "restore": sql("INSERT INTO {t} SELECT * FROM {t}", "RESTORE {t} TO VERSION AS OF 0"),
}
LOSSES = {
    "drop": drop,
    "recreate": recreate,
    "removed files": remove_files,
    "truncated files": truncate_files,
    "log without commits": empty_log,
}


def refused(place: Place, table: str, operation: Callable[[Store], object]) -> CorruptStoreError:
    with pytest.raises(CorruptStoreError) as caught:
        operation(place.open())
    assert caught.value.table == table
    assert table in str(caught.value)
    return caught.value


def update(place: Place) -> Callable[[Store], object]:
    """An update that reaches every table."""
    changes = frames(None, batch((9, 9, 9), (0, 0, 1), (1, 1, 1)))
    return lambda store: store.update(changes)


@pytest.mark.parametrize("harm", chosen(COMMITS, "append"))
def test_a_commit_by_someone_else_is_noticed(place: Place, harm: str) -> None:
    """By a store that is just opened, and by one that knows the table."""
    knowing = place.open()
    changes = batch((0, 3, 3), (5, 3, 3))
    knowing.update(frames(None, changes))
    place.oracle.update(changes)
    table = "by_customer/updates"
    COMMITS[harm](place.spark, place.path / table)
    head = place.oracle.head
    assert_same(place.open(), place.oracle, orders(), head)  # readers have what the head pins
    before = on_disk(str(place.path))
    refused(place, table, update(place))
    assert on_disk(str(place.path)) == before  # of a store that has looked, nothing is stored
    for store in (knowing, knowing, place.open()):
        with pytest.raises(CorruptStoreError) as caught:
            update(place)(store)
        assert caught.value.table == table
        assert store.head.number == head
    assert_same(knowing, place.oracle, orders(), head)


@long
def test_what_changes_no_row_is_no_damage(place: Place) -> None:
    for table in ("by_customer/content", "by_customer/updates"):
        sql(
            "ALTER TABLE {t} SET TBLPROPERTIES ('someone' = 'else')",
            "OPTIMIZE {t}",
            "ALTER TABLE {t} UNSET TBLPROPERTIES ('someone')",
        )(place.spark, place.path / table)
    place.update(7)


@long
def test_what_an_attempt_left_and_set_back_is_none(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt that has restored what another left, and dies too, is no foreign hand."""
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), failpoints.armed(_dying):
            place.open().update(frames(None, drawn(8)))
    place.update(7)


def _dying(when: failpoints.When, name: str, table: str) -> None:
    if (when, name) == ("before", "publish"):
        raise ZeroDivisionError


def mended(place: Place, *, begun: bool = False) -> None:
    """After a repair all is as the oracle says, nothing is wrong any more, and updates go on.

    Args:
        begun: updates of a stage had to be begun anew.
    """
    number = place.oracle.update({}, "repair")
    version = place.open().repair()
    assert (version.number, version.operation) == (number, "repair")
    if not begun:
        assert_same(place.open(), place.oracle, orders(), number)
    assert place.open().repair().number == number  # which finds nothing more
    changes = batch((7, 7, 7), (0, 0, 7), (1, 1, 7))
    store, number = place.open(), place.oracle.update(changes)
    assert store.update(frames(None, changes)).number == number
    assert_same(store, place.oracle, orders(), number)
    assert store.verify() == ()


def found(place: Place) -> set[tuple[str, str]]:
    """The tables with something wrong, and what."""
    return {(f"{f.stage}/{f.table}".lstrip("/"), f.what) for f in place.open().verify()}


@long
def test_damage_of_several_kinds_is_found_and_mended(place: Place) -> None:
    """At once what the tests below say of each kind.

    A short run has it without a session and by both engines (`test_mixed_engines`), and a planted
    fault in Spark (`test_verification`).
    """
    COMMITS["delete"](place.spark, place.path / "by_customer/updates")
    remove_files(place.spark, place.path / "by_customer/content")
    drop(place.spark, place.path / "by_customer/key_mappings")
    truncate_files(place.spark, place.path / "orders/content")
    assert found(place) == {
        ("by_customer/updates", "foreign"),
        ("by_customer/content", "unreadable"),
        ("by_customer/key_mappings", "gone"),
        ("orders/content", "unreadable"),
    }
    with pytest.raises(CorruptStoreError):
        update(place)(place.open())
    mended(place)


@long
def test_tables_that_others_committed_to_are_set_back(place: Place) -> None:
    tables = ["by_customer/content", "by_customer/key_mappings", "by_customer/updates"]
    harms = [*COMMITS.values(), COMMITS["append"]]
    for table, harm in zip([*tables, "orders/content"], harms, strict=True):
        harm(place.spark, place.path / table)
    assert found(place) == {(table, "foreign") for table in [*tables, "orders/content"]}
    with pytest.raises(CorruptStoreError):
        update(place)(place.open())
    mended(place)


@long
@pytest.mark.parametrize("harm", chosen(LOSSES, "removed files"))
def test_a_stage_that_lost_files_is_produced_again(place: Place, harm: str) -> None:
    """Reads and updates notice it, verification finds it, and a repair makes its tables anew."""
    table = "by_customer/content"
    properties = DeltaTable(str(place.path / table)).metadata().configuration
    LOSSES[harm](place.spark, place.path / table)
    error = refused(place, table, update(place))
    if harm in ("drop", "log without commits"):
        refused(place, table, lambda store: store.content("by_customer"))
    if harm.endswith("files"):
        assert error.__cause__ is not None
        refused(place, table, lambda store: store.refresh("by_customer"))
    what = "unreadable" if harm.endswith("files") else "gone"
    LOSSES[harm](place.spark, place.path / "by_customer/key_mappings")
    assert found(place) == {(table, what), ("by_customer/key_mappings", what)}
    mended(place)
    assert DeltaTable(str(place.path / table)).metadata().configuration == properties


@long
def test_updates_begin_anew_if_they_are_lost(place: Place) -> None:
    drop(place.spark, place.path / "by_customer/updates")
    before = place.oracle.head
    refused(place, "by_customer/updates", lambda store: store.updates("by_customer"))
    mended(place, begun=True)
    store, repaired = place.open(), before + 1
    with pytest.raises(NotFoundError):
        store.changes("by_customer", before)
    assert_changes(store, place.oracle, "by_customer", repaired, None, "net")
    rows = store.updates("by_customer", repaired).count()
    assert rows == store.content("by_customer", repaired).count()


@long
def test_a_source_is_taken_from_its_updates(place: Place) -> None:
    remove_files(place.spark, place.path / "orders/content")
    assert found(place) == {("orders/content", "unreadable")}
    mended(place)


@long
def test_a_source_that_is_lost_is_loaded(place: Place) -> None:
    for kind in ("content", "updates"):
        remove_files(place.spark, place.path / f"orders/{kind}")
    error = refused(place, "orders/content", lambda store: store.repair())
    assert "store.load" in str(error)
    rows = {"orders": batch((1, 1, 1), (20, 2, 2))["orders"]}
    number = place.oracle.load(rows)
    store = place.open()
    assert store.load(as_snapshots(place.spark, orders(), rows)).number == number
    assert store.verify() == ()
    for stage in ("orders", "by_customer"):
        found = plain_rows(store.content(stage, ordered=True).collect())
        assert found == plain_rows(place.oracle.content(stage, number))
    place.update(7)


@long
def test_a_repair_that_crashes_is_done_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each of its effects in turn, and after it is published."""
    monkeypatch.setattr("deltaproduce.operations.publisher._WRITERS", 1)
    COMMITS["append"](place.spark, place.path / "orders/content")
    drop(place.spark, place.path / "by_customer/key_mappings")
    number = 0
    while place.open().head.number == place.oracle.head:
        with failpoints.armed(CrashAt(number, fail)), pytest.raises(CrashError):
            place.open().repair()
        number += 1
    assert number > 3
    place.oracle.update({}, "repair")
    assert place.open().verify() == ()
    place.update(7)


LOG = {
    "delete": "DELETE FROM {t} WHERE number = 3",
    "hole": "DELETE FROM {t} WHERE number = 2",
    "append": "INSERT INTO {t} SELECT * FROM {t} WHERE number = 3",
    "restore": "RESTORE {t} TO VERSION AS OF 1",
    "change": "UPDATE {t} SET operation = 'load'",
}


@long
def test_the_version_log_is_watched_and_set_back(place: Place) -> None:
    operations = [lambda store: store.head, update(place), lambda store: store.content("orders")]
    for number, harm in enumerate(LOG.values() if place.table_type == "merge_on_read" else ()):
        knowing = place.open()
        knowing.versions()
        sql(harm)(place.spark, place.path / "_versions")
        for store, operation in ((place.open(), operations[number % 3]), (knowing, operations[0])):
            with pytest.raises(CorruptStoreError) as caught:
                operation(store)
            assert caught.value.table == "_versions"
            assert "RESTORE TABLE" in str(caught.value)
        assert found(place) == {("_versions", "versions")}
        mending = knowing if number % 2 else place.open()
        mending._opened.log.repair(Attempt.after(EMPTY, datetime.now(UTC)))
        assert place.open().head == mending.head
    assert place.open().repair().number == place.oracle.head  # there is nothing left to repair
    place.update(7)


@long
def test_a_version_log_that_is_gone_is_not_taken_for_a_new_store(place: Place) -> None:
    knowing = place.open()
    assert knowing.head.number == place.oracle.head
    drop(place.spark, place.path / "_versions")
    refused(place, "_versions", update(place))
    with pytest.raises(CorruptStoreError):
        knowing.versions()
