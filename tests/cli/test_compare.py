"""`deltaproduce compare`: a project beside the tables of dbt, in a DuckDB file."""

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest
from calling import called, forgotten_modules
from psycopg.conninfo import conninfo_to_dict

import deltaproduce as dp
from deltaproduce.projects.dbt.target.databases import is_postgres, shown_address
from deltaproduce.projects.dbt.target.profiles import address_of

Call = Callable[..., Any]
SHOP = Path(__file__).parent / "dbt_projects/shop"
KEPT = {
    "main_raw.customers": "main_raw_customers",
    "main_raw.orders": "orders",
    "main_raw.payments": "payments",
    "main_raw.customer_history": "customer_history",
    "main.customers": "customers",
    "main.days": "days",
    "main.labelled": "labelled",
    "main.large": "large",
    "main.order": "order",
    "main.payment_totals": "payment_totals",
    "main.stg_customers": "stg_customers",
    "main.renamed": "renamed",
    "main.stg_orders": "stg_orders",
    "main_history.name_states": "name_states",
    "main_history.names": "names",
}
"""Table of dbt -> its stage."""
LEFT_OUT = [f"main_history.names_{how}" for how in ("checked", "gone", "of_models")]
"""Tables of snapshots that are not carried over."""


@contextmanager
def database(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect(str(path))
    try:
        yield connection
    finally:
        connection.close()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project that the dbt project `shop` becomes, after a run, beside equal tables of dbt."""
    folder = tmp_path_factory.mktemp("both")
    shutil.copytree(SHOP, folder / "shop")
    with forgotten_modules():
        called("init", folder / "ours", "--from-dbt", folder / "shop")
        called("run", "--project-dir", folder / "ours")
    store = dp.open(folder / "ours/lake")
    with database(folder / "shop/shop.duckdb") as connection:
        for table, stage in KEPT.items():
            schema, name = table.split(".")
            connection.register("rows_here", store.content(stage))
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            connection.execute(
                f'CREATE TABLE {schema}."{name}" AS FROM rows_here ORDER BY random()'
            )
            connection.unregister("rows_here")
    return folder


@pytest.fixture
def shop(both: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of both; the project is the current directory."""
    folder = Path(shutil.copytree(both, tmp_path / "both"))
    monkeypatch.chdir(folder / "ours")
    return folder


def test_equal_tables(shop: Path, asked: Callable[..., Any], call: Call) -> None:
    answer = asked("compare")
    assert {*answer} == {"database", "version", "equal", "tables", "missing"}
    assert answer["equal"] is True
    assert {one["table"]: one["stage"] for one in answer["tables"]} == KEPT
    for one in answer["tables"]:
        assert one["rows_there"] == one["rows_here"] == one["equal"], one
        assert [one[name] for name in ("columns", "sample", "problem")] == [[], [], ""], one
    assert answer["database"].endswith("shop.duckdb")
    said = call("compare").output
    assert f"all {len(KEPT)} tables are equal" in said
    assert "`deltaproduce compare`" in Path("FROM_DBT.md").read_text()


def test_each_difference_is_listed(shop: Path, asked: Callable[..., Any], call: Call) -> None:
    """Of the table that differs its rows, and of every other one that it is equal."""
    with database(shop / "shop/shop.duckdb") as connection:
        connection.execute("UPDATE main.customers SET name = 'Zoe' WHERE customer_id = 1")
        connection.execute("DELETE FROM main.customers WHERE customer_id = 2")
        connection.execute(
            "INSERT INTO main.customers BY NAME "
            "SELECT * REPLACE (77 AS customer_id) FROM main.customers WHERE customer_id = 1"
        )
        connection.execute("ALTER TABLE main.large ADD COLUMN more INTEGER")
        connection.execute("ALTER TABLE main_raw.payments ALTER amount TYPE VARCHAR")
        connection.execute("DROP TABLE main.days")
        connection.execute("INSERT INTO main.labelled FROM main.labelled LIMIT 1")
    answer = asked("compare", code=1)
    assert answer["equal"] is False
    tables = {one["stage"]: one for one in answer["tables"]}
    customers = tables["customers"]
    counts = ("changed", "only_there", "only_here")
    assert [customers[name] for name in counts] == [1, 1, 1]
    rows = {one["key"]["customer_id"]: one for one in customers["sample"]}
    assert (rows[1]["difference"], rows[1]["there"]) == ("changed", {"name": "Zoe"})
    assert {*rows[1]["here"]} == {"name"}
    assert [rows[key]["difference"] for key in (2, 77)] == ["only_here", "only_there"]
    assert tables["large"]["columns"] == [
        {"column": "more", "there": "integer", "here": None, "compared": False}
    ]
    (amount,) = tables["payments"]["columns"]
    assert (amount["column"], amount["there"], amount["compared"]) == ("amount", "varchar", False)
    assert "no table main.days" in tables["days"]["problem"]
    assert tables["labelled"]["only_there"] == 1
    differing = {"customers", "large", "payments", "days", "labelled"}
    for stage in {*tables} - differing:
        assert tables[stage]["equal"] == tables[stage]["rows_here"], stage
    said = call("compare", code=1).output
    assert re.search(r"changed +customer_id=1 +name='Zoe' +name=", said)
    assert "days: there is no table main.days there" in said
    assert f"{len(differing)} of {len(KEPT)} tables differ" in said


def test_stages_are_selected(shop: Path, asked: Callable[..., Any], call: Call) -> None:
    with database(shop / "shop/shop.duckdb") as connection:
        connection.execute("DROP TABLE main.days")
    answer = asked("compare", "--select", "+customers", "--select", "large")
    assert answer["equal"] is True
    stages = [one["stage"] for one in answer["tables"]]
    assert {"customers", "large", "stg_customers"} <= {*stages}
    assert "days" not in stages
    assert "--select" in call("compare", "--select", "dbt_one_row", code=2).stderr


def test_numbers_of_other_types_are_compared_within_the_tolerance(
    shop: Path, asked: Callable[..., Any]
) -> None:
    with database(shop / "shop/shop.duckdb") as connection:
        connection.execute(
            "CREATE OR REPLACE TABLE main.payment_totals AS SELECT * REPLACE "
            "(total::DOUBLE * (1 + 1e-12) AS total) FROM main.payment_totals"
        )
        connection.execute("ALTER TABLE main_raw.orders ALTER id TYPE HUGEINT")
        connection.execute("ALTER TABLE main_raw.payments ALTER amount TYPE DECIMAL(30,9)")
    answer = asked("compare")
    (total,) = [one for table in answer["tables"] for one in table["columns"]]
    assert (total["column"], total["there"], total["compared"]) == ("total", "double", True)
    assert asked("compare", "--tolerance", "0", code=1)["equal"] is False


def test_tables_without_a_stage_are_named(shop: Path, asked: Callable[..., Any]) -> None:
    path = shop / "shop/target/manifest.json"
    manifest = json.loads(path.read_text())
    node = dict(manifest["nodes"]["model.shop.large"], name="new", alias="new")
    node["relation_name"] = '"shop"."main"."new"'
    manifest["nodes"]["model.shop.new"] = node
    path.write_text(json.dumps(manifest))
    answer = asked("compare")
    assert (answer["missing"], answer["equal"]) == ([*LEFT_OUT, "main.new"], True)
    node["alias"] = "large"
    path.write_text(json.dumps(manifest))


def test_two_tables_of_one_name_are_told_apart_by_the_project_file(
    shop: Path, asked: Callable[..., Any], call: Call
) -> None:
    path = shop / "shop/target/manifest.json"
    manifest = json.loads(path.read_text())
    node = dict(manifest["nodes"]["model.shop.large"], name="large_2", schema="other")
    node["relation_name"] = '"shop"."other"."large"'
    manifest["nodes"]["model.shop.large_2"] = node
    path.write_text(json.dumps(manifest))
    assert "[dbt.stages]" in call("compare", code=2).stderr
    with Path("deltaproduce.toml").open("a") as file:
        file.write('"model.shop.large" = "large"\n')
    answer = asked("compare")
    assert (answer["missing"], answer["equal"]) == ([*LEFT_OUT, "other.large"], True)


def test_where_the_dbt_project_and_its_database_are(
    shop: Path, call: Call, asked: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = shop / "there.duckdb"
    (shop / "shop/shop.duckdb").rename(moved)
    assert "shop.duckdb" in call("compare", code=2).stderr
    assert asked("compare", "--with", moved)["equal"] is True
    profiles = shop / "shop/profiles.yml"
    profiles.write_text(
        "shop:\n  target: dev\n  outputs:\n"
        "    dev: {type: duckdb, path: \"{{ env_var('WHERE') }}\"}\n"
        "    cloud: {type: snowflake, account: a}\n"
        "    odd: {type: duckdb, path: \"{{ run_query('x') }}\"}\n"
        "    memory: {type: duckdb}\n"
    )
    assert "WHERE" in call("compare", code=2).stderr
    monkeypatch.setenv("WHERE", str(moved))
    assert asked("compare")["equal"] is True
    for target, said in ("cloud", "snowflake"), ("odd", "plain"), ("memory", "memory"), ("x", "x"):
        assert said in call("compare", "--target", target, code=2).stderr
    profiles.unlink()
    monkeypatch.setenv("HOME", str(shop))
    assert "profiles.yml" in call("compare", code=2).stderr
    project = Path("deltaproduce.toml")
    project.write_text(project.read_text().partition("[dbt]")[0])
    assert "--dbt" in call("compare", "--with", moved, code=2).stderr
    result = call("compare", "--with", moved, "--dbt", shop / "shop", code=2)
    assert "seed.shop.customers" in result.stderr  # whose stage only [dbt.stages] says


def test_what_is_no_database(shop: Path, call: Call, tmp_path: Path) -> None:
    text = tmp_path / "text.duckdb"
    text.write_text("no database")
    assert "text.duckdb" in call("compare", "--with", text, code=1).stderr
    assert "not reached" in call("compare", "--with", "host=/nowhere", code=1).stderr


@pytest.mark.parametrize(
    ("address", "is_of_postgres", "without_password"),
    [
        ("postgresql://me:secret@host/shop", True, "postgresql://me:***@host/shop"),
        ("postgres://host/shop", True, "postgres://host/shop"),
        ("service=shop", True, "service=shop"),
        ("host='h' password='a \\' b' user='u'", True, "host='h' password=*** user='u'"),
        ("../shop/dev.duckdb", False, "../shop/dev.duckdb"),
        ("a/b=c.duckdb", False, "a/b=c.duckdb"),
    ],
)
def test_addresses(address: str, is_of_postgres: bool, without_password: str) -> None:
    assert is_postgres(address) is is_of_postgres
    assert shown_address(address) == without_password


def test_a_profile_of_postgres(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBT_PASSWORD", "it's")
    (tmp_path / "dbt_project.yml").write_text("profile: shop\n")
    (tmp_path / "profiles.yml").write_text(
        "shop:\n  target: prod\n  outputs:\n    prod:\n      type: postgres\n"
        "      host: db\n      port: 5433\n      user: me\n      dbname: shop\n"
        "      pass: \"{{ env_var('DBT_PASSWORD') }}\"\n      schema: s\n      threads: 4\n"
    )
    address = address_of(tmp_path)
    wanted = {"host": "db", "port": "5433", "user": "me", "dbname": "shop", "password": "it's"}
    assert conninfo_to_dict(address) == wanted
    assert "it" not in shown_address(address).replace("password=***", "")


def test_before_the_first_run(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(SHOP, tmp_path / "shop")
    call("init", tmp_path / "ours", "--from-dbt", tmp_path / "shop")
    monkeypatch.chdir(tmp_path / "ours")
    database(tmp_path / "shop/shop.duckdb").__enter__().close()
    assert "deltaproduce run" in call("compare", code=2).stderr


def test_a_missing_package_is_named(
    shop: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "deltaproduce.projects.dbt.target.duckdb_tables", False)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert "deltaproduce[duckdb]" in call("compare", code=2).stderr
