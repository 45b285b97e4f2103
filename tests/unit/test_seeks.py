"""`seeks`, compared with filters over the whole table: row groups read, and refusals to seek."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.file_systems.this_machine import ThisMachine
from deltaproduce.engines.selections import Selection
from deltaproduce.errors import CorruptStoreError
from deltaproduce.model.limits import Limits
from deltaproduce.model.partitions import Ranges
from deltaproduce.storage.parquet import files as parquet_files
from deltaproduce.storage.parquet import neighbours, scans, seeks
from deltaproduce.storage.parquet.file_ranges import FilePaths, FileRanges
from deltaproduce.storage.parquet.files import ParquetFiles, Sieve
from deltaproduce.storage.parquet.neighbours import Neighbours
from deltaproduce.storage.parquet.readings import Readings
from deltaproduce.storage.parquet.row_groups import FileFooter
from deltaproduce.types import data_types as t
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import Column

_MOST = 1_000
_ID, _PART, _TEXT = (
    Column("id", t.LongType()),
    Column("part", t.StringType()),
    Column("text", t.StringType()),
)
_PLACE = Column("place", t.IntegerType())


def _selection(columns: Sequence[Column], *keys: Any, limits: Limits = Limits()) -> Selection:
    rows = [key if isinstance(key, tuple) else (key,) for key in keys]
    arrays = [
        pa.array([row[i] for row in rows], arrow_type(c.data_type)) for i, c in enumerate(columns)
    ]
    table = pa.table(arrays, [c.name for c in columns])
    return Selection(tuple(columns), table, Engines(cast(Any, None), limits))


def _here(folder: Path) -> Directory:
    return Directory(ThisMachine(), str(folder))


def _written(
    folder: Path, tables: Sequence[pa.Table], group_rows: int = 3
) -> tuple[Directory, FilePaths]:
    """Writes each table as a file, and returns the files by their directory and their names."""
    names = [f"part-{number:05}.parquet" for number in range(len(tables))]
    for name, table in zip(names, tables, strict=True):
        pq.write_table(table, folder / name, row_group_size=group_rows)
    return _here(folder), FilePaths(pa.array(names, pa.string()))


def _numbers(first: int, last: int) -> pa.Table:
    ids = list(range(first, last))
    return pa.table({"id": pa.array(ids, pa.int64()), "text": [f"row {i}" for i in ids]})


@pytest.fixture
def groups_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many row groups each reading of a file took."""
    counts: list[int] = []
    read = ParquetFiles.read_groups

    def counting(files: ParquetFiles, footers: Any, groups: Any, *names: Any, **named: Any) -> Any:
        counts.append(len(groups))
        return read(files, footers, groups, *names, **named)

    monkeypatch.setattr(ParquetFiles, "read_groups", counting)
    return counts


def test_only_groups_that_may_hold_a_key_are_read(tmp_path: Path, groups_read: list[int]) -> None:
    files = ParquetFiles(*_written(tmp_path, [_numbers(0, 30), _numbers(30, 60)]))
    found = seeks.rows_of(files, _selection([_ID], 4, 31, 32, 59, 70), (_ID, _TEXT), _MOST)
    assert found is not None
    assert sorted(found["id"].to_pylist()) == [4, 31, 32, 59]
    assert sorted(groups_read) == [1, 2]
    assert found["text"].to_pylist() == [f"row {i}" for i in found["id"].to_pylist()]


@pytest.mark.parametrize("number", range(8))
def test_of_many_row_groups_the_keys_are_read_first(tmp_path: Path, number: int) -> None:
    """Rows are those of a filter; where no key is, the other columns are not read."""
    random = np.random.default_rng(number)
    ids = np.sort(random.choice(400, 150, replace=False))
    more = [{"id": int(n), "text": f"row {n}" * 50, "part": str(n % 7)} for n in ids]
    readings, whole = Readings(), Readings()
    directory, names = _written(
        tmp_path, [pa.Table.from_pylist(more[:90]), pa.Table.from_pylist(more[90:])]
    )
    files = ParquetFiles(directory, names, readings=readings)
    absent = [n for n in range(400) if n not in ids]
    share = random.choice((0, 3, 40))
    sought = [*random.choice(absent, 80, replace=False), *random.choice(ids, share, replace=False)]
    columns = (_ID, _TEXT, _PART)
    found = seeks.rows_of(files, _selection([_ID], *map(int, sought)), columns, _MOST)
    assert found is not None
    assert sorted(found["id"].to_pylist()) == sorted({*sought} & {*ids.tolist()})
    assert found["text"].to_pylist() == [f"row {n}" * 50 for n in found["id"].to_pylist()]
    assert ParquetFiles(directory, names, readings=whole).rows(columns) is not None
    assert readings.total.rows <= whole.total.rows
    if not share:
        assert readings.total.size * 3 < whole.total.size


