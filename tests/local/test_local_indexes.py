"""Indexes without a session: one row for each row of their feeder, after any change.

They are also part of the random pipelines of `test_local_series` and the machines.
"""

import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from crashing import CrashAt, CrashError, fail
from local_stores import (
    IN_PARTS,
    WAYS,
    as_rows,
    assert_refreshed,
    assert_same_here,
)
from selecting import chosen, some
from two_sources import changes

import deltaproduce as dp
from deltaproduce.storage import failpoints
from deltaproduce.testing import Delete, Oracle, Upsert

LIMITS = {**WAYS, "in parts": IN_PARTS}
VALUE = "email string, n bigint, x double"


def site() -> dp.Pipeline:
    """Indexes of a source, of a stage whose rows come from many keys, and of an index."""
    pipeline = dp.Pipeline("site")
    events = pipeline.source("events", key="id bigint", value=VALUE)
    more = pipeline.source("more", key="id bigint", value=VALUE)
    pipeline.index("by_email", events, key="email string", include="x")

    @pipeline.producer(dp.merge(events, more), key="email string", value="id bigint, n bigint")
    def by_text(key: int, values: Iterator[Any]) -> Iterator[Any]:
        yield from ((value.email, (key, value.n)) for value in values)

    numbers = pipeline.index("by_n", by_text, key="n desc, id % 2 AS odd", include="id AS whose")
    pipeline.index("by_whose", numbers, key="coalesce(whose, 0) AS whose")
    return pipeline


def some_values(chance: random.Random) -> tuple[Any, ...]:
    return (
        chance.choice([None, "", "a", "b", "ü"]),
        chance.choice([None, 0, 1, -7]),
        chance.choice([None, 0.5, float("nan")]),
    )


INDEXED: dict[str, tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "by_email": ("events", lambda row: {k: row[k] for k in ("email", "id", "x")}),
    "by_n": (
        "by_text",
        lambda row: {
            "n": row["n"],
            "odd": row["id"] % 2,
            "email": row["email"],
            "whose": row["id"],
        },
    ),
    "by_whose": (
        "by_n",
        lambda row: {"whose": row["whose"] or 0, "n": row["n"], "odd": row["odd"]},
    ),
}
"""Of each index the feeder, and what it has of a row of it."""


def assert_one_for_one(store: dp.Store, version: int | None = None) -> None:
    """Each index has the rows of its feeder, under its own key, and no other."""
    for name, (feeder, made) in INDEXED.items():
        found, rows = store.content(name, version), store.content(feeder, version)
        assert isinstance(found, pa.Table)
        own = [c for c in found.column_names if not c.startswith("_")]
        assert sorted(map(repr, found.select(own).to_pylist())) == sorted(
            repr(made(row)) for row in rows.to_pylist()
        )


@pytest.mark.parametrize(
    ("way", "seed"),
    some(
        ((w, n) for w in LIMITS for n in range(8)),
        lambda way, seed: seed < 1 and way in ("small", "runs, often folded"),
    ),
)
def test_an_index_has_the_rows_of_its_feeder_in_every_version(
    location: str, way: str, seed: int, long_run: bool
) -> None:
    """Also what the oracle has, after a rollback, and after it is made anew."""
    pipeline, seed = site(), 10 * list(LIMITS).index(way) + seed
    oracle = Oracle(pipeline)
    with dp.Store(None, location, pipeline, limits=LIMITS[way]) as store:
        for batch in changes(seed, 6 if long_run else 4, some_values):
            assert store.update(as_rows(pipeline, batch)).number == oracle.update(batch)
            assert_one_for_one(store)
        assert_same_here(store, oracle, pipeline, range(oracle.head + 1))
        back = oracle.head // 2
        assert store.rollback(back).number == oracle.rollback(back)
        assert_one_for_one(store)
        assert_one_for_one(store, back + 1)
        assert_same_here(store, oracle, pipeline, [oracle.head])
        assert_refreshed(store, [name for name in INDEXED if store.head.stages[name].rows])
        assert store.verify(recompute=True) == ()


