"""The rules of a record index, one by one; `test_record_index` tests them in random series."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from marked import mark_rows
from records import KEYS, Records

import deltaproduce as dp
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.record_index import parting, runs, seeking
from deltaproduce.record_index.decisions.buckets import buckets_of
from deltaproduce.storage import failpoints


def make(place, rows, **more):
    table = str(place / "t")
    write_deltalake(table, pa.Table.from_pylist(rows), **more)
    return table


def rows(*keys, v="old"):
    return [{"k": key, "v": v} for key in keys]


def indexed(place, *files, **arguments):
    """A table of several files, and an index that was built."""
    for keys in files:
        make(place, rows(*keys), mode="append")
    index = dp.RecordIndex(None, str(place / "t"), "k", str(place / "i"), **arguments)
    index.build()
    return index


def paths(place):
    return set(DeltaTable(str(place / "t")).get_add_actions().column("path").to_pylist())


def found(place):
    table = DeltaTable(str(place / "t")).to_pyarrow_table()
    return {row["k"]: row["v"] for row in table.to_pylist()}


def last_commit(place):
    log = sorted((place / "t" / "_delta_log").glob("*.json"))
    return [json.loads(line) for line in log[-1].read_text().splitlines()]


def test_opening_writes_nothing_and_before_build_there_is_no_index(tmp_path):
    table = make(tmp_path, rows(1))
    index = dp.RecordIndex(None, table, "k", str(tmp_path / "i"))
    assert not (tmp_path / "i").exists()
    for method in (index.compact, index.rebuild, index.verify, index.stats):
        with pytest.raises(dp.NotFoundError):
            method()
    for method in (index.lookup, index.upsert, index.delete):
        with pytest.raises(dp.NotFoundError):
            method(rows(1))
    assert not (tmp_path / "i").exists()
    with pytest.raises(dp.NotFoundError):
        dp.RecordIndex(None, str(tmp_path / "gone"), "k", str(tmp_path / "i"))


def test_an_index_is_opened_as_it_was_built(tmp_path):
    index = indexed(tmp_path, [1, 2], buckets=4)
    other = make(tmp_path / "other", rows(1))
    table, location = str(tmp_path / "t"), str(tmp_path / "i")
    same = dp.RecordIndex(None, table, ["k"], location)
    assert same.stats() == index.stats()

    def by_length(keys):
        return pa.array([0] * len(keys))

    for arguments in (
        {"table": other},
        {"key": "v"},
        {"key": "k, v"},
        {"buckets": 5},
        {"hash": by_length},
        {"ordering": "v"},
    ):
        with pytest.raises(dp.DescriptorMismatchError) as refused:
            dp.RecordIndex(
                None,
                arguments.pop("table", table),
                arguments.pop("key", "k"),
                location,
                **arguments,
            )
        assert refused.value.differences
    index.rebuild(5)
    assert dp.RecordIndex(None, table, "k", location, buckets=5).stats().buckets == 5


def test_a_table_is_the_same_behind_a_link(tmp_path):
    """However its path is spelled; a link to another table is another table."""
    index = indexed(tmp_path, [1, 2])
    make(tmp_path / "other", rows(1, 2))
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "t")
    for table in (link, tmp_path / "i" / ".." / "t"):
        same = dp.RecordIndex(None, str(table), "k", str(tmp_path / "i"))
        assert same.stats() == index.stats()
    link.unlink()
    link.symlink_to(tmp_path / "other" / "t")
    with pytest.raises(dp.DescriptorMismatchError):
        dp.RecordIndex(None, str(link), "k", str(tmp_path / "i"))


@pytest.mark.parametrize("part", ["plain", "ä b", "50%/x"])
def test_rows_that_are_marked_as_deleted_are_no_entries_wherever_the_table_is(tmp_path, part):
    """delta-rs escapes the paths of their files, and resolves links."""
    place = tmp_path / "ü a=b+c"
    given = [{"k": k, "part": part} for k in range(6)]
    make(place, given, partition_by=["part"])
    mark_rows(place / "t", [1, 4])
    (tmp_path / "link").symlink_to(place)
    for folder in (place, tmp_path / "link"):
        index = dp.RecordIndex(None, str(folder / "t"), "k", str(tmp_path / folder.name / "i"))
        index.build()
        assert sorted(index.lookup([*range(7)]).column("k").to_pylist()) == [0, 2, 3, 5]
        assert (index.stats().records, index.verify()) == (4, ())
        with pytest.raises(dp.SessionError):
            index.delete([2])


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": "nothing"},
        {"key": ""},
        {"key": []},
        {"key": ["k", "k"]},
        {"key": 1},
        {"buckets": 0},
        {"buckets": True},
        {"buckets": 1.5},
        {"hash": "md5"},
        {"ordering": "nothing"},
        {"table": 1},
        {"location": "a_schema"},
        {"location": 1},
    ],
)
def test_wrong_arguments_are_refused(tmp_path, wrong):
    good = {"table": make(tmp_path, rows(1)), "key": "k", "location": str(tmp_path / "i")}
    with pytest.raises((dp.DefinitionError, dp.InvalidArgumentError)):
        dp.RecordIndex(None, **{**good, **wrong})
    assert not (tmp_path / "i").exists()


def test_an_index_inside_its_table_is_refused(tmp_path):
    """A VACUUM of the table removes what its log does not name, also through a symbolic link."""
    table = make(tmp_path, rows(1))
    (tmp_path / "link").symlink_to(table)
    before = sorted(tmp_path.rglob("*"))
    for place in (table, f"{table}/index", str(tmp_path / "link" / "index")):
        with pytest.raises(dp.DefinitionError):
            dp.RecordIndex(None, table, "k", place)
    assert sorted(tmp_path.rglob("*")) == before
    dp.RecordIndex(None, table, "k", f"{table}_index").build()


def test_float_and_nested_keys_are_refused(tmp_path):
    table = make(tmp_path, [{"f": 1.0, "n": [1]}])
    for key in ("f", "n"):
        with pytest.raises(dp.DefinitionError) as refused:
            dp.RecordIndex(None, table, key, str(tmp_path / "i"))
        assert refused.value.column == key


def test_a_lookup_gives_keys_partitions_and_files(tmp_path):
    some = pa.table({"p": pa.array([1, 1, None], pa.int32()), "k": ["a", None, "c"]})
    table = str(tmp_path / "t")
    write_deltalake(table, some, partition_by=["p"])
    index = dp.RecordIndex(None, table, "k", str(tmp_path / "i"))
    index.build()
    files = pa.table(DeltaTable(table).get_add_actions(flatten=True)).to_pydict()
    path = dict(zip(files["partition.p"], files["path"], strict=True))
    asked = pa.table({"k": pa.array(["c", "a", "a", "b"])})
    answer = index.lookup(asked)
    assert answer.schema.names == ["k", "p", "_file"]
    assert answer.schema.field("p").type == pa.int32()
    assert answer.to_pylist() == [
        {"k": "c", "p": None, "_file": path[None]},
        {"k": "a", "p": 1, "_file": path[1]},
    ]
    assert index.lookup(asked.slice(0, 0)).to_pylist() == []


def test_null_is_a_key(tmp_path):
    table = str(tmp_path / "t")
    write_deltalake(table, pa.table({"k": pa.array([1, None], pa.int64()), "v": ["a", "b"]}))
    index = dp.RecordIndex(None, table, "k", str(tmp_path / "i"))
    index.build()
    assert index.lookup([{"k": None}]).num_rows == 1
    assert index.upsert([{"k": None, "v": "c"}]).updated == 1
    assert found(tmp_path) == {1: "a", None: "c"}
    assert index.delete([{"k": None}]).deleted == 1
    assert index.lookup([{"k": None}]).num_rows == 0


def test_a_key_twice_is_refused(tmp_path):
    table = make(tmp_path, rows(1, 2, 2))
    index = dp.RecordIndex(None, table, "k", str(tmp_path / "i"))
    with pytest.raises(dp.InvalidChangesError) as refused:
        index.build()
    assert refused.value.keys == (2,)
    assert not (tmp_path / "i").exists()
    DeltaTable(table).delete("k = 2")
    index.build()
    with pytest.raises(dp.InvalidChangesError) as refused:
        index.upsert(rows(5, 5))
    assert refused.value.keys == (5,)
    assert found(tmp_path) == {1: "old"}


def test_rows_that_do_not_fit_are_refused(tmp_path):
    index = indexed(tmp_path, [1, 2])
    for wrong in (
        [{"k": "x", "v": "a"}],
        [{"k": 1, "w": 1}],
        pa.table({"k": [1]}),
        pa.table({"k": [0.5], "v": ["a"]}),
        None,
    ):
        with pytest.raises(dp.InvalidChangesError):
            index.upsert(wrong)
    for wrong in ([{"k": "x"}], pa.table({"v": ["a"]}), pa.table({"k": [0.5]}), 1):
        for method in (index.lookup, index.delete):
            with pytest.raises(dp.InvalidArgumentError) as refused:
                method(wrong)
            assert refused.value.argument == "keys"
    with pytest.raises(dp.InvalidChangesError, match=r"^[^\n]*'k'[^\n]*'v'[^\n]*$") as refused:
        index.upsert(pa.table({"k": [0.5], "v": [1]}))  # both are told, in one line
    assert refused.value.columns == ("k", "v")
    assert DeltaTable(str(tmp_path / "t")).version() == 0


def test_an_upsert_removes_exactly_the_files_that_have_its_rows(tmp_path, monkeypatch):
    index = indexed(tmp_path, [1, 2], [3, 4], [5, 6], [7, 8])
    places = {row["k"]: row["_file"] for row in index.lookup(rows_of(range(1, 9))).to_pylist()}
    read = []
    parquet = Directory.parquet

    def seen(self, inside, footer=None):
        read.append(f"{self.path}/{inside}")
        return parquet(self, inside, footer)

    monkeypatch.setattr(Directory, "parquet", seen)
    changed = index.upsert([*rows(3, 9, v="new"), *rows(5)])
    assert changed == dp.Changed(1, 1, 0, 1, 4, "files")
    actions = last_commit(tmp_path)
    assert {a["remove"]["path"] for a in actions if "remove" in a} == {places[3]}
    assert len([a for a in actions if "add" in a]) == 2
    table = str(tmp_path / "t")
    assert {p for p in read if p.startswith(table)} == {f"{table}/{places[k]}" for k in (3, 5)}
    read.clear()
    assert index.delete([{"k": 7}, {"k": 8}, {"k": 99}]).deleted == 2
    assert {p for p in read if p.startswith(table)} == {f"{table}/{places[7]}"}
    assert [a for a in last_commit(tmp_path) if "add" in a] == []
    assert found(tmp_path) == {1: "old", 2: "old", 3: "new", 4: "old", 5: "old", 6: "old", 9: "new"}
    assert index.verify() == ()


def rows_of(keys):
    return [{"k": key} for key in keys]


def test_what_changes_nothing_commits_nothing(tmp_path):
    index = indexed(tmp_path, [1, 2])
    stored = DeltaTable(str(tmp_path / "i")).version()
    assert index.upsert(rows(1, 2)) == dp.Changed(0, 0, 0, 2, 0, "files")
    assert index.delete(rows_of([7, 7])) == dp.Changed(0, 0, 0, 1, 0, "files")
    assert index.upsert(pa.table({"k": pa.array([], pa.int64()), "v": pa.array([], pa.string())}))
    assert DeltaTable(str(tmp_path / "t")).version() == 0
    assert DeltaTable(str(tmp_path / "i")).version() == stored


def test_a_delete_forgets_and_a_key_may_come_back(tmp_path):
    table = str(tmp_path / "t")
    write_deltalake(table, pa.table({"k": [1], "at": [9], "v": ["a"]}))
    index = dp.RecordIndex(None, table, "k", str(tmp_path / "i"), ordering="at")
    index.build()
    assert index.upsert([{"k": 1, "at": 8, "v": "late"}]).ignored == 1
    assert index.upsert([{"k": 1, "at": None, "v": "null"}]).ignored == 1
    assert index.upsert([{"k": 1, "at": 9, "v": "equal"}]).updated == 1
    assert index.delete(rows_of([1])).deleted == 1
    assert index.stats().tombstones == 1
    assert index.upsert([{"k": 1, "at": 1, "v": "back"}]).inserted == 1
    assert found(tmp_path) == {1: "back"}
    assert index.verify() == ()


def test_after_a_compaction_there_are_no_tombstones_and_a_run_a_bucket(tmp_path):
    index = indexed(tmp_path, range(50), range(50, 100), buckets=2)
    for key in range(6):
        index.upsert(rows(key, 1_000 + key, v="new"))
        index.delete(rows_of([key]))
    stats = index.stats()
    assert stats.runs > 2
    assert stats.tombstones == 6
    index.compact()
    after = index.stats()
    assert after.runs <= 2
    assert (after.tombstones, after.records) == (0, stats.records) == (0, 100)
    version = DeltaTable(str(tmp_path / "i")).version()
    index.compact()
    assert DeltaTable(str(tmp_path / "i")).version() == version
    assert index.verify() == ()


def test_each_file_of_an_index_is_sorted_and_of_its_bucket(tmp_path, monkeypatch):
    monkeypatch.setattr("deltaproduce.record_index.decisions.keying._MIXED_ENTRIES", 0)
    index = indexed(tmp_path, range(0, 400, 2), range(1, 400, 2), buckets=3)
    index.upsert(rows(*range(400, 500)))
    index.delete(rows_of(range(50)))
    files = pa.table(DeltaTable(str(tmp_path / "i")).get_add_actions()).to_pylist()
    runs_there = set()
    for file in files:
        run, bucket = file["partition"]["_run"], file["partition"]["_bucket"]
        if run is not None:
            keys = pq.read_table(tmp_path / "i" / file["path"], partitioning=None).select(["k"])
            assert keys.column("k").to_pylist() == sorted(keys.column("k").to_pylist())
            assert set(buckets_of(keys, "xxhash64", 3).tolist()) == {bucket}
            runs_there.add((run, bucket))
    assert runs_there == {(run, bucket) for run in range(3) for bucket in range(3)}
    assert index.verify() == ()


def test_writers_at_once_lose_nothing(tmp_path):
    """Each tries again after a conflict; what all have written is there, and the index is right."""
    indexed(tmp_path, range(40))

    def write(writer):
        index = dp.RecordIndex(None, str(tmp_path / "t"), "k", str(tmp_path / "i"))
        for number in range(4):
            while True:
                try:
                    index.upsert(rows(writer, 100 + 10 * writer + number, v=f"{writer} {number}"))
                    break
                except dp.ConflictError:
                    continue
        return index

    with ThreadPoolExecutor(4) as threads:
        last, *_ = threads.map(write, range(4))
    wanted = dict.fromkeys(range(40), "old") | {w: f"{w} 3" for w in range(4)}
    wanted |= {100 + 10 * w + n: f"{w} {n}" for w in range(4) for n in range(4)}
    assert found(tmp_path) == wanted
    assert last.verify() == ()
    last.compact()
    assert (last.stats().records, last.verify()) == (len(wanted), ())


def test_a_rewritten_file_is_no_entry(tmp_path):
    """The index of a file's other rows stays: a file that takes its place is the same group."""
    index = indexed(tmp_path, range(500))
    index.upsert(rows(7, v="new"))
    assert index.stats().runs == 1
    assert index.lookup(rows_of([8])).column("_file").to_pylist() == [*paths(tmp_path)]


