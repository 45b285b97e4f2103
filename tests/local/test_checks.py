"""Checks: no version is published that breaks one of severity error, whatever makes the version."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from copy import copy, deepcopy
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from crashing import CrashAt, CrashError, fail
from local_stores import WAYS
from selecting import some

import deltaproduce as dp
from deltaproduce import agg
from deltaproduce.storage import failpoints

Rows = dict[int, tuple[Any, ...]]


def shop(*, severity: str = "error", at_most: int = 0) -> dp.Pipeline:
    """Orders of customers, with checks of every sort."""
    pipeline = dp.Pipeline("shop")
    pipeline.source("customers", key="customer_id bigint", value="name string")
    orders = pipeline.source(
        "orders", key="order_id bigint", value="customer_id bigint, amount bigint, status string"
    )
    told: dict[str, Any] = {"severity": severity, "at_most": at_most}
    orders.expect(
        not_null="customer_id",
        unique="customer_id, status",
        where="amount >= 0",
        among={"status": ["new", "paid"]},
        refers={"customer_id": "customers.customer_id"},
        **told,
    )
    pipeline.check("large", "SELECT order_id, amount FROM orders WHERE amount > 90", **told)
    pipeline.check(
        "spenders",
        "SELECT c.name, sum(o.amount) AS total FROM orders o JOIN customers c USING (customer_id) "
        "GROUP BY c.name HAVING sum(o.amount) > 100",
        **told,
    )
    pipeline.check("some_orders", "SELECT count(*) AS n FROM orders HAVING count(*) > 9", **told)
    return pipeline


def found(
    customers: Mapping[int, tuple[Any, ...]], orders: Mapping[int, tuple[Any, ...]]
) -> dict[str, int]:
    """How many rows each check of `shop` finds."""
    rows = list(orders.values())
    pairs = Counter((c, s) for c, _, s in rows if c is not None and s is not None)
    totals = Counter[str]()
    for customer, amount, _ in rows:
        if customer in customers and amount is not None:
            totals[customers[customer][0]] += amount
    return {
        "orders_not_null_customer_id": sum(c is None for c, _, _ in rows),
        "orders_unique_customer_id_status": sum(n > 1 for n in pairs.values()),
        "orders_where": sum(a is not None and a < 0 for _, a, _ in rows),
        "orders_among_status": sum(s not in ("new", "paid", None) for _, _, s in rows),
        "orders_refers_customer_id": sum(c not in (None, *customers) for c, _, _ in rows),
        "large": sum(a is not None and a > 90 for _, a, _ in rows),
        "spenders": sum(total > 100 for total in totals.values()),
        "some_orders": int(len(rows) > 9),
    }


COLUMNS = {
    "customers": ("customer_id", "name"),
    "orders": ("order_id", "customer_id", "amount", "status"),
}


def given(source: str, changes: Mapping[int, tuple[Any, ...] | None]) -> list[dict[str, Any]]:
    """Changes as rows; None deletes."""
    names = COLUMNS[source]
    return [
        {names[0]: key, "_change_type": "delete"}
        if values is None
        else dict(zip(names, (key, *values), strict=True))
        for key, values in changes.items()
    ]


def content(store: dp.Store, source: str) -> Rows:
    rows: pa.Table = store.content(source)
    columns = (rows.column(name).to_pylist() for name in COLUMNS[source])
    return {key: tuple(values) for key, *values in zip(*columns, strict=True)}


def names(results: Iterable[dp.CheckResult]) -> list[str]:
    return [one.name for one in results]


def files(place: Path) -> set[str]:
    return {str(path) for path in place.rglob("*") if path.is_file()}


def filled(place: Path, **told: Any) -> dp.Store:
    """A store with two customers and two orders."""
    store = dp.Store(None, str(place / "store"), shop(**told))
    store.update(
        {
            "customers": given("customers", {1: ("ada",), 2: ("bob",)}),
            "orders": given("orders", {1: (1, 10, "new"), 2: (2, 20, "paid")}),
        }
    )
    return store


def test_a_broken_check_leaves_nothing_behind(tmp_path: Path) -> None:
    """C1: no commit, no file, the same head, and the update id is free."""
    with filled(tmp_path) as store:
        before, there = store.head, files(tmp_path)
        changes = {"orders": given("orders", {3: (9, -5, "lost")})}
        with pytest.raises(dp.ChecksFailedError) as raised:
            store.update(changes, "an id")
        assert names(raised.value.checks) == [
            "orders_where",
            "orders_among_status",
            "orders_refers_customer_id",
        ]
        failed = raised.value.checks[0]
        assert (failed.stage, failed.rows, failed.broken_before) == ("orders", 1, False)
        assert failed.sample == ({"order_id": 3, "customer_id": 9, "amount": -5, "status": "lost"},)
        assert files(tmp_path) == there
        assert store.head == before
        assert store.update_ids() == []
        version = store.update({"orders": given("orders", {3: (1, 5, "paid")})}, "an id")
        assert (version.number, version.update_id) == (2, "an id")


def test_a_warning_publishes(tmp_path: Path) -> None:
    """C1: and the version says so, also to who opens the store later, and in its later versions."""
    with filled(tmp_path, severity="warn") as store:
        store.update({"orders": given("orders", {3: (9, -5, "lost")})})
        version = store.update({"customers": given("customers", {3: ("cy",)})})
    with dp.Store(None, str(tmp_path / "store"), shop(severity="warn")) as store:
        for checks in (version.checks, store.head.checks, store.check()):
            by_name = {one.name: one for one in checks}
            assert [one.name for one in checks if one.broken] == [
                "orders_where",
                "orders_among_status",
                "orders_refers_customer_id",
            ]
            assert by_name["orders_where"].rows == 1
            assert by_name["orders_where"].severity == "warn"
            assert by_name["orders_where"].sample == (
                {"order_id": 3, "customer_id": 9, "amount": -5, "status": "lost"},
            )
            assert by_name["large"].sample == ()
        assert store.head.checks == version.checks
    assert dp.open(str(tmp_path / "store")).head.checks == version.checks


def test_a_few_rows_may_break_a_check(tmp_path: Path) -> None:
    """C1: `at_most` of them; the sample has at most ten rows, those of the version first."""
    pipeline = dp.Pipeline("numbers")
    pipeline.source("numbers", key="n bigint", value="v bigint")
    pipeline.check("odd", "SELECT n FROM numbers WHERE n % 2 = 1", at_most=12)
    with dp.Store(None, str(tmp_path / "store"), pipeline) as store:
        store.update({"numbers": [{"n": 2 * n + 1, "v": n} for n in range(12)]})
        assert (store.head.checks[0].rows, store.head.checks[0].broken) == (12, False)
        assert len(store.head.checks[0].sample) == 10
        with pytest.raises(dp.ChecksFailedError) as raised:
            store.update({"numbers": [{"n": 101, "v": 0}, {"n": 100, "v": 0}]})
        (failed,) = raised.value.checks
        assert (failed.rows, len(failed.sample)) == (13, 10)
        assert failed.sample[0] == {"n": 101}


def test_a_check_is_no_stage(tmp_path: Path) -> None:
    """C1: it has no content for users, is in no version's stages, and nothing may read it."""
    with filled(tmp_path) as store:
        assert {*store.head.stages} == {"customers", "orders"}
        for name in ("large", "orders_where"):
            with pytest.raises(dp.NotFoundError):
                store.content(name)
    pipeline = shop()
    assert [stage.name for stage in pipeline.stages] == ["customers", "orders"]
    for name in ("large", "_check_1_large"):
        with pytest.raises(dp.DefinitionError):
            pipeline.sql("reads_it", f"SELECT order_id, amount FROM {name}")
    with pytest.raises(dp.DefinitionError):
        pipeline.source("large", key="k bigint", value="v bigint")
    with pytest.raises(dp.DefinitionError):
        pipeline.check("Large", "SELECT order_id FROM orders")


