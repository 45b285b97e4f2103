"""Content stored by partitions, in an order and with a codec from its definition.

The law: how content is stored decides which files have it, and changes no row, update or version.
The random series of all stores include such stages (`strategies.pipelines`); here the definitions
change between versions, and the tests inspect the files.
"""

import json
import random
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crashing import CrashAt, CrashError, fail
from deltalake import DeltaTable
from local_stores import as_rows, assert_no_orphans_here, assert_same_here
from selecting import chosen
from series import drawn

import deltaproduce as dp
from deltaproduce import agg
from deltaproduce.described.content import description, read_text, text_of
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.storage import failpoints
from deltaproduce.storage.parquet.places import LookupCache
from deltaproduce.testing import Change, Oracle, Upsert, strategies
from deltaproduce.testing.strategies.stored import stored_otherwise

WAYS: Mapping[str, Mapping[str, Any]] = {
    "small": {},
    "runs": {
        "limits": dp.Limits(small_table_rows=0, replaced_percent=900, group_rows=2),
        "table_type": "merge_on_read",
    },
    "runs, often folded": {
        "limits": dp.Limits(
            small_table_rows=0,
            replaced_percent=900,
            compaction_commits=2,
            compaction_rows=3,
            overlay_runs=3,
        ),
        "table_type": "merge_on_read",
    },
    "copy on write": {
        "limits": dp.Limits(small_table_rows=0, compaction_commits=3, replaced_percent=0),
        "table_type": "copy_on_write",
    },
    "replaced": {
        "limits": dp.Limits(
            small_table_rows=0, group_rows=3, replaced_percent=900, merged_commits=2
        ),
        "table_type": "copy_on_write",
    },
}
WHOLE = dp.Limits(small_table_rows=0, replaced_percent=0)
"""Content is rewritten, as far as its partitions have changed rows."""
STORED = {"partition": "day, id % 3 AS bucket", "order": "n desc", "compression": "zstd"}
ROWS = [
    {"id": n, "day": date(2026, 1, 1 + n % 4) if n % 7 else None, "kind": "ab"[n % 2], "n": n % 5}
    for n in range(40)
]


def site(stored: object = STORED, by_kind: object = None) -> dp.Pipeline:
    pipeline = dp.Pipeline("site")
    columns = {"key": "id bigint", "value": "day date, kind string, n bigint"}
    events = pipeline.source("events", **columns, stored=stored)

    @pipeline.producer(events, key="kind string", value="id bigint, n bigint", stored=by_kind)
    def by_kind_(number: int, values: Iterator[Any]) -> Iterator[Any]:
        for value in values:
            yield value.kind, (number, value.n)

    return pipeline


def partitions(store: dp.Store, stage: str) -> list[str]:
    table = DeltaTable(store.dataset(stage).location)
    return list(table.metadata().partition_columns)


def assert_read_as_content(store: dp.Store, stage: str, version: int) -> None:
    """Each partition alone, and all, have the rows of the content; files say which they are."""
    found = store.dataset(stage, version)
    content = store.content(stage, version)
    assert in_any_order(found.read()) == in_any_order(content)
    assert store.dataset(stage, version).descriptor == found.descriptor
    by = found.descriptor.partition
    if not by or not len(content):
        return
    name = by[0].rpartition(" AS ")[2].strip("`")
    values = set(parted(content, by[0]))
    told = [found.partition(**{name: value}) for value in values]
    assert in_any_order(pa.concat_tables([one.read() for one in told])) == in_any_order(content)
    assert {path for one in told for path in one.files()} <= {*found.files()}
    for one, value in zip(told, values, strict=True):
        condition = f"`{name}` IS NULL" if value is None else f"`{name}` = {literal(value)}"
        assert in_any_order(found.read(condition)) == in_any_order(one.read())
        assert found.files(condition) == one.files()


