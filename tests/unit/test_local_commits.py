"""Commits by delta-rs: what is to be all of a table, or its first rows, is nothing else's."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.types import LongType

from deltaproduce.engines.delta_tables import KEPT, RefusedError, Write
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.file_systems.this_machine import ThisMachine
from deltaproduce.engines.local import delta
from deltaproduce.engines.local.handles import Handles
from deltaproduce.types.atoms import arrow_schema
from deltaproduce.types.columns import Column

COLUMNS = (Column("n", LongType()),)
BY_ANOTHER_PROCESS = """
import sys, pyarrow, deltalake
deltalake.write_deltalake(sys.argv[1], pyarrow.table({"n": [1]}), mode="append")
"""


def here(table: str) -> Directory:
    return Directory(ThisMachine(), table)


def others_commit(table: str) -> None:
    write_deltalake(table, pa.table({"n": [1]}), mode="append")


def writing(mode: Any, *numbers: int) -> Write:
    rows = pa.table({"n": numbers})
    made_with = None if mode == "append" else KEPT
    return Write(rows, COLUMNS, mode, f"by {numbers}", properties=made_with)


def before_it_is_opened(rows: pa.Table, table: str) -> pa.Table:
    others_commit(table)
    return rows


def after_it_was_opened(rows: pa.Table, table: str) -> pa.RecordBatchReader:
    def later() -> Iterator[pa.RecordBatch]:  # within a commit this process can begin no other
        subprocess.run([sys.executable, "-c", BY_ANOTHER_PROCESS, table], check=True)
        yield from rows.to_batches()

    return pa.RecordBatchReader.from_batches(rows.schema, later())


@pytest.mark.parametrize("meanwhile", [before_it_is_opened, after_it_was_opened])
@pytest.mark.parametrize(
    ("is_there", "mode"),
    [(False, "create"), (False, "overwrite"), (False, "append"), (True, "overwrite")],
)
def test_one_of_two_writers_is_refused_and_nothing_of_it_is_in_the_table(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_there: bool,
    mode: str,
    meanwhile: Callable[[pa.Table, str], Any],
) -> None:
    """Another writer commits while a first commit, or one that overwrites, is under way."""
    table, expected = str(tmp_path / "t"), [1]
    if is_there:
        assert delta.written(here(table), writing("create", 7), Handles())
        expected = [1, 7]

    def overtaken(place: Any, rows: pa.Table, **options: Any) -> None:
        write_deltalake(place, meanwhile(rows, table), **options)

    monkeypatch.setattr(delta, "write_deltalake", overtaken)
    with pytest.raises(RefusedError):
        delta.written(here(table), writing(mode, 2, 3), Handles())
    assert sorted(DeltaTable(table).to_pyarrow_table().column("n").to_pylist()) == expected


def test_rows_that_are_added_come_after_those_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = str(tmp_path / "t")
    assert delta.written(here(table), writing("create", 7), Handles())

    def overtaken(place: Any, rows: pa.Table, **options: Any) -> None:
        others_commit(table)
        write_deltalake(place, rows, **options)

    monkeypatch.setattr(delta, "write_deltalake", overtaken)
    assert delta.written(here(table), writing("append", 2), Handles())
    told = [commit.metadata for commit in delta.history(here(table), None)]
    assert told == ["by (2,)", None, "by (7,)"]


def test_of_two_who_make_an_empty_table_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the other one has written there stays as it is, and is no error."""
    table, create = str(tmp_path / "t"), DeltaTable.create

    def overtaken(*given: Any, **options: Any) -> DeltaTable:
        others_commit(table)
        return create(*given, **{**options, "mode": "error"})

    monkeypatch.setattr(delta.DeltaTable, "create", overtaken)
    delta.create(here(table), arrow_schema(COLUMNS), KEPT)
    assert len(delta.history(here(table), None)) == 1
