import dataclasses
import itertools
import json
import tracemalloc
from collections import namedtuple
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Context, Decimal, localcontext
from enum import IntEnum, StrEnum
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.sql import Row

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.failures import WorkerError, in_worker
from deltaproduce.errors import DefinitionError, ProducerError
from deltaproduce.model.layouts import Layout
from deltaproduce.model.limits import Limits
from deltaproduce.pipeline import Pipeline
from deltaproduce.stages.functions.by_key import output_struct, raised_by_producer
from deltaproduce.stages.productions import Production
from deltaproduce.times.zones import zone_of
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import Column, Columns
from deltaproduce.types.data_types import DecimalType
from deltaproduce.types.row_readers import row_reader

PARIS = ZoneInfo("Europe/Paris")


def calls(stage, zone):
    """What is done to one partition of a stage's rows."""
    return stage.kind.calls(stage, zone)


def stage_of(function, *, source=("k bigint", "v bigint"), target=("k bigint", "v bigint")):
    pipeline = Pipeline("test")
    feeder = pipeline.source("feeder", key=source[0], value=source[1])
    return pipeline.producer(feeder, key=target[0], value=target[1], name="stage")(function)


def batch_of(columns, rows):
    """A batch of plain Python rows, written by Arrow alone."""
    arrays = [
        pa.array([row[i] for row in rows], arrow_type(column.data_type))
        for i, column in enumerate(columns)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])


def run(function, batches, *, zone: tzinfo = UTC, **schema):
    """Runs a function over lists of (key…, value…) rows; returns the output rows as tuples."""
    stage = stage_of(function, **schema)
    feeder = stage.feeders[0].schema
    columns = [*feeder.key, *feeder.value]
    output = list(calls(stage, zone)(batch_of(columns, rows) for rows in batches))
    return [tuple(row.values()) for batch in output for row in batch.to_pylist()]


def emit(*emissions, target, zone: tzinfo = UTC):
    """Emits for the one key 7; returns the (key, value) columns as Arrow arrays."""
    stage = stage_of(lambda key, values: emissions, target=target)
    columns = [*stage.feeders[0].schema.key, *stage.feeders[0].schema.value]
    (batch,) = calls(stage, zone)(iter([batch_of(columns, [(7, 1)])]))
    return batch


def refused(emission, *, target, zone: tzinfo = UTC):
    """Emits something bad after something good; returns the error, after checking its fields."""
    with pytest.raises(ProducerError) as caught:
        emit(emission, target=target, zone=zone)
    assert (caught.value.stage, caught.value.key) == ("stage", 7)
    return str(caught.value)


# Calls


def cut(rows, sizes):
    """Cuts rows into batches of the sizes, in turn."""
    batches, rest = [], list(rows)
    for size in itertools.chain(sizes, itertools.repeat(max(len(rest), 1))):
        if not rest:
            return batches
        batches.append(rest[:size])
        rest = rest[size:]
    return batches


keys = st.tuples(
    st.none() | st.integers(0, 2),
    st.none() | st.sampled_from(["", "a", "b"]),
    st.none() | st.booleans(),
)


@settings(deadline=None)
@given(
    groups=st.dictionaries(keys, st.lists(st.none() | st.integers(0, 9), min_size=1, max_size=6)),
    sizes=st.lists(st.integers(0, 5), max_size=8),
    taken=st.integers(0, 7),
)
def test_every_key_is_one_call_with_its_values_in_order(groups, sizes, taken):
    seen = []

    def read_some(key, values):
        some = list(itertools.islice(values, taken))
        seen.append((tuple(key), some))
        for value in some:
            yield key.n, value

    rows = [(*key, value) for key, values in groups.items() for value in values]
    output = run(read_some, cut(rows, sizes), source=("n bigint, t string, b boolean", "v bigint"))
    assert seen == [(key, values[:taken]) for key, values in groups.items()]
    assert output == [
        (*key, key[0], ordinal, value)
        for key, values in groups.items()
        for ordinal, value in enumerate(values[:taken])
    ]


@st.composite
def joined_groups(draw):
    """For each key a list of values of each of three inputs, at least one of them not empty."""
    some = st.lists(st.none() | st.integers(0, 9), max_size=6)
    groups = draw(st.dictionaries(keys, st.tuples(some, some, some).filter(any)))
    return {key: dict(enumerate(inputs)) for key, inputs in groups.items()}


