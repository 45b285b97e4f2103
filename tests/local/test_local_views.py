"""Views without a session: any SELECT, kept up to date, compared with the oracle."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, Literal

import pytest
from local_stores import as_rows
from random_views import batch, stages_alone, view
from selecting import chosen

from deltaproduce import (
    DefinitionError,
    Limits,
    NotFoundError,
    Pipeline,
    ProducerError,
    SessionError,
    Store,
)
from deltaproduce.operations.step.plan import TableType
from deltaproduce.testing import Oracle, Upsert, plain_rows


def same(store: Store, oracle: Oracle, names: list[str]) -> None:
    for name in names:
        found = store.content(name, ordered=True)
        assert plain_rows(rows_of(found)) == oracle.content(name), name
        updates = store.updates(name, ordered=True)
        assert plain_rows(rows_of(updates)) == oracle.updates(name), name


def rows_of(table: Any) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


IN_ORDER = (
    "SELECT k, a, row_number() OVER w AS n, lag(b) OVER w AS l, sum(b) OVER (PARTITION BY a) AS s1 "
    "FROM t WINDOW w AS (PARTITION BY a ORDER BY b DESC) QUALIFY n < 4",
    "SELECT s, k, rank() OVER (PARTITION BY s ORDER BY k) AS r FROM t",
    "SELECT a, b, count(*) AS n FROM t GROUP BY a, ROLLUP (b)",
    "SELECT a, grouping_id() AS i, sum(b) AS n FROM t GROUP BY ROLLUP (a)",
    "SELECT * FROM (SELECT s, a, b FROM t) PIVOT (sum(b) FOR a IN (0, 1, 2))",
    "SELECT t.a, x.n, x.c FROM t, LATERAL (SELECT max(n) AS n, count(*) AS c FROM u "
    "WHERE u.a = t.b) x",
    "SELECT e, count(*) AS n FROM t LATERAL VIEW explode(array(a, b)) x AS e GROUP BY e",
    "SELECT u.k, x.l FROM (SELECT a AS c, count(*) AS n, sort_array(collect_list(b)) AS l FROM t "
    "GROUP BY a) x JOIN u ON u.n = x.n",
)


def test_windows_pivots_and_generators_follow_changes(tmp_path: Path) -> None:
    random, pipeline = Random("in order"), stages_alone()
    names = [f"v{n}" for n in range(len(IN_ORDER))]
    for name, text in zip(names, IN_ORDER, strict=True):
        key = "a, i" if " AS i, " in text else None  # so that each group is a key, and has states
        pipeline.sql(name, text, key, incremental="always")
    oracle = Oracle(pipeline)
    with Store(None, str(tmp_path), pipeline) as store:
        for _ in range(6):
            changes = batch(random)
            store.update(as_rows(pipeline, changes))
            oracle.update(changes)
            same(store, oracle, names)
        assert not store.verify()


ABOVE_GROUPS = {
    "SELECT n + 1 AS m, a FROM (SELECT a, n * 2 AS n FROM (SELECT a, count(*) AS n FROM t GROUP BY "
    "a) x) y": "a",
    "SELECT p7 + 1 AS c8, c2 AS c9 FROM (SELECT * FROM (SELECT k AS c2, a AS c3, k AS c4 FROM f) "
    "PIVOT (min(c3) FOR c4 IN (0 AS p7)))": None,
}
"""Groups below several projections -> the key."""


def test_groups_below_several_projections_follow_changes(tmp_path: Path) -> None:
    random, pipeline = Random("projections"), stages_alone()
    names = [f"v{n}" for n in range(len(ABOVE_GROUPS))]
    for name, (text, key) in zip(names, ABOVE_GROUPS.items(), strict=True):
        pipeline.sql(name, text, key, incremental="always")
    oracle = Oracle(pipeline)
    with Store(None, str(tmp_path), pipeline) as store:
        for _ in range(4):
            changes = batch(random)
            store.update(as_rows(pipeline, changes))
            oracle.update(changes)
            same(store, oracle, names)
        assert not store.verify()


AS_A_WHOLE = (
    "SELECT k, a, row_number() OVER (ORDER BY b DESC) AS n, lag(s) OVER (ORDER BY b) AS l FROM t",
    "SELECT count(DISTINCT a) AS c, count(*) AS n FROM t",
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.n < t.a)",
    "SELECT t.a, count(*) AS n FROM t JOIN u ON t.k < u.n GROUP BY CUBE (t.a)",
)


def test_views_that_recompute_are_right_at_each_version(tmp_path: Path) -> None:
    """And their updates have only what differs."""
    random, pipeline = Random("as a whole"), stages_alone()
    names = [f"v{n}" for n in range(len(AS_A_WHOLE))]
    for name, text in zip(names, AS_A_WHOLE, strict=True):
        pipeline.sql(name, text)
    oracle = Oracle(pipeline)
    with Store(None, str(tmp_path), pipeline) as store:
        for _ in range(5):
            changes = batch(random)
            store.update(as_rows(pipeline, changes))
            oracle.update(changes)
            same(store, oracle, names)
        assert not store.verify()


OVER_LEFT_JOINS = (
    "SELECT t.k, count(u.n) AS n, count(*) AS m FROM t LEFT JOIN u ON u.a = t.k GROUP BY t.k",
    "SELECT n, count(*) AS c FROM (SELECT t.k, count(u.n) AS n FROM t LEFT JOIN u ON u.a = t.k AND "
    "u.n > 0 GROUP BY t.k) v GROUP BY n",
    "SELECT t.b, t.s, min(u.n) AS n, sum(u.k) AS x, min(t.a) AS a FROM u RIGHT JOIN t ON u.a = t.a "
    "GROUP BY t.b, t.s",
    "SELECT t.b, count(*) AS n, bool_or(u.n > 1) AS o FROM t LEFT JOIN u ON u.a <=> t.a GROUP BY "
    "t.b HAVING count(*) > 1",
    "SELECT t.k, count(*) FILTER (WHERE u.n IS NULL) AS n FROM t LEFT JOIN u ON u.a = t.a AND "
    "u.n = t.b GROUP BY t.k",
    "SELECT count(u.n) AS n, count(*) AS m, sum(u.n) AS x FROM t LEFT JOIN u ON u.a = t.a",
)


@pytest.mark.parametrize("way", [Limits(), Limits(small_table_rows=0, group_rows=2)])
def test_groups_over_left_joins_follow_both_sides(tmp_path: Path, way: Limits) -> None:
    """Each version's rows and updates are those of the query, though parts of it are grouped first.

    Rows without a partner, nulls in what links them, keys with several rows, sides that are empty.
    """
    random, pipeline = Random("left joins"), stages_alone()
    names = [f"v{n}" for n in range(len(OVER_LEFT_JOINS))]
    for name, text in zip(names, OVER_LEFT_JOINS, strict=True):
        pipeline.sql(name, text, incremental="always")
        tables = [one for each in pipeline.explain(name).operators for one in each.tables]
        assert "groups" in {one["kind"] for one in tables}
    oracle = Oracle(pipeline)
    with Store(None, str(tmp_path), pipeline, limits=way) as store:
        for _ in range(8):
            changes = batch(random)
            store.update(as_rows(pipeline, changes))
            oracle.update(changes)
            same(store, oracle, names)
        assert not store.verify(recompute=True)


@pytest.mark.parametrize("seed", chosen(range(6), *range(3)))
def test_views_follow_their_stages(tmp_path: Path, seed: int) -> None:
    """Each version's rows and updates are those of the query over its stages; a view of views too.

    Both sides of a join change at once, stages are emptied and filled again.
    """
    random, pipeline = Random(seed), stages_alone()
    names = [f"v{n}" for n in range(8)]
    for name in names:
        pipeline.sql(name, view(random))
    pipeline.sql("all_of_them", "SELECT count(*) AS n FROM v0 CROSS JOIN v1")
    oracle, store = Oracle(pipeline), Store(None, str(tmp_path / "store"), pipeline)
    with store:
        for _ in range(4):
            changes = batch(random)
            number = oracle.update(changes)
            assert store.update(as_rows(pipeline, changes)).number == number
            if number:
                same(store, oracle, [*names, "all_of_them"])
        assert not store.verify()


def shop() -> Pipeline:
    pipeline = Pipeline("shop")
    pipeline.source("orders", key="id bigint", value="customer string, amount bigint, rate double")
    pipeline.source("customers", key="name string", value="city string")
    return pipeline


ORDERS = [
    {"id": 1, "customer": "a", "amount": 5, "rate": 0.1},
    {"id": 2, "customer": "b", "amount": 7, "rate": 0.2},
    {"id": 3, "customer": "a", "amount": 9, "rate": 0.3},
]
KEYS = {
    "SELECT customer, sum(amount) AS s FROM orders GROUP BY customer": ("customer",),
    "SELECT sum(amount) AS s FROM orders": (),
    "SELECT sum(amount) AS s, count(*) AS n FROM orders GROUP BY customer": ("s", "n"),
    "SELECT customer AS c, amount % 2 AS m, count(*) AS n FROM orders GROUP BY 1, amount % 2": (
        ("c", "m")
    ),
    "SELECT amount, id AS number FROM orders WHERE amount > (SELECT avg(amount) FROM orders)": (
        ("amount", "number")
    ),
    "SELECT amount, id FROM orders ORDER BY amount LIMIT 2": ("id",),
    "SELECT o.id, c.city, o.rate FROM orders o JOIN customers c ON c.name = o.customer": (
        ("id", "city")
    ),
    "SELECT DISTINCT customer FROM orders": ("customer",),
    "SELECT DISTINCT rate FROM orders": (),
    "SELECT customer FROM orders UNION SELECT name FROM customers": ("customer",),
    "SELECT count(*) AS n FROM (SELECT amount FROM orders GROUP BY amount) t": (),
}


@pytest.mark.parametrize("query", KEYS)
def test_a_key_follows_from_the_query(query: str) -> None:
    """The groups, or the key of the one stage that is read, or all columns that can be a key."""
    pipeline = shop()
    pipeline.sql("view", query)
    assert pipeline.explain("view").key == KEYS[query]


def test_a_key_that_is_named_orders_its_rows_by_the_query(tmp_path: Path) -> None:
    pipeline, ordered = shop(), "SELECT customer, id, amount FROM orders, customers"
    pipeline.sql("by_customer", f"{ordered} WHERE name = 'a' ORDER BY amount DESC", "customer desc")
    pipeline.sql("of_all", f"{ordered} WHERE name = 'a'", "")
    with Store(None, str(tmp_path / "store"), pipeline) as store:
        store.update({"orders": ORDERS, "customers": [{"name": "a", "city": "x"}]})
        rows = store.content("by_customer", ordered=True).to_pylist()
        assert [row["id"] for row in rows] == [2, 3, 1]
        assert [row["_ordinal"] for row in rows] == [0, 0, 1]
        assert [row["id"] for row in store.content("of_all", ordered=True).to_pylist()] == [1, 3, 2]
    with pytest.raises(DefinitionError, match="not in its query"):
        shop().sql("view", f"{ordered}", "nothing")


def test_a_final_order_may_name_a_value_twice(tmp_path: Path) -> None:
    """Two columns are the same, and rows are ordered by both."""
    pipeline = shop()
    text = "SELECT c.name, o.amount AS a, o.amount AS b FROM orders o JOIN customers c ON "
    pipeline.sql("v", f"{text} o.customer = c.name ORDER BY a DESC, b, name", "name")
    with Store(None, str(tmp_path / "store"), pipeline) as store:
        store.update({"orders": ORDERS, "customers": [{"name": "a", "city": "x"}]})
        store.update({"orders": [{"id": 9, "customer": "a", "amount": 7, "rate": 0.5}]})
        rows = store.content("v", ordered=True).to_pylist()
        assert [row["a"] for row in rows] == [row["b"] for row in rows]
        assert [row["a"] for row in rows] == sorted((row["a"] for row in rows), reverse=True)
        assert len(rows) > 1
        assert not store.verify()


def test_an_aggregate_without_group_by_has_a_row_over_no_rows(tmp_path: Path) -> None:
    """From the first version on, though its stage never had a row, and after all have gone."""
    pipeline = shop()
    pipeline.sql("cities", "SELECT count(*) AS n, max(city) AS c FROM customers")
    pipeline.sql("none", "SELECT count(*) AS n FROM customers HAVING count(*) > 1")
    with Store(None, str(tmp_path / "store"), pipeline) as store:
        assert store.update({}).number == 0
        store.update({"orders": ORDERS})
        assert store.content("cities").to_pylist() == [{"_ordinal": 0, "n": 0, "c": None}]
        assert store.content("none").num_rows == 0
        store.update({"customers": [{"name": "a", "city": "x"}, {"name": "b", "city": "y"}]})
        assert store.content("none").column("n").to_pylist() == [2]
        version = store.load({"customers": []})
        assert store.content("cities").to_pylist() == [{"_ordinal": 0, "n": 0, "c": None}]
        assert version.stages["cities"].mode != "full"
        assert store.update({"orders": ORDERS}).number == version.number  # S9: nothing changes


def test_an_update_that_changes_nothing_is_no_version_though_a_view_has_no_rows_yet(
    tmp_path: Path,
) -> None:
    """S9: rows that are not there are deleted, and one is given that is there already."""
    pipeline = shop()
    pipeline.sql("n", "SELECT customer, count(*) AS n FROM orders GROUP BY customer")
    pipeline.sql("largest", "SELECT id FROM orders ORDER BY amount DESC LIMIT 2")
    with Store(None, str(tmp_path / "store"), pipeline) as store:
        ann = {"name": "a", "city": "x"}
        store.update({"customers": [ann]})
        gone = [{"id": 1, "_change_type": "delete"}]
        assert store.update({"orders": gone}).number == 1
        assert store.update({"orders": gone, "customers": [ann]}).number == 1
        store.update({"orders": ORDERS})
        assert store.content("largest").column("id").to_pylist() == [2, 3]


def test_equal_rows_are_several_rows_of_a_key_and_only_differences_are_updates(
    tmp_path: Path,
) -> None:
    """S5, S7 and S8, for a stage without value columns."""
    pipeline = shop()
    pipeline.sql("pairs", "SELECT o.customer FROM orders o JOIN customers c ON true")
    with Store(None, str(tmp_path / "store"), pipeline) as store:
        store.update({"orders": ORDERS, "customers": [{"name": "a", "city": "x"}]})
        assert store.content("pairs", ordered=True).to_pydict() == {
            "customer": ["a", "a", "b"],
            "_ordinal": [0, 1, 0],
        }
        store.update({"orders": [{**ORDERS[1], "customer": "a"}]})
        assert store.updates("pairs", ordered=True).to_pylist() == [
            *(
                {"_version": 2, "_change_type": "update", "customer": "a", "_position": place}
                for place in range(3)
            ),
            {"_version": 2, "_change_type": "delete", "customer": "b", "_position": 0},
        ]
        assert (
            store.update({"orders": [{**ORDERS[0], "amount": 6}]}).stages["pairs"].changed_keys == 0
        )
        assert not store.verify(recompute=True)
        assert store.rollback(1).number == 4
        assert store.content("pairs").num_rows == 3


def test_sums_of_floats_do_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    """A sum is the double nearest to the exact one, so a rewrite of equal rows changes nothing."""
    pipeline = shop()
    pipeline.sql("sums", "SELECT sum(rate) AS s, avg(rate) AS a FROM orders")
    rates = [1e308, 0.1, 1e308, 0.2, -1e308, 0.3, -1e308]
    rows = [{**ORDERS[0], "id": n, "rate": rate} for n, rate in enumerate(rates)]
    with Store(None, str(tmp_path / "store"), pipeline) as store:
        for row in rows:
            store.update({"orders": [row]})
        assert store.content("sums").column("s").to_pylist() == [0.6]
        assert store.refresh().stages["sums"].changed_keys == 0


def test_what_fails_for_a_row_is_told_with_the_expression(tmp_path: Path) -> None:
    pipeline = shop()
    pipeline.sql("shares", "SELECT customer, sum(amount) / min(amount) AS r FROM orders GROUP BY 1")
    with Store(None, str(tmp_path / "store"), pipeline) as store:
        with pytest.raises(ProducerError, match=r"sum\(amount\) / min\(amount\)") as caught:
            store.update({"orders": [{**ORDERS[0], "amount": 0}]})
        assert caught.value.stage == "shares"
        assert store.head.number == 0


def test_what_only_spark_computes_needs_a_session_on_opening(tmp_path: Path) -> None:
    pipeline = shop()
    pipeline.sql("h", "SELECT xxhash64(city) AS h, count(*) AS n FROM customers GROUP BY city")
    with pytest.raises(SessionError, match=r"xxhash64\(city\)") as caught:
        Store(None, str(tmp_path / "store"), pipeline)
    assert caught.value.stage == "h"


def test_a_view_has_no_lineage(tmp_path: Path) -> None:
    pipeline = shop()
    pipeline.sql("n", "SELECT customer, count(*) AS n FROM orders GROUP BY customer")
    with Store(None, str(tmp_path / "store"), pipeline) as store:
        store.update({"orders": ORDERS})
        for ask in (lambda: store.lineage("n", "a"), lambda: store.key_mappings("n")):
            with pytest.raises(NotFoundError):
                ask()
        assert store.lineage("orders", 1).downstream == {}


def test_an_explanation_has_each_operator_and_why_it_recomputes(tmp_path: Path) -> None:
    pipeline = shop()
    pipeline.sql("n", "SELECT customer, count(*) AS n FROM orders GROUP BY customer")
    pipeline.sql("large", "SELECT id, amount FROM orders WHERE amount > 6", "id")
    found = pipeline.explain("n").to_dict()
    assert (found["stage"], found["key"]) == ("n", ["customer"])
    assert [(one["operator"], one["mode"], one["reason"]) for one in found["operators"]] == [
        ("Scan orders", "incremental", None),
        ("Aggregate count(*) by customer", "incremental", None),
        ("Project customer, n", "incremental", None),
    ]
    assert "Aggregate count(*) by customer" in str(pipeline.explain("n"))
    assert {one.mode for one in pipeline.explain("large").operators} == {"incremental"}
    with Store(None, str(tmp_path / "store"), pipeline) as store:
        assert store.explain("n") == pipeline.explain("n")
        steps = {step.stage.name: step.how for step in store.plan({"orders": ORDERS})}
        assert (steps["n"], steps["large"]) == ("full", "full")  # the first version
        store.update({"orders": ORDERS})
        steps = {step.stage.name: step.how for step in store.plan({"orders": ORDERS})}
        assert (steps["n"], steps["large"]) == ("incremental", "incremental")
    with pytest.raises(NotFoundError):
        pipeline.explain("nothing")


def test_an_explanation_has_the_hidden_tables_and_their_rows(tmp_path: Path) -> None:
    """They are no stages of the user: neither versions nor plans name them."""
    pipeline = shop()
    pipeline.sql("largest", "SELECT id, amount FROM orders ORDER BY amount DESC LIMIT 2")
    before = [one.tables for one in pipeline.explain("largest").operators if one.tables]
    table = {"name": "_ordered_1_largest", "kind": "ordered", "rows": None, "bytes": None}
    assert before == [(table,)]
    assert "keeps" in str(pipeline.explain("largest"))
    with Store(None, str(tmp_path / "store"), pipeline, policy="strict") as store:
        plan = store.plan({"orders": ORDERS})
        assert [step.stage.name for step in plan] == ["orders", "largest"]
        assert set(store.update({"orders": ORDERS}).stages) == {"orders", "customers", "largest"}
        assert store.content("largest").column("id").to_pylist() == [2, 3]
        (found,) = store.explain("largest").operators[-1].tables
        assert found["rows"] == 3
        assert found["bytes"] > 0
        version = store.update({"orders": [{**ORDERS[0], "amount": 8}]})
        assert version.stages["largest"].mode != "full"
        assert store.content("largest").column("id").to_pylist() == [1, 3]
        assert not store.verify(recompute=True)
        with pytest.raises(NotFoundError):
            store.content("_ordered_1_largest_")


@pytest.mark.parametrize("table_type", ["copy_on_write", "merge_on_read"])
def test_a_limit_reads_the_beginning_of_its_table(tmp_path: Path, table_type: TableType) -> None:
    """Nulls first and last, up and down, ties, rows that come and go at the beginning."""
    random, pipeline = Random(4), shop()
    orders = {
        "up": ("amount ASC NULLS FIRST, customer DESC", (1, -1)),
        "down": ("amount DESC NULLS LAST, rate ASC NULLS LAST", (-1, 1)),
    }
    for name, (order, _) in orders.items():
        pipeline.sql(name, f"SELECT * FROM orders ORDER BY {order} LIMIT 5 OFFSET 2")
    rows = {n: order_of(random, n) for n in range(1500)}
    small = Limits(small_table_rows=0, group_rows=50, end_rows=50, replaced_percent=900)
    with Store(
        None, str(tmp_path / "store"), pipeline, limits=small, table_type=table_type
    ) as store:
        store.update({"orders": list(rows.values())})
        for _ in range(6):
            first = sorted(rows.values(), key=up)[:4] + sorted(rows.values(), key=down)[:4]
            gone = {row["id"] for row in random.sample(first, 2)}
            new = {n: order_of(random, n) for n in random.sample(range(2000), 2)}
            new = {n: row for n, row in new.items() if n not in gone}
            rows = {n: row for n, row in {**rows, **new}.items() if n not in gone}
            deleted = [{"id": n, "_change_type": "delete"} for n in gone]
            upserted = [{**row, "_change_type": "upsert"} for row in new.values()]
            version = store.update({"orders": [*deleted, *upserted]})
            for name, key in (("up", up), ("down", down)):
                wanted = sorted(rows.values(), key=key)[2:7]
                found = store.content(name).to_pylist()
                assert sorted(row["id"] for row in found) == sorted(row["id"] for row in wanted)
                if name in version.stages:
                    assert version.stages[name].rows_read < 900
        assert not store.verify(recompute=True)


def order_of(random: Random, number: int) -> dict[str, Any]:
    return {
        "id": number,
        "customer": random.choice((None, "a", "b")),
        "amount": random.choice((None, *range(40))),
        "rate": random.choice((None, 0.5, 1.5)),
    }


def up(row: dict[str, Any]) -> Any:
    customer = {None: 2, "a": 1, "b": 0}[row["customer"]]
    return (*_null(row["amount"]), customer, row["id"], *_null(row["rate"]))


def down(row: dict[str, Any]) -> Any:
    amount = (1, 0) if row["amount"] is None else (0, -row["amount"])
    rate = (1, 0) if row["rate"] is None else (0, row["rate"])
    return (*amount, *rate, row["id"])


def _null(value: Any) -> tuple[int, Any]:
    return (0, 0) if value is None else (1, value)


REASONS = {
    "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer < c.name": (
        "JOIN_WITHOUT_EQUALITY"
    ),
    "SELECT count(DISTINCT customer) AS c, count(*) AS n FROM orders": "GROUPS_WITHOUT_COLUMNS",
    "SELECT id FROM orders WHERE EXISTS (SELECT 1 FROM customers WHERE name < customer)": (
        "SUBQUERY_WITHOUT_LINK"
    ),
    "SELECT id FROM orders WHERE rate NOT IN (SELECT -rate FROM orders) AND rate > 0": (
        "ROWS_WITHOUT_COLUMNS"
    ),
    "SELECT customer, city FROM orders JOIN customers ON customer = name ORDER BY rate": (
        "ORDER_OF_OTHER_COLUMNS"
    ),
    "SELECT id, rank() OVER (ORDER BY amount) AS place FROM orders": "WINDOW_WITHOUT_PARTITION",
    "SELECT array(rate) AS rates, count(*) AS n FROM orders GROUP BY array(rate)": "NESTED_KEY",
    "SELECT id FROM orders WHERE (customer, id) NOT IN (SELECT name, 1 FROM customers)": (
        "UNSUPPORTED_FUNCTION"
    ),
}


@pytest.mark.parametrize("query", REASONS)
def test_what_recomputes_has_a_reason_and_may_be_refused(query: str) -> None:
    pipeline = shop()
    pipeline.sql("v", query)
    found = [one.reason for one in pipeline.explain("v").operators if one.mode == "recompute"]
    assert found[0] == REASONS[query]
    with pytest.raises(DefinitionError, match=REASONS[query]) as caught:
        shop().sql("v", query, incremental="always")
    assert caught.value.stage == "v"
    grouped = "SELECT customer, count(*) AS n FROM orders GROUP BY customer"
    assert shop().sql("v", grouped, incremental="always").kind.upkeep.recomputes is None
    never = shop().sql("v", grouped, incremental="never")
    assert "NEVER" in str(never.kind.upkeep.recomputes)


def test_a_strict_store_refuses_what_recomputes(tmp_path: Path) -> None:
    pipeline = shop()
    pipeline.sql("large", "SELECT id, amount FROM orders WHERE amount > 6", "id")
    Store(None, str(tmp_path / "store"), pipeline, policy="strict").close()
    pipeline.sql("n", "SELECT count(DISTINCT customer) AS n, count(*) AS m FROM orders")
    with pytest.raises(DefinitionError, match="strict") as caught:
        Store(None, str(tmp_path / "store"), pipeline, policy="strict")
    assert caught.value.stage == "n"


def test_a_query_of_one_source_key_stays_incremental_and_needs_no_session(tmp_path: Path) -> None:
    pipeline = shop()
    pipeline.sql("large", "SELECT id, amount * 2 AS twice FROM orders WHERE amount > 6 ORDER BY id")
    with Store(None, str(tmp_path / "store"), pipeline) as store:
        store.update({"orders": ORDERS})
        version = store.update({"orders": [{**ORDERS[0], "amount": 8}]})
        assert store.content("large").column("twice").to_pylist() == [16, 14, 18]
        assert version.stages["large"].affected_keys == 1
        assert store.lineage("large", 1).upstream["orders"].num_rows == 1


def test_a_changed_query_is_computed_again(tmp_path: Path) -> None:
    for query, wanted in (("sum(amount)", 21), ("max(amount)", 9)):
        pipeline = shop()
        pipeline.sql("n", f"SELECT {query} AS n FROM orders")
        with Store(None, str(tmp_path / "store"), pipeline) as store:
            store.update({"orders": ORDERS})
            assert store.content("n").column("n").to_pylist() == [wanted]


def test_stages_of_other_keys_are_joined(tmp_path: Path) -> None:
    """A key-local query needs equal key types; a view does not."""
    pipeline = Pipeline("other")
    pipeline.source("a", key="k bigint", value="x int")
    pipeline.source("b", key="k int", value="y int")
    pipeline.sql("both", "SELECT a.k, x, y FROM a LEFT JOIN b ON a.k = b.k")
    with Store(None, str(tmp_path / "store"), pipeline) as store:
        store.update({"a": [{"k": 1, "x": 2}, {"k": 2, "x": 3}], "b": [{"k": 1, "y": 4}]})
        assert store.content("both", ordered=True).column("y").to_pylist() == [4, None]


@pytest.mark.parametrize("policy", ["auto", "incremental"])
def test_a_view_runs_as_a_whole_from_a_fifth_of_changed_rows_on(
    tmp_path: Path, policy: Literal["auto", "incremental"]
) -> None:
    """So do its hidden tables, each by the rows that it reads itself; the rows are the same."""
    pipeline = shop()
    pipeline.sql("sums", "SELECT customer, sum(amount) AS s FROM orders GROUP BY customer")
    pipeline.sql(
        "sizes",
        "SELECT n, count(*) AS c FROM (SELECT count(*) AS n FROM orders "
        "GROUP BY customer) t GROUP BY n",
    )
    limits = Limits(full_rows=100, small_table_rows=0)
    oracle = Oracle(pipeline)
    with Store(None, str(tmp_path / "store"), pipeline, policy=policy, limits=limits) as store:
        for count, is_whole in ((100, True), (19, False), (20, True)):
            rows = [
                {"id": n, "customer": f"c{n * count % 7}", "amount": n + count, "rate": 0.5}
                for n in range(count)
            ]
            version = store.update({"orders": rows})
            values = [Upsert((row["id"],), tuple(row.values())[1:]) for row in rows]
            oracle.update({"orders": values})
            same(store, oracle, ["sums", "sizes"])
            is_first = version.number == 1
            is_whole = is_whole and (is_first or policy == "auto")
            assert (version.stages["sums"].mode == "full") == is_whole
            if is_whole and not is_first:
                assert "20 of 100 rows" in str(version.stages["sums"].reason)
        assert not store.verify()
