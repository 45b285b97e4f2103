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


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """The delta versions at which tables are opened."""
    found = list[int | None]()
    whole = handles.opened_at

    def counting(directory: Directory, delta_version: int | None = None) -> DeltaTable:
        found.append(delta_version)
        return whole(directory, delta_version)

    monkeypatch.setattr(handles, "opened_at", counting)
    return found


def rows_at(kept: Handles, table: str, delta_version: int) -> int:
    with kept.reading(here(table), delta_version) as found:
        assert found.version() == delta_version
        return int(sum(found.get_add_actions().column("num_records").to_pylist()))


def test_who_writes_after_reading_and_reads_after_writing_opens_it_once(table, opened):
    kept = Handles()
    for number in range(4):
        assert rows_at(kept, table, number) == number + 1
        handle = kept.newest(here(table))
        write_deltalake(handle.table, ROWS, mode="append")
        kept.keep(here(table), handle)
    assert opened == [0]


def test_other_delta_versions_are_opened_and_the_newest_one_is_kept(table, opened):
    kept = Handles()
    for _ in range(2):
        write_deltalake(table, ROWS, mode="append")
    for number in (2, 0, 2, 1, 0, 2):
        assert rows_at(kept, table, number) == number + 1
    assert opened == [2, 0, 1, 0]


def test_what_is_read_is_of_the_table_that_is_there_now(table):
    kept = Handles()
    assert rows_at(kept, table, 0) == 1
    shutil.rmtree(table)
    with pytest.raises(TableNotFoundError), kept.reading(here(table), 0):
        pass
    write_deltalake(table, pa.table({"n": [1, 2, 3]}))
    assert rows_at(kept, table, 0) == 3


def test_a_table_that_several_read_at_once_is_lent_to_one(table):
    kept = Handles()
    with kept.reading(here(table), 0) as one, kept.reading(here(table), 0) as other:
        assert one is not other