def test_rows_in_ranges_are_read_in_the_wanted_columns_alone(tmp_path: Path) -> None:
    sizes = []
    for columns in ([_ID], [_ID, _TEXT]):
        readings = Readings()
        directory, names = _written(tmp_path, [_numbers(0, 30), _numbers(30, 60)])
        files = ParquetFiles(directory, names, readings=readings)
        found = seeks.rows_in_ranges(files, _ID, Ranges(((4, 12), (31, 31))), columns, _MOST)
        assert found is not None
        assert found.column_names == [column.name for column in columns]
        assert found["id"].to_pylist() == [*range(4, 13), 31]
        assert readings.total.rows == 15
        sizes.append(readings.total.size)
    assert 0 < sizes[0] < sizes[1]


@pytest.mark.parametrize("rows", [3, 1_000])
def test_a_scan_for_few_rows_reads_other_columns_only_where_they_are(
    tmp_path: Path, rows: int
) -> None:
    """Of four files with ten row groups two are read whole; of the others one column is."""
    tables = [_numbers(0, 10), _numbers(10, 10), _numbers(10, 11), _numbers(11, 30)]
    readings, wanted = Readings(), {9, 20}
    directory, names = _written(tmp_path, tables)
    files = ParquetFiles(directory, names, readings=readings)
    seen = list[int]()

    def marks(part: pa.Table) -> Any:
        assert part.column_names == ["id"]
        return np.isin(part["id"].to_numpy(), list(wanted))

    def some(part: pa.Table) -> pa.Table:
        seen.extend(part["id"].to_pylist())
        return part.filter(pa.array(marks(part.select(["id"]))))

    found = scans.reduced(files, [_ID, _TEXT], rows, some, Sieve((_ID,), marks))
    assert found is not None
    assert found.to_pylist() == [{"id": i, "text": f"row {i}"} for i in sorted(wanted)]
    assert sorted(seen) == [9, 20]  # not 21 and 22, though they are in the row group of 20

    amounts = Readings()
    for columns, number, groups in ((None, 0, {3}), (None, 3, {3}), (["id"], 0, {0, 1, 2})):
        footer = FileFooter(pq.read_metadata(tmp_path / names[number]))
        amounts.add(*footer.amount_of(groups, columns))
    for number, groups in ((2, {0}), (3, {0, 1, 2, 4, 5, 6})):
        footer = FileFooter(pq.read_metadata(tmp_path / names[number]))
        amounts.add(*footer.amount_of(groups, ["id"]))
    assert readings.total == amounts.total


@pytest.mark.parametrize("rows", [1, 4, 10, 1_000])
def test_all_rows_are_reduced_part_by_part(tmp_path: Path, rows: int) -> None:
    """Parts are of whole row groups, of one file or several; of the columns, some are read.

    Whoever reads in parallel, the reads count in the thread that asks.
    """
    tables = [_numbers(0, 10), _numbers(10, 10), _numbers(10, 11), _numbers(11, 30)]
    parts: list[list[int]] = []

    def summed(part: pa.Table) -> pa.Table:
        assert part.column_names == ["id"]
        parts.append(part["id"].to_pylist())
        return pa.table({"sum": pa.array([sum(parts[-1])], pa.int64())})

    readings, at_once = Readings(), Readings()
    directory, names = _written(tmp_path, tables)
    files = ParquetFiles(directory, names, readings=readings)
    found = scans.reduced(files, [_ID], rows, summed)
    others = names.among(np.flatnonzero([len(table) > 0 for table in tables]))
    assert ParquetFiles(directory, others, readings=at_once).rows([_ID]) is not None
    assert readings.total == at_once.total
    assert readings.total.rows == 30
    assert found is not None
    assert sum(found["sum"].to_pylist()) == sum(range(30))
    assert sorted(part for part in parts if part) == sorted(
        [*range(30)][part[0] : part[-1] + 1] for part in parts if part
    )
    assert sorted(i for part in parts for i in part) == [*range(30)]
    assert max(map(len, parts)) <= rows + 2 * 3
    assert 30 // (rows + 3) <= len([part for part in parts if part]) <= 12  # row groups


