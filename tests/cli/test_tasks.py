"""Projects with partitioned stages: run a day, show a task, make a task again."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from deltaproduce.cli.answers.values import partitions_of

SCOPES = "scopes FOR t IN timeseries('1 day', 2), LET d = date_format(t, 'yyyy-MM-dd')"
FILES = {
    "deltaproduce.toml": (
        '[project]\nname = "shop"\nlocation = "./lake"\n\n'
        '[sources.sales]\nformat = "csv"\npath = "sales/*.csv"\nmode = "changes"\n'
    ),
    "stages/sales.sql": (
        "EXTERNAL sales (columns (day string, n bigint, sold bigint), key (day, n), "
        "partition (day));"
    ),
    "stages/days.sql": (
        f"STAGE days (key (n), partition (day = d), {SCOPES});\n"
        "SELECT n, sold FROM sales WHERE sales.day = d"
    ),
    "sales/1.csv": "day,n,sold\n2022-03-31,1,5\n2022-03-30,2,6\n",
}


@pytest.fixture
def shop(project_of: Callable[[Mapping[str, str]], Path]) -> Path:
    return project_of(FILES)


def test_a_day_is_run_shown_and_made_again(
    shop: Path, call: Callable[..., Any], asked: Callable[..., Any]
) -> None:
    assert asked("check")["problems"] == []
    graph = asked("graph", "--as-of", "2022-03-31")
    assert [one["state"] for one in graph] == ["missing", "missing"]
    assert asked("run", "--as-of", "2022-03-31")["made"]
    assert [one["sold"] for one in asked("show", "days")["rows"]] == [6, 5]
    told = asked("show", "days", "day=2022-03-31")
    assert told == {
        "task": "days/day=2022-03-31",
        "state": "present",
        "scope": {"t": told["scope"]["t"], "d": "2022-03-31"},
        "partition": {"day": "2022-03-31"},
        "dependencies": ["sales/day=2022-03-31"],
    }
    text = call("show", "days", "day=2022-03-31").stdout
    assert all(title in text for title in ("Evaluation Scope", "Partition columns", "Dependencies"))
    assert len(asked("show", "days", "day=2022-03-31", "--rows")["rows"]) == 1
    rehearsed = asked("backfill", "days", "day=2022-03-31", "--dry-run")
    assert rehearsed["tasks"] == ["days/day=2022-03-31"]
    assert rehearsed["sizes"][0]["rows"] == 1
    assert not asked("run", "--as-of", "2022-03-31", "--dry-run")["done"]
    assert "sales/day=2022-03-31" in call("graph", "--as-of", "2022-03-31").stdout
    assert " --> " in call("graph", "--as-of", "2022-03-31", "--format", "mermaid").stdout
    call("run", "--dry-run", code=2)
    made = asked("backfill", "days", "day=2022-03-31")
    assert made["tasks"] == ["days/day=2022-03-31"]
    both = ("day=2022-03-31", "day=2022-03-30")
    assert len(asked("backfill", "days", *both, "--dry-run")["tasks"]) == 2
    since = ("--where", "day >= '2022-03-31' OR day IS NULL", "--atomic")
    assert asked("backfill", "days", *since)["tasks"] == ["days/day=2022-03-31"]
    call("backfill", "days", "day=2022-03-31", *since, code=2)
    call("backfill", "days", "--where", "nope = 1", code=2)
    call("backfill", "days", "nope=1", code=2)
    call("backfill", "days", "day", code=2)
    call("show", "days", "day=1999-01-01", code=2)
    assert asked("run", "--as-of", "2022-03-31", "--exit-code", code=3)["made"] is False


def test_a_null_partition_is_written_as_in_keys() -> None:
    assert partitions_of([r"day=\N", "day=null"]) == {"day": [None, "null"]}


def test_a_check_lists_what_is_wrong_in_each_file(
    shop: Path, call: Callable[..., Any], asked: Callable[..., Any]
) -> None:
    """There is no pipeline then, and other verbs say the first problem."""
    for name in ("one", "other"):
        text = f"STAGE {name} (key (n), partition (day = d), {SCOPES});\nSELECT n, x FROM days"
        (shop / "stages" / f"{name}.sql").write_text(text)
    found = asked("check", code=1)
    assert found["stages"] == []
    assert [(one["file"], one["line"], one["severity"]) for one in found["problems"]] == [
        (f"stages/{name}.sql", 2, "error") for name in ("one", "other")
    ]
    assert "stages/other.sql:2: " in call("check", code=1).stdout
    assert "stages/one.sql:2: " in call("plan", code=2).stderr


HOURS = (
    "STAGE hours (key (n), partition (t), scopes FOR t IN timeseries('1 hour', 1));\n"
    "SELECT n, sold FROM sales WHERE sales.day = date_format(t, 'yyyy-MM-dd')"
)


def test_a_run_at_a_time_makes_the_tasks_of_that_time(
    shop: Path, asked: Callable[..., Any]
) -> None:
    """Also those that its files make dirty, in their version; and none of another time."""
    (shop / "stages" / "hours.sql").write_text(HOURS)

    def states(time: str) -> dict[str, str]:
        found = asked("graph", "--as-of", time)
        return {one["task"]: one["state"] for one in found if one["task"].startswith("hours/")}

    ten, task = "2022-03-31T10:00", "hours/t=2022-03-31T10:00:00Z"
    number = asked("run", "--as-of", ten)["version"]["number"]
    assert states(ten) == {task: "present"}
    assert asked("run", "--as-of", ten, "--exit-code", code=3)["made"] is False
    (shop / "sales" / "2.csv").write_text("day,n,sold\n2022-03-31,1,9\n")
    assert asked("run", "--as-of", ten)["version"]["number"] == number + 1
    assert states(ten) == {task: "present"}
    assert [one["sold"] for one in asked("show", "hours")["rows"]] == [9]
    assert set(states("2022-03-31").values()) == {"missing"}


def test_the_task_of_a_time_is_shown_without_its_zone(
    shop: Path, asked: Callable[..., Any]
) -> None:
    """Times of tasks are in UTC, on every machine."""
    (shop / "stages" / "hours.sql").write_text(HOURS)
    day = ("--as-of", "2022-03-31T10:00:00")
    for time in ("2022-03-31T10:00:00", "2022-03-31T10:00:00Z", "2022-03-31T12:00:00+02:00"):
        found = asked("show", "hours", f"t={time}", *day)
        assert found["task"] == "hours/t=2022-03-31T10:00:00Z"


def test_a_variable_has_another_value_for_one_call(shop: Path, call: Callable[..., Any]) -> None:
    project, days = shop / "deltaproduce.toml", shop / "stages" / "days.sql"
    project.write_text(f"{project.read_text()}\n[vars]\nleast = 6\n")
    days.write_text(f"{days.read_text()} AND sold >= least")
    call("run", "--as-of", "2022-03-31")
    assert "5" not in call("show", "days").stdout
    call("run", "--as-of", "2022-03-31", "--var", "least=5")
    assert "5" in call("show", "days", "--var", "least=5").stdout
    for wrong in ("least", "least=x", "most=5"):
        call("check", "--var", wrong, code=2)


def test_a_check_names_what_a_changed_column_breaks(
    shop: Path, call: Callable[..., Any], asked: Callable[..., Any]
) -> None:
    later = f"STAGE later (key (n), partition (day = d), {SCOPES});\nSELECT n, sold FROM days"
    (shop / "stages" / "later.sql").write_text(f"{later} WHERE day = d\n")
    call("run", "--as-of", "2022-03-31")
    days = shop / "stages" / "days.sql"
    days.write_text(
        days.read_text().replace("key (n)", "key (n, sold)").replace("FROM", ", 1 AS x FROM")
    )
    found = [one for one in asked("check", code=1)["problems"] if one["users"]]
    assert [(one["stage"], one["users"], one["file"], one["line"]) for one in found] == [
        ("days", ["later"], "stages/days.sql", 1)
    ]
    assert "used by later" in call("check", "--select", "later", code=1).stdout
