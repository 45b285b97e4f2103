"""Projects with SQL stages and no Spark: they are read and checked; a run says what to mend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import deltaproduce as dp
from deltaproduce.projects.stores import ProjectStore
from deltaproduce.storage.version_log import VersionLog

Call = Callable[..., Any]

FILES = {
    "deltaproduce.toml": (
        '[project]\nname = "shop"\nlocation = "./lake"\n\n'
        '[sources.orders]\nformat = "csv"\npath = "orders.csv"\nmode = "snapshot"\n'
    ),
    "stages/orders.sql": (
        "EXTERNAL orders (columns (order_id bigint, customer_id bigint, amount bigint), "
        "key (order_id));"
    ),
    "stages/cents.sql": (
        "STAGE cents (key (customer_id));\n"
        "SELECT customer_id, order_id, xxhash64(amount) AS cents\nFROM orders WHERE amount > 0"
    ),
    "stages/after.sql": "STAGE after (key (customer_id));\nSELECT customer_id, cents FROM cents",
    "orders.csv": "order_id,customer_id,amount\n1,7,5\n",
}
READING = (
    ("versions",),
    ("show", "orders"),
    ("updates", "cents"),
    ("changes", "cents", "--from", "0"),
    ("diff", "0"),
    ("lineage", "orders", "1"),
    ("explain", "cents"),
    ("graph",),
    ("verify",),
    ("report",),
)
WRITING = (("plan",), ("run",), ("refresh",), ("repair",), ("compact",), ("rollback", "0"))


@pytest.fixture
def shop(project_of: Callable[[Mapping[str, str]], Path]) -> Path:
    return project_of(FILES)


@pytest.mark.parametrize("args", READING)
def test_what_only_reads_needs_no_types_of_queries(
    shop: Path, call: Call, args: tuple[str, ...]
) -> None:
    call(*args)


@pytest.mark.parametrize("args", WRITING)
def test_what_writes_names_stage_file_and_mend(
    shop: Path, call: Call, args: tuple[str, ...]
) -> None:
    said = call(*args, code=1).stderr
    assert said.startswith("error: stages/cents.sql:1: stage 'cents': 'xxhash64(amount)' is ")
    assert 'set engine = "spark" in [project] of deltaproduce.toml' in said
    assert "local_session" not in said
    assert not (shop / "lake").exists()


def test_a_check_names_each_query_and_all_else_that_is_wrong(shop: Path, asked: Call) -> None:
    (shop / "orders.csv").write_text("order_id,customer_id,amuont\n1,7,5\n")
    problems = asked("check", code=1)["problems"]
    assert [(one["stage"], one["file"]) for one in problems] == [
        ("cents", "stages/cents.sql"),
        ("after", "stages/after.sql"),
        ("orders", None),
    ]


def test_a_misspelt_column_is_found_with_its_line(shop: Path, asked: Call) -> None:
    """Also in the WHERE, of a subquery, and next to what a query of tasks may not have."""
    path = shop / "stages" / "cents.sql"
    for old, new in (
        ("amount > 0", "amuont > 0"),
        ("order_id, amount", "order_id, uuid() AS ticket, amount"),
        ("FROM orders", "FROM (SELECT * FROM orders WHERE amuont > 1) t"),
    ):
        text = FILES["stages/cents.sql"].replace(old, new)
        path.write_text(text if "amuont" in text else text.replace("amount > 0", "amuont > 0"))
        (one,) = asked("check", code=1)["problems"]
        assert (one["stage"], one["column"], one["line"]) == ("cents", "amuont", 3)
        assert "do you mean 'amount'?" in one["message"]


def test_stages_that_read_a_refused_one_are_said_to_be_unchecked(
    shop: Path, call: Call, asked: Call
) -> None:
    """A refused definition, a file that cannot be read, and a module that fails."""
    cents, module = shop / "stages" / "cents.sql", shop / "stages" / "more.py"
    for text in ("STAGE cents (key (customer_id));\nSELECT customer_id FROM oders", "STAGE"):
        cents.write_text(text)
        found = asked("check", code=1)
        assert found["unchecked"] == ["after"]
        assert [one["file"] for one in found["problems"]] == ["stages/cents.sql"]
        assert "not checked, as they read what is refused: after" in call("check", code=1).stdout
    cents.unlink()
    module.write_text("def define(pipeline):\n    raise ValueError('no')\n")
    found = asked("check", code=1)
    assert found["unchecked"] == ["after"]
    assert [one["file"] for one in found["problems"]] == ["stages/more.py"]


def test_the_store_of_a_project_without_a_session_names_the_stage(tmp_path: Path) -> None:
    pipeline = dp.Pipeline("shop")
    pipeline.source("orders", key="id bigint", value="n bigint")
    pipeline.sql("double", "SELECT id, xxhash64(n) AS n FROM orders", key="id")
    with ProjectStore(None, tmp_path / "lake", pipeline) as store:
        assert store.content("orders").num_rows == store.content("double").num_rows == 0
        for write in (lambda: store.update({"orders": [{"id": 1, "n": 1}]}), store.refresh):
            with pytest.raises(dp.SessionError) as caught:
                write()
            assert caught.value.stage == "double"
    assert not (tmp_path / "lake").exists()


def test_a_store_without_queries_reads_no_log_to_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = dp.Pipeline("shop")
    pipeline.source("orders", key="id bigint", value="n bigint")
    monkeypatch.delattr(VersionLog, "head")
    monkeypatch.setattr(VersionLog, "head", None, raising=False)
    dp.Store(None, tmp_path / "lake", pipeline).close()


def test_a_file_with_a_select_alone_is_a_stage(shop: Path, call: Call, asked: Call) -> None:
    """By the file's name, without Spark; its types are known before there is data."""
    for name in ("cents", "after"):
        (shop / "stages" / f"{name}.sql").unlink()
    totals = shop / "stages" / "totals.sql"
    totals.write_text("SELECT customer_id, sum(amount) AS total\nFROM orders GROUP BY 1;")
    (shop / "stages" / "large.sql").write_text(
        "STAGE large (key (total desc));\n"
        "SELECT t.customer_id, t.total, o.order_id\n"
        "FROM totals t JOIN orders o ON o.customer_id = t.customer_id"
    )
    assert asked("check")["problems"] == []
    schemas = {s.name: s.schema for s in dp.Project(shop).pipeline.stages}
    assert schemas["totals"].value.ddl == schemas["large"].key.ddl.removesuffix(" DESC")
    assert asked("run")["made"]
    assert [row["total"] for row in asked("show", "totals")["rows"]] == [5]
    explained = asked("explain", "totals")["operators"]
    assert [one["mode"] for one in explained] == ["incremental"] * 3
    assert "Aggregate sum(amount) by customer_id" in call("explain", "totals").stdout
    totals.write_text("SELECT customer_id,\n  sum(amuont) AS total FROM orders GROUP BY 1")
    (one,) = (one for one in asked("check", code=1)["problems"] if one["stage"] == "totals")
    assert (one["file"], one["line"]) == ("stages/totals.sql", 2)


