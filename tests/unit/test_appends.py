"""Appends as commits of our own: nothing of others is lost, and nothing of ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from deltaproduce.engines.delta.log import commit_file
from deltaproduce.engines.delta.tables import APP_ID, RefusedError, TableWrite, properties
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.file_systems.this_machine import ThisMachine
from deltaproduce.engines.local import data_files
from deltaproduce.engines.local.delta import reads, writes
from deltaproduce.engines.local.handles import Handles
from deltaproduce.engines.local.marked.state import TableState, TableStates, state_at
from deltaproduce.engines.local.marked.table_files import path_of
from deltaproduce.types.atoms import arrow_schema
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import (
    ArrayType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

COLUMNS = (Column("n", LongType()),)
TOKEN = CommitProperties(app_transactions=[Transaction(APP_ID, 5)])


def here(path: Path) -> Directory:
    return Directory(ThisMachine(), str(path))


def write(directory: Directory, states: TableStates, number: int, fence: int | None = None) -> None:
    rows = pa.table({"n": [number]})
    wanted = TableWrite(rows, COLUMNS, "append", f"ours {number}", fence=fence, lookup=COLUMNS)
    assert writes.written(directory, wanted, Handles(), states)


@pytest.fixture
def table(tmp_path: Path) -> Directory:
    directory = here(tmp_path / "t")
    rows = pa.table({"n": [0]})
    kept = {**properties(COLUMNS, marked=False), "delta.checkpointInterval": "4"}
    made = TableWrite(rows, COLUMNS, "create", "made", properties=kept, lookup=COLUMNS)
    assert writes.written(directory, made, Handles(), TableStates())
    return directory


def numbers(directory: Directory) -> list[int]:
    found: list[int] = sorted(DeltaTable(directory.uri).to_pyarrow_table()["n"].to_pylist())
    return found


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    """Let someone act once, after the state was read and before the commit is made."""
    of_write, left = data_files.of_write, [act]

    def late(*given: Any) -> Any:
        if left:
            left.pop()()
        return of_write(*given)

    monkeypatch.setattr(data_files, "of_write", late)


def assert_same(one: TableState, other: TableState) -> None:
    assert replace(one, files=other.files) == other
    assert not [*one.files.missing_in(other.files), *other.files.missing_in(one.files)]


def others(directory: Directory, *, mode: Any = "append", **options: Any) -> None:
    write_deltalake(directory.uri, pa.table({"n": [9]}), mode=mode, **options)


def test_rows_that_are_added_come_after_those_of_others(
    table: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act() -> None:
        others(table)
        DeltaTable(table.uri).optimize.compact()

    meanwhile(monkeypatch, act)
    states = TableStates()
    write(table, states, 1)
    assert numbers(table) == [0, 1, 9]
    told = [commit.metadata for commit in reads.history(table, None)]
    assert told == ["ours 1", None, None, "made"]
    assert_same(states.newest(table), state_at(table, None))


@pytest.mark.parametrize(
    "act",
    [
        lambda t: DeltaTable(t.uri).alter.set_table_properties({"delta.appendOnly": "true"}),
        lambda t: write_deltalake(
            t.uri, pa.table({"n": [9], "m": [9]}), mode="append", schema_mode="merge"
        ),
        lambda t: write_deltalake(
            t.uri, pa.table({"m": ["x"]}), mode="overwrite", schema_mode="overwrite"
        ),
    ],
)
def test_rows_are_not_added_to_a_table_that_became_another(
    table: Directory, monkeypatch: pytest.MonkeyPatch, act: Callable[[Directory], None]
) -> None:
    meanwhile(monkeypatch, lambda: act(table))
    with pytest.raises(RefusedError):
        write(table, TableStates(), 1)
    assert "ours 1" not in [commit.metadata for commit in reads.history(table, None)]


def test_a_checkpoint_is_as_near_as_its_interval_whoever_commits(table: Directory) -> None:
    """Delta-rs makes one at another number than we do: neither counts on the other's."""
    states, made = TableStates(), [0]
    for number in range(1, 40):
        if number % 4 in (0, 1):
            others(table)
        else:
            write(table, states if number % 3 else TableStates(), number)
        log = Path(table.uri.removeprefix("file://"), "_delta_log")
        made = [0, *sorted(int(path.name[:20]) for path in log.glob("*.checkpoint.parquet"))]
        assert number - made[-1] <= 4 + 2  # the last two may be of others
    assert len(made) >= 8


