"""Aggregates that merge partial states, without a session: the laws of other aggregates."""

import random
from contextlib import suppress
from datetime import date
from typing import Any

import pytest
from crashing import CrashAt, CrashError, fail
from damaging import planted
from local_stores import as_rows, assert_refreshed, assert_same_here, assert_versions
from selecting import some
from test_local_aggregates import EXACT, PLAIN, ROUNDED, SHORT, VERSIONS, WAYS, history

import deltaproduce as dp
from deltaproduce import agg
from deltaproduce.storage import failpoints
from deltaproduce.testing import Delete, Oracle, Upsert

ENDS = {
    "least_x": agg.min("x"),
    "most_t": agg.max("t"),
    "top_price": agg.top_k("price", 2),
    "top_y": agg.top_k("y", 3),
    "t_of_least": agg.min_by("t", "x"),
    "rate_of_most": agg.max_by("rate", "n % 3"),
    "day_of_most": agg.max_by("day", "price"),
}
"""Ordered functions: the end of a group is that of the ends of its parts."""
VALUES = PLAIN | ROUNDED | EXACT | ENDS
MERGED = {f"all_{name}": agg.merge(name) for name in VALUES}
STAGES = ("by_day", "more_by_day", "by_text", "over_all", "both")


def partial_site() -> dp.Pipeline:
    """Days first, then all of them; all of that again; and those of two that are merged."""
    pipeline = dp.Pipeline("site")
    value = "n int, b tinyint, l bigint, price decimal(28,2), w decimal(38,6), x double, y float, "
    value += "rate decimal(14,3), ok boolean, day date, t string"
    events, more = (pipeline.source(n, key="id bigint", value=value) for n in ("events", "more"))
    by_day = pipeline.aggregate("by_day", events, key="day, t", values=VALUES)
    by_text = pipeline.aggregate(
        "by_text",
        by_day,
        key="CASE WHEN t IS NULL THEN '-' ELSE t END AS text",
        where="day IS NULL OR ns > 0",
        values={**MERGED, "days": agg.count(), "most": agg.max("rows"), "sum": agg.sum("ns")},
    )
    again = {name: agg.merge(f"all_{name}") for name in VALUES}
    pipeline.aggregate("over_all", by_text, key="", values={**again, "n": agg.count()})
    other = {
        **VALUES,
        "average": agg.avg("CASE WHEN n IS NULL THEN 1 ELSE n END"),
        "any_ok": agg.bool_or("n > 0"),
    }
    more_by_day = pipeline.aggregate(
        "more_by_day",
        more,
        key="day AS date, t AS u",
        values={f"more_{name}": call for name, call in other.items()},
    )
    both = dp.merge(by_day, more_by_day)
    pipeline.aggregate("both", both, key="t", values={**MERGED, "again": agg.merge("average")})
    return pipeline


@pytest.mark.parametrize(("seed", "way"), some(enumerate(WAYS), lambda _, way: way == "runs"))
def test_versions_equal_the_oracle(location: str, seed: int, way: str, long_run: bool) -> None:
    """And what is stored, states too, is what a refresh makes."""
    pipeline = partial_site()
    oracle = Oracle(pipeline)
    with dp.Store(None, location, pipeline, limits=WAYS[way]) as store:
        series = history(200 + seed)[: VERSIONS if long_run else SHORT]
        assert_versions(store, oracle, pipeline, series)
        assert_refreshed(store, STAGES)
        back = oracle.head // 2
        store.rollback(back)
        oracle.rollback(back)
        oracle.update(series[-1])
        head = store.update(as_rows(pipeline, series[-1])).number
        assert store.verify(recompute=True) == ()
        refreshed = store.refresh().number
        for stage in STAGES:
            then, now = (store.content(stage, at, ordered=True) for at in (head, refreshed))
            assert repr(then.to_pylist()) == repr(now.to_pylist())


MEAN = {"mean": agg.avg("x")}


def visits(values: dict[str, Any] = MEAN, of_type: str = "double", **options: Any) -> dp.Pipeline:
    """Means of days, of which one may stay while what it is made of changes; and of all days."""
    pipeline = dp.Pipeline("visits")
    value = f"day date, member bigint, x {of_type}"
    source = pipeline.source("visits", key="id bigint", value=value)
    by_day = pipeline.aggregate("by_day", source, key="day, member", values=values)
    merged = {"mean": agg.merge("mean"), "days": agg.count()}
    pipeline.aggregate("by_member", by_day, key="member", values=merged, **options)
    return pipeline


def visit(number: int, day: int, x: float, member: int = 1) -> dict[str, Any]:
    return {"id": number, "day": date(2013, 3, day), "member": member, "x": x}


def means(store: dp.Store) -> list[tuple[float, int]]:
    rows = store.content("by_member", ordered=True).to_pylist()
    return [(row["mean"], row["days"]) for row in rows]


