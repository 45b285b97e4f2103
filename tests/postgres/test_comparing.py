"""Tables of PostgreSQL beside rows of a stage: all types, and random rows with differences."""

import json
import math
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from matched_tables import assert_matched, cases, compare
from typer.testing import CliRunner

from deltaproduce.cli.app import application
from deltaproduce.postgres import reading as of_postgres
from deltaproduce.postgres.reading import PostgresTable, reading
from deltaproduce.sync.comparing.tables import UnreadableTableError

SHOP = Path(__file__).parents[1] / "cli/dbt_projects/shop"
STAGES = ("customers", "days", "labelled", "large", "order", "payment_totals", "stg_orders")

KINDS: dict[str, tuple[str, pa.DataType, st.SearchStrategy]] = {
    "whole": ("bigint", pa.int64(), st.integers(-3, 3)),
    "small": ("smallint", pa.int32(), st.integers(-3, 3)),
    "exact": ("numeric(12,2)", pa.decimal128(20, 4), st.integers(-9, 9).map(Decimal)),
    "sum": (
        "numeric",
        pa.decimal128(38, 6),
        st.sampled_from(["0", "1.5", "-0.000001", "123456789012345678901.25"]).map(Decimal),
    ),
    "double": (
        "double precision",
        pa.float64(),
        st.sampled_from([0.1, 1 / 3, -1e300, math.inf, math.nan]),
    ),
    "single": ("real", pa.float64(), st.sampled_from([0.1, 2.5])),
    "text": ("text", pa.string(), st.sampled_from(["", "a", 'é",\n', "\\N", " "])),
    "short": ("varchar(9)", pa.string(), st.sampled_from(["", "a"])),
    "flag": ("boolean", pa.bool_(), st.booleans()),
    "day": ("date", pa.date32(), st.dates(date(1800, 1, 1), date(2200, 1, 1))),
    "moment": (
        "timestamp with time zone",
        pa.timestamp("us", "UTC"),
        st.datetimes(datetime(1950, 1, 1), timezones=st.just(UTC)),
    ),
    "clock": (
        "timestamp",
        pa.timestamp("us", "UTC"),
        st.datetimes(datetime(1950, 1, 1)),
    ),
    "bytes": ("bytea", pa.binary(), st.sampled_from([b"", b"\0\xff", b"abc"])),
    "list": ("bigint[]", pa.list_(pa.int64()), st.lists(st.none() | st.integers(0, 2), max_size=3)),
    "texts": ("text[]", pa.list_(pa.string()), st.lists(st.sampled_from(["", 'a"\n']), max_size=2)),
    "uuid": ("uuid", pa.string(), st.sampled_from([uuid.UUID(int=n) for n in range(2)])),
}


