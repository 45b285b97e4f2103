"""User-defined aggregates without a session: after every version, the oracle's rows."""

import os
import random
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from arrow_aggregates import LeastOfColumns, MomentsOfColumns, SquaresOfColumns, WeightedColumns
from local_stores import WAYS, as_rows, assert_refreshed, assert_same_here, assert_versions
from own_aggregates import Least, Moments, Squares, Weighted
from selecting import some
from two_sources import changes

import deltaproduce as dp
from deltaproduce import agg
from deltaproduce.stages.aggregates import kind
from deltaproduce.stages.aggregates.windowed import Way
from deltaproduce.testing import Delete, Oracle, Upsert

VERSIONS, SHORT = 6, 3
SUBTRACTED = {
    "squares": agg.own(Squares(), "n"),
    "weighted": agg.own(Weighted(), "n", "price"),
    "without_nulls": agg.own(Squares(), "CASE WHEN n IS NULL THEN 2 ELSE n END"),
    "squares_over_arrow": agg.own(SquaresOfColumns(), "n"),
    "weighted_over_arrow": agg.own(WeightedColumns(), "n", "price"),
}
VALUES = {
    **SUBTRACTED,
    "texts": agg.own(Least(2), "t"),
    "span": agg.own(Moments(), "at"),
    "texts_over_arrow": agg.own(LeastOfColumns(2), "t"),
    "span_over_arrow": agg.own(MomentsOfColumns(), "at"),
}
STAGES = ("by_g", "by_two", "by_day", "all_days", "over_all")


def own_site() -> dp.Pipeline:
    """Own aggregates beside others, of one source and of two, of days, and merged from these."""
    pipeline = dp.Pipeline("site")
    value = "g string, n int, price decimal(12,2), t string, at timestamp, day date"
    events, more = (pipeline.source(n, key="id bigint", value=value) for n in ("events", "more"))
    pipeline.aggregate("by_g", events, key="g", values={**VALUES, "least": agg.min("n")})
    both = dp.merge(events, more)
    pipeline.aggregate(
        "by_two", both, key="g, t AS text", values={**SUBTRACTED, "sum": agg.sum("n")}
    )
    by_day = pipeline.aggregate(
        "by_day", both, key="day AS on_day, g", values=VALUES, where="n IS NULL OR n < 7"
    )
    merged = {f"all_{name}": agg.merge(name) for name in VALUES}
    all_days = pipeline.aggregate(
        "all_days", by_day, key="g", values={**merged, "days": agg.count()}
    )
    again = {name: agg.merge(f"all_{name}") for name in VALUES}
    pipeline.aggregate("over_all", all_days, key="", values=again)
    return pipeline


MOMENTS = [datetime(2013, 3, 31, hour, 30, tzinfo=UTC) for hour in (0, 1, 2)]


def values_of_row(chance: random.Random) -> tuple[Any, ...]:
    """Few values, and some are null."""
    return (
        chance.choice([None, "a", "b"]),
        chance.choice([None, 0, 1, -3, 2**31 - 1]),
        chance.choice([None, Decimal("0.01"), Decimal("-9999999999.99")]),
        chance.choice([None, "", "x", "y", "ü"]),
        chance.choice([None, *MOMENTS]),
    )


def own_history(seed: int, versions: int = VERSIONS) -> list[dict[str, list[Any]]]:
    """Changes of both sources."""
    days = [None, date(2013, 3, 1), date(2013, 3, 2)]
    return changes(seed, versions, lambda chance: (*values_of_row(chance), chance.choice(days)))


def assert_twins(store: dp.Store, stages: Iterable[str]) -> None:
    """What methods over whole columns make is what their twins make by value."""
    for stage in stages:
        rows = store.content(stage)
        table = rows if isinstance(rows, pa.Table) else rows.toArrow()
        for name in table.column_names:
            if name.endswith("_over_arrow"):
                twin = table.column(name.removesuffix("_over_arrow"))
                assert table.column(name).to_pylist() == twin.to_pylist(), f"{name} of {stage}"


