"""The examples of Pucket, the library that inspired data sets, one by one."""

from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import deltaproduce as dp

DATA = [(n, date(2026, 1, 1 + n % 2), f"kind {n % 3}") for n in range(250)]
DESCRIPTOR: dict[str, Any] = {
    "schema": "id bigint NOT NULL, day date, kind string",
    "compression": "snappy",
    "partition": "day, kind",
}


def write(data: list[Any], dataset: dp.Dataset, **how: Any) -> dp.DatasetWriter:
    """Each record by itself; what is wrong ends it at once."""
    with dataset.writer(**how) as writer:
        for item in data:
            writer.write(item)
    return writer


def read(dataset: dp.Dataset) -> Counter[Any]:
    found: Any = dataset.read()
    return Counter(tuple(row.values()) for row in found.to_pylist())


def test_create_or_find(tmp_path: Path):
    path = tmp_path / "pucket"
    with pytest.raises(dp.NotFoundError):
        dp.Dataset.find(None, path, schema=DESCRIPTOR["schema"])
    new = dp.Dataset.create(None, path, **DESCRIPTOR)
    with pytest.raises(dp.AlreadyExistsError):
        dp.Dataset.create(None, path, **DESCRIPTOR)
    existing = dp.Dataset.find(None, path, schema=DESCRIPTOR["schema"])
    maybe_existing = dp.Dataset.find_or_create(None, path, **DESCRIPTOR)
    assert new.descriptor == existing.descriptor == maybe_existing.descriptor
    with pytest.raises(dp.DescriptorMismatchError):
        dp.Dataset.find(None, path, schema="id bigint")
    with pytest.raises(dp.DescriptorMismatchError):
        dp.Dataset.find_or_create(None, path, **{**DESCRIPTOR, "compression": "zstd"})


def test_plain_writer(tmp_path: Path):
    dataset = dp.Dataset.create(None, tmp_path / "d", **{**DESCRIPTOR, "partition": None})
    write(DATA, dataset)
    assert read(dataset) == Counter(DATA)
    assert len(dataset.files()) == 1


def test_incremental_writer(tmp_path: Path):
    """A file each hundred records; of a failure it is known from where to go on."""
    dataset = dp.Dataset.create(None, tmp_path / "d", **{**DESCRIPTOR, "partition": None})
    wrong: list[Any] = [*DATA[:230], (None, None, None)]
    with pytest.raises(dp.InvalidChangesError) as failed:
        write(wrong, dataset, roll_rows=100, checkpoint=True)
    assert (failed.value.resume_from, failed.value.row) == (200, 230)
    assert read(dataset) == Counter(DATA[:200])
    write(DATA[200:], dataset, roll_rows=100, checkpoint=True)
    assert read(dataset) == Counter(DATA)
    counts = [pq.read_metadata(tmp_path / "d" / path).num_rows for path in dataset.files()]
    assert sorted(counts) == [50, 100, 100]


def test_partitioned_writer(tmp_path: Path):
    """Sub directories by the scheme, with fewer writers open than there are partitions."""
    dataset = dp.Dataset.create(None, tmp_path / "d", **DESCRIPTOR)
    write(DATA, dataset, partitioned=True, open_files=2)
    assert read(dataset) == Counter(DATA)
    folders = {path.rpartition("/")[0] for path in dataset.files()}
    assert len(dataset.files()) == 6
    assert folders == {f"day=2026-01-0{d}/kind=kind {k}" for d in (1, 2) for k in range(3)}


def test_incremental_partitioned_writer(tmp_path: Path):
    dataset = dp.Dataset.create(None, tmp_path / "d", **DESCRIPTOR)
    how = {"roll_rows": 20, "checkpoint": True, "partitioned": True}
    wrong: list[Any] = [*DATA[:130], {"id": "x", "day": None, "kind": None}]
    with pytest.raises(dp.InvalidChangesError) as failed:
        write(wrong, dataset, **how)
    begin = failed.value.resume_from
    assert begin == 120
    assert read(dataset) == Counter(DATA[:120])
    assert write(DATA[begin:], dataset, **how).resume_from == 250
    assert read(dataset) == Counter(DATA)


def test_reading_so_many_records(tmp_path: Path):
    """What is in sub directories is read; other files in them are not."""
    dataset = dp.Dataset.create(None, tmp_path / "d", **DESCRIPTOR)
    write(DATA, dataset)
    (tmp_path / "d" / "day=2026-01-01" / "notes.txt").write_text("no Parquet")
    found: Any = dataset.read()
    assert {tuple(row.values()) for row in found.slice(0, 10).to_pylist()} < {*DATA}
    assert found.slice(0, 1_000).num_rows == 250
    assert dataset.partition(day="2026-01-01", kind="kind 0").read("id < 20").num_rows == 4


def test_absorb_and_list_files(tmp_path: Path):
    """The data of another one of the same structure becomes this one's."""
    dataset = dp.Dataset.create(None, tmp_path / "d", **DESCRIPTOR)
    other = dp.Dataset.create(None, tmp_path / "other", **DESCRIPTOR)
    write(DATA[:100], dataset)
    write(DATA[100:], other)
    dataset.absorb(other)
    assert (read(dataset), read(other)) == (Counter(DATA), Counter())
    assert (len(dataset.files()), other.files()) == (12, [])
    assert all((tmp_path / "d" / path).is_file() for path in dataset.files())


def test_another_partitioner_does_not_make_the_data_unreadable(tmp_path: Path):
    """The scheme of what is written stays as it is; a copy has another one."""
    dataset = dp.Dataset.create(None, tmp_path / "d", **DESCRIPTOR)
    write(DATA, dataset)
    copy = dataset.copy(tmp_path / "copy", partition="id % 4 AS bucket")
    assert read(copy) == read(dataset) == Counter(DATA)
    assert [path.split("/")[0] for path in copy.files()] == [f"bucket={n}" for n in range(4)]
