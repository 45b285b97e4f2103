"""Comparisons of a stage with another table find the differences that are there, and no others."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaproduce.sync.comparing import matching
from deltaproduce.sync.comparing import tables as comparing
from deltaproduce.sync.comparing.forms import common_form
from deltaproduce.sync.comparing.results import ComparedTable
from deltaproduce.sync.comparing.tables import OtherColumn, OtherTable, StageRows, compared
from deltaproduce.sync.comparing.tolerance import are_close

NOISE = 1e-13
"""By how much floats differ that are the same."""


class InMemory(OtherTable):
    """A table that is read a few rows at a time."""

    def __init__(self, rows: pa.Table, part: int = 3) -> None:
        self.rows, self.part = rows, part

    @property
    def columns(self) -> Mapping[str, OtherColumn]:
        return {field.name: OtherColumn(field.type, str(field.type)) for field in self.rows.schema}

    def parts(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        for first in range(0, len(self.rows), self.part):
            yield self.rows.select(columns).slice(first, self.part)


def compare(
    here: pa.Table, there: pa.Table, key: Sequence[str] = (), tolerance: float = 1e-9
) -> ComparedTable:
    types = {field.name: str(field.type) for field in here.schema}
    rows = StageRows("stage", here, key, types)
    return compared(rows, InMemory(there), "table", tolerance=tolerance, sample=10)


# One value in three types: the stage's, and two that another database may have.

INSTANT = pa.timestamp("us", "UTC")
SORTS: dict[str, tuple[tuple[pa.DataType, ...], st.SearchStrategy]] = {
    "whole": ((pa.int64(), pa.int32(), pa.decimal128(38, 0)), st.integers(-3, 3)),
    "decimal": (
        (pa.decimal128(12, 2), pa.decimal128(18, 5), pa.decimal256(50, 3)),
        st.integers(-300, 300).map(lambda cents: Decimal(cents).scaleb(-2)),
    ),
    "double": (
        (pa.float64(), pa.float64(), pa.float64()),
        st.one_of(st.integers(-50, 50).map(lambda n: n / 7), st.sampled_from([math.inf, math.nan])),
    ),
    "text": ((pa.string(), pa.large_string(), pa.string()), st.sampled_from(["", "a", "é\n"])),
    "flag": ((pa.bool_(), pa.bool_(), pa.bool_()), st.booleans()),
    "day": ((pa.date32(), pa.date64(), pa.timestamp("us")), st.dates(date(1960, 1, 1))),
    "moment": (
        (INSTANT, pa.timestamp("us"), pa.timestamp("ns", "America/New_York")),
        st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)),
    ),
    "bytes": ((pa.binary(), pa.large_binary(), pa.binary()), st.sampled_from([b"", b"\0", b"ab"])),
    "list": (
        (pa.list_(pa.int64()), pa.large_list(pa.int32()), pa.list_(pa.int16())),
        st.lists(st.none() | st.integers(0, 2), max_size=3),
    ),
    "struct": (
        (
            pa.struct({"a": pa.int64(), "b": pa.list_(pa.float64())}),
            pa.struct({"a": pa.int8(), "b": pa.list_(pa.float64())}),
            pa.struct({"a": pa.decimal128(20, 0), "b": pa.large_list(pa.float64())}),
        ),
        st.fixed_dictionaries(
            {
                "a": st.none() | st.integers(0, 1),
                "b": st.none() | st.lists(st.sampled_from([0.5, 1 / 3, math.nan]), max_size=2),
            }
        ),
    ),
}


def with_noise(value: Any, noise: float) -> Any:
    """A value as another engine computes it: floats differ in their last digits."""
    match value:
        case float():
            return value * (1 + noise)
        case dict():
            return {name: with_noise(part, noise) for name, part in value.items()}
        case list():
            return [with_noise(part, noise) for part in value]
    return value


def column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values of Python in a type, also where Arrow does not convert them itself."""
    if pa.types.is_timestamp(kind):
        moments = [
            value
            if value is None or isinstance(value, datetime)
            else datetime(*value.timetuple()[:3])
            for value in values
        ]
        return (
            pa.array(moments, pa.timestamp("us"))
            .view(pa.int64())
            .view(pa.timestamp("us"))
            .cast(pa.timestamp(kind.unit))
            .view(pa.int64())
            .view(kind)
        )
    return pa.array(values, kind)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    """Rows of two sides, and what differs between them."""
    names = draw(st.lists(st.sampled_from(sorted(SORTS)), min_size=1, max_size=4, unique=True))
    value = st.tuples(*(st.none() | SORTS[name][1] for name in names))
    common = draw(st.lists(value, max_size=12))
    return {
        "names": names,
        "there": common + draw(st.lists(value, max_size=3)),
        "here": draw(st.permutations(common + draw(st.lists(value, max_size=3)))),
        "types": [draw(st.integers(0, 2)) for _ in names],
        "noise": draw(st.sampled_from([0.0, NOISE])),
    }