def parted(rows: pa.Table, by: str) -> list[Any]:
    """The values of a partition: a column, or one of the strategies' expressions."""
    text = by.partition(" AS ")[0].strip("`")
    if " % " not in by:
        return list(rows[text].to_pylist())
    column = by.partition(" % ")[0].strip("`")
    return [
        n if n is None else abs(n) % 3 * (1 if n >= 0 else -1) for n in rows[column].to_pylist()
    ]


def literal(value: Any) -> str:
    return f"'{value}'" if isinstance(value, date) else str(value)


def in_any_order(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows.to_pylist()))


@pytest.mark.parametrize("way", chosen(WAYS, "runs", "copy on write"))
@pytest.mark.parametrize("number", chosen(range(6), 0))
def test_rows_are_the_same_however_they_are_stored(location: str, number: int, way: str) -> None:
    """Definitions change before each update; older versions, too, are as they were."""
    number = number * len(WAYS) + list(WAYS).index(way)
    (pipeline,) = drawn(strategies.pipelines(remembering=False), 1, 500 + number)
    histories = strategies.histories(pipeline, min_versions=4, max_versions=4)
    (history,) = drawn(histories, 1, number)
    oracle, chance = Oracle(pipeline), random.Random(number)
    for step, batch in enumerate(history):
        (defined,) = drawn(stored_otherwise(pipeline), 1, 10 * number + step)
        with dp.Store(None, location, defined, **WAYS[way]) as store:
            if chance.random() < 0.5:  # else it is stored anew with what changes
                name = f"stored {step}"
                assert store.update({}, name).number == oracle.update({}, name)
            name = f"update {step}"
            assert store.update(as_rows(pipeline, batch), name).number == oracle.update(batch, name)
            for stage in defined.stages:
                assert_read_as_content(store, stage.name, store.head.number)
            if step == 3:
                assert store.rollback(2).number == oracle.rollback(2)
            assert store.verify() == ()
    with dp.Store(None, location, pipeline, **WAYS[way]) as store:
        assert_same_here(store, oracle, pipeline, range(oracle.head + 1))
        for stage in pipeline.stages:
            assert_read_as_content(store, stage.name, chance.randrange(oracle.head + 1))
        store.compact()
        store.vacuum(keep_versions=2, unfinished_hours=0)
        assert_same_here(store, oracle, pipeline, range(oracle.head - 1, oracle.head + 1))
        assert store.verify() == ()


def test_a_changed_definition_writes_content_anew_and_tells_no_reader(location: str) -> None:
    with dp.Store(None, location, site(None)) as store:
        store.update({"events": ROWS})
        before = store.content("events", ordered=True)
        assert partitions(store, "events") == []
    with dp.Store(None, location, site()) as store:
        (step,) = store.plan({})
        assert (step.stage.name, step.cause) == ("events", "changed")
        assert [part.part for part in step.altered] == ["how it is stored"]
        version = store.update({})
        figures = version.stages["events"]
        assert (version.number, figures.mode, figures.changed_keys) == (2, "rewrite", 0)
        assert version.stages["by_kind_"].mode == "skipped"
        assert store.updates("events").num_rows == 0
        assert store.changes("events", since=1).num_rows == 0
        assert store.content("events", ordered=True).equals(before)
        assert partitions(store, "events") == ["day", "bucket"]
        assert store.update({}).number == 2
        assert store.dataset("events", 1).descriptor.partition is None
    with dp.Store(None, location, site({**STORED, "partition": "day,  id%3 AS bucket"})) as store:
        assert store.plan({}) == ()  # it is spelled otherwise, and means the same
    with dp.Store(None, location, site(None)) as store:
        assert store.update({}).number == 3
        assert partitions(store, "events") == []
        assert store.content("events", ordered=True).equals(before)


