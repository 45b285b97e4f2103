"""Expressions in aggregate stages without a session: keys, conditions and arguments.

After every version the rows equal those of the oracle, which computes expressions in plain Python,
and those of plain Python functions written here for the same expressions.
"""

import random
from datetime import date
from typing import Any

import pytest
from local_stores import IN_PARTS, as_rows, assert_refreshed, assert_same_here
from selecting import chosen
from two_sources import changes

import deltaproduce as dp
from deltaproduce import agg
from deltaproduce.testing import Oracle

WAYS = {
    "small": dp.Limits(),
    "runs": dp.Limits(small_table_rows=0, replaced_percent=900),
    "in parts": IN_PARTS,
}
VALUE = "n int, b tinyint, l bigint, ok boolean, day date, t string"
STAGES: dict[str, dict[str, Any]] = {
    "by_sign": {
        "key": "CASE WHEN n > 0 THEN 'up' WHEN n < 0 THEN 'down' END AS sign, T",
        "values": {
            "rows": agg.count(),
            "same": agg.count("b + l"),
            "twice": agg.sum("b * CASE WHEN ok THEN 2 ELSE 1 END"),
            "few": agg.count_if("n IN (0, 1, NULL) OR NOT ok"),
        },
        "where": "n IS NOT NULL AND t <> 'a'",
    },
    "whole": {
        "key": "",
        "values": {"n": agg.sum("n"), "m": agg.sum("CASE WHEN n BETWEEN -10 AND 10 THEN -n END")},
        "where": "ok OR l = 5",
    },
    "days": {"key": "day", "values": {"n": agg.count()}, "where": "day > '2000-01-01'"},
}


def some_values(chance: random.Random) -> tuple[Any, ...]:
    return (
        chance.choice([None, 0, 1, -1, 7, 2**31 - 1, -(2**31)]),
        chance.choice([None, 1, -128, 127]),
        chance.choice([None, 0, 5, 2**60, -(2**61)]),
        chance.choice([None, True, False]),
        chance.choice([None, date(1969, 12, 31), date(2013, 3, 15)]),
        chance.choice([None, "", "a", "ü"]),
    )


def history(seed: int) -> list[dict[str, list[Any]]]:
    return changes(seed, 8, some_values)


def site(*names: str) -> dp.Pipeline:
    """The stages over two sources that are merged, and what reads one that has no key."""
    pipeline = dp.Pipeline("site")
    events, more = (pipeline.source(n, key="id bigint", value=VALUE) for n in ("events", "more"))
    for name in names:
        pipeline.aggregate(name, dp.merge(events, more), **STAGES[name])
    if "whole" in names:
        pipeline.aggregate("sums", "whole", key="n", values={"m": agg.sum("m")})

        @pipeline.producer("whole", key="m bigint", value="n bigint")
        def by_m(_: Any, values: Any) -> Any:
            for value in values:
                yield value.m, value.n

    return pipeline


def by_hand() -> dp.Pipeline:
    """The same rows by Python functions that compute the columns, and aggregates of columns."""
    pipeline = dp.Pipeline("site")
    events, more = (pipeline.source(n, key="id bigint", value=VALUE) for n in ("events", "more"))

    @pipeline.producer(
        dp.merge(events, more),
        key="id bigint",
        value="sign string, t string, same bigint, twice int, few boolean",
    )
    def signs(key: int, values: Any) -> Any:
        for v in values:
            if v.n is None or v.t is None or v.t == "a":
                continue
            same = None if v.b is None or v.l is None else v.b + v.l
            twice = None if v.b is None else v.b * (2 if v.ok else 1)
            few = v.n in (0, 1) or v.ok is False
            yield key, ({1: "up", -1: "down"}.get((v.n > 0) - (v.n < 0)), v.t, same, twice, few)

    pipeline.aggregate(
        "by_sign",
        signs,
        key="sign, t",
        values={
            "rows": agg.count(),
            "same": agg.count("same"),
            "twice": agg.sum("twice"),
            "few": agg.count_if("few"),
        },
    )
    return pipeline