FIRST = [visit(1, 1, 1.0), visit(2, 2, 4.0)]
SAME_MEAN = [visit(3, 1, 1.0), visit(4, 1, 1.0)]


@pytest.mark.parametrize("text", ["mean", "MEAN", "`mean`"])
def test_what_is_merged_is_named_as_columns_are(location: str, text: str) -> None:
    pipeline = dp.Pipeline("visits")
    value = "day date, member bigint, x double"
    source = pipeline.source("visits", key="id bigint", value=value)
    by_day = pipeline.aggregate("by_day", source, key="day", values=MEAN)
    of_days = pipeline.aggregate("of_days", by_day, key="", values={"mean": agg.merge(text)})
    pipeline.aggregate("again", of_days, key="", values={"all": agg.merge("`Mean`")})
    store = dp.Store(None, location, pipeline)
    store.update({"visits": FIRST})
    assert store.content("again")["all"].to_pylist() == [2.5]


NAMES = ("distinct", "select", "from", "CASE", "Null", "`", "a`b", "a.b", "ü", "1x", "*", "n+1")


def test_a_name_of_a_value_is_a_name(location: str) -> None:
    """Whatever it would be as an expression."""
    pipeline = dp.Pipeline("visits")
    source = pipeline.source("visits", key="id bigint", value="day date, x double")
    by_day = pipeline.aggregate(
        "by_day", source, key="day", values={name: agg.max_by("x", "id") for name in NAMES}
    )
    values = {name: agg.merge(name) for name in NAMES}
    over_all = pipeline.aggregate("over_all", by_day, key="", values=values)
    pipeline.aggregate("again", over_all, key="", values=values)
    with dp.Store(None, location, pipeline) as store:
        store.update({"visits": [{"id": n, "day": date(2013, 3, n), "x": 1 / n} for n in (1, 2)]})
        for stage in ("over_all", "again"):
            assert store.content(stage).select(NAMES).to_pylist() == [dict.fromkeys(NAMES, 0.5)]
        assert store.verify(recompute=True) == ()


def test_exact_names_come_before_names_without_regard_to_case_and_backticks() -> None:
    pipeline = dp.Pipeline("p")
    source = pipeline.source("rows", key="id bigint", value="n bigint")
    values = {"`n`": agg.max("n"), "n": agg.sum("n")}
    by_id = pipeline.aggregate("by_id", source, key="id", values=values)
    merged = {text: agg.merge(name) for text, name in (("a", "n"), ("b", "`n`"), ("c", "N"))}
    kind = pipeline.aggregate("all", by_id, key="", values=merged).kind
    assert [call.arguments for _, call in kind.values] == [("n",), ("`n`",), ("n",)]


@pytest.mark.parametrize(
    ("call", "instead"),
    [
        (agg.count_distinct("k"), ("key='day, k'", "agg.count_distinct('k')", "'orders'")),
        (agg.count_distinct("n + 1"), ("key='day, n + 1 AS item'", "agg.count_distinct('item')")),
        (agg.median("n"), ("agg.median('n')", "'orders'")),
        (agg.listagg("k", "|"), ("agg.listagg('k', '|')", "'orders'")),
    ],
)
def test_what_cannot_be_merged_comes_with_what_to_write(
    call: agg.AggregateCall, instead: tuple[str, ...]
) -> None:
    pipeline = dp.Pipeline("p")
    pipeline.source("orders", key="id bigint", value="day date, k string, n bigint")
    pipeline.aggregate("by_day", "orders", key="day", values={"value": call})
    with pytest.raises(dp.DefinitionError) as caught:
        pipeline.aggregate("all", "by_day", key="", values={"value": agg.merge("value")})
    assert (caught.value.stage, caught.value.column) == ("all", "value")
    assert all(text in str(caught.value) for text in instead)


def test_an_end_moves_where_only_what_decided_on_it_changes(location: str) -> None:
    """The day has no update, and its value may no longer be that of all days."""
    pipeline = visits({"mean": agg.max_by("x", "member")})
    pipeline.aggregate("over_all", "by_member", key="", values={"mean": agg.merge("mean")})
    with dp.Store(
        None, location, pipeline, limits=dp.Limits(small_table_rows=0, replaced_percent=900)
    ) as store:
        store.update({"visits": [visit(1, 1, 1.0, 1), visit(2, 2, 4.0, 2)]})
        assert store.content("over_all")["mean"].to_pylist() == [4.0]
    pipeline = dp.Pipeline("visits")
    source = pipeline.source("visits", key="id bigint", value="day date, by bigint, x double")
    by_day = pipeline.aggregate("by_day", source, key="day", values={"x": agg.max_by("x", "by")})
    pipeline.aggregate("over_all", by_day, key="", values={"x": agg.merge("x")})
    first, second = ({"id": n, "day": date(2013, 3, n), "by": n, "x": 1.0 * n} for n in (1, 2))
    with dp.Store(None, f"{location}_by", pipeline) as store:
        store.update({"visits": [first, second]})
        version = store.update({"visits": [{**first, "by": 3}]})
        assert version.stages["by_day"].changed_keys == 0
        assert store.content("over_all")["x"].to_pylist() == [1.0]
        assert store.verify(recompute=True) == ()


