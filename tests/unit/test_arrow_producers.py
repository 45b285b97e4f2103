import itertools
import tracemalloc
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from unittest import mock
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle

from deltaproduce.errors import ProducerError
from deltaproduce.pipeline import Pipeline
from deltaproduce.stages.functions import over_tables as arrow_producers
from deltaproduce.types.atoms import Misfit, arrow_type
from deltaproduce.types.columns import column_of
from deltaproduce.types.conversions import in_arrow_types

PARIS = ZoneInfo("Europe/Paris")
LONGS = ("k bigint", "v bigint")


def calls(stage, zone):
    """What is done to one partition of a stage's rows."""
    return stage.kind.calls(stage, zone)


def stage_of(function, *, source=LONGS, target=LONGS, streaming=False):
    pipeline = Pipeline("test")
    feeder = pipeline.source("feeder", key=source[0], value=source[1])
    declare = pipeline.arrow_producer(
        feeder, key=target[0], value=target[1], name="stage", streaming=streaming
    )
    return declare(function)


def batch_of(schema, rows):
    """A batch as Spark sends it: of plain Python rows, its columns numbered."""
    arrays = [
        pa.array([row[i] for row in rows], arrow_type(column.data_type))
        for i, column in enumerate((*schema.key, *schema.value))
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])


def run(function, batches, *, zone: tzinfo = UTC, **declared):
    """Runs a function over lists of (key…, value…) rows; returns the output rows as tuples."""
    stage = stage_of(function, **declared)
    batches = (batch_of(stage.feeders[0].schema, rows) for rows in batches)
    return [tuple(r.values()) for batch in calls(stage, zone)(batches) for r in batch.to_pylist()]


def cut(rows, sizes):
    """Cuts rows into batches of the sizes, in turn."""
    batches, rest = [], list(rows)
    for size in itertools.chain(sizes, itertools.repeat(max(len(rest), 1))):
        if not rest:
            return batches
        batches.append(rest[:size])
        rest = rest[size:]
    return batches


def refused(function, rows=((7, 1),), **declared):
    with pytest.raises(ProducerError) as caught:
        run(function, [rows], **declared)
    assert caught.value.stage == "stage"
    return caught.value


def unchanged(table):
    return table.append_column("_source_k", table.column("k"))


def unchanged_batches(batches):
    for batch in batches:
        yield batch.append_column("_source_k", batch.column("k"))


FORMS = pytest.mark.parametrize(
    ("function", "streaming"), [(unchanged, False), (unchanged_batches, True)]
)

# Calls

keys = st.tuples(
    st.none() | st.integers(0, 2),
    st.none() | st.sampled_from(["", "a", "b"]),
    st.none() | st.booleans(),
)
groups = st.dictionaries(keys, st.lists(st.none() | st.integers(0, 9), min_size=1, max_size=6))
sizes = st.lists(st.integers(0, 5), max_size=8)
OF_THREE = {"source": ("n bigint, t string, b boolean", "v bigint")}


def limited(n_rows):
    return mock.patch.object(arrow_producers, "_MOST_ROWS", n_rows)


def with_source(table):
    made = {"k": table.column("n"), "v": table.column("v")}
    return pa.table(made | {f"_source_{name}": table.column(name) for name in "bnt"})


@settings(deadline=None)
@given(groups, sizes, st.integers(1, 9))
def test_every_table_has_whole_keys_in_order_and_is_no_larger_than_needed(groups, sizes, most):
    seen = []

    def look(table):
        assert table.column_names == ["n", "t", "b", "v"]
        assert all(len(chunk) for chunk in table.column("v").chunks)
        seen.append([tuple(row.values()) for row in table.to_pylist()])
        return with_source(table)

    rows = [(*key, value) for key, values in groups.items() for value in values]
    with limited(most):
        output = run(look, cut(rows, sizes), **OF_THREE)
    assert [row for table in seen for row in table] == rows
    key_sets = [[key for key, _ in itertools.groupby(table, lambda r: r[:3])] for table in seen]
    assert [key for found in key_sets for key in found] == list(groups)
    for table, found, following in zip(seen, key_sets, key_sets[1:], strict=False):
        largest = max(len(groups[key]) for key in found)
        assert len(found) == 1 or len(table) <= 2 * most + largest
        assert len(table) + len(groups[following[0]]) >= most
    assert output == [
        (n, t, b, n, ordinal, v) for table in seen for ordinal, (n, t, b, v) in enumerate(table)
    ]


