"""The rules of Hudi's design of a record-level index, one by one, in the words of that design."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import deltaproduce as dp
from deltaproduce.record_index import seeking, table
from deltaproduce.record_index.decisions import keying
from deltaproduce.record_index.decisions.buckets import buckets_of, sized
from deltaproduce.storage import failpoints

DAYS = ("monday", "tuesday")


def rows(*numbers: int, v: str = "old", day: str | None = None) -> pa.Table:
    days = [day or DAYS[n % 2] for n in numbers]
    return pa.table({"key": pa.array(numbers, pa.int64()), "day": days, "v": [v] * len(numbers)})


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dp.RecordIndex:
    """Of forty records in four files; each file of the index has entries of one bucket."""
    monkeypatch.setattr(keying, "_MIXED_ENTRIES", 0)
    for first in (0, 20):
        given = rows(*range(first, first + 20))
        write_deltalake(str(tmp_path / "t"), given, mode="append", partition_by=["day"])
    found = opened(tmp_path, buckets=3)
    found.build()
    return found


def opened(place: Path, **arguments: object) -> dp.RecordIndex:
    return dp.RecordIndex(None, str(place / "t"), "key", str(place / "i"), **arguments)  # type: ignore[arg-type]


def located(index: dp.RecordIndex, *keys: int) -> dict[int, tuple[str, str]]:
    found = index.lookup([*keys]).to_pylist()
    return {row["key"]: (row["day"], row["_file"]) for row in found}


def bucket_files(place: Path) -> list[tuple[int, int, pa.Table]]:
    """The files of the index: run, bucket, entries."""
    told = pa.table(DeltaTable(str(place / "i")).get_add_actions()).to_pylist()
    return [
        (
            one["partition"]["_run"],
            one["partition"]["_bucket"],
            pq.ParquetFile(place / "i" / one["path"]).read(),
        )
        for one in told
        if one["partition"]["_run"] is not None
    ]


def test_an_index_gives_the_location_of_a_record_key(tmp_path: Path, index: dp.RecordIndex):
    """(RecordKey, <PartitionPath, FileId>); a key that is not there has none."""
    found = located(index, 3, 38, 99)
    assert {key: day for key, (day, _) in found.items()} == {3: "tuesday", 38: "monday"}
    for key, (_, path) in found.items():
        assert key in pq.ParquetFile(tmp_path / "t" / path).read().column("key").to_pylist()


def test_new_entries_need_no_earlier_ones(index: dp.RecordIndex, monkeypatch: pytest.MonkeyPatch):
    """Rows of an append-only data set are disjoint: no data file is read for them."""
    read = list[str]()
    whole = table.TableSnapshot.rows

    def counted(self: table.TableSnapshot, path: str, columns: object) -> pa.Table:
        read.append(path)
        return whole(self, path, columns)  # type: ignore[arg-type]

    monkeypatch.setattr(table.TableSnapshot, "rows", counted)
    assert index.upsert(rows(40, 41)).inserted == 2
    assert read == []


def test_an_update_is_routed_to_the_file_that_has_the_key(
    tmp_path: Path, index: dp.RecordIndex, monkeypatch: pytest.MonkeyPatch
):
    """And to no other."""
    read = list[str]()
    whole = table.TableSnapshot.rows

    def counted(self: table.TableSnapshot, path: str, columns: object) -> pa.Table:
        read.append(path)
        return whole(self, path, columns)  # type: ignore[arg-type]

    (_, path), others = located(index, 5)[5], located(index, 4, 24, 25)
    monkeypatch.setattr(table.TableSnapshot, "rows", counted)
    assert index.upsert(rows(5, v="new")).updated == 1
    assert read == [path]
    assert located(index, 4, 24, 25) == others


def test_the_bucket_of_a_key_never_changes(tmp_path: Path, index: dp.RecordIndex):
    """Hence the hash function and the number of buckets of an index do not."""
    index.upsert(rows(*range(40, 60)))
    for _, bucket, entries in bucket_files(tmp_path):
        assert {*buckets_of(entries.select(["key"]), "xxhash64", 3).tolist()} == {bucket}
    for other in ({"buckets": 4}, {"hash": lambda keys: keys.column("key")}):
        with pytest.raises(dp.DescriptorMismatchError):
            opened(tmp_path, **other)


def test_the_entries_of_a_file_are_sorted_and_every_batch_makes_new_files(
    tmp_path: Path, index: dp.RecordIndex
):
    """There are no appends to a file."""
    first = {(run, bucket) for run, bucket, _ in bucket_files(tmp_path)}
    index.upsert(rows(*range(40, 60)))
    second = {(run, bucket) for run, bucket, _ in bucket_files(tmp_path)}
    assert (first, second - first) == ({(0, b) for b in range(3)}, {(1, b) for b in range(3)})
    for _, _, entries in bucket_files(tmp_path):
        keys = entries.column("key").to_pylist()
        assert keys == sorted(keys)


def test_compaction_keeps_the_number_of_files_in_check(tmp_path: Path, index: dp.RecordIndex):
    for n in range(4):
        index.upsert(rows(*range(40 + 10 * n, 50 + 10 * n)))
    before = located(index, *range(100))
    assert index.stats().runs > 3
    index.compact()
    assert (index.stats().runs, located(index, *range(100))) == (3, before)


def test_a_rewritten_record_keeps_its_entry(index: dp.RecordIndex):
    """Its location, which is a file group, does not change."""
    runs = index.stats().runs
    assert index.upsert(rows(5, 6, v="new")).updated == 2
    assert index.stats().runs == runs


@pytest.mark.parametrize("at", [("before", "commit"), ("after", "commit"), ("before", "index")])
def test_data_and_index_are_both_committed_or_neither(
    tmp_path: Path, index: dp.RecordIndex, at: tuple[str, str]
):
    """No reader sees a part. `test_record_index_crashes` has all effects."""

    class Ended(BaseException):
        pass

    def end(when: str, name: str, where: str) -> None:
        if (when, name) == at:
            raise Ended

    with failpoints.armed(end), pytest.raises(Ended):
        index.upsert(rows(5, 40, v="new"))
    is_there = 40 in DeltaTable(str(tmp_path / "t")).to_pyarrow_table().column("key").to_pylist()
    assert is_there == (at != ("before", "commit"))
    again = opened(tmp_path)
    assert (40 in located(again, 40), again.verify()) == (is_there, ())


def test_each_file_of_a_bucket_is_looked_up_by_itself(index: dp.RecordIndex, monkeypatch):
    """In parallel: files of other buckets are not read."""
    read = list[int | None]()
    whole = seeking._entries_in

    def counted(runs, file, keys, key):
        if len(keys):
            read.append(file.bucket)
        return whole(runs, file, keys, key)

    monkeypatch.setattr(seeking, "_entries_in", counted)
    index.upsert(rows(*range(40, 60)))
    read.clear()
    located(index, 7)
    (bucket,) = buckets_of(rows(7).select(["key"]), "xxhash64", 3).tolist()
    assert read == [bucket, bucket]


def test_a_delete_is_a_tombstone_and_the_newest_value_wins(index: dp.RecordIndex):
    assert index.delete([5, 99]).deleted == 1
    assert (located(index, 5), index.stats().tombstones) == ({}, 1)


def test_compaction_drops_deleted_entries(tmp_path: Path, index: dp.RecordIndex):
    """Afterwards nothing tells a deleted key from one that never was."""
    index.delete([5])
    index.compact()
    assert index.stats().tombstones == 0
    every = [key for *_, found in bucket_files(tmp_path) for key in found.column("key").to_pylist()]
    assert sorted(every) == [n for n in range(40) if n != 5]


def test_deleted_entries_may_be_inserted_again(index: dp.RecordIndex):
    for compacts in (False, True):
        index.delete([5])
        if compacts:
            index.compact()
        assert index.upsert(rows(5)).inserted == 1
        assert (located(index, 5)[5][0], index.verify()) == ("tuesday", ())


def test_developers_define_their_own_hashing_function(tmp_path: Path, index: dp.RecordIndex):
    def by_tens(keys: pa.Table) -> pa.Array:
        return pa.array([key // 10 for key in keys.column("key").to_pylist()])

    own = dp.RecordIndex(
        None, str(tmp_path / "t"), "key", str(tmp_path / "own"), buckets=4, hash=by_tens
    )
    own.build()
    assert located(own, *range(40)) == located(index, *range(40))


def test_locations_may_change_and_the_newest_wins(tmp_path: Path, index: dp.RecordIndex):
    """A record that moves to another partition; no entry has a time of its own."""
    (_, before) = located(index, 5)[5]
    assert index.upsert(rows(5, day="monday")).updated == 1
    day, now = located(index, 5)[5]
    assert (day, now != before, index.verify()) == ("monday", True, ())
    names = {name for *_, found in bucket_files(tmp_path) for name in found.column_names}
    assert not any("time" in name for name in names)


@pytest.mark.parametrize(("sought", "way"), [(1, "seek"), (30, "scan")])
def test_below_a_share_of_the_entries_a_look_up_seeks_and_above_it_scans(
    index: dp.RecordIndex, monkeypatch, sought: int, way: str
):
    """The share is 30 %. In a store, `Store.lookup(strategy=…)` takes either by name."""
    read = list[str]()
    whole = seeking.read

    def counted(runs, file, key, groups=None):
        read.append("scan" if groups is None else "seek")
        return whole(runs, file, key, groups)

    monkeypatch.setattr(seeking, "read", counted)
    assert len(located(index, *range(sought))) == sought
    assert {*read} == {way}
    assert seeking._SEEK_SHARE == 0.3


def test_buckets_are_provisioned_by_30_percent_more_and_may_be_changed(index: dp.RecordIndex):
    assert sized(10_000_000) == 13
    before = located(index, *range(40))
    index.rebuild(7)
    assert (index.stats().buckets, located(index, *range(40)), index.verify()) == (7, before, ())
