"""Compactions without Spark: a table has the same rows, whatever others commit meanwhile."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from deltaproduce.engines.delta.tables import RefusedError
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.file_systems.this_machine import ThisMachine
from deltaproduce.engines.local.marked import commits, optimizing
from deltaproduce.engines.local.marked.state import TableStates


def written(path: Path, *numbers: int) -> str:
    for number in numbers:
        rows = pa.table({"n": pa.array([number, number + 1]), "t": ["a", None]})
        write_deltalake(str(path), rows, mode="append")
    return str(path)


def rows_of(path: str) -> list[int]:
    query = QueryBuilder().register("t", DeltaTable(path)).execute("SELECT n FROM t")
    return sorted(pa.table(query.read_all())["n"].to_pylist())


def compact(path: str, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], Any]) -> None:
    """Compact a table; something else is done between the reading of its files and the commit."""
    commit, done = commits.commit, list[bool]()

    def late(*given: Any) -> Any:
        if not done:
            done.append(True)
            meanwhile()
        return commit(*given)

    with monkeypatch.context() as patch:
        patch.setattr(commits, "commit", late)
        optimizing.optimized(Directory(ThisMachine(), path), TableStates())


def test_small_files_become_one_with_the_same_rows(tmp_path: Path) -> None:
    path = written(tmp_path / "t", 1, 5, 3)
    optimizing.optimized(Directory(ThisMachine(), path), TableStates())
    table = DeltaTable(path)
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    assert [one["num_records"] for one in actions] == [6]
    assert (actions[0]["min.n"], actions[0]["max.n"], actions[0]["null_count.t"]) == (1, 6, 3)
    assert table.to_pyarrow_table()["n"].to_pylist() == [1, 2, 5, 6, 3, 4]
    assert table.history(1)[0]["operation"] == "OPTIMIZE"
    optimizing.optimized(Directory(ThisMachine(), path), TableStates())
    assert DeltaTable(path).version() == table.version()  # one file is not compacted


def test_rows_that_are_added_meanwhile_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "t", 1, 5)
    compact(path, monkeypatch, lambda: written(tmp_path / "t", 9))
    assert rows_of(path) == [1, 2, 5, 6, 9, 10]
    assert len(DeltaTable(path).file_uris()) == 2


OTHERS: dict[str, tuple[Callable[[str], Any], list[int]]] = {
    "another compaction": (
        lambda path: optimizing.optimized(Directory(ThisMachine(), path), TableStates()),
        [1, 2, 5, 6],
    ),
    "one by delta-rs": (lambda path: DeltaTable(path).optimize.compact(), [1, 2, 5, 6]),
    "a delete": (lambda path: DeltaTable(path).delete("n = 5"), [1, 2, 6]),
    "an overwrite": (
        lambda path: write_deltalake(path, pa.table({"n": [7], "t": ["b"]}), mode="overwrite"),
        [7],
    ),
}


@pytest.mark.parametrize("other", OTHERS)
def test_rows_that_others_have_moved_or_removed_meanwhile_are_not_added_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    path = written(tmp_path / "t", 1, 5)
    act, expected = OTHERS[other]
    with pytest.raises(RefusedError):
        compact(path, monkeypatch, lambda: act(path))
    assert rows_of(path) == expected


def test_a_column_that_files_lack_is_null(tmp_path: Path) -> None:
    path = written(tmp_path / "t", 1, 5)
    wider = pa.table({"n": [9], "t": ["c"], "more": [True]})
    write_deltalake(path, wider, mode="append", schema_mode="merge")
    optimizing.optimized(Directory(ThisMachine(), path), TableStates())
    assert len(DeltaTable(path).file_uris()) == 1
    rows = DeltaTable(path).to_pyarrow_table().to_pylist()
    assert [row["more"] for row in rows] == [None] * 4 + [True]


def test_a_table_with_partitions_is_left(tmp_path: Path) -> None:
    for n in (1, 2):
        rows = pa.table({"n": [n], "p": ["x"]})
        write_deltalake(str(tmp_path / "t"), rows, mode="append", partition_by=["p"])
    optimizing.optimized(Directory(ThisMachine(), str(tmp_path / "t")), TableStates())
    assert len(DeltaTable(str(tmp_path / "t")).file_uris()) == 2
