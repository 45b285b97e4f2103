"""One store used by both engines in turn: one does everything in Spark, one has no session.

The tables do not show which engine made a commit, and the protocol holds for both in any order:
fencing, crashes, older versions.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import damaging
import duckdb
import polars as pl
import pyarrow as pa
import pytest
from comparing import as_frames, assert_changes, assert_lineage
from conftest import SETTINGS
from counting import jobs
from crashing import OPERATIONS, CrashError, batch, drawn, frames, orders
from deltalake import DeltaTable, QueryBuilder
from killing import Stores, all_cases, as_table, killed, some_cases
from limiting import limited
from local_stores import as_rows, assert_same_here
from pyspark.sql import SparkSession
from selecting import chosen, long
from series import drawn as examples

from deltaproduce import ConflictError, Limits, Pipeline, Store
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.file_systems.this_machine import ThisMachine
from deltaproduce.engines.local import files as local_files
from deltaproduce.engines.local.marked import vectors
from deltaproduce.operations.step.plan import TableType
from deltaproduce.storage import failpoints, files
from deltaproduce.testing import Oracle, Upsert, strategies

Rows = list[tuple[Any, ...]]
IN_SPARK = Limits(local_rows=0, small_table_rows=0, replaced_percent=900)
HERE = Limits(small_table_rows=0, replaced_percent=900)


def opened(spark: SparkSession | None, location: str, pipeline: Pipeline) -> Store:
    """The store, all of which is done in Spark, or nothing of which is."""
    return Store(spark, location, pipeline, limits=HERE if spark is None else IN_SPARK)


@pytest.mark.parametrize("number", chosen(range(2), 0))
def test_versions_by_both_in_turn(
    spark: SparkSession, location: str, number: int, long_run: bool
) -> None:
    (pipeline,) = examples(strategies.pipelines(max_producers=2 if long_run else 1), 1, number)
    versions = 4 if long_run else 3
    histories = strategies.histories(pipeline, min_versions=versions, max_versions=versions)
    (history,) = examples(histories, 1, number)
    oracle = Oracle(pipeline)
    for step, changes in enumerate(history, number):
        session = spark if step % 2 else None
        with opened(session, location, pipeline) as store:
            version = store.update(as_frames(session, pipeline, changes))
            assert version.number == oracle.update(changes)
    with opened(None, location, pipeline) as store:
        assert_same_here(store, oracle, pipeline, range(oracle.head + 1))
        assert store.rollback(1).number == oracle.rollback(1)
        assert_same_here(store, oracle, pipeline, [oracle.head])


@pytest.mark.parametrize("first", chosen(["here", "in Spark"], "in Spark"))
def test_one_goes_on_after_a_crash_of_the_other(
    spark: SparkSession, location: str, first: str, long_run: bool
) -> None:
    """The one that crashes has made the versions before; in a short run the one without Spark."""
    one, other = (None, spark) if first == "here" else (spark, None)
    before, oracle = one if long_run else None, Oracle(orders())
    for number in range(2):
        opened(before, location, orders()).update(frames(before, drawn(number)))
        oracle.update(drawn(number))
    with failpoints.armed(before_publication(fail)), suppress(CrashError):
        opened(one, location, orders()).update(frames(one, drawn(50)))
    opened(other, location, orders()).update(frames(other, drawn(2)))
    oracle.update(drawn(2))
    assert_same_here(opened(None, location, orders()), oracle, orders(), range(oracle.head + 1))


@long
@pytest.mark.parametrize("first", ["here", "in Spark"])
def test_one_goes_on_where_a_process_of_the_other_was_killed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """At every fail point and in every effect without a session; in Spark at some."""
    limited(monkeypatch, small_table_rows=0, replaced_percent=900)
    monkeypatch.setattr("deltaproduce.operations.publisher._WRITERS", 1)
    session, settings = (spark, None) if first == "here" else (None, SETTINGS)
    stores = Stores(session, tmp_path, settings)
    wanted = all_cases(stores, OPERATIONS) if first == "here" else some_cases(OPERATIONS)
    outcomes = [*killed(stores, wanted, at_once=20 if first == "here" else 6)]
    print(f"\n\n{as_table(outcomes)}\n")
    assert len(outcomes) >= 2 * len(OPERATIONS)
    assert not [outcome for outcome in outcomes if outcome.is_wrong]


@long
@pytest.mark.parametrize("slow", ["here", "in Spark"])
def test_of_two_writers_one_gets_a_conflict(spark: SparkSession, location: str, slow: str) -> None:
    """One has committed to all tables, and is about to publish, when the other publishes."""
    one, other = (None, spark) if slow == "here" else (spark, None)
    oracle = Oracle(orders())
    opened(None, location, orders()).update(frames(None, drawn(0)))
    oracle.update(drawn(0))
    overtaking = batch((1, 2, 3))

    def overtake() -> None:
        opened(other, location, orders()).update(frames(other, overtaking))

    with failpoints.armed(before_publication(overtake)), pytest.raises(ConflictError):
        opened(one, location, orders()).update(frames(one, drawn(7)))
    oracle.update(overtaking)
    assert_same_here(opened(None, location, orders()), oracle, orders(), range(oracle.head + 1))
    opened(one, location, orders()).update(frames(one, drawn(8)))
    oracle.update(drawn(8))
    assert_same_here(opened(None, location, orders()), oracle, orders(), [oracle.head])


@long
@pytest.mark.parametrize("number", chosen(range(2), 0))
def test_both_say_the_same_of_versions(spark: SparkSession, location: str, number: int) -> None:
    """What changed between two of them, and where a key comes from: rows, columns and types."""
    (pipeline,) = examples(strategies.pipelines(max_producers=2), 1, 10 + number)
    histories = strategies.histories(pipeline, min_versions=3, max_versions=3)
    (history,) = examples(histories, 1, 10 + number)
    oracle = Oracle(pipeline)
    with opened(None, location, pipeline) as store:
        for changes in history:
            store.update(as_frames(None, pipeline, changes))
            oracle.update(changes)
    stage = pipeline.stages[-1]
    keys = [row[: len(stage.schema.key)] for row in oracle.content(stage.name)]
    for session in (None, spark):
        store = opened(session, location, pipeline)
        for since, mode in ((0, "complete"), (1, "net")):
            assert_changes(store, oracle, stage.name, since, None, mode)
        for key in keys[:1]:
            given = key if key[1:] else key[0]
            assert_lineage(store, oracle, pipeline, stage.name, given, oracle.head)


def test_changes_reach_across_another_source_key(spark: SparkSession, location: str) -> None:
    """A stage may be read from other keys than before, and keep its own columns and updates."""
    oracle = Oracle(counts("n bigint"))
    for key, names in (("n bigint", "aab"), ("called string", "cab")):
        batch = {"names": [Upsert((n,), (name,)) for n, name in enumerate(names)]}
        opened(None, location, counts(key)).update(as_frames(None, counts(key), batch))
        oracle.update(batch)
    for session in (None, spark):
        store = opened(session, location, counts("called string"))
        assert_changes(store, oracle, "counts", 1, 2, "net")


def counts(key: str) -> Pipeline:
    """How many rows a name has, by way of a stage with some key."""
    pipeline = Pipeline("names")
    names = pipeline.source("names", key="n bigint", value="name string")

    @pipeline.producer(names, key=key, value="name string")
    def between(n: int, values: Iterator[str]) -> Iterator[Any]:
        for name in values:
            yield (n if key == "n bigint" else name), name

    @pipeline.producer(between, key="name string", value="n int")
    def counts(_: Any, values: Iterator[str]) -> Iterator[Any]:
        for name in values:
            yield name, 1

    return pipeline


def by_spark_sql(spark: SparkSession, path: str, columns: list[str]) -> Rows:
    return [*map(tuple, spark.sql(f"SELECT {', '.join(columns)} FROM delta.`{path}`").collect())]


def by_duckdb(_: SparkSession, path: str, columns: list[str]) -> Rows:
    text = f"SELECT {', '.join(columns)} FROM read_parquet($files)"
    return duckdb.execute(text, {"files": DeltaTable(path).file_uris()}).fetchall()


def by_delta_rs(_: SparkSession, path: str, columns: list[str]) -> Rows:
    query = QueryBuilder().register("found", DeltaTable(path))
    found = pa.table(query.execute(f"SELECT {', '.join(columns)} FROM found").read_all())
    return [tuple(row.values()) for row in found.to_pylist()]


def by_polars(_: SparkSession, path: str, columns: list[str]) -> Rows:
    return pl.read_delta(path).select(columns).rows()


def by_pandas(_: SparkSession, path: str, columns: list[str]) -> Rows:
    found = pa.Table.from_pandas(DeltaTable(path).to_pandas(columns=columns))  # nulls as such
    return [tuple(row.values()) for row in found.to_pylist()]


READERS = (by_spark_sql, by_delta_rs, by_duckdb, by_polars, by_pandas)
_OF_VECTORS: Final = READERS[:2]
"""Those that leave out rows that are marked as deleted."""
READ: dict[str, tuple[TableType, Limits, Limits]] = {
    "small stages": ("merge_on_read", Limits(), Limits(local_rows=0)),
    "runs": ("merge_on_read", HERE, IN_SPARK),
    "copy on write": ("copy_on_write", HERE, Limits(local_rows=0)),
}
"""The table type, and the limits of the store without a session and of the one with it."""


@pytest.mark.parametrize("kind", chosen(READ, "copy on write"))
def test_others_read_what_both_have_written(
    spark: SparkSession, location: str, kind: str, long_run: bool
) -> None:
    """Each table, by each reader: it has the rows that the oracle has.

    Runs are beside what they change: readers agree on both. A short run reads three tables of
    two versions.
    """
    table_type, here, in_spark = READ[kind]
    oracle, pipeline = Oracle(orders()), orders()
    for number in range(4 if long_run else 2):
        session, limits = (spark, in_spark) if number % 2 else (None, here)
        with Store(session, location, pipeline, table_type=table_type, limits=limits) as store:
            store.update(frames(session, drawn(number)))
        oracle.update(drawn(number))
    versions = range(1, oracle.head + 1)
    expected: dict[str, tuple[list[str], Rows | None]] = {
        "_versions": (["number", "operation"], [(number, "update") for number in versions])
    }
    for name in ("orders", "by_customer"):
        for table in ("content", "key_mappings", "updates")[:: 2 if name == "orders" else 1]:
            numbers = versions if table == "updates" else versions[-1:]
            rows = [row for number in numbers for row in getattr(oracle, table)(name, number)]
            is_whole = kind != "runs" or table == "updates"
            expected[f"{name}/{table}"] = [*oracle.columns(name, table)], rows if is_whole else None
        if kind == "runs":
            columns = ["_version", "_is_alive", *oracle.columns(name, "content")]
            expected[f"{name}/runs"] = columns, None
    logs = [log.parent for log in Path(location).rglob("_delta_log")]
    assert {log.relative_to(location).as_posix() for log in logs} == {*expected}
    for table, (columns, rows) in [*expected.items()] if long_run else [*expected.items()][1::2]:
        path = str(Path(location, table))
        right = by_spark_sql(spark, path, columns) if rows is None else rows
        assert right
        logged = "".join(one.read_text() for one in Path(path, "_delta_log").glob("*.json"))
        for read in _OF_VECTORS if '"deletionVector":{' in logged else READERS:
            assert Counter(read(spark, path, columns)) == Counter(right), (read.__name__, table)
        if table != "_versions":
            commits = DeltaTable(path).history()
            assert all('"attempt"' in commit["userMetadata"] for commit in commits)


def test_a_session_that_has_rows_takes_arrow_without_a_job(
    spark: SparkSession, location: str
) -> None:
    """Nothing of a small version is done in Spark."""
    pipeline = orders()
    store = Store(spark, location, pipeline)
    store.update(as_rows(pipeline, drawn(0)))
    before = jobs(spark)
    for number in range(1, 4):
        store.update(as_rows(pipeline, drawn(number)))
    assert store.head.number == 4
    assert jobs(spark) == before


@long
def test_a_vacuum_of_one_leaves_what_the_other_goes_on_from(
    spark: SparkSession, location: str
) -> None:
    """A short run has a vacuum without a session of what Spark has written, below."""
    oracle = Oracle(orders())
    for number in range(4):
        session = spark if number % 2 else None
        opened(session, location, orders()).update(frames(session, drawn(number)))
        oracle.update(drawn(number))
        if number in (2, 3):
            store = opened(None if number == 2 else spark, location, orders())
            store.compact()
            done = store.vacuum(keep_versions=2, unfinished_hours=0)
            assert done.versions == (number - 1,)
            assert done.files
            kept = [version.number for version in store.versions()]
            assert_same_here(opened(None, location, orders()), oracle, orders(), kept)
    for session in (None, spark):
        assert opened(session, location, orders()).verify() == ()


@pytest.fixture(scope="module")
def marked(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of three versions, to be copied, with files of marks."""
    place = tmp_path_factory.mktemp("marked") / "store"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors, "_MOST_IN_LOG", 0)
        for number in range(3):
            session, limits = (spark, IN_SPARK) if number == 2 else (None, HERE)
            with Store(session, place, orders(), limits=limits) as store:
                store.update(frames(session, drawn(number)))
    return place