def shop() -> dp.Pipeline:
    pipeline = dp.Pipeline("shop")
    customers = pipeline.source("customers", key="id bigint", value="email string, name string")
    pipeline.index("by_email", customers, key="email", include="name")
    return pipeline


FIRST = {"customers": [Upsert((n,), (email, "x")) for n, email in enumerate("aab")]}
NEXT = {"customers": [Upsert((0,), (None, "y")), Delete((2,)), Upsert((9,), ("a", None))]}


@pytest.mark.parametrize("way", chosen(["small", "runs"], "runs"))
def test_a_crash_before_any_effect_leaves_a_whole_version(tmp_path: Path, way: str) -> None:
    pipeline = shop()
    before = Oracle(pipeline)
    before.update(FIRST)
    for point in count():
        location, oracle = str(tmp_path / str(point)), deepcopy(before)
        dp.Store(None, location, pipeline, limits=LIMITS[way]).update(as_rows(pipeline, FIRST))
        store = dp.Store(None, location, pipeline, limits=LIMITS[way])
        with failpoints.armed(CrashAt(point, fail)), pytest.raises(CrashError):
            store.update(as_rows(pipeline, NEXT), "next")
        store = dp.Store(None, location, pipeline, limits=LIMITS[way])
        published = store.head.number == 2
        assert_same_here(store, oracle, pipeline, [1])
        oracle.update(NEXT, "next")
        assert store.update(as_rows(pipeline, NEXT), "next").number == 2
        assert_same_here(store, oracle, pipeline, [0, 1, 2])
        assert store.verify() == ()
        if published:
            break
    assert point > 4


def test_rows_join_leave_and_rejoin_with_those_of_the_feeder(location: str) -> None:
    pipeline = shop()

    def row(number: int, email: str | None) -> dict[str, Any]:
        return {"id": number, "email": email, "name": f"n{number}"}

    def emails(version: dp.Version) -> dict[str | None, list[int]]:
        rows = store.content("by_email", version.number, ordered=True).to_pylist()
        return {r["email"]: [s["id"] for s in rows if s["email"] == r["email"]] for r in rows}

    with dp.Store(None, location, pipeline) as store:
        first = store.update({"customers": [row(1, "a"), row(2, "a"), row(3, None)]})
        moved = store.update({"customers": [row(1, "b")]})
        gone = store.update({"customers": [{"id": 2, "_change_type": "delete"}]})
        back = store.update({"customers": [row(1, "a"), row(3, None)]})
        assert emails(first) == {None: [3], "a": [1, 2]}
        assert emails(moved) == {None: [3], "a": [2], "b": [1]}
        assert emails(gone) == {None: [3], "b": [1]}
        assert emails(back) == {None: [3], "a": [1]}
        assert back.stages["by_email"].changed_keys == 2  # of "a", and of "b"
        lineage = store.lineage("by_email", "a")
        assert lineage.upstream["customers"].to_pylist() == [{"id": 1}]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"key": "mail"}, "'mail' is not one of the columns id, email, n, x"),
        ({"key": "email bigint"}, "declared as bigint and is string"),
        ({"key": "length(email)"}, "has no name"),
        ({"key": "email, email"}, "declared twice"),
        ({"key": "x"}, "float keys are refused"),
        ({"key": "id"}, "include a column"),
        ({"key": "count(*) AS n"}, "many rows"),
        ({"key": "email", "include": "id"}, "declared twice"),
        ({"key": "email", "include": "n bigint"}, "not a value of a row"),
    ],
)
def test_what_is_no_index_is_refused(arguments: dict[str, str], said: str) -> None:
    pipeline = dp.Pipeline("site")
    events = pipeline.source("events", key="id bigint", value=VALUE)
    with pytest.raises(dp.DefinitionError) as raised:
        pipeline.index("index", events, **arguments)
    assert raised.value.stage == "index"
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert [stage.name for stage in pipeline.stages] == ["events"]
