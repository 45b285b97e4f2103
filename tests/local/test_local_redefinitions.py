"""Redefined stages and kept values, in stores without a session."""

import pytest

from deltaproduce import DefinitionError, Limits, NotFoundError, Pipeline, SessionError, Store, agg

ROWS = [(3, "ann", 5), (1, "bob", 7), (2, "ann", 6)]


def shop(key, value="amount bigint", preserve=None):
    """Orders, and by customer: what is emitted has as many columns as are declared."""
    made = Pipeline("shop")
    orders = made.source("orders", key=key, value="customer string, amount bigint")
    columns = value.count(",") + 1

    @made.producer(orders, key="customer string", value=value, preserve=preserve)
    def by_customer(_, values):
        for order in values:
            yield order.customer, order.amount if columns == 1 else (order.amount,) * columns

    return made


def rows(name, of=int):
    return {"orders": [{name: of(n), "customer": who, "amount": n} for n, who, _ in ROWS]}


def stored(store, *names):
    found = store.content("by_customer").select(["customer", *names]).to_pylist()
    return sorted(tuple(row.values()) for row in found)


def told(store, since):
    feed = store.changes("by_customer", since=since).to_pylist()
    return sorted((row["customer"], row["_change_type"]) for row in feed)


def test_another_source_key_changes_no_row(location):
    with Store(None, location, shop("id bigint")) as store:
        store.update(rows("id"))
        before = stored(store, "amount", "_source_id")
    with Store(None, location, shop("number bigint")) as store:
        store.load(rows("number"))
        assert stored(store, "amount", "_source_number") == before
        assert told(store, 1) == []
    with Store(None, location, shop("text string")) as store:  # no source key is what it was
        store.load(rows("text", str))
        assert stored(store, "amount", "_source_text") == [
            (*row[:2], str(row[2])) for row in before
        ]
        assert told(store, 2) == []
        store.update({"orders": [{"text": "2", "_change_type": "delete"}]})
        assert stored(store, "amount") == [("ann", 3), ("bob", 1)]


def test_other_values_change_every_row(location):
    with Store(None, location, shop("id bigint")) as store:
        store.update(rows("id"))
    with Store(None, location, shop("id bigint", "amount bigint, again int")) as store:
        store.update({"orders": [{"id": 1, "customer": "bob", "amount": 9}]})
        assert stored(store, "amount", "again") == [("ann", 2, 2), ("ann", 3, 3), ("bob", 9, 9)]
        changed = store.updates("by_customer", 2).to_pylist()
        assert {row["_change_type"] for row in changed} == {"update"}
        assert len(changed) == 3


def test_a_stage_that_had_runs_is_not_damaged_by_other_values(location):
    """Its runs are of the columns of before until the next one is written."""
    large = Limits(small_table_rows=0, replaced_percent=900)
    more = {"orders": [{"id": 1, "customer": "bob", "amount": 9}]}
    with Store(
        None, location, shop("id bigint"), limits=large, table_type="merge_on_read"
    ) as store:
        store.update(rows("id"))
        assert store.update(more).delta_version("by_customer", "runs") == 0
    with Store(
        None, location, shop("id bigint", "amount bigint, again int"), limits=large
    ) as store:
        store.update({})
        assert store.verify() == ()
        store.update({"orders": [{"id": 2, "_change_type": "delete"}]})
        assert store.verify() == ()
        assert stored(store, "amount", "again") == [("ann", 3, 3), ("bob", 9, 9)]


def summed(key, value, **more):
    """Orders, their number and sum by customer, and what is made of these."""
    made = Pipeline("summed")
    orders = made.source("orders", key=key, value=value)
    calls = {**more, "total": agg.sum("amount"), "n": agg.count()}
    by_customer = made.aggregate("by_customer", orders, key="customer", values=calls)
    least = {"least": agg.min("amount"), "most": agg.max("amount")}
    made.aggregate("ends", orders, key="", values=least)
    totals = {"total": agg.sum("total"), "least": agg.min("total"), "n": agg.count()}
    made.aggregate("all", by_customer, key="", values=totals)
    return made