@settings(deadline=None)
@given(groups, sizes, st.integers(1, 9), st.integers(0, 4))
def test_every_key_streams_in_one_call(groups, sizes, most, taken):
    seen = []

    def look(batches):
        some = list(itertools.islice(batches, taken))
        seen.append([tuple(row.values()) for batch in some for row in batch.to_pylist()])
        return map(with_source, some)

    rows = [(*key, value) for key, values in groups.items() for value in values]
    with limited(most):
        output = run(look, cut(rows, sizes), streaming=True, **OF_THREE)
    assert len(seen) == len(groups)
    for found, (key, values) in zip(seen, groups.items(), strict=True):
        given_rows = [(*key, value) for value in values]
        assert found == given_rows[: len(found)]
        assert len(found) >= min(taken, len(values))  # a batch has a row
        assert len(found) == len(values) or len(found) <= taken * most
    assert output == [
        (n, t, b, n, ordinal, v) for call in seen for ordinal, (n, t, b, v) in enumerate(call)
    ]


@FORMS
def test_no_rows_make_no_calls(function, streaming):
    for batches in ([], [[]], [[], []]):
        assert run(lambda _: 1 / 0, batches, streaming=streaming) == []
    assert run(function, [[], [(1, 2)], []], streaming=streaming) == [(1, 1, 0, 2)]


def test_a_call_may_return_no_rows():
    assert run(lambda table: unchanged(table).slice(0, 0), [[(1, 2)], [(2, 3)]]) == []
    assert run(lambda batches: [], [[(1, 2), (2, 3)]], streaming=True) == []
    empty = pa.table({"k": [], "v": [], "_source_k": []})
    assert run(lambda table: empty, [[(1, 2)]]) == []
    assert run(lambda batches: [empty, empty], [[(1, 2)]], streaming=True) == []


def test_batches_count_as_tables_and_columns_come_in_any_order():
    def swapped(table):
        found = unchanged(table).select(["v", "_source_k", "k"]).combine_chunks()
        return found.to_batches()[0]

    assert run(swapped, [[(1, 2), (2, 3)]]) == [(1, 1, 0, 2), (2, 2, 1, 3)]


def test_rows_in_any_order_keep_the_source_key_that_they_name():
    def reverse(table):
        made = pa.table({"k": table.column("v"), "v": table.column("v")})
        made = made.append_column("_source_k", table.column("k"))
        return made.take(pa.array(np.arange(len(made))[::-1]))

    rows = [(None, 5), (1, 6), (1, 7), (2, 6)]
    assert run(reverse, [rows]) == [(2, 6, 0, 6), (1, 7, 1, 7), (1, 6, 2, 6), (None, 5, 3, 5)]


def test_source_keys_are_the_input_s_own_arrays():
    def first(table):
        return pa.table({"k": [1], "v": [1], "_source_k": [table.column("k")[0].as_py()]})

    array = pa.array(["a", "b"], pa.large_string())
    batch = pa.RecordBatch.from_arrays([array, pa.array([1, 2])], names=["0", "1"])
    stage = stage_of(first, source=("k string", "v bigint"))
    (output,) = calls(stage, UTC)(iter([batch]))
    assert output.column(0).equals(pa.array(["a"], pa.large_string()))


def test_a_table_in_many_chunks_leaves_in_one_batch():
    def chunked(table):
        made = unchanged(table)
        return pa.concat_tables([made.slice(i, 1) for i in range(len(made))])

    stage = stage_of(chunked)
    batch = batch_of(stage.feeders[0].schema, [(n, n) for n in range(1_000)])
    (output,) = calls(stage, UTC)(iter([batch]))
    assert output.column("_ordinal").to_pylist() == list(range(1_000))


@FORMS
def test_calls_pickle_without_the_rest_of_the_pipeline(function, streaming):
    stage = stage_of(function, streaming=streaming)
    again = cloudpickle.loads(cloudpickle.dumps(calls(stage, PARIS)))
    batch = pa.RecordBatch.from_arrays([pa.array([1, 1]), pa.array([2, 3])], names=["0", "1"])
    (output,) = again(iter([batch]))
    assert output.to_pylist() == [
        {"_source_k": 1, "k": 1, "_ordinal": ordinal, "v": v} for ordinal, v in [(0, 2), (1, 3)]
    ]