def test_build_over_an_index_makes_it_anew_in_one_commit(tmp_path):
    index = indexed(tmp_path, [1, 2])
    index.upsert(rows(3))
    version = DeltaTable(str(tmp_path / "i")).version()
    index.build()
    assert DeltaTable(str(tmp_path / "i")).version() == version + 1
    assert index.stats().runs == 1
    assert index.verify() == ()


def test_an_index_that_is_overtaken_changes_nothing(tmp_path, monkeypatch):
    index = indexed(tmp_path, [1, 2])

    def overtake(when, name, table):
        if (when, name) == ("before", "commit"):
            make(tmp_path, rows(10), mode="append")

    for method in (lambda: index.upsert(rows(1, v="new")), lambda: index.delete(rows_of([2]))):
        before = found(tmp_path)
        with failpoints.armed(overtake), pytest.raises(dp.ConflictError):
            method()
        assert found(tmp_path) == {**before, 10: "old"}
        DeltaTable(str(tmp_path / "t")).delete("k = 10")
        assert index.verify() == ()


def test_a_key_that_someone_else_doubles_is_refused_until_it_is_mended(tmp_path):
    index = indexed(tmp_path, [1, 2], [3])
    make(tmp_path, rows(2, 8), mode="append")
    calls = {
        "lookup": lambda: index.lookup(rows_of([1])),
        "upsert": lambda: index.upsert(rows(1, v="new")),
        "delete": lambda: index.delete(rows_of([1])),
        "verify": index.verify,
        "stats": index.stats,
        "compact": index.compact,
        "rebuild": index.rebuild,
        "build": index.build,
    }
    for call in calls.values():
        with pytest.raises(dp.InvalidChangesError) as refused:
            call()
        assert refused.value.keys == (2,)
    DeltaTable(str(tmp_path / "t")).delete("k = 2")
    assert index.verify() == ()
    assert index.stats().records == 3
    make(tmp_path, rows(7, 7), mode="append")
    with pytest.raises(dp.InvalidChangesError):
        index.stats()


