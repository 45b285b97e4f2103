"""Windows of random aggregates, and the window arguments of updates."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, Final

from hypothesis import strategies as st

from deltaproduce.model.partitions import SORTS
from deltaproduce.model.windows import Window, window
from deltaproduce.pipeline import Pipeline
from deltaproduce.testing.oracle.windows import tracked
from deltaproduce.testing.strategies.typed_values import partitions
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import DataType, DateType, IntegralType, TimestampType

PLACES: Final = ("America/Chicago", "Asia/Kathmandu", "Pacific/Apia", "-09:30")
"""Time zones of windows: before UTC and after it, with and without daylight saving time."""


def may_have_window(column: Column) -> bool:
    """Return whether a key column has partitions."""
    return column.data_type.simpleString() in SORTS


@st.composite
def windows(draw: st.DrawFn, column: Column, *, limited: bool, strict: bool) -> Window:
    """Draw a window over a key column.

    Args:
        draw: given by Hypothesis.
        column: a column that has partitions.
        limited: whether it may have ``max_partitions``.
        strict: whether it may have ``on_missing="error"``.
    """
    near = partitions(column.data_type)
    arguments: dict[str, Any] = {
        "step": draw(st.sampled_from(_steps(column.data_type))),
        "on_missing": "error" if strict and draw(st.integers(0, 3)) == 3 else "skip",
        "max_partitions": draw(st.none() | st.integers(1, 2)) if limited else None,
    }
    match draw(st.sampled_from(["last", "last", "start"])):
        case "last":
            arguments["last"] = draw(st.integers(1, 5))
        case "start":
            arguments["start"] = draw(near)
    match draw(st.sampled_from(["newest", "newest", "lag", "end"])):
        case "lag":
            arguments["lag"] = draw(st.integers(1, 3))
        case "end" if "start" in arguments:
            arguments["start"], arguments["end"] = sorted([arguments["start"], draw(near)])
        case "end":
            arguments["end"] = draw(near)
    if isinstance(column.data_type, TimestampType) and draw(st.booleans()):
        arguments["zone"] = draw(st.sampled_from(PLACES))
    return window(column.name, **arguments)


@st.composite
def window_arguments(draw: st.DrawFn, pipeline: Pipeline) -> dict[str, Any]:
    """What an update says of windows: ``as_of`` and ``partitions``, as its arguments.

    Often it says nothing, as it must if the pipeline has no window.

    Args:
        draw: given by Hypothesis.
        pipeline: the pipeline whose windows are meant.
    """
    options: dict[str, Any] = {}
    columns = partitioned(pipeline)
    if not any(stage.kind.upkeep.window for stage in pipeline.stages):
        return options
    what = draw(st.sampled_from(["nothing", "nothing", "the day", "partitions", "both"]))
    if what in ("the day", "both"):
        days = partitions(DateType())
        options["as_of"] = draw(st.none() | days | days.map(_as_text))
    if what in ("partitions", "both") and columns:
        source = draw(st.sampled_from(sorted(columns)))
        named = {
            column: draw(_partitions(data_type)) for column, data_type in columns[source].items()
        }
        bare = len(named) == 1 and draw(st.booleans())
        options["partitions"] = {source: next(iter(named.values())) if bare else named}
    return options


def partitioned(pipeline: Pipeline) -> Mapping[str, Mapping[str, DataType]]:
    """The columns of each source that windows are over, also those of stages downstream."""
    graph = pipeline.graph()
    sources = {source.name: source.schema for source in graph.sources}
    columns: dict[str, dict[str, DataType]] = {}
    for stage, column, *_ in sorted(tracked(graph), key=str):
        if stage in sources:
            schema = sources[stage]
            (data_type,) = (c.data_type for c in (*schema.key, *schema.value) if c.name == column)
            columns.setdefault(stage, {})[column] = data_type
    return columns


def _steps(data_type: DataType) -> list[Any]:
    return [None, 1, 5] if isinstance(data_type, IntegralType) else [None, "day", "week", "month"]


def _partitions(data_type: DataType) -> st.SearchStrategy[list[Any]]:
    """Draw some partitions, dates also as text; sometimes as many as windows may need."""
    near = partitions(data_type)
    named = near if isinstance(data_type, IntegralType) else near | near.map(_as_text)
    return st.lists(named, max_size=3) | st.lists(near, min_size=25, max_size=25)


def _as_text(day: date) -> str:
    return day.isoformat()