def here(kinds: list[str], rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = [
        pa.array([str(v) if isinstance(v, uuid.UUID) else v for v in values], KINDS[kind][1])
        for kind, values in zip(
            kinds, zip(*rows, strict=True) if rows else [[]] * len(kinds), strict=True
        )
    ]
    return pa.table(columns, kinds)


@contextmanager
def table(address: str, kinds: list[str], rows: list[tuple[Any, ...]]) -> Iterator[PostgresTable]:
    columns = ", ".join(f'"{kind}" {KINDS[kind][0]}' for kind in kinds)
    marks = ", ".join(["%s"] * len(kinds))
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET TimeZone = 'Asia/Tokyo'")
        connection.execute("DROP TABLE IF EXISTS public.there")
        connection.execute(f"CREATE TABLE public.there ({columns})")
        with connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO public.there VALUES ({marks})", rows)
    with reading(address) as reader:
        yield PostgresTable(reader, ("public", "there"))


@settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(cases(KINDS))
def test_rows_are_matched_as_multisets(address: str, case: Any) -> None:
    """Of random rows of all types, those are equal that a Counter says are."""
    kinds, rows, ours = case
    with table(address, kinds, rows) as other:
        assert_matched(compare(here(kinds, ours), other), rows, ours)


def test_changed_rows_are_found_by_key(address: str) -> None:
    rows = [(n, f"name {n}") for n in range(1000)]
    mine = [*rows[:500], (500, "other"), *rows[502:], (2000, "new")]
    with table(address, ["whole", "text"], rows) as other:
        result = compare(here(["whole", "text"], mine), other, ("whole",))
    assert {(row.key["whole"], row.sort) for row in result.sample} == {
        (500, "changed"),
        (501, "only_there"),
        (2000, "only_here"),
    }
    (row,) = (row for row in result.sample if row.sort == "changed")
    assert (row.there, row.here) == ({"text": "name 500"}, {"text": "other"})
    assert result.equal == 998


def test_lines_in_texts_do_not_end_rows_where_parts_end(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_postgres, "_PART_BYTES", 1 << 10)
    rows = [(n, "\n" * (n % 40)) for n in range(2000)]
    with table(address, ["whole", "text"], rows) as other:
        assert len([*other.parts(["whole", "text"])]) > 10
        assert compare(here(["whole", "text"], rows), other).equal == 2000


def test_what_cannot_be_read_is_a_problem_of_its_table_alone(address: str) -> None:
    """A table that is missing, a value that no form holds, a view that fails: the next is read."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TABLE far AS SELECT 'infinity'::timestamp AS moment")
        connection.execute("CREATE TABLE v AS SELECT 0 AS n")
        connection.execute("CREATE VIEW failing AS SELECT (1 / n)::bigint AS whole FROM v")
    rows = here(["whole"], [(1,)])
    with reading(address) as reader:

        def problem(name: str, rows: pa.Table = rows) -> str:
            return compare(rows, PostgresTable(reader, ("public", name))).problem

        assert "no table public.missing" in problem("missing")
        assert "division by zero" in problem("failing")
        assert "infinity" in problem("far", here(["moment"], [(datetime(2026, 1, 1, tzinfo=UTC),)]))
        assert not problem("v", pa.table({"n": [0]}))


def test_other_types_are_read_as_text_and_endless_numerics_as_doubles(address: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "CREATE DOMAIN cents AS numeric(10,2); CREATE TYPE mood AS ENUM ('ok', 'sad'); "
            "CREATE TABLE odd AS SELECT 'NaN'::numeric AS n, '12:30'::time AS t, 1.5::cents AS c, "
            "'sad'::mood AS m, '{\"a\": 1}'::jsonb AS j, 12e80::numeric AS big, null::numeric AS u"
        )
    rows = pa.table(
        {
            "n": [math.nan],
            "t": ["12:30:00"],
            "c": pa.array([Decimal("1.5")]),
            "m": ["sad"],
            "j": ['{"a": 1}'],
            "big": [12e80],
            "u": pa.array([None], pa.decimal128(10, 2)),
        }
    )
    with reading(address) as reader:
        result = compare(rows, PostgresTable(reader, ("public", "odd")))
    assert (result.problem, result.equal) == ("", 1)
    assert not result.differs


def test_all_tables_are_read_in_one_state(address: str) -> None:
    """Rows that others commit meanwhile are in none of them."""
    with table(address, ["whole"], [(1,), (2,)]) as other:
        assert len(pa.concat_tables(other.parts(["whole"]))) == 2
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("INSERT INTO public.there VALUES (3)")
        assert len(pa.concat_tables(other.parts(["whole"]))) == 2


def test_a_server_that_is_not_reached(address: str) -> None:
    with pytest.raises(UnreadableTableError, match="not reached"), reading("host=/nowhere"):
        pass


def test_the_command_compares_a_project(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync of the stages stands in for dbt: tables of the same names, in the schema of dbt."""

    def called(*args: object, code: int = 0) -> str:
        arguments = [str(one) for one in args]
        result = CliRunner().invoke(application(arguments), arguments)
        assert result.exit_code == code, (args, result.output, result.exception)
        return result.stdout

    shutil.copytree(SHOP, tmp_path / "shop")
    called("init", tmp_path / "ours", "--from-dbt", tmp_path / "shop")
    monkeypatch.chdir(tmp_path / "ours")
    called("run")
    called("sync", "--to", address, "--schema", "main", *STAGES)
    selected = [word for stage in STAGES for word in ("--select", stage)]
    answer = json.loads(called("compare", "--with", address, *selected, "--json"))
    assert {one["stage"] for one in answer["tables"]} == {*STAGES}
    assert answer["equal"], answer
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "DELETE FROM main.order WHERE ctid IN (SELECT ctid FROM main.order LIMIT 1)"
        )
        connection.execute("DROP TABLE main.days")
    answer = json.loads(called("compare", "--with", address, *selected, "--json", code=1))
    tables = {one["stage"]: one for one in answer["tables"]}
    assert tables["order"]["only_here"] == 1
    assert "main.days" in tables["days"]["problem"]
    assert tables["customers"]["equal"] == tables["customers"]["rows_here"]
