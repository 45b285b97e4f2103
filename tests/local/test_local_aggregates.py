"""Aggregate stages without a session: after every version they have the oracle's rows."""

import random
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from damaging import planted
from local_stores import IN_PARTS, as_rows, assert_refreshed, assert_versions
from selecting import some
from two_sources import changes

import deltaproduce as dp
from deltaproduce import agg
from deltaproduce.stages.aggregates.folding import Folding
from deltaproduce.testing import Oracle, Upsert

WAYS = {
    "small": dp.Limits(),
    "runs": dp.Limits(small_table_rows=0, replaced_percent=900),
    "runs, often folded": dp.Limits(
        small_table_rows=0,
        replaced_percent=900,
        compaction_commits=2,
        compaction_rows=3,
        overlay_runs=3,
    ),
    "in parts": replace(IN_PARTS, local_bytes=1 << 14),
}
VERSIONS, SHORT = 8, 4
INF, NAN = float("inf"), float("nan")
_FINITE = [0.0, -0.0, 0.1, -0.1, 1e16, -1e16, 5e-324, -5e-324, 1e308, 1.7e308, -1e308, 2.5, 1 / 3]
DOUBLES = [None, None, *_FINITE, *_FINITE, *_FINITE, INF, -INF, NAN]
WIDE = [
    None,
    Decimal("0.000001"),
    Decimal("-7.5"),
    Decimal("9" * 26 + ".999999"),
    Decimal(-(10**26)),
]
FLOATS = [None, 0.1, -0.1, 3.4e38, -3.4e38, 1e-45, 2.5, 7.0, INF, -INF, NAN]
"""Numbers that cancel each other out, overflow on the way, or are lost beside others."""
NUMBERS = ("n", "b", "l", "price", "w", "x", "y")
PLAIN = {
    "rows": agg.count(),
    "ns": agg.count("n"),
    "days": agg.count("day"),
    "total": agg.sum("n"),
    "small": agg.sum("b"),
    "long": agg.sum("l"),
    "price": agg.sum("price"),
    "yes": agg.count_if("ok"),
    "all_ok": agg.bool_and("ok"),
    "any_ok": agg.bool_or("ok"),
}
ROUNDED = {
    "average": agg.avg("n"),
    "average_price": agg.avg("price"),
    "spread": agg.var_samp("n"),
    "spread_rate": agg.var_pop("rate"),
}
"""What Spark adds up by itself; values of the first are its own, bit for bit."""
EXACT = {
    "double": agg.sum("x"),
    "float": agg.sum("y"),
    "wide": agg.sum("w"),
    **{f"avg_{c}": agg.avg(c) for c in NUMBERS},
    **{f"var_{c}": agg.var_pop(c) for c in NUMBERS},
    "sample": agg.var_samp("x"),
    "deviation": agg.stddev_pop("l"),
    "sample_deviation": agg.stddev_samp("y"),
}
"""What is added up by kernels in both engines."""


def site() -> dp.Pipeline:
    """Aggregates of a source, of two that are merged, and of an aggregate; and what reads one."""
    pipeline = dp.Pipeline("site")
    value = "n int, b tinyint, l bigint, price decimal(28,2), w decimal(38,6), x double, y float, "
    value += "rate decimal(14,3), ok boolean, day date, t string"
    events, more = (pipeline.source(n, key="id bigint", value=value) for n in ("events", "more"))
    by_text = pipeline.aggregate("by_text", events, key="t", values=PLAIN | ROUNDED | EXACT)
    both = dp.merge(events, more)
    pipeline.aggregate("by_two", both, key="ok, T", values=PLAIN | ROUNDED)
    pipeline.aggregate(
        "by_rows", by_text, key="rows", values={"n": agg.count(), "sum": agg.sum("ns")}
    )

    @pipeline.producer(by_text, key="total bigint", value="t string")
    def by_total(t: str, values: Any) -> Any:
        for value in values:
            yield value.total, t

    return pipeline


