"""Projects of dbt, carried over: the tables are those that dbt makes, before and after changes."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
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


LEFT_OUT = {"names"}


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