def test_timestamps_come_on_the_session_s_clock():
    seen = []

    def look(table):
        seen.extend(pc.hour(table.column("v")).to_pylist())
        return unchanged(table)

    stage = stage_of(look, source=("k bigint", "v timestamp"), target=("k bigint", "v timestamp"))
    moment = datetime(2024, 7, 1, 10, tzinfo=UTC)
    arrays = [pa.array([1]), pa.array([moment], pa.timestamp("us", "Europe/Paris"))]
    (output,) = calls(stage, PARIS)(iter([pa.RecordBatch.from_arrays(arrays, names=["0", "1"])]))
    assert seen == [12]
    assert output.column("v").to_pylist() == [moment]


# Sizes


def numbers(batches, *, rows_a_batch=10_000, rows_a_key=None, pulled=None):
    """Batches whose values are 0, 1, 2, …, of one key or of many; `pulled` notes each as read."""
    for start in range(0, batches * rows_a_batch, rows_a_batch):
        if pulled is not None:
            pulled.append(start)
        values = np.arange(start, start + rows_a_batch)
        arrays = [pa.array(values // (rows_a_key or 10**9)), pa.array(values)]
        yield pa.RecordBatch.from_arrays(arrays, names=["0", "1"])


def sizes_seen(batches, **declared):
    seen = []

    def look(table):
        seen.append((len(table), table.nbytes))
        return unchanged(table).slice(0, 0)

    list(calls(stage_of(look, **declared), UTC)(batches))
    return seen


def test_tables_have_about_ten_thousand_rows_however_large_the_batches_are():
    for size in (100, 9_999, 30_000, 300_000):
        seen = sizes_seen(numbers(300_000 // size, rows_a_batch=size, rows_a_key=7))
        assert sum(n for n, _ in seen) == 300_000 // size * size
        assert all(9_000 < n < 20_000 for n, _ in seen[:-1])


def test_a_table_has_more_rows_if_one_key_has():
    assert [n for n, _ in sizes_seen(numbers(10, rows_a_key=45_000))] == [45_000, 45_000, 10_000]


def test_tables_are_bounded_in_bytes():
    text = ("k bigint", "v string")
    wide = (
        pa.RecordBatch.from_arrays(
            [pa.array(np.arange(n, n + 200)), pa.array(["x" * 1_000_000] * 200)], names=["0", "1"]
        )
        for n in (0, 200)
    )
    seen = sizes_seen(wide, source=text, target=text)
    assert sum(n for n, _ in seen) == 400
    assert max(size for _, size in seen) < 40 << 20


def test_what_comes_back_leaves_in_batches_of_bounded_size():
    def exploded(table):
        n = 500_000
        return pa.table({"k": np.arange(n), "v": ["x" * 100] * n, "_source_k": np.zeros(n, int)})

    stage = stage_of(exploded, target=("k bigint", "v string"))
    output = list(calls(stage, UTC)(numbers(1)))
    assert sum(batch.num_rows for batch in output) == 500_000
    assert max(batch.num_rows for batch in output) <= 10_000
    ordinals = np.concatenate([batch.column("_ordinal").to_numpy() for batch in output])
    assert (ordinals == np.arange(500_000)).all()


def test_a_key_of_millions_of_rows_streams_in_bounded_memory():
    def total(batches):
        found = sum(pc.sum(batch.column("v")).as_py() for batch in batches)
        yield pa.table({"k": [0], "v": [found], "_source_k": [0]})

    stage = stage_of(total, streaming=True)
    tracemalloc.start()
    try:
        (output,) = calls(stage, UTC)(numbers(500))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert output.column("v").to_pylist() == [sum(range(5_000_000))]
    assert peak < 8 << 20


def test_rows_leave_a_stream_before_its_input_ends():
    pulled = []
    output = calls(stage_of(unchanged_batches, streaming=True), UTC)(numbers(20, pulled=pulled))
    first = next(output)
    assert len(pulled) <= 2
    ordinals = [n for b in [first, *output] for n in b.column("_ordinal").to_pylist()]
    assert ordinals == list(range(200_000))


def test_one_stream_may_yield_without_end():
    def forever(batches):
        (key,) = next(batches).column("k").unique().to_pylist()
        for number in itertools.count():
            yield pa.table({"k": [key], "v": [number], "_source_k": [key]})

    output = calls(stage_of(forever, streaming=True), UTC)(numbers(1))
    assert [b.column("_ordinal")[0].as_py() for b in itertools.islice(output, 9)] == list(range(9))
    output.close()


# Streams are read once


def test_batches_may_be_read_in_parts_but_once():
    def read(batches):
        first = next(batches)
        second = next(iter(batches))
        assert [b.column("v").to_pylist() for b in (first, second, *batches)] == [[0], [1], [2]]
        assert next(batches, None) is None
        with pytest.raises(ProducerError) as caught:
            list(batches)
        assert (caught.value.stage, caught.value.key) == ("stage", 1)
        return []

    run(read, [[(1, 0)], [(1, 1)], [(1, 2)]], streaming=True)


def test_a_second_pass_is_the_stage_s_error_with_no_other_cause():
    def twice(batches):
        assert len(list(batches)) + len(list(batches)) > 0
        yield

    error = refused(twice, [(7, 8, 1)], source=("a int, b int", "v int"), streaming=True)
    assert (error.key, error.key.b, error.__cause__) == ((7, 8), 8, None)


@pytest.mark.parametrize("size", [1, 2, 100])
def test_batches_kept_after_their_call_hold_no_rows_of_other_keys(size):
    kept = []

    def keep(batches):
        for _, earlier in kept:
            assert next(earlier, None) is None
        kept.append((next(batches), batches))
        return []

    run(keep, cut([(k, k) for k in range(5) for _ in range(4)], [size] * 40), streaming=True)
    assert [first.column("k")[0].as_py() for first, _ in kept] == list(range(5))
    for _, batches in kept:
        assert next(batches, None) is None


@pytest.mark.parametrize("swallow", [True, False])
def test_a_failing_input_is_not_the_function_s_error(swallow):
    def broken():
        yield from numbers(1)
        raise ConnectionError("lost")

    def read(batches):
        try:
            for batch in batches:
                yield unchanged(batch)
        except ConnectionError:
            if not swallow:
                raise

    with pytest.raises(ConnectionError, match="lost"):
        list(calls(stage_of(read, streaming=True), UTC)(broken()))
    with pytest.raises(ConnectionError, match="lost"):
        list(calls(stage_of(unchanged), UTC)(broken()))


def test_generators_are_closed_with_their_call_however_it_ends():
    closed = []

    def careful(batches):
        for batch in batches:
            key = batch.column("k")[0].as_py()
            try:
                yield unchanged(batch)
            finally:
                closed.append(key)

    with pytest.raises(ProducerError) as caught:
        run(lambda batches: careful(map(without_v, batches)), [[(1, 1)]], streaming=True)
    assert closed == [caught.value.key]  # at once, though the error still holds the frames
    output = calls(stage_of(careful, streaming=True), UTC)(numbers(5))
    next(output)
    output.close()
    assert closed == [1, 0]


def without_v(batch):
    return batch.select(["k"])


# What comes back

moments = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29))
ATOMS = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-(2**7), 2**7 - 1),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "decimal(12,3)": st.decimals(-(10**8), 10**8, places=3),
    "decimal(38,0)": st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal),
    "string": st.text(st.characters(exclude_categories=["Cs"])),
    "binary": st.binary(),
    "date": st.dates(),
    "timestamp": moments.map(lambda moment: moment.replace(tzinfo=UTC)),
    "timestamp_ntz": moments,
}
FLOATS = {"float": st.floats(width=32, allow_nan=False), "double": st.floats(allow_nan=False)}
STRUCT = "struct<a: int, `b-c`: string NOT NULL, d: struct<e: date, f: array<date>>>"
NESTED = {
    "array<timestamp>": st.lists(st.none() | ATOMS["timestamp"]),
    "array<array<int>>": st.lists(st.none() | st.lists(st.none() | ATOMS["int"])),
    "map<string, decimal(12,3)>": st.dictionaries(
        ATOMS["string"], st.none() | ATOMS["decimal(12,3)"]
    ).map(lambda entries: list(entries.items())),
    STRUCT: st.fixed_dictionaries(
        {
            "a": st.none() | ATOMS["int"],
            "b-c": ATOMS["string"],
            "d": st.none()
            | st.fixed_dictionaries({"e": ATOMS["date"], "f": st.none() | st.lists(ATOMS["date"])}),
        }
    ),
    f"map<int, array<{STRUCT}>>": st.none(),
}
VALUES = {**ATOMS, **FLOATS, **NESTED}


