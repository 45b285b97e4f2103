"""Projects of dbt, carried over: the tables are those that dbt makes, before and after changes."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from typing import Any

import pytest

import deltaproduce as dp

Call = Callable[..., Any]

PROJECTS = Path(__file__).parent / "dbt_projects"
STAGES = {"main_raw.customers": "main_raw_customers"}
"""Table of dbt -> its stage, where that has another name."""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The dbt project `shop`, compiled."""
    return shutil.copytree(PROJECTS / "shop", tmp_path / "shop")


def told(value: Any) -> Any:
    """A value of a table as `record.py` writes it, numbers by their value."""
    match value:
        case bool() | None:
            return value
        case int() | float() | Decimal():
            return round(float(value), 9)
        case datetime():
            return str(value.replace(tzinfo=None))
    return str(value)


def of_dbt(project: Path, table: str) -> tuple[list[str], Counter]:
    """The columns and rows of a table that dbt made."""
    made = json.loads((project / "target/tables.json").read_text())[table]
    return made["columns"], Counter(tuple(map(told, row)) for row in made["rows"])


def of_store(store: dp.Reader, stage: str, columns: list[str]) -> Counter:
    """The rows of a stage."""
    content = store.content(stage)
    assert {*content.column_names} - {"_ordinal"} >= {*columns}
    own = {name for name in content.column_names if not name.startswith("_")}
    assert own == {*columns}
    rows = zip(*(content.column(name).to_pylist() for name in columns), strict=True)
    return Counter(tuple(map(told, row)) for row in rows)


def parsed(project: Path) -> None:
    """Leave in the manifest what `dbt parse` writes."""
    path = project / "target/manifest.json"
    manifest = json.loads(path.read_text())
    for node in manifest["nodes"].values():
        node.pop("compiled_code", None)
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize("prepare", [lambda _: None, parsed], ids=["compiled", "parsed"])
def test_the_tables_are_those_of_dbt(
    shop: Path, call: Call, tmp_path: Path, prepare: Callable[[Path], None]
) -> None:
    prepare(shop)
    call("init", tmp_path / "ours", "--from-dbt", shop)
    call("run", "--project-dir", tmp_path / "ours")
    store = dp.open(tmp_path / "ours/lake")
    for table in json.loads((shop / "target/tables.json").read_text()):
        stage = STAGES.get(table, table.split(".")[1])
        if stage in LEFT_OUT:
            continue
        columns, wanted = of_dbt(shop, table)
        assert of_store(store, stage, columns) == wanted, table


LEFT_OUT = {"names_checked", "names_gone", "names_of_models"}
"""Snapshots whose rows depend on when dbt ran, or on a model."""


