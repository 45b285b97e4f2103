"""Equality and order of Arrow columns are Spark's."""

import datetime
import math
import tracemalloc
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaproduce.engines.local.arrays import (
    distinct,
    factorize,
    firsts_of,
    in_order,
    isin_rows,
    matched,
    order_codes,
    sorting,
)
from deltaproduce.engines.spark.frames import fetched
from deltaproduce.types import data_types as t
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import Column

NESTED = pa.struct([("xs", pa.list_(pa.float64())), ("m", pa.map_(pa.string(), pa.int64()))])


@pytest.mark.parametrize(
    ("values", "data_type"),
    [
        ([1, 2, None], pa.int64()),
        (["", "a", "A", "é", None], pa.string()),
        ([b"", b"\x00", b"\xff", None], pa.binary()),
        ([True, False, None], pa.bool_()),
        ([Decimal("1.00"), Decimal("-1.00"), None], pa.decimal128(38, 2)),
        ([datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None], pa.date32()),
        ([-(2**63), 0, 2**63 - 1, None], pa.timestamp("us", tz="UTC")),
        ([0.0, 1.5, math.inf, math.nan, None], pa.float64()),
        ([0.0, 1.5, math.nan, None], pa.float32()),
        ([[], [1], [1, 2], [2, 1], [None], None], pa.list_(pa.int64())),
        ([[[1], []], [[], [1]], [[1]], [None], None], pa.list_(pa.list_(pa.int64()))),
        ([{}, {"a": 1}, {"a": 2}, {"a": 1, "b": 1}, None], pa.map_(pa.string(), pa.int64())),
        (
            [
                {"xs": [1.0], "m": None},
                {"xs": [1.0], "m": []},
                {"xs": None, "m": None},
                {"xs": [math.nan], "m": [("a", 1)]},
                None,
            ],
            NESTED,
        ),
    ],
)
def test_rows_have_the_same_code_if_and_only_if_they_are_equal(values, data_type):
    values = [list(v.items()) if pa.types.is_map(data_type) and v else v for v in values]
    twice = pa.chunked_array(
        [
            pa.array(values, data_type),
            pa.array(values[::-1], data_type)[:-1],
            pa.array([], data_type),
        ]
    )
    found = factorize([twice]).tolist()
    expected = [*range(len(values)), *range(len(values))[:0:-1]]
    assert [found.index(code) for code in found] == [expected.index(n) for n in expected]


def test_a_map_is_the_set_of_its_entries():
    maps = [[("a", 1), ("b", None)], [("b", None), ("a", 1)], [("a", 1)]]
    array = pa.array(maps, pa.map_(pa.string(), pa.int64()))
    assert len(set(factorize([array]))) == 2
    assert len(set(factorize([array.slice(1)]))) == 2


def test_floats_are_equal_as_numbers():
    bits = np.array([0x7FF8000000000000, 0x7FF8000000000001, -0x8000000000000000, 0], np.int64)
    assert factorize([pa.array(bits.view(np.float64))]).tolist() == [1, 1, 0, 0]


def test_rows_of_several_columns():
    rows = pa.table({"a": [1, 1, 2, 2, None], "b": ["x", "y", "x", "x", None]})
    assert len(distinct(rows)) == 4
    keys = pa.table({"k": [2, None], "l": ["x", None]})
    assert isin_rows(rows, keys).tolist() == [False, False, True, True, True]
    assert not isin_rows(rows, keys.slice(0, 0)).any()


@pytest.mark.parametrize(
    "values",
    [
        [1, 2, None],
        ["", "a", None],
        [b"", b"\x00", None],
        [True, False, None],
        [Decimal("1.50"), Decimal("-2.25"), None],
        [datetime.date(1, 1, 1), datetime.date(2024, 2, 29), None],
        [datetime.datetime(2024, 2, 29, 1), datetime.datetime(9999, 12, 31), None],
        [1.5, math.nan, -0.0],
        [[1], [], None],
        [{"a": 1}, {"a": None}, None],
    ],
    ids=lambda values: type(values[0]).__name__,
)
def test_a_row_is_among_those_that_are_equal_to_it(values):
    pairs = [(a, b) for a in values for b in values]
    rows = pa.table({"a": [a for a, _ in pairs], "b": [b for _, b in pairs]})
    for wanted in ([0], [1, 3, 8], []):
        found = isin_rows(rows, rows.take(pa.array(wanted, pa.int64())))
        assert np.flatnonzero(found).tolist() == wanted