def test_files_that_nobody_needs_are_found_alike(
    spark: SparkSession, marked: Path, location: str, tmp_path: Path, long_run: bool
) -> None:
    """Those with rows that are marked as deleted, and what others have put there, among them.

    In a short run of one table, for some of its versions.
    """
    shutil.copytree(marked, location)
    if long_run:
        with Store(spark, location, orders(), table_type="copy_on_write", limits=IN_SPARK) as store:
            store.rollback(1)
    table = Path(location, "by_customer", "content")
    assert list(table.glob("*.bin"))
    some = next(table.glob("*.parquet"))
    shutil.copytree(table, table / "backup", ignore=shutil.ignore_patterns("_delta_log"))
    for name in ("part-new.parquet", "_hidden.parquet", ".hidden.parquet", "backup/part-x.parquet"):
        shutil.copy(some, table / name)
    (table / "link").symlink_to(tmp_path)
    (table / "link.parquet").symlink_to(some)
    soon, found = datetime.now(UTC) + timedelta(hours=1), 0
    for path in (table, table.with_name("updates"))[: 1 + long_run]:
        every = [*range(DeltaTable(path).version() + 1)]
        cases = (
            ([], soon),
            ([0], soon - timedelta(hours=2)),
            (every[1:3], soon),
            (every[::2], soon),
            (every, soon - timedelta(hours=2)),
        )
        for needed, since in cases[: 5 if path == table else 2] if long_run else cases[2:3]:
            in_spark = files._in_spark(spark, str(path), needed, since).collect()
            here = local_files.unneeded(Directory(ThisMachine(), str(path)), needed, since)
            expected = [dict(zip(here.column_names, row, strict=True)) for row in in_spark]
            assert sorted(here.to_pylist(), key=str) == sorted(expected, key=str)
            found += len(in_spark)
    assert found > (10 if long_run else 0)


