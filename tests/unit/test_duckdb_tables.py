"""Tables of a DuckDB file beside rows of a stage: all types, and random rows with differences."""

import math
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from matched_tables import assert_matched, cases, compare

from deltaproduce.projects.dbt.target import duckdb_tables
from deltaproduce.projects.dbt.target.duckdb_tables import DuckDBTable, connected
from deltaproduce.sync.comparing.tables import UnreadableTableError

KINDS: dict[str, tuple[str, pa.DataType, st.SearchStrategy]] = {
    "whole": ("BIGINT", pa.int64(), st.integers(-3, 3)),
    "sum": ("HUGEINT", pa.int64(), st.sampled_from([0, 2**62, -1])),
    "small": ("UTINYINT", pa.int32(), st.integers(0, 3)),
    "exact": ("DECIMAL(18,3)", pa.decimal128(20, 4), st.integers(-9, 9).map(Decimal)),
    "double": ("DOUBLE", pa.float64(), st.sampled_from([0.1, 1 / 3, -1e300, math.inf, math.nan])),
    "single": ("FLOAT", pa.float64(), st.sampled_from([0.1, 2.5])),
    "text": ("VARCHAR", pa.string(), st.sampled_from(["", "a", 'é",\n', "\\N", " "])),
    "sort": ("ENUM('a', 'b')", pa.string(), st.sampled_from(["a", "b"])),
    "flag": ("BOOLEAN", pa.bool_(), st.booleans()),
    "day": ("DATE", pa.date32(), st.dates(date(1800, 1, 1), date(2200, 1, 1))),
    "moment": (
        "TIMESTAMPTZ",
        pa.timestamp("us", "UTC"),
        st.datetimes(datetime(1950, 1, 1), timezones=st.just(UTC)),
    ),
    "clock": ("TIMESTAMP", pa.timestamp("us", "UTC"), st.datetimes(datetime(1950, 1, 1))),
    "second": (
        "TIMESTAMP_S",
        pa.timestamp("us", "UTC"),
        st.integers(0, 9).map(lambda n: datetime(2026, 1, 1, 0, 0, n)),
    ),
    "bytes": ("BLOB", pa.binary(), st.sampled_from([b"", b"\0\xff", b"abc"])),
    "list": ("BIGINT[]", pa.list_(pa.int32()), st.lists(st.none() | st.integers(0, 2), max_size=3)),
    "array": (
        "DOUBLE[2]",
        pa.list_(pa.float64()),
        st.lists(st.sampled_from([0.1, 2]), min_size=2, max_size=2),
    ),
    "struct": (
        "STRUCT(a INTEGER, b VARCHAR)",
        pa.struct({"a": pa.int64(), "b": pa.string()}),
        st.fixed_dictionaries({"a": st.none() | st.integers(0, 1), "b": st.sampled_from("xy")}),
    ),
    "map": (
        "MAP(VARCHAR, INTEGER)",
        pa.map_(pa.string(), pa.int64()),
        st.dictionaries(st.sampled_from("xy"), st.integers(0, 1)),
    ),
    "uuid": ("UUID", pa.string(), st.sampled_from([uuid.UUID(int=n) for n in range(2)])),
    "time": ("TIME", pa.string(), st.sampled_from(["12:30:00", "00:00:00"])),
}


def in_arrow(value: Any) -> Any:
    match value:
        case uuid.UUID():
            return str(value)
    return value


def here(kinds: list[str], rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = []
    for place, kind in enumerate(kinds):
        values = [in_arrow(row[place]) for row in rows]
        if kind == "map":
            values = [None if value is None else [*value.items()] for value in values]
        columns.append(pa.array(values, KINDS[kind][1]))
    return pa.table(columns, kinds)


@contextmanager
def table(path: Path, kinds: list[str], rows: list[tuple[Any, ...]]) -> Iterator[DuckDBTable]:
    path.unlink(missing_ok=True)
    columns = ", ".join(f'"{kind}" {KINDS[kind][0]}' for kind in kinds)
    marks = ", ".join("?" for _ in kinds)
    with duckdb.connect(path) as connection:
        connection.execute("SET TimeZone = 'Asia/Tokyo'")
        connection.execute(f"CREATE SCHEMA s; CREATE TABLE s.there ({columns})")
        for row in rows:
            connection.execute(f"INSERT INTO s.there VALUES ({marks})", row)
    with connected(str(path)) as connection:
        yield DuckDBTable(connection, ("s", "there"))


@settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(cases(KINDS))
def test_rows_are_matched_as_multisets(tmp_path: Path, case: Any) -> None:
    """Of random rows of all types, those are equal that a Counter says are."""
    kinds, rows, ours = case

    def said(row: tuple[Any, ...]) -> str:
        return repr([sorted(part.items()) if isinstance(part, dict) else part for part in row])

    with table(tmp_path / "t.duckdb", kinds, rows) as other:
        assert_matched(compare(here(kinds, ours), other), rows, ours, said)


def test_a_table_of_many_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_tables, "PART_ROWS", 2048)
    rows = pa.table({"n": range(10_000)})
    with duckdb.connect(tmp_path / "t.duckdb") as connection:
        connection.execute("CREATE TABLE t AS SELECT range AS n FROM range(1, 10001)")
    with connected(str(tmp_path / "t.duckdb")) as connection:
        other = DuckDBTable(connection, ("main", "t"))
        assert len([*other.parts(["n"])]) > 2
        result = compare(rows, other)
    assert (result.equal, result.only_there, result.only_here) == (9_999, 1, 1)


def test_what_cannot_be_read_is_a_problem_of_its_table_alone(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "t.duckdb") as connection:
        connection.execute("CREATE TABLE v AS SELECT 'x' AS n")
        connection.execute("CREATE VIEW failing AS SELECT CAST(n AS INTEGER) AS n FROM v")
        connection.execute("CREATE TABLE gone AS SELECT 1 AS n; CREATE VIEW broken AS FROM gone")
        connection.execute("DROP TABLE gone")
    with connected(str(tmp_path / "t.duckdb")) as connection:

        def problem(name: str) -> str:
            rows = pa.table({"n": pa.array(["x"] if name == "v" else [1])})
            return compare(rows, DuckDBTable(connection, ("main", name))).problem

        assert problem("missing") == "there is no table main.missing there"
        assert "Conversion Error" in problem("failing")
        assert "gone" in problem("broken")
        assert not problem("v")


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "t.duckdb").write_bytes(b"x" * 5000)
    with (
        pytest.raises(UnreadableTableError, match="cannot be opened by duckdb"),
        connected(str(tmp_path / "t.duckdb")),
    ):
        pass


def test_a_file_that_another_process_writes(tmp_path: Path) -> None:
    """It cannot be read, and while it is read nobody can write it."""
    path = str(tmp_path / "t.duckdb")
    duckdb.connect(path).close()
    script = f"import duckdb; kept = duckdb.connect({path!r}); print('open', flush=True); input()"
    writer = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        with pytest.raises(UnreadableTableError, match="lock"), connected(path):
            pass
        writer.communicate(b"\n")
    with connected(path):
        second = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
        assert b"lock" in second.stderr