def said(row: Sequence[Any]) -> str:
    """A row as text that is equal for equal rows, NaN among them."""
    return repr(tuple(row))


@given(cases())
def test_rows_are_matched_as_multisets(case: dict[str, Any]) -> None:
    """Of random rows, those are equal that a Counter says are, whatever the types and the noise."""
    names = case["names"]
    there, here = Counter(map(said, case["there"])), Counter(map(said, case["here"]))
    sides = []
    for side, noise in ("here", 0.0), ("there", case["noise"]):
        kinds = [
            SORTS[name][0][0 if side == "here" else place]
            for name, place in zip(names, case["types"], strict=True)
        ]
        values = [[with_noise(row[at], noise) for row in case[side]] for at in range(len(names))]
        sides.append(pa.table([*map(column, values, kinds)], names))
    result = compare(*sides)
    assert not [one for one in result.columns if not one.is_compared], result
    assert (result.rows_there, result.rows_here) == (there.total(), here.total())
    assert result.equal == (there & here).total()
    assert (result.only_there, result.only_here) == ((there - here).total(), (here - there).total())
    assert not result.changed
    assert result.differs == (there != here)
    assert len(result.sample) == min(10, result.only_there + result.only_here)


@given(
    st.dictionaries(st.integers(0, 30), st.floats(1, 100), min_size=1),
    st.lists(st.tuples(st.sampled_from("xcd"), st.integers(0, 40))),
)
def test_changed_rows_are_found_by_key(
    rows: dict[int, float], plants: list[tuple[str, int]]
) -> None:
    """Each planted change, missing row and extra row is reported under its key, and no other."""
    mine, wanted = dict(rows), dict[int, str]()
    for plant, key in plants:
        if key in wanted or (plant == "x") == (key in rows):
            continue
        wanted[key] = {"x": "only_here", "c": "changed", "d": "only_there"}[plant]
        if plant == "d":
            del mine[key]
        else:
            mine[key] = mine.get(key, 1.0) + 1000
    there = pa.table({"ID": [*rows], "v": [value * (1 + NOISE) for value in rows.values()]})
    here = pa.table(
        {"id": pa.array([*mine], pa.int64()), "v": pa.array([*mine.values()], pa.float64())}
    )
    result = compared(
        StageRows("s", here, ["id"], {"id": "bigint", "v": "double"}),
        InMemory(there),
        "t",
        tolerance=1e-9,
        sample=1000,
    )
    assert {row.key["id"]: row.sort for row in result.sample} == wanted
    counts = Counter(wanted.values())
    assert (result.changed, result.only_there, result.only_here) == (
        *(counts[sort] for sort in ("changed", "only_there", "only_here")),
    )
    assert result.equal == len(rows) - counts["changed"] - counts["only_there"]
    for row in result.sample:
        if row.sort == "changed":
            assert {*row.there} == {*row.here} == {"v"}


@pytest.mark.parametrize(
    ("one", "other", "tolerance", "equal"),
    [
        ([1.0], [1.0 + 5e-10], 1e-9, True),
        ([1.0], [1.0 + 2e-9], 1e-9, False),
        ([1.0], [1.0 + 2e-9], 0, False),
        ([0.0], [-0.0], 0, True),
        ([0.0], [1e-300], 1e-9, False),
        ([math.nan, math.inf], [math.inf, math.nan], 0, True),
        ([math.inf], [-math.inf], 1e-9, False),
        ([math.nan], [None], 1e-9, False),
        ([1e18, 1e18 * (1 + 1e-12), 5.0], [5.0, 1e18 * (1 + 2e-12), 1e18], 1e-9, True),
    ],
)
def test_floats_are_equal_within_the_tolerance(
    one: list[Any], other: list[Any], tolerance: float, equal: bool
) -> None:
    here, there = (pa.table({"v": pa.array(side, pa.float64())}) for side in (one, other))
    assert compare(here, there, tolerance=tolerance).differs is not equal


def test_floats_of_32_bits_are_compared_as_such() -> None:
    values = np.random.default_rng(7).random(1000) * 100
    here = pa.table({"v": pa.array(values)})
    there = pa.table({"v": pa.array(values.astype(np.float32))})
    assert not compare(here, there).differs
    assert compare(here, pa.table({"v": pa.array((values * 1.001).astype(np.float32))})).differs


def test_floats_beside_a_step_of_the_grid_are_equal_in_groups_of_any_size() -> None:
    """Groups have several rows a side, and not equally many: each row takes one that is close."""
    edges = np.repeat(2.0 ** np.arange(1, 9), 4)
    one = {"g": [1] * 32, "v": edges * (1 + NOISE)}
    other = {"g": [1] * 33, "v": np.append(edges * (1 - NOISE), 777.0)}
    result = compare(pa.table(one), pa.table(other))
    assert (result.equal, result.only_there, result.only_here) == (32, 1, 0)