@pytest.mark.parametrize(
    ("key", "value", "more"),
    [
        ("id bigint", "customer string, amount bigint, again int", {}),
        ("id int", "customer string, amount bigint", {}),
        ("id bigint", "customer string, amount int", {}),
        ("id bigint", "customer string, amount bigint", {"first": agg.min("amount")}),
    ],
)
def test_aggregates_of_a_feeder_with_other_columns_are_made_of_its_new_rows(
    location, key, value, more
):
    """The rows that it had are not known in its new columns, so nothing is subtracted."""
    with Store(None, location, summed("id bigint", "customer string, amount bigint")) as store:
        store.update(rows("id"))
    given = rows("id")
    given["orders"][0]["amount"] = 9
    with Store(None, location, summed(key, value, **more)) as store:
        store.load(
            {
                "orders": [
                    {**row, "again": 1} if "again" in value else row for row in given["orders"]
                ]
            }
        )
        assert store.content("by_customer", ordered=True).column("total").to_pylist() == [11, 1]
        assert store.content("ends").drop_columns("_ordinal").to_pylist() == [
            {"least": 1, "most": 9}
        ]
        assert store.content("all").drop_columns("_ordinal").to_pylist() == [
            {"total": 12, "least": 1, "n": 2}
        ]
        assert store.verify(recompute=True) == ()


def test_values_are_kept_where_nothing_is_emitted(location):
    def first(value, example):
        return value if example is None else example

    with Store(None, location, shop("id bigint", preserve=first)) as store:
        store.update(rows("id"))
        assert stored(store, "amount") == [("ann", 2), ("ann", 2), ("bob", 1)]
        store.update({"orders": [{"id": 2, "_change_type": "delete"}]})
        assert stored(store, "amount") == [("ann", 2), ("bob", 1)]
        store.update({"orders": [{"id": n, "_change_type": "delete"} for n in (1, 3)]})
        assert stored(store, "amount") == []
        store.update({"orders": [{"id": 4, "customer": "bob", "amount": 8}]})
        assert stored(store, "amount") == [("bob", 8)]


def test_a_lineage_is_of_the_definitions_of_its_version(location):
    """Key mappings tell of it while their columns stay; without them, the definition does."""
    for key, text in (("id bigint", "customer"), ("number bigint", "concat(customer, '!') AS who")):
        made = shop(
            key, value="amount bigint" if key == "id bigint" else "amount bigint, again int"
        )
        made.aggregate("totals", "by_customer", key=text, values={"n": agg.count()})
        with Store(None, location, made) as store:
            store.load(rows(key.split()[0]))
            found = store.lineage("by_customer", "ann")
            ids = found.upstream["orders"].column(0).to_pylist()
            assert sorted(ids) == [2, 3]
            if key == "number bigint":
                for stage, one in (("by_customer", "ann"), ("totals", "ann!"), ("orders", 2)):
                    with pytest.raises(NotFoundError, match="another definition in version 1"):
                        store.lineage(stage, one, 1)


def test_a_lineage_names_no_key_of_a_stage_that_came_later(location):
    with Store(None, location, shop("id bigint")) as store:
        store.update(rows("id"))
    made = shop("id bigint")
    made.aggregate("totals", "by_customer", key="customer", values={"n": agg.count()})
    with Store(None, location, made) as store:
        store.refresh("totals")
        found = [store.lineage("orders", 1, version).downstream["totals"] for version in (1, 2)]
        assert [table.to_pylist() for table in found] == [[], [{"customer": "bob"}]]


def test_a_lineage_goes_by_key_mappings_if_only_values_are_others(location):
    for value in ("amount bigint", "amount bigint, again int"):
        with Store(None, location, shop("id bigint", value)) as store:
            store.update(rows("id"))
    with Store(None, location, shop("id bigint", value)) as store:
        found = store.lineage("by_customer", "bob", 1).upstream["orders"]
        assert found.to_pylist() == [{"id": 1}]


def test_the_store_of_another_pipeline_is_refused_and_stays_as_it_is(location):
    """It would lose all its stages, so a plan says so too; one stage in common is enough."""
    with Store(None, location, shop("id bigint")) as store:
        store.update(rows("id"))
    other = Pipeline("visits")
    other.source("visits", key="id bigint", value="page string")
    visit = [{"id": 1, "page": "a"}]
    with Store(None, location, other) as store:
        for asked in (store.plan, lambda: store.update({"visits": visit}), store.refresh):
            with pytest.raises(DefinitionError, match=r"orders, by_customer.*but visits"):
                asked()
        assert store.head.number == 1
    other.source("orders", key="id bigint", value="customer string, amount bigint")
    with Store(None, location, other) as store:
        assert store.update({"visits": visit}).number == 2


def test_a_schema_of_a_catalog_needs_a_session():
    with pytest.raises(SessionError, match=r"'\./lake\.shop'"):
        Store(None, "lake.shop", shop("id bigint"))
