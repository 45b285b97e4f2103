"""Rows of dbt's unit tests as Python values, as DuckDB casts them; and as text."""

import ast
import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from deltaproduce.errors import DefinitionError
from deltaproduce.projects.dbt.testing.fixtures import fixture_rows
from deltaproduce.projects.dbt.testing.pytest_text import UnitTest, module_text
from deltaproduce.types.columns import Column
from deltaproduce.types.ddl import struct_from_ddl

TEXTS = ["1", "-2", " 7 ", "2.5", "0.05", "1e3", "0", "true", "False", "t", "2024-02-29"]
TEXTS += ["2024-01-31 10:00:00", "2024-01-31T10:00:00.25", "2024-01-31 10:00:00+02:00", "", "word"]
WRITTEN: list[Any] = [*TEXTS, 1, 0, -3, 2.5, True, False, None]
TYPES = {
    "string": "varchar",
    "boolean": "boolean",
    "int": "integer",
    "bigint": "bigint",
    "decimal(12,2)": "decimal(12,2)",
    "double": "double",
    "date": "date",
    "timestamp": "timestamp",
}


def columns(ddl: str) -> list[Column]:
    return [Column(field.name, field.dataType) for field in struct_from_ddl(ddl).fields]


def taken(value: Any, kind: str) -> Any:
    """The value of a fixture in a column of a type."""
    return fixture_rows({"rows": [{"a": value}]}, columns(f"a {kind}"), "duckdb")[0]["a"]


@pytest.mark.parametrize("kind", TYPES)
def test_values_are_those_of_duckdb_s_cast(kind: str) -> None:
    count = 0
    for value in WRITTEN:
        try:
            own = taken(value, kind)
        except DefinitionError:
            continue
        count += 1
        literal = "NULL" if value is None else repr(value)
        (expected,) = duckdb.sql(f"SELECT CAST({literal} AS {TYPES[kind]})").fetchone() or ()
        assert own == expected, (kind, value)
        assert type(own) is type(expected), (kind, value)
    assert count >= 4


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        *(("2.5", "int"), ("word", "int"), (True, "int"), ("", "int"), ("0.005", "decimal(12,2)")),
        *(("word", "boolean"), ("2024-02-30", "date"), ("word", "timestamp"), ([1], "int")),
        ("2024-01-31 10:00:00+02:00", "timestamp"),
        *(({"x": 1}, "struct<x: int>"), ("[1]", "array<int>"), ("x", "binary")),
    ],
)
def test_what_is_no_value_of_the_column_is_refused(value: Any, kind: str) -> None:
    with pytest.raises(DefinitionError, match="column 'a' is of type"):
        taken(value, kind)


def test_names_are_found_without_regard_to_case() -> None:
    own = fixture_rows({"rows": [{"ID": 1, "_at": "x"}, {}]}, columns("id int, at_ string"), "")
    assert own == [{"id": 1, "at_": "x"}, {}]
    assert taken([1, None, "2"], "array<int>") == [1, None, 2]
    with pytest.raises(DefinitionError, match=r"'idd'.*'id'"):
        fixture_rows({"rows": [{"idd": 1}]}, columns("id int"), "duckdb")


def test_csv_that_the_manifest_has_as_text() -> None:
    text = "\nid,name\n1,Ann\n2,\n"
    own = fixture_rows({"format": "csv", "rows": text}, columns("id int, name string"), "duckdb")
    assert own == [{"id": 1, "name": "Ann"}, {"id": 2, "name": None}]


CONSTANTS = [
    "select 1 as id, 'a' as name, 2.50 as amount",
    "select 1 as id, null as name, -0.5 as amount union all select 2, 'b', (3)",
    "(select cast('7' as integer) as id) union all (select 8) union all select 9",
    "select date '2024-02-29' as day, '2024-02-29 10:00:00'::timestamp as moment, true as yes",
]


@pytest.mark.parametrize("text", CONSTANTS)
def test_selects_of_constants_are_the_rows_of_duckdb(text: str) -> None:
    ddl = "id int, name string, amount double, day date, moment timestamp, yes boolean"
    own = fixture_rows({"format": "sql", "rows": text}, columns(ddl), "duckdb")
    relation = duckdb.sql(text)
    rows = relation.fetchall()
    assert own == [dict(zip(relation.columns, row, strict=True)) for row in rows]


@pytest.mark.parametrize(
    "text",
    [
        "select 1 as id union select 1",
        "select * from names",
        "select 1 as id where false",
        "select 1 + 1 as id",
        "select now() as id",
        "with a as (select 1 as id) select 2 as id",
        "select 1 as id union all select 2 order by 1",
        "select 1 as id union all select 2 limit 1",
        "select unnest([1, 2]) as id",
        "select 1",
        "select 1 as id union all select 1, 2",
        "select 1 as id from",
    ],
)
def test_other_queries_are_refused(text: str) -> None:
    with pytest.raises(DefinitionError):
        fixture_rows({"format": "sql", "rows": text}, columns("id int"), "duckdb")


def test_rows_that_the_manifest_lacks_are_refused() -> None:
    with pytest.raises(DefinitionError, match="manifest"):
        fixture_rows({"rows": None, "fixture": "names"}, columns("id int"), "duckdb")


ROWS: list[dict[str, Any]] = [
    {"a": 'say "\\" ü\n', "b": None, "c": True, "d": -1, "e": Decimal("2.50")},
    {"a": date(2024, 1, 2), "b": datetime(2024, 1, 2, 3, 4, 5, 6), "c": [1, None], "d": 1e300},
    {"a": math.inf, "b": -math.inf, "c": "x" * 120, "d": "{}", "e": []},
]


@pytest.mark.parametrize(
    "description",
    ["", "A plain one.", 'It says "yes"', '"""', "two\n\n  lines\\", 'ends in \\"', "\\"],
)
def test_the_text_is_python_with_the_same_rows(description: str) -> None:
    """The module is run with a function in place of `check_stage`, which gets what was written."""
    test = UnitTest("test_it", description, 'it\'s "x"', {"one": ROWS, "two": []}, ROWS[:1])
    text = module_text("x", [test, UnitTest("test_none", "", "y", {}, [])])
    assert all(len(line) <= 100 or "xxx" in line for line in text.splitlines())
    assert "two" in text
    tree = ast.parse(text)
    calls = list[tuple[Any, ...]]()
    names: dict[str, Any] = {"__file__": __file__, "check_stage": lambda *args: calls.append(args)}
    own = [node for node in tree.body if not isinstance(node, ast.Assign)]
    own = [node for node in own if "deltaproduce" not in ast.unparse(node).split("\n")[0][:24]]
    names["PIPELINE"] = "pipeline"
    exec(compile(ast.Module(own, []), "text", "exec"), names)
    names["test_it"]()
    names["test_none"]()
    assert calls == [
        ("pipeline", test.stage, test.given, test.expected),
        ("pipeline", "y", {}, []),
    ]
    said = names["test_it"].__doc__ or ""
    assert said.split() == description.split()