def test_nothing_is_read_for_keys_beyond_the_table(tmp_path: Path, groups_read: list[int]) -> None:
    files = ParquetFiles(*_written(tmp_path, [_numbers(10, 20)]))
    found = seeks.rows_of(files, _selection([_ID], -1, 9, 20), (_ID, _TEXT), _MOST)
    assert found is not None
    assert not len(found)
    assert not groups_read
    assert found.schema.names == ["id", "text"]


def test_later_columns_tell_where_the_first_has_few_values(
    tmp_path: Path, groups_read: list[int]
) -> None:
    """Of 20 groups in order, 18 have one id; of those that have two, the ids decide."""
    rows = [{"id": n // 30, "part": f"{n % 30:02}"} for n in range(60)]
    schema = pa.schema([("id", pa.int64()), ("part", pa.string())])
    files = ParquetFiles(*_written(tmp_path, [pa.Table.from_pylist(rows[1:], schema)]))
    sought = [(0, "05"), (0, "06"), (1, "20"), (0, "99"), (2, "05")]
    found = seeks.rows_of(files, _selection([_ID, _PART], *sought), (_ID, _PART), _MOST)
    assert found is not None
    assert [tuple(row.values()) for row in found.to_pylist()] == sought[:3]
    assert groups_read == [3]
    groups_read.clear()
    found = seeks.rows_of(files, _selection([_ID, _PART], (0, "99")), (_ID, _PART), _MOST)
    assert found is not None
    assert not len(found)
    assert groups_read == [1]


@pytest.mark.parametrize(
    ("rows", "sought"),
    [
        pytest.param(
            [(1, "a", 3), (2, "a", 3)], [(1, "a", 3), (2, "a", 1)], id="alike but in the first"
        ),
        pytest.param(
            [(1, "a", 3), (1, "a", None), (1, "a", 1)], [(1, "a", 1)], id="null and in no order"
        ),
    ],
)
def test_a_row_is_found_by_three_columns(
    tmp_path: Path, rows: list[tuple[Any, ...]], sought: list[tuple[Any, ...]]
) -> None:
    columns = (_ID, _PART, _PLACE)
    schema = pa.schema([(c.name, arrow_type(c.data_type)) for c in columns])
    values = [dict(zip(schema.names, row, strict=True)) for row in rows]
    files = ParquetFiles(*_written(tmp_path, [pa.Table.from_pylist(values, schema)]))
    found = seeks.rows_of(files, _selection(columns, *sought), columns, _MOST)
    assert found is not None
    assert [tuple(row.values()) for row in found.to_pylist()] == [sought[0]]


def test_many_groups_are_read_a_part_at_a_time(
    tmp_path: Path, groups_read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files, "_SOUGHT_AT_A_TIME", 64 * 3)
    files = ParquetFiles(*_written(tmp_path, [_numbers(0, 600)]))
    found = seeks.rows_of(files, _selection([_ID], *range(600)), (_ID, _TEXT), _MOST)
    assert found is not None
    assert len(found) == 600
    assert groups_read == [64, 64, 64, 8]


def test_no_more_is_read_than_tells_that_there_is_too_much(
    tmp_path: Path, groups_read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files, "cores", lambda: 1)
    monkeypatch.setattr(parquet_files, "_SOUGHT_AT_A_TIME", 64 * 3)
    files = ParquetFiles(*_written(tmp_path, [_numbers(0, 60_000)]))
    found = seeks.rows_of(files, _selection([_ID], *range(0, 60_000, 3)), (_ID, _TEXT), 70)
    assert found is not None
    assert 70 < len(found) < 20_000
    assert sum(groups_read) < 20_000


def test_a_table_without_rows_has_none(tmp_path: Path) -> None:
    files = ParquetFiles(*_written(tmp_path, [_numbers(0, 0)]))
    found = seeks.rows_of(files, _selection([_ID], 1), (_ID, _TEXT), _MOST)
    assert found is not None
    assert not len(found)


_SMALL = st.integers(-4, 4)
_KEYS: dict[str, tuple[t.DataType, st.SearchStrategy[Any]]] = {
    "tinyint": (t.ByteType(), st.integers(-128, 127)),
    "smallint": (t.ShortType(), _SMALL),
    "int": (t.IntegerType(), st.integers(-(2**31), 2**31 - 1) | _SMALL),
    "bigint": (t.LongType(), st.integers(-(2**63), 2**63 - 1) | _SMALL),
    "date": (t.DateType(), st.dates() | _SMALL.map(lambda n: date(1970, 1, 1) + timedelta(n))),
    "text": (t.StringType(), st.text("a\0b\x7fé\U0001f600", max_size=3)),
    "binary": (t.BinaryType(), st.binary(max_size=3)),
    "boolean": (t.BooleanType(), st.booleans()),
    "timestamp": (t.TimestampType(), st.datetimes(timezones=st.just(UTC))),
    "timestamp_ntz": (t.TimestampNTZType(), st.datetimes()),
    "short decimal": (t.DecimalType(6, 2), st.decimals(-999, 999, places=2)),
    "long decimal": (t.DecimalType(28, 2), st.decimals(-(10**25), 10**25, places=2)),
}


def _in_order(row: tuple[Any, ...]) -> list[tuple[bool, Any]]:
    return [(value is not None, value) for value in row]


@pytest.mark.parametrize("name", _KEYS)
@given(data=st.data())
def test_the_rows_are_those_of_a_filter(
    data: st.DataObject, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """For each type of key, of up to three columns, nulls too, in files that need not be sorted."""
    data_type, values = _KEYS[name]
    values |= st.none()
    parts = data.draw(st.integers(1, 3))
    columns = (Column("key", data_type), _PART, _PLACE)
    few = data.draw(st.lists(values, min_size=1, max_size=3))
    row = st.tuples(
        st.sampled_from(few) | values,
        st.sampled_from(["a", "b", "c", None]),
        st.sampled_from([1, 2, 3, None]),
    )
    rows = data.draw(st.lists(row, max_size=40))
    if data.draw(st.booleans()):
        rows.sort(key=_in_order)
    keys = row | st.sampled_from(rows) if rows else row
    sought = {key[:parts] for key in data.draw(st.lists(keys, max_size=12))}
    schema = pa.schema([(c.name, arrow_type(c.data_type)) for c in columns])
    halves = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    tables = [
        pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in half], schema)
        for half in halves
    ]
    files = ParquetFiles(*_written(tmp_path_factory.mktemp("files"), tables, group_rows=2))
    found = seeks.rows_of(files, _selection(columns[:parts], *sought), columns, _MOST)
    assert found is not None
    assert Counter(zip(*found.to_pydict().values(), strict=True)) == Counter(
        key for key in rows if key[:parts] in sought
    )


def test_values_of_all_types_come_as_spark_exchanges_them(tmp_path: Path) -> None:
    """Timestamps that Spark writes have 96 bits and no zone in Parquet."""
    moment = datetime(1600, 1, 1, tzinfo=UTC)
    types: dict[str, tuple[t.DataType, Any]] = {
        "moment": (t.TimestampType(), moment),
        "far": (t.TimestampType(), datetime(9999, 12, 31, tzinfo=UTC)),
        "local": (t.TimestampNTZType(), datetime(2020, 5, 17, 1, 2, 3, 4)),
        "price": (t.DecimalType(12, 2), Decimal("1.50")),
        "items": (
            t.ArrayType(t.StructType([t.StructField("n", t.IntegerType())])),
            [{"n": 1}, None],
        ),
        "by": (t.MapType(t.StringType(), t.LongType()), [("a", 1)]),
        "raw": (t.BinaryType(), b"\0\1"),
    }
    columns = [_ID, *(Column(name, data_type) for name, (data_type, _) in types.items())]
    row = {"id": 1, **{name: value for name, (_, value) in types.items()}}
    schema = pa.schema([(c.name, arrow_type(c.data_type)) for c in columns])
    table = pa.Table.from_pylist([row], schema)
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    found = seeks.rows_of(
        ParquetFiles(_here(tmp_path), ["a.parquet"]), _selection([_ID], 1), columns, _MOST
    )
    assert found is not None
    assert found.schema.equals(schema)
    assert found.to_pylist() == [row]


def test_a_part_of_another_column_is_not_mistaken_for_the_key(tmp_path: Path) -> None:
    """A column may be called ``a.b``, which is the path of a part of ``a`` as well."""
    dotted = Column("a.b", t.LongType())
    nested = Column("a", t.StructType([t.StructField("b", t.LongType())]))
    schema = pa.schema([(c.name, arrow_type(c.data_type)) for c in (nested, dotted)])
    table = pa.Table.from_pylist([{"a": {"b": 9 - n}, "a.b": n} for n in range(9)], schema)
    files = ParquetFiles(*_written(tmp_path, [table]))
    found = seeks.rows_of(files, _selection([dotted], 1), (nested, dotted), _MOST)
    assert found is not None
    assert found.to_pylist() == [{"a": {"b": 8}, "a.b": 1}]


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        (t.DoubleType(), 1.0),
        (t.FloatType(), 1.0),
        (t.StringType("UTF8_LCASE"), "a"),
    ],
)
def test_keys_without_a_plain_order_are_for_spark(
    data_type: t.DataType, value: object, tmp_path: Path
) -> None:
    column = Column("key", data_type)
    table = pa.table({"key": pa.array([value], arrow_type(data_type))})
    files = ParquetFiles(*_written(tmp_path, [table]))
    assert seeks.rows_of(files, _selection([column], value), (column,), _MOST) is None