def test_what_a_query_raises_names_the_check(tmp_path: Path) -> None:
    """C1: a ProducerError whose stage is the check's name; nothing is written."""
    pipeline = dp.Pipeline("numbers")
    pipeline.source("numbers", key="n bigint", value="v bigint")
    pipeline.check(
        "halves", "SELECT n, sum(10 DIV v) AS s FROM numbers GROUP BY n HAVING sum(10 DIV v) < 0"
    )
    with dp.Store(None, str(tmp_path / "store"), pipeline) as store:
        store.update({"numbers": [{"n": 1, "v": 5}]})
        with pytest.raises(dp.ProducerError) as raised:
            store.update({"numbers": [{"n": 2, "v": 0}]})
        assert raised.value.stage == "halves"
        assert store.head.number == 1
    with dp.Store(None, str(tmp_path / "other"), pipeline) as store:
        with pytest.raises(dp.ProducerError) as raised:
            store.update({"numbers": [{"n": 2, "v": 0}]})
        assert raised.value.stage == "halves"


def test_names_of_rules() -> None:
    """C1: `<stage>_<rule>_<column>`, and `name` for one rule."""
    pipeline = dp.Pipeline("p")
    one = pipeline.source("one", key="k bigint", value="a bigint, b bigint, `select` string")
    assert one.expect(not_null="a, b", unique="a, b", where="a > 0") is one
    one.expect(among={"select": ["x"]}, refers={"a": "one.k"})
    one.expect(where="b > 0", name="positive", severity="warn", at_most=3)
    assert [(c.name, c.stage, c.severity) for c in pipeline.checks] == [
        ("one_not_null_a", "one", "error"),
        ("one_not_null_b", "one", "error"),
        ("one_unique_a_b", "one", "error"),
        ("one_where", "one", "error"),
        ("one_among_select", "one", "error"),
        ("one_refers_a", "one", "error"),
        ("positive", "one", "warn"),
    ]


