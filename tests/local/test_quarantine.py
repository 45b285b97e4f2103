"""Quarantine: rows that are given and break a rule of their source are set aside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from comparing import assert_changes
from crashing import CrashAt, CrashError, fail
from local_stores import WAYS, as_rows, assert_same_here, update_both
from selecting import some
from series import drawn, instructed

import deltaproduce as dp
from deltaproduce.storage import failpoints
from deltaproduce.testing import Oracle, Upsert, strategies

Values = tuple[Any, ...]
"""A customer, an amount and a status."""
Contents = dict[int, list[Values]]
"""The rows of each order."""

RULES: dict[str, Callable[[Values], bool]] = {
    "orders_not_null_customer_id": lambda row: row[0] is None,
    "orders_where": lambda row: row[1] is not None and row[1] < 0,
    "orders_among_status": lambda row: row[2] not in ("new", "paid", None),
}
"""Which rows break each rule of `shop`."""


def shop(*, quarantines: bool = True) -> dp.Pipeline:
    """Orders, their totals, and what is rejected of them by customer."""
    pipeline = dp.Pipeline("shop")
    value = "customer_id bigint, amount bigint, status string"
    orders = pipeline.source("orders", key="order_id bigint", value=value)
    pipeline.sql(
        "totals",
        "SELECT customer_id, count(*) AS n, sum(amount) AS total FROM orders GROUP BY customer_id",
    )
    if quarantines:
        orders.expect(not_null="customer_id", severity="quarantine")
        orders.expect(where="amount >= 0", severity="quarantine")
        pipeline.sql(
            "rejected_by_rule",
            "SELECT _rule AS rule, count(*) AS n, max(_version) AS newest "
            "FROM orders__rejected GROUP BY _rule",
        )
        orders.expect(among={"status": ["new", "paid"]}, severity="quarantine")
    return pipeline


def rows(changes: Mapping[int, Sequence[Values] | None]) -> dict[str, list[dict[str, Any]]]:
    """Changes of orders; None deletes."""
    names = ("customer_id", "amount", "status")
    return {
        "orders": [
            {"order_id": key, **dict(zip(names, values, strict=True)), "_change_type": change}
            for key, of_key in changes.items()
            for values, change in (
                [((None, None, None), "delete")]
                if of_key is None
                else [(one, "upsert") for one in of_key]
            )
        ]
    }


def whole(contents: Mapping[int, Sequence[Values]]) -> dict[str, pa.Table]:
    """All rows of orders."""
    every = [(key, *values) for key, of_key in contents.items() for values in of_key]
    columns = list(zip(*every, strict=True)) if every else [(), (), (), ()]
    types = (pa.int64(), pa.int64(), pa.int64(), pa.string())
    names = ("order_id", "customer_id", "amount", "status")
    arrays = (pa.array(list(c), t) for c, t in zip(columns, types, strict=True))
    return {"orders": pa.table(dict(zip(names, arrays, strict=True)))}


def content(store: dp.Store) -> Contents:
    found: Contents = {}
    for row in store.content("orders", ordered=True).to_pylist():
        values = (row["customer_id"], row["amount"], row["status"])
        found.setdefault(row["order_id"], []).append(values)
    return found


def rejected(store: dp.Store, version: int | None = None) -> dict[int, list[tuple[Any, ...]]]:
    """The values, the rule and the version of each rejected row, by order."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in store.content("orders__rejected", version, ordered=True).to_pylist():
        values = (row["customer_id"], row["amount"], row["status"])
        found.setdefault(row["order_id"], []).append((*values, row["_rule"], row["_version"]))
    return found


def test_only_breaking_rows_are_set_aside(tmp_path: Path) -> None:
    """C3: one row for each rule that is broken; the others are taken."""
    with dp.Store(None, str(tmp_path / "store"), shop()) as store:
        version = store.update(
            rows({1: [(1, 5, "new"), (1, -5, "lost")], 2: [(2, 7, "paid")], 3: [(None, -1, None)]})
        )
        assert content(store) == {1: [(1, 5, "new")], 2: [(2, 7, "paid")]}
        assert rejected(store) == {
            1: [(1, -5, "lost", "orders_where", 1), (1, -5, "lost", "orders_among_status", 1)],
            3: [
                (None, -1, None, "orders_not_null_customer_id", 1),
                (None, -1, None, "orders_where", 1),
            ],
        }
        assert version.stages["orders__rejected"].rows == 4
        store.update(rows({2: None, 1: [(1, 6, "new")], 4: [(None, 1, None)]}))
        assert content(store) == {1: [(1, 6, "new")]}
        store.rollback(1)
        assert store.content("totals").num_rows == 2
        by_rule = {row["rule"]: row["n"] for row in store.content("rejected_by_rule").to_pylist()}
        assert by_rule == {
            "orders_where": 2,
            "orders_among_status": 1,
            "orders_not_null_customer_id": 1,
        }
        assert [(one.severity, one.broken) for one in version.checks] == [("quarantine", False)] * 3
        assert store.content("orders__rejected").column_names == [
            *("order_id", "customer_id", "amount", "status", "_rule", "_version", "_ordinal")
        ]


