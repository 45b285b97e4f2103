"""Definitions of latest and history, and the states that events become."""

from __future__ import annotations

import random
from itertools import permutations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import deltaproduce as dp
from deltaproduce.stages.rekeyed.events.states import KeyStates
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import (
    ArrayType,
    DoubleType,
    LongType,
    MapType,
    StringType,
)

VALUE = "id bigint, at timestamp, op string, name string, tags array<string>"


def shop() -> tuple[dp.Pipeline, dp.Source]:
    pipeline = dp.Pipeline("shop")
    return pipeline, pipeline.source("events", key="event bigint", value=VALUE)


def test_columns_are_all_but_the_key() -> None:
    """The events' own key is one of them; a history has its validity behind them."""
    pipeline, events = shop()
    latest = pipeline.latest("now", events, key="ID", sequence="At", deleted="op = 'D'")
    assert latest.schema.key.ddl == "id bigint"
    assert latest.schema.value.names == ("event", "at", "op", "name", "tags")
    past = pipeline.history("past", "events", key="id", sequence="at", columns="name")
    assert past.schema.value.ddl == "name string, valid_from timestamp, valid_to timestamp"
    both = pipeline.history("both", "events", key="id", sequence="at, event", columns="name")
    assert both.schema.value.columns[1].data_type == both.schema.value.columns[2].data_type
    kind = both.schema.value.columns[1].data_type.simpleString()
    assert kind == "struct<at:timestamp,event:bigint>"


def test_tracked_are_columns_that_say_something_of_the_key() -> None:
    """Not the events' key, nor the sequence, nor what the condition of a delete reads."""
    pipeline, events = shop()
    arguments: dict[str, Any] = {"key": "id", "sequence": "at", "deleted": "upper(op) = 'D'"}
    past = pipeline.history("past", events, **arguments)
    assert past.kind.tracked == ("name", "tags")
    named = pipeline.history("named", events, **arguments, track="OP, name, op")
    assert named.kind.tracked == ("op", "name")
    other = pipeline.history("other", events, **arguments, columns="at AS since, lower(op) AS o")
    assert other.kind.tracked == ("o",)


@pytest.mark.parametrize(
    ("arguments", "column"),
    [
        ({"key": "nothing", "sequence": "at"}, None),
        ({"key": "", "sequence": "at"}, None),
        ({"key": "lower(name)", "sequence": "at"}, None),
        ({"key": "tags", "sequence": "at"}, "tags"),
        ({"key": "id", "sequence": "tags"}, "tags"),
        ({"key": "id", "sequence": ""}, None),
        ({"key": "id", "sequence": "at", "deleted": "op"}, None),
        ({"key": "id", "sequence": "at", "deleted": ""}, None),
        ({"key": "id", "sequence": "at", "deleted": "rand() > 0.5"}, None),
        ({"key": "id", "sequence": "at", "columns": "id, name"}, "id"),
        ({"key": "id", "sequence": "at", "columns": "nothing"}, None),
        ({"key": "id", "sequence": "at", "columns": ["name"]}, None),
        ({"key": "id", "sequence": "at", "track": "nothing"}, "nothing"),
        ({"key": "id", "sequence": "at", "track": "name desc"}, None),
        ({"key": "id", "sequence": "at", "columns": "name AS valid_from"}, "valid_from"),
        ({"key": "id", "sequence": "at", "columns": "name AS _name"}, "_name"),
    ],
)
def test_wrong_definitions_are_refused(arguments: dict[str, Any], column: str | None) -> None:
    """With the stage, and the column if one is at fault; nothing is defined."""
    pipeline, events = shop()
    with pytest.raises(dp.DefinitionError) as caught:
        pipeline.history("past", events, **arguments)
    assert caught.value.stage == "past"
    assert caught.value.column == column
    assert len(pipeline.stages) == 1


def test_events_are_a_stage_of_the_pipeline() -> None:
    """With columns that are known: a table whose values are not named has none."""
    pipeline, _ = shop()
    other, _ = shop()
    table = pipeline.delta_source("table", table="a/b", key="event bigint")
    for events in ("nothing", other.stages[0], dp.merge("events"), table):
        with pytest.raises(dp.DefinitionError):
            pipeline.latest("now", events, key="event", sequence="event")  # type: ignore[arg-type]
    with pytest.raises(dp.DefinitionError):
        pipeline.latest("EVENTS", "events", key="id", sequence="at")
    assert pipeline.latest("event_s", "events", key="id", sequence="at").kind.word == "latest"


