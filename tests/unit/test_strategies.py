"""The strategies draw legal data of every type, and the situations that they exist for."""

import datetime
import math
import pickle
import string
import struct
import subprocess
import sys
from contextlib import suppress
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample
from selecting import long

from deltaproduce import agg
from deltaproduce.pipeline import Pipeline
from deltaproduce.testing import Delete, Oracle, Upsert
from deltaproduce.testing.strategies import (
    changes,
    functions,
    histories,
    key_pools,
    keys,
    partitioned,
    pipelines,
    snapshots,
    tables,
    values,
    window_arguments,
)
from deltaproduce.types.columns import row_schema

SEARCH = settings(
    max_examples=5000,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    database=None,
)


def value_columns(ddl):
    return row_schema("k bigint", ddl, stage="s").value


def key_columns(ddl):
    return row_schema(ddl, "w bigint", stage="s").key


def is_single(x):
    return math.isnan(x) or struct.unpack("f", struct.pack("f", x))[0] == x


def is_text(t):
    return isinstance(t, str) and t.encode().decode() == t


LEGAL = {
    "boolean": lambda v: isinstance(v, bool),
    "tinyint": lambda v: -128 <= v <= 127,
    "smallint": lambda v: -(2**15) <= v < 2**15,
    "int": lambda v: -(2**31) <= v < 2**31,
    "bigint": lambda v: -(2**63) <= v < 2**63,
    "float": is_single,
    "double": lambda v: isinstance(v, float),
    "decimal(5,2)": lambda v: abs(v) <= Decimal("999.99") and v.as_tuple().exponent == -2,
    "decimal(38,38)": lambda v: v.copy_abs() < 1 and v.as_tuple().exponent == -38,
    "decimal(1,0)": lambda v: v in range(-9, 10),
    "string": is_text,
    "binary": lambda v: isinstance(v, bytes),
    "date": lambda v: type(v) is datetime.date,
    "timestamp": lambda v: isinstance(v, datetime.datetime) and v.tzinfo is None,
    "timestamp_ntz": lambda v: isinstance(v, datetime.datetime) and v.tzinfo is None,
    "array<int>": lambda v: isinstance(v, list),
    "map<string,array<double>>": lambda v: isinstance(v, dict) and None not in v,
    "map<double,int>": lambda v: all(key == key for key in v),
    "struct<i:int,t:string>": lambda v: isinstance(v, tuple) and len(v) == 2,
}


@pytest.mark.parametrize("data_type", LEGAL)
@given(data=st.data())
def test_values_are_legal_for_their_type(data_type, data):
    (value,) = data.draw(values(value_columns(f"v {data_type} not null")))
    assert value is not None
    assert LEGAL[data_type](value)


@pytest.mark.parametrize("data_type", LEGAL)
def test_nullable_columns_have_nulls(data_type):
    assert find(values(value_columns(f"v {data_type}")), lambda row: row == (None,)) == (None,)


@pytest.mark.parametrize(
    ("data_type", "wanted"),
    [
        ("tinyint", lambda v: v == -128),
        ("bigint", lambda v: v == 2**63 - 1),
        ("decimal(38,10)", lambda v: v.as_tuple().digits == (9,) * 38),
        ("double", math.isnan),
        ("double", lambda v: v == 0 and math.copysign(1, v) < 0),
        ("float", math.isinf),
        ("string", lambda v: "\x00" in v),
        ("string", lambda v: v == ""),
        ("string", lambda v: len(v) > 100),
        ("string", lambda v: any(ord(c) > 0xFFFF for c in v)),
        ("string", lambda v: "'" in v),
        ("string", lambda v: "\\" in v),
        ("string", lambda v: "\n" in v),
        ("date", lambda v: v.year == 1),
        ("timestamp", lambda v: v.year == 9999),
        ("timestamp_ntz", lambda v: v == datetime.datetime.max),
    ],
)
def test_values_reach_the_edges(data_type, wanted):
    find(
        values(value_columns(f"v {data_type} not null")),
        lambda row: wanted(row[0]),
        settings=SEARCH,
    )