def test_files_have_one_partition_each_and_are_sorted(location: str) -> None:
    with dp.Store(None, location, site()) as store:
        store.update({"events": ROWS})
        found = store.dataset("events")
        assert found.descriptor.as_dict() == {
            "schema": "id bigint, day date, kind string, n bigint, `_ordinal` bigint",
            "partition": ["day", "`id` % 3 AS bucket"],
            "order": ["n DESC"],
            "compression": "zstd",
            "version": 1,
        }
        groups = {(row["day"], row["id"] % 3) for row in ROWS}
        assert len(found.files()) == len(groups)
        for path in found.files():
            said = pq.read_metadata(f"{found.location}/{path}")
            assert said.row_group(0).column(0).compression == "ZSTD"
            rows = pq.read_table(f"{found.location}/{path}", partitioning=None)
            assert rows.column_names == ["id", "kind", "n", "_ordinal"]
            assert rows["n"].to_pylist() == sorted(rows["n"].to_pylist(), reverse=True)
            assert len({n % 3 for n in rows["id"].to_pylist()}) == 1
        (path,) = found.files("day = '2026-01-02' AND bucket = 1")
        assert path.startswith("day=2026-01-02/bucket=1/")
        assert len(found.files("n > 4")) == 0  # the log has the ends of what files are sorted by
        wanted = [row["id"] for row in ROWS if row["day"] == date(2026, 1, 2) and row["n"] > 2]
        part = found.partition(day="2026-01-02")
        assert sorted(part.read("n > 2")["id"].to_pylist()) == wanted


def test_other_readers_of_delta_tables_see_the_partitions(location: str) -> None:
    with dp.Store(None, location, site(), **WAYS["runs"]) as store:
        store.update({"events": ROWS})
        rows = DeltaTable(store.dataset("events").location).to_pyarrow_table(
            filters=[("bucket", "=", 1)]
        )
        assert {n % 3 for n in rows["id"].to_pylist()} == {1}
        store.update({"events": [{"id": 3, "day": date(2026, 2, 1), "kind": "c", "n": 9}]})
        for version in (1, 2):
            text = store.sql("events", version, dialect="duckdb")
            found = duckdb.sql(text).to_arrow_table().cast(store.content("events").schema)
            assert in_any_order(found) == in_any_order(store.content("events", version))
        added = store.dataset("events").files("day = '2026-02-01'")
        assert [path.startswith("../runs/") for path in added] == [True]
        store.compact()
        store.update({"events": [{"id": 3, "_change_type": "delete"}]})


def test_a_key_in_another_partition_is_not_read(location: str) -> None:
    stored = {"partition": "id"}
    with dp.Store(None, location, site(stored), **WAYS["runs"]) as store:
        store.update({"events": ROWS})
        found = store.lookup("events", pa.table({"id": [3, 5]}), strategy="seek")
        assert (found.row_groups_read, found.row_groups) == (2, 40)
        assert sorted(found.rows["id"].to_pylist()) == [3, 5]
        for path in store.dataset("events").files("id != 7"):
            Path(store.dataset("events").location, path).unlink()
        assert store.update({"events": [{**ROWS[7], "n": 1}]}).stages["events"].mode == "seek"


def files_by_partition(store: dp.Store, stage: str, number: int) -> dict[Any, set[str]]:
    """The files of a stage's own table in a version, by the values of their partition."""
    figures = store.versions()[number - 1].stages[stage]
    location = store.dataset(stage).location
    table = DeltaTable(location, version=figures.delta_versions["content"])
    found: dict[Any, set[str]] = {}
    for file in pa.table(table.get_add_actions()).to_pylist():
        found.setdefault(tuple(file["partition"].values()), set()).add(file["path"])
    return found


def rows_by_partition(store: dp.Store, stage: str, number: int) -> dict[Any, list[str]]:
    found: dict[Any, list[str]] = {}
    for row in store.content(stage, number).to_pylist():
        of = (row["day"], row["id"] % 3) if stage == "events" else (row["kind"],)
        found.setdefault(of, []).append(repr(row))
    return {of: sorted(rows) for of, rows in found.items()}