def test_files_that_are_gone_or_damaged_are_for_spark(tmp_path: Path) -> None:
    here, names = _written(tmp_path, [_numbers(0, 3), _numbers(3, 6)])
    known, unknown = ParquetFiles(here, names), ParquetFiles(here, names)
    keys, columns = _selection([_ID], 1, 4), (_ID, _TEXT)
    assert seeks.rows_of(known, keys, columns, _MOST) is not None
    second = tmp_path / names[1]
    second.write_bytes(second.read_bytes()[:4])
    assert seeks.rows_of(known, keys, columns, _MOST) is None
    assert seeks.rows_of(unknown, keys, columns, _MOST) is None
    second.unlink()
    assert seeks.rows_of(known, keys, columns, _MOST) is None
    assert seeks.rows_of(unknown, keys, columns, _MOST) is None


@pytest.mark.parametrize(
    "text", [{}, {"text": [[1]] * 3}, {"text": [1.5] * 3}], ids=["missing", "lists", "doubles"]
)
def test_files_with_other_columns_are_for_spark_or_damaged(
    tmp_path: Path, text: dict[str, Any]
) -> None:
    """If there is no Spark to ask, somebody has put them in the place of the table's."""
    others = pa.table({"id": pa.array(range(3), pa.int64()), **text})
    here, names = _written(tmp_path, [others])
    alone, columns = ParquetFiles(here, names, "t"), (_ID, Column("text", t.LongType()))
    for files in (ParquetFiles(here, names), alone):
        assert seeks.rows_of(files, _selection([_ID], 1), columns, _MOST) is None
    assert ParquetFiles(here, names).rows(columns) is None
    assert scans.reduced(ParquetFiles(here, names), columns, 1, lambda part: part) is None
    with pytest.raises(CorruptStoreError):
        alone.rows(columns)