@settings(deadline=None)
@given(
    groups=joined_groups(),
    sizes=st.lists(st.integers(0, 5), max_size=8),
    reads=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 7)), max_size=6),
)
def test_a_join_reads_its_inputs_in_any_order(groups, sizes, reads):
    """Whatever is read of which input first, and however batches are cut, it is their values."""
    pipeline = Pipeline("test")
    feeders = [
        pipeline.source(name, key="n bigint, t string, b boolean", value=f"v {kind}")
        for name, kind in [("a", "bigint"), ("b", "int"), ("c", "bigint, w bigint")]
    ]
    seen = []

    def read_some(key, *inputs):
        found = [[], [], []]
        for number, count in reads:
            some = (next(inputs[number], "end") for _ in range(count))
            found[number].extend(value for value in some if value != "end")
        seen.append((tuple(key), found))
        return [(key.n, len(found[0]))]

    stage = pipeline.producer(*feeders, key="k bigint", value="v bigint", name="s")(read_some)
    rows = [
        (*key, number, *((v if number == n else None) for n in (0, 1, 2)), v)
        for key, inputs in groups.items()
        for number, values in inputs.items()
        for v in values
    ]
    schema = pa.schema(
        [("n", pa.int64()), ("t", pa.string()), ("b", pa.bool_()), ("i", pa.int32())]
        + [(name, pa.int32() if name == "vb" else pa.int64()) for name in ("va", "vb", "vc", "w")]
    )
    batches = (
        pa.RecordBatch.from_arrays(
            [pa.array([row[i] for row in part], f.type) for i, f in enumerate(schema)],
            schema=schema,
        )
        for part in cut(rows, sizes)
    )
    output = [row for batch in calls(stage, UTC)(batches) for row in batch.to_pylist()]

    def expected(inputs):
        rest = [iter([(v, v) if number == 2 else v for v in inputs[number]]) for number in range(3)]
        found = [[], [], []]
        for number, count in reads:
            found[number].extend(itertools.islice(rest[number], count))
        return found

    assert seen == [(key, expected(inputs)) for key, inputs in groups.items()]
    counts = [(row["k"], row["v"]) for row in output]
    assert counts == [(key[0], len(found[0])) for key, found in seen]


def test_a_join_holds_two_blocks_if_it_reads_in_order():
    """A key's values of three inputs, 600,000 each, pass through one after the other."""
    pipeline = Pipeline("test")
    feeders = [pipeline.source(name, key="k bigint", value="v bigint") for name in "abc"]

    def batches():
        for number in range(3):
            for start in range(0, 600_000, 10_000):
                values = pa.array(np.arange(start, start + 10_000))
                key, which = np.zeros(10_000, np.int64), np.full(10_000, number, np.int32)
                empty = pa.nulls(10_000, pa.int64())
                inputs = [values if n == number else empty for n in range(3)]
                yield pa.RecordBatch.from_arrays(
                    [pa.array(key), pa.array(which), *inputs], names=["k", "i", "a", "b", "c"]
                )

    def sums(key, *inputs):
        for number, values in enumerate(inputs):
            yield number, sum(values)

    stage = pipeline.producer(*feeders, key="k bigint", value="v bigint", name="s")(sums)
    tracemalloc.start()
    try:
        output = [row for batch in calls(stage, UTC)(batches()) for row in batch.to_pylist()]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [row["v"] for row in output] == [sum(range(600_000))] * 3
    assert peak < 4_000_000


def test_no_rows_make_no_calls():
    for batches in ([], [[]], [[], []]):
        assert run(lambda key, values: [(1, 1)], batches) == []


def test_a_key_or_value_of_one_column_is_bare_and_of_several_a_named_tuple():
    def check(key, values):
        ((number, renamed),) = values
        assert (key, number, renamed) == (1, 2, 3)
        return []

    def check_names(key, values):
        value = next(values)
        assert (key.a, key._1, value.x, value._fields) == (1, 2, 3, ("x", "_1"))
        return []

    run(check, [[(1, 2, 3)]], source=("k bigint", "x bigint, `class` bigint"))
    run(
        check_names, [[(1, 2, 3, 4)]], source=("a bigint, `b-c` bigint", "x bigint, `class` bigint")
    )


def test_source_keys_are_the_input_s_own_arrays():
    moment = pa.array([2**62], pa.int64()).cast(pa.timestamp("us", "America/New_York"))

    def run_raw(key_ddl, array):
        stage = stage_of(lambda key, values: [(1, 1), (1, 2)], source=(key_ddl, "v bigint"))
        batch = pa.RecordBatch.from_arrays([array, pa.array([1])], names=["k", "v"])
        (output,) = calls(stage, UTC)(iter([batch]))
        return output

    with pytest.raises(ProducerError, match=r"column 'k' has \+148108-.* years 1 to 9999"):
        run_raw("k timestamp", moment)
    text = pa.array(["a"], pa.large_string())
    output = run_raw("k string", text)
    assert output.column(0).equals(pa.array(["a", "a"], pa.large_string()))


def test_output_columns_are_those_of_the_declared_struct():
    stage = stage_of(lambda key, values: [], source=("a bigint, b string", "v bigint"))
    assert output_struct(stage).names == ["_source_a", "_source_b", "k", "_ordinal", "v"]


def test_calls_pickle_without_the_rest_of_the_pipeline():
    stage = stage_of(lambda key, values: [(key, sum(values))])
    again = cloudpickle.loads(cloudpickle.dumps(calls(stage, PARIS)))
    batch = pa.RecordBatch.from_arrays([pa.array([1, 1]), pa.array([2, 3])], names=["k", "v"])
    (output,) = again(iter([batch]))
    assert output.to_pylist() == [{"_source_k": 1, "k": 1, "_ordinal": 0, "v": 5}]


# Streaming