def test_rows_that_are_marked_as_deleted_are_left_out_without_spark(
    spark: SparkSession, marked: Path, location: str, long_run: bool
) -> None:
    """Versions are read, verified and vacuumed without a session. What differs is Spark's to write.

    What a vacuum leaves is counted in a short run, and verified in a long one; a short run reads
    one version in Spark, the one with marks.
    """
    shutil.copytree(marked, location)
    with Store(spark, location, orders(), table_type="copy_on_write", limits=IN_SPARK) as store:
        assert list(Path(location, "by_customer", "content").glob("*.bin"))
        before, alone = store.versions(), opened(None, location, orders())
        assert alone.verify() == ()
        assert alone.repair().number == before[-1].number
        for version in before if long_run else before[-1:]:
            for stage in ("orders", "by_customer"):
                here = alone.content(stage, version.number, ordered=True)
                there = store.content(stage, version.number, ordered=True).toArrow()
                assert here.to_pylist() == there.to_pylist()
        for _ in range(2):
            opened(None, location, orders()).vacuum(keep_versions=2, unfinished_hours=0)
        assert [version.number for version in store.versions()] == [2, 3]
        assert store.content("by_customer", 2).count() == before[1].stages["by_customer"].rows
        if long_run:
            assert store.verify() == ()


