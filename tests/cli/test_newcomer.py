"""The newcomer's path: make a sample, run it, change it, rerun it and view it, without Java."""

from pathlib import Path

CHANGES = "order_id,customer_id,amount,_change_type\n102,2,40.00,upsert\n104,,,delete\n"


def test_the_newcomers_path(project, call, asked):
    assert asked("check") == {
        "stages": [
            "orders",
            "customers",
            "orders_by_customer",
            "customer_totals",
            "customer_report",
        ],
        "problems": [],
    }
    planned = asked("plan", "--exit-code")
    assert [(step["stage"], step["how"]) for step in planned["steps"]] == [
        ("orders", "changes"),
        ("customers", "changes"),
        ("orders_by_customer", "full"),
        ("customer_totals", "full"),
        ("customer_report", "full"),
    ]
    assert planned["new_files"] == {"orders": ["2026-01-01.csv"]}
    assert planned["head"] == 0
    assert not (project / "lake").exists()  # it writes nothing

    assert call("run").stdout.splitlines()[-1].startswith("version 1, update, ")
    assert asked("run")["made"] is False  # a file is taken once, and equal rows are no change
    assert "nothing to do: version 1" in call("run", "--exit-code", code=3).stdout
    assert "nothing to do: version 1" in call("plan", "--exit-code", code=3).stdout  # as the run

    (project / "data" / "orders" / "2026-01-02.csv").write_text(CHANGES)
    customers = project / "data" / "customers.csv"
    customers.write_text(customers.read_text().replace("Ann", "Anna"))
    made = asked("run", "--exit-code")
    assert (made["made"], made["version"]["number"]) == (True, 2)  # of both inputs together
    assert made["version"]["stages"]["customers"]["changed_keys"] == 1

    told = [
        (row["_change_type"], row["customer_id"], row["name"], row["total"])
        for row in asked("updates", "customer_report")["rows"]
    ]
    assert told == [
        ("update", 1, "Anna", "24.50"),
        ("update", 2, "Bob", "40.00"),
        ("update", 3, "Cid", None),
    ]
    shown = call("show", "customer_report").stdout
    assert [line.split() for line in shown.splitlines()[2:]] == [
        ["1", "Anna", "24.50", "1", "0"],
        ["2", "Bob", "40.00", "2", "0"],
        ["3", "Cid", "NULL", "3", "0"],
    ]
    versions = call("versions").stdout.splitlines()
    assert versions[-2].endswith("run 1: orders/2026-01-01.csv")
    assert versions[-1].endswith("run 2: orders/2026-01-02.csv")


def test_content_that_comes_back_is_taken_again(ran, call, asked):
    """A file that is written over with what it had two runs before is a new batch."""
    file: Path = ran / "data" / "orders" / "2026-01-01.csv"
    one = file.read_text()
    file.write_text(one.replace("20.00", "21.00"))
    call("run")
    file.write_text(one)
    call("run")
    amounts = [row["amount"] for row in asked("show", "orders", "101")["rows"]]
    assert (asked("versions")[-1]["number"], amounts) == (3, ["20.00"])


def test_of_several_new_files_the_last_one_counts_key_by_key(project, call, asked):
    """As if each file had been a version: also where one deletes what another has."""
    folder = project / "data" / "orders"
    head = "order_id,customer_id,amount,_change_type\n"
    (folder / "2026-01-02.csv").write_text(head + "101,,,delete\n105,3,1.00,upsert\n")
    (folder / "2026-01-03.csv").write_text(head + "101,2,7.00,upsert\n105,,,delete\n102,,,delete\n")
    call("run")
    rows = asked("show", "orders")["rows"]
    assert [(row["order_id"], row["customer_id"], row["amount"]) for row in rows] == [
        (101, 2, "7.00"),
        (103, 1, "4.50"),
        (104, 3, "12.00"),
    ]


def test_a_rollback_does_not_bring_files_back(ran, call, asked):
    (ran / "data" / "orders" / "2026-01-02.csv").write_text(CHANGES)
    call("run")
    assert asked("rollback", "1")["version"]["operation"] == "rollback"
    assert asked("run")["made"] is False