@pytest.mark.parametrize(("seed", "way"), some(enumerate(WAYS), lambda _, way: way == "runs"))
def test_versions_equal_the_oracle(location: str, seed: int, way: str, long_run: bool) -> None:
    """And what is stored, states too, is what a refresh makes."""
    pipeline = own_site()
    oracle = Oracle(pipeline)
    with dp.Store(None, location, pipeline, limits=WAYS[way]) as store:
        series = own_history(60 + seed)[: VERSIONS if long_run else SHORT]
        assert_versions(store, oracle, pipeline, series)
        assert_twins(store, STAGES)
        assert_refreshed(store, STAGES)
        back = oracle.head // 2
        store.rollback(back)
        oracle.rollback(back)
        oracle.update(series[-1])
        store.update(as_rows(pipeline, series[-1]))
        assert store.verify(recompute=True) == ()


FIRST = date(2013, 2, 27)


def own_windows() -> dp.Pipeline:
    """Windows of each sort: of what is subtracted, of what is not, and over days."""
    pipeline = dp.Pipeline("windows")
    value = "g string, n int, price decimal(12,2), t string, at timestamp"
    days = pipeline.source("days", key="day date, id bigint", value=value)
    pipeline.aggregate("last", days, key="g", values=SUBTRACTED, window=dp.window("day", last=3))
    since = dp.window("day", start=FIRST + timedelta(days=2))
    pipeline.aggregate("since", days, key="g", values=VALUES, window=since)
    by_day = pipeline.aggregate("by_day", days, key="day, g", values=VALUES)
    merged = {name: agg.merge(name) for name in VALUES}
    pipeline.aggregate("of_days", by_day, key="g", values=merged, window=dp.window("day", last=3))
    return pipeline


@pytest.mark.parametrize(
    ("seed", "way", "moved"),
    [(1, "small", True), pytest.param(2, "runs", False, marks=pytest.mark.long)],
)
def test_windows_equal_the_oracle(
    location: str,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    way: str,
    moved: bool,
    long_run: bool,
) -> None:
    """Moved and made anew; with days that come late, and rows that go."""
    pipeline, chance = own_windows(), random.Random(seed)
    oracle = Oracle(pipeline)
    monkeypatch.setattr(kind, "way", lambda *_: Way(moved, "as the test has it"))
    known = set[tuple[date, int]]()
    with dp.Store(None, location, pipeline, limits=WAYS[way]) as store:
        for version in range(8 if long_run else 5):
            batch: list[Any] = []
            days = {FIRST + timedelta(days=version - late) for late in (0, chance.choice([1, 2]))}
            for key in sorted((day, chance.randrange(3)) for day in days):
                known.add(key)
                size = chance.choice([1, 2])
                batch += [Upsert(key, values_of_row(chance)) for _ in range(size)]
            gone = chance.sample(sorted(known), min(len(known), chance.choice([0, 2])))
            given = {change.key for change in batch}
            batch += [Delete(key) for key in gone if key not in given]
            found = store.update(as_rows(pipeline, {"days": batch}))
            assert found.number == oracle.update({"days": batch})
            assert_twins(store, ("last", "since", "of_days"))
        assert_same_here(store, oracle, pipeline, range(store.head.number + 1))
        assert store.verify(recompute=True) == ()


class Failing(Squares):
    """One whose methods fail for the number 13, each as it is told."""

    state = "bigint"
    type = "bigint"

    def __init__(self, **failing: Any) -> None:
        self.failing = failing

    def _found(self, method: str, state: int) -> Any:
        found = self.failing.get(method)
        if found is None or state < 13:
            return state
        if isinstance(found, BaseException):
            raise found
        if found == "ends":
            os._exit(3)
        return found

    def zero(self) -> Any:
        return self._found("zero", 13 if "zero" in self.failing else 0)

    def add(self, state: int, value: int | None) -> Any:
        return self._found("add", state + (value or 0))

    def merge(self, a: int, b: int) -> Any:
        return self._found("merge", a + b)

    def subtract(self, a: int, b: int) -> Any:
        return self._found("subtract", 13 + a - b)

    def result(self, state: int) -> Any:
        return self._found("result", state)


def failing_shop(**failing: Any) -> dp.Pipeline:
    pipeline = dp.Pipeline("shop")
    source = pipeline.source("rows", key="id bigint", value="g string, n int")
    values = {"rows": agg.count(), "own": agg.own(Failing(**failing), "n")}
    pipeline.aggregate("by_g", source, key="g", values=values)
    return pipeline


FAILURES: dict[str, tuple[dict[str, Any], type[BaseException] | None]] = {
    "zero": ({"zero": ZeroDivisionError("no")}, ZeroDivisionError),
    "add": ({"add": KeyError("no")}, KeyError),
    "merge": ({"merge": ValueError("no")}, ValueError),
    "subtract": ({"subtract": SystemExit(2)}, SystemExit),
    "result": ({"result": OverflowError("no")}, OverflowError),
    "a state of another type": ({"add": "thirteen"}, None),
    "a state too large": ({"merge": 2**63}, OverflowError),
    "a value of another type": ({"result": [1]}, None),
}