NO_KEY_TYPES = ("float", "double", "array", "map", "struct")


@pytest.mark.parametrize("data_type", [t for t in LEGAL if not t.startswith(NO_KEY_TYPES)])
@given(data=st.data())
def test_keys_are_legal_and_few(data_type, data):
    pool = data.draw(
        st.lists(keys(key_columns(f"k {data_type} not null")), min_size=40, max_size=40)
    )
    assert all(LEGAL[data_type](key) for (key,) in pool)
    assert len(set(pool)) < 30


SCHEMA = row_schema("k bigint", "n bigint, t string", stage="s")
POOL = [(None,), (1,), (2,), (3,)]
CURRENT = {(1,): [(1, "a"), (2, "b")], (2,): [(1, "a")]}


@given(changes(SCHEMA, POOL, CURRENT))
def test_a_batch_never_has_deletes_and_upserts_of_one_key(batch):
    deleted = {change.key for change in batch if isinstance(change, Delete)}
    upserted = {change.key for change in batch if isinstance(change, Upsert)}
    assert not deleted & upserted
    assert 1 <= len(deleted | upserted) <= 8
    assert deleted | upserted <= set(POOL)


def rows_of(batch, key):
    return [change.value for change in batch if isinstance(change, Upsert) and change.key == key]


@pytest.mark.parametrize(
    "wanted",
    [
        lambda batch: rows_of(batch, (1,)) == CURRENT[(1,)],
        lambda batch: rows_of(batch, (1,)) == CURRENT[(1,)][::-1],
        lambda batch: Delete((1,)) in batch,
        lambda batch: Delete((3,)) in batch,
        lambda batch: batch.count(Delete((3,))) == 2,
        lambda batch: len(rows_of(batch, (3,))) > len(set(rows_of(batch, (3,)))),
        lambda batch: len({change.key for change in batch}) == 4,
        lambda batch: [change.key for change in batch[:3]] == [(1,), (2,), (1,)],
    ],
    ids=["same", "reordered", "known", "unknown", "twice", "equal", "all", "interleaved"],
)
def test_batches_have_the_situations_that_matter(wanted):
    find(changes(SCHEMA, POOL, CURRENT), wanted, settings=SEARCH)


@pytest.mark.parametrize(
    "wanted",
    [
        lambda kept, found: found == CURRENT,
        lambda kept, found: not found,
        lambda kept, found: len(kept) == 1 and len(found) == 1,
        lambda kept, found: len(kept) == 1 and len(found) == 2,
        pytest.param(
            lambda kept, found: not kept and found.keys() == CURRENT.keys(), marks=pytest.mark.long
        ),
    ],
    ids=["same", "none", "one gone", "one changed", "all changed"],
)
def test_snapshots_have_the_situations_that_matter(wanted):
    def situation(snapshot):
        found = {}
        for upsert in snapshot:
            found.setdefault(upsert.key, []).append(upsert.value)
        kept = [key for key in found if found[key] == CURRENT.get(key)]
        return wanted(kept, found)

    find(snapshots(SCHEMA, POOL, CURRENT), situation, settings=SEARCH)


def rekey_pipeline():
    pipeline = Pipeline("rekey")
    source = pipeline.source("s", key="k bigint", value="n bigint")

    @pipeline.producer(source, key="n bigint", value="k bigint")
    def rekey(key, rows):
        for n in rows:
            yield n, key

    return pipeline


def change_types(history, stage):
    """Per version, each changed key of a stage with the type of its first update."""
    oracle = Oracle(rekey_pipeline())
    for batch in history:
        oracle.update(batch)
    versions = []
    for number in range(1, oracle.head + 1):
        rows = [row for row in oracle.updates(stage, number) if row[3] == 0]
        versions.append({row[2]: row[1] for row in rows})
    return oracle, versions


def comes_back(history):
    _, versions = change_types(history, "rekey")
    seen = [[types.get(key) for types in versions] for key in {k for v in versions for k in v}]
    return any("delete" in found and "add" in found[found.index("delete") :] for found in seen)


