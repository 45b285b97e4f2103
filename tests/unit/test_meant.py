"""What is misspelt or misplaced is answered with what is meant; refused joins with what works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import deltaproduce as dp
from deltaproduce.stages.queries import key_local
from deltaproduce.types.excerpts import meant

NAMES = st.lists(st.text(alphabet="abcdefgh_", min_size=3, max_size=12), min_size=1, unique=True)


@given(NAMES, st.data())
def test_a_name_in_other_case_is_meant_and_all_names_are_listed_else(
    names: list[str], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(names))
    assert meant(name.upper(), names) == f"do you mean {name!r}?"
    told = meant("0123456789", names)
    assert told.startswith("known: ")
    assert len(told.split(", ")) == min(len(names), 20)


def shop() -> dp.Pipeline:
    pipeline = dp.Pipeline("shop")
    pipeline.source("orders", key="order_id bigint", value="customer_id bigint, amount bigint")
    pipeline.source("payments", key="payment_id bigint", value="order_id bigint, paid bigint")
    pipeline.source("lines", key="order_id bigint, line bigint", value="n bigint")
    return pipeline


CALLS: tuple[tuple[Callable[[], object], str], ...] = (
    (lambda: cast("Any", dp.agg).summ("x"), "'sum'"),
    (lambda: cast("Any", dp.agg).count_distint("x"), "'count_distinct'"),
    (lambda: cast("Any", dp.Store)("lake/x", shop()), "Store(None, 'lake/x', pipeline)"),
    (lambda: cast("Any", dp.Store)("lake/x", "y", shop()), "Store(None, 'lake/x', pipeline)"),
    (lambda: cast("Any", dp.Store)(None, shop()), "Store(None, "),
    (lambda: shop().graph().stage("oders"), "'orders'"),
    (lambda: shop().aggregate("t", "oders", key="x", values={}), "'orders'"),
    (lambda: shop().sql("t", "SELECT * FROM oders", key="order_id"), "'orders'"),
    (
        lambda: shop().aggregate("t", "orders", key="custmer_id", values={"n": dp.agg.count()}),
        "'customer_id'",
    ),
)


@pytest.mark.parametrize(("call", "said"), CALLS)
def test_a_misspelt_or_misplaced_argument(call: Callable[[], object], said: str) -> None:
    with pytest.raises((dp.DeltaProduceError, AttributeError)) as caught:
        call()
    assert said in str(caught.value)


def test_the_names_of_agg_that_are_none_are_no_attributes() -> None:
    assert not hasattr(dp.agg, "summ")
    assert callable(dp.agg.sum)


def test_columns_of_unknown_type_show_their_names_alone() -> None:
    stage = shop().sql("t", "SELECT order_id, amount FROM orders", key="order_id desc")
    assert repr(stage) == "Producer('t', sql, key='order_id DESC', reads=orders)"
    assert stage.schema.value.label == "amount"


KEYED = (
    (
        "SELECT a.order_id FROM orders a JOIN orders b ON a.customer_id = b.customer_id",
        ["one of orders with the key customer_id,"],
    ),
    (
        "SELECT o.* FROM orders o LEFT ANTI JOIN payments p ON o.order_id = p.order_id",
        ["one of payments with the key order_id,"],
    ),
    (
        "SELECT * FROM orders o WHERE NOT EXISTS "
        "(SELECT 1 FROM payments p WHERE p.order_id = o.order_id)",
        ["one of payments with the key order_id,"],
    ),
    (
        "SELECT * FROM orders WHERE order_id NOT IN (SELECT order_id FROM payments)",
        ["one of payments with the key order_id,"],
    ),
    ("SELECT * FROM orders o JOIN payments USING (order_id)", ["one of payments"]),
    (
        "SELECT o.* FROM orders o JOIN payments p ON o.customer_id = p.paid AND o.amount = p.paid",
        ["one of orders with the key customer_id, amount and one of payments with the key paid,"],
    ),
)


@pytest.mark.parametrize(("query", "said"), KEYED)
def test_a_join_that_is_not_key_local_says_which_stage_to_key_by_what(
    query: str, said: list[str]
) -> None:
    """And not to equate keys that never belong together."""
    with pytest.raises(dp.DefinitionError) as caught:
        key_local(query, {one.name: one.schema for one in shop().stages}, stage="t")
    assert all(part in str(caught.value) for part in said), str(caught.value)
    assert "payment_id" not in str(caught.value)


def test_what_the_advice_says_is_accepted() -> None:
    pipeline = shop()
    pipeline.sql("paid_orders", "SELECT * FROM payments", key="order_id")
    pipeline.sql("by_customer", "SELECT * FROM orders", key="customer_id")
    anti = "SELECT o.* FROM orders o LEFT ANTI JOIN paid_orders p ON o.order_id = p.order_id"
    pipeline.sql("unpaid", anti, key="order_id")
    pairs = (
        "SELECT a.customer_id, a.order_id, b.order_id AS other FROM by_customer a "
        "JOIN by_customer b ON a.customer_id = b.customer_id AND a.order_id < b.order_id"
    )
    pipeline.sql("pairs", pairs, key="customer_id")


def test_a_join_that_lacks_a_part_of_the_key_is_told_to_add_it() -> None:
    pipeline, query = shop(), "SELECT a.* FROM lines a JOIN lines b ON a.order_id = b.order_id"
    with pytest.raises(dp.DefinitionError, match=r"add to its ON, with AND: `a`.`line` = `b`"):
        key_local(query, {one.name: one.schema for one in pipeline.stages}, stage="t")
