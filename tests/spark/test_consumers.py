"""Consumers of a store: changes between versions, rollbacks, and lineage of rows."""

import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from comparing import as_frames, assert_changes, assert_lineage, assert_same
from forcing import WAYS, Way, forced
from plain_store import fetched
from pyspark.sql import SparkSession
from selecting import long
from series import drawn, packed, packed_histories
from swapping import swap
from wording import text

from deltaproduce import (
    ConflictError,
    DefinitionError,
    InvalidArgumentError,
    NotFoundError,
    Pipeline,
    Store,
)
from deltaproduce.engines.choice import Engines
from deltaproduce.model.limits import Limits
from deltaproduce.operations.publisher import Publisher, Unpublished
from deltaproduce.storage.attempts import Attempt
from deltaproduce.storage.edits import Edit, Restore
from deltaproduce.storage.locations import Location
from deltaproduce.storage.tables.access import TableAccess
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.storage.version_log import VersionLog
from deltaproduce.storage.versions import EMPTY
from deltaproduce.testing import Change, Delete, Oracle, Upsert, strategies

REPLACED, RUNS, FOLDED = (
    next(way for way in WAYS if way.name == name)
    for name in ("replaced", "runs", "runs, often folded")
)
FOLDED_IN_SPARK = Way("folded, in Spark", "merge_on_read", {**FOLDED.limits, "local_rows": 0})
JOINED = Way("joined", "merge_on_read", {**FOLDED_IN_SPARK.limits, "seek_keys": 0})


def some_changes(chance: random.Random) -> list[Change]:
    """New, moved and deleted keys of few."""
    keys = chance.sample(range(6), 3)
    moved = [Upsert((key,), (chance.randrange(4),)) for key in keys[:2] for _ in range(2)]
    return [*moved, Delete((keys[2],))]


class Both:
    """A store and an oracle that do the same."""

    def __init__(self, spark: SparkSession, location: str, pipeline: Pipeline = swap) -> None:
        self.spark, self.location, self.pipeline = spark, location, pipeline
        self.oracle = Oracle(pipeline)
        self.store = Store(spark, location, pipeline)

    def reopen(self, way: Way) -> None:
        store = Store(self.spark, self.location, self.pipeline, table_type=way.table_type)
        self.store = store

    def update(self, batch: dict[str, list[Change]]) -> None:
        number = self.oracle.update(batch)
        given = as_frames(None, self.pipeline, batch)
        assert self.store.update(given).number == number

    def rollback(self, version: int) -> None:
        number = self.oracle.rollback(version)
        assert self.store.rollback(version).number == number
        self.same(number)

    def same(self, *numbers: int) -> None:
        for number in numbers:
            assert_same(self.store, self.oracle, self.pipeline, number)

    def modes(self) -> list[str]:
        """How each version wrote the stage."""
        return [version.stages["swapped"].mode for version in self.store.versions()]


# ---- rollback


@long
@pytest.mark.parametrize("way", [FOLDED, FOLDED_IN_SPARK, REPLACED], ids=lambda way: way.name)
def test_a_rollback_is_a_version_equal_to_the_one_it_names(
    spark: SparkSession, location: str, way: Way
) -> None:
    """One to nothing, too, and one that brings back what another has set back.

    A short run has rollbacks in Spark where paths are odd, and `tests/local` each.
    """
    chance = random.Random(way.name)
    both = Both(spark, location)
    both.reopen(way)
    with forced(way):
        both.update({"pairs": some_changes(chance)})
        both.update({"pairs": some_changes(chance)})
        both.rollback(1)
        both.update({"pairs": some_changes(chance)})
        both.same(4)
        both.rollback(2)
    assert both.modes()[2::2] == ["restore", "restore"]
    assert [v.operation for v in both.store.versions()[3:]] == ["update", "rollback"]
    both.same(4)
    both.rollback(0)
    both.update({"pairs": some_changes(chance)})
    both.rollback(5)  # what Delta set back is there again
    assert both.modes()[5:] == ["rewrite", "full", "rewrite"]
    assert both.store.rollback(5) == both.store.head
    both.same(4, 7)