def numbers(batches, *, rows_a_batch=10_000, pulled=None):
    """Batches of one key, whose values are 0, 1, 2, …; `pulled` notes each as it is read."""
    for start in range(0, batches * rows_a_batch, rows_a_batch):
        if pulled is not None:
            pulled.append(start)
        values = pa.array(np.arange(start, start + rows_a_batch))
        yield pa.RecordBatch.from_arrays([pa.array([1] * rows_a_batch), values], names=["k", "v"])


def test_a_group_of_millions_of_rows_needs_memory_for_two_batches():
    stage = stage_of(lambda key, values: [(key, sum(values))])
    tracemalloc.start()
    try:
        (output,) = calls(stage, UTC)(numbers(200))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert output.column("v").to_pylist() == [sum(range(2_000_000))]
    assert peak < 8 << 20


def test_emissions_leave_before_the_input_ends():
    def each(key, values):
        for value in values:
            yield key, value

    pulled = []
    output = calls(stage_of(each), UTC)(numbers(20, pulled=pulled))
    first = next(output)
    assert len(pulled) == 1
    rest = list(output)
    ordinals = [n for batch in [first, *rest] for n in batch.column("_ordinal").to_pylist()]
    assert ordinals == list(range(200_000))
    assert max(batch.num_rows for batch in rest) <= 10_000


def test_one_call_may_emit_without_end():
    def forever(key, values):
        for number in itertools.count():
            yield key, number

    output = calls(stage_of(forever), UTC)(numbers(1))
    assert sum(batch.num_rows for batch in itertools.islice(output, 100)) > 10_000
    output.close()


def test_output_batches_are_bounded_in_bytes():
    def large(key, values):
        for _ in range(200):
            yield key, "x" * 1_000_000

    sizes = [
        batch.nbytes
        for batch in calls(stage_of(large, target=("k bigint", "v string")), UTC)(numbers(1))
    ]
    assert sum(sizes) >= 200_000_000
    assert all(size < 20_000_000 for size in sizes[1:])


def test_unread_values_are_skipped_over_many_batches():
    def first(key, values):
        return [(key, next(values))]

    rows = [(1, n) for n in range(50)] + [(2, 100), (2, 101), (3, 200)]
    assert run(first, cut(rows, [7] * 7)) == [(1, 1, 0, 0), (2, 2, 0, 100), (3, 3, 0, 200)]


def test_a_batch_without_limit_is_cut():
    def count(key, values):
        return [(key, sum(1 for _ in values))]

    batch = pa.RecordBatch.from_arrays(
        [pa.array(np.arange(100_000) // 30_000), pa.array(np.arange(100_000))], names=["k", "v"]
    )
    output = pa.Table.from_batches(calls(stage_of(count), UTC)(iter([batch])))
    assert output.column("v").to_pylist() == [30_000, 30_000, 30_000, 10_000]


# Values


def test_values_may_be_read_in_parts_but_once():
    def read(key, values):
        first = next(values)
        for second in values:
            if second == 1:
                break
        assert (first, list(values)) == (0, [2, 3])
        assert next(values, None) is None
        with pytest.raises(ProducerError, match=r"list\(values\)") as caught:
            list(values)
        assert (caught.value.stage, caught.value.key) == ("stage", key)
        return []

    run(read, [[(1, 0), (1, 1)], [(1, 2), (1, 3)]])


def test_a_second_pass_is_the_stage_s_error_with_no_other_cause():
    def twice(key, values):
        yield key, max(values) - min(values)

    with pytest.raises(ProducerError, match=r"list\(values\)") as caught:
        run(twice, [[(1, 0), (1, 1)]])
    assert (caught.value.stage, caught.value.key, caught.value.__cause__) == ("stage", 1, None)


def test_values_can_be_joined():
    def join(key, values):
        yield key, ",".join(values)

    output = run(
        join, [[(1, "a"), (1, "b")]], source=("k int", "v string"), target=("k int", "v string")
    )
    assert output == [(1, 1, 0, "a,b")]


@pytest.mark.parametrize("size", [1, 2, 100])
def test_values_kept_after_their_call_hold_no_rows_of_other_keys(size):
    kept = []

    def keep(key, values):
        for _, earlier in kept:
            assert next(earlier, None) is None
        next(values)
        kept.append((key, values))
        return []

    run(keep, cut([(key, key) for key in range(5) for _ in range(4)], [size] * 40))
    assert len(kept) == 5
    for _, values in kept:
        assert next(values, None) is None


# Round trips

moments = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29))
TYPES = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-(2**7), 2**7 - 1),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "decimal(12,3)": st.decimals(-(10**8), 10**8, places=3),
    "decimal(38,0)": st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal),
    "string": st.text(st.characters(exclude_categories=["Cs"])),
    "binary": st.binary(),
    "date": st.dates(),
    "timestamp": moments.map(lambda moment: moment.replace(tzinfo=UTC)),
    "timestamp_ntz": moments,
}
NESTED = {
    "array<timestamp>": st.lists(st.none() | TYPES["timestamp"]),
    "array<array<int>>": st.lists(st.none() | st.lists(st.none() | TYPES["int"])),
    "map<string, decimal(12,3)>": st.dictionaries(
        TYPES["string"], st.none() | TYPES["decimal(12,3)"]
    ).map(lambda entries: list(entries.items())),
    "struct<a: int, `b-c`: string, d: struct<e: date, f: array<date>>>": st.fixed_dictionaries(
        {
            "a": st.none() | TYPES["int"],
            "b-c": st.none() | TYPES["string"],
            "d": st.none()
            | st.fixed_dictionaries({"e": TYPES["date"], "f": st.none() | st.lists(TYPES["date"])}),
        }
    ),
    "struct<only: timestamp>": st.fixed_dictionaries({"only": TYPES["timestamp"]}),
    "map<struct<x: int, y: date>, array<struct<z: binary, w: boolean>>>": st.none(),
}
ALL_TYPES = {**TYPES, **NESTED}