@pytest.mark.parametrize("name", FAILURES)
def test_what_a_method_raises_has_stage_key_and_cause(location: str, name: str) -> None:
    """Nothing is written; and a change that it does not fail for is made then."""
    failing, cause = FAILURES[name]
    first = [{"id": n, "g": "ab"[n % 2], "n": n} for n in (1, 2, 3)]
    if name == "subtract":
        change = {"id": 1, "_change_type": "delete"}
    else:
        change = {"id": 4, "g": "b", "n": 9 if "merge" in failing else 13}
    with dp.Store(None, location, failing_shop(**failing)) as store:
        before = 0 if name == "zero" else store.update({"rows": first}).number
        with pytest.raises(dp.ProducerError, match="value 'own'") as caught:
            store.update({"rows": [change, {"id": 5, "g": "c", "n": 0}]})
        error = caught.value
        assert (error.stage, error.column) == ("by_g", "own")
        assert error.key in ("a", "b", "c") if name == "zero" else error.key == "b"
        assert cause is None or isinstance(error.__cause__, cause)
        assert store.head.number == before
        if name != "zero":
            assert store.update({"rows": [{"id": 4, "g": "b", "n": 1}]}).number == before + 1


class FailingColumns(SquaresOfColumns):
    """One of which a method fails where a group has a sum of squares of 100."""

    def __init__(self, method: str, found: Any) -> None:
        self.failing = method, found

    def _after(self, method: str, states: pa.StructArray, returned: Any) -> Any:
        failing, found = self.failing
        if failing != method or 100 not in states.field("total").to_pylist():
            return returned
        if isinstance(found, BaseException):
            raise found
        return found

    def add(self, groups: pa.Array, size: int, numbers: pa.Array) -> pa.Array:
        states = super().add(groups, size, numbers)
        return self._after("add", states, states)

    def merge(self, groups: pa.Array, size: int, states: Any) -> pa.Array:
        merged = super().merge(groups, size, states)
        return self._after("merge", merged, merged)

    def subtract(self, a: Any, b: Any) -> Any:
        return self._after("subtract", b, super().subtract(a, b))

    def result(self, states: Any) -> pa.Array:
        return self._after("result", states, super().result(states))


CHANGED_BY = {
    "add": (1, {"id": 97, "n": 10}),
    "merge": (6, {"id": 97, "n": 8}),
    "subtract": (10, {"id": 17, "n": 1}),
    "result": (6, {"id": 97, "n": 8}),
}
"""What a key has before, and what changes, so that a method comes to 100."""


@pytest.mark.parametrize(
    ("method", "found"),
    [
        *((method, ValueError("no")) for method in ("add", "merge", "subtract", "result")),
        ("add", SystemExit(2)),
        ("add", 17),
        ("merge", pa.array([1, 2, 3])),
        ("result", pa.chunked_array([["a"]])),
    ],
)
def test_what_fails_over_columns_has_the_key_that_it_fails_for(
    location: str, method: str, found: Any
) -> None:
    """Though many keys are in one call; nothing is written."""
    pipeline = dp.Pipeline("shop")
    source = pipeline.source("rows", key="id bigint", value="g bigint, n int")
    own = agg.own(FailingColumns(method, found), "n")
    pipeline.aggregate("by_g", source, key="g", values={"own": own})
    rows = [{"id": n, "g": n, "n": 1} for n in range(40)]
    rows[17]["n"], changed = CHANGED_BY[method]
    more = [{"id": n, "g": n % 40, "n": 2} for n in range(60, 77)]
    with dp.Store(None, location, pipeline) as store:
        store.update({"rows": rows})
        with pytest.raises(dp.ProducerError, match=f"value 'own' failed in {method}") as caught:
            store.update({"rows": [*more, {"g": 17, **changed}]})
        assert (caught.value.stage, caught.value.key) == ("by_g", 17)
        cause = caught.value.__cause__
        assert cause is None or type(cause) is type(found)
        assert (cause is None) == (not isinstance(found, BaseException))
        assert store.head.number == 1


