"""Writers that create one store at once, without a session: one makes the first version."""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conflicting import OTHERS, assert_all_publish, one_that_dies, one_that_publishes
from crashing import batch, drawn, frames, orders
from local_stores import assert_same_here

from deltaproduce import ConflictError, Store
from deltaproduce.engines.delta.log import LEAST_COMMITS
from deltaproduce.engines.local.delta import writes
from deltaproduce.storage.tables.committer import Committer
from deltaproduce.testing import Oracle

MINE = batch((1, 1, 10), (2, 2, 20))
MORE = batch((2, 3, 20), (7, 3, 70))
MOST_COMMITS = 20


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Executor]:
    """Another process: within a commit delta-rs lets this one begin no other."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        yield pool


def test_a_first_version_is_found_behind_many_later_ones(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that sleeps once it has published is told so, however many others go on."""
    commit, oracle, later = Committer.commit_fenced, Oracle(orders()), range(1, 2 * LEAST_COMMITS)

    def slowly(*arguments: Any, **options: Any) -> None:
        monkeypatch.undo()
        commit(*arguments, **options)
        for number in later:
            Store(None, location, orders()).update(frames(None, drawn(number)))

    monkeypatch.setattr(Committer, "commit_fenced", slowly)
    version = Store(None, location, orders()).update(frames(None, MINE))
    assert version.number == oracle.update(MINE)
    for number in later:
        oracle.update(drawn(number))
    assert_same_here(Store(None, location, orders()), oracle, orders(), range(1, oracle.head + 1))


@pytest.mark.parametrize("other", [one_that_publishes, one_that_dies])
def test_another_writer_comes_in_the_middle_of_a_first_commit(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    elsewhere: Executor,
    other: Callable[[str], None],
) -> None:
    """When delta-rs has found no table, and writes its rows; at each table of the first version."""
    monkeypatch.setattr("deltaproduce.operations.publisher._WRITERS", 1)
    plain = writes.write_deltalake
    for number in range(MOST_COMMITS):
        location, oracle, commits = str(tmp_path / f"{number}"), Oracle(orders()), 0

        def meanwhile(rows: pa.Table, place: str = location) -> Iterator[pa.RecordBatch]:
            elsewhere.submit(other, place).result()
            yield from rows.to_batches()

        def write(table: Any, rows: pa.Table, number: int = number, **options: Any) -> None:
            nonlocal commits
            if commits == number:
                rows = pa.RecordBatchReader.from_batches(rows.schema, meanwhile(rows))
            commits += 1
            plain(table, rows, **options)

        monkeypatch.setattr(writes, "write_deltalake", write)
        conflicts = True
        with suppress(ConflictError):
            Store(None, location, orders()).update(frames(None, MINE))
            conflicts = False
        monkeypatch.setattr(writes, "write_deltalake", plain)
        if commits <= number:
            break
        store = Store(None, location, orders())
        assert conflicts or other is one_that_dies
        assert store.head.number == (0 if conflicts and other is one_that_dies else 1)
        if store.head.number:
            oracle.update(OTHERS if conflicts else MINE)
        store.update(frames(None, MORE))
        oracle.update(MORE)
        assert_same_here(store, oracle, orders(), range(oracle.head + 1))
        assert not store.verify()
    assert number > 3


def test_writers_who_begin_together_all_publish_what_they_were_given(location: str) -> None:
    assert_all_publish(location, writers=4)
