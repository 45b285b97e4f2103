"""Data sets in an object store, and across two file systems."""

import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import object_server
import pytest
from described import SCHEMA, crashed, found_in, made, rows_from

import deltaproduce as dp

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with object_server.served() as address:
        object_server.opened(address).create_dir("lake")
        yield address


@pytest.fixture(autouse=True)
def environment(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in object_server.variables(address).items():
        monkeypatch.setenv(name, value)


def bucket() -> str:
    return f"s3://lake/{uuid.uuid4().hex}"


def test_a_life_in_a_bucket():
    place, rows = bucket(), rows_from(0, 30)
    with ThreadPoolExecutor(8) as threads:
        found = list(
            threads.map(
                lambda _: dp.Dataset.find_or_create(
                    None, place, schema=SCHEMA, partition="day, kind", order="id desc"
                ),
                range(8),
            )
        )
    dataset = found[0]
    with pytest.raises(dp.AlreadyExistsError):
        made(place)
    with dataset.writer(roll_rows=4, checkpoint=True) as writer:
        writer.write(rows[:20])
    with dataset.writer(roll_rows=4, checkpoint=True) as writer:
        assert writer.resume_from == 20
        writer.write(rows[20:])
    assert found_in(dataset) == Counter(rows)
    assert found_in(dataset, "day IS NULL") == Counter(r for r in rows if r[1] is None)
    assert dataset.files("kind = 'a/b'") == [p for p in dataset.files() if "kind=a%2Fb" in p]
    with pytest.raises(dp.StorageError):
        dataset.copy(bucket())


@pytest.mark.parametrize("of", ["a bucket", "a directory"])
@pytest.mark.parametrize("into", ["a bucket", "a directory"])
def test_absorbing_across_file_systems_copies_files(tmp_path: Path, into: str, of: str):
    at, outcomes = 0, set[bool]()
    while True:
        ours = made(bucket() if into == "a bucket" else tmp_path / f"a{at}")
        theirs = made(bucket() if of == "a bucket" else tmp_path / f"b{at}")
        for dataset, first in ((ours, 0), (theirs, 10)):
            with dataset.writer() as writer:
                writer.write(rows_from(first, 10))
        was_crashed = crashed(lambda: ours.absorb(theirs), at)  # noqa: B023 it is called at once
        assert found_in(ours) + found_in(theirs) == Counter(rows_from(0, 20))
        outcomes.add(not found_in(theirs))
        theirs.writer()
        ours.writer()
        assert found_in(ours) + found_in(theirs) == Counter(rows_from(0, 20))
        if not was_crashed:
            break
        at += 1
    assert outcomes == {True, False}