def test_removed_files_may_be_gone(tmp_path):
    index = indexed(tmp_path, [1, 2], [3, 4])
    table = DeltaTable(str(tmp_path / "t"))
    table.delete("k in (1, 3)")
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert index.verify() == ()
    assert index.upsert(rows(2, v="new")).updated == 1
    assert index.verify() == ()


def test_only_added_files_are_read_to_catch_up(tmp_path, monkeypatch):
    index = indexed(tmp_path, [1, 2], [3, 4])
    known = paths(tmp_path)
    make(tmp_path, rows(9), mode="append")
    for path in known:
        (tmp_path / "t" / path).rename(tmp_path / path)
    assert index.stats().records == 5
    assert {row["_file"] for row in index.lookup(rows_of([1, 4])).to_pylist()} == known


def test_a_lookup_catches_up_without_writing(tmp_path):
    index = indexed(tmp_path, [1, 2])
    make(tmp_path, rows(9), mode="append")
    version = DeltaTable(str(tmp_path / "i")).version()
    assert index.lookup(rows_of([9])).num_rows == 1
    assert index.stats().delta_version == 1
    assert DeltaTable(str(tmp_path / "i")).version() == version
    index.compact()
    assert DeltaTable(str(tmp_path / "i")).version() > version


def test_keys_of_removed_files_cost_nothing_until_a_compaction(tmp_path, monkeypatch):
    """Their groups have ended, so that their entries do not count; none of them is looked for."""
    index = indexed(tmp_path, [1, 2], [3, 4], [5])
    DeltaTable(str(tmp_path / "t")).delete("k <= 2")
    read = []
    whole = seeking.read
    monkeypatch.setattr(
        seeking, "read", lambda runs, file, *more: read.append(file) or whole(runs, file, *more)
    )
    assert index.stats().records == 3
    assert read == []
    assert index.lookup([1, 2, 3, 5]).column("k").to_pylist() == [3, 5]
    make(tmp_path, rows(1), mode="append")
    assert index.lookup([1, 2]).column("k").to_pylist() == [1]
    index.compact()
    stored = DeltaTable(str(tmp_path / "i"))
    runs = pa.table(stored.get_add_actions(flatten=True)).to_pylist()
    assert sum(file["num_records"] for file in runs if file["partition._run"] is not None) == 4
    assert index.verify() == ()
    index.compact()
    assert DeltaTable(str(tmp_path / "i")).version() == stored.version()


