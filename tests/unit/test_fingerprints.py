"""Fingerprints in version logs: current code computes those that stores have written."""

import sys
from types import ModuleType

import pytest

from deltaproduce import Pipeline
from deltaproduce.model.fingerprints import described, fingerprint

shop = Pipeline("shop")
orders = shop.source("orders", key="order_id bigint", value="customer_id bigint, amount int")
returns = shop.source("returns", key="order_id bigint", value="customer_id bigint, amount int")
visits = shop.delta_source("visits", table="lake/visits", key="day desc", value="customer_id")


@shop.producer(orders, returns, key="customer_id bigint desc", value="amount int")
def amounts(order_id, ordered, returned):
    """Amounts by customer."""
    for value in ordered:
        yield value.customer_id, value.amount
    for value in returned:
        yield value.customer_id, -value.amount


@shop.producer(amounts, key="amount int", value="id bigint, customer_id bigint", surrogate="id")
def numbered(customer_id, found):
    for amount in found:
        yield amount, (None, customer_id)


def first(value, example):
    return value if example is None else example


@shop.producer(amounts, key="customer_id bigint", value="amount int", preserve=first)
def kept(customer_id, found):
    yield customer_id, max(found)


@shop.producer(amounts, key="customer_id bigint", value="amount int", revision="of 2026")
def revised(customer_id, found):
    yield customer_id, min(found)


@shop.arrow_producer(orders, key="customer_id bigint", value="amount int")
def tables(table):
    return table.rename_columns(["_source_order_id", "customer_id", "amount"])


@shop.arrow_producer(orders, key="customer_id bigint", value="amount int", streaming=True)
def streamed(batches):
    yield from batches


shop.sql("large", "SELECT customer_id, amount FROM orders WHERE amount > 10", key="customer_id")


def calling(inner):
    def outer(customer_id, found):
        return inner(customer_id, found)

    return outer


shop.producer("amounts", key="customer_id bigint", value="amount int", name="nested")(calling(kept))

STORED = {
    "orders": [
        "830583d3bff9556f83c90a45339dd8e04554ce5a7a83be1958fc9184610f9956",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ],
    "returns": [
        "a89bfaa852262de7369eb0b129a8197e344be26d7ac7ea8d37d6638d11d47c0d",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ],
    "visits": [
        "251429aa12bcabf3277fcc51cd02b1d523c4acd7dfc00fdef095963edb5f0876",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ],
    "amounts": [
        "6e55f7ebcdbaa1400c7ee2732f35d54a0ac44d97730980e18e85692dabc90fdb",
        "8558e6007addecbf42e2d66b23bf4cc00fc4c9c4aef535218a499e9fdd327236",
    ],
    "numbered": [
        "1ad9cc567037e6f319d313a431743cc2d46683ea2e60e5c2d2183d59dffe9d41",
        "64d86fba6b3f12cf497acb2606b966d8956f6566fe0933a64442e7b75c03ae58",
    ],
    "kept": [
        "27317cb834815ec0fdb28fc52bc50d0e01dd3ed7c9d5786f2eedbe3247420532",
        "c3df54b5cf2bfef62d25d6b34e4a97ab2d8986621a09a81104bbeef02aa7c116",
    ],
    "revised": [
        "bb7e571b7f53f02b202940e7afca2da5f99856c063aa0e844ccb00600c0abdce",
        "0375e76a8aa3099e7dcd14976ebc05c0da1f81dfd9298234404b9524db560a9b",
    ],
    "tables": [
        "81b995d9f05ce1c38685dba13a840f5309d569980165feb0b1014728ddce1001",
        "068b433362b9d0bab643ad3e214b9bc6a2d7b744f9af7026b7c53ef165d2fe52",
    ],
    "streamed": [
        "33b587078e0dc42b5f29d0e358d6efe74343219d2102457493b4585f998aecaf",
        "c4e8eb403c9554e943f3e4f5f84c57a9567831e73f134f5f366d59a1c8fdc62b",
    ],
    "large": [
        "c5398833e5a1baf07d13d42e6fc65c48801e10bac430af95145102bdd7c6b95b",
        "e016a2135f9afe64e00bcd3a4a71525903563e111390392f209fd91980536753",
    ],
    "nested": [
        "ed9c3f027b66802297b5da1ceae6a089c252a94db06fc566ee05e50b6db2c5d6",
        "29c328c60f27e339d5b72adef086125c8500eeb8d96cdf9c7e9e2bbf3899127b",
    ],
}


@pytest.mark.parametrize("stage", shop.stages, ids=lambda stage: stage.name)
def test_the_fingerprints_of_stored_versions(stage):
    found = fingerprint(stage)
    assert [found.layout, found.function] == STORED[stage.name]


class _Watched(ModuleType):
    """A module that counts how often somebody asks for its file."""

    asked = 0

    def __getattribute__(self, name: str) -> object:
        if name == "__file__":
            _Watched.asked += 1
        return super().__getattribute__(name)


def test_no_other_module_is_looked_at_for_the_source_of_a_function(monkeypatch) -> None:
    """Python looks at the files of all modules for a code object; a fresh file has no memory."""
    namespace = {"__name__": "some_module"}
    exec(compile("def made(key, values):\n    yield key, 1\n", "fresh.py", "exec"), namespace)
    monkeypatch.setitem(sys.modules, "watched", _Watched("watched"))
    described(namespace["made"])
    assert _Watched.asked == 0
