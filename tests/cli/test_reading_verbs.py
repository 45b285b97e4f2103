"""Verbs that read rows and versions need the store's log, and not the project's pipeline."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]

VERBS = (
    ("versions",),
    ("show", "customer_report"),
    ("show", "customer_report", "2"),
    ("show", "orders", "--version", "1"),
    ("updates", "customer_report"),
    ("changes", "orders", "--from", "1"),
    ("diff", "1"),
)


@pytest.fixture
def changed(ran: Path, call: Call) -> Path:
    """The sample project with a second version."""
    orders = "order_id,customer_id,amount,_change_type\n102,2,40.00,upsert\n104,,,delete\n"
    (ran / "data" / "orders" / "2026-01-02.csv").write_text(orders)
    call("run")
    return ran


def test_a_project_whose_pipeline_is_being_edited_is_read_all_the_same(
    changed: Path, call: Call, asked: Call
) -> None:
    before = [asked(*verb) for verb in VERBS]
    (changed / "pipeline.py").write_text("def half(")
    sys.modules.pop("pipeline", None)
    assert [asked(*verb) for verb in VERBS] == before
    call("graph", code=2)


def test_rows_have_the_librarys_columns_as_ever(changed: Path, asked: Call) -> None:
    (row,) = asked("show", "customer_report", "2")["rows"]
    assert list(row) == ["customer_id", "name", "total", "_source_customer_id", "_ordinal"]


LOADED = """
import gc, sys
from deltaproduce.cli.app import main
searches = []
gc.callbacks.append(lambda phase, about: searches.append(about))
sys.argv[1:] = {verb!r}
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
names = {names!r}
print([name for name in names if name in sys.modules], len(searches), file=sys.stderr)
"""
OF_PIPELINES = (
    "deltaproduce.pipeline",
    "deltaproduce.store",
    "deltaproduce.projects.statements",
    "deltaproduce.operations.executor",
    "deltaproduce.stages.productions",
    "obstore",
    "pandas",
    "pipeline",
    "pyspark",
    "sqlglot",
)


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_they_import_nothing_of_pipelines_and_look_for_no_garbage(
    changed: Path, verb: tuple[str, ...]
) -> None:
    code = LOADED.format(verb=list(verb), names=OF_PIPELINES)
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path), "NO_COLOR": "1"},
    )
    assert ran.stderr == "[] 0\n"
    assert ran.stdout


def test_the_pipeline_says_what_no_version_has(project: Path, call: Call, asked: Call) -> None:
    """A store that is not there yet has no versions, and a stage that is new has no rows."""
    assert asked("versions") == []
    assert asked("show", "customer_report")["rows"] == []
    assert "customer_report" in call("show", "customer_repor", code=2).stderr
    call("run")
    with (project / "pipeline.py").open("a") as pipeline:
        pipeline.write('\nshop.source("returns", key="order_id bigint", value="day date")\n')
    sys.modules.pop("pipeline", None)
    assert asked("show", "returns")["rows"] == []
    assert "returns" in call("show", "return", code=2).stderr