def test_stages_share_what_finds_events_of_one_key_whatever_it_is_called() -> None:
    """And do not share it for another key, or for other events."""
    pipeline, events = shop()
    more = pipeline.source("more", key="event bigint", value=VALUE)
    for name, key, of in (
        ("a", "id", events),
        ("b", "Id AS customer", events),
        ("c", "id, name", events),
        ("d", "id", more),
        ("e", "event AS number", events),
    ):
        pipeline.latest(name, of, key=key, sequence="at")
    hidden = [one.hidden for one in pipeline.graph().stages if one.hidden is not None]
    assert [one.owners for one in hidden] == [("a", "b"), ("c",), ("d",)]


EVERY = (
    Column("key", StringType()),
    Column("at", DoubleType()),
    Column("n", LongType()),
    Column("list", ArrayType(LongType())),
    Column("map", MapType(StringType(), LongType())),
    Column("d", DoubleType()),
)
ROWS: list[tuple[Any, ...]] = [
    (key, at, n, list_, map_, d)
    for key in (None, "a")
    for at in (0.0, -0.0, float("nan"))
    for n in (None, 1)
    for list_ in (None, [], [1], [1, None], [2])
    for map_ in ([("a", 1)], [("b", 1)])
    for d in (0.0, -0.0)
]
"""Events of two keys at two times: a zero is one time, whatever its sign."""


def states(rows: list[tuple[Any, ...]]) -> KeyStates:
    kinds = {
        "key": pa.string(),
        "at": pa.float64(),
        "n": pa.int64(),
        "list": pa.list_(pa.int64()),
        "map": pa.map_(pa.string(), pa.int64()),
        "d": pa.float64(),
    }
    schema = pa.schema([*kinds.items()])
    by_name = [dict(zip(kinds, row, strict=True)) for row in rows]
    events = pa.Table.from_pylist(by_name, schema=schema)
    return KeyStates.of(events, ["key"], EVERY[1:2], EVERY, None)


def test_of_equal_events_the_greatest_by_all_columns_is_shown_in_any_order() -> None:
    """Nulls are least, lists are in their order, and a zero's sign tells equal ones apart."""
    chance, found = random.Random(3), set[str]()
    for _ in range(20):
        rows = ROWS.copy()
        chance.shuffle(rows)
        shown = states(rows)
        assert shown.ties == len(ROWS) - 4
        assert np.array_equal(np.unique(shown.keys), [0, 1])
        found.add(repr(sorted(map(repr, shown.rows.to_pylist()))))
    assert len(found) == 1
    (text,) = found
    assert text.count("'n': 1") == text.count("'list': [2]") == text.count("'d': 0.0") == 4


def test_spans_of_all_orders_of_states() -> None:
    """Four states, of which two adjacent ones are equal, and a delete ends the third."""
    events = [(1, "a", False), (2, "b", False), (3, "b", False), (4, "b", True), (5, "b", False)]
    for order in permutations(events):
        at, name, gone = (list(values) for values in zip(*order, strict=True))
        rows = pa.table({"key": [7] * 5, "at": at, "name": name, "gone": gone})
        every = (Column("at", LongType()), Column("name", StringType()))
        of_key = KeyStates.of(rows, ["key"], every[:1], every, "gone")
        spans = of_key.spans(["name"])
        times = of_key.rows.column("at").to_pylist()
        assert [times[n] for n in spans.begins] == [1, 2, 5]
        assert [times[n] for n in spans.lasts] == [1, 3, 5]
        assert [None if n < 0 else times[n] for n in spans.nexts] == [2, 4, None]
        assert spans.numbers.tolist() == [0, 1, 2]
        assert of_key.latest().tolist() == [4]


def test_nothing_has_no_states() -> None:
    """Of no events there are no states, spans or ties."""
    none = states([])
    spans = none.spans(["n"])
    assert (none.ties, len(none.latest()), len(spans.begins), len(spans.nexts)) == (0, 0, 0, 0)