def test_what_clears_rejected_rows(tmp_path: Path) -> None:
    """C3: the key's next batch, its delete, and a load without it; the same rows change nothing."""
    bad = {n: [(None, n, "new")] for n in range(1, 6)}
    with dp.Store(None, str(tmp_path / "store"), shop()) as store:
        store.update(rows(bad | {9: [(9, 9, "new")]}))
        assert store.update(rows({1: bad[1]})).number == 1
        assert store.load(whole(bad | {9: [(9, 9, "new")]})).number == 1
        assert store.update(rows({1: bad[1], 8: [(8, 8, "new")]})).number == 2
        assert rejected(store)[1][0][-1] == 1
        store.update(rows({1: [(1, 1, "new")], 2: None, 3: [(None, 33, "new")]}))
        assert content(store) == {1: [(1, 1, "new")], 8: [(8, 8, "new")], 9: [(9, 9, "new")]}
        assert {key: of_key[0][-1] for key, of_key in rejected(store).items()} == {3: 3, 4: 1, 5: 1}
        store.load(whole({5: bad[5], 9: [(9, 9, "new")]}))
        assert [*rejected(store)] == [5]
        assert [*content(store)] == [9]
        assert [*rejected(store, 1)] == [1, 2, 3, 4, 5]
        assert store.rollback(1).number == 5
        assert [*rejected(store)] == [1, 2, 3, 4, 5]
        assert not store.verify(recompute=True)


def test_a_key_whose_rows_are_all_rejected_is_gone(tmp_path: Path) -> None:
    """The rows that it had are its rows no more."""
    with dp.Store(None, str(tmp_path / "store"), shop()) as store:
        store.update(rows({1: [(1, 5, "new")], 2: [(2, 5, "new")]}))
        store.update(rows({1: [(1, -5, "new")]}))
        assert [*content(store)] == [2]
        store.load(whole({1: [(1, -5, "new")], 2: [(2, 6, "new")]}))
        assert [*content(store)] == [2]
        assert rejected(store) == {1: [(1, -5, "new", "orders_where", 2)]}


def test_rows_that_are_stored_already_stay(tmp_path: Path) -> None:
    """C3: when a rule comes; `check` counts them, and no update fails."""
    place = str(tmp_path / "store")
    with dp.Store(None, place, shop(quarantines=False)) as store:
        store.update(rows({1: [(None, 5, "new")], 2: [(2, 5, "lost")], 3: [(3, 5, "new")]}))
    with dp.Store(None, place, shop()) as store:
        checked = {one.name: one for one in store.check()}
        assert checked["orders_not_null_customer_id"].rows == 1
        assert checked["orders_not_null_customer_id"].broken
        assert not store.check().failed
        version = store.update(rows({4: [(None, 5, "new")]}))
        assert [*content(store)] == [1, 2, 3]
        assert [*rejected(store)] == [4]
        assert {one.name: one.rows for one in version.checks} == {
            "orders_not_null_customer_id": 1,
            "orders_where": 0,
            "orders_among_status": 1,
        }
        store.update(rows({1: [(None, 5, "new")]}))
        assert [*content(store)] == [2, 3]


def test_what_is_forgotten_is_not_set_aside_either(tmp_path: Path) -> None:
    with dp.Store(None, str(tmp_path / "store"), shop()) as store:
        store.update(rows({1: [(1, -5, "new"), (1, 5, "new")], 2: [(2, 5, "new")]}))
        report = store.forget("orders", 1)
        assert [*content(store)] == [2]
        assert rejected(store) == {}
        assert "orders__rejected" in {one.stage for one in report.remains}
        with pytest.raises(dp.InvalidArgumentError):
            store.forget("orders__rejected", 2)