def moves(history):
    """Some target key has a new set of source keys, and had another before."""
    oracle, versions = change_types(history, "rekey")
    return any(
        {k for n, k, *_ in oracle.content("rekey", number) if n == key}.isdisjoint(
            k for n, k, *_ in oracle.content("rekey", number - 1) if n == key
        )
        for number, types in enumerate(versions, 1)
        for key, change_type in types.items()
        if change_type == "update"
    )


def stays(history):
    oracle, _ = change_types(history, "s")
    return 0 < oracle.head < len(history)


@pytest.mark.parametrize("wanted", [comes_back, moves, stays])
def test_histories_have_keys_that_come_back_and_move_and_batches_without_effect(wanted):
    find(histories(rekey_pipeline(), max_versions=4), wanted, settings=SEARCH)


@given(st.data())
def test_histories_have_as_many_batches_as_asked(data):
    history = data.draw(histories(rekey_pipeline(), min_versions=2, max_versions=3))
    assert 2 <= len(history) <= 3
    assert all(set(batch) == {"s"} for batch in history)


@settings(deadline=None)
@given(pipelines())
def test_pipelines_are_small_and_their_functions_can_be_pickled(pipeline):
    sources = len(pipeline.graph().sources)
    assert 1 <= sources <= 2
    assert 1 <= len(pipeline.stages) - sources <= 4
    for stage in pipeline.stages:
        function = stage.kind.definition.called
        assert pickle.loads(pickle.dumps(function)) is function


SHAPES = {
    "rows": {"key": "k bigint", "value": "n bigint, t string"},
    "by text": {"key": "t string", "value": "n bigint"},
    "lists": {"key": "k bigint", "value": "ns array<bigint>"},
}