@pytest.mark.parametrize(
    ("ddl", "zone"),
    [(ddl, "UTC") for ddl in ALL_TYPES]
    + [
        (ddl, zone)
        for ddl in ALL_TYPES
        if "stamp" in ddl
        for zone in ("America/New_York", "+05:30")
    ],
)
@given(data=st.data())
def test_what_is_read_is_written_back_as_the_same_arrow_values(ddl, zone, data):
    values = data.draw(st.lists(st.none() | ALL_TYPES[ddl], min_size=1, max_size=20))
    for declared in (f"v {ddl}", f"v {ddl}, n bigint"):
        stage = stage_of(
            lambda key, values: ((key, value) for value in values),
            source=("k bigint", declared),
            target=("k bigint", declared),
        )
        columns = [*stage.schema.key, *stage.schema.value]
        rows = [(1, value, number) for number, value in enumerate(values)]
        batch = batch_of(columns, rows)
        (output,) = calls(stage, zone_of(zone))(iter([batch.slice(0, 1), batch.slice(1)]))
        assert output.column("v").equals(batch.column("v"))


@pytest.mark.parametrize("scale", [0, 2, 18])
def test_decimals_are_read_as_they_are_whatever_the_function_s_context(scale):
    most = Decimal((0, (9,) * 18, -scale))
    least, last_place = most.copy_negate(), Decimal((0, (1,), -scale))
    values = pa.array([None, most, least, last_place, None, Decimal((0, (0,), -scale))])
    array = values.cast(pa.decimal128(18, scale))
    read = row_reader(Columns((Column("d", DecimalType(18, scale)),)), UTC)
    for some in (array, array.slice(1), array.slice(2, 3), array.slice(6)):
        with localcontext(Context(prec=3)):
            found = list(read([some]))
        assert [*map(repr, found)] == [*map(repr, some.to_pylist())]


@pytest.mark.parametrize("ddl", ["map<int, array<struct<z: binary, w: map<date, int>>>>"])
def test_deeply_nested_values_are_read_as_plain_python(ddl):
    seen = []
    value = [(1, [{"z": b"z", "w": [(date(2020, 1, 1), 5)]}, None]), (2, None)]

    def look(key, values):
        seen.extend(values)
        return [(key, value) for value in seen]

    rows = [[(1, None), (1, value), (1, [])]]
    output = run(look, rows, source=("k bigint", f"v {ddl}"), target=("k bigint", f"v {ddl}"))
    assert seen == [None, {1: [(b"z", {date(2020, 1, 1): 5}), None], 2: None}, {}]
    assert seen[1][1][0].z == b"z"
    assert [row[-1] for row in output] == [None, value, []]


@pytest.mark.parametrize(
    "zone", ["Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"]
)
def test_timestamps_are_on_the_session_s_clock_in_every_century(zone):
    # Arrow's clocks serve the past and Python's the future; both must say what Python's say.
    clock = ZoneInfo(zone)
    hours = [datetime(2021, 1, 1, tzinfo=UTC) + timedelta(minutes=15 * n) for n in range(4 * 9000)]
    for years in (0, -90, -160, 50):
        moments = [hour + timedelta(days=365 * years) for hour in hours]
        seen = []

        def look(key, values, seen=seen):
            seen.extend(values)
            return []

        run(look, [[(1, m) for m in moments]], zone=clock, source=("k int", "v timestamp"))
        expected = [m.astimezone(clock).replace(tzinfo=None) for m in moments]
        assert [(m, m.fold) for m in seen] == [(m, m.fold) for m in expected]


def test_a_repeated_hour_is_told_apart_by_fold():
    first = datetime(2024, 10, 27, 0, 30, tzinfo=UTC)
    moments = [first, first + timedelta(hours=1), None]
    seen = []

    def look(key, values):
        seen.extend(values)
        return [(key, value) for value in seen]

    declared = ("k int", "v timestamp")
    output = run(look, [[(1, m) for m in moments]], zone=PARIS, source=declared, target=declared)
    assert seen[0] == seen[1] == datetime(2024, 10, 27, 2, 30)
    assert [seen[0].fold, seen[1].fold] == [0, 1]
    assert [row[-1] for row in output] == moments


@pytest.mark.parametrize(
    ("name", "hours"),
    [("UTC", 0), ("Z", 0), ("GMT", 0), ("+02:00", 2), ("-8", -8), ("UTC+3", 3), ("GMT-01:00", -1)],
)
def test_session_time_zones_may_be_offsets(name, hours):
    assert zone_of(name).utcoffset(datetime(2024, 1, 1)) == timedelta(hours=hours)


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../etc/passwd"])
def test_an_unknown_time_zone_is_refused(name):
    with pytest.raises(DefinitionError):
        zone_of(name)