def test_files_without_statistics_are_for_spark(tmp_path: Path) -> None:
    pq.write_table(_numbers(0, 3), tmp_path / "a.parquet", write_statistics=False)
    assert (
        seeks.rows_of(
            ParquetFiles(_here(tmp_path), ["a.parquet"]), _selection([_ID], 1), (_ID, _TEXT), _MOST
        )
        is None
    )


def test_more_rows_than_the_limit_are_for_spark_if_there_is_a_session(tmp_path: Path) -> None:
    """Without one nobody else reads them, and a seek reads no more than all rows."""
    files = ParquetFiles(*_written(tmp_path, [_numbers(0, 30)]))
    limits, columns = Limits(seek_rows=6), (_ID, _TEXT)
    few, many = _selection([_ID], 0, 4, limits=limits), _selection([_ID], 0, 4, 8, limits=limits)

    def in_a_session(keys: Selection) -> Selection:
        return replace(keys, engines=Engines(cast(Any, object()), limits))

    assert seeks.rows_of(files, in_a_session(few), columns, _MOST) is not None
    assert seeks.rows_of(files, in_a_session(many), columns, _MOST) is None
    rows = seeks.rows_of(files, many, columns, None)
    assert rows is not None
    assert rows.column("id").to_pylist() == [0, 4, 8]