def some_values(chance: random.Random) -> tuple[Any, ...]:
    n = chance.choice([None, 0, 1, -1, 7, 2**31 - 1, -(2**31)])
    price = chance.choice([None, Decimal("1.25"), Decimal("-0.01"), Decimal("9" * 26 + ".99")])
    return (
        n,
        chance.choice([None, 1, -128, 127]),
        chance.choice([None, 0, 5, 2**60, -(2**61)]),
        price,
        chance.choice(WIDE),
        chance.choice(DOUBLES),
        chance.choice(FLOATS),
        chance.choice([None, Decimal("0.001"), Decimal("-99999999999.999"), Decimal("2.5")]),
        chance.choice([None, True, False]),
        chance.choice([None, date(1969, 12, 31), date(2013, 3, 15)]),
        chance.choice([None, "", "a", "ü"]),
    )


def history(seed: int) -> list[dict[str, list[Any]]]:
    return changes(seed, VERSIONS, some_values)


@pytest.mark.parametrize(
    ("seed", "way"),
    some(
        ((n, way) for way in WAYS for n in range(6 if way != "in parts" else 2)),
        lambda seed, way: seed == 0 and way != "runs",
    ),
)
def test_versions_equal_the_oracle(location: str, seed: int, way: str, long_run: bool) -> None:
    pipeline = site()
    oracle = Oracle(pipeline)
    with dp.Store(None, location, pipeline, limits=WAYS[way]) as store:
        series = history(seed)[: VERSIONS if long_run else SHORT]
        assert_versions(store, oracle, pipeline, series)
        assert_refreshed(store, ("by_text", "by_two", "by_rows"))
        back = oracle.head // 2
        assert store.rollback(back).number == oracle.head + 2  # the refresh is one
        for stage in pipeline.graph().stages:
            now, then = (store.content(stage.name, at, ordered=True) for at in (None, back))
            assert repr(now.to_pylist()) == repr(then.to_pylist())  # NaN is not equal to itself
        store.update(as_rows(pipeline, series[-1]))
        assert store.verify(recompute=True) == ()


