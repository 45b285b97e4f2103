"""What people give: whatever fits is taken as it is, and all that does not is told at once."""

import datetime as dt
from contextlib import suppress
from decimal import Decimal
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaproduce import InvalidChangesError, Pipeline
from deltaproduce.given import table_of

UTC, BERLIN = dt.UTC, ZoneInfo("Europe/Berlin")


def source(value="n int, t string", key="id bigint"):
    return Pipeline("p").source("orders", key=key, value=value)


def taken(changes, value="n int, t string", key="id bigint", clock=UTC, is_snapshot=False):
    return table_of(changes, source(value, key), clock, is_snapshot=is_snapshot).to_pylist()


def refused(changes, *columns, **more):
    with pytest.raises(InvalidChangesError) as caught:
        taken(changes, **more)
    error = caught.value
    assert error.source == "orders"
    assert error.columns == columns
    assert error.column == (columns[0] if columns else None)
    return error


def outcome(changes, value):
    """The rows that are taken, or the error."""
    try:
        return taken(changes, value=value)
    except InvalidChangesError as error:
        return error


# ---- forms

ROWS = [
    {"id": 1, "n": 10, "t": "a"},
    {"id": 2, "n": None, "t": None},
    {"id": None, "n": 3, "t": ""},
]
TABLE = pa.Table.from_pylist(ROWS)


class Speaking:
    """Something else that speaks Arrow."""

    def __init__(self, spoken, word):
        setattr(type(self), word, lambda self, requested=None: getattr(spoken, word)(requested))


FORMS = {
    "table": lambda: TABLE,
    "chunked table": lambda: pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1, 0), TABLE[1:]]),
    "batch": lambda: TABLE.to_batches()[0],
    "reader": lambda: TABLE.to_reader(),
    "list": lambda: ROWS,
    "tuple": lambda: tuple(ROWS),
    "polars": lambda: pl.DataFrame(ROWS),
    "polars, sorted and cut": lambda: pl.DataFrame([*ROWS, *ROWS]).slice(3, 3),
    "pandas": lambda: pd.DataFrame(ROWS),
    "pandas with an index": lambda: pd.DataFrame(ROWS, index=["x", "y", "z"]),
    "pandas with a named index": lambda: pd.DataFrame(ROWS).set_index(
        pd.Index([7, 8, 9], name="k")
    ),
    "pandas of its own types": lambda: pd.DataFrame(ROWS).convert_dtypes(),
    "pandas of Arrow types": lambda: TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    "duckdb": lambda: duckdb.from_arrow(TABLE),
    "a stream": lambda: type("Stream", (Speaking,), {})(TABLE, "__arrow_c_stream__"),
    "an array": lambda: type("Array", (Speaking,), {})(TABLE.to_batches()[0], "__arrow_c_array__"),
    "dictionaries": lambda: TABLE.set_column(2, "t", TABLE.column("t").dictionary_encode()),
}


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_are_the_same_rows(form):
    assert taken(FORMS[form]()) == ROWS


@pytest.mark.parametrize("form", FORMS)
def test_columns_are_found_by_name_whatever_its_case(form):
    assert taken(FORMS[form](), key="ID bigint", value="T string, N bigint") == [
        {"ID": row["id"], "T": row["t"], "N": row["n"]} for row in ROWS
    ]


@pytest.mark.parametrize("empty", [[], (), TABLE.slice(0, 0), pl.DataFrame(ROWS)[:0]], ids=repr)
def test_no_rows_are_rows(empty):
    assert taken(empty) == []


def test_an_empty_frame_of_pandas_has_no_types():
    assert taken(pd.DataFrame(columns=["id", "n", "t"])) == []


@pytest.mark.parametrize(
    "other",
    [
        *(
            None,
            5,
            "abc",
            b"abc",
            object(),
            {"id": [1]},
            {},
            (row for row in ROWS),
            TABLE.column(0),
        ),
        *(pl.DataFrame(ROWS).lazy(), pl.DataFrame, pd.Series([1]), np.zeros(3), iter(ROWS)),
        *([1], [(1, 10, "a")], [[1]], [None], [ROWS], ["a"], [*ROWS, None]),
        [{"n": 1, "N": 1}],
        pd.DataFrame({"id": [1, "a"]}),
        pl.DataFrame({"id": pl.Series([1], dtype=pl.Int128)}),
    ],
    ids=lambda other: type(other).__name__,
)
def test_other_things_are_refused(other):
    refused(other)


