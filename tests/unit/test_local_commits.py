"""Commits by delta-rs: a commit that replaces or begins a table admits no other."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from deltaproduce.engines.delta.tables import KEPT, RefusedError, TableWrite, properties
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.file_systems.this_machine import ThisMachine
from deltaproduce.engines.local import data_files
from deltaproduce.engines.local.delta import changes, reads, writes
from deltaproduce.engines.local.handles import Handles
from deltaproduce.engines.local.marked.state import TableStates
from deltaproduce.types.atoms import arrow_schema
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import (
    ByteType,
    DateType,
    DecimalType,
    LongType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

COLUMNS = (Column("n", LongType()),)
BY_ANOTHER_PROCESS = """
import sys, pyarrow, deltalake
deltalake.write_deltalake(sys.argv[1], pyarrow.table({"n": [1]}), mode="append")
"""


def here(table: str) -> Directory:
    return Directory(ThisMachine(), table)


def others_commit(table: str) -> None:
    write_deltalake(table, pa.table({"n": [1]}), mode="append")


def writing(mode: Any, *numbers: int) -> TableWrite:
    rows = pa.table({"n": numbers})
    made_with = None if mode == "append" else KEPT
    return TableWrite(rows, COLUMNS, mode, f"by {numbers}", properties=made_with)


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
        assert writes.written(here(table), writing("create", 7), Handles(), TableStates())
        expected = [1, 7]

    def overtaken(place: Any, rows: pa.Table, **options: Any) -> None:
        write_deltalake(place, meanwhile(rows, table), **options)

    monkeypatch.setattr(writes, "write_deltalake", overtaken)
    with pytest.raises(RefusedError):
        writes.written(here(table), writing(mode, 2, 3), Handles(), TableStates())
    assert sorted(DeltaTable(table).to_pyarrow_table().column("n").to_pylist()) == expected


def test_of_two_who_make_an_empty_table_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the other one has written there stays as it is, and is no error."""
    table, create = str(tmp_path / "t"), DeltaTable.create

    def overtaken(*given: Any, **options: Any) -> DeltaTable:
        others_commit(table)
        return create(*given, **{**options, "mode": "error"})

    monkeypatch.setattr(changes.DeltaTable, "create", overtaken)
    changes.create(here(table), arrow_schema(COLUMNS), KEPT)
    assert len(reads.history(here(table), None)) == 1


def parts(mode: Any, *ends: int, told: Any = COLUMNS, rows: pa.Table | None = None) -> TableWrite:
    found = pa.table({"n": range(ends[-1])}) if rows is None else rows
    return TableWrite(
        found,
        told,
        mode,
        f"by {ends}",
        properties=properties(told, marked=False),
        file_ends=ends,
        lookup=told,
    )


@pytest.mark.parametrize(("is_there", "mode"), [(False, "create"), (True, "overwrite")])
@pytest.mark.parametrize("by_hand", [False, True])
def test_parts_are_one_commit_that_is_refused_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Any, *, is_there: bool, by_hand: bool
) -> None:
    table, handles = str(tmp_path / "t"), Handles()
    if is_there:
        assert writes.written(here(table), parts("create", 1, 2), handles, TableStates())
    if not by_hand:
        assert writes.written(here(table), parts(mode, 2, 5, 6), handles, TableStates())
        found = DeltaTable(table)
        told = pa.table(found.get_add_actions(flatten=True)).sort_by("min.n")
        assert told["num_records"].to_pylist() == [2, 3, 1]
        assert (told["min.n"].to_pylist(), told["max.n"].to_pylist()) == ([0, 2, 5], [1, 4, 5])
        assert sorted(found.to_pyarrow_table()["n"].to_pylist()) == list(range(6))
        assert found.version() == int(is_there)
        assert found.history(1)[0]["userMetadata"] == "by (2, 5, 6)"
        return
    write = data_files.written

    def late(*given: Any, **named: Any) -> Any:
        found = write(*given, **named)
        others_commit(table)
        return found

    monkeypatch.setattr(data_files, "written", late)
    with pytest.raises(RefusedError):
        writes.written(here(table), parts(mode, 2, 5, 6), handles, TableStates())
    rows = sorted(DeltaTable(table).to_pyarrow_table()["n"].to_pylist())
    assert rows == ([0, 1, 1] if is_there else [1])