def smaller(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same values, of which forty bigints have a sum that is one, too."""
    return (*values[:2], values[2] and values[2] // 8, *values[3:])


def sources_alone() -> dp.Pipeline:
    pipeline = dp.Pipeline("site")
    for source in site().graph().sources:
        types = ", ".join(f"{c.name} {c.data_type.simpleString()}" for c in source.schema.value)
        pipeline.source(source.name, key="id bigint", value=types)
    return pipeline


@pytest.mark.parametrize("seed", some(((n,) for n in range(3)), lambda seed: seed == 0))
def test_a_load_in_parts_stores_what_a_load_at_once_does(
    location: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, states too, of sources that have runs."""
    folded, parts = Folding.of_rows, list[int]()

    def counting(self: Folding, rows: pa.Table, signs: Any, key: Any) -> pa.Table:
        parts.append(len(rows))
        return folded(self, rows, signs, key)

    pipeline, alone = site(), sources_alone()
    chance, batches = random.Random(seed), history(50 + seed)[:2]
    sources = [source.name for source in alone.graph().sources]
    many = {
        name: [Upsert((n,), smaller(some_values(chance))) for n in range(40)] for name in sources
    }
    with dp.Store(None, location, alone, limits=replace(WAYS["runs"], group_rows=4)) as store:
        for batch in (many, *batches):
            store.update(as_rows(alone, batch))
    with dp.Store(None, location, pipeline) as store:
        store.refresh()
    monkeypatch.setattr(Folding, "of_rows", counting)
    few = replace(IN_PARTS, local_rows=4, local_bytes=1 << 14)
    with dp.Store(None, location, pipeline, limits=few) as store:
        assert_refreshed(store, ("by_text", "by_two", "by_rows"))
    assert len(parts) > 20
    assert max(parts) <= 20


def orders(**values: agg.AggregateCall) -> dp.Pipeline:
    pipeline = dp.Pipeline("orders")
    source = pipeline.source("orders", key="id bigint", value="k string, n bigint")
    pipeline.aggregate("by_k", source, key="k", values=values)
    return pipeline


def row(number: int, k: str, n: int | None) -> dict[str, Any]:
    return {"id": number, "k": k, "n": n}


def test_a_sum_that_does_not_fit_names_the_key_and_one_on_the_way_is_none(location: str) -> None:
    store = dp.Store(None, location, orders(n=agg.sum("n")))
    rows = [row(1, "a", 2**63 - 1), row(2, "a", 2**63 - 1), row(3, "a", -(2**63)), row(4, "b", 1)]
    store.update({"orders": rows})
    assert store.content("by_k").select(["k", "n"]).to_pylist() == [
        {"k": "a", "n": 2**63 - 2},
        {"k": "b", "n": 1},
    ]
    with pytest.raises(dp.ProducerError) as caught:
        store.update({"orders": [{"id": 3, "_change_type": "delete"}]})
    error = caught.value
    assert (error.stage, error.key, error.column) == ("by_k", "a", "n")
    assert "'n'" in str(error)
    assert store.head.number == 1


def test_a_decimal_that_does_not_fit_names_the_key_and_one_on_the_way_is_none(
    location: str,
) -> None:
    pipeline = dp.Pipeline("prices")
    prices = pipeline.source("prices", key="id bigint", value="k string, p decimal(38,2)")
    pipeline.aggregate("by_k", prices, key="k", values={"p": agg.sum("p")})
    store = dp.Store(None, location, pipeline)
    most, least = Decimal("9" * 36 + ".99"), Decimal("-" + "9" * 36 + ".99")
    rows = [{"id": n, "k": "a", "p": p} for n, p in enumerate([most, most, most, least, least])]
    store.update({"prices": rows})
    assert store.content("by_k").to_pylist() == [{"k": "a", "_ordinal": 0, "p": most}]
    with pytest.raises(dp.ProducerError) as caught:
        store.update({"prices": [{"id": 4, "k": "a", "p": Decimal("0.01")}]})
    error = caught.value
    assert (error.stage, error.key, error.column) == ("by_k", "a", "p")
    assert store.head.number == 1


def test_a_key_whose_sum_is_zero_has_a_row_and_one_without_rows_has_none(location: str) -> None:
    store = dp.Store(None, location, orders(n=agg.sum("n"), rows=agg.count()))
    store.update({"orders": [row(1, "a", 5), row(2, "a", -5), row(3, "b", None)]})
    assert store.content("by_k").select(["k", "n", "rows"]).to_pylist() == [
        {"k": "a", "n": 0, "rows": 2},
        {"k": "b", "n": None, "rows": 1},
    ]
    version = store.update({"orders": [{"id": n, "_change_type": "delete"} for n in (1, 2, 3)]})
    assert version.stages["by_k"].changed_keys == 2
    assert len(store.content("by_k")) == 0


def test_a_change_that_the_values_do_not_show_is_not_in_the_updates(location: str) -> None:
    store = dp.Store(None, location, orders(rows=agg.count()))
    store.update({"orders": [row(1, "a", 5), row(2, "b", 6)]})
    version = store.update({"orders": [row(1, "a", 7)]})
    assert "by_k" not in version.stages or version.stages["by_k"].changed_keys == 0
    version = store.update({"orders": [row(1, "b", 6)]})
    assert version.stages["by_k"].changed_keys == 2


def test_a_change_of_a_large_group_is_a_change_of_one_row(location: str) -> None:
    rows = pa.table({"id": range(50_000), "k": ["a"] * 50_000, "n": range(50_000)})
    store = dp.Store(None, location, orders(n=agg.sum("n")))
    store.update({"orders": rows})
    version = store.update({"orders": [row(7, "a", 0)]})
    figures = version.stages["by_k"]
    assert (figures.affected_keys, figures.changed_keys, figures.rows_added) == (1, 1, 1)
    assert store.content("by_k").to_pylist()[0]["n"] == sum(range(50_000)) - 7


def miscounted(location: str) -> dp.Pipeline:
    """A store in which a group of five rows is said to have one."""
    pipeline = dp.Pipeline("orders")
    source = pipeline.source("orders", key="id bigint", value="k string")
    pipeline.aggregate("by_customer", source, key="k", values={"n": agg.count()})
    dp.Store(None, location, pipeline).update({"orders": [{"id": n, "k": "a"} for n in range(5)]})

    def fewer(rows: pa.Table) -> pa.Table:
        place = rows.schema.get_field_index("_state_0")
        return rows.set_column(place, rows.schema.field(place), pa.array([1]))

    planted(dp.Store(None, location, pipeline), {"content": fewer})
    return pipeline


GONE = [{"id": n, "_change_type": "delete"} for n in (1, 2)]


def test_a_group_of_fewer_rows_than_none_is_damage(location: str) -> None:
    """And not one that is gone: someone has changed what was stored of it."""
    store = dp.Store(None, location, miscounted(location))
    with pytest.raises(dp.CorruptStoreError) as caught:
        store.update({"orders": GONE})
    assert "'by_customer'" in str(caught.value)
    store.refresh("by_customer")
    store.update({"orders": GONE})
    assert store.content("by_customer").column("n").to_pylist() == [3]


def test_there_are_no_key_mappings_and_the_lineage_goes_by_the_key(location: str) -> None:
    store = dp.Store(None, location, orders(n=agg.sum("n")))
    store.update({"orders": [row(1, "a", 5), row(2, "a", 6), row(3, "b", 7)]})
    with pytest.raises(dp.NotFoundError):
        store.key_mappings("by_k")
    with pytest.raises(dp.NotFoundError):
        store.sql_name("by_k", "key_mappings")
    up, down = store.lineage("by_k", "a").upstream, store.lineage("orders", 3).downstream
    assert sorted(up["orders"].column("id").to_pylist()) == [1, 2]
    assert down["by_k"].to_pylist() == [{"k": "b"}]


def test_other_values_make_the_stage_anew_and_old_versions_stay(location: str) -> None:
    dp.Store(None, location, orders(n=agg.sum("n"))).update({"orders": [row(1, "a", 5)]})
    store = dp.Store(None, location, orders(n=agg.count("n")))
    assert [step.how for step in store.plan()] == ["full"]
    store.update({"orders": [row(2, "a", 6)]})
    assert store.content("by_k").to_pylist() == [{"k": "a", "_ordinal": 0, "n": 2}]
    assert store.content("by_k", version=1).to_pylist() == [{"k": "a", "_ordinal": 0, "n": 5}]
    assert store.verify(recompute=True) == ()


WRONG: dict[str, dict[str, Any]] = {
    "no such column": {"key": "x", "values": {"n": agg.count()}},
    "no such argument": {"key": "k", "values": {"n": agg.sum("x")}},
    "no values": {"key": "k", "values": {}},
    "no call": {"key": "k", "values": {"n": "sum(n)"}},
    "an average of text": {"key": "n", "values": {"n2": agg.avg("k")}},
    "a variance of text": {"key": "n", "values": {"n2": agg.stddev_samp("k")}},
    "a sum of text": {"key": "n", "values": {"n2": agg.sum("k")}},
    "a condition that is none": {"key": "k", "values": {"n2": agg.count_if("n")}},
    "a name that is taken": {"key": "k", "values": {"K": agg.count()}},
    "a reserved name": {"key": "k", "values": {"_n": agg.count()}},
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_definition_is_refused(case: str) -> None:
    pipeline = dp.Pipeline("wrong")
    source = pipeline.source("orders", key="id bigint", value="k string, n bigint")
    with pytest.raises(dp.DefinitionError) as caught:
        pipeline.aggregate("wrong", source, **WRONG[case])
    assert caught.value.stage == "wrong"