def test_a_reader_is_read_once():
    reader = TABLE.to_reader()
    assert taken(reader) == ROWS
    refused(reader)  # and is not taken for a snapshot without rows


def test_text_that_is_none_is_refused():
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], "i4")), pa.py_buffer(b"\xff")]
    )
    refused(pa.table({"id": [1], "n": [1], "t": broken}))


# ---- all that is wrong, at once


def test_all_columns_are_told():
    wrong = pa.table({"ID": ["1", "2"], "more": [1, 2], "n": [1, 2**31], "Other": [1, 2]})
    error = refused(wrong, "t", "more", "Other", "id", "n")
    for name in error.columns:
        assert f"column {name!r}" in str(error)
    twice = pa.table([[1], [1], ["a"], ["b"]], names=["id", "n", "t", "T"])
    refused(twice, "T")


def test_rows_that_do_not_fit_are_named_by_key():
    numbers = [1, 2**31, 3, -(2**31) - 1]
    error = refused(pa.table({"id": [10, 11, 12, 13], "n": numbers, "t": list("abcd")}), "n")
    assert error.keys == (11, 13)
    many = pa.table({"id": range(100), "n": [2**40] * 100, "t": ["a"] * 100})
    assert refused(many, "n").keys == tuple(range(10))
    keys = pl.DataFrame({"id": [1, 2], "k": ["a", "b"], "n": [2**40, 1], "t": ["", ""]})
    assert refused(keys, "n", key="id int, k string").keys == ((1, "a"),)


def test_rows_of_a_list_are_numbered():
    error = refused([{"id": 1}, {"id": 2, "n": "2", "N2": 1}, {"id": 3, "n": 2.0}], "N2", "n")
    assert "rows 1, 2 " in str(error)
    assert "row 1," in str(error)
    refused([{"id": 1}, {"n": 1}], "id")
    refused([{}], "id")
    assert taken([{"id": None}]) == [{"id": None, "n": None, "t": None}]


def test_a_list_says_which_rows_are_deletes():
    changes = [{"id": 1, "n": 1}, {"id": 2, "_Change_Type": "delete"}]
    assert [row["_change_type"] for row in taken(changes)] == ["upsert", "delete"]
    refused(changes, "_change_type", is_snapshot=True)
    ordered = [{"id": 1, "_ordinal": 5}, {"id": 1, "_ordinal": np.int16(4)}]
    assert [row["_ordinal"] for row in taken(ordered)] == [5, 4]
    refused([{"id": 1, "_ordinal": "5"}], "_ordinal")
    refused([{"id": 1, "_change_type": 5}], "_change_type")


@pytest.mark.parametrize(
    ("value", "declared"),
    [
        *(("1", "int"), (1.0, "int"), (True, "int"), (2**31, "int"), (2**63, "bigint")),
        *(("2020-01-01", "date"), (dt.datetime(2020, 1, 1), "date"), (1.5, "decimal(5,2)")),
        *((Decimal("1.234"), "decimal(5,2)"), (1000, "decimal(5,2)"), (b"a", "string")),
        *((dt.datetime(2020, 1, 1, tzinfo=UTC), "timestamp_ntz"), ("x", "binary"), (1, "boolean")),
        *(("\ud800", "string"), ([1, "a"], "array<int>"), ({"a": 1}, "array<int>")),
        ({"b": 1}, "struct<a:int>"),
    ],
)
def test_values_of_a_list_that_do_not_fit(value, declared):
    refused([{"id": 1, "v": value}], "v", value=f"v {declared}")


# ---- pandas