@pytest.mark.parametrize("data_type", [pa.int8(), pa.int64(), pa.date32()], ids=str)
@given(
    numbers=st.lists(st.integers(-5, 5) | st.sampled_from([-128, 127]) | st.none()),
    keys=st.lists(st.integers(-6, 6) | st.sampled_from([-127, 127]) | st.none()),
    ordered=st.booleans(),
)
def test_numbers_in_order_and_others_are_found_alike(data_type, numbers, keys, ordered):
    if ordered:
        numbers = sorted(number for number in numbers if number is not None)
    signed = pa.int32() if pa.types.is_date(data_type) else data_type
    rows, wanted = (pa.table({"n": pa.array(n, signed).cast(data_type)}) for n in (numbers, keys))
    assert isin_rows(rows, wanted).tolist() == [number in keys for number in numbers]


def test_equal_values_of_keys_are_sought_once():
    """Each of them has all rows of the value, which is their product where a column is constant."""
    rows = pa.table({"group": np.zeros(100_000, np.int64), "n": np.arange(100_000)})
    keys = pa.table({"group": np.zeros(1_000, np.int64), "n": np.arange(1_000) * 7})
    tracemalloc.start()
    found = isin_rows(rows, keys)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.flatnonzero(found).tolist() == keys["n"].to_pylist()
    assert peak < 100 * len(rows)  # 8 bytes of each pair would be 8,000


_ENDS = [-(2**63), -(2**63) + 1, -2, 0, 5, 2**63 - 2, 2**63 - 1]


@given(numbers=st.lists(st.sampled_from(_ENDS)), keys=st.lists(st.sampled_from(_ENDS)))
def test_numbers_at_the_ends_of_their_type_are_found(numbers, keys):
    rows, wanted = (pa.table({"n": pa.array(n, pa.int64())}) for n in (numbers, keys))
    assert isin_rows(rows, wanted).tolist() == [number in keys for number in numbers]


@pytest.mark.parametrize("descending", [False, True])
def test_nulls_come_first_ascending_and_last_descending(descending):
    texts = ["b", None, "", "B", "é", "z"]
    rows = pa.table({"t": texts, "n": range(6)})
    columns = [Column("t", t.StringType(), descending=descending), Column("n", t.LongType())]
    found = in_order(rows, columns).column("t").to_pylist()
    ascending = [None, "", "B", "b", "z", "é"]
    assert found == (ascending[::-1] if descending else ascending)


class Frame:
    """Rows that cannot be fetched."""

    def __init__(self, *errors):
        self.errors = errors

    def select(self, *_):
        return self

    def toArrow(self):  # noqa: N802 pyspark's name
        """As pyspark: while it handles one error, another comes up."""
        raising = self.errors[0]
        try:
            if self.errors[1:]:
                Frame(*self.errors[1:]).toArrow()
        finally:
            raise raising


def test_ctrl_c_is_one_though_pyspark_says_something_else():
    cancelled = ValueError("Job 7 cancelled")
    with pytest.raises(KeyboardInterrupt) as caught:
        fetched(Frame(cancelled, RuntimeError(), KeyboardInterrupt()), [])
    assert caught.value.__cause__ is cancelled
    with pytest.raises(ValueError, match="cancelled"):
        fetched(Frame(cancelled, RuntimeError()), [])


# ---- rows as single numbers

WIDE = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3) | st.sampled_from([0, 2**31, -(2**62)])


@given(st.lists(st.tuples(WIDE, WIDE, st.integers(0, 2))))
def test_numbers_of_any_range_are_sorted_like_tuples_and_equal_ones_stay_in_order(rows):
    columns = [np.array([row[n] for row in rows], np.int64) for n in range(3)]
    places = range(len(rows))
    assert sorting(columns).tolist() == sorted(places, key=lambda place: rows[place])
    assert sorting(columns[:1]).tolist() == sorted(places, key=lambda place: rows[place][0])
    assert sorting(columns[2:]).tolist() == sorted(places, key=lambda place: rows[place][2])


@pytest.mark.parametrize("bits", [15, 16, 17, 31, 32, 33, 47, 48, 49, 62])
def test_numbers_of_any_number_of_digits_are_sorted_and_equal_ones_stay_in_order(bits):
    some = np.random.default_rng(bits).integers(0, 1 << bits, 500)
    numbers = np.concatenate([some, [0, (1 << bits) - 1, 1 << bits - 1], some[::-1], [0]])
    assert sorting([numbers]).tolist() == np.argsort(numbers, kind="stable").tolist()