@FORMS
@pytest.mark.parametrize("ddl", VALUES)
@given(data=st.data())
def test_values_of_all_types_come_back_as_they_were_given(function, streaming, ddl, data):
    values = data.draw(st.lists(st.none() | VALUES[ddl], min_size=1, max_size=20))
    declared = ("k bigint", f"v {ddl}")
    stage = stage_of(function, source=declared, target=declared, streaming=streaming)
    batch = batch_of(stage.schema, [(1, value) for value in values])
    output = list(calls(stage, UTC)(iter([batch.slice(0, 1), batch.slice(1)])))
    found = pa.concat_arrays([part.column("v") for part in output])
    assert found.equals(batch.column(1))
    assert found.type == arrow_type(stage.schema.value.columns[0].data_type)


@pytest.mark.parametrize("ddl", ATOMS)
@given(data=st.data())
def test_keys_of_all_types_are_source_keys(ddl, data):
    several = data.draw(
        st.lists(st.none() | ATOMS[ddl], min_size=2, max_size=20, unique_by=lambda v: (v, type(v)))
    )
    declared = (f"k {ddl}", "v bigint")
    stage = stage_of(lambda table: unchanged(table.slice(1)), source=declared, target=declared)
    batch = batch_of(stage.schema, [(key, number) for number, key in enumerate(several)])
    (output,) = calls(stage, UTC)(iter([batch]))
    assert output.column("_source_k").equals(batch.column(0).slice(1))
    assert output.column("k").equals(batch.column(0).slice(1))

    def stray(table):
        return pa.table({"k": table.column("k"), "v": table.column("v"), "_source_k": strays})

    strays = pa.concat_arrays([batch.column(0).slice(0, 1)] * (len(several) - 1))
    with pytest.raises(ProducerError) as caught:
        list(calls(stage_of(stray, source=declared, target=declared), UTC)(iter([batch.slice(1)])))
    assert caught.value.key == plain(several[0])