@pytest.mark.parametrize(
    "expected",
    [
        {},
        {"not_null": "x"},
        {"not_null": ""},
        {"unique": "a, a"},
        {"unique": 1},
        {"where": ""},
        {"where": "x > 0"},
        {"where": "a >"},
        {"where": "a) OR (a"},
        {"among": {"a": []}},
        {"among": {"a": [None]}},
        {"among": {"x": [1]}},
        {"among": ["a"]},
        {"among": {"a": "text"}},
        {"refers": {"a": "one"}},
        {"refers": {"a": "two.k"}},
        {"refers": {"a": "one.x"}},
        {"where": "a > 0", "severity": "fatal"},
        {"where": "a > 0", "severity": "quarantine", "at_most": 3},
        {"unique": "a", "severity": "quarantine"},
        {"where": "a > 0", "at_most": -1},
        {"where": "a > 0", "at_most": True},
        {"where": "a > 0", "unique": "a", "name": "both"},
        {"where": "a > 0", "name": "_reserved"},
        {"where": "rand() > 0"},
    ],
)
def test_a_wrong_expectation_is_refused(expected: dict[str, Any]) -> None:
    """With the stage, and nothing of it is defined."""
    pipeline = dp.Pipeline("p")
    one = pipeline.source("one", key="k bigint", value="a bigint, b bigint")
    with pytest.raises(dp.DefinitionError):
        one.expect(**expected)
    assert pipeline.checks == ()
    assert len(pipeline.graph().stages) == 1


def test_a_stage_of_no_pipeline_cannot_be_expected_of() -> None:
    pipeline = dp.Pipeline("p")
    one = pipeline.source("one", key="k bigint", value="a bigint")
    assert copy(one) == one
    with pytest.raises(dp.DefinitionError):
        deepcopy(one).expect(where="a > 0")


def test_values_of_among(tmp_path: Path) -> None:
    """Of every type that a list of values may have."""
    pipeline = dp.Pipeline("p")
    value = "t string, d date, n decimal(9,2), b boolean, f double"
    one = pipeline.source("one", key="k bigint", value=value)
    one.expect(
        among={
            "t": ["a", 'a "b"'],
            "d": [date(2024, 2, 29)],
            "n": [1, Decimal("2.5")],
            "b": {True},
            "f": (0.5, 1),
        }
    )
    rows = [
        {"k": 1, "t": "a", "d": date(2024, 2, 29), "n": Decimal("2.50"), "b": True, "f": 0.5},
        {"k": 2, "t": 'a "b"', "d": None, "n": None, "b": None, "f": 1.0},
        {"k": 3, "t": None, "d": None, "n": Decimal(1), "b": True, "f": None},
    ]
    with dp.Store(None, str(tmp_path / "store"), pipeline) as store:
        store.update({"one": rows})
        for column, other in (("t", "its"), ("d", date(2024, 3, 1)), ("b", False), ("f", 0.1)):
            with pytest.raises(dp.ChecksFailedError) as raised:
                store.update({"one": [{**rows[0], "k": 9, column: other}]})
            assert names(raised.value.checks) == [f"one_among_{column}"]


def test_new_checks_are_evaluated_on_the_head(tmp_path: Path) -> None:
    """C4: updates that leave a new check broken are refused, one that changes nothing too."""
    plain = dp.Pipeline("shop")
    plain.source("customers", key="customer_id bigint", value="name string")
    plain.source(
        "orders", key="order_id bigint", value="customer_id bigint, amount bigint, status string"
    )
    place = str(tmp_path / "store")
    with dp.Store(None, place, plain) as store:
        store.update({"orders": given("orders", {1: (9, 10, "new"), 2: (None, 20, "paid")})})
    with dp.Store(None, place, shop()) as store:
        result = {one.name: one for one in store.check()}
        assert result["orders_refers_customer_id"].rows == 1
        assert result["orders_refers_customer_id"].sample == ({"order_id": 1, "customer_id": 9},)
        assert result["orders_not_null_customer_id"].broken
        assert store.head.checks == ()
        for changes in ({}, {"customers": given("customers", {1: ("ada",)})}):
            with pytest.raises(dp.ChecksFailedError) as raised:
                store.update(changes)
            assert names(raised.value.checks) == [
                "orders_not_null_customer_id",
                "orders_refers_customer_id",
            ]
            assert all(one.broken_before for one in raised.value.checks)
        assert store.head.number == 1
        version = store.update(
            {
                "customers": given("customers", {9: ("nina",)}),
                "orders": given("orders", {2: None}),
            }
        )
        assert not any(one.broken for one in version.checks)
        assert version.number == 2