WITHOUT_UPDATES = {"rows": dp.Limits(), "runs": dp.Limits(small_table_rows=0, replaced_percent=900)}


@pytest.mark.parametrize("way", WITHOUT_UPDATES)
def test_a_day_that_has_no_update_has_changed_what_it_is_merged_into(
    location: str, way: str
) -> None:
    store = dp.Store(None, location, visits(), limits=WITHOUT_UPDATES[way])
    store.update({"visits": FIRST})
    assert means(store) == [(2.5, 2)]
    version = store.update({"visits": SAME_MEAN})
    assert version.stages["by_day"].changed_keys == 0
    assert version.stages["by_member"].changed_keys == 1
    assert means(store) == [(1.75, 2)]
    version = store.update({"visits": [{"id": n, "_change_type": "delete"} for n in (3, 4)]})
    assert version.stages["by_day"].changed_keys == 0
    assert means(store) == [(2.5, 2)]
    assert store.verify(recompute=True) == ()


@pytest.mark.parametrize("effect", range(5))
def test_an_update_that_goes_on_knows_which_states_it_has_changed(
    location: str, effect: int
) -> None:
    """Where it stopped between the day, which has no update to tell of, and what it is part of."""
    limits = dp.Limits(small_table_rows=0, replaced_percent=900)
    with dp.Store(None, location, visits(), limits=limits) as store:
        store.update({"visits": [*FIRST, *(visit(n, 3, 0.0, n) for n in range(10, 60))]})
        with failpoints.armed(CrashAt(effect, fail)), suppress(CrashError):
            store.update({"visits": SAME_MEAN}, update_id="one")
    with dp.Store(None, location, visits(), limits=limits) as store:
        store.update({"visits": SAME_MEAN}, update_id="one")
        assert means(store)[0] == (1.75, 2)
        assert store.verify(recompute=True) == ()


def test_a_feeder_that_keeps_other_states_has_what_merges_them_made_anew(location: str) -> None:
    """Even where the revision says that it stays."""
    dp.Store(None, location, visits(revision="1")).update({"visits": FIRST})
    for values in ({"n": agg.count(), **MEAN}, {"mean": agg.var_pop("x")}):
        store = dp.Store(None, location, visits(values, revision="1"))
        assert [step.how for step in store.plan()] == ["full", "full"]
        store.update({"visits": SAME_MEAN})
        assert store.verify(recompute=True) == ()
        store.update({"visits": [{"id": n, "_change_type": "delete"} for n in (3, 4)]})
        assert store.verify(recompute=True) == ()
    assert means(store) == [(2.25, 2)]


def test_states_of_another_type_are_made_anew_and_what_merges_them(location: str) -> None:
    """Where the values are as before: squares of a wider type may need more digits."""
    values = {"mean": agg.var_pop("x")}
    first = visits(values, "int")
    dp.Store(None, location, first).update({"visits": [visit(1, 1, 1), visit(2, 2, 4)]})
    store = dp.Store(None, location, visits(values, "bigint"))
    store.load({"visits": [visit(1, 1, 1), visit(2, 2, 4), visit(3, 2, 2)]})
    store.update({"visits": [{"id": 1, "_change_type": "delete"}]})
    assert means(store) == [(1.0, 1)]
    assert store.verify(recompute=True) == ()


def test_states_that_someone_has_changed_are_repaired_with_what_merges_them(
    location: str,
) -> None:
    pipeline = visits()
    dp.Store(None, location, pipeline).update({"visits": FIRST})

    def without(rows: Any) -> Any:
        return rows.slice(1)

    planted(dp.Store(None, location, pipeline), {"content": without}, "by_day")
    store = dp.Store(None, location, pipeline)
    assert store.verify(recompute=True) != ()
    store.repair()
    assert store.verify(recompute=True) == ()
    store.update({"visits": SAME_MEAN})
    assert means(store) == [(1.75, 2)]


def test_a_large_group_of_parts_is_changed_by_the_parts_that_change(location: str) -> None:
    chance = random.Random(1)
    rows = [visit(n, 1 + n % 28, chance.random(), n % 3) for n in range(3_000)]
    store = dp.Store(
        None, location, visits(), limits=dp.Limits(small_table_rows=0, replaced_percent=900)
    )
    store.update({"visits": rows})
    version = store.update({"visits": [visit(7, 8, 0.5, 1)]})
    figures = version.stages["by_member"]
    assert (figures.affected_keys, figures.rows_added, figures.mode) == (1, 1, "seek")
    assert store.verify(recompute=True) == ()