def test_whole_numbers_with_nulls_and_dates_have_no_types_in_pandas():
    frame = pd.DataFrame(
        {"id": [1.0, None], "n": [2.0, np.nan], "d": pd.to_datetime(["2020-01-02", None])}
    )
    assert taken(frame, value="n int, d date") == [
        {"id": 1, "n": 2, "d": dt.date(2020, 1, 2)},
        {"id": None, "n": None, "d": None},
    ]
    error = refused(frame.assign(n=[1.5, None]), "n", value="n int, d date")
    assert "astype('Int64')" in str(error)
    refused(frame.assign(id=[2.0**53, None]), "id", value="n int, d date")  # maybe another one
    refused(frame.assign(n=[np.inf, 1]), "n", value="n int, d date")
    at_noon = frame.assign(d=pd.to_datetime(["2020-01-02 12:00", None]))
    refused(at_noon, "d", value="n int, d date")
    for others in (pl.from_pandas(frame[["id", "n"]]), pa.Table.from_pandas(frame[["id", "n"]])):
        refused(others, "id", "n", value="n int")


def test_what_pandas_misses_is_null():
    frame = pd.DataFrame({"id": [1, 2], "t": ["a", np.nan], "f": [True, None], "x": [np.nan, 1.5]})
    assert taken(frame, value="t string, f boolean, x double") == [
        {"id": 1, "t": "a", "f": True, "x": None},
        {"id": 2, "t": None, "f": None, "x": 1.5},
    ]


# ---- clocks


def test_times_without_a_zone_are_on_the_session_s_clock():
    noon = dt.datetime(2025, 7, 1, 12)
    for form in (pa.table, pl.DataFrame, pd.DataFrame, lambda columns: [{"id": 1, "at": noon}]):
        for time in (noon, dt.datetime(2045, 7, 1, 12)):
            if form in (pa.table, pl.DataFrame, pd.DataFrame) or time == noon:
                (row,) = taken(form({"id": [1], "at": [time]}), value="at timestamp", clock=BERLIN)
                assert row["at"] == time.replace(tzinfo=BERLIN)


@pytest.mark.parametrize("year", [2025, 2045])
def test_a_time_that_a_clock_has_twice_or_never_is_refused(year):
    for month in (3, 10):
        for day in range(24, 32):
            time = dt.datetime(year, month, day, 2, 30)
            table = pa.table({"id": [1, 2], "at": [time, dt.datetime(2020, 1, 1)]})
            offsets = {time.replace(tzinfo=BERLIN, fold=fold).utcoffset() for fold in (0, 1)}
            if len(offsets) == 1:
                taken(table, value="at timestamp", clock=BERLIN)
            else:
                error = refused(table, "at", value="at timestamp", clock=BERLIN)
                assert error.keys == (1,)
            zoned = table.set_column(1, "at", table.column("at").cast(pa.timestamp("us", "UTC")))
            taken(zoned, value="at timestamp", clock=BERLIN)


def test_a_time_with_a_zone_is_none_without():
    times = pa.array([0], pa.timestamp("us", "Europe/Berlin"))
    refused(pa.table({"id": [1], "at": times}), "at", value="at timestamp_ntz")


# ---- the law: what is taken is what was given

NUMBERS = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()),
    *(pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.decimal32(7, 2)),
    *(pa.decimal64(12, 3), pa.decimal128(20, 0), pa.decimal128(38, 20), pa.decimal256(50, 10)),
]
TEXTS = [
    *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()),
    *(pa.binary_view(), pa.binary(2), pa.dictionary(pa.int8(), pa.string())),
    pa.dictionary(pa.uint32(), pa.large_string()),
]
TIMES = [
    *(pa.date32(), pa.date64(), pa.time64("us"), pa.duration("us")),
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")),
    pa.timestamp("us", "Asia/Kolkata"),
]
FAMILIES = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), NUMBERS),
    **dict.fromkeys(("decimal(5,2)", "decimal(38,10)", "double", "float"), NUMBERS),
    **dict.fromkeys(("string", "binary"), TEXTS),
    **dict.fromkeys(("date", "timestamp", "timestamp_ntz"), TIMES),
    "boolean": [pa.bool_(), pa.null()],
}
"""Declared types, and the Arrow types some of which they take."""
ANY = [*NUMBERS, *TEXTS, *TIMES, pa.bool_(), pa.null()]
small = st.integers(-130, 260) | st.integers(-(2**31) - 1, 2**32) | st.integers(-(2**63), 2**64)
numbers = small | st.floats(width=16) | st.floats() | small.map(float)
decimals = st.decimals(-10_000, 10_000, places=2) | st.integers(-(10**6), 10**6).map(Decimal)
moments = st.datetimes(dt.datetime(1800, 1, 1), dt.datetime(2200, 1, 1)) | st.dates(
    dt.date(1800, 1, 1), dt.date(2200, 1, 1)
).map(lambda date: dt.datetime(date.year, date.month, date.day))