@given(st.lists(st.integers(5, 40)), st.booleans())
def test_numbers_that_lie_close_together_are_ranked_and_sorted_like_others(numbers, once):
    numbers = [*dict.fromkeys(numbers)] if once else numbers
    array = np.array(numbers, np.int64)
    assert sorting([array]).tolist() == sorted(range(len(numbers)), key=numbers.__getitem__)
    found = factorize([pa.chunked_array([pa.array(numbers, pa.int64())])])
    ranks = {number: rank for rank, number in enumerate(sorted(set(numbers)))}
    assert found.tolist() == [ranks[number] for number in numbers]
    assert firsts_of(found).tolist() == [numbers.index(number) for number in ranks]


@given(st.lists(st.tuples(WIDE, WIDE)))
def test_rows_of_any_range_have_the_same_number_only_if_they_are_equal(rows):
    arrays = [pa.chunked_array([pa.array([row[n] for row in rows], pa.int64())]) for n in range(2)]
    numbers = factorize(arrays).tolist()
    assert len(set(numbers)) == len(set(rows)) == len(set(zip(numbers, rows, strict=True)))
    assert sorted(set(numbers)) == [*range(len(set(rows)))]
    table = pa.Table.from_arrays(arrays, ["a", "b"])
    once = distinct(table)
    assert list(zip(*once.to_pydict().values(), strict=True)) == list(dict.fromkeys(rows))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    ("values", "data_type"),
    [
        ([3, -1, 2, 3, 0], t.LongType()),
        ([3, -1, None, 3], t.ByteType()),
        ([True, False, True], t.BooleanType()),
        (
            [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(1970, 1, 1)],
            t.DateType(),
        ),
        ([Decimal("1.50"), Decimal("-2.25"), Decimal("0.00")], t.DecimalType(18, 2)),
        ([Decimal("1.50"), Decimal("-9999999999999999999.25")], t.DecimalType(38, 2)),
        (["b", "a", "b", "", "é"], t.StringType()),
        ([b"\xff", b"", b"\x00"], t.BinaryType()),
        ([0.0, None, -0.0, math.nan, -1.5, math.inf, -math.inf, 1e-300], t.DoubleType()),
        ([1.5, math.nan, -1.5, None], t.FloatType()),
    ],
    ids=lambda value: getattr(value, "simpleString", lambda: None)(),
)
def test_numbers_for_values_are_in_their_order(values, data_type, descending):
    column = Column("v", data_type, descending=descending)
    whole = pa.array([values[0], *values, values[-1]], arrow_type(data_type)).slice(1, len(values))
    table = pa.table({"v": pa.chunked_array([whole.slice(0, 2), whole.slice(2)])})
    (numbers,) = order_codes(table, [column])

    def place(n):
        value = values[n]
        if value is None:
            return False, False, 0
        is_nan = isinstance(value, float) and math.isnan(value)
        return True, is_nan, 0 if is_nan else value.encode() if isinstance(value, str) else value

    for a in range(len(values)):
        for b in range(len(values)):
            one, other = (b, a) if descending else (a, b)
            assert (numbers[a] < numbers[b]) == (place(one) < place(other))


KEYS = st.tuples(st.sampled_from([0.0, -0.0, 1.5, math.nan]), st.sampled_from([None, "a", "b"]))


@given(
    st.lists(KEYS, unique_by=lambda key: (str(key[0] + 0.0), key[1])),
    st.randoms(use_true_random=False),
    st.booleans(),
)
def test_rows_are_matched_with_the_equal_key_in_the_same_order_or_another(keys, chance, ordered):
    """As a look-up of each row by itself finds it; also if rows and keys are the same table."""
    rows = keys if ordered else chance.choices([*keys, (2.5, "c")], k=8)
    fields = pa.schema({"d": pa.float64(), "t": pa.string()})
    table, known = (
        pa.table([[key[place] for key in some] for place in (0, 1)], fields)
        for some in (rows, keys)
    )
    places = {(str(d + 0.0), t): place for place, (d, t) in enumerate(keys)}
    wanted = [places.get((str(d + 0.0), t), -1) for d, t in rows]
    assert matched(table, known.rename_columns(["x", "y"])).tolist() == wanted
