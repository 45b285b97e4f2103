"""The benchmark of TPC-H checks its views, and its report has each query and step."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from benchmarks import measures
from benchmarks.tpch import __main__ as tpch
from benchmarks.tpch.ours import HIDDEN, SOURCE, VIEW, StageCost, StepCost
from benchmarks.tpch.peers import Recomputed
from benchmarks.tpch.queries import queries
from benchmarks.tpch.report import markdown
from benchmarks.tpch.results import Run, targets
from benchmarks.tpch.rows import LOAD, STEPS, Rows, count
from deltaproduce.storage.figures import StageFigures

SCALE = 0.001
STEP_NAMES = [LOAD.name, *(step.name for step in STEPS)]


def report(folder: Path, *arguments: str) -> tuple[int, str]:
    """The exit code and the report of a run."""
    out = folder / "TPCH.md"
    given = ["--scale", str(SCALE), "--peers", "ours,duckdb", "--directory", str(folder)]
    given += ["--parts", "queries"]
    return tpch.main([*given, "--out", str(out), *arguments]), out.read_text()


def tables(text: str, section: str) -> list[list[str]]:
    """The cells of the first table of a section, without its header."""
    part = text.split(f"\n## {section}\n")[1].split("\n## ")[0]
    lines = re.search(r"(^\|.*\|\n)+", part, re.MULTILINE)
    assert lines is not None, section
    rows = [line.strip("| ").split(" | ") for line in lines[0].splitlines()]
    return rows[2:]


def check(text: str, names: list[str]) -> None:
    assert "not complete" not in text
    assert "All results so far equal DuckDB's" in text
    assert f"{len(names)} queries at {len(STEP_NAMES)} versions" in text
    assert [row[0] for row in tables(text, "Sums")] == STEP_NAMES
    for step in STEP_NAMES:
        rows = tables(text, f"{step}, by query")
        assert [row[0] for row in rows] == [*names, "sum"]
        for row in rows[:-1]:
            assert float(row[2]) >= 0, row
            assert re.match(r"(good|bad), [\d.]+ x$", row[-2]), row
        assert all(row[1].startswith("recompute") for row in rows[:-1]) == (step == LOAD.name)


def test_views_are_checked_at_each_step(tmp_path: Path) -> None:
    code, text = report(tmp_path, "--queries", "q06,q13,q22")
    assert code == 0
    check(text, ["q06", "q13", "q22"])
    assert tables(text, "Hidden tables after the last step")[0][0] == "q13"


@pytest.mark.long
def test_all_queries_are_checked(tmp_path: Path) -> None:
    code, text = report(tmp_path)
    assert code == 0
    check(text, [*queries(SCALE)])


@pytest.mark.long
def test_dashboards_and_single_changes_are_checked(tmp_path: Path) -> None:
    code, text = report(tmp_path, "--parts", "dashboards,changes")
    assert code == 0
    assert [row[0] for row in tables(text, "Dashboards")] == ["1", "10"]
    assert [row[:2] for row in tables(text, "One changed row")] == [
        ["one table", "a row of lines"],
        ["one partition", "a row of lines"],
        ["join of three", "a row of lines"],
        ["join of three", "a row of customers"],
    ]
    found = {row[0]: row[-1] for row in tables(text, "Targets")}
    assert len(found) == 5
    assert {*found.values()} <= {"good", "bad"}


def test_a_wrong_result_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tpch.Ours, "answer", lambda ours, name, columns: [(name,)])
    code, text = report(tmp_path, "--queries", "q06", "--steps", "RF2")
    assert code == 1
    assert "**Wrong results:** q06 at First load, q06 at RF2." in text


def cost(name: str, owners: tuple[str, ...], seconds: float, *, role: str = "") -> StageCost:
    figures = StageFigures("seek", seconds=seconds, rows_read=30, role=role)
    return StageCost(name, HIDDEN if role else VIEW, owners, figures)


def step_of(seconds: float, *stages: StageCost) -> StepCost:
    whole = measures.Step(0, seconds, 0, 0, 0, 0, 0, 0)
    return StepCost({"orders": 10, "lineitem": 50}, whole, 0.0, {}, stages, ())


def test_seconds_of_hidden_tables_belong_to_their_queries() -> None:
    """Those of one query count for it, and those of several have a line of their own."""
    stages = (
        cost("q01", ("q01",), 0.1),
        cost("_groups_1_q01", ("q01",), 0.25, role="groups"),
        cost("_groups_1_q02", ("q01", "q02"), 0.5, role="groups"),
        cost("q02", ("q02",), 0.01),
    )
    run = Run("", 1.0, ("ours", "duckdb"), ("q01", "q02"))
    run.steps = dict.fromkeys(STEP_NAMES, step_of(1.5, *stages))
    recomputed = {"q01": Recomputed(0.35, [], []), "q02": Recomputed(0.001, [], [])}
    run.duckdb = dict.fromkeys(STEP_NAMES, recomputed)
    found = {row[0]: row for row in tables(markdown(run), "RF1, by query")}
    assert found["q01"][2:4] == ["0.350", "0.250"]
    assert found["q01"][5:7] == ["60", "1.0"]
    assert found["q01"][-2:] == ["good, 1.00 x", "-"]
    assert found["q02"][2] == "0.010"
    assert found["q02"][-2:] == ["bad, 10.00 x", "-"]
    assert found["groups of q01, q02"][2:4] == ["0.500", "0.500"]
    assert found["sum"][2] == "0.860"


def test_targets_are_those_of_the_scale() -> None:
    run = Run("", 1.0, ("ours", "spark"), ("q01",))
    source = StageCost("orders", SOURCE, ("orders",), StageFigures("seek", seconds=0.4))
    run.steps = dict.fromkeys(STEP_NAMES, step_of(1.5, source, cost("q01", ("q01",), 0.1)))
    assert [(one.found, one.most, one.verdict) for one in targets(run)] == [
        (3.0, 3.0, "good"),
        (1.5, 0.6, "bad"),
        (1.5, 0.6, "bad"),
        (0.4, 0.3, "bad"),
        (0.4, 0.3, "bad"),
    ]
    run.spark = {"q01": Recomputed(1.4, [], [])}
    assert [one.verdict for one in targets(run)[5:]] == ["bad", "bad"]
    run.scale = 0.05
    assert len(targets(run)) == 2, "only what Spark takes"
    run.dashboards = {1: [0.1, 9.0, 0.2], 10: [0.6, 0.5, 0.7]}
    assert targets(run)[-1].found == pytest.approx(3.0)


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="q99"):
        tpch.main(["--queries", "q06,q99", "--directory", str(tmp_path)])
    with pytest.raises(SystemExit, match="RF9"):
        tpch.main(["--steps", "RF9", "--directory", str(tmp_path)])
    with pytest.raises(SystemExit, match="polars"):
        tpch.main(["--peers", "ours,polars", "--directory", str(tmp_path)])


def test_steps_change_other_orders_and_all_of_their_lines(tmp_path: Path) -> None:
    """No order is in two batches, and the rows after all steps are those that the batches say."""
    rows = Rows(tmp_path, SCALE)
    rows.prepare()

    def keys(file: Path) -> set[int]:
        return {key for (key,) in duckdb.sql(f"SELECT #1 FROM '{file}'").fetchall()}

    before = keys(rows.now["orders"])
    every, deleted = set(before), set[int]()
    for step in STEPS:
        batch = rows.batch(step)
        chosen, lines = keys(batch["orders"]), keys(batch["lineitem"])
        assert chosen == lines
        assert len(chosen) == step.size(1_500) == count(batch["orders"])
        assert (chosen & before == set()) == (step.kind == "insert")
        every |= chosen
        deleted |= chosen if step.kind == "delete" else set()
        rows.advance(step)
    assert keys(rows.now["orders"]) == keys(rows.now["lineitem"]) == every - deleted
    assert count(rows.now["orders"]) == 1_500 - len(deleted)
    assert sum(step.size(1_500) for step in STEPS) == len(
        set().union(*(keys(rows.batch(step)["orders"]) for step in STEPS))
    )