def test_rejected_rows_are_rows_of_a_stage(tmp_path: Path) -> None:
    """C3: they are read, followed, diffed, looked up and vacuumed as any; none are given for it."""
    with dp.Store(None, str(tmp_path / "store"), shop()) as store:
        for n in range(1, 5):
            store.update(rows({n: [(None, n, "new")], n - 1: [(1, n, "new")]}))
        assert store.updates("orders__rejected", 2, ordered=True).to_pylist() == [
            {
                "_version": 2,
                "_change_type": change,
                "order_id": key,
                "_position": 0,
                "customer_id": None,
                "amount": amount,
                "status": status,
                "_rule": rule,
            }
            for key, change, amount, status, rule in (
                (1, "delete", None, None, None),
                (2, "add", 2, "new", "orders_not_null_customer_id"),
            )
        ]
        feed = store.changes("orders__rejected", 1).to_pylist()
        assert [(row["order_id"], row["_change_type"]) for row in feed] == [
            (1, "delete"),
            (4, "insert"),
        ]
        assert store.lookup("orders__rejected", [4]).rows.num_rows == 1
        diff = store.diff(1, 4).stages
        assert (diff["orders__rejected"].added, diff["orders__rejected"].removed) == (1, 1)
        store.vacuum(keep_versions=1, unfinished_hours=0)
        assert [*rejected(store)] == [4]
        assert [stage.name for stage in shop().stages] == [
            *("orders", "totals", "orders__rejected", "rejected_by_rule")
        ]
        with pytest.raises(dp.InvalidChangesError):
            store.update({"orders__rejected": [{"order_id": 1}]})
    assert dp.open(str(tmp_path / "store")).content("orders__rejected").num_rows == 1


def test_rejected_rows_are_kept_as_long_as_those_taken(tmp_path: Path) -> None:
    """A source that keeps its last partitions keeps what it rejects of these."""
    pipeline = dp.Pipeline("sales")
    window = dp.window("day", last=2)
    sales = pipeline.source("sales", key="day date, n int", value="sold int", retain=window)
    sales.expect(where="sold >= 0", severity="quarantine")
    with dp.Store(None, str(tmp_path / "store"), pipeline) as store:
        for day in range(1, 5):
            of_day = [{"day": date(2024, 5, day), "n": n, "sold": n} for n in (-1, 1)]
            store.update({"sales": of_day})
        for stage in ("sales", "sales__rejected"):
            days = store.content(stage).column("day").to_pylist()
            assert {day.day for day in days} == {3, 4}


def test_a_source_with_rejected_rows_gets_a_column(tmp_path: Path) -> None:
    """So does the stage with them; its rows stay, and nulls are in the new column."""

    def wide(more: str = "") -> dp.Pipeline:
        pipeline = dp.Pipeline("shop")
        orders = pipeline.source("orders", key="order_id bigint", value=f"amount bigint{more}")
        orders.expect(where="amount >= 0", severity="quarantine")
        return pipeline

    place = str(tmp_path / "store")
    with dp.Store(None, place, wide()) as store:
        store.update({"orders": [{"order_id": n, "amount": -n} for n in (1, 2)]})
    with dp.Store(None, place, wide(", note string")) as store:
        store.update({"orders": [{"order_id": n, "amount": -n, "note": "x"} for n in (2, 3)]})
        found = store.content("orders__rejected", ordered=True).to_pylist()
        assert [(row["order_id"], row["note"], row["_version"]) for row in found] == [
            (1, None, 1),
            (2, "x", 2),
            (3, "x", 2),
        ]
        assert not store.verify(recompute=True)
    with dp.Store(None, place, wide(", note string, more int")) as store:
        table = {"order_id": [5], "amount": [-5], "note": ["y"], "more": [1]}
        store.load({"orders": pa.table(table)})
        assert store.content("orders__rejected").column("order_id").to_pylist() == [5]


@pytest.mark.parametrize(
    "expected",
    [{"unique": "amount"}, {"refers": {"customer_id": "orders.order_id"}}, {"at_most": 1}],
)
def test_other_rules_set_nothing_aside(expected: dict[str, Any]) -> None:
    """C3: rules about several rows, and stages whose rows are not given, are refused."""
    pipeline = shop(quarantines=False)
    orders, totals = pipeline.stages
    with pytest.raises(dp.DefinitionError):
        orders.expect(where="amount > 0", severity="quarantine", **expected)
    with pytest.raises(dp.DefinitionError):
        totals.expect(where="total > 0", severity="quarantine")
    with pytest.raises(dp.DefinitionError):
        pipeline.check("c", "SELECT order_id FROM orders", severity="quarantine")
    assert pipeline.checks == ()


PIPELINES = 60


