"""A rollback in a project says what the next run does, and holds or retakes inputs if asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaproduce.cli.inputs.positions import TakenFiles
from deltaproduce.cli.inputs.rollbacks import held, retaken
from deltaproduce.shown.update_ids import run_id

Call = Callable[..., Any]

FILES = st.dictionaries(
    st.sampled_from(["s", "t"]),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from("123"), min_size=1),
    max_size=2,
)


@given(st.lists(FILES), st.lists(FILES), FILES)
def test_after_a_retake_the_same_files_are_new_as_then(
    first: list[Any], later: list[Any], there: Any
) -> None:
    ids = [run_id(number, files) for number, files in enumerate([*first, *later], 1)]
    before, now = TakenFiles.of(ids[: len(first)]), TakenFiles.of(ids)
    rolled_back = run_id(now.runs + 1, retaken(before, now), rollback=1)
    assert TakenFiles.of([*ids, rolled_back]).new(there) == before.new(there)


def test_what_is_held_is_what_was_held_last() -> None:
    ids = [
        "another",
        run_id(1, {}, {"s": {"a": "1"}, "t": {"b": "1"}}, 1),
        run_id(2, {"u": {"x": "1"}}),
        run_id(3, {}, {"s": {}}),
        '{"run":4,"files":{},"held":{"t":7}}',
    ]
    assert held(ids) == {"t": {"b": "1"}}


@pytest.fixture
def changed(ran: Path, call: Call) -> Path:
    """The sample project, whose second version has another name and another order."""
    (ran / "data" / "customers.csv").write_text("customer_id,name\n1,Eve\n2,Bob\n3,Cid\n")
    (ran / "data" / "orders" / "2026-01-02.csv").write_text(
        "order_id,customer_id,amount\n105,2,1.00\n"
    )
    call("run")
    return ran


def state(asked: Call) -> tuple[str, int]:
    """The name of customer 1, and the number of orders."""
    (row,) = asked("show", "customers", "1")["rows"]
    return row["name"], len(asked("show", "orders")["rows"])


def test_without_a_choice_it_says_what_the_next_run_does(
    changed: Path, call: Call, asked: Call
) -> None:
    said = call("rollback", "1").stdout
    assert "the next run takes the snapshots again, with their rows: customers" in said
    assert "these files stay taken, and their rows are gone: orders/2026-01-02.csv" in said
    assert "rollback 1 --hold" in said
    assert "rollback 1 --retake" in said
    assert state(asked) == ("Ann", 4)
    call("run")
    assert state(asked) == ("Eve", 4)


def test_a_held_snapshot_is_left_until_its_files_change(
    changed: Path, call: Call, asked: Call
) -> None:
    assert "held until their files change: customers" in call("rollback", "1", "--hold").stdout
    assert asked("versions")[-1]["update_id"] is not None
    assert asked("plan", "--exit-code", code=3)["steps"] == []
    assert asked("run", "--exit-code", code=3)["made"] is False
    assert state(asked) == ("Ann", 4)
    path = changed / "data" / "customers.csv"
    eve = path.read_text()
    path.write_text(eve.replace("Eve", "Zoe"))
    call("run")
    assert state(asked) == ("Zoe", 4)
    path.write_text(eve)  # what was held once is taken when it comes back
    call("run")
    assert state(asked) == ("Eve", 4)


def test_retaken_files_are_new_again(changed: Path, call: Call, asked: Call) -> None:
    said = call("rollback", "1", "--retake", "--hold").stdout
    assert "new again, for the next run: orders/2026-01-02.csv" in said
    assert (
        "rollback to 1: holds customers; retakes orders/2026-01-02.csv" in call("versions").stdout
    )
    assert asked("plan")["new_files"] == {"orders": ["2026-01-02.csv"]}
    call("run")
    assert state(asked) == ("Ann", 5)
    assert asked("run")["made"] is False


def test_a_choice_may_come_after_the_rollback(changed: Path, call: Call, asked: Call) -> None:
    """The store is at version 1 already, and still the choice is kept."""
    call("rollback", "1")
    call("rollback", "1", "--hold", "--retake")
    call("run")
    assert state(asked) == ("Ann", 5)


def test_there_has_to_be_something_to_retake(ran: Path, call: Call) -> None:
    assert "--retake" in call("rollback", "1", "--retake", code=2).stderr
