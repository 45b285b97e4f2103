"""Ordered aggregates without a session: after every version they have the oracle's rows."""

import math
import random
import shutil
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from local_stores import IN_PARTS, as_rows, assert_refreshed, assert_same_here, assert_versions
from local_stores import WAYS as FEW
from selecting import chosen, some
from two_sources import changes

import deltaproduce as dp
from deltaproduce import agg
from deltaproduce.storage.parquet.files import ParquetFiles
from deltaproduce.storage.stored import Stored
from deltaproduce.testing import Delete, Oracle, Upsert

WAYS = {**FEW, "in parts": IN_PARTS}
VERSIONS, SHORT = 6, 3
COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "n": ("int", [None, 0, 1, -1, 2**31 - 1, -(2**31)]),
    "l": ("bigint", [None, 0, 2**63 - 1, -(2**63)]),
    "x": ("double", [None, 0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, 5e-324]),
    "y": ("float", [None, -0.0, 0.25, -2.0, math.inf, math.nan]),
    "price": ("decimal(12,2)", [None, Decimal("0.00"), Decimal("-0.01"), Decimal("9999999999.99")]),
    "large": ("decimal(38,0)", [None, Decimal(0), Decimal(10**37), Decimal(-(10**37))]),
    "ok": ("boolean", [None, True, False]),
    "day": ("date", [None, date(1969, 12, 31), date(2013, 3, 15)]),
    "at": (
        "timestamp",
        [None, datetime(1969, 12, 31, 23, tzinfo=UTC), datetime(2013, 3, 15, 0, 0, 0, 1, UTC)],
    ),
    "local": ("timestamp_ntz", [None, datetime(1969, 12, 31), datetime(2013, 3, 15)]),
    "t": ("string", [None, "", "a", "ü", "z", "\U0001f600", "\uffff"]),
    "raw": ("binary", [None, b"", b"\xff", b"\x00", b"ab"]),
}


def values(columns: Iterable[str] = COLUMNS) -> dict[str, agg.AggregateCall]:
    """All functions of some columns, but for those of numbers and of texts."""
    functions: dict[str, Callable[[str], agg.AggregateCall]] = {
        "min": agg.min,
        "max": agg.max,
        "distinct": agg.count_distinct,
        "top": partial(agg.top_k, k=3),
        "mode": agg.mode,
        "all": agg.array_sorted,
    }
    return {f"{n}_of_{c}": function(c) for c in columns for n, function in functions.items()}


OTHERS = {
    "median": agg.median("n"),
    "thirds": agg.percentile("price", [1 / 3, 2 / 3]),
    "quarter": agg.percentile("x", 0.25),
    "most": agg.percentile("l", 1),
    "text": agg.listagg("t", ", "),
    "joined": agg.listagg("t"),
    "first_t": agg.min_by("t", "n"),
    "last_t": agg.max_by("t", "n"),
    "first_n": agg.min_by("n", "x"),
    "last_x": agg.max_by("x", "at"),
}


def site(
    columns: Iterable[str] = COLUMNS, others: Mapping[str, agg.AggregateCall] = OTHERS
) -> dp.Pipeline:
    """Ordered aggregates of a source, of two that are merged, and of an aggregate."""
    pipeline = dp.Pipeline("site")
    value = "g string, " + ", ".join(f"{name} {ddl}" for name, (ddl, _) in COLUMNS.items())
    events, more = (pipeline.source(n, key="id bigint", value=value) for n in ("events", "more"))
    by_g = pipeline.aggregate(
        "by_g", events, key="g", values={**values(columns), **others, "rows": agg.count()}
    )
    two = {"first": agg.min("t"), "last": agg.max("x"), "days": agg.count_distinct("day")}
    pipeline.aggregate("by_two", dp.merge(events, more), key="ok, t", values=two)
    of_one = {"most": agg.max("rows"), "least": agg.min("min_of_n"), "n": agg.count()}
    pipeline.aggregate("by_rows", by_g, key="distinct_of_n", values=of_one)
    return pipeline