def plain(value):
    """As Python gets it: a timestamp is naive, on the session's clock."""
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def constant(array, *, key=None):
    """A function that gives an array as the values of the key 7."""

    def produce(table):
        sevens = [7] * len(array)
        return pa.table({"k": sevens if key is None else key, "v": array, "_source_k": sevens})

    return produce


def made(array, ddl):
    return [row[-1] for row in run(constant(array), [[(7, 1)]], target=("k bigint", f"v {ddl}"))]


TEXT = pa.array(["a", None, "a"])
NOON = datetime(2024, 7, 1, 12, tzinfo=ZoneInfo("America/New_York"))
ACCEPTED = [
    ("bigint", pa.array([1, None], pa.int8()), [1, None]),
    ("bigint", pa.array([1, None], pa.uint64()), [1, None]),
    ("tinyint", pa.array([-128, 127], pa.int64()), [-128, 127]),
    ("int", pa.array([5, 5, None]).dictionary_encode(), [5, 5, None]),
    ("double", pa.array([1, 2**53], pa.int64()), [1.0, float(2**53)]),
    ("double", pa.array([0.5, float("inf")], pa.float32()), [0.5, float("inf")]),
    ("float", pa.array([0.5], pa.float16()), [0.5]),
    ("decimal(21,2)", pa.array([7], pa.int64()), [Decimal("7.00")]),
    ("decimal(5,2)", pa.array([Decimal("1.50")], pa.decimal128(38, 4)), [Decimal("1.50")]),
    ("decimal(5,2)", pa.array([Decimal("1.5")], pa.decimal256(60, 1)), [Decimal("1.50")]),
    ("decimal(5,2)", pa.array([Decimal("1.5")], pa.decimal64(10, 1)), [Decimal("1.50")]),
    ("decimal(5,2)", pa.array([999], pa.int64()), [Decimal("999.00")]),
    ("decimal(38,20)", pa.array([Decimal("1.5")], pa.decimal128(38, 1)), [Decimal("1.5")]),
    ("string", TEXT.cast(pa.large_string()), ["a", None, "a"]),
    ("string", TEXT.cast(pa.string_view()), ["a", None, "a"]),
    ("string", TEXT.dictionary_encode(), ["a", None, "a"]),
    ("string", TEXT.cast(pa.large_string()).dictionary_encode(), ["a", None, "a"]),
    ("string", pa.nulls(2), [None, None]),
    ("binary", pa.array([b"ab"], pa.large_binary()), [b"ab"]),
    ("binary", pa.array([b"ab"], pa.binary_view()), [b"ab"]),
    ("binary", pa.array([b"ab"], pa.binary(2)), [b"ab"]),
    ("date", pa.array([date(2020, 2, 29)], pa.date64()), [date(2020, 2, 29)]),
    ("timestamp", pa.array([NOON], pa.timestamp("s", "America/New_York")), [NOON]),
    ("timestamp", pa.array([NOON], pa.timestamp("ns", "Asia/Kolkata")), [NOON]),
    ("timestamp_ntz", pa.array([datetime(2024, 7, 1)], pa.timestamp("ms")), [datetime(2024, 7, 1)]),
    ("array<bigint>", pa.array([[1], None, []], pa.large_list(pa.int8())), [[1], None, []]),
    ("array<bigint>", pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), [[1, 2], None]),
    ("array<bigint>", pa.array([[1], None], pa.list_view(pa.int64())), [[1], None]),
    ("array<int>", pa.array([[1], [2, 3], [4]]).slice(1, 1), [[2, 3]]),
    (
        "array<int>",
        pa.array([[1], None, [3]], pa.large_list_view(pa.int32())).slice(1),
        [None, [3]],
    ),
    ("array<string>", pa.array([["a"], None], pa.list_(pa.string_view())), [["a"], None]),
    (
        "map<string, bigint>",
        pa.array([[("a", 1)], None, [("b", None)]], pa.map_(pa.large_string(), pa.int8())).slice(1),
        [None, [("b", None)]],
    ),
    (
        "struct<a: bigint NOT NULL, b: string>",
        pa.array(
            [{"b": "x", "a": 1}, None], pa.struct([("b", pa.string_view()), ("a", pa.int8())])
        ),
        [{"a": 1, "b": "x"}, None],
    ),
    ("array<struct<a: date>>", pa.nulls(1, pa.list_(pa.null())), [None]),
    ("struct<a: array<int>>", pa.array([{"a": None}]), [{"a": None}]),
]