def test_a_worker_that_ends_is_a_failure_of_the_stage(location: str) -> None:
    with dp.Store(None, location, failing_shop(add="ends")) as store:
        with pytest.raises(dp.ProducerError) as caught:
            store.update({"rows": [{"id": 1, "g": "a", "n": 13}]})
        assert caught.value.stage == "by_g"


class Process(Squares):
    """The process that makes its values."""

    def result(self, state: Any) -> int:
        return Decimal(os.getpid())


def test_methods_are_called_in_another_process_and_an_edited_one_makes_all_anew(
    location: str,
) -> None:
    """No more of the feeder than its change is read before that, and after."""

    def shop(aggregate: Squares) -> dp.Pipeline:
        pipeline = dp.Pipeline("shop")
        source = pipeline.source("rows", key="id bigint", value="g string, n int")
        pipeline.aggregate("by_g", source, key="g", values={"own": agg.own(aggregate, "n")})
        return pipeline

    rows = [{"id": n, "g": "ab"[n % 2], "n": n} for n in range(4)]
    with dp.Store(None, location, shop(Process())) as store:
        store.update({"rows": rows})
        (one, other) = store.content("by_g").column("own").to_pylist()
        assert os.getpid() not in (one, other)
    with dp.Store(None, location, shop(Squares())) as store:
        (step,) = (step for step in store.plan({"rows": rows}) if step.stage.name == "by_g")
        assert (step.how, step.redefined) == ("full", True)
        version = store.update({"rows": [{"id": 4, "g": "a", "n": 1}]})
        assert version.stages["by_g"].mode == "full"
        assert store.content("by_g", ordered=True).column("own").to_pylist() == [5, 10]
    with dp.Store(None, location, shop(Squares())) as store:
        assert store.update({"rows": [{"id": 4, "g": "b"}]}).stages["by_g"].mode != "full"


def test_the_plan_says_that_a_key_is_made_again_from_its_rows(location: str) -> None:
    pipeline = own_site()
    with dp.Store(None, location, pipeline) as store:
        store.update({"events": [{"id": 1, "g": "a"}]})
        told = {s.stage.name: s.reason for s in store.plan({"events": [{"id": 2}]})}
        assert "again from its rows" in told["by_g"]
        assert "own(t, Least)" in told["all_days"]
        assert "again" not in told["by_two"]


class Factor:
    """Something that fingerprints see the type of alone."""

    def __init__(self, number: int) -> None:
        self.number = number


class Scaled(Squares):
    """Squares times something."""

    def __init__(self, factor: Factor) -> None:
        self.factor = factor

    def result(self, state: Any) -> Any:
        return state.total * self.factor.number


def test_objects_that_look_the_same_stay_apart(location: str) -> None:
    pipeline = dp.Pipeline("shop")
    source = pipeline.source("rows", key="id bigint", value="g string, n int")
    values = {f"by_{n}": agg.own(Scaled(Factor(n)), "n") for n in (1, 2)}
    by_g = pipeline.aggregate("by_g", source, key="g", values=values)
    merged = {name: agg.merge(name) for name in values}
    pipeline.aggregate("merged", by_g, key="", values=merged)
    with dp.Store(None, location, pipeline) as store:
        store.update({"rows": [{"id": 1, "g": "a", "n": 3}, {"id": 2, "g": "a", "n": 1}]})
        for stage in ("by_g", "merged"):
            (row,) = store.content(stage).to_pylist()
            assert (row["by_1"], row["by_2"]) == (10, 20), stage


class Collected:
    """Numbers, in a list that every group is given to begin with."""

    state = "array<int>"
    type = "array<int>"
    nothing: list[int] = []  # noqa: RUF012 that is the fault

    def zero(self) -> list[int]:
        return self.nothing

    def add(self, state: list[int], n: int) -> list[int]:
        state.append(n)
        return state

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return [*a, *b]

    def result(self, state: list[int]) -> list[int]:
        return sorted(state)


def test_groups_share_no_state_where_an_aggregate_has_one_for_all(location: str) -> None:
    pipeline = dp.Pipeline("shop")
    source = pipeline.source("rows", key="id bigint", value="g string, n int")
    pipeline.aggregate("by_g", source, key="g", values={"all": agg.own(Collected(), "n")})
    with dp.Store(None, location, pipeline) as store:
        store.update({"rows": [{"id": n, "g": "ab"[n % 2], "n": n} for n in (1, 2, 3)]})
        assert store.content("by_g", ordered=True)["all"].to_pylist() == [[2], [1, 3]]