def some_values(chance: random.Random) -> tuple[Any, ...]:
    values = (chance.choice(values) for _, values in COLUMNS.values())
    return (chance.choice([None, "", "a", "b"]), *values)


def history(seed: int) -> list[dict[str, list[Any]]]:
    return changes(seed, VERSIONS, some_values)


CASES = {
    "numbers": (["n", "l", "x"], OTHERS),
    "moments": (["n", "at", "local", "day", "ok"], {}),
    "others": (["n", "y", "price", "large", "t", "raw"], {}),
}


ORDERED = [("numbers", "runs, often folded"), ("moments", "runs"), ("others", "runs")]
"""Those of a short run: columns of each type."""


@pytest.mark.parametrize(
    ("case", "way"),
    some(
        [*((c, "runs") for c in CASES), ("numbers", "small"), ("numbers", "runs, often folded")],
        lambda case, way: (case, way) in ORDERED,
    ),
)
def test_versions_equal_the_oracle(location: str, case: str, way: str, long_run: bool) -> None:
    pipeline, seed = site(*CASES[case]), [*CASES].index(case)
    oracle = Oracle(pipeline)
    with dp.Store(None, location, pipeline, limits=WAYS[way]) as store:
        series = history(seed)[: VERSIONS if long_run else SHORT]
        assert_versions(store, oracle, pipeline, series)
        everything = contents(store, pipeline)
        assert_refreshed(store, ("by_g", "by_two", "by_rows"))
        assert contents(store, pipeline) == everything  # the multisets too
        back = oracle.head // 2
        assert store.rollback(back).number == oracle.head + 2  # the refresh is one
        assert contents(store, pipeline) == contents(store, pipeline, back)
        store.update(as_rows(pipeline, series[-1]))
        assert store.verify(recompute=True) == ()


def contents(store: dp.Store, pipeline: dp.Pipeline, version: int | None = None) -> dict[str, str]:
    """The rows of all stages, those beside the aggregates too; as text, in which NaN is NaN."""
    rows = {s.name: store.content(s.name, version, ordered=True) for s in pipeline.graph().stages}
    return {name: str(found.to_pylist()) for name, found in rows.items()}


def orders(**values: agg.AggregateCall) -> dp.Pipeline:
    pipeline = dp.Pipeline("orders")
    source = pipeline.source("orders", key="id bigint", value="k string, n bigint, x double")
    pipeline.aggregate("by_k", source, key="k", values=values)
    return pipeline