def test_a_check_becomes_stricter(tmp_path: Path) -> None:
    """C4: then the rows that are there count, though no row changes."""
    with filled(tmp_path, severity="warn", at_most=0) as store:
        store.update({"orders": given("orders", {3: (1, -1, "new")})})
    with dp.Store(None, str(tmp_path / "store"), shop(at_most=0)) as store:
        assert store.head.checks[2].severity == "warn"
        with pytest.raises(dp.ChecksFailedError) as raised:
            store.update({})
        assert [(one.name, one.broken_before) for one in raised.value.checks] == [
            ("orders_unique_customer_id_status", True),
            ("orders_where", True),
        ]
        assert store.check().failed == raised.value.checks or len(store.check().failed) == 2
    with dp.Store(None, str(tmp_path / "store"), shop(at_most=1)) as store:
        assert store.update({}).number == 2


def test_a_deletion_that_has_to_be_is_published(tmp_path: Path) -> None:
    """C4: `forget` publishes, and says which checks are broken; updates then must mend that."""
    with filled(tmp_path) as store:
        store.forget("customers", 2)
        assert [one.name for one in store.head.checks if one.broken] == [
            "orders_refers_customer_id"
        ]
        with pytest.raises(dp.ChecksFailedError) as raised:
            store.update({"customers": given("customers", {3: ("cy",)})})
        assert raised.value.checks[0].broken_before
        with pytest.raises(dp.ChecksFailedError):
            store.update()
        assert store.update({"orders": given("orders", {2: None})}).number == 3


def test_a_rollback_to_rows_that_break_a_new_check_is_refused(tmp_path: Path) -> None:
    """The check has no rows in that version, so its query runs over it."""
    plain = dp.Pipeline("shop")
    plain.source("customers", key="customer_id bigint", value="name string")
    plain.source(
        "orders", key="order_id bigint", value="customer_id bigint, amount bigint, status string"
    )
    place = str(tmp_path / "store")
    with dp.Store(None, place, plain) as store:
        store.update({"orders": given("orders", {1: (None, 10, "new"), 2: (None, -20, "paid")})})
        store.update({"orders": given("orders", {2: None})})
        store.update({"orders": given("orders", {1: None})})
    with dp.Store(None, place, shop()) as store:
        store.update({"customers": given("customers", {1: ("ada",)})})
        for number, broken in (
            (1, ["orders_not_null_customer_id", "orders_where"]),
            (2, ["orders_not_null_customer_id"]),
        ):
            with pytest.raises(dp.ChecksFailedError) as raised:
                store.rollback(number)
            assert names(raised.value.checks) == broken
        assert store.head.number == 4
        back = store.rollback(3)
        assert not any(one.broken for one in back.checks)
        assert len(back.checks) == 8
        with pytest.raises(dp.ChecksFailedError):  # what the rollback left empty is made again
            store.update({"orders": given("orders", {1: (None, 10, "new")})})
        store.update({"customers": given("customers", {2: ("bob",)})})
        assert not any(one.broken for one in store.check())


def test_a_check_whose_columns_change_keeps_no_one_from_rolling_back(tmp_path: Path) -> None:
    """Its query runs over the version; the next update keeps its rows again."""

    def numbers(query: str) -> dp.Pipeline:
        pipeline = dp.Pipeline("numbers")
        pipeline.source("numbers", key="n bigint", value="v bigint")
        pipeline.check("few", query)
        return pipeline

    place, few = str(tmp_path / "store"), "FROM numbers GROUP BY v HAVING count(*) > 2"
    with dp.Store(None, place, numbers(f"SELECT v {few}")) as store:
        for n in range(1, 4):
            store.update({"numbers": [{"n": n, "v": n}]})
    with dp.Store(None, place, numbers(f"SELECT v, count(*) AS n {few}")) as store:
        assert store.rollback(2).number == 4
        assert [(one.rows, one.broken) for one in store.check()] == [(0, False)]
        store.update({"numbers": [{"n": 4, "v": 1}]})
        with pytest.raises(dp.ChecksFailedError) as raised:
            store.update({"numbers": [{"n": 5, "v": 1}]})
        assert raised.value.checks[0].sample == ({"v": 1, "n": 3},)
        store.rollback(1)
        assert not store.verify(recompute=True)
    with dp.Store(None, place, numbers("SELECT v FROM numbers WHERE v = 2")) as store:
        with pytest.raises(dp.ChecksFailedError):
            store.rollback(2)
        assert store.rollback(1).number == 6
        assert store.update({"numbers": [{"n": 9, "v": 9}]}).checks[0].rows == 0
        assert not store.verify(recompute=True)


