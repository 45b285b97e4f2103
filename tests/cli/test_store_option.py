"""Verbs that read a store at a place, without the project that made it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


@pytest.fixture
def place(ran: Path, call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The store of the sample project, with a second version; elsewhere is no project."""
    orders = "order_id,customer_id,amount,_change_type\n102,2,40.00,upsert\n104,,,delete\n"
    (ran / "data" / "orders" / "2026-01-02.csv").write_text(orders)
    call("run")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    return ran / "lake" / "shop"


def test_rows_are_those_of_the_project_without_the_librarys_columns(
    place: Path, ran: Path, asked: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = ("--store", place)
    shown = asked("show", "customer_totals", *at)["rows"]
    assert shown == [
        {"customer_id": 1, "total": "24.50"},
        {"customer_id": 2, "total": "40.00"},
    ]
    assert asked("show", "customer_totals", "2", "--version", 1, *at)["rows"] == [
        {"customer_id": 2, "total": "35.50"}
    ]
    verbs = (
        ("updates", "customer_report"),
        ("changes", "orders", "--from", 1),
        ("diff", 1, 2),
        ("versions",),
    )
    there = [asked(*verb, *at) for verb in verbs]
    monkeypatch.chdir(ran)
    assert there == [asked(*verb) for verb in verbs]
    assert shown == [
        {name: row[name] for name in ("customer_id", "total")}
        for row in asked("show", "customer_totals")["rows"]
    ]


def test_what_is_not_there_is_said(place: Path, call: Call) -> None:
    assert "there is no store at" in call("show", "orders", "--store", "none/here", code=2).stderr
    assert "totals" in call("show", "total", "--store", place, code=2).stderr
    call("versions", "--select", "orders", "--store", place, code=2)