@pytest.mark.parametrize("way", chosen(WAYS, "small"))
@pytest.mark.parametrize("seed", chosen(range(2), 0))
def test_versions_equal_the_oracle(location: str, seed: int, way: str) -> None:
    pipeline = site(*STAGES)
    oracle, other = Oracle(pipeline), Oracle(by_hand())
    with dp.Store(None, location, pipeline, limits=WAYS[way]) as store:
        for batch in history(20 + seed):
            version = store.update(as_rows(pipeline, batch))
            assert version.number == oracle.update(batch) == other.update(batch)
            assert oracle.content("by_sign") == other.content("by_sign")
        assert_same_here(store, oracle, pipeline, range(store.head.number + 1))
        assert store.verify(recompute=True) == ()
        assert_refreshed(store, (*STAGES, "sums"))
        store.rollback(store.head.number // 2)
        store.update(as_rows(pipeline, batch))
        assert store.verify(recompute=True) == ()


def orders(key: str = "k", where: str | None = None, **values: agg.AggregateCall) -> dp.Pipeline:
    pipeline = dp.Pipeline("orders")
    value = "k string, n bigint, `order-no` int, day date, at timestamp"
    source = pipeline.source("orders", key="id bigint", value=value)
    named = values or {"rows": agg.count()}
    pipeline.aggregate("totals", source, key=key, where=where, values=named)
    return pipeline


def row(number: int, **values: Any) -> dict[str, Any]:
    return {"id": number, "k": "a", "n": 1, "order-no": 1, "day": None, "at": None} | values


WRONG = {
    "an unknown column": {"key": "x + 1 AS y"},
    "no name": {"key": "n + 1"},
    "a name twice": {"key": "n AS a, k AS A"},
    "a reserved name": {"key": "n + 1 AS _a"},
    "a value's name": {"key": "n + 1 AS rows"},
    "an empty part": {"key": "n,"},
    "a float": {"key": "n / 2 AS half"},
    "no text": {"key": 1},
    "an aggregate": {"where": "sum(n) > 1"},
    "a query": {"where": "n IN (SELECT 1)"},
    "a window": {"where": "row_number() OVER (ORDER BY n) = 1"},
    "chance": {"where": "rand() < 0.5"},
    "time": {"where": "day < current_date"},
    "time in a literal": {"where": "day < DATE 'today'"},
    "where a row is": {"where": "input_file_name() <> ''"},
    "several rows": {"where": "explode(ARRAY(TRUE))"},
    "no condition": {"where": "n"},
    "no condition in a condition": {"where": "n AND TRUE"},
    "two": {"where": "TRUE, FALSE"},
    "a clause": {"where": "TRUE ORDER BY n"},
    "a word too many": {"where": "n > 1 big"},
    "an argument of time": {"v": agg.count("now()")},
    "an argument with a name": {"v": agg.count("n AS m")},
    "an argument that does not fit": {"v": agg.sum("k || 'a'")},
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_expression_is_refused_when_it_is_defined(case: str) -> None:
    with pytest.raises(dp.DefinitionError) as caught:
        orders(**WRONG[case])
    assert caught.value.stage == "totals"


def test_rows_that_start_or_stop_to_pass_change_their_group(location: str) -> None:
    pipeline = orders("K, `Order-No` % 2 = 0 AS even", "n > 0", n=agg.sum("N * 2"))
    store = dp.Store(None, location, pipeline)
    store.update({"orders": [row(1), row(2, n=0), row(3, **{"order-no": 2}), row(4, n=None)]})
    assert store.content("totals", ordered=True).drop_columns("_ordinal").to_pylist() == [
        {"k": "a", "even": False, "n": 2},
        {"k": "a", "even": True, "n": 2},
    ]
    version = store.update({"orders": [row(2, n=5), row(3, n=-1)]})
    assert version.stages["totals"].changed_keys == 2
    assert store.content("totals").drop_columns("_ordinal").to_pylist() == [
        {"k": "a", "even": False, "n": 12}
    ]
    version = store.update({"orders": [row(4, n=-7)]})
    assert version.number == 3
    assert version.stages["totals"].changed_keys == 0
    up = store.lineage("totals", ("a", False)).upstream["orders"]
    assert sorted(up.column("id").to_pylist()) == [1, 2]  # others are in no group


def test_one_row_over_all_as_long_as_a_row_passes(location: str) -> None:
    store = dp.Store(None, location, orders("", "n > 0", rows=agg.count(), n=agg.sum("n")))
    store.update({"orders": [row(1, n=-1)]})
    assert store.content("totals").to_pylist() == []
    store.update({"orders": [row(1, n=3), row(2, n=4)]})
    assert store.content("totals").to_pylist() == [{"_ordinal": 0, "rows": 2, "n": 7}]
    store.update({"orders": [row(n, n=0) for n in (1, 2)]})
    assert store.content("totals").to_pylist() == []
    assert store.updates("totals").to_pylist() == [
        {"_version": 3, "_change_type": "delete", "_position": 0, "rows": None, "n": None}
    ]
    assert len(store.changes("totals", 1, 2)) == 1
    assert store.verify(recompute=True) == ()


def test_an_equal_expression_is_no_redefinition(location: str) -> None:
    dp.Store(None, location, orders("n+1  AS m", "k='a'")).update({"orders": [row(1)]})
    store = dp.Store(None, location, orders("N + 1 /* more */ AS m", "K = 'a'"))
    assert [step.how for step in store.plan()] == []
    store = dp.Store(None, location, orders("n + 2 AS m", "K = 'a'"))
    assert [step.how for step in store.plan()] == ["full"]


def test_what_only_spark_computes_is_named_as_a_store_opens_without_it(location: str) -> None:
    for definition in (
        orders("soundex(k) AS k"),
        orders(where="k RLIKE '^a'"),
        orders(v=agg.count("regexp_count(k, 'a')")),
        orders(where="k = 'a\\t'"),
    ):
        with pytest.raises(dp.SessionError, match=r"regexp_count|RLIKE|soundex|= 'a"):
            dp.Store(None, location, definition)


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("`order-no` + 2147483647", "ARITHMETIC_OVERFLOW"),
        ("1 / (n - 1)", "DIVIDE_BY_ZERO"),
        ("n % (n - 1)", "REMAINDER_BY_ZERO"),
        ("CAST(k AS int)", "CAST_INVALID_INPUT"),
        ("CAST(3000000000 * n AS int)", "CAST_OVERFLOW"),
        ("CAST(n * 1000 AS decimal(3,1))", "NUMERIC_VALUE_OUT_OF_RANGE"),
    ],
)
def test_what_cannot_be_computed_is_an_error_and_nothing_is_written(
    location: str, text: str, condition: str
) -> None:
    store = dp.Store(None, location, orders(where=f"n = 0 OR {text} > 0"))
    store.update({"orders": [row(1, n=0)]})  # AND, OR and CASE compute what they need
    with pytest.raises(dp.ProducerError, match=condition) as caught:
        store.update({"orders": [row(2)]})
    assert caught.value.stage == "totals"
    assert isinstance(caught.value.__cause__, ArithmeticError)
    assert store.head.number == 1


def test_dates_and_text_are_keys(location: str) -> None:
    key = "year(day) AS y, trunc(day, 'month') AS m, substring(trim(k), 1, 2) || '!' AS t"
    store = dp.Store(None, location, orders(key))
    store.update({"orders": [row(1, day=date(2013, 3, 15), k=" abc"), row(2)]})
    assert store.content("totals", ordered=True).drop_columns("_ordinal").to_pylist() == [
        {"y": None, "m": None, "t": "a!", "rows": 1},
        {"y": 2013, "m": date(2013, 3, 1), "t": "ab!", "rows": 1},
    ]