@pytest.mark.parametrize(
    ("by_row", "by_table", "streaming", "feeder", "made"),
    [
        (functions.unchanged, tables.unchanged_table, False, "rows", "rows"),
        (functions.rekeyed, tables.rekeyed_table, False, "rows", "rows"),
        (functions.filtered, tables.filtered_table, False, "rows", "rows"),
        (functions.by_text, tables.by_text_table, False, "rows", "by text"),
        (functions.first_row, tables.first_of_stream, True, "rows", "rows"),
        (functions.totals, tables.totals_table, False, "by text", "rows"),
        (functions.numbered, tables.numbered_stream, True, "by text", "by text"),
        (functions.flattened, tables.flattened_table, False, "lists", "rows"),
    ],
)
@settings(max_examples=settings.default.max_examples // 2)
@given(data=st.data())
def test_functions_over_arrow_do_what_their_namesakes_do(
    by_row, by_table, streaming, feeder, made, data
):
    pipeline = Pipeline("both")
    source = pipeline.source("s", **SHAPES[feeder])
    pipeline.producer(source, **SHAPES[made], name="rows")(by_row)
    declare = pipeline.arrow_producer(source, **SHAPES[made], name="arrow", streaming=streaming)
    declare(by_table)
    oracle = Oracle(pipeline)
    for batch in data.draw(histories(pipeline)):
        oracle.update(batch)
        assert oracle.content("arrow") == oracle.content("rows")


@long
def test_pipelines_have_functions_of_all_forms():
    for form in ("rows", "arrow", "arrow_stream"):
        find(
            pipelines(),
            lambda pipeline, form=form: form in [p.kind.word for p in pipeline.graph().producers],
            settings=SEARCH,
        )


def test_pipelines_have_chains_fan_out_and_two_sources():
    def wanted(pipeline):
        graph = pipeline.graph()
        feeders = [producer.feeders[0].name for producer in graph.producers]
        names = {producer.name for producer in graph.producers}
        return len(graph.sources) == 2 and len(set(feeders)) < len(feeders) and names & set(feeders)

    find(pipelines(), wanted, settings=SEARCH)


def test_pipelines_merge_and_join_and_do_both(long_run):
    """In one stage: that is seldom, so it is looked for in a long run."""

    def had_by(pipeline):
        return {
            (any(len(merged) > 1 for merged in stage.inputs), len(stage.inputs) > 1)
            for stage in pipeline.graph().producers
        }

    both = [(True, True)] if long_run else []
    assert_all_drawn(pipelines(), [(True, False), (False, True), *both], had_by)


def test_pipelines_set_rows_aside_by_rules_of_each_sort_and_read_them():
    def had_by(pipeline):
        asides = [one for one in pipeline.graph().sources if one.kind.intake.rows_of]
        rules = {rule.name for aside in asides for rule in aside.kind.rules}
        read = {feeder.name for stage in pipeline.graph().producers for feeder in stage.feeders}
        sorts = {sort for sort in ("not_null", "where", "among") for name in rules if sort in name}
        return sorts | ({"read"} if "rejected_1" in read else set())

    assert_all_drawn(pipelines(rejecting=True), ["not_null", "where", "among", "read"], had_by)


def test_the_package_needs_no_hypothesis():
    code = "import sys, deltaproduce.testing; sys.exit('hypothesis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def aggregated(pipeline):
    return [stage for stage in pipeline.stages if stage.kind.word == "aggregate"]


FUNCTIONS = {
    name
    for name, value in vars(agg).items()
    if callable(value) and value.__module__ == agg.__name__ and name[0] in string.ascii_lowercase
}


NOT_DRAWN = {"own", "approx_count_distinct", "approx_percentile", "approx_top_k"}
"""Own ones are someone's, and sketches estimate: both have tests of their own."""


def assert_all_drawn(strategy, wanted, had_by):
    """Each of some things is had by an example."""
    missing = {*wanted}

    def found(example):
        missing.difference_update(had_by(example))
        return not missing

    with suppress(NoSuchExample):
        find(strategy, found, settings=SEARCH)
    assert not missing


@long
def test_pipelines_have_each_aggregate_function():
    def had_by(pipeline):
        return {call.function for s in aggregated(pipeline) for _, call in s.kind.values}

    assert_all_drawn(pipelines(), FUNCTIONS - NOT_DRAWN, had_by)


WINDOWS = {
    "lag": lambda window, kind: window.last is not None and window.lag,
    "end": lambda window, kind: window.start is not None and window.end is not None,
    "dates": lambda window, kind: window.step in ("week", "month"),
    "numbers": lambda window, kind: isinstance(window.step, int) and window.step > 1,
    "limited": lambda window, kind: window.max_partitions and window.last,
    "strict": lambda window, kind: window.on_missing == "error",
    "of states": lambda window, kind: kind.upkeep.reads_states,
    "with where": lambda window, kind: kind.where is not None,
}


@long
def test_pipelines_have_windows_of_all_sorts():
    def had_by(pipeline):
        kinds = [
            stage.kind for stage in aggregated(pipeline) if stage.kind.upkeep.window is not None
        ]
        return {name for name, has in WINDOWS.items() for k in kinds if has(k.window, k)}

    assert_all_drawn(pipelines(strict=True), WINDOWS, had_by)


@long
def test_updates_name_partitions_and_days_and_keys_are_near_them():
    def wanted(*names):
        def found(drawn):
            said, pools = drawn
            days = {key[0] for keys in pools.values() for key in keys if key[0] is not None}
            return {*said} == {*names} and len(days) > 2

        return found

    def all_of(pipeline):
        pools = key_pools(pipeline, min_size=4, max_size=8)
        return st.tuples(window_arguments(pipeline), pools)

    windowed = pipelines().filter(partitioned)
    for names in ((), ("as_of",), ("partitions",), ("as_of", "partitions")):
        find(windowed.flatmap(all_of), wanted(*names), settings=SEARCH)


@settings(deadline=None)
@given(pipelines(remembering=False))
def test_pipelines_that_remember_nothing_have_no_windows(pipeline):
    assert not any(stage.kind.upkeep.window for stage in pipeline.stages)