def test_a_log_that_no_longer_says_is_mended_by_build(tmp_path):
    index = indexed(tmp_path, [1, 2])
    make(tmp_path, rows(9), mode="append")
    make(tmp_path, rows(10), mode="append")
    DeltaTable(str(tmp_path / "t")).create_checkpoint()
    (tmp_path / "t" / "_delta_log" / f"{1:020}.json").unlink()
    assert_mended(index)


def test_another_table_in_its_place_is_mended_by_build(tmp_path):
    index = indexed(tmp_path, [1, 2])
    shutil.rmtree(tmp_path / "t")
    make(tmp_path, rows(5))
    assert_mended(index)


def test_the_same_table_with_another_past_is_mended_by_build(tmp_path):
    index = indexed(tmp_path, [1, 2])
    shutil.copytree(tmp_path / "t", tmp_path / "backup")
    index.upsert(rows(1, v="new"))
    shutil.rmtree(tmp_path / "t")
    shutil.copytree(tmp_path / "backup", tmp_path / "t")
    make(tmp_path, rows(7), mode="append")
    assert_mended(index)


def assert_mended(index):
    for call in (index.stats, index.verify, lambda: index.upsert(rows(1))):
        with pytest.raises(dp.CorruptStoreError):
            call()
    index.build()
    assert index.verify() == ()


def test_a_lost_file_of_the_index_is_mended_by_build(tmp_path):
    index = indexed(tmp_path, range(10))
    for path in DeltaTable(str(tmp_path / "i")).get_add_actions().column("path").to_pylist():
        (tmp_path / "i" / path).unlink()
    with pytest.raises(dp.CorruptStoreError):
        index.lookup(rows_of([1]))
    index.build()
    assert index.verify() == ()


def test_wrong_entries_are_found(tmp_path):
    """What only a bug or a forged index could bring about: a key in another file, one too many."""
    index = indexed(tmp_path, [1, 2], [3, 4])
    assert index.verify() == ()
    log = sorted((tmp_path / "t" / "_delta_log").glob("*.json"))
    added = [json.loads(line) for line in log[-1].read_text().splitlines()]
    path = next(a["add"]["path"] for a in added if "add" in a)
    pq.write_table(pa.Table.from_pylist(rows(3, 5)), tmp_path / "t" / path)
    wrong = {entry.key: entry for entry in index.verify()}
    assert wrong.keys() == {(4,), (5,)}
    assert (wrong[(4,)].indexed, wrong[(4,)].found) == (path, ())
    assert (wrong[(5,)].indexed, wrong[(5,)].found) == (None, (path,))
    with pytest.raises(dp.CorruptStoreError):
        index.upsert(rows(4, v="new"))


