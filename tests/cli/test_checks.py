"""Checks of a project: `checks/*.sql`, and what verbs say of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import deltaproduce as dp

Call = Callable[..., Any]

FILES = {
    "deltaproduce.toml": (
        '[project]\nname = "shop"\nlocation = "./lake"\n\n[vars]\nmost = 100\n\n'
        '[sources.orders]\nformat = "csv"\npath = "orders.csv"\nmode = "snapshot"\n'
    ),
    "stages/orders.sql": (
        "EXTERNAL orders (columns (order_id bigint, customer_id bigint, amount bigint), "
        "key (order_id));"
    ),
    "stages/totals.sql": (
        "SELECT customer_id, sum(amount) AS total FROM orders GROUP BY customer_id"
    ),
    "checks/positive.sql": "SELECT order_id, amount\nFROM orders WHERE amount < 0;\n",
    "checks/large.sql": (
        "CHECK few_large (severity warn, at_most 1);\n"
        "SELECT customer_id, total FROM totals WHERE total > most\n"
    ),
    "orders.csv": "order_id,customer_id,amount\n1,7,5\n2,8,50\n",
}


@pytest.fixture
def shop(project_of: Callable[[Mapping[str, str]], Path]) -> Path:
    return project_of(FILES)


def orders(folder: Path, *rows: str) -> None:
    (folder / "orders.csv").write_text("\n".join(["order_id,customer_id,amount", *rows, ""]))


def test_files_of_checks_are_checks(shop: Path) -> None:
    """C4: named by their header, or else by their file; variables are resolved."""
    project = dp.Project(shop)
    assert [(c.name, c.stage, c.severity, c.bound) for c in project.pipeline.checks] == [
        ("few_large", "totals", "warn", "at most 1 row"),
        ("positive", "orders", "error", "no rows"),
    ]
    assert [stage.name for stage in project.pipeline.stages] == ["orders", "totals"]
    assert project.check() == []


def test_a_run_that_breaks_a_check_fails(shop: Path, call: Call, asked: Call) -> None:
    """C4: `run` publishes nothing, `check --data` fails for broken errors only."""
    planned = asked("plan")
    assert [(one["name"], one["cause"]) for one in planned["checks"]] == [
        ("few_large", "added"),
        ("positive", "added"),
    ]
    call("run")
    assert asked("check", "--data")["checks"][1]["rows"] == 0
    orders(shop, "1,7,5", "2,8,-50", "3,9,300", "4,10,300")
    said = call("run", code=1).stderr
    assert "positive" in said
    assert "-50" in said
    assert "few_large" not in said
    assert asked("versions")[-1]["number"] == 1
    orders(shop, "1,7,5", "3,9,300", "4,10,300")
    assert "broken check: few_large" in call("run").stdout
    said = call("check", "--data").stdout
    assert "few_large" in said
    assert "broken" in said
    (shop / "checks" / "large.sql").write_text(
        "CHECK few_large (at_most 1);\nSELECT customer_id, total FROM totals WHERE total > most"
    )
    answer = asked("check", "--data", code=1)
    assert [(one["name"], one["broken"], one["rows"]) for one in answer["checks"]] == [
        ("few_large", True, 2),
        ("positive", False, 0),
    ]
    assert answer["checks"][0]["sample"] == [
        {"customer_id": 9, "total": 300},
        {"customer_id": 10, "total": 300},
    ]
    assert "few_large" in call("run", code=1).stderr


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("SELECT order_id\nFROM lines", 2),
        ("SELECT order_id,\n amuont FROM orders", 2),
        ("CHECK c (severity fatal);\nSELECT order_id FROM orders", 1),
        ("CHECK c (\n  at_most many);\nSELECT order_id FROM orders", 2),
        ("CHECK c (severity quarantine);\nSELECT order_id FROM orders", 1),
        ("CHECK c (key (order_id));\nSELECT order_id FROM orders", 1),
        ("STAGE c (key (order_id));\nSELECT order_id, amount FROM orders", 1),
        ("CHECK totals (at_most 1);\nSELECT order_id FROM orders", 2),
        ("CHECK c (at_most 1);", 1),
    ],
)
def test_a_wrong_file_is_an_error_with_its_line(shop: Path, text: str, line: int) -> None:
    (shop / "checks" / "wrong.sql").write_text(text)
    (problem,) = dp.Project(shop).check()
    assert (problem.file, problem.line) == ("checks/wrong.sql", line)
    with pytest.raises(dp.DefinitionError) as raised:
        _ = dp.Project(shop).pipeline
    assert str(raised.value).startswith(f"checks/wrong.sql:{line}: ")


def test_a_header_of_a_check_is_none_of_a_stage(shop: Path) -> None:
    (shop / "stages" / "wrong.sql").write_text("CHECK c (at_most 1);\nSELECT order_id FROM orders")
    (problem,) = dp.Project(shop).check()
    assert (problem.file, problem.line) == ("stages/wrong.sql", 1)


def test_an_object_defines_its_own_checks(shop: Path) -> None:
    """Files that would not count are refused."""
    (shop / "own.py").write_text('import deltaproduce as dp\n\nshop = dp.Pipeline("shop")\n')
    text = FILES["deltaproduce.toml"].replace("[vars]", 'pipeline = "own:shop"\n\n[vars]')
    (shop / "deltaproduce.toml").write_text(text.replace('./lake"\n\n', './lake"\n'))
    with pytest.raises(dp.DefinitionError, match="checks"):
        _ = dp.Project(shop).pipeline