ENDS = {
    "least": (agg.min("n"), min),
    "greatest": (agg.max("n"), max),
    "top": (agg.top_k("n", 3), lambda ns: sorted(ns)[::-1][:3]),
    "first": (agg.min_by("id", "n"), min),
    "last": (agg.max_by("id", "n"), max),
    "different": (agg.count_distinct("n"), len),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_change_of_a_large_group_reads_few_row_groups(
    location: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values that come and go at either end and in between, with and without runs in front."""
    call, expected = ENDS[name]
    size, limits = 20_000, dp.Limits(small_table_rows=0, replaced_percent=900, group_rows=100)
    with dp.Store(None, location, orders(it=call), limits=limits) as store:
        ids = pa.array(range(size))
        rows = {"id": ids, "k": pa.repeat("a", size), "n": ids, "x": ids.cast(pa.float64())}
        store.update({"orders": pa.table(rows)})
        alive, read = dict.fromkeys(range(size)), list[int]()
        whole = ParquetFiles.read_groups

        def counting(files: ParquetFiles, *given: Any, **named: Any) -> pa.Table:
            read.append(len(given[1]))
            return whole(files, *given, **named)

        monkeypatch.setattr(ParquetFiles, "read_groups", counting)
        for gone in ([0], [size - 1], [size // 2], range(1, 40), range(size - 40, size - 1)):
            read.clear()
            changes = [{"id": n, "_change_type": "delete"} for n in gone]
            store.update({"orders": changes})
            for n in gone:
                del alive[n]
            (row,) = store.content("by_k").to_pylist()
            assert row["it"] == expected(alive)
            assert 0 < sum(read) <= 12  # of 200 in each of the tables
        read.clear()
        store.update({"orders": [{"id": -1, "k": "a", "n": -1, "x": None}]})
        (row,) = store.content("by_k").to_pylist()
        assert row["it"] == expected([-1, *alive])
        assert sum(read) <= 12


@pytest.mark.parametrize(("size", "looks"), [(10, 0), (1_000, 2)])
def test_ends_of_groups_that_are_held_are_not_looked_up(
    location: str, size: int, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of small groups, all functions are answered from the rows that the multiset's step read."""
    limits = dp.Limits(small_table_rows=0, replaced_percent=900, group_rows=100)
    calls = {"least": agg.min("n"), "top": agg.top_k("n", 2), "median": agg.median("x")}
    with dp.Store(None, location, orders(**calls), limits=limits) as store:
        groups = 3_000 // size
        rows = [
            {"id": n, "k": f"g{n % groups}", "n": n, "x": float(n % groups)} for n in range(3_000)
        ]
        store.update({"orders": rows})
        looked, first = list[object](), Stored.first
        monkeypatch.setattr(
            Stored, "first", lambda *given: [looked.append(given), first(*given)][1]
        )
        gone = [0, 3_000 - groups]  # the least and the greatest of the first group
        store.update({"orders": [{"id": n, "_change_type": "delete"} for n in gone]})
        (row,) = (one for one in store.content("by_k").to_pylist() if one["k"] == "g0")
    rest = range(groups, 3_000 - groups, groups)
    assert (row["least"], row["top"], row["median"]) == (rest[0], [*rest[:-3:-1]], 0.0)
    assert len(looked) == looks


@pytest.mark.parametrize("size", [1_000, 12_000, 50_000])
def test_a_change_of_a_group_reads_as_much_whatever_its_size(location: str, size: int) -> None:
    """All functions that read an end, by a store that has just been opened, as limits are."""
    pipeline = orders(**{name: call for name, (call, _) in ENDS.items()})
    with dp.Store(None, location, pipeline) as store:
        ids = pa.array(range(size))
        rows = {"id": ids, "k": pa.repeat("a", size), "n": ids, "x": ids.cast(pa.float64())}
        store.update({"orders": pa.table(rows)})
    rest = list(range(1, size - 1))
    for gone in (0, size - 1):
        with dp.Store(None, location, pipeline) as store:
            figures = store.update({"orders": [{"id": gone, "_change_type": "delete"}]}).stages
            assert 0 < figures["by_k"].rows_read <= 4 * dp.Limits().end_rows + 1
    with dp.Store(None, location, pipeline) as store:
        (row,) = store.content("by_k").to_pylist()
    assert row == {"k": "a", "_ordinal": 0, **{name: of(rest) for name, (_, of) in ENDS.items()}}


GROUPS: dict[str, tuple[str, Any]] = {
    "all": ("int", 1),
    "null": ("string", None),
    "text": ("string", "a"),
    "boolean": ("boolean", True),
    "binary": ("binary", b"a"),
    "date": ("date", date(2013, 3, 1)),
    "moment": ("timestamp", datetime(2013, 3, 1, tzinfo=UTC)),
    "bare moment": ("timestamp_ntz", datetime(2013, 3, 1)),
    "price": ("decimal(9,2)", Decimal("1.50")),
    "long price": ("decimal(30,2)", Decimal("-1.50")),
}
"""The type of the column that groups are of, and the value of the only one."""


@pytest.mark.parametrize("name", chosen(GROUPS, "null", "text", "moment", "long price"))
def test_a_change_of_a_large_group_costs_what_it_is_whatever_the_group_is(
    location: str, name: str
) -> None:
    """One row over all, and groups of each type of key: of 40 row groups a step reads a few."""
    data_type, value = GROUPS[name]
    size, group_rows = 1_000, 25
    limits = dp.Limits(small_table_rows=0, replaced_percent=900, group_rows=group_rows)
    pipeline = dp.Pipeline("groups")
    columns = "text string, price decimal(9,2), long decimal(30,2), bytes binary, n bigint"
    rows = pipeline.source("rows", key="id bigint", value=f"g {data_type}, {columns}")
    ends = {
        "least": agg.min("n"),
        "most": agg.top_k("price", 2),
        "last": agg.max("text"),
        "long": agg.max("long"),
        "bytes": agg.min("bytes"),
    }
    pipeline.aggregate("ends", rows, key="" if name == "all" else "g", values=ends)

    def row(number: int) -> dict[str, Any]:
        text, price = f"t{number:05}", Decimal(number)
        found = {"text": text, "bytes": text.encode(), "price": price / 4, "long": price}
        return {**found, "id": number, "g": value, "n": number}

    with dp.Store(None, location, pipeline, limits=limits) as store:
        store.update({"rows": [row(number) for number in range(size)]})
        for gone in (0, size - 1):
            figures = store.update({"rows": [{"id": gone, "_change_type": "delete"}]}).stages
            assert 0 < figures["ends"].rows_read <= 10 * group_rows + 1
        (found,) = store.content("ends").to_pylist()
        rest = [row(number) for number in range(1, size - 1)]
        assert found["least"] == 1
        assert found["most"] == sorted((one["price"] for one in rest), reverse=True)[:2]
        assert found["last"] == max(one["text"] for one in rest)
        assert found["long"] == max(one["long"] for one in rest)
        assert found["bytes"] == min(one["bytes"] for one in rest)
        assert store.verify(recompute=True) == ()


def test_what_an_aggregate_brings_along_is_not_shown(location: str) -> None:
    pipeline = orders(least=agg.min("n"), first=agg.min_by("x", "n"))
    assert [stage.name for stage in pipeline.stages] == ["orders", "by_k"]
    store = dp.Store(None, location, pipeline)
    assert [step.stage.name for step in store.plan(["orders"])] == ["orders", "by_k"]
    version = store.update({"orders": [{"id": 1, "k": "a", "n": 5, "x": 0.5}]})
    assert store.plan(["orders"])[-1].reason == "reached through orders"
    for shown in (version, store.head, *store.versions()):
        assert set(shown.stages) == {"orders", "by_k"}
    assert set(store.lineage("orders", 1).downstream) == {"by_k"}
    assert set(store.lineage("by_k", "a").upstream) == {"orders"}
    remaining = {each.stage for each in store.forget("orders", 1).remains}
    assert remaining == {"orders", "by_k", "_sorted_0_by_k", "_sorted_1_by_k"}
    with pytest.raises(dp.DefinitionError):
        pipeline.source("_sorted_0_by_k", key="id bigint", value="n bigint")


def test_a_multiset_that_is_damaged_is_made_again_and_its_answers_too(location: str) -> None:
    pipeline = orders(least=agg.min("n"), different=agg.count_distinct("n"))
    store = dp.Store(None, location, pipeline)
    store.update({"orders": [{"id": n, "k": "a", "n": n, "x": None} for n in range(9)]})
    before = contents(store, pipeline)
    shutil.rmtree(Path(location) / "_sorted_0_by_k" / "content")
    store = dp.Store(None, location, pipeline)
    assert {finding.stage for finding in store.verify()} == {"_sorted_0_by_k"}
    store.repair()
    assert contents(store, pipeline) == before
    store.update({"orders": [{"id": 0, "_change_type": "delete"}]})
    assert store.verify(recompute=True) == ()
    (row,) = store.content("by_k").to_pylist()
    assert (row["least"], row["different"]) == (1, 8)


def test_other_functions_make_the_stage_anew(location: str) -> None:
    """Also where a multiset of the same name has other values then."""
    rows = [{"id": n, "k": "a", "n": n, "x": -float(n)} for n in range(9)]
    dp.Store(None, location, orders(it=agg.min("n"))).update({"orders": rows})
    for call, expected in ((agg.max("x"), 0.0), (agg.max("n"), 8), (agg.count("n"), 9)):
        store = dp.Store(None, location, orders(it=call))
        store.update({"orders": []}, update_id=call.sql)
        assert store.content("by_k").to_pylist() == [{"k": "a", "_ordinal": 0, "it": expected}]
        assert store.verify(recompute=True) == ()
    assert store.content("by_k", 1).to_pylist() == [{"k": "a", "_ordinal": 0, "it": 0}]


def test_keys_arguments_and_conditions_are_expressions(location: str) -> None:
    """Of a key of nothing, too; an error names the stage of the user's."""
    pipeline = dp.Pipeline("expressions")
    source = pipeline.source("orders", key="id bigint", value="day date, n int, t string")
    some = {
        "least": agg.min("n + 1"),
        "all": agg.max("n"),  # the name of a column of the multiset
        "different": agg.count_distinct("t"),
        "last": agg.max_by("t", "n + 1"),
    }
    pipeline.aggregate("by_null", source, key="day IS NULL AS count", where="n < 9", values=some)
    pipeline.aggregate("over_all", source, key="", where="t <> 'b'", values=some)
    oracle = Oracle(pipeline)
    limits = dp.Limits(small_table_rows=0, replaced_percent=900, group_rows=2)
    rows = [(n, date(2012 + n % 2, 3, 1), n, "abc"[n % 3]) for n in range(12)]
    first = [Upsert((n,), tuple(values)) for n, *values in rows]
    rest: list[Any] = [Delete((0,)), Upsert((1,), (None, -5, "c")), Delete((10,)), Delete((11,))]
    with dp.Store(None, location, pipeline, limits=limits) as store:
        for batch in (first, rest, [Delete((n,)) for n in range(12)], first):
            store.update(as_rows(pipeline, {"orders": batch}))
            oracle.update({"orders": batch})
            assert_same_here(store, oracle, pipeline, [store.head.number])
            assert store.verify(recompute=True) == ()
        with pytest.raises(dp.ProducerError) as caught:
            store.update({"orders": [{"id": 1, "day": None, "n": 2**31 - 1, "t": "a"}]})
        assert caught.value.stage == "over_all"


def test_functions_of_nulls_alone_are_null_or_hold_nothing(location: str) -> None:
    columns, everything = ["n"], OTHERS | {"counts": agg.count("n")}
    pipeline = dp.Pipeline("nothing")
    value = "g string, " + ", ".join(f"{name} {ddl}" for name, (ddl, _) in COLUMNS.items())
    events = pipeline.source("events", key="id bigint", value=value)
    pipeline.aggregate("by_g", events, key="g", values={**values(columns), **everything})
    with dp.Store(None, location, pipeline) as store:
        store.update({"events": [{"id": 1, "g": "a", **dict.fromkeys(COLUMNS)}]})
        (row,) = store.content("by_g").to_pylist()
    held = {"distinct_of_n": 0, "counts": 0, "top_of_n": [], "all_of_n": []}
    assert row == {**dict.fromkeys(row), "g": "a", "_ordinal": 0, **held}


WRONG: dict[str, Callable[[], agg.AggregateCall]] = {
    "no such column": lambda: agg.min("nothing"),
    "a percentile of text": lambda: agg.median("k"),
    "a list of numbers": lambda: agg.listagg("n"),
    "no k": lambda: agg.top_k("n", 0),
    "a k that is none": lambda: agg.top_k("n", True),
    "a percentile above 1": lambda: agg.percentile("n", 1.5),
    "no percentile": lambda: agg.percentile("n", []),
    "a delimiter that is none": lambda: agg.listagg("k", 1),  # type: ignore[arg-type]
    "no column": lambda: agg.min_by("n", ""),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_definition_is_refused(case: str) -> None:
    with pytest.raises(dp.DefinitionError):
        orders(it=WRONG[case]())


def test_values_with_parts_are_refused() -> None:
    pipeline = dp.Pipeline("parts")
    source = pipeline.source("orders", key="id bigint", value="k string, some array<int>")
    with pytest.raises(dp.DefinitionError) as caught:
        pipeline.aggregate("by_k", source, key="k", values={"it": agg.max("some")})
    assert (caught.value.stage, caught.value.column) == ("by_k", "it")