def snapshot(table: list[dict[str, Any]], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What dbt keeps when it sees these rows, with strategy timestamp."""
    kept = [dict(one) for one in table]
    for row in rows:
        current = [one for one in kept if one["id"] == row["id"] and one["until"] is None]
        if current and current[0]["since"] >= row["updated_at"]:
            continue
        for one in current:
            one["until"] = row["updated_at"]
        kept.append({**row, "since": row["updated_at"], "until": None})
    return kept


@pytest.mark.parametrize("seed", [1, 2])
def test_snapshots_keep_what_runs_have_seen(
    shop: Path, call: Call, tmp_path: Path, seed: int
) -> None:
    """Changed, deleted, new and returning rows, of which some runs see none: as dbt's rule."""
    random = Random(seed)
    history, ours = shop / "seeds/customer_history.csv", tmp_path / "ours"
    rows: dict[int, dict[str, Any]] = {}
    table: list[dict[str, Any]] = []
    at = datetime(2024, 1, 1)
    for _ in range(6):
        for _ in range(random.randrange(5)):
            at += timedelta(microseconds=random.choice([500_000, 60_000_000, 86_400_000_001]))
            id = random.randrange(4)
            if id in rows and random.random() < 0.3:
                del rows[id]
            else:
                name = random.choice(["a", "b"])
                rows[id] = {"id": id, "name": name, "updated_at": at}
        rows[9] = rows.get(9, {"id": 9, "name": "always", "updated_at": at})
        lines = [f"{one['id']},{one['name']},{one['updated_at']}\n" for one in rows.values()]
        history.write_text("id,name,updated_at\n" + "".join(lines))
        if not ours.exists():
            call("init", ours, "--from-dbt", shop)
        call("run", "--project-dir", ours)
        table = snapshot(table, list(rows.values()))
        columns = ["id", "name", "updated_at", "dbt_valid_from", "dbt_valid_to"]
        content = dp.open(ours / "lake").content("names")
        own = zip(*(content.column(name).to_pylist() for name in columns), strict=True)
        wanted = Counter(tuple(map(told, one.values())) for one in table)
        assert Counter(tuple(map(told, row)) for row in own) == wanted
    assert any(one["until"] for one in table)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"strategy": "check", "check_cols": "all"}, "strategy check"),
        ({"hard_deletes": "new_record"}, "hard_deletes"),
        ({"invalidate_hard_deletes": True}, "hard_deletes"),
        ({"strategy": "ours"}, "'ours'"),
        ({"unique_key": "id || name"}, "'id || name'"),
        ({"query": "select upper(name) as id, updated_at from {}"}, "'id' is computed"),
        ({"query": "select id, max(updated_at) as updated_at from {} group by id"}, "of several"),
        ({"query": "select distinct * from {}"}, "of several"),
        ({"query": "select a.* from {0} a join {0} b on a.id = b.id"}, "of several"),
        ({"query": "select * from {0} where id in (select max(id) from {0})"}, "of several"),
        ({"query": "select * from {0} union all select * from {0}"}, "of several"),
        ({"query": "select * from {} where updated_at < current_date"}, "reads the day"),
    ],
)
def test_snapshots_that_would_differ_are_listed(
    shop: Path, asked: Callable[..., Any], tmp_path: Path, edit: dict[str, Any], said: str
) -> None:
    path = shop / "target/manifest.json"
    manifest = json.loads(path.read_text())
    node = manifest["nodes"]["snapshot.shop.names"]
    query = edit.pop("query", None)
    node["config"] |= edit
    if query:
        node["compiled_code"] = query.format('"shop"."main_raw"."customer_history"')
    path.write_text(json.dumps(manifest))
    answer = asked("init", tmp_path / "ours", "--from-dbt", shop)
    reasons = {one["what"]: one["reason"] for one in answer["left_out"]}
    assert said in reasons["snapshot.shop.names"]
    assert "snapshot.shop.names" in reasons["model.shop.renamed"]


@pytest.mark.parametrize("is_known", [True, False])
def test_a_snapshot_of_a_source_has_the_columns_that_are_known(
    shop: Path, asked: Callable[..., Any], tmp_path: Path, is_known: bool
) -> None:
    path = shop / "target/manifest.json"
    manifest = json.loads(path.read_text())
    moves = '"shop"."ext"."moves"'
    columns = {"city": {"name": "city", "data_type": "varchar"}} if is_known else {}
    manifest["sources"]["source.shop.ext.moves"] = {
        "name": "moves",
        "resource_type": "source",
        "package_name": "shop",
        "schema": "ext",
        "relation_name": moves,
        "source_name": "ext",
        "columns": columns,
    }
    node = manifest["nodes"]["snapshot.shop.names"]
    node |= {
        "compiled_code": f"select * from {moves}",
        "depends_on": {"nodes": ["source.shop.ext.moves"]},
    }
    path.write_text(json.dumps(manifest))
    answer = asked("init", tmp_path / "ours", "--from-dbt", shop)
    reasons = {one["what"]: one["reason"] for one in answer["left_out"]}
    if not is_known:
        assert "dbt docs generate" in reasons["snapshot.shop.names"]
        return
    assert "snapshot.shop.names" not in reasons
    rows = (tmp_path / "ours/stages/names__rows.sql").read_text()
    assert all(f"    {column} " in rows for column in ("id", "updated_at", "city"))
    assert '# mode = "changes"' in (tmp_path / "ours/deltaproduce.toml").read_text()