@pytest.mark.parametrize("table", ["_check_1_large", "_check_1_spenders", "_groups_1_spenders"])
def test_a_damaged_check_is_repaired(tmp_path: Path, table: str) -> None:
    """From the stages that it reads; it is broken before and after, which no repair refuses."""
    with filled(tmp_path, severity="warn") as store:
        store.update({"orders": given("orders", {3: (1, 95, "new")})})
    shutil.rmtree(tmp_path / "store" / table / "content")
    with dp.Store(None, str(tmp_path / "store"), shop()) as store:
        assert store.verify()
        store.repair()
        assert not store.verify(recompute=True)
        assert [one.name for one in store.check() if one.broken] == [
            "orders_unique_customer_id_status",
            "large",
            "spenders",
        ]


def test_a_repair_that_breaks_a_check_is_refused(tmp_path: Path) -> None:
    """Unless the head breaks it, too: then nothing else could mend the store."""
    added = tmp_path / "added"
    added.write_text("0")

    def numbers(severity: str) -> dp.Pipeline:
        pipeline = dp.Pipeline("numbers")
        pipeline.source("numbers", key="n bigint", value="v bigint")
        path = str(added)

        @pipeline.producer("numbers", key="n bigint", value="total bigint", revision="1")
        def totals(n: int, values: Any) -> Any:
            from pathlib import Path

            yield n, sum(values) + int(Path(path).read_text())

        pipeline.check("small", "SELECT n FROM totals WHERE total > 9", severity=severity)
        return pipeline

    place = str(tmp_path / "store")
    with dp.Store(None, place, numbers("error")) as store:
        store.update({"numbers": [{"n": 1, "v": 1}]})
        added.write_text("10")
        with pytest.raises(dp.ChecksFailedError):
            store.repair(recompute=True)
        assert store.head.number == 1
    with dp.Store(None, place, numbers("warn")) as store:
        assert store.repair(recompute=True).number == 2
        added.write_text("20")
    with dp.Store(None, place, numbers("error")) as store:
        version = store.repair(recompute=True)
        assert [(one.broken, one.broken_before) for one in version.checks] == [(True, True)]
        assert not store.verify(recompute=True)


def drawn(random: Random) -> tuple[dict[int, Any], dict[int, Any]]:
    """Changes of customers and of orders; most break nothing."""
    customers: dict[int, Any] = {
        random.randrange(4): None if random.random() < 0.2 else (random.choice(["ada", "bob"]),)
        for _ in range(random.randrange(3))
    }
    orders: dict[int, Any] = {
        random.randrange(8): None
        if random.random() < 0.3
        else (
            random.choice([0, 1, 2, 3, 3, None]),
            random.choice([1, 20, 50, 95, -1, None]),
            random.choice(["new", "paid", "paid", "lost", None]),
        )
        for _ in range(random.randrange(4))
    }
    return customers, orders


def after(rows: Rows, changes: Mapping[int, Any]) -> Rows:
    merged = {**rows, **changes}
    return {key: values for key, values in merged.items() if values is not None}