@long
def test_the_same_rows_in_other_tables_are_the_same_version(
    spark: SparkSession, location: str
) -> None:
    flags = Pipeline("flags")
    pairs = flags.source("pairs", key="a bigint", value="b bigint")

    @flags.producer(pairs, key="b bigint", value="is_there boolean")
    def swapped(a: int, values: Iterator[int]) -> Iterator[Any]:
        for b in values:
            yield b, True

    both = Both(spark, location, flags)
    both.update({"pairs": [Upsert((1,), (7,)), Upsert((2,), (8,))]})
    both.update({"pairs": [Upsert((1,), (8,)), Upsert((2,), (7,))]})  # who made it, not what
    both.update({"pairs": [Upsert((1,), (7,)), Upsert((2,), (8,))]})
    assert both.store.rollback(1) == both.store.head
    with forced(REPLACED):
        assert both.store.rollback(1) == both.store.head
        both.rollback(2)
    assert both.store.head.stages["swapped"].changed_keys == 0
    assert both.modes()[3] == "restore"


@long
def test_no_fold_of_what_was_rolled_back_comes_back(
    spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(1)
    with forced(RUNS):
        both = Both(spark, location)
        for _ in range(3):
            both.update({"pairs": some_changes(chance)})
        other = Store(spark, location, swap)
        other.compact()  # unknown to the store, and on top of what version 2 pins
        both.rollback(2)
        both.update({"pairs": some_changes(chance)})
        late = both.store.head
        both.rollback(4)  # only runs were added since: content is where it was, and yet it moves
        assert both.store.head.stages["swapped"].base.runs == 1
        with monkeypatch.context() as patched:  # other does not notice that it comes too late
            patched.setattr("deltaproduce.operations.compaction.current", lambda pinned, _: pinned)
            other._writer.executor._compactor.start(late, at_once=True)
            with pytest.raises(ConflictError):
                other._writer.executor._compactor.finish(raises=True)
        both.update({"pairs": some_changes(chance)})
    both.same(6, 7)
    both.reopen(RUNS)
    both.same(7)


class DiedError(Exception):
    pass


def dying(*_: Any, **__: Any) -> Any:
    raise DiedError


def test_a_rollback_that_dies_or_is_overtaken_leaves_no_trace(
    spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = Both(spark, location)
    for number in (1, 2):
        both.update({"pairs": [Upsert((number,), (5,)), Upsert((9,), (number,))]})
    with forced(RUNS), monkeypatch.context() as patched:  # every table is set back
        patched.setattr(VersionLog, "publish", dying)
        with pytest.raises(DiedError):
            both.store.rollback(1)
    both.same(2)
    both.update({"pairs": [Delete((9,))]})
    both.same(3)

    other, publish = Store(spark, location, swap), Publisher.publish
    batch: dict[str, list[Change]] = {"pairs": [Upsert((2,), (6,))]}

    def overtaken(self: Publisher, new: Unpublished, writes: Any) -> Any:
        if new.operation == "rollback":
            other.update(as_frames(spark, swap, batch))
        return publish(self, new, writes)

    with monkeypatch.context() as patched:
        patched.setattr(Publisher, "publish", overtaken)
        with pytest.raises(ConflictError):
            both.store.rollback(1)
    both.oracle.update(batch)
    both.same(4)
    both.rollback(1)


@long
def test_a_stage_that_came_later_is_made_again_after_a_rollback(
    spark: SparkSession, location: str
) -> None:
    def by_value(a: int, values: Iterator[int]) -> Iterator[Any]:
        for b in values:
            yield b, a

    early, late, other = Pipeline("early"), Pipeline("late"), Pipeline("other columns")
    for pipeline in (early, late, other):
        pairs = pipeline.source("pairs", key="a bigint", value="b bigint")
        if pipeline is not early:
            key = "b bigint" if pipeline is late else "b int"
            pipeline.producer(pairs, key=key, value="a bigint", name="swapped")(by_value)

    def pairs_of(*found: tuple[int, int]) -> dict[str, Any]:
        return {"pairs": spark.createDataFrame(found, "a bigint, b bigint")}

    def content(of: Store) -> list[tuple[int, int]]:
        return sorted(tuple(row) for row in of.content("swapped").select("b", "a").collect())

    Store(spark, location, early).update(pairs_of((1, 7)))
    store = Store(spark, location, late)
    store.update(pairs_of((2, 7)))
    with forced(REPLACED):
        assert store.rollback(1).stages["swapped"].mode == "restore"
    assert content(store) == []
    assert [tuple(r) for r in store.updates("swapped").collect()] == [(3, "delete", 7, 0, None)]
    assert store.update(pairs_of((5, 6))).stages["swapped"].mode == "full"
    assert content(store) == [(6, 5), (7, 1)]
    with pytest.raises(DefinitionError) as refused:
        Store(spark, location, other).rollback(2)
    assert refused.value.stage == "swapped"
    assert store.rollback(2).stages["swapped"].changed_keys == 2
    assert content(store) == [(7, 1), (7, 2)]

    Store(spark, location, early).update(pairs_of((1, 8)))  # the stage's updates end here
    with pytest.raises(NotFoundError):
        store.changes("swapped", 4)
    with forced(REPLACED):
        assert store.rollback(5).stages["swapped"].rows == 2
    assert content(store) == [(7, 1), (7, 2)]
    assert store.changes("swapped", 6).count() == 2
    assert store.changes("pairs", 5).count() == 0
    assert store.head.number == 7


@long
def test_a_table_is_set_back_in_one_commit(spark: SparkSession) -> None:
    """In a catalog; a short run has it at paths, where stores go on after a crash."""
    tables = Tables(TableAccess(Engines(spark, Limits()), Location.parse("set_back")))
    tables.committer.ensure_schema()
    table, columns = tables.location.table("numbers", "content"), swap.stages[0].schema.key.columns
    attempt = Attempt.after(EMPTY, datetime.now(UTC))
    for number in (1, 2):
        rows = Edit(pa.table({"a": [number]}), columns, number == 1, None, columns)
        assert (
            tables.committer.commit(table, rows, attempt, number - 2 if number > 1 else None)
            == number - 1
        )
    back = Attempt.after(EMPTY, datetime.now(UTC))
    assert tables.committer.commit(table, Restore(0), back, 1) == 2
    assert (
        tables.committer.commit(table, Restore(2), back, 2) == 3
    )  # it is there, and moves all the same
    assert [commit.attempt for commit in tables.reader.recent_commits(table)[:2]] == [back, back]
    assert [row.a for row in tables.reader.read(table).collect()] == [1]
    for behind in (0, 2):
        with pytest.raises(ConflictError):
            tables.committer.commit(table, Restore(behind), back, 2)
    assert spark.conf.get("spark.databricks.delta.commitInfo.userMetadata", None) is None


# ---- changes


def test_changes_equal_the_oracles(spark: SparkSession, location: str, long_run: bool) -> None:
    """Rows of any type, in any number, that come, go, move and are put in another order.

    Spark joins those of the last stage, and in a long run of each.
    """
    (single,) = drawn(strategies.pipelines(max_producers=2), 1, 7)
    exact = strategies.histories(single, min_versions=3, max_versions=3)
    pipeline = packed(single)
    both = Both(spark, location, pipeline)
    for batch in packed_histories(drawn(exact, 20, 7)):
        both.update(batch)
    both.rollback(1)
    for stage in pipeline.stages:
        assert_changes(both.store, both.oracle, stage.name, 0, None, "complete")
        is_joined = long_run or stage is pipeline.stages[-1]
        for way, since, until in ((FOLDED, 1, 3), (JOINED, 2, None))[: 1 + is_joined]:
            with forced(way):
                assert_changes(both.store, both.oracle, stage.name, since, until, "net")
                if long_run:
                    assert_changes(both.store, both.oracle, stage.name, since, until, "complete")


def test_changes_of_no_versions_or_no_such_ones(spark: SparkSession, location: str) -> None:
    store = Store(spark, location, swap)
    assert store.changes("swapped", 0).columns == [
        *("b", "a", "_change_type", "_commit_version", "_commit_timestamp")
    ]
    for wrong, error, argument in (
        (lambda: store.changes("swapped", 1), NotFoundError, None),
        (lambda: store.changes("nowhere", 0), NotFoundError, None),
        (lambda: store.changes("swapped", 0, mode="all"), InvalidArgumentError, "mode"),
        (lambda: store.rollback(1), NotFoundError, None),
        (lambda: store.lineage("swapped", 1, version=1), NotFoundError, None),
        (lambda: store.forget("swapped", 1), NotFoundError, None),
        (lambda: store.forget("pairs", (1,)), InvalidArgumentError, "key"),
        (lambda: store.lineage("swapped", "1"), InvalidArgumentError, "key"),
    ):
        with pytest.raises(error) as refused:
            wrong()
        assert getattr(refused.value, "argument", None) == argument
    assert store.rollback(0) == store.head
    assert store.forget("pairs", 1).remains == ()
    assert store.lineage("swapped", 1).upstream["pairs"].isEmpty()
    store.update({"pairs": spark.createDataFrame([(1, 2)], "a bigint, b bigint")})
    assert store.changes("swapped", 1).isEmpty()
    with pytest.raises(InvalidArgumentError) as refused:
        store.changes("swapped", 1, 0)
    assert refused.value.argument == "since"


# ---- lineage and forgetting

TEXT = [
    [(("a", 1), "the cat"), (("a", 2), "a the"), (("b", 1), "dog")],
    [(("b", 2), "cat cow"), (("a", 1), "the hen")],
    [(("c", 1), "the end")],
]


@pytest.fixture(scope="module")
def texts(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Both:
    both = Both(spark, str(tmp_path_factory.mktemp("texts") / "store"), text)
    with forced(RUNS):
        for rows in TEXT:
            both.update({"lines": [Upsert(key, (line,)) for key, line in rows]})
    return both


@pytest.mark.parametrize(
    ("stage", "key", "version"),
    [
        pytest.param("lines", {"number": 1, "file": "a"}, None, marks=long),
        ("words", "the", 2),
        pytest.param("shapes", (3, "c"), None, marks=long),
        pytest.param("words", "nothing", None, marks=long),
    ],
)
def test_a_lineage_is_what_the_key_mappings_say(
    texts: Both, stage: str, key: Any, version: int | None
) -> None:
    at = texts.oracle.head if version is None else version
    assert_lineage(texts.store, texts.oracle, text, stage, key, at)


def test_what_remains_of_a_forgotten_key_is_named(texts: Both) -> None:
    with forced(RUNS):
        found = texts.store.forget("lines", ("a", 1))
        texts.oracle.update({"lines": [Delete(("a", 1))]})
        again = texts.store.forget("lines", {"number": 1, "file": "a"})
    assert (found.version.number, found.version.operation) == (4, "forget")
    assert again.version == found.version == texts.store.head
    assert again.remains == found.remains
    texts.same(4)
    named = {(r.stage, r.table, number) for r in found.remains for number in r.versions}
    tables: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    for version in texts.store.versions():
        for stage, figures in version.stages.items():
            for kind, delta_version in figures.delta_versions.items():
                tables[stage, kind, delta_version].append(version.number)
    for (stage, kind, delta_version), numbers in tables.items():
        read = fetched(f"{texts.location}/{stage}/{kind}", delta_version)
        assert read is not None
        rows = read[0].to_pylist()
        words = any("hen" in (row.get("word"), row.get("_source_word")) for row in rows)
        lines = any((row.get("file"), row.get("number")) == ("a", 1) for row in rows)
        assert not (words or lines) or {(stage, kind, number) for number in numbers} <= named
    assert ("words", "content", 4) not in named  # its rows are replaced in its tables
    assert texts.store.forget("lines", ("z", 1)).remains == ()