def test_what_dbt_has_kept_before_is_taken_first(shop: Path, call: Call, tmp_path: Path) -> None:
    """As docs/from-dbt.md says: one run takes the rows of dbt's table, later ones the seed's."""
    ours = tmp_path / "ours"
    call("init", ours, "--from-dbt", shop)
    (ours / "before.csv").write_text(
        "id,name,updated_at,city\n1,An,2023-01-01,\n7,Gone,2023-02-01,\n"
    )
    file = ours / "deltaproduce.toml"
    text = file.read_text()
    head, rows = text.split('[sources."names__rows"]')
    file.write_text(
        head
        + '[sources."names__rows"]'
        + re.sub('path = ".*"', 'path = "before.csv"', rows, count=1)
    )
    call("run", "--project-dir", ours)
    file.write_text(text)
    call("run", "--project-dir", ours)
    content = dp.open(ours / "lake").content("names").to_pylist()
    known = {(one["id"], one["name"], one["dbt_valid_to"] is None) for one in content}
    assert known == {(1, "An", False), (1, "Ann", True), (2, "Bo", True), (7, "Gone", True)}


def test_after_changed_seeds_the_tables_are_those_of_a_new_project(
    shop: Path, call: Call, tmp_path: Path
) -> None:
    """A changed row, a deleted one and a new one: each run equals a first one."""
    call("init", tmp_path / "kept", "--from-dbt", shop)
    call("run", "--project-dir", tmp_path / "kept")
    payments, orders = shop / "seeds/payments.csv", shop / "seeds/orders.csv"
    edits = (
        (payments, "104,y,0.05\n", "104,y,7.25\n"),
        (orders, "102,1,2024-03-31T23:59:59,shipped\n", ""),
        (payments, "102,x,3.33\n", "105,x,3.33\n102,,1\n"),
        (orders, "105,9,", "105,2,"),
    )
    for number, (path, before, after) in enumerate(edits):
        assert before in path.read_text()
        path.write_text(path.read_text().replace(before, after))
        call("init", tmp_path / f"new_{number}", "--from-dbt", shop)
        for name in ("kept", f"new_{number}"):
            call("run", "--project-dir", tmp_path / name)
        kept, new = (dp.open(tmp_path / name / "lake") for name in ("kept", f"new_{number}"))
        for stage in new.stages:
            columns = [one for one in new.content(stage).column_names if one[0] != "_"]
            assert of_store(kept, stage, columns) == of_store(new, stage, columns), (number, stage)


@pytest.mark.parametrize("select", ["tag:mart", "tag:n*", "group:people", "tag:raw data,tag:it's"])
def test_tags_and_groups_are_selected_by(
    shop: Path, asked: Callable[..., Any], call: Call, tmp_path: Path, select: str
) -> None:
    path = shop / "target/manifest.json"
    manifest = json.loads(path.read_text())
    manifest["nodes"]["seed.shop.orders"]["tags"] = ["raw data", "it's", "order", "nächtlich"]
    path.write_text(json.dumps(manifest))
    call("init", tmp_path / "ours", "--from-dbt", shop)
    labels = {
        STAGES.get(f"{node['schema']}.{node['alias']}", node["alias"]): [
            *(f"tag:{tag}" for tag in node.get("tags", [])),
            f"group:{node.get('group')}",
        ]
        for node in manifest["nodes"].values()
        if node["resource_type"] != "test"
    }
    wanted = {
        name
        for name, own in labels.items()
        if all(any(fnmatchcase(one, part) for one in own) for part in select.split(","))
    }
    for term in select, f"+{select}":
        chosen = {
            one["stage"]
            for one in asked(
                "graph", "--select", term.replace(" ", "?"), "--project-dir", tmp_path / "ours"
            )
        }
        assert chosen >= wanted - {"names_checked"}
        assert (chosen == wanted) or term[0] == "+"
    assert wanted


def test_nothing_of_the_dbt_project_is_changed(shop: Path, call: Call, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in shop.rglob("*") if path.is_file()}
    call("init", tmp_path / "ours", "--from-dbt", shop)
    assert {path: path.read_bytes() for path in shop.rglob("*") if path.is_file()} == before


