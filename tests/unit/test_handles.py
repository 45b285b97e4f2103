"""Open tables always match the disk."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError

from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.file_systems.this_machine import ThisMachine
from deltaproduce.engines.local import handles
from deltaproduce.engines.local.handles import Handles

ROWS = pa.table({"n": [1]})


@pytest.fixture
def table(tmp_path: Path) -> str:
    write_deltalake(tmp_path / "t", ROWS)
    return str(tmp_path / "t")


def here(table: str) -> Directory:
    return Directory(ThisMachine(), table)


def used(kept: Handles, table: str) -> DeltaTable:
    handle = kept.newest(here(table))
    kept.keep(here(table), handle)
    return handle.table


def test_what_others_have_committed_is_read(table):
    kept = Handles()
    first = used(kept, table)
    write_deltalake(table, ROWS, mode="append")
    assert used(kept, table) is first
    assert first.version() == 1


def test_the_log_is_listed_only_after_a_commit_of_others(table, monkeypatch):
    kept, listed = Handles(), []
    used(kept, table)
    update = DeltaTable.update_incremental
    monkeypatch.setattr(
        DeltaTable, "update_incremental", lambda self: (listed.append(1), update(self))
    )
    used(kept, table)
    assert not listed
    write_deltalake(table, ROWS, mode="append")
    used(kept, table)
    assert listed == [1]


def test_one_caller_at_a_time_has_it(table):
    kept = Handles()
    first = used(kept, table)
    one, other = kept.newest(here(table)), kept.newest(here(table))
    assert one.table is first
    assert other.table is not first


def test_a_table_that_was_made_again_is_opened_anew(table):
    kept = Handles()
    first = used(kept, table)
    shutil.rmtree(table)
    with pytest.raises(TableNotFoundError):
        kept.newest(here(table))
    write_deltalake(table, pa.table({"other": ["x"]}))
    again = used(kept, table)
    assert again is not first
    assert again.schema().fields[0].name == "other"
    shutil.rmtree(table)
    write_deltalake(table, ROWS)
    assert used(kept, table).schema().fields[0].name == "n"


def test_it_is_opened_anew_after_so_many_commits(table, monkeypatch):
    monkeypatch.setattr(handles, "_COMMITS", 3)
    kept, opened = Handles(), []
    for _ in range(8):
        handle = kept.newest(here(table))
        opened.append(handle.since)
        write_deltalake(handle.table, ROWS, mode="append")
        kept.keep(here(table), handle)
    assert opened == [0, 0, 0, 3, 3, 3, 6, 6]


def test_so_many_are_kept(table, tmp_path, monkeypatch):
    monkeypatch.setattr(handles, "_MOST", 1)
    write_deltalake(tmp_path / "u", ROWS)
    kept = Handles()
    first, other = used(kept, table), used(kept, str(tmp_path / "u"))
    assert used(kept, table) is first
    assert used(kept, str(tmp_path / "u")) is not other
