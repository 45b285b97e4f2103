"""Each verb answers in text and in JSON with stable names; misuse prints one line."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from deltaproduce import InvalidArgumentError
from deltaproduce.cli.answers.values import cell, key_of
from deltaproduce.cli.verbs import VERBS
from deltaproduce.types.columns import Column, Columns
from deltaproduce.types.data_types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    StringType,
    TimestampType,
)

ANSWERED = {
    "check": ("check", (), {"stages", "problems"}),
    "graph": ("graph", (), None),
    "explain": (
        "explain",
        ("customer_totals",),
        {
            *("stage", "kind", "key", "value", "made_from", "read_by", "version", "figures"),
            *("without_new_rows", "operators"),
        },
    ),
    "doctor": ("doctor", (), None),
    "plan": ("plan", (), {"head", "new_files", "snapshots", "steps", "losses"}),
    "run": ("run", (), {"made", "version"}),
    "versions": ("versions", (), None),
    "refresh": ("refresh", ("-s", "customer_totals"), {"made", "version"}),
    "rollback": ("rollback", ("0",), {"made", "version", "inputs"}),
    "show": ("show", ("orders",), {"rows", "truncated"}),
    "updates": ("updates", ("orders", "--version", "1"), {"rows", "truncated"}),
    "changes": ("changes", ("orders", "--from", "0"), {"rows", "truncated"}),
    "diff": ("diff", ("0", "1"), {"before", "after", "stages"}),
    "lineage": (
        "lineage",
        ("customer_totals", "1"),
        {"stage", "key", "version", "upstream", "downstream"},
    ),
    "report": ("report", ("--samples", "2"), {"path", "bytes"}),
    "forget": ("forget", ("orders", "101"), {"version", "remains"}),
    "verify": ("verify", (), None),
    "repair": ("repair", (), {"made", "version"}),
    "compact": ("compact", (), {"version"}),
    "vacuum": (
        "vacuum",
        ("--keep-versions", "1", "--dry-run"),
        {"versions", "tables", "files", "bytes", "paths"},
    ),
}
"""Verb -> how it is called, and the names of its JSON object; None for an array."""

LISTS = {
    "graph": {"stage", "kind", "feeders"},
    "doctor": {"name", "state", "found", "mend"},
    "versions": {"number", "committed_at", "operation", "update_id", "time_zone", "stages"},
}
"""The names of the objects in such an array."""


def test_each_verb_is_tested():
    """`init` is by the project of all of these; three verbs have tests of their own."""
    verbs = {verb.__name__ for verbs in VERBS.values() for verb in verbs}
    assert verbs == {*ANSWERED, "init", "sync", "backfill", "compare"}


def test_each_verb_answers_in_json_and_in_text(ran, call, asked):
    for verb, args, names in ANSWERED.values():
        found = asked(verb, *args)
        if names is not None:
            assert set(found) == names, verb
        elif verb in LISTS:
            assert found, verb
            assert all(set(one) == LISTS[verb] for one in found), verb
        else:
            assert found == [], verb
        assert call(verb, *args).stdout.strip(), verb


def test_init_answers_in_json(asked, tmp_path):
    found = asked("init", tmp_path / "x")
    assert found["folder"] == str(tmp_path / "x")
    there = [p.relative_to(tmp_path / "x").as_posix() for p in (tmp_path / "x").rglob("*.*")]
    assert sorted(found["files"]) == sorted(there)


def test_rows_by_key_and_by_columns(ran, call, asked):
    (row,) = asked("show", "customer_report", "2")["rows"]
    assert row == {
        "customer_id": 2,
        "_source_customer_id": 2,
        "_ordinal": 0,
        "name": "Bob",
        "total": "35.50",
    }
    assert asked("show", "customer_report", "customer_id=2")["rows"] == [row]
    assert asked("show", "customer_report", r"\N")["rows"] == []
    limited = asked("show", "orders", "--limit", "3")
    assert (len(limited["rows"]), limited["truncated"]) == (3, True)
    assert asked("show", "orders", "--limit", "0")["truncated"] is False


def test_a_column_has_one_value_in_a_key(ran, call):
    wrong = (("customer_id=1", "customer_id=2"), ("1", "customer_id=1"), ("1", "2"))
    for keys in wrong:
        call("show", "customer_report", *keys, code=2)


def test_an_answer_that_cannot_be_printed_is_an_error_in_a_line(project, call, monkeypatch):
    def refused(*_: object, **__: object) -> str:
        raise UnicodeEncodeError("ascii", "ü", 0, 1, "ordinal not in range(128)")

    monkeypatch.setattr("deltaproduce.cli.answers.console.json.dumps", refused)
    said = call("graph", "--json", code=1).stderr
    assert said.startswith("error: UnicodeEncodeError")
    assert said.count("\n") == 1


def test_selections_of_verbs(ran, call, asked):
    assert [one["stage"] for one in asked("graph", "--select", "2+customer_report")] == [
        "customers",
        "orders_by_customer",
        "customer_totals",
        "customer_report",
    ]
    assert [one["stage"] for one in asked("graph", "-s", "orders", "-s", "customer_*")] == [
        "orders",
        "customer_totals",
        "customer_report",
    ]
    (version,) = asked("versions", "-s", "orders")
    assert set(version["stages"]) == {"orders"}
    drawn = call("graph", "--format", "mermaid", "-s", "customer_totals+").stdout
    assert drawn.splitlines() == [
        "flowchart LR",
        '  s0["customer_totals"]',
        '  s1["customer_report"]',
        "  s0 --> s1",
    ]


def test_verbs_that_find_nothing_to_do_say_so_by_3_if_asked(ran, call, asked):
    for args in (("rollback", "1"), ("repair",), ("vacuum", "--keep-versions", "9")):
        asked(*args)
        asked(*args, "--exit-code", code=3)
    assert asked("refresh", "--exit-code")["made"]
    assert asked("rollback", "0", "--exit-code")["made"]
    assert asked("vacuum", "--keep-versions", "1", "--exit-code")["versions"]


def test_damage_is_exit_code_1_and_is_mended(ran, call, asked):
    table = ran / "lake" / "shop" / "customer_totals" / "content"
    for file in table.glob("*.parquet"):
        file.unlink()
    found = asked("verify", code=1)
    assert {(one["stage"], one["table"]) for one in found} == {("customer_totals", "content")}
    assert "mend: deltaproduce repair" in call("verify", code=1).stdout
    assert asked("verify", "--select", "orders") == []
    assert asked("repair")["version"]["operation"] == "repair"
    assert asked("verify", "--recompute") == []


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("show", "nope"), "no stage 'nope'"),
        (("show", "orders", "x"), "'x' is not a value of column 'order_id'"),
        (("show", "orders", "1", "2"), "second key"),
        (("lineage", "orders", "1,2"), "'1,2'"),
        (("updates", "orders", "--version", "7"), "version 7"),
        (("changes", "orders", "--from", "1", "--to", "0"), "since"),
        (("rollback", "7"), "version 7"),
        (("vacuum",), "keep"),
        (("plan", "--select", "nope"), "no stage 'nope'"),
        (("plan", "--select", "++"), "is not a selection"),
        (("refresh", "--select", "orders"), "sources only"),
        (("forget", "customer_totals", "1"), "customer_totals"),
        (("run", "--as-of", "x"), "'x'"),
    ],
)
def test_wrong_use_is_a_line_and_exit_code_2(ran, call, args, said):
    result = call(*args, code=2)
    assert said in result.stderr
    assert "Traceback" not in result.output
    assert not result.stdout


def test_what_is_shown_of_a_key_can_be_given_as_one():
    kinds = (
        *(BinaryType(), DateType(), DecimalType(5, 2), BooleanType(), StringType()),
        TimestampType(),
    )
    columns = tuple(Column(name, kind) for name, kind in zip("abcdef", kinds, strict=True))
    moment = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    key = (b"\x00\xffa", date(1, 1, 1), Decimal("-1.10"), False, "é", moment)
    assert key_of(",".join(map(str, map(cell, key))), Columns(columns)) == key
    with pytest.raises(InvalidArgumentError, match="'abc' is not a value of column 'a', a binary"):
        key_of("abc", Columns(columns[:1]))


def test_nested_values_are_shown_as_json():
    assert cell([None, True, "é", {"x": 1.5}]) == '[null, true, "é", {"x": 1.5}]'
    assert [cell(None), cell(True), cell("null")] == ["NULL", "true", "null"]


def test_a_run_tells_openlineage_of_its_version(project, call, asked, monkeypatch, tmp_path):
    told = tmp_path / "events"
    transport = {"type": "file", "log_file_path": str(told), "append": True}
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", json.dumps(transport))
    for _ in range(2):  # the second makes none
        call("run", "--openlineage")
        jobs = [json.loads(line)["job"]["name"] for line in told.read_text().splitlines()]
        stages = [one["stage"] for one in asked("graph")]
        assert jobs == ["shop", *(f"shop.{stage}" for stage in stages)]