def test_columns_that_came_later_are_null_in_older_files(tmp_path):
    index = indexed(tmp_path, [1, 2])
    more = [{"k": 3, "v": "x", "w": 1}]
    make(tmp_path, more, mode="append", schema_mode="merge")
    assert index.upsert([{"k": 1, "v": "old", "w": None}]).ignored == 1
    assert index.upsert([{"k": 1, "v": "old", "w": 5}]).updated == 1
    stored = DeltaTable(str(tmp_path / "t")).to_pyarrow_table().to_pylist()
    assert {row["k"]: row["w"] for row in stored} == {1: 5, 2: None, 3: 1}


def test_a_table_with_another_feature_asks_for_spark(tmp_path):
    index = indexed(tmp_path, [1, 2])
    table = DeltaTable(str(tmp_path / "t"))
    table.alter.add_constraint({"positive": "k > 0"})
    with pytest.raises(dp.SessionError):
        index.upsert(rows(1, v="new"))
    assert found(tmp_path) == {1: "old", 2: "old"}
    assert index.upsert(rows(1)).ignored == 1


def test_values_that_delta_would_store_as_others_are_refused(tmp_path):
    table = str(tmp_path / "t")
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("p", pa.string())])
    write_deltalake(table, pa.table({"k": [1], "p": ["a"]}, schema=schema), partition_by=["p"])
    index = dp.RecordIndex(None, table, "k", str(tmp_path / "i"))
    index.build()
    for wrong, column in (({"k": 2, "p": ""}, "p"), ({"k": None, "p": "a"}, "k")):
        with pytest.raises(dp.InvalidChangesError) as refused:
            index.upsert([{"k": 1, "p": "b"}, wrong])
        assert (refused.value.column, refused.value.keys) == (column, (wrong["k"],))
    assert DeltaTable(table).version() == 0


def test_a_table_that_is_partitioned_by_bytes_is_refused(tmp_path):
    table = str(tmp_path / "t")
    write_deltalake(table, pa.table({"k": [1], "p": [b"a"]}), partition_by=["p"])
    with pytest.raises(dp.DefinitionError) as refused:
        dp.RecordIndex(None, table, "k", str(tmp_path / "i"))
    assert refused.value.column == "p"


@pytest.mark.parametrize("kind", ["int32", "date32", "timestamp", "decimal", "bool", "string"])
def test_partitions_of_each_type(tmp_path, kind):
    value, arrow = {
        "int32": (-7, pa.int32()),
        "date32": (date(1969, 1, 2), pa.date32()),
        "timestamp": (datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), pa.timestamp("us", "UTC")),
        "decimal": (Decimal("1.20"), pa.decimal128(12, 2)),
        "bool": (False, pa.bool_()),
        "string": ("a/b c", pa.string()),
    }[kind]
    table, parts = str(tmp_path / "t"), pa.array([value, None], arrow)
    write_deltalake(table, pa.table({"k": [1, 2], "p": parts}), partition_by=["p"])
    index = dp.RecordIndex(None, table, "k", str(tmp_path / "i"))
    index.build()
    assert [row["p"] for row in index.lookup(rows_of([1, 2])).to_pylist()] == [value, None]
    swapped = pa.table({"k": [1, 2, 3], "p": parts.take(pa.array([1, 0, 0]))})
    assert index.upsert(swapped).updated == 2
    stored = DeltaTable(table).to_pyarrow_table().to_pylist()
    assert {row["k"]: row["p"] for row in stored} == {1: None, 2: value, 3: value}
    assert index.upsert(swapped).ignored == 3
    assert index.verify() == ()


def test_an_empty_table(tmp_path):
    table = str(tmp_path / "t")
    DeltaTable.create(table, schema=pa.schema([("k", pa.int64()), ("v", pa.string())]))
    index = dp.RecordIndex(None, table, "k", str(tmp_path / "i"))
    index.build()
    assert index.lookup(rows_of([1])).num_rows == 0
    assert index.upsert(rows(1)).inserted == 1
    assert index.delete(rows_of([1])).deleted == 1
    assert index.verify() == ()
    index.compact()
    assert (index.stats().records, index.stats().runs) == (0, 0)


def test_many_entries_are_sought_by_row_groups(tmp_path, monkeypatch):
    """Few keys read few row groups, and find what a scan finds."""
    monkeypatch.setattr(runs, "_GROUP_ROWS", 50)
    monkeypatch.setattr("deltaproduce.record_index.decisions.keying._MIXED_ENTRIES", 10)
    records = Records(tmp_path, rows=100, buckets=2)
    make(tmp_path, [{"k": n, "v": "x"} for n in range(5_000)])
    index = dp.RecordIndex(None, str(tmp_path / "t"), "k", str(tmp_path / "other"), buckets=2)
    index.build()
    read = []
    whole = seeking.read

    def counted(runs, file, key, groups=None):
        read.append(groups)
        return whole(runs, file, key, groups)

    monkeypatch.setattr(seeking, "read", counted)
    wanted = [3, 4_999, 5_000]
    assert index.lookup(rows_of(wanted)).column("k").to_pylist() == [3, 4_999]
    assert all(groups is not None and len(groups) <= 2 for groups in read)
    monkeypatch.setattr(seeking, "_SEEK_SHARE", 0)
    assert index.lookup(rows_of(wanted)).column("k").to_pylist() == [3, 4_999]
    assert read[-1] is None
    given = pa.Table.from_pylist([{"a": None, "b": "é"}, {"a": 1, "b": ""}], KEYS)
    assert len(records.index.lookup(given)) <= 2