def differing(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> set[Any]:
    return {of for of in {*before, *after} if before.get(of) != after.get(of)}


def some_changes(chance: random.Random) -> list[dict[str, Any]]:
    """Rows that come, change, move to another partition, and go; often all of a partition."""
    changes: dict[int, dict[str, Any]] = {}
    for number in chance.sample(range(60), chance.randrange(1, 4)):
        day = chance.choice([None, *(date(2026, 1, n) for n in range(1, 7))])
        row = {"id": number, "day": day, "kind": chance.choice("abc"), "n": chance.randrange(5)}
        changes[number] = row if chance.random() < 0.7 else {"id": number, "_change_type": "delete"}
    if chance.random() < 0.3:
        day = date(2026, 1, chance.randrange(1, 5))
        gone = [{"id": row["id"], "_change_type": "delete"} for row in ROWS if row["day"] == day]
        changes |= {row["id"]: row for row in gone}
    return [*changes.values()]


@pytest.mark.parametrize(
    ("way", "is_opened_anew"),
    [
        ("small", True),
        ("copy on write", False),
        pytest.param("small", False, marks=pytest.mark.long),
        pytest.param("copy on write", True, marks=pytest.mark.long),
    ],
)
def test_a_step_writes_only_the_partitions_of_changed_rows(
    location: str, way: str, is_opened_anew: bool, long_run: bool
) -> None:
    """Files of a partition differ if and only if its rows do; an empty one has none."""
    limits = {**WAYS[way], "limits": WHOLE} if way != "small" else {}
    chance, pipeline = random.Random(len(way)), site(STORED, {"partition": "kind"})
    store = dp.Store(None, location, pipeline, **limits)
    store.update({"events": ROWS})
    moved = emptied = 0
    for _ in range(12 if long_run else 6):
        if is_opened_anew:
            store.close()
            store = dp.Store(None, location, pipeline, **limits)
        store.update({"events": some_changes(chance)})
        number = store.head.number
        for stage in ("events", "by_kind_"):
            rows = [rows_by_partition(store, stage, n) for n in (number - 1, number)]
            files = [files_by_partition(store, stage, n) for n in (number - 1, number)]
            assert differing(*files) == differing(*rows)
            assert files[1].keys() == rows[1].keys()
            moved += len(differing(*rows)) > 1
            emptied += len(rows[0].keys() - rows[1].keys())
    assert moved > 3
    assert emptied
    assert store.verify() == ()
    every = [store.content("events", n, ordered=True) for n in range(1, store.head.number + 1)]
    store.rollback(3)
    assert store.content("events", ordered=True).equals(every[2])
    store.vacuum(keep_versions=4, unfinished_hours=0)
    for number in range(store.head.number - 3, store.head.number):
        assert store.content("events", number, ordered=True).equals(every[number - 1])
    assert store.verify() == ()
    store.close()


@pytest.mark.parametrize("by", ["a compaction", "a step"])
def test_a_fold_writes_only_the_partitions_that_runs_reach(location: str, by: str) -> None:
    """Before and after: a row that moved, one that came, and one that went."""
    changed = [
        {**ROWS[8], "day": date(2026, 1, 2)},
        {"id": 60, "day": date(2026, 5, 1), "kind": "b", "n": 1},
        {"id": 11, "_change_type": "delete"},
    ]
    limits = dp.Limits(small_table_rows=0, replaced_percent=900, group_rows=2, overlay_runs=3)
    with dp.Store(None, location, site(), limits=limits, table_type="merge_on_read") as store:
        store.update({"events": ROWS})
        for change in changed:
            store.update({"events": [change]})
        assert files_by_partition(store, "events", 4) == files_by_partition(store, "events", 1)
        assert store.head.stages["events"].base.runs == 3
        if by == "a compaction":
            store.compact()
        store.update({"events": [{**ROWS[22], "n": 9}]})  # it goes on from what was folded
        is_folded_before = by == "a compaction"
        assert store.head.stages["events"].base.runs == is_folded_before
        last = 4 if is_folded_before else 5
        rows = [rows_by_partition(store, "events", n) for n in (1, last)]
        files = [files_by_partition(store, "events", n) for n in (1, 5)]
        assert differing(*files) == differing(*rows)
        assert len(differing(*rows)) == last < len(files[0])
        assert_read_as_content(store, "events", 4)
        assert_read_as_content(store, "events", 5)
        assert store.verify() == ()


def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The data files that are opened from now on, or whose footer is read."""
    found: list[str] = []
    for name in ("parquet", "footer"):
        whole = getattr(Directory, name)

        def seen(self: Directory, inside: str, *more: Any, whole: Any = whole) -> Any:
            found.append(f"{self.path}/{inside}")
            return whole(self, inside, *more)

        monkeypatch.setattr(Directory, name, seen)
    return found


@pytest.mark.parametrize("way", ["small", "runs", "copy on write"])
def test_a_step_opens_only_files_of_the_partitions_of_its_rows(
    location: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where keys, by themselves or by the log's ranges, tell in which partitions they can be."""
    pipeline = dp.Pipeline("days")
    columns = {"key": "kind string, id bigint", "value": "n bigint"}
    stored = {"partition": "kind, id div 100 AS hundred"}
    pipeline.source("events", **columns, stored=stored)
    rows = [{"kind": "abcd"[n % 4], "id": n, "n": n} for n in range(400)]
    with dp.Store(None, location, pipeline, **WAYS[way]) as store:
        store.update({"events": rows})
        before = {*store.dataset("events").files()}
        content = store.dataset("events").location
    changes = [{**rows[101], "n": -1}, {"kind": "c", "id": 302, "_change_type": "delete"}]
    touched = {f"kind={rows[n]['kind']}/hundred={n // 100}" for n in (101, 302)}
    with dp.Store(None, location, pipeline, **WAYS[way]) as store:
        read = opened(monkeypatch)
        store.update({"events": changes})
        inside = {p.removeprefix(f"{content}/") for p in read if p.startswith(f"{content}/")}
        assert {path.rpartition("/")[0] for path in inside} == touched
        after = {path for path in store.dataset("events").files() if "../" not in path}
        is_run = way == "runs"
        assert {path.rpartition("/")[0] for path in before - after} == (
            set() if is_run else touched
        )
        assert len(after) == len(before) == 16
        assert store.content("events").num_rows == 399
        assert store.verify() == ()


def test_a_key_whose_partition_cannot_be_computed_is_sought_everywhere(location: str) -> None:
    pipeline = dp.Pipeline("shares")
    stored = {"partition": "100 div id AS share"}
    pipeline.source("events", key="id bigint", value="n bigint", stored=stored)
    with dp.Store(None, location, pipeline) as store:
        store.update({"events": [{"id": n, "n": n} for n in range(1, 9)]})
    with dp.Store(None, location, pipeline) as store:
        assert store.update({"events": [{"id": 0, "_change_type": "delete"}]}).number == 1
        with pytest.raises(dp.InvalidChangesError) as told:
            store.update({"events": [{"id": 0, "n": 0}, {"id": 3, "n": 0}]})
        assert told.value.keys == (0,)
        store.update({"events": [{"id": 3, "n": 0}]})
        assert store.content("events", ordered=True)["n"].to_pylist() == [1, 2, 0, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    "stored",
    [
        "day",
        {"partitions": "day"},
        {"partition": 1},
        {"compression": None},
        {"compression": "best"},
        {"partition": "nothing"},
        {"partition": "id % 3"},
        {"partition": "id % 3 AS id"},
        {"partition": "_ordinal"},
        {"order": "nothing"},
        {"order": "n, n"},
        {"partition": "rand() AS chance"},
    ],
)
def test_wrong_definitions_are_refused(stored: Any) -> None:
    with pytest.raises(dp.DefinitionError) as told:
        site(stored)
    assert told.value.stage == "events"
    with pytest.raises(dp.DefinitionError) as told:
        site(None, stored)
    assert told.value.stage == "by_kind_"


def test_rows_of_no_partition_are_refused_before_anything_is_written(location: str) -> None:
    with dp.Store(None, location, site({"partition": "kind"})) as store:
        with pytest.raises(dp.InvalidChangesError) as told:
            store.update({"events": [*ROWS, {"id": 99, "day": None, "kind": "", "n": 1}]})
        assert (told.value.source, told.value.column) == ("events", "kind")
        assert told.value.keys == (99,)
        assert store.head.number == 0
    with dp.Store(None, location, site(None, {"partition": "100 div n AS of_hundred"})) as store:
        with pytest.raises(dp.ProducerError) as failed:
            store.update({"events": ROWS})
        assert failed.value.stage == "by_kind_"
        assert store.head.number == 0
        store.update({"events": [row for row in ROWS if row["n"]]})
    with dp.Store(None, location, site({"partition": "kind"})) as store:
        store.update({"events": [{**ROWS[0], "kind": None}]})
        assert store.dataset("events").partition(kind=None).read()["id"].to_pylist() == [0]


def test_rows_that_are_there_are_looked_at_too(location: str) -> None:
    with dp.Store(None, location, site(None), **WAYS["runs"]) as store:
        store.update({"events": [*ROWS, {"id": 99, "day": None, "kind": "", "n": 1}]})
    with dp.Store(None, location, site({"partition": "kind"}), **WAYS["runs"]) as store:
        with pytest.raises(dp.InvalidChangesError) as told:
            store.update({})
        assert told.value.keys == (99,)
        assert store.update({"events": [{"id": 99, "_change_type": "delete"}]}).number == 2


def test_a_stage_is_read_and_never_written_as_a_data_set(location: str) -> None:
    with dp.Store(None, location, site()) as store:
        found = store.dataset("events")
        assert (found.read().num_rows, found.files()) == (0, [])
        store.update({"events": ROWS})
        with pytest.raises(dp.InvalidArgumentError):
            found.writer(roll_rows=3)
        with pytest.raises(dp.InvalidArgumentError):
            found.absorb(found)
        with pytest.raises(dp.NotFoundError):
            dp.Dataset.find(None, found.location)
        assert found.read().num_rows == 0  # it is of one version
        for wrong in ({}, {"n": 1}, {"day": "no day"}):
            with pytest.raises(dp.InvalidArgumentError):
                store.dataset("events").partition(**wrong)
        with pytest.raises(dp.InvalidArgumentError):
            store.dataset("events").read("nothing = 1")
        with pytest.raises(dp.NotFoundError):
            store.dataset("nothing")
        with pytest.raises(dp.NotFoundError):
            store.dataset("events", 7)
        plain = store.dataset("by_kind_")
        assert plain.descriptor.partition is None
        assert len(plain.files()) == 1
        assert plain.read("n > 2").num_rows == sum(row["n"] > 2 for row in ROWS)


def test_rows_are_replaced_in_partitions_that_have_the_whole_key(location: str) -> None:
    """The files have no column by which a row could be looked up."""
    pipeline = dp.Pipeline("flags")
    source = pipeline.source("events", key="id bigint", value="a boolean, b boolean")
    count = {"n": agg.count()}
    pipeline.aggregate("flags", source, key="a, b", values=count, stored={"partition": "a, b"})
    flags = (True, False, None)
    rows = [
        {"id": place, "a": a, "b": b}
        for place, (a, b) in enumerate((a, b) for a in flags for b in flags)
    ]
    with dp.Store(None, location, pipeline, **WAYS["replaced"]) as store:
        store.update({"events": rows})
    with dp.Store(None, location, pipeline, **WAYS["replaced"]) as store:
        store.update({"events": [rows[4] | {"id": 100}, rows[0] | {"id": 101}]})
        found = store.content("flags").to_pylist()
        assert {(row["a"], row["b"]): row["n"] for row in found if row["n"] > 1} == {
            (False, False): 2,
            (True, True): 2,
        }
        assert len(found) == len(rows)
        assert store.verify(recompute=True) == ()


@pytest.mark.parametrize("order", ["v desc", "id, v desc"])
def test_rows_are_replaced_in_files_in_the_order_of_values(
    location: str, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the place of no row is known from a look-up, as after a compaction."""
    monkeypatch.setattr(LookupCache, "of", lambda self, pairs: None)
    pipeline = dp.Pipeline("p")
    stored = {"partition": "n", "order": order}
    pipeline.source("s", key="id bigint, n int", value="v int", stored=stored)
    rows = {(n, n % 3): n % 7 for n in range(100)}
    with dp.Store(None, location, pipeline, limits=dp.Limits(small_table_rows=0)) as store:
        store.update({"s": [{"id": k, "n": n, "v": v} for (k, n), v in rows.items()]})
        store.update({"s": [{"id": 3, "n": 0, "v": 70}]})
        store.update({"s": [{"id": 4, "n": 1, "v": None, "_change_type": "delete"}]})
        del rows[4, 1]
        columns = store.content("s").to_pydict()
        made = dict(zip(zip(columns["id"], columns["n"], strict=True), columns["v"], strict=True))
        assert made == {**rows, (3, 0): 70}
        assert not store.verify()


def test_windows_and_aggregates_may_be_stored_by_partitions(location: str) -> None:
    pipeline = dp.Pipeline("windows")
    columns = {"key": "day date, id bigint", "value": "n bigint"}
    events = pipeline.source("events", **columns, stored={"partition": "day"})
    last = dp.window("day", last=2)
    values = {"n": agg.sum("n"), "most": agg.max("n")}
    stored = {"partition": "id % 2 AS odd", "order": "n"}
    pipeline.aggregate("sums", events, key="id", values=values, window=last, stored=stored)
    oracle = Oracle(pipeline)
    with dp.Store(None, location, pipeline, **WAYS["runs"]) as store:
        for day in range(1, 6):
            batch: dict[str, list[Change]] = {
                "events": [Upsert((date(2026, 1, day), n), (n * day,)) for n in range(4)]
            }
            store.update(as_rows(pipeline, batch))
            oracle.update(batch)
        assert_same_here(store, oracle, pipeline, range(oracle.head + 1))
        assert partitions(store, "events") == ["day"]
        assert partitions(store, "sums") == ["odd"]
        assert store.dataset("sums").partition(odd=1).read()["id"].to_pylist() == [1, 3]
        assert store.verify(recompute=True) == ()


@pytest.mark.parametrize("way", ["small", "runs"])
def test_a_crash_before_any_effect_leaves_whole_versions(tmp_path: Path, way: str) -> None:
    """Of the update that stores content otherwise; the next one stores it so."""
    built = tmp_path / "built"
    with dp.Store(None, str(built), site(None), **WAYS[way]) as store:
        store.update({"events": ROWS})
        expected = store.content("events", ordered=True)
    for number in count():
        place = str(tmp_path / "store")
        shutil.copytree(built, place)
        crash = failpoints.armed(CrashAt(number, fail))
        with dp.Store(None, place, site(), **WAYS[way]) as store, suppress(CrashError), crash:
            store.update({})
        with dp.Store(None, place, site(), **WAYS[way]) as store:
            is_published = store.head.number == 2
            assert store.content("events", ordered=True).equals(expected)
            store.update({"events": [ROWS[0]]})
            assert (store.head.number, partitions(store, "events")) == (2, ["day", "bucket"])
            assert_whole_and_tidy(store, expected)
        shutil.rmtree(place)
        if is_published:
            break
    assert number > 1


def assert_whole_and_tidy(store: dp.Store, events: pa.Table) -> None:
    """The store is right, also after vacuums, which leave no file that nobody needs."""
    assert store.verify() == ()
    store.vacuum(keep_versions=1, unfinished_hours=0)
    store.vacuum(keep_versions=1, unfinished_hours=0)
    assert store.content("events", ordered=True).equals(events)
    assert_no_orphans_here(store)


@pytest.mark.parametrize("way", chosen(["small", "copy on write"], "small"))
def test_a_crash_before_any_effect_of_a_step_in_some_partitions(tmp_path: Path, way: str) -> None:
    """One partition is left, one comes, and one changes; the next update does it again."""
    built = tmp_path / "built"
    pipeline = site(STORED, {"partition": "kind"})
    first = [row for row in ROWS if row["day"] == date(2026, 1, 2)]
    changes: list[dict[str, Any]] = [
        *({"id": row["id"], "_change_type": "delete"} for row in first if row["id"] % 3 == 0),
        {"id": 60, "day": date(2026, 5, 1), "kind": "c", "n": 1},
        {**ROWS[4], "n": 7},
    ]
    with dp.Store(None, str(built), pipeline, **WAYS[way]) as store:
        store.update({"events": ROWS})
        shutil.copytree(built, tmp_path / "whole")
    with dp.Store(None, str(tmp_path / "whole"), pipeline, **WAYS[way]) as store:
        store.update({"events": changes})
        expected = store.content("events", ordered=True)
    for number in count():
        place = str(tmp_path / "store")
        shutil.copytree(built, place)
        crash = failpoints.armed(CrashAt(number, fail))
        with dp.Store(None, place, pipeline, **WAYS[way]) as store, suppress(CrashError), crash:
            store.update({"events": changes})
        with dp.Store(None, place, pipeline, **WAYS[way]) as store:
            is_published = store.head.number == 2
            store.update({"events": changes})
            assert store.head.number == 2
            assert store.content("events", ordered=True).equals(expected)
            rows = [rows_by_partition(store, "events", n) for n in (1, 2)]
            files = [files_by_partition(store, "events", n) for n in (1, 2)]
            assert differing(*files) == differing(*rows)
            assert_whole_and_tidy(store, expected)
        shutil.rmtree(place)
        if is_published:
            break
    assert number > 1


def test_a_vacuum_removes_what_writers_left_in_partitions(location: str) -> None:
    """And what older versions had there, of odd names too; not what is in folders of others."""
    with dp.Store(None, location, site({"partition": "kind"})) as store:
        store.update({"events": [{**row, "kind": "ä %41=/:"} for row in ROWS]})
        store.update({"events": [{**row, "kind": f"it's {row['kind']}"} for row in ROWS]})
        content = Path(store.dataset("events").location)
        (first,) = store.dataset("events", 1).files()
        last = store.dataset("events").files()
        left = (content / last[0]).with_name("left.parquet")
        theirs = content / "theirs" / "left.parquet"
        theirs.parent.mkdir()
        for path in (left, theirs):
            path.write_bytes((content / last[0]).read_bytes())
        assert (content / first).exists()
        store.vacuum(keep_versions=1, unfinished_hours=0)
        assert [(content / path).exists() for path in (*last, first, theirs)] == [
            *(True, True),
            *(False, True),
        ]
        assert not left.exists()
        assert store.verify() == ()
        assert in_any_order(store.dataset("events").read()) == in_any_order(store.content("events"))


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        "{}",
        *(
            json.dumps({"partition": p, "order": [], "compression": c})
            for p, c in (("day", "zstd"), (["nothing"], "zstd"), (["day"], "best"), (None, None))
        ),
    ],
)
def test_text_of_others_in_the_version_log_is_told(text: str) -> None:
    (events, _) = site().stages
    with pytest.raises(dp.CorruptStoreError) as told:
        read_text(text, events)
    assert told.value.table == "_versions"
    assert read_text(text_of(description(events)), events) == description(events)


def test_stored_figures_say_it_only_of_stages_that_are_stored_so(location: str) -> None:
    with dp.Store(None, location, site()) as store:
        store.update({"events": ROWS})
        text = DeltaTable(f"{location}/_versions").to_pyarrow_table()["figures"][0].as_py()
    told = json.loads(text)
    assert "stored" not in told["by_kind_"]
    assert json.loads(told["events"]["stored"])["compression"] == "zstd"
