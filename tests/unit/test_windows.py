"""Windows as values: partitions, the place of a window, its moves, and stored forms."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import deltaproduce as dp
from deltaproduce.engines.local.kernels.ranges import are_within
from deltaproduce.engines.spark.kernels.ranges import units_of
from deltaproduce.model import windows
from deltaproduce.model.partitions import Partitioning, Ranges, day_number, day_of
from deltaproduce.model.window_moves import Shift, WindowMove, place_of
from deltaproduce.model.windows import NOWHERE, PlannedWindow, Window
from deltaproduce.storage.figures import (
    RecordedFigures,
    StageFigures,
    figures_from_json,
    figures_to_json,
)
from deltaproduce.storage.window_states import Tracked, WindowState
from deltaproduce.types.columns import key_columns

NUMBERS = st.frozensets(st.integers(-30, 30), max_size=20)
DAYS = st.dates(date(1, 2, 1), date(9999, 11, 30))


def ranges(numbers: frozenset[int]) -> Ranges:
    return Ranges.of_numbers(np.array(sorted(numbers), np.int64))


@given(NUMBERS, NUMBERS)
def test_ranges_are_sets_of_numbers(one: frozenset[int], other: frozenset[int]) -> None:
    left, right = ranges(one), ranges(other)
    assert set(left) == one
    assert len(left) == len(one)
    assert bool(left) == bool(one)
    assert left == Ranges.of((n, n) for n in one)
    assert left.union(right) == ranges(one | other)
    assert left.within(right) == ranges(one & other)
    assert left.difference(right) == ranges(one - other)
    assert left.mapped(lambda n: n // 7) == ranges(frozenset(n // 7 for n in one))
    assert not one or left.greatest == max(one)


@given(DAYS, st.sampled_from(["day", "week", "month"]))
def test_a_day_is_in_the_partition_that_is_called_by_its_first_day(day: date, step: str) -> None:
    firsts = {
        "day": day,
        "week": day - timedelta(days=day.weekday()),
        "month": day.replace(day=1),
    }
    partitions = Partitioning("dates", step)  # type: ignore[arg-type]
    number = partitions.number(day_number(day))
    assert partitions.name(number) == firsts[step]
    assert partitions.number(day_number(firsts[step]) - 1) == number - 1
    (values,) = partitions.values(Ranges(((number, number),))).pairs
    assert day_of(values[0]) == firsts[step]
    assert values[0] <= day_number(day) <= values[1]
    assert partitions.first_unit(number + 1) == values[1] + 1


@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 2**31 - 1))
def test_a_number_is_in_the_partition_from_a_multiple(value: int, step: int) -> None:
    partitions = Partitioning("integers", step)
    number = partitions.number(partitions.unit_of(value))
    assert partitions.name(number) == value - value % step
    (values,) = partitions.values(Ranges(((number, number),))).pairs
    assert values[0] <= value <= values[1] < partitions.name(number) + step


@given(st.lists(st.none() | st.datetimes(), max_size=9), st.dates(), st.integers(0, 60))
def test_moments_are_on_their_days_in_utc(moments: list, first: date, more: int) -> None:
    """Before 1970, too, at midnight and a microsecond before it."""
    column = key_columns("at timestamp").columns[0]
    rows = pa.table({"at": pa.array(moments, pa.timestamp("us", "UTC"))})
    partitions = Partitioning("moments", "day")
    found = [moment.date() for moment in moments if moment is not None]
    assert {day_of(n) for n in units_of(rows, column, partitions)} == set(found)
    last = min(day_number(first) + more, day_number(date.max))
    values = partitions.values(Ranges(((day_number(first), last),)))
    inside = [m is not None and first <= m.date() <= day_of(last) for m in moments]
    assert are_within(rows.column("at"), values).tolist() == inside


def planned(**arguments: object) -> PlannedWindow:
    end = arguments.pop("end", None)  # one before the start is where an edge may be
    window = replace(dp.window("n", **arguments), end=end)  # type: ignore[arg-type]
    return windows.planned(window, key_columns("k string, n int"), stage="s")


@pytest.mark.parametrize(
    ("arguments", "present", "as_of", "where"),
    [
        ({"last": 3}, [(1, 2), (7, 7)], None, (5, 7)),
        ({"last": 3, "lag": 2}, [(1, 2), (7, 7)], None, (3, 5)),
        ({"start": 4}, [(1, 2), (7, 7)], None, (4, 7)),
        ({"start": 8}, [(1, 2), (7, 7)], None, None),
        ({"start": 4, "end": 5}, [], None, (4, 5)),
        ({"last": 2, "end": 5}, [(9, 9)], None, (4, 5)),
        ({"last": 2}, [], None, None),
        ({"last": 2}, [(9, 9)], 5, (8, 9)),  # windows over whole numbers follow no day
    ],
)
def test_where_a_window_is(arguments, present, as_of, where) -> None:
    found = planned(**arguments).place(Ranges(tuple(present)), as_of)
    assert found == (NOWHERE if where is None else Ranges((where,)))


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ({"last": 2}, (date(2013, 3, 12), date(2013, 3, 13))),
        ({"last": 2, "lag": 5}, (date(2013, 3, 12), date(2013, 3, 13))),  # without the lag
        ({"last": 2, "step": "week"}, (date(2013, 3, 4), date(2013, 3, 11))),
        ({"start": "2013-01-31", "step": "month"}, (date(2013, 1, 1), date(2013, 3, 1))),
        ({"last": 1, "end": "2013-02-28"}, (date(2013, 2, 28), date(2013, 2, 28))),
    ],
)
def test_a_day_is_the_edge_of_windows_over_dates(arguments, where) -> None:
    window = windows.planned(dp.window("day", **arguments), key_columns("day date"), stage="s")
    newest = day_number(date(2013, 5, 1))
    place = window.place(Ranges(((newest, newest),)), day_number(date(2013, 3, 13)))
    move = Shift(window, None, NOWHERE, place, NOWHERE).move(reused=False, why="")
    assert (move.first, move.last) == where
    assert place_of(window, move) == place


@given(
    st.sampled_from(["day", "week", "month"]),
    st.sampled_from([date.min, date.max]),
    st.integers(-3, 3),
    st.integers(1, 4),
    st.integers(0, 4),
)
def test_a_window_ends_where_dates_do(step: str, end: date, off: int, last: int, lag: int) -> None:
    """Python has years 1 to 9999, and Spark others too: their partitions have no names."""
    given = dp.window("day", last=last, step=step, lag=lag)  # type: ignore[arg-type]
    window = windows.planned(given, key_columns("day date"), stage="s")
    partitions = window.partitions
    first, newest = (partitions.number(day_number(one)) for one in (date.min, date.max))
    unit = partitions.first_unit(partitions.number(day_number(end)) + off)
    present = window.present(Ranges(((unit, unit),)))
    edge, named = partitions.number(unit), range(first, newest + 1)
    wanted = {n for n in range(edge - lag - last + 1, edge - lag + 1) if n in named}
    place = window.place(present, None)
    assert set(present) == {n for n in (edge,) if n in named}
    assert set(place) == (wanted if present else set())
    move = Shift(window, None, NOWHERE, place, present).move(reused=False, why="")
    assert place_of(window, move) == place


@given(
    st.sampled_from([-(2**63), 2**63 - 1]),
    st.integers(-3, 3),
    st.integers(1, 2_000),
    st.sampled_from([{"last": 1}, {"last": 4, "lag": 2}, {"start": -(2**63)}, {"start": 0}]),
)
def test_a_window_over_numbers_ends_where_they_do(end: int, off: int, step: int, sort: Any) -> None:
    """Numbers have 64 bits, and so do the names of their partitions, which versions store."""
    window, value = planned(step=step, **sort), min(max(end + off, -(2**63)), 2**63 - 1)
    partitions = window.partitions
    unit = partitions.unit_of(value)
    present = window.present(Ranges(((unit, unit),)))
    place = window.place(present, None)
    values = partitions.values(place)
    assert all(-(2**63) <= number < 2**63 for pair in values.pairs for number in pair)
    first, last = (partitions.unit_of(number) for number in (-(2**63), 2**63 - 1))
    edge = unit - sort.get("lag", 0)
    begin = partitions.unit_of(sort["start"]) if "start" in sort else edge - sort["last"] + 1
    wanted = max(begin, first), min(edge, last)
    assert place == (Ranges((wanted,)) if wanted[0] <= wanted[1] else NOWHERE)
    assert place.count == max(wanted[1] - wanted[0] + 1, 0)
    move = Shift(window, None, NOWHERE, place, present).move(reused=False, why="")
    assert place_of(window, move) == place
    figures = {"s": StageFigures("seek", window=move)}
    assert figures_from_json(figures_to_json(figures)) == RecordedFigures(figures)


@given(
    st.frozensets(st.integers(-30, 30), max_size=60),
    st.none() | st.integers(-15, 15),
    st.integers(-15, 15),
    st.sampled_from([{"last": 1}, {"last": 4}, {"last": 9}, {"start": -7}]),
    st.integers(1, 4),
)
@example(frozenset(range(-30, 31)), None, 15, {"last": 9}, 1)  # more than the goal has, before it
@example(frozenset(range(-30, 31)), 15, -15, {"last": 9}, 2)
def test_a_limited_window_comes_to_its_goal(numbers, begin, edge, sort, most) -> None:
    """In no move, the first one included, do more partitions enter, and each goes as far as it can.

    Where it is on its way, it could be by its edge, with all of its partitions.
    """
    window, present = planned(**sort, max_partitions=most), ranges(numbers)
    by_edge = {end: planned(**sort, end=end).place(present, None) for end in range(-50, 50)}
    goal, at = by_edge[edge], NOWHERE if begin is None else by_edge[begin]
    for _ in range(2 * len(numbers) + 2):
        if at == goal:
            break
        then = window.next_place(at, goal, present)
        entering = {e: len(by_edge[e].difference(at).within(present)) for e in by_edge}
        ends = [e for e, place in by_edge.items() if place == then]
        assert ends
        assert entering[ends[0]] <= most
        forwards = not at or edge > at.greatest
        beyond = range(ends[0] + 1, edge + 1) if forwards else range(edge, ends[0])
        assert then == goal or not any(
            entering[e] <= most
            for e in beyond
            if e == edge or (e if forwards else by_edge[e].pairs[0][0]) in numbers
        )
        at = then
    assert at == goal


@given(NUMBERS, NUMBERS, st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 9))
def test_what_enters_and_leaves(had, came, before, after, length) -> None:
    """By each of its partitions, also where the window moves back."""
    has = had | came
    was, is_now = (set(range(end - length + 1, end + 1)) for end in (before, after))
    window = planned(last=length)
    shift = Shift(window, ranges(was), ranges(had), ranges(is_now), ranges(has))
    assert set(shift.entered) == (is_now & has) - (was & had)
    assert set(shift.left) == (was & had) - is_now
    assert set(shift.gains) == is_now - was
    assert set(shift.loses) == was - is_now


def test_what_versions_know_of_windows_is_stored_and_read_back() -> None:
    days = Ranges(((15_779, 15_780), (15_782, 15_782)))
    state = WindowState(15_780, {Tracked("events", "day", "day"): days})
    move = WindowMove(date(2013, 3, 15), date(2013, 3, 16), (date(2013, 3, 16),), (), True, "why")
    numbered = WindowMove(-10, 10, (-10, 0), (20,), False, "")
    figures = {
        "views": StageFigures("seek", window=move),
        "empty": StageFigures("seek", window=WindowMove()),
        "numbers": StageFigures("seek", window=numbered),
        "events": StageFigures("seek"),
    }
    text = figures_to_json(figures, state)
    assert figures_from_json(text) == RecordedFigures(figures, state)
    assert figures_from_json(figures_to_json(figures)) == RecordedFigures(figures)
    assert '"_windows": {"as_of": "2013-03-16", "present": ' in text
    assert '["events", "day", "day", [[15779, 15780], [15782, 15782]]]' in text
    assert '"window": {"first": "2013-03-15", "last": "2013-03-16", "entered": ["2013' in text
    assert "window" not in figures_to_json({"events": StageFigures("seek")})
    timed = replace(state, time=datetime(2013, 3, 16, 12, tzinfo=UTC))
    assert figures_from_json(figures_to_json(figures, timed)) == RecordedFigures(figures, timed)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ('"as_of": "2013-03-16"', '"as_of": "yesterday"'),
        ('"as_of": "2013-03-16"', '"as_of": 5'),
        ("[[1, 2]]", "[[1, 2, 3]]"),
        ("[[1, 2]]", '[["1", 2]]'),
        ("[[1, 2]]", "7"),
        ('"day", [[', "5, [["),
        ('"present"', '"absent"'),
    ],
)
def test_what_no_store_has_written_is_refused(good: str, bad: str) -> None:
    state = WindowState(15_780, {Tracked("events", "day", "day"): Ranges(((1, 2),))})
    text = figures_to_json({}, state)
    assert good in text
    with pytest.raises(dp.CorruptStoreError):
        figures_from_json(text.replace(good, bad))


@pytest.mark.parametrize("bad", ['"first": "x"', '"first": 1.5', '"first": true'])
def test_a_move_that_no_store_has_written_is_refused(bad: str) -> None:
    text = figures_to_json({"views": StageFigures("seek", window=WindowMove(1, 2))})
    assert '"first": 1' in text
    with pytest.raises(dp.CorruptStoreError):
        figures_from_json(text.replace('"first": 1', bad))


WRONG: dict[str, dict[str, object]] = {
    "neither length nor start": {},
    "both": {"last": 2, "start": "2013-01-01"},
    "no length": {"last": 0},
    "a length that is none": {"last": 1.5},
    "a start that is none": {"start": "yesterday"},
    "a start that no value has": {"start": 2**63},
    "an end that no value has": {"last": 2, "end": -(2**63) - 1},
    "a moment": {"start": 1.5},
    "a lag before": {"last": 2, "lag": -1},
    "a lag that is none": {"last": 2, "lag": None},
    "an end and a lag": {"last": 2, "end": 3, "lag": 1},
    "a step that is none": {"last": 2, "step": "year"},
    "no step": {"last": 2, "step": 0},
    "a step of truth": {"last": 2, "step": True},
    "another way": {"last": 2, "on_missing": "ignore"},
    "no column": {"column": "", "last": 2},
    "no partitions": {"last": 2, "max_partitions": 0},
    "a start after its end": {"start": "2013-01-02", "end": "2013-01-01"},
    "a month after its end": {"start": "2013-02-01", "end": "2013-01-31", "step": "month"},
    "a number after its end": {"start": 7, "end": 6},
    "no place": {"last": 2, "zone": "America/Nowhere"},
    "a place that is none": {"last": 2, "zone": 5},
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_window_is_refused(case: str) -> None:
    with pytest.raises(dp.DefinitionError):
        dp.window(**{"column": "day", **WRONG[case]})  # type: ignore[arg-type]


def test_a_start_and_an_end_may_be_in_one_partition_in_any_order() -> None:
    found = dp.window("day", start="2013-01-31", end="2013-01-01", step="month")
    assert (found.start, found.end) == (date(2013, 1, 31), date(2013, 1, 1))
    assert dp.window("n", start=9, end=1, step=10).start == 9


UNFIT: dict[str, object] = {
    "a column that is not there": dp.window("x", last=2),
    "a value column": dp.window("n", last=2),
    "text": dp.window("t", last=2),
    "whole numbers by day": dp.window("id", last=2, step="day"),
    "days by number": dp.window("day", last=2, step=3),
    "a day as start of numbers": dp.window("id", start="2013-01-01"),
    "a number as end of days": dp.window("day", last=2, end=5),
    "no window": "day",
    "dates of a place": dp.window("day", last=2, zone="America/Chicago"),
    "numbers of a place": dp.window("id", last=2, zone="UTC"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_a_window_that_does_not_fit_its_feeder_is_refused(case: str) -> None:
    pipeline = dp.Pipeline("p")
    pipeline.source("events", key="id bigint, day date, t string", value="n int")
    with pytest.raises(dp.DefinitionError) as caught:
        pipeline.aggregate(
            "wrong", "events", key="n", values={"c": dp.agg.count()}, window=UNFIT[case]
        )  # type: ignore[arg-type]
    assert caught.value.stage == "wrong"


def test_a_column_is_named_without_regard_to_case() -> None:
    pipeline = dp.Pipeline("p")
    pipeline.source("events", key="Day date", value="n int")
    values = {"c": dp.agg.count()}
    stage = pipeline.aggregate(
        "w", "events", key="n", values=values, window=dp.window("dAY", last=1)
    )
    assert stage.kind.upkeep.window == Window("Day", last=1)