def test_labels_of_files_are_selected_by_and_change_no_row(
    shop: Path, call: Call, asked: Call
) -> None:
    cents, after = shop / "stages/cents.sql", shop / "stages/after.sql"
    cents.write_text("SELECT customer_id, order_id, amount * 100 AS cents FROM orders")
    call("run")
    cents.write_text(
        f"STAGE cents (tags (nightly, 'night-shift', all), group day);\n{cents.read_text()}"
    )
    after.write_text(after.read_text().replace("))", "), group 'the \"day\"', tags (all))"))
    orders = shop / "stages/orders.sql"
    orders.write_text(orders.read_text().replace("key (order_id)", "tags (raw), key (order_id)"))
    for term, stages in (
        ("tag:night-*", ["cents"]),
        ("tag:all", ["cents", "after"]),
        ("group:day+", ["cents", "after"]),
        ('group:the?"day"', ["after"]),
        ("+tag:nightly", ["orders", "cents"]),
        ("tag:raw", ["orders"]),
    ):
        assert [one["stage"] for one in asked("graph", "--select", term)] == stages
    assert asked("plan", "--exit-code", "--select", "tag:all", code=3)["steps"] == []
    said = call("graph", "--select", "tag:nightli", code=2).stderr
    assert "'tag:nightli'" in said
    assert "tag:nightly" in said


@pytest.mark.parametrize(
    ("clause", "said"),
    [
        ("tags nightly", "after tags write a list in parentheses"),
        ("tags (night shift)", "'night shift' of tags in quotes"),
        ("tags (night-shift)", "'night-shift' of tags in quotes"),
        ("tags ()", "clause tags says nothing"),
        ("group a b", "'a b' of group in quotes"),
        ("group", "clause group says nothing"),
        ("tags (a), tags (b)", "clause tags is there twice"),
    ],
)
def test_labels_that_cannot_be_read_are_refused(
    shop: Path, call: Call, clause: str, said: str
) -> None:
    (shop / "stages/after.sql").write_text(f"\nSTAGE after ({clause});\nSELECT cents FROM cents")
    error = call("graph", code=2).stderr
    assert "stages/after.sql:2: " in error
    assert said in error
