"""Changes of some sources and full snapshots of others in one version, without a session."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from local_stores import as_rows, assert_same_here

from deltaproduce import InvalidChangesError, NotFoundError, Pipeline, Store
from deltaproduce.testing import Delete, Oracle, Upsert

SHOP = Pipeline("shop")
ORDERS = SHOP.source("orders", key="k bigint", value="v bigint")
NAMES = SHOP.source("names", key="k bigint", value="name string")


@SHOP.producer(ORDERS, NAMES, key="k bigint", value="total bigint, name string")
def named(k, orders, names):
    total = sum(orders)
    for name in names:
        yield k, (total, name)


KEYS = st.integers(0, 3).map(lambda key: (key,))
CHANGES = st.dictionaries(KEYS, st.none() | st.integers(0, 2), max_size=3)
SNAPSHOTS = st.dictionaries(KEYS, st.sampled_from("ab"), max_size=4)


@settings(max_examples=8)
@given(st.lists(st.tuples(CHANGES, SNAPSHOTS), min_size=2, max_size=3))
def test_a_snapshot_beside_changes_is_the_changes_that_it_comes_to(tmp_path_factory, batches):
    """One version, equal to that of one update with a delete for each key that is gone."""
    location = str(tmp_path_factory.mktemp("snapshots") / "store")
    oracle, had = Oracle(SHOP), {}
    with Store(None, location, SHOP) as store:
        for changes, snapshot in batches:
            told = [
                Delete(key) if value is None else Upsert(key, (value,))
                for key, value in changes.items()
            ]
            rows = [Upsert(key, (name,)) for key, name in snapshot.items()]
            gone = [Delete(key) for key in had if key not in snapshot]
            number = oracle.update({"orders": told, "names": [*rows, *gone]})
            given_rows = as_rows(SHOP, {"names": rows}, is_snapshot=True)
            version = store.update(as_rows(SHOP, {"orders": told}), snapshots=given_rows)
            assert (version.number, oracle.head) == (number, number)
            had = snapshot
        assert_same_here(store, oracle, SHOP, range(oracle.head + 1))


def test_a_source_is_given_in_one_of_the_two_ways(location):
    with Store(None, location, SHOP) as store:
        with pytest.raises(InvalidChangesError, match="'orders'") as error:
            store.update({"orders": []}, snapshots={"orders": []})
        assert error.value.source == "orders"
        with pytest.raises(InvalidChangesError, match="'nope'"):
            store.update(snapshots={"nope": []})
        assert store.head.number == 0


def test_a_plan_knows_of_which_sources_all_rows_would_be_given(location):
    """Other columns of a source need all of its rows, and are planned only with them."""
    changed = Pipeline("shop")
    changed.source("orders", key="k bigint", value="v string")
    with Store(None, location, SHOP) as store:
        store.update({"orders": [{"k": 1, "v": 2}]})
        (orders, names, *_) = store.plan(["orders"], snapshots=["names"])
        assert [orders.reason, names.reason] == ["changes given", "all rows given"]
        with pytest.raises(NotFoundError):
            store.plan(snapshots=["nope"])
    with Store(None, location, changed) as store:
        (step,) = store.plan(snapshots=["orders"])
        assert (step.how, step.redefined) == ("changes", True)
