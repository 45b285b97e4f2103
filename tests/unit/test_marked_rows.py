"""Rows of files that the log marks as deleted: no way of reading returns them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.file_systems.this_machine import ThisMachine
from deltaproduce.engines.local.marked.listing import MARKED
from deltaproduce.engines.selections import Selection
from deltaproduce.model.limits import Limits
from deltaproduce.model.partitions import Ranges
from deltaproduce.storage.parquet import scans, seeks
from deltaproduce.storage.parquet.file_ranges import FileRanges
from deltaproduce.storage.parquet.files import ParquetFiles, Sieve
from deltaproduce.storage.parquet.neighbours import Neighbours
from deltaproduce.types import data_types as t
from deltaproduce.types.columns import Column

_KEY, _NUMBER = Column("key", t.LongType()), Column("number", t.LongType())
_COLUMNS = (_KEY, _NUMBER)
_ENGINES = Engines(cast(Any, None), Limits())

_FILES = st.lists(
    st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=12), max_size=3
)
"""Of each file the keys of its rows, and which rows are marked."""


def _files(folder: Path, drawn: list[list[tuple[int, bool]]], group_rows: int) -> ParquetFiles:
    """The files, whose rows are in the order of the key, and numbered over all."""
    told, number = list[dict[str, Any]](), 0
    for count, rows in enumerate(drawn):
        path = f"part-{count}.parquet"
        keys = sorted(rows)
        numbers = [*range(number, number + len(keys))]
        number += len(keys)
        table = pa.table({"key": pa.array([key for key, _ in keys], pa.int64()), "number": numbers})
        pq.write_table(table, folder / path, row_group_size=group_rows)
        marks = [place for place, (_, marked) in enumerate(keys) if marked]
        size = (folder / path).stat().st_size
        told.append(
            {"path": path, "num_records": len(keys), "size_bytes": size, MARKED: marks or None}
        )
    schema = {"path": pa.string(), "num_records": pa.int64(), "size_bytes": pa.int64()}
    kinds = pa.schema({**schema, MARKED: pa.list_(pa.int64())})
    ranges = FileRanges(pa.Table.from_pylist(told, kinds), len(told))
    paths = [file["path"] for file in told]
    return ParquetFiles(Directory(ThisMachine(), str(folder)), paths, ranges=ranges)


def _alive(drawn: list[list[tuple[int, bool]]]) -> list[tuple[int, int]]:
    """The rows that are not marked: key and number."""
    rows = [row for file in drawn for row in sorted(file)]
    return [(key, number) for number, (key, marked) in enumerate(rows) if not marked]


def _rows(table: pa.Table | None) -> list[tuple[int, int]]:
    assert table is not None
    return sorted(zip(table["key"].to_pylist(), table["number"].to_pylist(), strict=True))


@given(drawn=_FILES, group_rows=st.integers(1, 5), keys=st.sets(st.integers(0, 9), min_size=1))
def test_no_way_of_reading_returns_a_marked_row(
    drawn: list[list[tuple[int, bool]]], group_rows: int, keys: set[int]
) -> None:
    """All rows, some keys, the first row of a key, ranges, parts: each as a filter gives them."""
    with tempfile.TemporaryDirectory() as folder:
        files, alive = _files(Path(folder), drawn, group_rows), sorted(_alive(drawn))
        some = [row for row in alive if row[0] in keys]
        sought = Selection((_KEY,), pa.table({"key": pa.array(sorted(keys), pa.int64())}), _ENGINES)

        assert files.size is None or files.size[0] == len(alive)
        assert _rows(files.rows(_COLUMNS)) == alive
        assert _rows(pa.concat_tables(_none(files.each(_COLUMNS)))) == alive
        for size in (1, 4, 100):
            assert _rows(pa.concat_tables(_none(files.batches(_COLUMNS, size)))) == alive
            assert _rows(scans.reduced(files, _COLUMNS, size, lambda part: part)) == alive
            sifted = scans.reduced(
                files, _COLUMNS, size, lambda part: _of(part, keys), _sieve(keys)
            )
            assert _rows(sifted) == some
        assert _rows(seeks.rows_of(files, sought, _COLUMNS, None)) == some
        held = Neighbours((_KEY,))
        for _ in range(2):
            assert _rows(seeks.rows_of(files, sought, _COLUMNS, None, None, held)) == some
        for strategy in ("auto", "seek", "scan"):
            found = seeks.looked_up(files, sought, _COLUMNS, cast(Any, strategy), None)
            assert found is not None
            assert _rows(found.rows) == some
        first = seeks.first_rows(
            files, sought, (_NUMBER,), 1, _COLUMNS, lambda rows: np.ones(len(rows), bool)
        )
        nearest = {key: min(n for k, n in some if k == key) for key, _ in some}
        assert set(nearest.items()) <= set(_rows(first)) <= set(some)
        within = seeks.rows_in_ranges(files, _KEY, Ranges(((2, 5),)), _COLUMNS, None)
        assert _rows(within) == [row for row in alive if 2 <= row[0] <= 5]
        assert seeks.least_within(files, _KEY, Ranges(((0, 9),))) <= len(alive)


def _sieve(keys: set[int]) -> Sieve:
    return Sieve((_KEY,), lambda rows: np.isin(rows["key"].to_numpy(), list(keys)))


def _of(rows: pa.Table, keys: set[int]) -> pa.Table:
    return rows.filter(pa.array(_sieve(keys).marks(rows)))


def _none(parts: Any) -> list[pa.Table]:
    """The parts, after one without rows."""
    return [pa.table({"key": pa.array([], pa.int64()), "number": pa.array([], pa.int64())}), *parts]