def test_what_is_not_carried_over_is_listed(
    shop: Path, asked: Callable[..., Any], tmp_path: Path
) -> None:
    path = shop / "target/manifest.json"
    manifest = json.loads(path.read_text())
    customers = manifest["nodes"]["model.shop.stg_customers"]
    customers["compiled_code"] = "SELECT regexp_extract(name, 'a') AS name FROM somewhere.other"
    manifest["nodes"]["model.shop.labelled"]["language"] = "python"
    path.write_text(json.dumps(manifest))
    answer = asked("init", tmp_path / "ours", "--from-dbt", shop)
    reasons = {one["what"]: one["reason"] for one in answer["left_out"]}
    assert "'somewhere.other'" in reasons["model.shop.stg_customers"]
    assert "python" in reasons["model.shop.labelled"]
    assert "model.shop.stg_customers" in reasons["model.shop.dim_customers"]
    notes = (tmp_path / "ours/FROM_DBT.md").read_text()
    assert all(what in notes for what in reasons)
    assert (tmp_path / "ours/by_hand/model.shop.dim_customers.sql").exists()
    assert "stages/orders.sql" in answer["files"]


def edited(shop: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Change the unit tests of the manifest, which are found by their names."""
    path = shop / "target/manifest.json"
    manifest = json.loads(path.read_text())
    edit({one["name"]: one for one in manifest["unit_tests"].values()})
    path.write_text(json.dumps(manifest))


def of_one_country(tests: dict[str, Any]) -> None:
    """The test in CSV with the country of the project, whose home is then the other one."""
    test = tests["months_are_counted"]
    test["overrides"]["vars"]["country"] = "NO"
    home, other = test["expect"]["rows"]
    home["is_home"], other["is_home"] = "false", "true"


def pytest_of(project: Path) -> subprocess.CompletedProcess[str]:
    """The tests of a project, run by pytest in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    environment = {**os.environ, "PYTHONPATH": str(Path(dp.__file__).parents[1])}
    return subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, check=False
    )


def test_unit_tests_are_tests_of_pytest(
    shop: Path, asked: Callable[..., Any], tmp_path: Path
) -> None:
    """They pass as in dbt; of a changed model one fails, and says which rows are others."""
    edited(shop, of_one_country)
    ours = tmp_path / "ours"
    answer = asked("init", ours, "--from-dbt", shop)
    left_out = {one["what"] for one in answer["left_out"]}
    assert {one for one in left_out if one.startswith("unit_test")} == {
        "unit_test.shop.payment_totals.by_sql"
    }
    notes = (ours / "FROM_DBT.md").read_text()
    assert "`tests/test_customers.py::test_months_are_counted`" in notes
    assert (
        '"""The first customer of a country, by id."""'
        in (ours / "tests/test_labelled.py").read_text()
    )
    result = pytest_of(ours)
    assert "3 passed" in result.stdout, result.stdout

    file = ours / "stages/labelled.sql"
    text = file.read_text()
    assert "THEN 'vip'" in text
    file.write_text(text.replace("THEN 'vip'", "THEN 'VIP'"))
    result = pytest_of(ours)
    assert "1 failed, 2 passed" in result.stdout, result.stdout
    assert "1 of 2 are missing, and 1 of 2 are too many" in result.stdout
    assert "'label': 'Ann/SE', 'kind': 'vip'}" in result.stdout
    assert "'label': 'Ann/SE', 'kind': 'VIP'}" in result.stdout


def test_unit_tests_run_where_dbt_was_not_compiled(shop: Path, call: Call, tmp_path: Path) -> None:
    parsed(shop)
    call("init", tmp_path / "ours", "--from-dbt", shop)
    assert {one.name for one in (tmp_path / "ours/tests").iterdir()} == {
        "test_labelled.py",
        "test_large.py",
    }