# ---- the first rows of some keys

_VALUE = Column("value", t.LongType())
_VALUES = st.lists(
    st.tuples(st.integers(0, 4) | st.none(), st.integers(-20, 20), st.booleans()),
    min_size=1,
    max_size=60,
)


@given(
    rows=_VALUES,
    files=st.integers(1, 3),
    keys=st.lists(st.integers(-1, 5) | st.none(), min_size=1, unique=True),
    count=st.integers(1, 4),
    descending=st.booleans(),
    is_sorted=st.booleans(),
)
def test_the_first_rows_of_keys_are_those_of_a_filter(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[int | None, int, bool]],
    files: int,
    keys: list[int | None],
    count: int,
    descending: bool,
    is_sorted: bool,
) -> None:
    """However the rows are in files, and whichever of them do not count."""
    rows = sorted(set(rows), key=_in_order) if is_sorted else rows
    ids, values, alive = zip(*rows, strict=True)
    table = pa.table({"id": pa.array(ids, pa.int64()), "value": values, "alive": alive})
    ends = [n * len(table) // files for n in range(files + 1)]
    parts = [table.slice(start, end - start) for start, end in pairwise(ends)]
    written = _written(tmp_path_factory.mktemp("files"), parts)
    by = replace(_VALUE, descending=descending)
    columns = (_ID, _VALUE, Column("alive", t.BooleanType()))
    found = seeks.first_rows(
        ParquetFiles(*written),
        _selection([_ID], *keys),
        [by],
        count,
        columns,
        lambda t: np.asarray(t.column("alive")),
    )
    assert found is not None
    for key in keys:
        wanted = sorted((v for i, v, a in rows if i == key and a), reverse=descending)[:count]
        got = [row["value"] for row in found.to_pylist() if row["id"] == key]
        assert sorted(got, reverse=descending) == wanted


def test_few_row_groups_are_read_for_the_first_row_of_a_key_of_many(
    tmp_path: Path, groups_read: list[int]
) -> None:
    """Behind those that do not count only; of three keys, of which one has all but a few rows."""
    ids = pa.array([1] * 2 + [2] * 3_000 + [3] * 2)
    table = pa.table({"id": ids, "value": [*range(2), *range(3_000), *range(2)]})
    files = ParquetFiles(*_written(tmp_path, [table], group_rows=10))
    columns = (_ID, _VALUE)

    def alive(rows: pa.Table) -> Any:
        return np.asarray(rows.column("value")) >= 5

    found = seeks.first_rows(files, _selection([_ID], 2), [_VALUE], 1, columns, alive)
    assert found is not None
    assert found.to_pylist() == [{"id": 2, "value": 5}]
    assert sum(groups_read) <= 3
    groups_read.clear()
    last = replace(_VALUE, descending=True)
    found = seeks.first_rows(files, _selection([_ID], 2), [last], 2, columns, alive)
    assert found is not None
    assert found.to_pylist() == [{"id": 2, "value": 2_999}, {"id": 2, "value": 2_998}]
    assert sum(groups_read) <= 3


@given(
    rows=_VALUES,
    asked=st.lists(
        st.tuples(
            st.sampled_from(["pairs", "ids", "first", "last"]),
            st.lists(st.integers(-1, 5) | st.none(), min_size=1, unique=True),
            st.integers(0, 1),
        ),
        min_size=1,
        max_size=6,
    ),
    most=st.sampled_from([0, 5, neighbours.MOST]),
)
def test_held_neighbours_change_no_answer(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[int | None, int, bool]],
    asked: list[tuple[str, list[int | None], int]],
    most: int,
) -> None:
    """Whatever was looked up before, in the same files or in others, and however many are held.

    Of keys whose rows are all held, nothing is read.
    """
    ids, values, _ = zip(*sorted(set(rows), key=_in_order), strict=True)
    table = pa.table({"id": pa.array(ids, pa.int64()), "value": values})
    others = table.set_column(1, "value", pc.add(table.column("value"), 1))
    stores = [
        ParquetFiles(*_written(tmp_path_factory.mktemp("files"), parts))
        for parts in ([table], [others.slice(0, len(others) // 2), others.slice(len(others) // 2)])
    ]
    columns, held = (_ID, _VALUE), Neighbours([_ID])

    def answer(files: ParquetFiles, way: str, keys: list[int | None], known: Any) -> Any:
        if way in ("pairs", "ids"):
            found = _selection([_ID], *keys)
            if way == "pairs":
                found = _selection(columns, *((key, n) for key in keys for n in range(-20, 20, 3)))
            return seeks.rows_of(files, found, columns, None, neighbours=known)
        by = replace(_VALUE, descending=way == "last")
        every = _selection([_ID], *keys)
        return seeks.first_rows(
            files, every, [by], 2, columns, lambda t: np.ones(len(t), bool), known
        )

    with pytest.MonkeyPatch.context() as patch:
        for module in (neighbours, seeks):
            patch.setattr(module, "MOST", most)
        patch.setattr(parquet_files, "_SOUGHT_AT_A_TIME", 1)  # so that reading stops early
        read, whole = list[object](), ParquetFiles.read_groups
        patch.setattr(
            ParquetFiles,
            "read_groups",
            lambda *given, **named: [read.append(given), whole(*given, **named)][1],
        )
        for way, keys, number in asked:
            is_held = seeks.are_held(stores[number], _selection([_ID], *keys), held)
            read.clear()
            found = answer(stores[number], way, keys, held)
            assert not (is_held and read)
            wanted = answer(stores[number], way, keys, None)
            assert Counter(map(str, found.to_pylist())) == Counter(map(str, wanted.to_pylist()))


def test_neighbours_are_read_once(tmp_path: Path, groups_read: list[int]) -> None:
    """Of 300 groups, each in one row group, ten are changed and then read from both ends."""
    table = pa.table({"id": [n // 10 for n in range(3_000)], "value": range(3_000)})
    files = ParquetFiles(*_written(tmp_path, [table], group_rows=20))
    columns, held, ids = (_ID, _VALUE), Neighbours([_ID]), range(0, 300, 30)
    found = seeks.rows_of(
        files, _selection(columns, *((n, 10 * n + 5) for n in ids)), columns, None
    )
    assert found is not None
    once = sum(groups_read)
    assert once == len(ids)
    groups_read.clear()
    seeks.rows_of(
        files, _selection(columns, *((n, 10 * n + 5) for n in ids)), columns, None, neighbours=held
    )
    assert seeks.are_held(files, _selection([_ID], *ids), held)
    assert not seeks.are_held(files, _selection([_ID], *ids, 1), held)
    for descending in (False, True):
        by = replace(_VALUE, descending=descending)
        first = seeks.first_rows(
            files, _selection([_ID], *ids), [by], 1, columns, lambda t: np.ones(len(t), bool), held
        )
        assert first is not None
        ends = [10 * n + 9 * descending for n in ids]
        assert sorted(row["value"] for row in first.to_pylist()) == ends
    whole = seeks.rows_of(files, _selection([_ID], *ids), columns, None, neighbours=held)
    assert whole is not None
    assert len(whole) == 10 * len(ids)
    assert sum(groups_read) == once


def test_of_a_large_group_only_some_rows_are_held(tmp_path: Path) -> None:
    """Beside small ones: one value of each was looked up."""
    ids = [1, 2, 2, *[3] * 100, 4, 5]
    table = pa.table({"id": ids, "value": range(len(ids))})
    files = ParquetFiles(*_written(tmp_path, [table], group_rows=5))
    columns, held = (_ID, _VALUE), Neighbours([_ID])
    pairs = _selection(columns, (1, 0), (3, 50), (5, 104))
    assert seeks.rows_of(files, pairs, columns, None, neighbours=held) is not None
    assert seeks.are_held(files, _selection([_ID], 1, 5), held)
    assert not seeks.are_held(files, _selection([_ID], 1, 3, 5), held)


def test_neighbours_of_other_files_are_not_taken(tmp_path: Path) -> None:
    """As when a table is written between two look-ups: its new files have other rows."""
    columns, held = (_ID, _VALUE), Neighbours([_ID])
    for value in (1, 2):
        folder = tmp_path / str(value)
        folder.mkdir()
        files = ParquetFiles(*_written(folder, [pa.table({"id": [7], "value": [value]})]))
        found = seeks.rows_of(files, _selection([_ID], 7), columns, None, neighbours=held)
        assert found is not None
        assert found.to_pylist() == [{"id": 7, "value": value}]


def test_files_that_the_log_rules_out_are_not_opened(tmp_path: Path) -> None:
    """One is garbage, one has nulls alone, of one the log says nothing, and one is cut at a ms."""
    at = Column("at", t.TimestampType())
    moments = [datetime(2020, 1, day, 0, 0, 0, 999, tzinfo=UTC) for day in (1, 2, 3)]
    told = pa.table(
        {
            "num_records": pa.array([1, 2, None, 1], pa.int64()),
            "min": [{"at": moments[0]}, {"at": None}, {"at": None}, {"at": moments[2]}],
            "max": [
                {"at": moments[0].replace(microsecond=0)},
                *({"at": None}, {"at": None}, {"at": moments[2]}),
            ],
            "null_count": [{"at": 0}, {"at": 2}, {"at": None}, {"at": 0}],
        }
    )
    tables = [
        pa.table({"at": pa.array(some, pa.timestamp("us", "UTC"))})
        for some in ([moments[0]], [None, None], [moments[1]], [moments[2]])
    ]
    here, names = _written(tmp_path, tables)
    (tmp_path / names[3]).write_bytes(b"garbage")
    (tmp_path / names[1]).write_bytes(b"garbage")
    files = ParquetFiles(here, names, ranges=FileRanges(told, 4))
    sought = _selection([at], moments[0], moments[1])
    assert FileRanges(told, 4).holding(sought).tolist() == [True, False, True, False]
    micros = [int(moment.timestamp()) * 1_000_000 + 999 for moment in moments]
    for moment, number in zip(moments[:2], micros[:2], strict=True):
        values = Ranges(((number, number),))
        within = seeks.rows_in_ranges(files, at, values, [at], _MOST)
        assert within is not None
        assert within.column("at").to_pylist() == [moment]
    assert seeks.count_within(files, at, Ranges(((micros[2] - 999, micros[2] + 10**9),))) == 1
    assert seeks.rows_in_ranges(files, at, Ranges(((micros[2], micros[2]),)), [at], _MOST) is None


def test_a_table_is_sought_by_the_column_that_it_is_sorted_by(
    tmp_path: Path, groups_read: list[int]
) -> None:
    """Which is the second of the key; and a group of nulls alone takes no range away."""
    rows = [{"id": id, "place": place} for place in (None, 1, 2, 3, 4) for id in range(6)]
    schema = pa.schema([("id", pa.int64()), ("place", pa.int32())])
    files = ParquetFiles(*_written(tmp_path, [pa.Table.from_pylist(rows, schema)], group_rows=3))
    found = seeks.rows_of(files, _selection([_ID, _PLACE], (0, 2), (5, 4)), (_ID, _PLACE), _MOST)
    assert found is not None
    assert found.to_pylist() == [{"id": 0, "place": 2}, {"id": 5, "place": 4}]
    assert sum(groups_read) == 2