@st.composite
def arrow_arrays(draw, types):
    """Arrays of Arrow types, or of lists or structs of them, of values that they can hold."""
    arrow = draw(st.sampled_from(types))
    if pa.types.is_null(arrow):
        return pa.nulls(draw(st.integers(0, 3)))
    if arrow in NUMBERS:
        values = decimals if pa.types.is_decimal(arrow) else numbers
    elif arrow in TEXTS:
        values = st.text(max_size=2) if "string" in str(arrow) else st.binary(max_size=2)
    else:
        values = st.booleans() if arrow == pa.bool_() else moments
    array = pa.array([], arrow)
    few = st.integers(0, 100) if values is numbers else values
    found = draw(st.lists(st.none() | few) | st.lists(st.none() | values, max_size=5))
    for value in found:
        try:
            if pa.types.is_integer(arrow) and value is not None:
                value = int(value)
            array = pa.concat_arrays([array, pa.array([value], arrow)])
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            continue
    wrap = draw(st.sampled_from(["plain", "plain", "list", "large_list", "struct", "dictionary"]))
    match wrap:
        case "list" | "large_list":
            kind = pa.list_(array.type) if wrap == "list" else pa.large_list(array.type)
            return pa.array([[value] for value in array.to_pylist()], kind)
        case "struct" if not pa.types.is_dictionary(array.type):
            return pa.StructArray.from_arrays([array], ["a"])
        case "dictionary" if not pa.types.is_dictionary(array.type):
            with suppress(pa.ArrowNotImplementedError):  # of small decimals
                return array.dictionary_encode()
    return array


def plain(value):
    """A value as Python compares it, whatever type it was in."""
    match value:
        case list():
            return [plain(part) for part in value]
        case dict():
            return {name: plain(part) for name, part in value.items()}
        case bool() | None:
            return value
        case float() if value != value:
            return "NaN"
        case int() | float() | Decimal():
            return Decimal(value)
        case pd.Timestamp():
            value = value.to_pydatetime(warn=False)
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=value.tzinfo or UTC).astimezone(UTC)
    return value


@st.composite
def columns(draw):
    """An array, and a declared type that it may fit."""
    name = draw(st.sampled_from(list(FAMILIES)))
    array = draw(arrow_arrays(draw(st.sampled_from([FAMILIES[name]] * 4 + [ANY]))))
    if pa.types.is_struct(array.type):
        return array, f"struct<a:{name}>"
    nested = pa.types.is_list(array.type) or pa.types.is_large_list(array.type)
    return array, f"array<{name}>" if nested else name


@settings(max_examples=400)
@given(column=columns())
def test_what_is_taken_is_what_was_given(column):
    array, declared = column
    table = pa.table({"id": range(len(array)), "v": array})
    found = outcome(table, f"v {declared}")
    if isinstance(found, InvalidChangesError):
        assert (found.source, found.column, found.columns) == ("orders", "v", ("v",))
        return
    assert [plain(row["v"]) for row in found] == [plain(value) for value in array.to_pylist()]
    again = table_of(table, source(f"v {declared}"), UTC, is_snapshot=False)
    assert table_of(again, source(f"v {declared}"), UTC, is_snapshot=False).equals(again)


@given(
    rows=st.lists(st.fixed_dictionaries({"id": st.integers(0, 9), "v": st.none() | numbers})),
    declared=st.sampled_from(["int", "bigint", "double", "decimal(20,0)"]),
)
def test_a_list_is_taken_as_it_is_or_not(rows, declared):
    found = outcome(rows, f"v {declared}")
    if isinstance(found, InvalidChangesError):
        assert found.columns == ("v",)
        return
    assert [plain(row["v"]) for row in found] == [plain(row["v"]) for row in rows]
