"""The partitions that a source keeps, and what is refused for sources that forget."""

from datetime import date
from itertools import product

import pytest
from own_aggregates import Least

import deltaproduce as dp
from deltaproduce import agg
from deltaproduce.model.partitions import Ranges, day_number
from deltaproduce.model.retention import first_kept, outreaches
from deltaproduce.model.windows import planned
from deltaproduce.storage.window_states import (
    Floor,
    Tracked,
    WindowState,
    state_from_json,
    state_to_json,
)
from deltaproduce.types.columns import Columns, row_schema

DAYS = row_schema("day date", "n int", stage="s").key
NUMBERS = row_schema("day bigint", "n int", stage="s").key


def edges(key: Columns) -> range:
    """Days around a February, or numbers on both sides of 0."""
    return range(15_000, 15_100) if key is DAYS else range(-30, 31)


@pytest.mark.parametrize(
    ("key", "steps"), [(DAYS, ("day", "week", "month")), (NUMBERS, (1, 3, 10))]
)
def test_a_window_that_is_taken_never_needs_what_is_not_kept(key, steps):
    """Whatever the newest partition and the day; and of equal steps, no more are refused."""
    for step, kept_step, last, kept, lag, kept_lag in product(
        steps, steps, (1, 2, 9), (1, 2, 5, 12), (0, 2), (0, 1)
    ):
        window = dp.window("day", last=last, step=step, lag=lag)
        retain = dp.window("day", last=kept, step=kept_step, lag=kept_lag)
        ours, theirs = planned(retain, key, stage="s"), planned(window, key, stage="s")
        told = outreaches(window, retain, key, stage="s")
        needs = False
        for newest, as_of in product(edges(key), (None, 15_050) if key is DAYS else (None,)):
            firsts = []
            for found in (theirs, ours):
                number = found.partitions.number(
                    newest // found.partitions.unit_size if key is NUMBERS else newest
                )
                firsts.append(first_kept(found, Ranges(((number, number),)), as_of))
            needs |= firsts[0] < firsts[1]
        assert told or not needs, (window, retain)
        if step == kept_step:
            assert told == needs, (window, retain)


@pytest.mark.parametrize(
    ("window", "retain", "told"),
    [
        ({"start": "2013-01-01"}, {"last": 900}, True),
        ({"start": "2013-01-01"}, {"start": "2013-01-01"}, False),
        ({"start": "2013-01-01"}, {"start": "2013-01-02"}, True),
        ({"last": 900}, {"start": "2013-01-02"}, False),
        ({"last": 3, "end": "2013-02-03"}, {"last": 900}, True),
        ({"last": 3, "end": "2013-02-03"}, {"start": "2013-02-01"}, False),
        ({"last": 3, "end": "2013-02-03"}, {"start": "2013-02-02"}, True),
        ({"last": 3, "end": "2013-02-03"}, {"last": 3, "end": "2013-02-03"}, False),
        ({"last": 3, "max_partitions": 1}, {"last": 900}, True),
    ],
)
def test_windows_that_do_not_move(window, retain, told):
    found = outreaches(dp.window("day", **window), dp.window("day", **retain), DAYS, stage="s")
    assert found is told


@pytest.mark.parametrize(
    ("retain", "as_of", "first"),
    [
        ({"last": 3}, None, date(2013, 3, 8)),
        ({"last": 3}, date(2013, 3, 2), date(2013, 2, 28)),
        ({"last": 3, "lag": 1}, None, date(2013, 3, 7)),
        ({"last": 2, "step": "month"}, None, date(2013, 2, 1)),
        ({"last": 2, "step": "week"}, None, date(2013, 2, 25)),
        ({"start": "2014-01-05"}, None, date(2014, 1, 5)),
        ({"last": 3, "end": "2013-01-05"}, None, date(2013, 1, 3)),
    ],
)
def test_the_first_value_that_is_kept(retain, as_of, first):
    window = planned(dp.window("day", **retain), DAYS, stage="s")
    newest = window.partitions.number(day_number(date(2013, 3, 10)))
    day = None if as_of is None else day_number(as_of)
    assert first_kept(window, Ranges(((newest, newest),)), day) == day_number(first)
    fixed = "start" in retain or "end" in retain
    assert (first_kept(window, Ranges(), None) is not None) == fixed


def test_a_retention_may_reach_back_to_before_the_first_date():
    window = planned(dp.window("day", last=2**31 - 1, step="month"), DAYS, stage="s")
    assert first_kept(window, Ranges(((0, 0),)), None) == day_number(date.min)


def test_since_when_sources_keep_rows_is_stored_as_json():
    floor = Floor("day", 15_000, "[]", True)
    state = WindowState(None, {Tracked("s", "day", "day"): Ranges(((1, 2),))}, {"s": floor})
    told = state_to_json(state)
    assert told["floors"] == [["s", "day", 15_000, "[]", True]]
    assert state_from_json(told) == state
    assert "floors" not in state_to_json(WindowState())
    for wrong in (1, [1], [["s", "day", 1, "[]"]], [["s", "day", "1", "[]", True]]):
        assert state_from_json({**told, "floors": wrong}) is None


