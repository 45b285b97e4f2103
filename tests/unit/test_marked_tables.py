"""Commits that mark rows: random series of writes, against a list of rows, by several readers."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from deltaproduce.engines.delta.log import commit_file
from deltaproduce.engines.delta.tables import RefusedError, TableWrite, properties
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.file_systems.this_machine import ThisMachine
from deltaproduce.engines.local.delta import changes, reads, writes
from deltaproduce.engines.local.files import unneeded
from deltaproduce.engines.local.handles import Handles
from deltaproduce.engines.local.marked import vectors
from deltaproduce.engines.local.marked.listing import MARKED
from deltaproduce.engines.local.marked.state import TableStates, state_at
from deltaproduce.engines.local.marked.vectors import Vector
from deltaproduce.storage.decisions.merging import merges
from deltaproduce.storage.parquet.files import DataFile
from deltaproduce.types.atoms import arrow_schema
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import DateType, LongType, StringType

COLUMNS = (Column("id", LongType()), Column("day", DateType()), Column("text", StringType()))
KEPT = properties(COLUMNS[:2], marked=False)


def here(path: Path) -> Directory:
    return Directory(ThisMachine(), str(path))


def table_of(chance: random.Random, ids: list[int]) -> pa.Table:
    rows = [(n, chance.choice([None, 0, 20_000]), chance.choice([None, "", "ß"])) for n in ids]
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, arrow_schema(COLUMNS), strict=True)],
        arrow_schema(COLUMNS),
    )


class Series:
    """A table that is written in random ways, and the rows that each delta version has."""

    def __init__(self, path: Path, chance: random.Random) -> None:
        self.directory, self.chance = here(path), chance
        self.handles, self.states = Handles(), TableStates()
        self.versions: list[dict[int, tuple[object, ...]]] = []
        self.next = 0
        self.write(
            TableWrite(self.new(20), COLUMNS, "create", "0", properties=KEPT, lookup=COLUMNS[:2])
        )

    def new(self, count: int) -> pa.Table:
        ids = list(range(self.next, self.next + count))
        self.next += count
        return table_of(self.chance, ids)

    def write(self, write: TableWrite, gone: set[int] | None = None) -> None:
        """Write, and note the rows; without ``gone`` all rows before are."""
        assert writes.written(self.directory, write, self.handles, self.states, alone=True)
        before = {} if gone is None else {n: r for n, r in self.rows.items() if n not in gone}
        self.versions.append({**before, **by_id(write.rows)})

    @property
    def rows(self) -> dict[int, tuple[object, ...]]:
        return self.versions[-1]

    def step(self, since: int = 0) -> str:
        last = len(self.versions) - 1
        what = self.chance.choice(["replace"] * 5 + ["append", "overwrite", "merge", "restore"])
        if what == "replace":
            gone = {n for n in self.rows if self.chance.random() < self.chance.choice([0.1, 0.9])}
            places = places_of(self.directory, self.states, last, gone)
            rows = self.new(self.chance.randrange(4))
            write = TableWrite(rows, COLUMNS, "append", "r", lookup=COLUMNS[:2], located_at=last)
            self.write(replace(write, replaced=places), gone)
        elif what == "append":
            self.write(TableWrite(self.new(3), COLUMNS, "append", "a", lookup=COLUMNS[:2]), set())
        elif what == "overwrite":
            self.write(TableWrite(self.new(8), COLUMNS, "overwrite", "o", properties=KEPT))
        elif what == "merge":
            listed = reads.ranges(self.directory, last, self.handles, self.states)
            assert listed is not None
            paths = listed.column("path").to_pylist()
            some = frozenset(self.chance.sample(paths, self.chance.randint(0, len(paths))))
            if not some:
                return "nothing"
            inside = ids_of(self.directory, self.states, last, some)
            rows = table_of(self.chance, [])
            kept = [pa.table([[v] for v in self.rows[n]], arrow_schema(COLUMNS)) for n in inside]
            write = TableWrite(
                pa.concat_tables([rows, *kept]), COLUMNS, "append", "m", located_at=last
            )
            self.write(replace(write, merged=some), set(inside))
        else:
            to = self.chance.randrange(since, len(self.versions))
            assert changes.restored(self.directory, to, "b", self.states)
            if to == last:
                return "nothing"
            self.versions.append(self.versions[to])
        return what


def by_id(rows: pa.Table) -> dict[int, tuple[object, ...]]:
    return {row["id"]: tuple(row.values()) for row in rows.to_pylist()}


def alive(directory: Directory, states: TableStates, number: int) -> list[tuple[str, int, object]]:
    """The rows that count, with their file and their number in it, as the listing tells."""
    listed = reads.ranges(directory, number, Handles(), states)
    assert listed is not None
    marked = listed.column(MARKED).to_pylist() if MARKED in listed.column_names else []
    found = []
    for place, path in enumerate(listed.column("path").to_pylist()):
        with directory.parquet(path) as file:
            ids = file.read(["id"]).column("id").to_pylist()
        gone = set((marked and marked[place]) or ())
        assert listed.column("num_records")[place].as_py() == len(ids)
        found += [(path, n, one) for n, one in enumerate(ids) if n not in gone]
    return found


def places_of(
    directory: Directory, states: TableStates, number: int, gone: set[int]
) -> dict[str, np.ndarray]:
    found: dict[str, list[int]] = {}
    for path, place, one in alive(directory, states, number):
        if one in gone:
            found.setdefault(path, []).append(place)
    return {path: np.array(places, np.int64) for path, places in found.items()}


def ids_of(
    directory: Directory, states: TableStates, number: int, paths: frozenset[str]
) -> list[int]:
    return [int(str(one)) for path, _, one in alive(directory, states, number) if path in paths]


@pytest.mark.parametrize("number", range(6))
def test_each_delta_version_has_its_rows_for_every_reader(tmp_path: Path, number: int) -> None:
    """Replaced, appended, overwritten, merged and restored, by kept states and by new ones."""
    series = Series(tmp_path / "t", random.Random(number))
    while len(series.versions) < (30 if number else 120):  # two checkpoints
        series.step()
    seen = random.Random(number).sample(range(len(series.versions)), 8)
    for version in [*seen, len(series.versions) - 1]:
        rows = series.versions[version]
        fresh = [one for *_, one in alive(series.directory, TableStates(), version)]
        kept = [one for *_, one in alive(series.directory, series.states, version)]
        assert sorted(fresh) == sorted(kept) == sorted(rows)
        table = DeltaTable(str(tmp_path / "t"), version=version)
        found = QueryBuilder().register("t", table).execute("select * from t").read_all()
        assert by_id(pa.table(found)) == rows
        assert len(pa.table(found)) == len(rows)


@pytest.mark.parametrize("number", range(8))
def test_a_vacuum_finds_no_file_of_a_needed_delta_version(tmp_path: Path, number: int) -> None:
    """Nor of the newest: also in a log that begins with a checkpoint, where vectors are in it.

    A checkpoint lists files that were removed with one vector and added again with another.
    """
    series, chance = Series(tmp_path / "t", random.Random(number)), random.Random(number)
    while len(series.versions) < 8:
        series.step()
    table = DeltaTable(str(tmp_path / "t"))
    table.create_checkpoint()
    first = table.version()
    for commit in range(first):
        (tmp_path / "t" / commit_file(commit)).unlink()
    while len(series.versions) < 20:
        series.step(since=first)
    last = len(series.versions) - 1
    for _ in range(6):
        needed = chance.sample(range(first, last), 2)
        found = unneeded(series.directory, needed, datetime.now(UTC)).column("path").to_pylist()
        names = {path.rpartition("/")[2] for path in found}
        for version in (*needed, last):
            state = state_at(series.directory, version)
            assert not names & {*state.files.paths()}
            vectors_of_files = state.files.vectors().values()
            assert not names & {*filter(None, map(vectors.file_of, vectors_of_files))}


def test_of_two_writers_with_the_same_state_one_is_refused(tmp_path: Path) -> None:
    series = Series(tmp_path / "t", random.Random(1))
    places = places_of(series.directory, series.states, 0, {1})
    write = TableWrite(series.new(1), COLUMNS, "append", "a", replaced=places, located_at=0)
    series.write(write, {1})
    with pytest.raises(RefusedError):
        series.write(write, {1})
    assert state_at(series.directory, None).delta_version == 1


@pytest.mark.parametrize("count", [1, 3, 300, 70_000])
def test_vectors_are_read_as_they_were_stored(tmp_path: Path, count: int) -> None:
    rows = np.sort(np.random.default_rng(count).choice(1 << 20, count, replace=False))
    told = vectors.stored(here(tmp_path), {"a": Vector.of(rows), "b": Vector.of(rows[:1])})
    assert vectors.read(here(tmp_path), told["a"]).rows.tolist() == rows.tolist()
    assert vectors.read(here(tmp_path), told["b"]).rows.tolist() == rows[:1].tolist()
    assert told["a"]["cardinality"] == count
    if told["a"]["storageType"] == "u":
        path = tmp_path / vectors.vector_file(told["a"]["pathOrInlineDv"])
        path.write_bytes(path.read_bytes()[:-1] + b"\x00\x01")
        with pytest.raises(ValueError, match="damaged"):
            vectors.read(here(tmp_path), told["a"])


def test_merges_keep_files_few_and_write_each_row_a_few_times() -> None:
    """In 4,000 versions of 10 rows beside a million: at most 8 files a tier, 5 writes a row."""
    files, written = [DataFile(0, 1_000_000)], 0
    for _ in range(4_000):
        files.append(DataFile(len(files), 10))
        files = [replace(file, number=number) for number, file in enumerate(files)]
        for group in merges(files, most=8, full=500_000):
            rows = sum(files[number].rows for number in group)
            written += rows
            files = [file for file in files if file.number not in group]
            files.append(DataFile(len(files), rows))
            files = [replace(file, number=number) for number, file in enumerate(files)]
        assert len(files) <= 8 * 6
    assert sum(file.rows for file in files) == 1_040_000
    assert written <= 5 * 40_000


def test_marked_rows_are_purged_from_a_tenth_on_and_in_their_partition() -> None:
    files = [
        DataFile(0, 900_000, 89_999),
        DataFile(1, 900_000, 90_000),
        DataFile(2, 10, 0, partition=1),
        DataFile(3, 10, 1, partition=2),
        DataFile(4, 10, 0, partition=2),
    ]
    assert merges(files, most=2, full=500_000) == ((1,), (3, 4))
    assert merges(files, most=9, full=500_000) == ((1,), (3,))
    assert merges(files, most=9, full=500_000, at_once=True) == ((0,), (1,), (3, 4))