@dataclass
class Life:
    """A store that random things happen to, and its contents as dicts.

    Attributes:
        rows: customers and orders.
        past: the same of each version.
        counts: how many versions were published, and how many refused.
    """

    random: Random
    place: str
    limits: dp.Limits
    at_most: int = 0
    rows: tuple[Rows, Rows] = ({}, {})
    past: list[tuple[Rows, Rows]] = field(default_factory=lambda: [({}, {})])
    counts: Counter[str] = field(default_factory=Counter)

    def open(self) -> dp.Store:
        self.at_most = self.random.randrange(3)
        return dp.Store(None, self.place, shop(at_most=self.at_most), limits=self.limits)

    def failing(self, rows: tuple[Rows, Rows]) -> dict[str, int]:
        return {name: n for name, n in found(*rows).items() if n > self.at_most}

    def step(self, store: dp.Store) -> None:
        """Let something happen, and compare."""
        ways = ("update", "update", "update", "load", "rollback", "forget", "crash")
        way, head = self.random.choice(ways), store.head.number
        act, wanted = self.chosen(store, way)
        if way == "crash":
            with (
                failpoints.armed(CrashAt(self.random.randrange(20), fail)),
                suppress(CrashError, dp.ChecksFailedError),
            ):
                act()
            if store.head.number > head:
                assert not self.failing(wanted)
                self.publish(wanted)
            self.compare(store)
            return
        failing = self.failing(wanted)
        refused = None
        try:
            act()
        except dp.ChecksFailedError as error:
            refused = error
        if refused is None:
            assert way == "forget" or not failing
            if store.head.number > head:
                self.publish(wanted)
                assert {one.name: one.rows for one in store.head.checks} == found(*wanted)
                assert {one.name for one in store.head.checks if one.broken} == {*failing}
        else:
            self.counts["refused"] += 1
            assert way != "forget"
            assert {one.name: one.rows for one in refused.checks} == failing
            before = {one.name for one in refused.checks if one.broken_before}
            assert before == {*self.failing(self.rows)} & {*failing}
            assert store.head.number == head
        self.compare(store)

    def chosen(self, store: dp.Store, way: str) -> tuple[Callable[[], object], tuple[Rows, Rows]]:
        """What happens, and the rows that come of it."""
        random, (customers, orders) = self.random, self.rows
        of_customers, of_orders = drawn(random)
        if way == "load":
            wanted = after({}, of_orders)
            types = (pa.int64(), pa.int64(), pa.int64(), pa.string())
            rows = given("orders", wanted)
            table = pa.table(
                {
                    name: pa.array([row[name] for row in rows], kind)
                    for name, kind in zip(COLUMNS["orders"], types, strict=True)
                }
            )
            return partial(store.load, {"orders": table}), (customers, wanted)
        if way == "rollback":
            number = random.randrange(len(self.past))
            return partial(store.rollback, number), self.past[number]
        if way == "forget":
            key = random.randrange(4)
            gone = after(customers, {key: None}), orders
            return partial(store.forget, "customers", key), gone
        changes = {
            "customers": given("customers", of_customers),
            "orders": given("orders", of_orders),
        }
        act = partial(store.update, changes, f"id {random.random()}")
        return act, (after(customers, of_customers), after(orders, of_orders))

    def publish(self, rows: tuple[Rows, Rows]) -> None:
        self.rows = rows
        self.past.append(rows)
        self.counts["published"] += 1

    def compare(self, store: dp.Store) -> None:
        assert (content(store, "customers"), content(store, "orders")) == self.rows
        checked = store.check()
        assert {one.name: one.rows for one in checked} == found(*self.rows)
        assert all(len(one.sample) == min(one.rows, 10) for one in checked)


@pytest.mark.parametrize(
    ("seed", "way"),
    some(product(range(6), ("small", "runs")), lambda *case: case in {(3, "small"), (1, "runs")}),
)
def test_no_version_breaks_a_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, way: str, long_run: bool
) -> None:
    """Over random updates, loads, rollbacks, deletions, crashes and other bounds.

    What a version and the store say of each check is what its rule finds in the contents.
    """
    monkeypatch.setattr("deltaproduce.operations.publisher._WRITERS", 1)
    life = Life(Random(seed), str(tmp_path / "store"), WAYS[way])
    store = life.open()
    for _ in range(60 if long_run else 14):
        if life.random.random() < 0.2:
            store.close()
            store = life.open()
        life.step(store)
    store.close()
    assert life.counts["refused"]
    assert life.counts["published"]


def days(*, severity: str = "error") -> dp.Pipeline:
    """Sales by day, of which tasks make a stage."""
    pipeline = dp.Pipeline("days")
    pipeline.source("sales", key="day date, n int", value="sold int", partition="day")
    scopes = "FOR t IN timeseries('1 day', 6), LET at = CAST(t AS date)"
    query = "SELECT n, sold * 2 AS twice FROM sales WHERE sales.day = at"
    told: dict[str, Any] = {"partition": "day = at", "scopes": scopes}
    pipeline.partitioned("days", query, key="n", **told)
    more = "SELECT n, twice + 1 AS more FROM days WHERE days.day = at"
    pipeline.partitioned("more", more, key="n", **told)
    pipeline.check("small", "SELECT day, n FROM days WHERE twice > 100", severity=severity)
    pipeline.check("known", "SELECT day, n FROM sales WHERE sold IS NULL", severity=severity)
    return pipeline


def sold(of_days: Mapping[int, int | None]) -> dict[str, list[dict[str, Any]]]:
    return {"sales": [{"day": date(2022, 3, day), "n": 1, "sold": n} for day, n in of_days.items()]}