@pytest.mark.parametrize("ddl", ["date", "timestamp", "timestamp_ntz", "struct<d: array<date>>"])
def test_years_that_python_lacks_are_an_error_with_the_key(ddl):
    stage = stage_of(lambda key, values: [], source=("k bigint", f"v {ddl}"))
    declared = arrow_type(stage.feeders[0].schema.value.columns[0].data_type)
    late = pa.array([0, 10**7], pa.int32()).cast(pa.date32())
    if pa.types.is_timestamp(declared):
        late = pa.array([0, 10**18], pa.int64()).cast(declared)
    if pa.types.is_struct(declared):
        nested = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), late)
        late = pa.StructArray.from_arrays([nested], names=["d"])
    batch = pa.RecordBatch.from_arrays([pa.array([4, 5]), late], names=["k", "v"])
    with pytest.raises(ProducerError, match="years 1 to 9999") as caught:
        list(calls(stage, PARIS)(iter([batch])))
    assert (caught.value.stage, caught.value.key) == ("stage", 5)


# Forms of emissions

Pair = namedtuple("Pair", "a b")
Swapped = namedtuple("Swapped", "b a")


@dataclasses.dataclass
class PairData:
    b: int
    a: int


@dataclasses.dataclass(frozen=True, slots=True)
class PairSlots:
    a: int
    b: int


FORMS = [
    (1, 2),
    [1, 2],
    Pair(1, 2),
    Swapped(2, 1),
    Row(b=2, a=1),
    Row("b", "a")(2, 1),
    Row(1, 2),
    {"b": 2, "a": 1},
    PairData(2, 1),
    PairSlots(1, 2),
]


@pytest.mark.parametrize("form", FORMS, ids=repr)
def test_rows_are_emitted_by_position_or_by_name(form):
    batch = emit(
        (form, form), ([1, 2], (1, 2)), target=("a int, b int", "s struct<a: int, b: int>")
    )
    expected = {"a": 1, "b": 2, "s": {"a": 1, "b": 2}}
    assert batch.select(["a", "b", "s"]).to_pylist() == [expected, expected]


def test_pairs_may_be_lists_and_forms_may_be_mixed():
    batch = emit(
        *([form, number] for number, form in enumerate(FORMS)), target=("a int, b int", "n int")
    )
    assert batch.column("a").to_pylist() == [1] * len(FORMS)
    assert batch.column("b").to_pylist() == [2] * len(FORMS)


@dataclasses.dataclass
class Total:
    s: list
    n: int


@pytest.mark.parametrize(
    ("start", "add"),
    [
        (lambda: {"s": [], "n": 0}, lambda row, n: row.update(s=[*row["s"], n], n=n)),
        (lambda: {"s": [], "n": 0}, lambda row, n: (row["s"].append(n), row.update(n=n))),
        (lambda: [[], 0], lambda row, n: (row[0].append(n), row.__setitem__(1, n))),
        (lambda: Total([], 0), lambda row, n: (row.s.append(n), setattr(row, "n", n))),
    ],
)
def test_an_emission_that_is_changed_afterwards_is_written_as_it_was(start, add):
    def running(key, values):
        row = start()
        for value in values:
            add(row, value)
            yield key, row

    output = run(running, [[(1, 1), (1, 2)]], target=("k int", "s array<int>, n int"))
    assert [row[-2:] for row in output] == [([1], 1), ([1, 2], 2)]


def test_lists_inside_tuples_are_written_as_they_were():
    Pair = namedtuple("Pair", "x y")

    def running(key, values):
        bytes_so_far, seen, pair = bytearray(), [], [key, None]
        for value in values:
            bytes_so_far += b"x"
            seen.append(value)
            pair[1] = (bytes_so_far, Row(y=seen, x=1), Pair(1, seen))
            yield pair

    struct = "struct<x: int, y: array<int>>"
    target = ("k int", f"b binary, r {struct}, p {struct}")
    output = run(running, [[(1, 1), (1, 2)]], target=target)
    assert [row[-3] for row in output] == [b"x", b"xx"]
    assert [row[-2]["y"] for row in output] == [row[-1]["y"] for row in output] == [[1], [1, 2]]


def test_names_that_are_no_identifiers_are_given_as_themselves_or_as_renamed():
    target = ("k int", "`a-b` int, c int")
    Renamed = namedtuple("Renamed", ["-", "c"], rename=True)
    for value in ({"a-b": 1, "c": 2}, Renamed(1, 2), {"c": 2, "_0": 1}, Row(**{"a-b": 1, "c": 2})):
        assert emit((1, value), target=target).column("a-b").to_pylist() == [1]


@pytest.mark.parametrize(
    "value",
    [
        (1,),
        (1, 2, 3),
        namedtuple("Other", "a c")(1, 2),
        namedtuple("More", "a b c")(1, 2, 3),
        Row(a=1, c=2),
        {"a": 1},
        {"a": 1, "b": 2, "c": 3},
        {},
        5,
        None,
        "ab",
        {1, 2},
        PairData,
    ],
    ids=repr,
)
def test_rows_of_other_columns_are_refused(value):
    assert "stage" in refused((1, value), target=("k int", "a int, b int"))
    if value is not None:
        refused((1, value), target=("k int", "s struct<a: int, b: int>"))


