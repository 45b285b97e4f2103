"""Projects of dbt beside dbt itself: after each change, both make the same tables.

dbt runs in an environment of its own, with the versions of the extra `dbt`: its dependencies are
older than those of the tests.
"""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import deltaproduce as dp

Call = Callable[..., Any]
Edit = tuple[str, str, str]
"""A file of a project, a text in it, and what comes in its place."""

PROJECTS = Path(__file__).parent / "dbt_projects"
PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
DATABASE = """
import json, sys, duckdb
with duckdb.connect(sys.argv[1], read_only=True) as connection:
    tables = connection.sql(
        "SELECT table_schema, table_name FROM information_schema.tables"
    ).fetchall()
    made = {}
    for schema, name in tables:
        found = connection.sql(f'SELECT * FROM "{schema}"."{name}"')
        rows = [[repr(value) if isinstance(value, float) else value for value in row]
                for row in found.fetchall()]
        made[f"{schema}.{name}"] = [found.columns, rows]
    print(json.dumps(made, default=str))
"""

SHOP_EDITS: list[list[Edit]] = [
    [("seeds/payments.csv", "104,y,0.05\n", "104,y,7.25\n")],
    [("seeds/orders.csv", "102,1,2024-03-31T23:59:59,shipped\n", "")],
    [("seeds/customers.csv", "1,", "7,")],
    [
        (
            "seeds/customer_history.csv",
            "1,Ann,2024-01-01",
            "3,Cy,2024-01-15 08:00:00.25,\n1,Anna,2024-02-01",
        )
    ],
    [
        ("seeds/customer_history.csv", "2,Bo,2024-01-01 00:00:00,\n", ""),
        ("seeds/customer_history.csv", "1,Anna,2024-02-01", "1,Anna,2024-03-01"),
    ],
    [
        (
            "seeds/customer_history.csv",
            "3,Cy,2024-01-15",
            "2,Bob,2024-03-05 00:00:00.000001,\n3,Cy,2024-04-01",
        )
    ],
    [("models/marts/large.sql", "where p.total >= {{ var('least') }}", "where p.total < 100")],
]
TRAITS_EDITS: list[list[Edit]] = [
    [("seeds/visits.csv", "11,1,2024-01-03,,1.25", "11,1,2024-01-09,web,")],
    [("seeds/visits.csv", "13,3,2024-01-05,shop,2\n", ""), ("seeds/people.csv", "3;;b;1;\n", "")],
    [("seeds/people.csv", "5;;b;2;", "5;2024-02-01 00:00:00;;2;late\n6;;;;")],
    [("models/latest.sql", "qualify place = 1", "qualify place <= 2")],
    [("models/group.sql", "left join", "inner join"), ("seeds/visits.csv", "14,9,", "14,5,")],
]
SCHEMAS = {"shop": {"main_raw.customers": "main_raw_customers"}, "traits": {}}
"""Table of dbt -> its stage, where that has another name."""
LEFT_OUT = {"names_checked", "names_gone", "names_of_models"}
"""Tables that are not carried over: snapshots of models, or with times of dbt's runs."""


@pytest.fixture(scope="session")
def dbt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command `dbt`, in an environment of its own, or where DELTAPRODUCE_DBT says."""
    if named := os.environ.get("DELTAPRODUCE_DBT"):
        return Path(named)
    pinned = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]["dbt"]
    place = tmp_path_factory.mktemp("dbt")
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    subprocess.run([place / "bin/pip", "install", "--quiet", *pinned], check=True)
    return place / "bin/dbt"


def built(dbt: Path, project: Path) -> dict[str, tuple[list[str], Counter]]:
    """The tables that dbt makes of a project from nothing: their columns and rows."""
    environment = {**os.environ, "DO_NOT_TRACK": "1", "DBT_PROFILES_DIR": str(project)}
    for command in ("seed", "build"):  # a source may be the table of a seed
        done = subprocess.run(
            [dbt, "--no-use-colors", command, "--full-refresh"],
            cwd=project,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout
    database = next(project.glob("*.duckdb"))
    text = subprocess.run(
        [dbt.parent / "python", "-c", DATABASE, database], check=True, capture_output=True
    ).stdout
    return {
        table: (columns, Counter(tuple(map(told, row)) for row in rows))
        for table, (columns, rows) in json.loads(text).items()
    }


def told(value: Any) -> Any:
    """A value in one form for both: numbers by their value, times as text."""
    match value:
        case bool() | None:
            return value
        case int() | float() | Decimal():
            return round(float(value), 9)
        case datetime():
            return str(value.replace(tzinfo=None))
        case date():
            return str(value)
    try:
        return round(float(value), 9)  # decimals and floats of DuckDB are texts in JSON
    except ValueError:
        return str(value)


def own_name(column: str) -> str:
    """The name that a column of dbt has here."""
    return column.lstrip("_") + "_" * (len(column) - len(column.lstrip("_")))


def assert_same(project: Path, ours: Path, tables: dict[str, tuple[list[str], Counter]]) -> None:
    store = dp.open(ours / "lake")
    for table, (columns, rows) in tables.items():
        stage = SCHEMAS[project.name].get(table, table.split(".")[1])
        if stage in LEFT_OUT:
            continue
        content = store.content(stage)
        names = [own_name(column) for column in columns]
        assert [one for one in content.column_names if not one.startswith("_")] == names or {
            one for one in content.column_names if not one.startswith("_")
        } == {*names}, table
        own = zip(*(content.column(name).to_pylist() for name in names), strict=True)
        assert Counter(tuple(map(told, row)) for row in own) == rows, table


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "edits"),
    [("shop", SHOP_EDITS), ("traits", TRAITS_EDITS)],
)
def test_after_each_change_the_tables_are_those_of_dbt(
    dbt: Path, call: Call, tmp_path: Path, name: str, edits: Sequence[Sequence[Edit]]
) -> None:
    """A changed seed, a deleted row, a new row and a changed model: each `run` equals a build."""
    project, ours = shutil.copytree(PROJECTS / name, tmp_path / name), tmp_path / "ours"
    shutil.rmtree(project / "target", ignore_errors=True)
    tables = built(dbt, project)
    call("init", ours, "--from-dbt", project)
    call("run", "--project-dir", ours, "--as-of", date.today())
    assert_same(project, ours, tables)
    for number, edit in enumerate(edits):
        for file, before, after in edit:
            text = (project / file).read_text()
            assert before in text, (file, before)
            (project / file).write_text(text.replace(before, after))
        before_tables, tables = tables, built(dbt, project)
        changed = {name for name in tables if tables[name] != before_tables[name]}
        assert changed - {f"main_history.{name}" for name in LEFT_OUT}, edit
        new = tmp_path / f"new_{number}"
        call("init", new, "--from-dbt", project)
        for stage in (new / "stages").iterdir():  # only those whose model is edited differ
            shutil.copy(stage, ours / "stages" / stage.name)
        call("run", "--project-dir", ours)
        assert_same(project, ours, tables)
