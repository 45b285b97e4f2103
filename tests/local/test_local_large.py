"""Steps of many rows and keys that still fit on one machine."""

import random
from collections import defaultdict

import deltaproduce as dp
from deltaproduce import Pipeline, Store

ORDERS = 60_000
CUSTOMERS = 9_000


def pipeline():
    shop = Pipeline("shop")
    orders = shop.source("orders", key="id bigint", value="customer string, amount bigint")

    @shop.producer(orders, key="customer string", value="id bigint, amount bigint")
    def by_customer(number, values):
        for value in values:
            yield value.customer, (number, value.amount)

    @shop.producer(by_customer, key="customer string", value="total bigint, orders int")
    def totals(customer, values):
        amounts = [value.amount for value in values]
        yield customer, (sum(amounts), len(amounts))

    return shop


def batch(orders, gone=()):
    upserts = [
        {"id": number, "customer": customer, "amount": amount, "_change_type": "upsert"}
        for number, (customer, amount) in orders.items()
    ]
    return {"orders": [*upserts, *({"id": number, "_change_type": "delete"} for number in gone)]}


def expected(orders):
    found = defaultdict(list)
    for customer, amount in orders.values():
        found[customer].append(amount)
    return {customer: (sum(amounts), len(amounts)) for customer, amounts in found.items()}


def stored(store, version=None):
    rows = store.content("totals", version).to_pylist()
    return {row["customer"]: (row["total"], row["orders"]) for row in rows}


def test_many_keys_change_in_one_version(location):
    """More than a predicate names, more than a run has, and folded afterwards."""
    draw = random.Random(7)

    def drawn(numbers):
        return {n: (f"c{draw.randrange(CUSTOMERS)}", draw.randrange(1_000)) for n in numbers}

    orders = drawn(range(ORDERS))
    limits = dp.Limits(
        small_table_rows=0, replaced_percent=900, run_rows=40_000, compaction_rows=20_000
    )
    with Store(None, location, pipeline(), limits=limits) as store:
        states = [dict(orders)]
        store.update(batch(orders))
        for count in (12_000, 30_000, 50):
            changed = drawn(draw.sample(range(ORDERS), count))
            gone = draw.sample([*orders.keys() - changed.keys()], count // 10)
            orders |= changed
            for number in gone:
                del orders[number]
            version = store.update(batch(changed, gone))
            states.append(dict(orders))
            assert version.stages["by_customer"].changed_keys <= CUSTOMERS
        store.wait()
        for number, state in enumerate(states, 1):
            assert stored(store, number) == expected(state)
            found = store.content("by_customer", number)
            assert len(found) == len(state)
        assert store.verify() == ()
    assert store.head.number == len(states)