@pytest.mark.parametrize("emission", [(1,), (1, 2, 3), 5, None, "ab", {1: 2, 3: 4}], ids=repr)
def test_what_is_no_pair_is_refused(emission):
    message = refused(emission, target=("k int", "v int"))
    assert repr(emission) in message


@pytest.mark.parametrize("returned", [None, 5, "ab", b"ab", {"a": 1}], ids=repr)
def test_what_is_no_iterable_of_pairs_is_refused(returned):
    with pytest.raises(ProducerError) as caught:
        run(lambda key, values: returned, [[(7, 1)]])
    assert (caught.value.stage, caught.value.key, caught.value.__cause__) == ("stage", 7, None)


def test_any_iterable_of_pairs_will_do():
    for pairs in (
        [(1, 2)],
        ((1, 2),),
        {(1, 2)},
        iter([(1, 2)]),
        map(tuple, [[1, 2]]),
        {1: 2}.items(),
    ):
        assert run(lambda key, values, pairs=pairs: pairs, [[(7, 1)]]) == [(7, 1, 0, 2)]


# Types of emissions


class Colour(IntEnum):
    RED = 3


class Shape(StrEnum):
    ROUND = "round"


class Money(Decimal):
    pass


NY_NOON = datetime(2024, 7, 1, 12, tzinfo=ZoneInfo("America/New_York"))
ACCEPTED = [
    ("double", 1, 1.0),
    ("float", 0.1, float(np.float32(0.1))),
    ("float", float("inf"), float("inf")),
    ("decimal(5,2)", 12, Decimal("12.00")),
    ("decimal(5,2)", Decimal("1.5"), Decimal("1.50")),
    ("decimal(5,2)", Decimal("1.5000"), Decimal("1.50")),
    ("decimal(5,2)", Money("1.5"), Decimal("1.50")),
    ("bigint", np.int64(5), 5),
    ("bigint", np.uint8(5), 5),
    ("bigint", Colour.RED, 3),
    ("double", np.float64(0.1), 0.1),
    ("double", np.float32(0.5), 0.5),
    ("double", np.int32(2), 2.0),
    ("boolean", np.bool_(True), True),
    ("string", np.str_("a"), "a"),
    ("string", Shape.ROUND, "round"),
    ("binary", bytearray(b"a"), b"a"),
    ("binary", np.bytes_(b"a"), b"a"),
    ("timestamp", datetime(2024, 7, 1, 12), datetime(2024, 7, 1, 10, tzinfo=UTC)),
    ("timestamp", NY_NOON, datetime(2024, 7, 1, 16, tzinfo=UTC)),
    ("timestamp", pd.Timestamp(NY_NOON), datetime(2024, 7, 1, 16, tzinfo=UTC)),
    ("timestamp", datetime(2024, 3, 31, 2, 30), datetime(2024, 3, 31, 1, 30, tzinfo=UTC)),
    ("timestamp_ntz", datetime(2024, 7, 1), datetime(2024, 7, 1)),
    ("array<double>", (1, np.float64(2), None), [1.0, 2.0, None]),
    ("map<string, bigint>", {"a": np.int8(1), "b": None}, [("a", 1), ("b", None)]),
]


@pytest.mark.parametrize(("ddl", "value", "stored"), ACCEPTED, ids=repr)
def test_values_that_fit_without_loss_are_accepted(ddl, value, stored):
    batch = emit((1, value), (1, None), target=("k int", f"v {ddl}"), zone=PARIS)
    assert batch.column("v").to_pylist() == [stored, None]


def test_naive_and_aware_datetimes_mix():
    moments = [datetime(2024, 7, 1, 12), NY_NOON, None, datetime(2024, 7, 1, 12, tzinfo=UTC)]
    for zone, first_hour in ((UTC, 12), (PARIS, 10)):
        batch = emit(*((1, m) for m in moments), target=("k int", "v timestamp"), zone=zone)
        hours = pc.hour(batch.column("v").cast(pa.timestamp("us"))).to_pylist()
        assert hours == [first_hour, 16, None, 12]