@pytest.mark.parametrize("way", WITHOUT_UPDATES)
@pytest.mark.parametrize("seed", range(2))
def test_a_window_moves_over_parts_as_over_rows(location: str, seed: int, way: str) -> None:
    """And sees days that have changed without an update of theirs."""
    pipeline, chance = visits(window=dp.window("day", last=4)), random.Random(seed)
    oracle = Oracle(pipeline)
    with dp.Store(None, location, pipeline, limits=WITHOUT_UPDATES[way]) as store:
        for newest in (4, 4, 6, 7, 9, 9, 12):
            changes: list[Any] = [Delete((chance.randrange(30),))]
            for number in chance.sample([n for n in range(30) if n != changes[0].key[0]], 6):
                day = date(2013, 3, max(1, newest - chance.randrange(6)))
                value = (day, chance.randrange(2), chance.choice([1.0, 1.0, 0.1, 1e16]))
                changes.append(Upsert((number,), value))
            as_of = chance.choice([None, date(2013, 3, newest - 1)])
            version = store.update(as_rows(pipeline, {"visits": changes}), as_of=as_of)
            assert version.number == oracle.update({"visits": changes}, as_of=as_of)
            assert_same_here(store, oracle, pipeline, [version.number])
        for stage in ("by_day", "by_member"):
            figures = store.refresh(stage).stages[stage]
            assert (figures.rows_added, figures.rows_removed) == (0, 0)


def test_parts_may_have_a_window_and_what_merges_them_none(location: str) -> None:
    pipeline, chance = dp.Pipeline("visits"), random.Random(3)
    source = pipeline.source("visits", key="day date, id bigint", value="member bigint, x double")
    window = dp.window("day", last=3)
    by_day = pipeline.aggregate("by_day", source, key="day, member", values=MEAN, window=window)
    merged = {"mean": agg.merge("mean"), "days": agg.count()}
    pipeline.aggregate("by_member", by_day, key="member", values=merged)
    oracle = Oracle(pipeline)
    store = dp.Store(
        None, location, pipeline, limits=dp.Limits(small_table_rows=0, replaced_percent=900)
    )
    for newest in (4, 4, 5, 8, 9, 9):
        keys = {
            (date(2013, 3, newest - chance.randrange(4)), chance.randrange(3)) for _ in range(7)
        }
        changes: list[Any] = [
            Delete(key)
            if chance.random() < 0.3
            else Upsert(key, (chance.randrange(2), chance.choice([1.0, 1.0, 0.1, 1e16])))
            for key in keys
        ]
        version = store.update(as_rows(pipeline, {"visits": changes}))
        assert version.number == oracle.update({"visits": changes})
        assert_same_here(store, oracle, pipeline, [version.number])
    assert store.verify(recompute=True) == ()


WRONG: dict[str, Any] = {
    "no aggregate": ("orders", agg.merge("n")),
    "a column that is not there": ("sums", agg.merge("x")),
    "a key column": ("sums", agg.merge("k")),
    "an expression": ("sums", agg.merge("n + 1")),
    "no function that says what it is of": ("sums", agg.merge("kinds")),
    "another end": (dp.merge("sums", "counts"), agg.merge("most")),
    "more of the end": (dp.merge("sums", "counts"), agg.merge("top")),
    "of several one is none": (dp.merge("sums", "numbers"), agg.merge("n")),
    "other functions": (dp.merge("sums", "counts"), agg.merge("n")),
    "other types": (dp.merge("sums", "averages"), agg.merge("mean")),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_definition_is_refused(case: str) -> None:
    pipeline = dp.Pipeline("wrong")
    orders = pipeline.source("orders", key="id bigint", value="k string, n bigint, x double")
    plain = "n bigint, mean double, most bigint, kinds bigint, top array<bigint>"
    pipeline.source("numbers", key="k string", value=plain)
    ends = {"most": agg.max("n"), "kinds": agg.count_distinct("n"), "top": agg.top_k("n", 2)}
    sums = {"n": agg.sum("n"), "mean": agg.avg("n"), **ends}
    pipeline.aggregate("sums", orders, key="k", values=sums)
    others = {"n": agg.count("n"), "most": agg.min("n"), "top": agg.top_k("n", 3)}
    pipeline.aggregate("counts", orders, key="k", values={**sums, **others})
    pipeline.aggregate("averages", orders, key="k", values={**sums, "mean": agg.avg("x")})
    feeder, call = WRONG[case]
    with pytest.raises(dp.DefinitionError) as caught:
        pipeline.aggregate("wrong", feeder, key="k AS key", values={"value": call})
    assert (caught.value.stage, caught.value.column) == ("wrong", "value")