@pytest.mark.parametrize(
    "of",
    [
        lambda n: {"k": date(2026, 1, 1) + timedelta(days=n)},
        lambda n: {"k": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=n)},
        lambda n: {"k": Decimal(n + 5_000).scaleb(-2)},
        lambda n: {"k": f"{n:05}"},
        lambda n: {"country": "AT", "k": n},
    ],
    ids=["date", "timestamp", "decimal", "string", "two columns"],
)
def test_keys_of_each_type_are_sought_by_row_groups(tmp_path, monkeypatch, of):
    """A first column with one value does not make every row group be read."""
    monkeypatch.setattr(runs, "_GROUP_ROWS", 50)
    monkeypatch.setattr("deltaproduce.record_index.decisions.keying._MIXED_ENTRIES", 10)
    write_deltalake(str(tmp_path / "t"), pa.Table.from_pylist([of(n) for n in range(1_000)]))
    index = dp.RecordIndex(None, str(tmp_path / "t"), [*of(0)], str(tmp_path / "i"), buckets=2)
    index.build()
    read, whole = [], seeking.read

    def counted(runs, file, key, groups=None):
        read.append(groups)
        return whole(runs, file, key, groups)

    monkeypatch.setattr(seeking, "read", counted)
    found = index.lookup(pa.Table.from_pylist([of(3), of(999), of(2_000)]))
    assert sorted(row["k"] for row in found.to_pylist()) == [of(3)["k"], of(999)["k"]]
    assert read
    assert all(len(groups) <= 3 for groups in read)


def test_paths_with_odd_signs(tmp_path):
    place = Path(tmp_path)
    table = str(place / "t")
    for part in ("a b", "é", "x/y", "50%", "="):
        write_deltalake(
            table, pa.table({"k": [part], "p": [part]}), mode="append", partition_by=["p"]
        )
    index = dp.RecordIndex(None, table, "k", str(place / "i"))
    index.build()
    for part in ("a b", "é", "x/y", "50%", "="):
        assert index.lookup([{"k": part}]).column("p").to_pylist() == [part]
        assert index.upsert([{"k": part + "!", "p": part}]).inserted == 1
        assert index.delete([{"k": part}]).strategy == "files"
    assert index.upsert([{"k": "new", "p": "nö w/1"}]).inserted == 1
    assert index.verify() == ()
    assert DeltaTable(table).to_pyarrow_table().num_rows == 6


def test_columns_are_named_as_the_table_has_them(tmp_path):
    """Names that the library's own tables do not take, whatever their case; a type is checked."""
    table, location = str(tmp_path / "t"), str(tmp_path / "i")
    write_deltalake(table, pa.table({"_id": [1, 2], "a b": ["x", "y"], 'c"`{d}': ["u", "v"]}))
    index = dp.RecordIndex(None, table, ["_ID", "A B"], location)
    index.build()
    assert index.lookup([(1, "x"), (1, "y")]).column_names == ["_id", "a b", "_file"]
    assert index.upsert([{"_id": 1, "a b": "x", 'c"`{d}': "w"}]).updated == 1
    assert index.delete([{"_id": 2, "a b": "y"}]).deleted == 1
    assert index.verify() == ()
    assert dp.RecordIndex(None, table, "_id, `a b`", location).stats().records == 1
    for key in ("_id string", "_id, _ID", "_file"):
        with pytest.raises((dp.DefinitionError, dp.InvalidArgumentError)):
            dp.RecordIndex(None, table, key, str(tmp_path / "j"))


def test_a_column_that_is_named_as_one_of_the_index_is_refused(tmp_path):
    for name in ("_file", "_group", "_run", "_bucket"):
        table = make(tmp_path / name, [{name: 1}])
        with pytest.raises(dp.DefinitionError) as refused:
            dp.RecordIndex(None, table, name, str(tmp_path / "i"))
        assert refused.value.column == name
    partitioned = str(tmp_path / "by file")
    write_deltalake(partitioned, pa.table({"k": [1], "_File": ["x"]}), partition_by=["_File"])
    with pytest.raises(dp.DefinitionError, match="partition column '_File'") as refused:
        dp.RecordIndex(None, partitioned, "k", str(tmp_path / "i"))  # a look-up gives both
    assert refused.value.column == "_File"


def test_keys_come_as_for_a_look_up_in_a_store(tmp_path):
    """Bare, as dicts, with other columns, in a narrower type; equal ones count once."""
    index = indexed(tmp_path, [1, 2])
    more = pa.table({"other": ["x", "y"], "K": pa.array([1, 1], pa.int8())})
    for keys in ([1], [1, 1], [{"k": 1}, {"K": 1}], more, more.to_pandas()):
        assert index.lookup(keys).column("k").to_pylist() == [1]
    assert index.delete(more) == dp.Changed(0, 0, 1, 0, 1, "files")


def test_an_ordering_is_found_whatever_its_case(tmp_path):
    table = make(tmp_path, [{"k": 1, "at": 5, "v": "old"}])
    index = dp.RecordIndex(None, table, "K", str(tmp_path / "i"), ordering="AT")
    index.build()
    assert index.upsert([{"k": 1, "at": 4, "v": "late"}]).ignored == 1
    two = [{"k": 1, "at": at, "v": v} for at, v in ((7, "new"), (6, "older"))]
    assert dp.RecordIndex(None, table, "k", str(tmp_path / "i"), ordering="at").upsert(two).updated
    assert found(tmp_path) == {1: "new"}