REFUSED = [
    ("bigint", 2.0),
    ("bigint", np.float64(2.0)),
    ("bigint", True),
    ("bigint", np.bool_(True)),
    ("bigint", "2"),
    ("bigint", Decimal(2)),
    ("bigint", 2**63),
    ("bigint", 10**400),
    ("bigint", np.datetime64("2020-01-01T00:00:00", "ns")),
    ("bigint", np.timedelta64(5, "ns")),
    ("tinyint", 128),
    ("boolean", 1),
    ("boolean", "true"),
    ("double", "1.0"),
    ("double", True),
    ("double", Decimal("1.5")),
    ("double", 2**53 + 1),
    ("double", pd.NA),
    ("float", 1e300),
    ("float", 2**24 + 1),
    ("decimal(5,2)", 1.5),
    ("decimal(5,2)", "1.5"),
    ("decimal(5,2)", True),
    ("decimal(5,2)", Decimal("1.505")),
    ("decimal(5,2)", Decimal("1000")),
    ("decimal(5,2)", 1000),
    ("decimal(5,2)", Decimal("NaN")),
    ("decimal(5,2)", Decimal("Infinity")),
    ("decimal(38,0)", 10**38),
    ("string", b"a"),
    ("string", 5),
    ("string", "a\ud800"),
    ("binary", "a"),
    ("date", datetime(2020, 1, 1)),
    ("date", pd.Timestamp("2020-01-01")),
    ("date", "2020-01-01"),
    ("timestamp", date(2020, 1, 1)),
    ("timestamp", 5),
    ("timestamp", pd.Timestamp("2020-01-01 00:00:00.000000001")),
    ("timestamp", pd.NaT),
    ("timestamp_ntz", datetime(2020, 1, 1, tzinfo=UTC)),
    ("array<int>", 5),
    ("array<int>", "ab"),
    ("array<int>", {1, 2}),
    ("array<int>", [1, "2"]),
    ("array<string>", ["a", 5]),
    ("map<string, int>", [("a", 1)]),
    ("map<string, int>", {1: 1}),
    ("map<string, int>", {None: 1}),
    ("map<string, int>", {"a": 1.0}),
    ("struct<a: int NOT NULL, b: int>", (None, 1)),
    ("struct<a: int, b: int>", (1, True)),
    ("struct<a: int>", "text"),
]


@pytest.mark.parametrize(("ddl", "value"), REFUSED, ids=repr)
def test_values_that_would_change_are_refused(ddl, value):
    message = refused((1, value), target=("k int", f"v {ddl}"))
    assert ddl.replace(", ", ",")[:5] in message
    assert repr(value)[:20] in message


@pytest.mark.parametrize("emission", [(None, 1), (1, None), (1, (2, None))], ids=repr)
def test_null_is_refused_where_declared_not_null(emission):
    value = "a int, b int NOT NULL" if isinstance(emission[1], tuple) else "v int NOT NULL"
    assert "NOT NULL" in refused(emission, target=("k int NOT NULL", value))


@pytest.mark.parametrize("ddl", ["array<int> NOT NULL", "struct<a: int> NOT NULL"])
def test_null_parts_are_refused_where_declared_not_null(ddl):
    assert "NOT NULL" in refused((1, None), target=("k int", f"v {ddl}"))


def test_a_refusal_names_the_key_of_the_emission_at_fault():
    def half(key, values):
        for value in values:
            yield key, value if key != 30 else value / 2

    rows = [(key, 2 * key) for key in range(100)]
    with pytest.raises(ProducerError) as caught:
        run(half, cut(rows, [40]))
    assert caught.value.key == 30
    assert "30.0" in str(caught.value)
    assert "bigint" in str(caught.value)


# Failures of the function


def failing(error):
    def fail(key, values):
        yield key, next(values)
        raise error

    return fail


@pytest.mark.parametrize("error", [ZeroDivisionError("no"), SystemExit(3), ProducerError("mine")])
def test_an_exception_of_the_function_is_the_cause(error):
    with pytest.raises(ProducerError) as caught:
        run(failing(error), [[(7, 1)]])
    assert (caught.value.stage, caught.value.key) == ("stage", 7)
    assert caught.value.__cause__ is error


def test_a_failure_at_the_call_itself_is_the_cause_too():
    def fail(key, values):
        return [(key, 1 / 0)]

    with pytest.raises(ProducerError) as caught:
        run(fail, [[(7, 1)]])
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit])
def test_interruptions_pass(error):
    with pytest.raises(error):
        run(failing(error()), [[(7, 1)]])


def test_generators_are_closed_with_their_call_however_it_ends():
    closed = []

    def careful(key, values):
        try:
            for value in values:
                yield key, value
        finally:
            closed.append(key)

    with pytest.raises(ProducerError):
        run(careful, [[(1, "a"), (2, "b")]], source=("k bigint", "v string"))
    output = calls(stage_of(careful), UTC)(numbers(5))
    next(output)
    output.close()
    assert closed == [1, 2, 1]


def test_an_exception_of_finally_is_an_error_of_the_function():
    def careless(key, values):
        try:
            for _ in range(1_000):
                yield key, "text"
        finally:
            raise OSError("closing")

    with pytest.raises(ProducerError) as caught:
        run(careless, [[(7, 1)]])
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("swallow", [True, False])
def test_a_failing_input_is_not_the_function_s_error(swallow):
    def broken():
        yield from numbers(1)
        raise ConnectionError("lost")

    def read(key, values):
        try:
            yield key, sum(values)
        except ConnectionError:
            if not swallow:
                raise

    with pytest.raises(ConnectionError, match="lost"):
        list(calls(stage_of(read), UTC)(broken()))


# From worker to driver


class UnpicklableError(Exception):
    def __init__(self, code, *, needed):
        super().__init__(f"code {code}")


class Unreadable:
    def __repr__(self):
        raise ValueError("no repr")


def in_text(error):
    """What Spark hears of an error that a partition's function raised."""

    def fail(batches):
        raise error
        yield from batches

    with pytest.raises(WorkerError) as caught:
        list(in_worker(fail)(iter(())))
    return str(caught.value)


