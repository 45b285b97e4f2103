"""Input from users: what fits is taken unchanged, and everything else is reported at once."""

import datetime as dt
from decimal import Decimal
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from arrow_columns import columns, numbers, plain
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaproduce import InvalidChangesError, Pipeline
from deltaproduce.stages.sources.given.formats import table_of

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


def test_a_column_may_have_more_bytes_than_one_array_holds():
    """They stay where they are: of 2.5 GiB nothing is copied."""
    value = pa.array([b"x" * (1 << 26)])
    given = pa.table({"id": range(40), "b": pa.chunked_array([value] * 40)})
    assert given.column("b").nbytes > 1 << 31
    before = pa.total_allocated_bytes()
    found = table_of(given, source("b binary"), UTC, is_snapshot=False)
    assert pa.total_allocated_bytes() - before < 1 << 20
    assert (found.num_rows, found.column("b").nbytes) == (40, given.column("b").nbytes)
    with pytest.raises(InvalidChangesError, match="is not bigint"):
        table_of(given, source("b bigint"), UTC, is_snapshot=False)


def test_rows_that_do_not_fit_are_numbered_through_all_chunks():
    chunks = [[1, 2], [], [3, 1 << 40], [5, -(1 << 40)]]
    given = pa.table({"id": range(6), "n": pa.chunked_array(chunks, pa.int64())})
    error = refused(given, "n", value="n int")
    assert error.keys == (3, 5)
    assert "in rows 3, 5 (from 0)" in str(error)


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
def test_a_time_that_a_clock_has_twice_is_refused_and_one_it_leaves_out_is_moved(year):
    for month in (3, 10):
        for day in range(24, 32):
            time = dt.datetime(year, month, day, 2, 30)
            table = pa.table({"id": [1, 2], "at": [time, dt.datetime(2020, 1, 1)]})
            first, second = (time.replace(tzinfo=BERLIN, fold=n).utcoffset() for n in (0, 1))
            if first <= second:  # 02:30 is 03:30 in the night when clocks go forward
                row, _ = taken(table, value="at timestamp", clock=BERLIN)
                assert row["at"] == time.replace(tzinfo=dt.UTC) - first
            else:
                error = refused(table, "at", value="at timestamp", clock=BERLIN)
                assert error.keys == (1,)
            zoned = table.set_column(1, "at", table.column("at").cast(pa.timestamp("us", "UTC")))
            taken(zoned, value="at timestamp", clock=BERLIN)


def test_a_time_with_a_zone_is_none_without():
    times = pa.array([0], pa.timestamp("us", "Europe/Berlin"))
    refused(pa.table({"id": [1], "at": times}), "at", value="at timestamp_ntz")


# ---- the law: what is taken is what was given


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