@pytest.mark.parametrize("mode", ["create", "overwrite", "append"])
def test_no_file_has_very_many_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Any
) -> None:
    """To purge marked rows of one takes a bounded time."""
    monkeypatch.setattr(data_files, "ROWS_PER_FILE", 3)
    table, handles, states = str(tmp_path / "t"), Handles(), TableStates()
    assert writes.written(here(table), writing("create", 1), handles, states)
    assert writes.written(here(table), writing(mode, *range(7)), handles, states)
    told = pa.table(DeltaTable(table).get_add_actions())
    found = sorted(told["num_records"].to_pylist())
    assert found == ([1, 1, 3, 3] if mode == "append" else [1, 3, 3])


@pytest.mark.parametrize("values", [[3_000_000, 1, 2], [1, -1_000_000, 2]])
@pytest.mark.parametrize(
    ("data_type", "arrow", "unit"),
    [
        (DateType(), pa.date32(), 1),
        (TimestampType(), pa.timestamp("us", "UTC"), 86_400_000_000),
        (TimestampNTZType(), pa.timestamp("us"), 86_400_000_000),
    ],
)
def test_a_file_with_a_day_that_python_does_not_have_is_written_without_a_range(
    tmp_path: Path, values: list[int], data_type: Any, arrow: pa.DataType, unit: int
) -> None:
    """Days before the year 1, or after 9999, of which Arrow has many."""
    told, here_is = (Column("n", data_type),), here(str(tmp_path / "t"))
    kind = pa.int32() if data_type == DateType() else pa.int64()
    rows = pa.table({"n": pa.array([unit * day for day in values], kind).cast(arrow)})
    assert writes.written(
        here_is, parts("create", 2, 3, told=told, rows=rows), Handles(), TableStates()
    )
    found = reads.files(here_is, 0, Handles(), TableStates())
    assert found is not None
    assert [end["n"] is None for end in found.column("min").to_pylist()] == [True, False]
    stored = DeltaTable(here_is.uri).to_pyarrow_table()["n"].cast(kind).to_pylist()
    assert sorted(stored) == sorted(unit * day for day in values)


def encodings(table: DeltaTable) -> set[tuple[str, ...]]:
    """How the columns of a table's files are stored."""
    footers = (pq.read_metadata(uri) for uri in table.file_uris())
    columns = [
        footer.row_group(0).column(n) for footer in footers for n in range(len(footer.schema))
    ]
    return {
        (c.path_in_schema, c.physical_type, c.compression, *sorted({*c.encodings} - {"RLE"}))
        for c in columns
    }


def test_the_log_says_of_parts_what_delta_rs_says(tmp_path: Path) -> None:
    """Its schema, protocol, properties and statistics."""
    kinds = {
        "tiny": (ByteType(), [1, None, -3]),
        "day": (DateType(), [date(2020, 1, 1), None, date(1, 1, 1)]),
        "at": (TimestampType(), [datetime(2020, 1, 1, 1, 2, 3, 456789, UTC), None, None]),
        "bare": (
            TimestampNTZType(),
            [datetime(1969, 1, 1, 0, 0, 0, 1), None, None],
        ),
        "text": (StringType(), ["b", None, "é"]),
        "none": (LongType(), [None, None, None]),
        "price": (DecimalType(9, 2), [Decimal("1.50"), None, Decimal("-3.25")]),
    }
    columns = tuple(Column(name, kind) for name, (kind, _) in kinds.items())
    rows = pa.table([values for _, values in kinds.values()], arrow_schema(columns))
    told = []
    for name, ends in (("one", ()), ("parts", (2, 3))):
        table = str(tmp_path / name)
        write = parts("create", 3, told=columns, rows=rows)
        assert writes.written(here(table), replace(write, file_ends=ends), Handles(), TableStates())
        found = DeltaTable(table)
        actions = pa.table(found.get_add_actions()).combine_chunks()
        struct = {which: actions[which].chunk(0) for which in ("min", "max", "null_count")}
        told.append(
            (
                found.schema().to_json(),
                found.protocol(),
                found.metadata().configuration,
                {
                    c.name: (
                        pc.min(pc.struct_field(struct["min"], [c.name])),
                        pc.max(pc.struct_field(struct["max"], [c.name])),
                        pc.sum(pc.struct_field(struct["null_count"], [c.name])),
                    )
                    for c in columns
                    if c.name != "price"
                },
                encodings(found),
            )
        )
        assert found.to_pyarrow_table().sort_by("tiny").equals(rows.sort_by("tiny"))
    assert told[0] == told[1]