def travelled(error):
    """Sends an error as Spark would: as text inside another exception, itself a cause."""
    outer = RuntimeError("Job aborted")
    trace = f"Traceback:\n  WorkerError: {in_text(error)}\n\tat org.apache.spark\n"
    outer.__cause__ = RuntimeError(trace)
    found = raised_by_producer(outer)
    assert found is not None
    return found


def failed(function, **schema):
    with pytest.raises(ProducerError) as caught:
        run(function, [[(7, 8, 1)]], source=("a int, b int", "v int"), **schema)
    return caught.value


def test_a_failure_arrives_whole():
    error = travelled(failed(failing(KeyError((7, "b")))))
    assert (error.stage, error.key, error.key.b) == ("stage", (7, 8), 8)
    assert type(error.__cause__) is KeyError
    assert error.__cause__.args == ((7, "b"),)
    (note,) = error.__notes__
    assert "in fail" in note
    assert "deltaproduce" not in note  # only lines of the user's, and no others


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (json.JSONDecodeError("bad", "doc", 2), ValueError),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), UnicodeError),
        (pa.ArrowMemoryError("too much"), MemoryError),
        (np.linalg.LinAlgError("bad"), ValueError),
        (FileNotFoundError(2, "No such file", "a"), FileNotFoundError),
        (ExceptionGroup("bad", [ValueError()]), Exception),
        (SystemExit(3), SystemExit),
        (Exception("bad"), Exception),
    ],
    ids=repr,
)
def test_a_cause_is_of_the_nearest_class_of_python_s_own(cause, expected):
    found = travelled(failed(failing(cause))).__cause__
    assert type(found) is expected
    assert str(cause) in str(found)
    assert type(cause) is expected or type(cause).__qualname__ in str(found)


@pytest.mark.parametrize(
    "cause",
    [UnpicklableError(5, needed=1), ValueError(lambda: (yield), open), ValueError("x" * 10**6)],
)
def test_what_cannot_travel_has_a_stand_in(cause):
    error = travelled(failed(failing(cause)))
    assert type(cause).__name__ in f"{type(error.__cause__).__name__} {error.__cause__}"


def test_a_long_or_odd_key_is_replaced_by_its_text():
    for key in ("x" * 10**7, Unreadable(), itertools.count()):
        error = travelled(ProducerError("message", stage="stage", key=key))
        assert error.stage == "stage"
        assert error.key is not None
    assert len(in_text(ProducerError("m", stage="s", key="x" * 10**7))) < 100_000


def test_an_emission_that_does_not_fit_arrives_without_a_cause():
    error = travelled(failed(lambda key, values: [(1, 2.5)]))
    assert error.__cause__ is None
    assert "2.5" in str(error)


def test_a_dead_worker_is_its_stage_s_failure():
    outer = RuntimeError("Job aborted: Python worker exited unexpectedly (crashed)")
    assert raised_by_producer(outer) is None
    error = raised_by_producer(outer, "stage")
    assert (error.stage, error.key, error.__cause__) == ("stage", None, None)


def test_other_errors_are_no_producer_s():
    assert raised_by_producer(ValueError("other")) is None
    loop = ValueError("loop")
    loop.__cause__ = RuntimeError("back")
    loop.__cause__.__cause__ = loop
    assert raised_by_producer(loop) is None
    own = ProducerError("here", stage="s")
    assert raised_by_producer(own) is own
    assert raised_by_producer(WorkerError(in_text(own))).stage == "s"


def test_offsets_are_zones_too():
    seen = []

    def look(key, values):
        seen.extend(values)
        return []

    moment = datetime(2060, 7, 1, 12, tzinfo=UTC)
    zone = timezone(timedelta(hours=5, minutes=30))
    run(look, [[(1, moment), (1, None)]], zone=zone, source=("k int", "v timestamp"))
    assert seen == [datetime(2060, 7, 1, 17, 30), None]


@pytest.mark.parametrize(("declared", "fits"), [("bigint", True), ("int", False)])
def test_a_surrogate_that_its_column_does_not_hold_is_refused(declared, fits):
    """The last number that was given out is the greatest int, and a new key gets the next one."""
    pipeline = Pipeline("test")
    feeder = pipeline.source("feeder", key="k bigint", value="v bigint")
    decorate = pipeline.producer(
        feeder, key="k bigint", value=f"id {declared}", name="stage", surrogate="id"
    )
    stage = decorate(lambda key, values: [(key, None)])
    content = Layout.of(stage).content
    emitted = pa.table(
        {c.name: pa.array([n + 1], arrow_type(c.data_type)) for n, c in enumerate(content)}
    )
    last = 2**31 - 1
    production = Production(stage, last, Engines(None, Limits()))
    if fits:
        made, given_out = stage.kind.stored(production, None, emitted, 1)
        assert (made.column("id").to_pylist(), given_out) == ([last + 1], last + 1)
        return
    with pytest.raises(ProducerError) as raised:
        stage.kind.stored(production, None, emitted, 1)
    assert (raised.value.stage, raised.value.column) == ("stage", "id")