LISTED: list[tuple[dict[str, Any], str]] = [
    ({"overrides": {"macros": {"is_incremental": True}}}, "incremental run"),
    ({"overrides": {"macros": {"dbt.now": "x"}}}, "overrides dbt.now"),
    ({"overrides": {"vars": {"least": 7}}}, "values of least"),
    ({"given": []}, "no rows of order, payment_totals"),
    ({"input": "this"}, "own table"),
    ({"input": "ref('nothing')"}, "'nothing'"),
    ({"input": "ref('payment_totals')"}, "one stage here"),
    ({"input": "ref('stg_payments')"}, "ref('stg_payments'), an ephemeral model"),
    ({"rows": "select order_id from x"}, "more than constants"),
    ({"rows": "select 'x' as order_id"}, "'order_id' is of type"),
    ({"rows": "select 1 as ordered"}, "ref('order'): its rows have a column 'ordered'"),
    ({"depends_on": {"nodes": ["model.shop.nothing"]}}, "none of the project"),
]
TAKEN: list[dict[str, Any]] = [
    {"overrides": {"vars": {"least": 5}}},
    {"overrides": {"env_vars": {"ANY": 5}}},
    {"overrides": {"macros": {"is_incremental": False}}},
    {"name": "labels-of sql"},
    {"name": "test_labels_of_sql"},
]


def test_unit_tests_that_say_something_else_are_listed(
    shop: Path, asked: Callable[..., Any], tmp_path: Path
) -> None:
    """Copies of a unit test, each with another edit of it, or of the first of its inputs."""
    path = shop / "target/manifest.json"
    manifest = json.loads(path.read_text())
    tests = manifest["unit_tests"]
    for number, edit in enumerate([*(edit for edit, _ in LISTED), *TAKEN]):
        test = json.loads(json.dumps(tests["unit_test.shop.large.labels_of_sql"]))
        for name, value in edit.items():
            (test["given"][0] if name in ("input", "rows") else test)[name] = value
        tests[f"copy.{number}"] = test
    path.write_text(json.dumps(manifest))
    answer = asked("init", tmp_path / "ours", "--from-dbt", shop)
    reasons = {one["what"]: one["reason"] for one in answer["left_out"]}
    notes = (tmp_path / "ours/FROM_DBT.md").read_text()
    for number, (_, said) in enumerate(LISTED):
        assert said in reasons[f"copy.{number}"]
        assert said in notes
    assert "country" in reasons["unit_test.shop.dim_customers.months_are_counted"]
    copies = {name for name in reasons if name.startswith("copy")}
    assert copies == {f"copy.{number}" for number in range(len(LISTED))}
    text = (tmp_path / "ours/tests/test_large.py").read_text()
    names = ["labels_of_sql", *(f"labels_of_sql_{n}" for n in range(2, len(TAKEN) + 2))]
    assert re.findall(r"^def test_(\w+)\(", text, re.MULTILINE) == names


def test_unit_tests_of_models_that_are_not_carried_over(
    shop: Path, asked: Callable[..., Any], tmp_path: Path
) -> None:
    path = shop / "target/manifest.json"
    manifest = json.loads(path.read_text())
    nodes = manifest["nodes"]
    nodes["model.shop.labelled"]["language"] = "python"
    nodes["model.shop.payment_totals"]["compiled_code"] += (
        " having current_date > date '2020-01-01'"
    )
    nodes["model.shop.large"]["compiled_code"] = "select current_date as order_id, 0 as total"
    path.write_text(json.dumps(manifest))
    answer = asked("init", tmp_path / "ours", "--from-dbt", shop)
    reasons = {one["what"].split(".")[-1]: one["reason"] for one in answer["left_out"]}
    assert "model.shop.labelled is not carried over" in reasons["one_of_each_country_is_labelled"]
    assert "reads the day" in reasons["by_sql"]
    assert "as_of" in reasons["labels_of_sql"]


def test_a_seed_of_one_column(shop: Path, call: Call, tmp_path: Path) -> None:
    (shop / "seeds/customer_history.csv").write_text("id\n1\n2\n2\n")
    call("init", tmp_path / "ours", "--from-dbt", shop)
    call("run", "--project-dir", tmp_path / "ours")
    store = dp.open(tmp_path / "ours/lake")
    assert of_store(store, "customer_history", ["id"]) == Counter({(1.0,): 1, (2.0,): 2})


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--from-dbt", "nowhere"), "dbt compile"),
        (("--target", "dev"), "--from-dbt"),
    ],
)
def test_wrong_calls_are_refused(
    call: Call, tmp_path: Path, args: tuple[str, ...], said: str
) -> None:
    result = call("init", tmp_path / "ours", *args, code=2)
    assert said in result.output + result.stderr
    assert not (tmp_path / "ours").exists()