@pytest.mark.parametrize(
    ("number", "way"),
    some(
        ((number, [*WAYS][number % len(WAYS)]) for number in range(PIPELINES)),
        lambda number, way: number < 2 * len(WAYS),
    ),
)
def test_what_is_rejected_is_what_the_oracle_sets_aside(
    location: str, number: int, way: str, long_run: bool
) -> None:
    """S16 over random pipelines: in each version, after a load and a rollback, and in the feeds."""
    rejecting = strategies.pipelines(strict=True, rejecting=True).filter(sets_aside)
    (pipeline,) = drawn(rejecting, 1, 500 + number)
    (history,) = drawn(instructed(pipeline, 6 if long_run else 4), 1, number)
    oracle, chance = Oracle(pipeline), Random(number)
    with dp.Store(None, location, pipeline, limits=WAYS[way]) as store:
        for batch, told in history:
            update_both(store, oracle, pipeline, batch, **told)
        upserts = {
            name: [change for change in changes if isinstance(change, Upsert)]
            for name, changes in history[0][0].items()
        }
        assert store.head.number == oracle.head
        loaded = as_rows(pipeline, upserts, is_snapshot=True)
        with suppress(dp.MissingPartitionsError):
            assert store.load(loaded).number == oracle.load(upserts)
        back = chance.randrange(oracle.head + 1)
        assert store.rollback(back).number == oracle.rollback(back)
        batch, told = history[-1]
        update_both(store, oracle, pipeline, batch, **told)
        assert_same_here(store, oracle, pipeline, range(oracle.head + 1))
        for name in (stage.name for stage in pipeline.stages):
            since, until = sorted(chance.choices(range(oracle.head + 1), k=2))
            for mode in ("net", "complete"):
                assert_changes(store, oracle, name, since, until, mode)
        assert store.verify(recompute=True) == ()


def sets_aside(pipeline: dp.Pipeline) -> bool:
    """Whether a source of a pipeline sets rows aside."""
    return any(one.kind.intake.rows_of for one in pipeline.graph().sources)


class Model:
    """What a store takes and rejects, as dicts."""

    def __init__(self) -> None:
        self.taken: Contents = {}
        self.rejected: dict[int, list[tuple[Any, ...]]] = {}

    def give(self, changes: Mapping[int, Sequence[Values] | None], version: int) -> bool:
        """Apply changes; return whether anything changes."""
        taken, aside = dict(self.taken), dict(self.rejected)
        for key, of_key in changes.items():
            good = [one for one in of_key or () if not any(b(one) for b in RULES.values())]
            bad = [(*one, rule) for one in of_key or () for rule, b in RULES.items() if b(one)]
            taken.pop(key, None)
            if good:
                taken[key] = good
            if [one[:-1] for one in aside.get(key, ())] != bad:
                aside.pop(key, None)
                if bad:
                    aside[key] = [(*one, version) for one in bad]
        is_change = (taken, aside) != (self.taken, self.rejected)
        self.taken, self.rejected = taken, aside
        return is_change


@pytest.mark.parametrize(
    ("seed", "way"),
    some(product(range(6), WAYS), lambda *case: case in {(1, "small"), (2, "runs")}),
)
def test_the_rows_taken_are_as_if_the_others_were_never_given(
    tmp_path: Path, seed: int, way: str, long_run: bool
) -> None:
    """C3, S16: over random batches, deletes, loads and rollbacks; and who reads rejected rows."""
    random, model = Random(seed), Model()
    store = dp.Store(None, str(tmp_path / "store"), shop(), limits=WAYS[way])
    past = [({}, {})]

    def drawn() -> Values:
        return (
            random.choice([1, 2, None]),
            random.choice([1, 2, -1, None]),
            random.choice(["new", "paid", "lost", None]),
        )

    for _ in range(40 if long_run else 12):
        head = store.head.number
        changes: dict[int, list[Values] | None] = {
            random.randrange(6): None
            if random.random() < 0.2
            else [drawn() for _ in range(random.randrange(1, 3))]
            for _ in range(random.randrange(1, 4))
        }
        way_of = random.choice(["update", "update", "update", "load", "rollback"])
        if way_of == "rollback":
            number = random.randrange(len(past))
            store.rollback(number)
            model.taken, model.rejected = (dict(one) for one in past[number])
        elif way_of == "load":
            given = {key: of_key for key, of_key in changes.items() if of_key is not None}
            gone = dict.fromkeys({*model.taken, *model.rejected} - given.keys())
            store.load(whole(given))
            model.give({**gone, **given}, head + 1)
        else:
            model.give(changes, head + 1)
            name = f"id {random.random()}"
            with (
                failpoints.armed(CrashAt(random.randrange(30), fail)),
                suppress(CrashError),
            ):
                store.update(rows(changes), name)
            assert store.update(rows(changes), name).number == head + 1
        if store.head.number > head:
            past.append((model.taken, model.rejected))
        assert content(store) == model.taken
        assert {k: sorted(map(repr, v)) for k, v in rejected(store).items()} == {
            k: sorted(map(repr, v)) for k, v in model.rejected.items()
        }
        by_rule = {row["rule"]: row["n"] for row in store.content("rejected_by_rule").to_pylist()}
        every = [one[3] for of_key in model.rejected.values() for one in of_key]
        assert by_rule == {rule: every.count(rule) for rule in {*every}}
    for number in range(1, store.head.number + 1):
        assert {*rejected(store, number)} == {*past[number][1]}
    assert not store.verify(recompute=True)
    store.close()