@pytest.mark.parametrize(
    ("ddl", "array", "stored"), ACCEPTED, ids=[f"{ddl}-{array.type}" for ddl, array, _ in ACCEPTED]
)
def test_types_that_lose_nothing_are_accepted(ddl, array, stored):
    assert made(array, ddl) == stored
    assert made(pa.concat_arrays([array, array]).slice(len(array)), ddl) == stored
    if len(array):
        assert made(array.slice(0, 0), ddl) == []


def strict_struct(values):
    return pa.array(values, pa.struct([("a", pa.int32()), ("b", pa.int32())]))


REFUSED = [
    ("bigint", pa.array([2.0])),
    ("bigint", pa.array([True])),
    ("bigint", pa.array(["2"])),
    ("bigint", pa.array([Decimal(2)])),
    ("bigint", pa.array([2**63], pa.uint64())),
    ("bigint", pa.array([5], pa.duration("us"))),
    ("bigint", pa.array([5], pa.timestamp("us"))),
    ("int", pa.array([2**31])),
    ("int", pa.array([2**31]).dictionary_encode()),
    ("boolean", pa.array([1])),
    ("double", pa.array([2**53 + 1])),
    ("double", pa.array([Decimal("1.5")])),
    ("double", pa.array(["1.0"])),
    ("float", pa.array([0.5], pa.float64())),
    ("float", pa.array([2**24 + 1])),
    ("decimal(5,2)", pa.array([1.5])),
    ("decimal(5,2)", pa.array([Decimal("1.505")])),
    ("decimal(5,2)", pa.array([Decimal("1000.0")])),
    ("decimal(5,2)", pa.array([1000], pa.int64())),
    ("decimal(38,20)", pa.array([Decimal("1" * 30)], pa.decimal128(38, 2))),
    ("string", pa.array([b"a"])),
    ("string", pa.array([5])),
    ("string", pa.array([5]).dictionary_encode()),
    ("binary", pa.array(["a"])),
    ("date", pa.array([datetime(2020, 1, 1)])),
    ("date", pa.array([1], pa.int64()).view(pa.date64())),
    ("timestamp", pa.array([datetime(2020, 1, 1)])),
    ("timestamp", pa.array([date(2020, 1, 1)])),
    ("timestamp", pa.array([1], pa.timestamp("ns", "UTC"))),
    ("timestamp", pa.array([2**62], pa.timestamp("s", "UTC"))),
    ("timestamp_ntz", pa.array([datetime(2020, 1, 1, tzinfo=UTC)])),
    ("array<int>", pa.array([[2**31]])),
    ("array<int>", pa.array([["a"]])),
    ("array<int>", pa.array([5])),
    ("map<string, int>", pa.array([[("a", 2**31)]], pa.map_(pa.string(), pa.int64()))),
    ("map<string, int>", pa.array([[{"key": "a", "value": 1}]])),
    ("struct<a: int, b: int>", pa.array([{"a": 1}])),
    ("struct<a: int, b: int>", pa.array([{"a": 1, "b": 2, "c": 3}])),
    ("struct<a: int, b: int>", pa.array([{"a": 1, "b": 2**31}])),
    ("struct<a: int NOT NULL, b: int>", strict_struct([{"a": None, "b": 1}])),
    ("array<struct<a: int NOT NULL, b: int>>", pa.array([[{"a": None, "b": 1}]])),
    ("int NOT NULL", pa.array([1, None])),
    ("int NOT NULL", pa.nulls(1)),
    ("int NOT NULL", pa.array([1, None]).dictionary_encode()),
    ("string", pa.array([b"0123456789abcdef"], pa.uuid())),
]