def test_a_task_whose_rows_break_a_check_fails(tmp_path: Path) -> None:
    """C4: it names the check; the other tasks are published, and those that need it wait."""
    with dp.Store(None, str(tmp_path / "store"), days()) as store:
        store.update(sold({1: 1, 2: 60, 3: 3, 4: 4, 5: 70, 6: 6}))
        with pytest.raises(dp.TasksFailedError) as raised:
            store.run(as_of=date(2022, 3, 6))
        run = raised.value.run
        assert isinstance(run, dp.Run)
        assert {*map(str, run.failed)} == {"days/day=2022-03-02", "days/day=2022-03-05"}
        for one in run.failed:
            assert isinstance(one.error, dp.ChecksFailedError)
            assert names(one.error.checks) == ["small"]
            assert one.error.checks[0].sample[0]["day"] == one.of.values[0][1]
        assert {*map(str, run.done)} == {
            f"{stage}/day=2022-03-0{n}" for stage in ("days", "more") for n in (1, 3, 4, 6)
        }
        assert {*map(str, run.blocked)} == {"more/day=2022-03-02", "more/day=2022-03-05"}
        assert not any(one.broken for one in store.head.checks)
        store.update(sold({2: 2}))
        with pytest.raises(dp.TasksFailedError) as raised:
            store.run(as_of=date(2022, 3, 6))
        assert [*map(str, raised.value.run.failed)] == ["days/day=2022-03-05"]  # type: ignore[attr-defined]
        assert [*map(str, raised.value.run.done)] == ["days/day=2022-03-02", "more/day=2022-03-02"]  # type: ignore[attr-defined]
        with pytest.raises(dp.ChecksFailedError):
            store.update(sold({3: 90}), as_of=date(2022, 3, 6))
        with pytest.raises(dp.ChecksFailedError):
            store.update(sold({3: None}))


def test_a_run_fails_if_its_checks_fail_without_any_task(tmp_path: Path) -> None:
    """No task is to blame for rows of a source."""
    place = str(tmp_path / "store")
    with dp.Store(None, place, days(severity="warn")) as store:
        store.update(sold({1: 1, 2: None}))
    with dp.Store(None, place, days()) as store:
        with pytest.raises(dp.ChecksFailedError) as raised:
            store.run(as_of=date(2022, 3, 6))
        assert names(raised.value.checks) == ["known"]


def test_a_backfill_leaves_tasks_whose_rows_break_a_check(tmp_path: Path) -> None:
    place = str(tmp_path / "store")
    with dp.Store(None, place, days(severity="warn")) as store:
        store.update(sold({1: 1, 2: 60}))
        store.run(as_of=date(2022, 3, 6))
        store.update(sold({2: 2, 3: 80}))
        store.run(as_of=date(2022, 3, 6))
        store.update(sold({4: 1}))
    with dp.Store(None, place, days()) as store:
        with pytest.raises(dp.ChecksFailedError):
            store.backfill("days", {"day": date(2022, 3, 3)}, atomic=True)
        with pytest.raises(dp.ChecksFailedError):
            store.backfill("days", {"day": date(2022, 3, 3)})


@pytest.mark.parametrize("broken", [2, 4, 5])
def test_versions_before_the_broken_one_stay(tmp_path: Path, broken: int) -> None:
    """C4: a window that catches up partition by partition makes a version for each."""
    pipeline = dp.Pipeline("days")
    pipeline.source("sales", key="day int, n int", value="sold int")
    pipeline.aggregate(
        "recent",
        "sales",
        key="n",
        values={"sold": agg.sum("sold")},
        window=dp.window("day", start=1, max_partitions=1),
    )
    pipeline.check("small", "SELECT n, sold FROM recent WHERE sold > 100")
    rows = [{"day": day, "n": 1, "sold": 500 if day == broken else day} for day in range(1, 6)]
    with dp.Store(None, str(tmp_path / "store"), pipeline) as store:
        store.update({"sales": rows[:1]})
        with pytest.raises(dp.ChecksFailedError):
            store.update({"sales": rows[1:]}, "an id")
        assert not any(one.broken for version in store.versions() for one in version.checks)
        assert store.content("recent").column("sold").to_pylist() == [sum(range(1, broken))]
        assert store.update_ids() == []


LIFE = """
import random, sys
import deltaproduce as dp
from test_checks import given, shop

chance = random.Random(int(sys.argv[2]))
with dp.Store(None, sys.argv[1], shop()) as store:
    print("ready", flush=True)
    while True:
        customers = {n: (f"n{n}",) for n in chance.sample(range(4), 2)}
        orders = {
            n: chance.choice([None, (chance.randrange(4), chance.randrange(-3, 60), "new")])
            for n in chance.sample(range(12), 3)
        }
        try:
            of_customers, of_orders = given("customers", customers), given("orders", orders)
            store.update({"customers": of_customers, "orders": of_orders})
            print("published", flush=True)
        except dp.ChecksFailedError:
            print("refused", flush=True)
"""


