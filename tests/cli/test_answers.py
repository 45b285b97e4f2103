"""Answers say what a user needs to go on: the rows that differ, what was cut, what to give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaproduce import InvalidArgumentError
from deltaproduce.cli.answers.values import filters_of
from deltaproduce.reading.diffs import differing
from deltaproduce.types.columns import key_columns

Call = Callable[..., Any]

ROWS = st.lists(st.builds(lambda n: {"n": n}, st.integers(0, 3)), max_size=8)


@given(ROWS, ROWS)
def test_rows_that_differ_are_the_difference_of_the_multisets(
    before: list[dict[str, int]], after: list[dict[str, int]]
) -> None:
    """Of equal multisets in another order, the rows at the places that differ."""
    gone, new = differing(before, after)
    if sorted(r["n"] for r in before) == sorted(r["n"] for r in after):
        places = [n for n in range(len(before)) if before[n] != after[n]]
        assert (gone, new) == ([before[n] for n in places], [after[n] for n in places])
        return
    for n in range(4):
        row = {"n": n}
        more = before.count(row) - after.count(row)
        assert (gone.count(row), new.count(row)) == (max(more, 0), max(-more, 0))


def test_a_diff_shows_the_row_that_differs_among_many(ran: Path, call: Call) -> None:
    """Customer 1 has 30 orders, and the last one changes."""
    orders = ran / "data" / "orders"
    lines = [f"{n},1,1.00" for n in range(200, 230)]
    head = "order_id,customer_id,amount\n"
    (orders / "2026-01-02.csv").write_text(head + "\n".join(lines) + "\n")
    call("run")
    (orders / "2026-01-03.csv").write_text(f"{head}229,1,7.00\n")
    call("run")
    said = call("diff", "2", "3").stdout.split("orders_by_customer: some keys")[1]
    assert "order_id=229, amount=1.00   order_id=229, amount=7.00" in said
    assert "order_id=101" not in said


def test_a_lineage_has_its_own_key_and_says_what_it_leaves_out(ran: Path, call: Call) -> None:
    whole = [line.split() for line in call("lineage", "customer_totals", "1").stdout.splitlines()]
    assert ["this", "customer_totals", "1"] in whole
    assert "--limit" not in call("lineage", "customer_totals", "1").stdout
    cut = call("lineage", "customer_totals", "1", "--limit", "1").stdout
    assert "of orders the first 1 keys: --limit 0 prints all" in cut


def test_a_column_that_is_no_key_column_is_named(ran: Path, call: Call) -> None:
    said = call("show", "customer_report", "total=24.5", code=2).stderr
    assert "'total' is not a key column" in said
    assert "customer_id" in said
    assert (
        "'custmer_id' is not a key column" in call("show", "orders", "custmer_id=1", code=2).stderr
    )


def test_a_text_key_may_look_like_a_column_and_its_value() -> None:
    text = key_columns("page string")
    assert filters_of(["utm=x"], text, ["n"]) == {"page": "utm=x"}
    with pytest.raises(InvalidArgumentError):
        filters_of(["n=1"], text, ["n"])


def test_a_vacuum_names_the_commands_options_and_takes_the_files_days(
    ran: Path, call: Call, asked: Call
) -> None:
    said = call("vacuum", code=2).stderr
    assert all(word in said for word in ("--keep-versions", "--keep-days", "keep_days"))
    file = ran / "deltaproduce.toml"
    for days, code in (("0", 0), ("-1", 2), ("nan", 2), ("true", 2), ('"7"', 2)):
        text = file.read_text().split("keep_days")[0].rstrip()
        file.write_text(text.replace("[project]", f"[project]\nkeep_days = {days}"))
        call("vacuum", "--dry-run", code=code)
        file.write_text(text)
    file.write_text(file.read_text().replace("[project]", "[project]\nkeep_days = 0"))
    (ran / "data" / "customers.csv").write_text("customer_id,name\n1,Eve\n")
    call("run")
    assert asked("vacuum")["versions"] == [1]


def test_a_plan_compares_snapshots_and_ends_as_the_run_does(
    ran: Path, call: Call, asked: Call
) -> None:
    assert asked("plan", "--exit-code", code=3)["steps"] == []
    assert asked("run", "--exit-code", code=3)["made"] is False
    (ran / "data" / "customers.csv").write_text("customer_id,name\n1,Ann\n2,Rob\n4,Dan\n")
    planned = asked("plan", "--exit-code")
    assert [(s["stage"], s["keys"]) for s in planned["steps"]] == [
        ("customers", 3),
        ("customer_report", 3),
    ]
    assert ["customers", "3", "2", "2"] in [
        line.split() for line in call("plan").stdout.splitlines()
    ]
    made = asked("run", "--exit-code")["version"]["stages"]
    assert made["customers"]["changed_keys"] == 3


def test_a_check_prints_whole_messages_in_one_line_of_a_pipe(ran: Path, call: Call) -> None:
    """The end of a message says what to do."""
    names = ", ".join(f"column_with_a_long_name_{n}" for n in range(40))
    (ran / "data" / "customers.csv").write_text(f"{names}\n")
    said = call("check", code=1).stdout
    (line,) = (line for line in said.splitlines() if "column_with_a_long_name_0" in line)
    assert line.rstrip().endswith("column_with_a_long_name_39")


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        (("show", "custmers"), "'customers'"),
        (("explain", "customer_total"), "'customer_totals'"),
        (("graph", "--select", "+custmer_totals"), "'customer_totals'"),
        (("forget", "oders", "1"), "'orders'"),
    ],
)
def test_a_misspelt_stage_is_answered_with_the_one_that_is_meant(
    ran: Path, call: Call, args: tuple[str, ...], meant: str
) -> None:
    assert f"do you mean {meant}?" in call(*args, code=2).stderr


def test_figures_on_standard_error_are_those_of_the_version(
    ran: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a stage compares more keys than its feeders have changed."""
    monkeypatch.setattr("deltaproduce.cli.answers.progress._SECONDS", 0.0)
    (ran / "data" / "customers.csv").write_text("customer_id,name\n1,Ann\n3,Cid\n5,Eve\n")
    (ran / "data" / "orders" / "2026-01-02.csv").write_text(
        "order_id,customer_id,amount\n101,2,1.00\n"
    )
    result = call("run")
    lines = [line.split() for line in result.stdout.splitlines() if line]
    made = {
        words[0]: (words[2], words[3], words[6], words[7])
        for words in lines
        if words[0] in ("orders", "orders_by_customer", "customer_totals", "customer_report")
    }
    told = dict(line.split(": ") for line in result.stderr.splitlines())
    for stage, (keys, changed, rows, seconds) in made.items():
        assert told[stage] == f"keys {keys}, changed {changed}, rows {rows}, {seconds} s"