def test_rows_whose_parts_may_be_null_are_brought_into_a_type_whose_may_not():
    """As Spark reads them, with null structs; where a part is null, it is refused."""
    column = column_of("v", "struct<a: int NOT NULL, b: int>")
    rows = pa.table({"v": strict_struct([None, {"a": 1, "b": None}])})
    found = in_arrow_types(rows.slice(0, 2), [column])
    assert found.schema.field("v").type == arrow_type(column.data_type)
    assert found.to_pylist() == rows.to_pylist()
    with pytest.raises(Misfit):
        in_arrow_types(pa.table({"v": strict_struct([{"a": None, "b": 1}])}), [column])


@pytest.mark.parametrize(
    ("ddl", "array"), REFUSED, ids=[f"{ddl}-{array.type}" for ddl, array in REFUSED]
)
def test_types_and_values_that_would_change_are_refused(ddl, array):
    error = refused(constant(array), target=("k bigint", f"v {ddl}"))
    assert error.key == 7
    assert "v: " in str(error)


def test_a_type_of_another_kind_is_refused_even_without_rows():
    with pytest.raises(ProducerError):
        made(pa.array([], pa.string()), "bigint")


def test_garbage_under_nulls_is_no_value():
    inner = pa.array([2**40, 5, 6])
    structs = pa.StructArray.from_arrays([inner], names=["a"], mask=pa.array([True, False, False]))
    assert made(structs, "struct<a: int>") == [None, {"a": 5}, {"a": 6}]
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 3]), inner, mask=pa.array([True, False]))
    assert made(lists, "array<int>") == [None, [5, 6]]


@pytest.mark.parametrize("column", ["k", "v"])
def test_a_refusal_names_the_source_key_of_the_row_at_fault(column):
    def spoiled(table):
        array = table.column("v").to_numpy().copy()
        array[30] = 2**40
        return unchanged(table).set_column(0 if column == "k" else 1, column, pa.array(array))

    rows = [(None if n == 30 else n, n) for n in range(100)]
    target = ("k int", "v bigint") if column == "k" else ("k bigint", "v int")
    error = refused(spoiled, rows, target=target)
    assert error.key is None
    assert "key None" in str(error)
    rows = [(n, n) for n in range(100)]
    assert refused(spoiled, rows, target=target).key == 30


# Source keys


@pytest.mark.parametrize("stray", [3, None])
def test_a_source_key_that_is_not_in_the_table_is_refused(stray):
    def strays(table):
        sources = pa.array([1, 2, stray, 1])
        return pa.table({"k": [1] * 4, "v": [1] * 4, "_source_k": sources})

    error = refused(strays, [(1, 1), (2, 1)])
    assert (error.key, error.__cause__) == (stray, None)
    assert repr(stray) in str(error)


def test_a_key_of_another_table_is_not_in_this_one():
    def late(table):
        return pa.table({"k": [1], "v": [1], "_source_k": [1]})

    with limited(1):
        error = refused(late, [(1, 1), (2, 1)])
    assert error.key == 1
    assert run(late, [[(1, 1), (2, 1)]]) == [(1, 1, 0, 1)]


@pytest.mark.parametrize("stray", [(1, "b"), (2, "a"), (None, "a"), (1, None)])
def test_a_source_key_of_several_columns_is_one(stray):
    def strays(table):
        a, b = zip((1, "a"), (2, "b"), (None, None), stray, strict=True)
        return pa.table({"k": [1] * 4, "v": [1] * 4, "_source_a": a, "_source_b": b})

    declared = {"source": ("a bigint, b string", "v bigint")}
    rows = [(None, None, 0), (1, "a", 0), (2, "b", 0)]
    error = refused(strays, rows, **declared)
    assert (error.key, error.key.b) == (stray, stray[1])
    output = run(strays, [[*rows, (*stray, 0)]], **declared)
    assert [row[:2] for row in output] == [(1, "a"), (2, "b"), (None, None), stray]


