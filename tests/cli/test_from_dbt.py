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