def test_of_an_ordering_by_floats_nan_is_the_greatest_and_null_the_smallest(tmp_path):
    table = str(tmp_path / "t")
    write_deltalake(table, pa.table({"k": [1], "at": pa.array([None], pa.float64())}))
    index = dp.RecordIndex(None, table, "k", str(tmp_path / "i"), ordering="at")
    index.build()
    for at, wins in ((-1.0, True), (None, False), (float("nan"), True), (float("inf"), False)):
        assert index.upsert([{"k": 1, "at": at}]).updated == wins


def test_a_change_is_done_although_its_index_cannot_be_written(tmp_path, caplog):
    """The table counts, and a caller who was told of a failure would do it again."""
    index = indexed(tmp_path, [1, 2])

    def full(when, name, table):
        if (when, name) == ("before", "index"):
            raise OSError(28, "No space left on device")

    with failpoints.armed(full):
        assert index.upsert(rows(1, 3, v="new")) == dp.Changed(1, 1, 0, 0, 1, "files")
        with pytest.raises(dp.StorageError, match="No space"):
            index.compact()
    assert "No space" in caplog.text
    assert index.stats().delta_version == 1
    assert index.lookup([3]).num_rows == 1
    assert index.verify() == ()


def test_a_change_is_done_although_what_follows_its_commit_fails(tmp_path):
    """Such as the checkpoint of every tenth commit, on a full disk."""
    index = indexed(tmp_path, [1, 2])
    table = DeltaTable(str(tmp_path / "t"))
    table.alter.set_table_properties({"delta.checkpointInterval": "1"})
    version = DeltaTable(str(tmp_path / "t")).version() + 1
    (tmp_path / "t" / "_delta_log" / f"{version:020}.checkpoint.parquet").mkdir()
    changed = dp.Changed(1, 1, 0, 0, version, "files")
    assert index.upsert(rows(1, 3, v="new")) == changed
    assert found(tmp_path) == {1: "new", 2: "old", 3: "new"}
    assert index.verify() == ()


def test_a_commit_that_fails_and_cannot_be_read_back_is_unknown(tmp_path):
    """It is not said that the table is unchanged, and no file is deleted: a commit may name it."""
    index = indexed(tmp_path, [1, 2])
    version = DeltaTable(str(tmp_path / "t")).version() + 1
    commit = tmp_path / "t" / "_delta_log" / f"{version:020}.json"

    def unreadable(when, name, table):
        if (when, name) == ("before", "commit"):
            commit.mkdir()

    files = {*(tmp_path / "t").glob("*.parquet")}
    with failpoints.armed(unreadable), pytest.raises(dp.CommitUnknownError):
        index.upsert(rows(1, v="new"))
    commit.rmdir()
    assert {*(tmp_path / "t").glob("*.parquet")} > files
    assert found(tmp_path) == {1: "old", 2: "old"}


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_change_that_cannot_be_written_leaves_nothing(tmp_path, at):
    """Whichever of its files fails: those that replace others, and those of new rows."""
    index = indexed(tmp_path, [1, 2], [3, 4])
    there = paths(tmp_path)
    reached = iter(range(1, 100))

    def full(when, name, table):
        if (when, name) == ("before", "write") and next(reached) == at:
            raise OSError(28, "No space left on device")

    with failpoints.armed(full), pytest.raises(dp.StorageError, match="No space"):
        index.upsert(rows(1, 3, 5, v="new"))
    assert {path.name for path in (tmp_path / "t").glob("*.parquet")} == there == paths(tmp_path)
    assert index.upsert(rows(1, 3, 5, v="new")).updated == 2


def test_a_file_of_the_index_that_is_gone_is_told_also_by_a_seek(tmp_path):
    index = indexed(tmp_path, range(100))
    for path in (tmp_path / "i").glob("*.parquet"):
        if pq.read_schema(path).names[0] == "k":
            path.unlink()
    for keys in ([7], list(range(100))):
        with pytest.raises(dp.CorruptStoreError, match="build it again"):
            index.lookup(keys)


def test_new_partitions_have_any_text(tmp_path):
    """Also one that is too long for a folder's name."""
    texts = ["é" * 300, "a/b", "x y", "%2F", "a=b", "..", None]
    schema = pa.schema([("k", pa.int64()), ("part", pa.string())])
    table = str(tmp_path / "t")
    write_deltalake(table, schema.empty_table(), partition_by=["part"])
    index = dp.RecordIndex(None, table, "k", str(tmp_path / "i"))
    index.build()
    given = [{"k": k, "part": text} for k, text in enumerate(texts)]
    assert index.upsert(given).inserted == len(texts)
    assert index.upsert([{**row, "k": row["k"] + 100} for row in given]).inserted == len(texts)
    moved = [{"k": k, "part": text} for k, text in enumerate(reversed(texts))]
    assert index.upsert(moved).updated == len(texts) - 1
    assert sorted(row["k"] for row in index.lookup([0, 3, 106, 7]).to_pylist()) == [0, 3, 106]
    assert index.verify() == ()
    there = DeltaTable(table).to_pyarrow_table().to_pylist()
    assert {row["k"]: row["part"] for row in there if row["k"] < 100} == {
        row["k"]: row["part"] for row in moved
    }