def test_a_stream_names_its_own_key_only():
    def other(batches):
        yield pa.table({"k": [1], "v": [1], "_source_k": [8]})

    assert refused(other, [(7, 1), (8, 1)], streaming=True).key == 8


def test_source_keys_may_come_in_other_types():
    def encoded(table):
        keys = table.column("k").cast(pa.large_string()).dictionary_encode()
        return pa.table({"k": keys, "v": table.column("v"), "_source_k": keys})

    declared = ("k string", "v bigint")
    assert run(encoded, [[("a", 1), ("b", 2)]], source=declared, target=declared) == [
        ("a", "a", 0, 1),
        ("b", "b", 1, 2),
    ]


def test_source_keys_of_another_type_are_refused():
    def floats(table):
        return pa.table({"k": [1], "v": [1], "_source_k": [7.0]})

    error = refused(floats)
    assert error.key == 7
    assert "_source_k" in str(error)


# Columns

SHAPES = {
    "missing": lambda table: table,
    "missing value": lambda table: unchanged(table).drop_columns(["v"]),
    "unknown": lambda table: unchanged(table).append_column("more", table.column("v")),
    "unknown in another case": lambda table: unchanged(table).rename_columns(
        ["k", "V", "_source_k"]
    ),
    "doubled": lambda table: unchanged(table).append_column("v", table.column("v")),
    "no columns": lambda table: pa.table({}),
    "None": lambda table: None,
    "a dict": lambda table: table.to_pydict(),
    "a pandas frame": lambda table: unchanged(table).to_pandas(),
    "a generator": lambda table: (part for part in [unchanged(table)]),
    "a list": lambda table: [unchanged(table)],
    "an array": lambda table: table.column("v"),
    "a schema": lambda table: unchanged(table).schema,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_no_table_of_the_columns_is_refused(shape):
    error = refused(SHAPES[shape])
    assert (error.key, error.__cause__) == (7, None)
    error = refused(SHAPES[shape], [(7, 1), (8, 1)])
    assert (error.key, error.__cause__) == (None, None)
    error = refused(lambda batches: map(SHAPES[shape], batches), [(7, 1)], streaming=True)
    assert (error.key, error.__cause__) == (7, None)


@pytest.mark.parametrize("returned", [None, 5, "ab", {"a": 1}, pa.table({"k": [1]})], ids=repr)
def test_what_is_no_iterable_of_tables_is_refused(returned):
    error = refused(lambda batches: returned, streaming=True)
    assert (error.key, error.__cause__) == (7, None)


# Failures of the function


def failing(error):
    def fail(table):
        raise error

    return fail


def failing_later(error):
    def fail(batches):
        yield unchanged(next(batches))
        raise error

    return fail


@pytest.mark.parametrize("error", [ZeroDivisionError("no"), SystemExit(3), ProducerError("mine")])
def test_an_exception_of_the_function_is_the_cause(error):
    for function, streaming in ((failing(error), False), (failing_later(error), True)):
        caught = refused(function, [(7, 1), (7, 2)], streaming=streaming)
        assert (caught.key, caught.__cause__) == (7, error)
    caught = refused(failing(error), [(7, 1), (8, 2)])
    assert (caught.key, caught.__cause__) == (None, error)
    caught = refused(failing_later(error), [(7, 1), (8, 2)], streaming=True)
    assert (caught.key, caught.__cause__) == (7, error)


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit])
def test_interruptions_pass(error):
    with pytest.raises(error):
        run(failing(error()), [[(7, 1)]])
    with pytest.raises(error):
        run(failing_later(error()), [[(7, 1)]], streaming=True)


@FORMS
def test_a_key_that_python_cannot_read_is_read_by_arrow(function, streaming):
    late = pa.array([10**7], pa.int32()).cast(pa.date32())
    batch = pa.RecordBatch.from_arrays([late, pa.array([1])], names=["0", "1"])
    declared = ("k date", "v bigint")
    stage = stage_of(function, source=declared, target=declared, streaming=streaming)
    (output,) = calls(stage, UTC)(iter([batch]))
    assert output.column("_source_k").equals(late)
    stage = stage_of(failing(OSError()), source=declared, target=declared, streaming=streaming)
    with pytest.raises(ProducerError) as caught:
        list(calls(stage, UTC)(iter([batch])))
    assert caught.value.key == "+29349-01-26"
    assert isinstance(caught.value.__cause__, OSError)
