"""Views of one version join the same stages once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltaproduce import Limits, Pipeline, Store
from deltaproduce.stages.sql.operators.changes import shared
from deltaproduce.stages.sql.operators.joins import join

OF = ("o.day", "l.kind", "c.city", "c.name", "l.n", "o.id % 7", "l.amount", "c.id")
FROM = (
    "customers c, orders o, lines l WHERE c.id = o.customer AND o.id = l.order",
    "lines l JOIN orders o ON l.order = o.id JOIN customers c ON o.customer = c.id",
    "orders o JOIN (SELECT * FROM lines) l ON o.id = l.order, customers c WHERE o.customer = c.id",
)


def boards(count: int) -> Pipeline:
    """So many views that group one join by different columns."""
    pipeline = Pipeline("boards")
    pipeline.source("customers", key="id bigint", value="city string, name string, note string")
    pipeline.source("orders", key="id bigint", value="customer bigint, day int, note string")
    pipeline.source("lines", key="order bigint, n int", value="kind int, amount int")
    for n, of in enumerate(OF[:count]):
        pipeline.sql(
            f"v{n}",
            f"SELECT {of} AS b, count(*) AS c, sum(l.amount) AS s FROM {FROM[n % len(FROM)]} "
            f"GROUP BY {of}",
            incremental="always",
        )
    return pipeline


def customer(n: int) -> dict[str, Any]:
    return {"id": n, "city": "abc"[n % 3], "name": f"n{n}", "note": ""}


def order(n: int, day: int | None = None) -> dict[str, Any]:
    return {"id": n, "customer": n % 50, "day": n % 9 if day is None else day, "note": ""}


def lines(n: int) -> list[dict[str, Any]]:
    return [{"order": n, "n": m, "kind": m % 3, "amount": n + m} for m in range(4)]


FIRST = {
    "customers": [customer(n) for n in range(60)],
    "orders": [order(n) for n in range(300)],
    "lines": [line for n in range(300) for line in lines(n)],
}
STEPS: tuple[dict[str, list[dict[str, Any]]], ...] = (
    {"orders": [order(900)], "lines": lines(900)},
    {"lines": [{"order": 7, "n": 2, "kind": 1, "amount": 100}]},
    {"customers": [{**customer(3), "city": "z"}], "orders": [order(8, day=100)]},
    {
        "orders": [{"id": 9, "_change_type": "delete"}],
        "lines": [{"order": 9, "n": m, "_change_type": "delete"} for m in range(4)],
    },
)


def joins(path: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often rows are joined in each step of a store with so many of the views."""
    found, whole = list[int](), join.whole

    def counted(*arguments: Any) -> Any:
        found[-1] += 1
        return whole(*arguments)

    limits = Limits(small_table_rows=0)
    with Store(None, str(path), boards(count), limits=limits) as store, monkeypatch.context() as m:
        store.update(FIRST)
        m.setattr(join, "whole", counted)
        for step in STEPS:
            found.append(0)
            store.update(step)
        assert not store.verify(recompute=True)
    return found[: len(STEPS)]


def test_as_many_joins_are_made_for_eight_views_as_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the order of tables and conditions in their texts, and the columns that they read.

    A view in whose columns nothing moves makes none, so a step that changes a column is dearer for
    those that read it.
    """
    one, eight = (joins(tmp_path / str(count), count, monkeypatch) for count in (1, len(OF)))
    assert one[0] == eight[0] > 0
    assert one[3] == eight[3] > 0
    assert eight[1] <= 2 * max(one)
    assert eight[2] <= 2 * max(one)


def test_joins_beyond_a_share_of_memory_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = joins(tmp_path / "one", 1, monkeypatch)
    monkeypatch.setattr(shared, "memory_bytes", lambda: 64)
    assert joins(tmp_path / "eight", len(OF), monkeypatch)[0] > 4 * one[0]