def test_columns_are_compared_by_name_and_those_that_are_not_are_listed() -> None:
    here = pa.table({"a": [1], "b": ["x"], "mine": [1]})
    there = pa.table({"theirs": [date(2026, 1, 1)], "B": [5], "A": pa.array([1.0])})
    result = compare(here, there)
    assert {one.name: (one.there, one.here, one.is_compared) for one in result.columns} == {
        "a": ("double", "int64", True),
        "b": ("int64", "string", False),
        "mine": (None, "int64", False),
        "theirs": ("date32[day]", None, False),
    }
    assert (result.equal, result.differs) == (1, True)


def test_tables_without_a_common_column_and_empty_ones() -> None:
    one, other = pa.table({"a": [1]}), pa.table({"b": [1]})
    assert "no column in common" in compare(one, other).problem
    empty = compare(one.slice(1), one.slice(1), ["a"])
    assert (empty.rows_there, empty.rows_here, empty.differs) == (0, 0, False)
    assert compare(one.slice(1), one, ["a"]).only_there == 1


def test_a_value_that_no_form_holds_is_a_problem_of_its_table() -> None:
    far = pa.table({"t": pa.array([2**62], pa.timestamp("s"))})
    near = pa.table({"t": pa.array([datetime(2026, 1, 1)], pa.timestamp("us"))})
    result = compare(near, far)
    assert "one form" in result.problem
    assert result.differs


def test_times_with_a_zone_are_the_instants_of_times_without() -> None:
    east = timezone(timedelta(hours=2))
    here = pa.table({"t": pa.array([datetime(2026, 1, 1, 10, tzinfo=UTC)], INSTANT)})
    there = pa.table(
        {"t": pa.array([datetime(2026, 1, 1, 12, tzinfo=east)], pa.timestamp("us", "+02:00"))}
    )
    assert not compare(here, there).differs
    assert compare(here, pa.table({"t": [datetime(2026, 1, 1, 12)]})).differs


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.string(), pa.int64()),
        (pa.bool_(), pa.int64()),
        (pa.time64("us"), pa.string()),
        (pa.list_(pa.int64()), pa.list_(pa.string())),
        (pa.struct({"a": pa.int64()}), pa.struct({"b": pa.int64()})),
        (pa.list_(pa.int64()), pa.int64()),
    ],
)
def test_types_without_a_common_form(one: pa.DataType, other: pa.DataType) -> None:
    assert common_form(one, other) is None
    assert common_form(other, one) is None


def test_rows_are_read_in_parts_and_only_twice_if_they_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(comparing, "PART_ROWS", 7)
    reads = []

    class Counting(InMemory):
        def parts(self, columns: Sequence[str]) -> Iterator[pa.Table]:
            reads.append(1)
            yield from super().parts(columns)

    rows = pa.table({"id": range(100), "v": [n % 9 for n in range(100)]})
    stage = StageRows("s", rows, ["id"], {"id": "bigint", "v": "bigint"})
    assert not compared(stage, Counting(rows), "t", tolerance=0, sample=1).differs
    assert len(reads) == 1
    result = compared(stage, Counting(rows.slice(1)), "t", tolerance=0, sample=1)
    assert (len(reads), result.only_here, result.equal) == (3, 1, 99)


def test_digits_behind_the_point_count_however_many_are_declared() -> None:
    one = pa.table({"v": pa.array([Decimal("1.00")], pa.decimal128(5, 2))})
    other = pa.table({"v": pa.array([Decimal("1.005")], pa.decimal128(5, 3))})
    assert compare(one, other).differs
    assert compare(other, one).differs
    assert not compare(one, other.set_column(0, "v", pa.array([1]))).differs


def test_rows_of_one_key_change_one_by_one() -> None:
    """A key may have several rows: as many change as both sides have, the rest is alone."""
    here = pa.table({"k": [1, 1, 2], "v": ["a", "b", "x"]})
    there = pa.table({"k": [1, 1, 1, 2], "v": ["c", "d", "e", "x"]})
    result = compare(here, there, ["k"])
    counts = (result.equal, result.changed, result.only_there, result.only_here)
    assert counts == (1, 2, 1, 0)


def test_rows_that_all_differ_cost_no_comparison_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only rows that may be close are compared, in a group without a key of any size."""
    calls = []

    def counted(*given: Any) -> Any:
        calls.append(1)
        return are_close(*given)

    monkeypatch.setattr(matching, "are_close", counted)
    values = np.random.default_rng(5).random(20_000)
    columns = {"g": np.ones(20_000), "h": np.arange(20_000) % 3 + 0.5, "v": values}
    here, there = pa.table(columns), pa.table(columns | {"v": values * 1.1})
    result = compare(here, there)
    assert (result.equal, result.only_here) == (0, 20_000)
    assert len(calls) < 200