@long
def test_damage_is_found_by_both_alike_and_mended_by_either(
    spark: SparkSession, location: str, long_run: bool
) -> None:
    """What is wrong is said in the same words; and what one has mended is right for the other.

    In a short run what is mended, and found to be right, without a session; and Spark looks once.
    """
    oracle = Oracle(orders())
    for number in range(3):
        session = spark if number % 2 else None
        opened(session, location, orders()).update(frames(session, drawn(number)))
        oracle.update(drawn(number))
    harms = {
        "orders/content": damaging.append,
        "by_customer/content": damaging.remove_files,
        "by_customer/key_mappings": damaging.drop,
    }
    for session, other in ((None, spark), (spark, None))[: 1 + long_run]:
        for table, harm in harms.items():
            harm(Path(location, table))
        found = opened(session, location, orders()).verify()
        assert len(found) == 3
        assert found == opened(other, location, orders()).verify()
        number = oracle.update({}, f"repair {oracle.head}")
        assert opened(session, location, orders()).repair().number == number
        assert opened(other if long_run else session, location, orders()).verify() == ()
        assert_same_here(opened(None, location, orders()), oracle, orders(), [oracle.head])
    if not long_run:
        return
    faults, _ = damaging.FAULTS["out of order, and other updates"]
    damaging.planted(opened(None, location, orders()), faults)
    found = opened(None, location, orders()).verify()
    assert {(finding.table, finding.what) for finding in found} >= {("content", "order")}
    assert found == opened(spark, location, orders()).verify()


def before_publication(act: Callable[[], object]) -> Callable[[failpoints.When, str, str], None]:
    """Do something before the first publication that comes."""
    done = []

    def point(when: failpoints.When, name: str, table: str) -> None:
        del table
        if (when, name) == ("before", "publish") and not done:
            done.append(True)
            act()

    return point


def fail() -> None:
    raise CrashError