def test_no_version_that_is_there_after_kills_breaks_a_check(tmp_path: Path) -> None:
    """A process is killed again and again while versions come and are refused."""
    chance, location, refused = Random(8), str(tmp_path / "store"), 0
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path}
    for number in range(4):
        command = [sys.executable, "-c", LIFE, location, str(number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as life:
            assert life.stdout is not None
            lines = [life.stdout.readline() for _ in range(8)]
            time.sleep(chance.uniform(0, 0.2))
            life.kill()
            refused += lines.count(b"refused\n")
            assert lines[0] == b"ready\n"
    with dp.Store(None, location, shop()) as store:
        assert store.head.number
        for version in store.versions():
            rows = {
                name: {
                    row[columns[0]]: tuple(row[one] for one in columns[1:])
                    for row in store.content(name, version=version.number).to_pylist()
                }
                for name, columns in COLUMNS.items()
            }
            assert not any(found(rows["customers"], rows["orders"]).values())
        assert not any(one.broken for one in store.check())
        assert not store.verify(recompute=True)
    assert refused


def made_of_orders() -> dp.Pipeline:
    """Lines of orders, and their totals by a function, with checks that have keys and have none."""
    pipeline = dp.Pipeline("made")
    orders = pipeline.source("orders", key="id bigint", value="customer bigint, amount bigint")

    @pipeline.producer(orders, key="customer bigint", value="order bigint, amount bigint")
    def by_customer(key: int, values: Any) -> Any:
        for value in values:
            yield value.customer, (key, value.amount)

    @pipeline.producer(by_customer, key="customer bigint", value="total bigint")
    def totals(key: int, values: Any) -> Any:
        yield key, sum(value.amount for value in values)

    totals.expect(where="total < 100")
    pipeline.check("of_totals", "SELECT customer AS c, total FROM totals WHERE total > 150")
    pipeline.check("number", "SELECT count(*) AS n FROM orders HAVING count(*) > 3")
    return pipeline


def test_an_error_says_which_rows_of_the_batch_led_there(tmp_path: Path) -> None:
    """The orders of the customers whose totals are too large, and of the batch; not other rows."""
    batch = [{"id": n, "customer": n % 2, "amount": 40} for n in range(3)]
    with dp.Store(None, str(tmp_path), made_of_orders()) as store:
        store.update({"orders": batch})
        new = [{"id": 7, "customer": 0, "amount": 90}, {"id": 8, "customer": 1, "amount": 1}]
        with pytest.raises(dp.ChecksFailedError) as failed:
            store.update({"orders": new})
        given_keys = {one.name: one.given for one in failed.value.checks}
        assert given_keys == {
            "totals_where": {"orders": ({"id": 7},)},
            "of_totals": {"orders": ({"id": 7},)},
            "number": {},
        }
        assert "from 'orders' {'id': 7} of the batch" in str(failed.value)
        assert store.head.number == 1
        assert all(not one.given for one in store.check())


def in_pairs() -> dp.Pipeline:
    """Entries that are divided into two stages, and a check that joins them."""
    pipeline = dp.Pipeline("pairs")
    value = "pair bigint, side string, amount bigint"
    pipeline.source("entries", key="id bigint", value=value)

    def one_side(side: str) -> None:
        @pipeline.producer(
            "entries", key="id bigint", value="pair bigint, amount bigint", name=side
        )
        def made(key: int, values: Any) -> Any:
            for value in values:
                if value.side == side:
                    yield key, (value.pair, value.amount)

    one_side("debits")
    one_side("credits")
    pipeline.check(
        "balanced",
        "SELECT d.id AS debit, c.id AS credit FROM debits d JOIN credits c USING (pair) "
        "WHERE d.amount <> c.amount",
    )
    return pipeline


@pytest.mark.parametrize("pairs", [1, 3, 20])
def test_an_error_says_the_rows_of_the_batch_that_came_by_several_ways(
    tmp_path: Path, pairs: int
) -> None:
    """Keys of both sides of a join, each once, ten at most."""
    batch = [
        {"id": 2 * n + place, "pair": n, "side": side, "amount": place}
        for n in range(pairs)
        for place, side in enumerate(("debits", "credits"))
    ]
    with dp.Store(None, str(tmp_path), in_pairs()) as store:
        with pytest.raises(dp.ChecksFailedError) as failed:
            store.update({"entries": batch})
        (check,) = failed.value.checks
        ids = [row["id"] for row in check.given["entries"]]
        assert len({*ids}) == len(ids) == min(2 * pairs, 10)
        assert {*ids} <= {row["id"] for row in batch}