def test_a_fenced_commit_is_the_next_one_or_none(
    table: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, lambda: others(table, commit_properties=TOKEN))
    with pytest.raises(RefusedError):
        write(table, TableStates(), 1, fence=5)
    meanwhile(monkeypatch, lambda: others(table))
    with pytest.raises(RefusedError):
        write(table, TableStates(), 1, fence=6)
    assert numbers(table) == [0, 9, 9]


@pytest.mark.parametrize("later", range(6))
def test_a_token_counts_whoever_used_it_and_behind_a_checkpoint(
    table: Directory, later: int
) -> None:
    states = TableStates()
    if later % 2:
        others(table, commit_properties=TOKEN)
    else:
        write(table, states, 5, fence=5)
    for number in range(later):
        write(table, states, 10 + number)
    for known in (states, TableStates()):
        with pytest.raises(RefusedError, match="token 5"):
            write(table, known, 1, fence=5)
    assert DeltaTable(table.uri).transaction_version(APP_ID) == 5
    assert table.exists("_delta_log/00000000000000000004.checkpoint.parquet") == (later >= 3)
    write(table, states, 6, fence=6)
    assert state_at(table, None).transactions == {APP_ID: 6}


def test_a_commit_that_is_there_though_it_seemed_refused_counts(
    table: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a client repeats a request whose answer was lost, and is told that the file is there."""
    put = ThisMachine.put_first

    def repeated(system: ThisMachine, path: str, text: str) -> bool:
        return put(system, path, text) and put(system, path, text)

    monkeypatch.setattr(ThisMachine, "put_first", repeated)
    write(table, TableStates(), 1, fence=1)
    write(table, TableStates(), 2)
    assert numbers(table) == [0, 1, 2]


def test_what_the_log_says_is_what_delta_rs_says(table: Directory, tmp_path: Path) -> None:
    """Readers skip files by it; a table that demands more is written by delta-rs."""
    write(table, TableStates(), 7, fence=3)
    own = state_at(table, 1)
    text = table.read(commit_file(1)).text
    assert '"isBlindAppend":true' in text
    assert '"engineInfo":"deltaproduce"' in text
    others(table, commit_properties=TOKEN)
    added = state_at(table, 2).files.missing_in(own.files)
    ours = [add for add in own.files if '"minValues": {"n": 7}' in add["stats"]]
    assert len(ours) == len(added) == 1
    assert {*ours[0]} >= {k for k, v in added[0].items() if v is not None}
    demanding = here(tmp_path / "demanding")
    kept = {**properties(COLUMNS, marked=False), "delta.appendOnly": "true"}
    made = TableWrite(pa.table({"n": [0]}), COLUMNS, "create", "", properties=kept, lookup=COLUMNS)
    assert writes.written(demanding, made, Handles(), TableStates())
    write(demanding, TableStates(), 1)
    assert '"engineInfo":"deltaproduce"' not in demanding.read(commit_file(1)).text
    assert numbers(demanding) == [0, 1]


def test_a_null_struct_whose_fields_are_not_null_is_added(tmp_path: Path) -> None:
    fields = [StructField("n", IntegerType(), nullable=False)]
    kinds = [
        StructType(fields),
        ArrayType(StructType(fields)),
        MapType(StringType(), StructType(fields)),
    ]
    columns = tuple(Column(f"c{number}", kind) for number, kind in enumerate(kinds))
    values = [[None, {"n": 1}], [[None, {"n": 1}], None], [[("a", None), ("b", {"n": 1})], None]]
    rows = pa.table(values, arrow_schema(columns))
    directory, states = here(tmp_path / "t"), TableStates()
    for mode in ("create", "append"):
        kept = properties((), marked=False) if mode == "create" else None
        wanted = TableWrite(rows, columns, mode, "", properties=kept)
        assert writes.written(directory, wanted, Handles(), states)
    found = DeltaTable(directory.uri).to_pyarrow_table()
    assert found.to_pylist() == rows.to_pylist() * 2
    marked = TableWrite(rows, columns, "append", "", replaced={}, located_at=1)
    assert writes.written(directory, marked, Handles(), states)
    before, after = (state_at(directory, number).files for number in (1, 2))
    (added,) = after.missing_in(before)
    with directory.parquet(path_of(added)) as file:
        assert file.read().to_pylist() == rows.to_pylist()


def test_nothing_is_an_append_too(table: Directory) -> None:
    none = replace(
        TableWrite(pa.table({"n": pa.array([], pa.int64())}), COLUMNS, "append", "none"), fence=1
    )
    assert writes.written(table, none, Handles(), TableStates())
    assert numbers(table) == [0]
    assert reads.history(table, 1)[0].metadata == "none"