def test_files_of_a_change_that_was_refused_are_removed(tmp_path):
    index = indexed(tmp_path, [1, 2])

    def overtake(when, name, table):
        if (when, name) == ("before", "commit"):
            make(tmp_path, rows(10), mode="append")

    with failpoints.armed(overtake), pytest.raises(dp.ConflictError):
        index.upsert(rows(1, 5, v="new"))
    assert {path.name for path in (tmp_path / "t").glob("*.parquet")} == paths(tmp_path)


def sizes_of_parts(monkeypatch):
    """A list that gets the number of entries of each part that is read from now on."""
    seen, part = [], parting.Parts.part

    def sized(self, number):
        seen.append(len(part(self, number)))
        return part(self, number)

    monkeypatch.setattr(parting.Parts, "part", sized)
    return seen


def test_an_index_is_built_folded_and_verified_in_parts(tmp_path, monkeypatch):
    """No more than some buckets' entries are at hand at a time, however many there are."""
    monkeypatch.setattr(parting, "ENTRIES_A_BUCKET", 40)
    monkeypatch.setattr(parting, "_MOST_BYTES", 0)
    seen = sizes_of_parts(monkeypatch)
    index = indexed(tmp_path, *(range(n, 400, 4) for n in range(4)), buckets=16)
    for method in (index.build, index.verify, lambda: index.rebuild(32)):
        seen.clear()
        method()
        assert len(seen) >= 10
        assert max(seen) < 100
    assert index.stats().records == 400
    assert index.verify() == ()


def test_an_index_catches_up_in_parts(tmp_path, monkeypatch):
    """However far it is behind: to look up, to write, and to refuse doubled keys."""
    monkeypatch.setattr(parting, "ENTRIES_A_BUCKET", 40)
    monkeypatch.setattr(parting, "_MOST_BYTES", 0)
    index = indexed(tmp_path, [-1], buckets=16)
    for first in range(4):
        make(tmp_path, rows(*range(first, 400, 4)), mode="append")
    seen = sizes_of_parts(monkeypatch)
    version = DeltaTable(str(tmp_path / "i")).version()
    assert index.lookup([-1, 0, 399, 400]).column("k").to_pylist() == [-1, 0, 399]
    assert index.stats().records == 401
    assert index.verify() == ()
    assert DeltaTable(str(tmp_path / "i")).version() == version
    assert index.upsert(rows(7, 400, v="new")) == dp.Changed(1, 1, 0, 0, 5, "files")
    assert DeltaTable(str(tmp_path / "i")).version() == version + 1
    assert len(seen) >= 40
    assert max(seen) < 100
    assert index.verify() == ()
    for first in range(2):
        make(tmp_path, rows(*range(first, 400, 8)), mode="append")
    with pytest.raises(dp.InvalidChangesError, match="has 100 rows"):
        index.stats()


def test_keys_that_are_doubled_in_several_parts_are_all_counted(tmp_path, monkeypatch):
    """And no file of the index is left."""
    monkeypatch.setattr(parting, "ENTRIES_A_BUCKET", 10)
    with pytest.raises(dp.InvalidChangesError, match="has 60 rows") as refused:
        indexed(tmp_path, range(60), range(60), buckets=8)
    assert len(refused.value.keys) == 10
    assert not (tmp_path / "i").exists()


def test_a_table_without_statistics(tmp_path):
    """The log need not say how many rows its files have."""
    index = indexed(tmp_path, [1, 2])
    log = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    log.write_text("\n".join(json.dumps(action) for action in actions))
    index.build()
    assert index.upsert(rows(1, 3, v="new")).inserted == 1
    assert index.verify() == ()


def by_negative(keys):
    """A function of one's own, whose array has no type where there are no keys."""
    return pa.array([-3 * key.as_py() for key in keys.column(0)])


def test_a_hash_function_of_ones_own(tmp_path):
    index = indexed(tmp_path, range(20), buckets=4, hash=by_negative)
    assert index.upsert(rows(3, 99, v="new")).inserted == 1
    assert index.upsert([]).inserted == 0
    assert index.delete([99]).deleted == 1
    index.compact()
    assert index.lookup([3, 99]).column("k").to_pylist() == [3]
    assert index.verify() == ()
    for wrong in (lambda keys: [0.5] * len(keys), lambda keys: [1]):
        with pytest.raises(dp.InvalidArgumentError) as refused:
            indexed(tmp_path / "other", range(3), hash=wrong)
        assert refused.value.argument == "hash"
        shutil.rmtree(tmp_path / "other")


def test_rows_that_say_what_to_do_with_them_are_refused(tmp_path):
    """An upsert would bring back what they say is deleted."""
    index = indexed(tmp_path, [1, 2])
    given = [{**row, "_change_type": "delete"} for row in rows(1)]
    table = pa.Table.from_pylist(given).rename_columns(["k", "v", "_CHANGE_TYPE"])
    for some in (given, table, table.to_pandas()):
        with pytest.raises(dp.InvalidChangesError, match="call delete") as refused:
            index.upsert(some)
        assert refused.value.column == "_change_type"
    assert index.delete(table).deleted == 1


def test_of_equal_orderings_the_later_wins(tmp_path):
    """The last in a batch, and the later call."""
    table = make(tmp_path, [{"k": 1, "at": 5, "v": "old"}])
    index = dp.RecordIndex(None, table, "k", str(tmp_path / "i"), ordering="at")
    index.build()
    assert index.upsert([{"k": 1, "at": 5, "v": v} for v in ("a", "b")]).updated == 1
    assert found(tmp_path) == {1: "b"}
    assert index.upsert([{"k": 1, "at": 5, "v": "c"}]).updated == 1
    assert index.delete([{"k": 1, "at": 5}]).deleted == 1
    assert index.upsert([{"k": 1, "at": 5, "v": "d"}]).inserted == 1
