"""Plans before an update: what they say, and that they write nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaproduce as dp


def shop(factor: int = 1, total: str = "total bigint", more: bool = False) -> dp.Pipeline:
    pipeline = dp.Pipeline("shop")
    orders = pipeline.source("orders", key="id bigint", value="customer string, amount bigint")

    @pipeline.producer(orders, key="customer string", value="amount bigint")
    def by_customer(key: int, values: Any) -> Any:
        yield from ((value.customer, value.amount * factor) for value in values)

    @pipeline.producer(by_customer, key="customer string", value=total)
    def totals(customer: str, amounts: Any) -> Any:
        yield customer, sum(amounts)

    if more:

        @pipeline.producer(by_customer, key="customer string", value="amounts bigint")
        def counts(customer: str, amounts: Any) -> Any:
            yield customer, len(list(amounts))

    return pipeline


ORDERS = [{"id": i, "customer": f"c{i % 3}", "amount": i} for i in range(10)]


@pytest.fixture
def made(location: str) -> str:
    with dp.Store(None, location, shop(more=True)) as store:
        store.update({"orders": ORDERS})
    return location


def told(plan: dp.Plan) -> dict[str, tuple[Any, ...]]:
    return {step.stage.name: (step.cause, step.how, step.keys, step.share) for step in plan}


def files(location: str) -> dict[str, int]:
    found = (path for path in Path(location).rglob("*") if path.is_file())
    return {str(path): path.stat().st_mtime_ns for path in found}


def test_what_is_not_known_is_none_and_not_zero(made: str) -> None:
    with dp.Store(None, made, shop(more=True)) as store:
        assert told(store.plan(["orders"])) == {
            "orders": ("given", "changes", None, None),
            "by_customer": ("reached", "incremental", None, None),
            "totals": ("reached", "incremental", None, None),
            "counts": ("reached", "incremental", None, None),
        }
        text = str(store.plan(["orders"]))
        assert text.count("unknown") == 8
        rows = [*ORDERS[:2], ORDERS[0]]
        for given in (rows, pa.Table.from_pylist(rows)):
            assert told(store.plan({"orders": given})) == {
                "orders": ("given", "changes", 2, 0.2),
                "by_customer": ("reached", "incremental", 2, 0.2),
                "totals": ("reached", "incremental", None, None),
                "counts": ("reached", "incremental", None, None),
            }


@pytest.mark.parametrize(
    ("keys", "known"),
    [
        (pa.array(["b", "a", "b"], pa.string_view()), 2),  # as Polars gives them
        (pa.array(["b", "a", None]).dictionary_encode(), 3),
        (pa.array([["b"], ["a"], []], pa.large_list(pa.string())), None),
        (pa.array([2**63, 0, 1], pa.uint64()), None),
    ],
)
def test_keys_are_counted_in_their_type_or_not_known(
    location: str, keys: pa.Array, known: int | None
) -> None:
    """An update says what is wrong with keys of another type; a plan does not fail."""
    pipeline = dp.Pipeline("shop")
    pipeline.source("orders", key="id string", value="n bigint")
    with dp.Store(None, location, pipeline) as store:
        (step,) = store.plan({"orders": pa.table({"id": keys, "n": range(3)})})
        assert step.keys == known


def test_a_changed_function_is_named_and_what_it_reaches(made: str) -> None:
    with dp.Store(None, made, shop(2, more=True)) as store:
        plan = store.plan()
        assert told(plan) == {
            "by_customer": ("changed", "full", None, 1.0),
            "totals": ("reached", "incremental", None, None),
            "counts": ("reached", "incremental", None, None),
        }
        (part,) = plan[0].altered
        assert (part.part, part.diff) == ("function", "")  # a value from around it is another one
        assert plan.skipped == ("orders",)
        assert plan.losses == ()


def test_changed_columns_are_shown_old_and_new_and_removed_stages_with_their_rows(
    made: str,
) -> None:
    with dp.Store(None, made, shop(total="total double")) as store:
        plan = store.plan()
        assert plan[0].altered == (dp.Altered("value columns", "total bigint", "total double"),)
        assert [(loss.stage, loss.what, loss.rows) for loss in plan.losses] == [
            ("totals", "changes", None),
            ("counts", "stage", 3),
        ]
        text = str(plan)
        assert "totals: value columns changed: total bigint -> total double" in text
        assert "lost: counts is not in the pipeline any more" in text
        assert "<td" in plan._repr_html_()


def test_a_new_stage_is_added(made: str) -> None:
    with dp.Store(None, made, shop()) as store:
        store.update({"orders": ORDERS[:1]}, "without counts")
    with dp.Store(None, made, shop(more=True)) as store:
        assert told(store.plan()) == {"counts": ("added", "full", None, 1.0)}


def test_a_plan_writes_nothing_and_is_a_plain_tuple_too(made: str) -> None:
    with dp.Store(None, made, shop(2, "total double")) as store:
        before, head = files(made), store.head
        plan = store.plan({"orders": ORDERS})
        str(plan), plan._repr_html_(), repr(plan)
        assert (files(made), store.head) == (before, head)
        assert json.loads(json.dumps(plan.as_dict()))["head"] == head.number
        assert len(repr(plan)) < 120
        assert [step.stage.name for step in plan] == ["orders", "by_customer", "totals"]
        assert list(plan) == [plan[0], *plan[1:]]
    with dp.Store(None, made, shop(more=True)) as store:
        assert store.plan() == ()
        assert "nothing to do" in str(store.plan())