def shop(**given):
    pipeline = dp.Pipeline("shop")
    columns = {"key": "day date, seq bigint, name string", "value": "n int"}
    return pipeline, pipeline.source("events", **columns, **given)


@pytest.mark.parametrize(
    "given",
    [
        {"expire": "forget"},
        {"expire": "drop", "retain": dp.window("day", last=2)},
        {"retain": dp.window("n", last=2)},
        {"retain": dp.window("name", last=2)},
        {"retain": dp.window("day", last=2, step=3)},
        {"retain": dp.window("seq", start="2013-01-01")},
        {"retain": dp.window("day", last=2, max_partitions=2)},
        {"retain": dp.window("day", last=2, on_missing="error")},
        {"retain": 30},
    ],
)
def test_what_no_source_keeps(given):
    with pytest.raises(dp.DefinitionError) as caught:
        shop(**given)
    assert caught.value.stage == "events"


SKETCHES = {
    "people": agg.approx_count_distinct("n"),
    "middle": agg.approx_percentile("n", 0.5),
    "own": agg.own(Least(2), "name"),
}


@pytest.mark.parametrize("key", ["day", "Day AS at", "n, `day`, name"])
@pytest.mark.parametrize("window", [None, dp.window("day", last=30)])
def test_a_roll_up_by_partition_may_be_of_what_is_not_subtracted(key, window):
    """Its keys are of one partition each, so what makes one again is there while it may change."""
    pipeline, events = shop(retain=dp.window("day", last=30), expire="forget")
    values = SKETCHES if window is None else {"rows": agg.count()}
    by_day = pipeline.aggregate("by_day", events, key=key, values=values, window=window)
    merged = {name: agg.merge(name) for name in values}
    pipeline.aggregate("all", by_day, key="", values=merged)


@pytest.mark.parametrize("call", SKETCHES)
@pytest.mark.parametrize(
    "given",
    [
        {"key": "name"},
        {"key": "year(day) AS day"},
        {"key": "date_add(day, 1) AS day"},
        {"key": "day", "merged": True},
        {"key": "seq", "window": dp.window("day", start="2013-01-01")},
    ],
)
def test_another_is_refused_as_it_may_need_forgotten_rows(call, given):
    pipeline, events = shop(retain=dp.window("day", last=30), expire="forget")
    other = pipeline.source("other", key=events.schema.key.ddl, value="n int")
    given = dict(given)
    feeder = dp.merge(other, events) if given.pop("merged", False) else events
    with pytest.raises(dp.DefinitionError) as caught:
        pipeline.aggregate("a", feeder, values={"value": SKETCHES[call]}, **given)
    assert caught.value.stage == "a"


def test_what_would_need_forgotten_rows_is_refused():
    retain = dp.window("day", last=30)
    pipeline, events = shop(retain=retain, expire="forget")
    other = pipeline.source("other", key=events.schema.key.ddl, value="n int")
    columns = {"key": "n int", "value": "m int"}
    values = {"n": agg.count(), "least": agg.min("n")}

    def function(key, *values):
        yield 1, 1

    refused = [
        lambda: pipeline.producer(events, other, **columns, name="a")(function),
        lambda: pipeline.producer(dp.merge(other, events), **columns, name="a")(function),
        lambda: pipeline.sql(
            "a",
            "SELECT e.day, e.n + o.n AS n FROM events e JOIN other o USING (day, seq, name)",
            key="day",
        ),
        *(
            lambda window=window: pipeline.aggregate(
                "a", events, key="n", values=values, window=window
            )
            for window in (
                dp.window("day", last=31),
                dp.window("day", last=30, lag=1),
                dp.window("seq", last=1),
                dp.window("day", start="2013-01-01"),
            )
        ),
    ]
    for call in refused:
        with pytest.raises(dp.DefinitionError) as caught:
            call()
        assert caught.value.stage == "a"
    pipeline.aggregate("b", events, key="day", values=values, window=dp.window("day", last=30))
    named = pipeline.source("named", key="at date, s bigint, name string", value="n int")
    pipeline.aggregate(
        "g", dp.merge(named, events), key="at", values=values, window=dp.window("at", last=30)
    )
    pipeline.aggregate("c", dp.merge(events, other), key="day", values=values)
    pipeline.producer(events, **columns, name="d")(function)
    pipeline.sql("e", "SELECT day, n FROM events", key="day")
    pipeline.aggregate(
        "f",
        "c",
        key="",
        values=values | {"least": agg.sum("n")},
        window=dp.window("day", start="2013-01-01"),
    )
    pipeline, events = shop(retain=retain)
    pipeline.aggregate("b", events, key="day", values=values, window=dp.window("day", last=31))
