"""Repeated declarations of stages, in another pipeline."""

from dataclasses import replace
from typing import Any

from deltaproduce import Producer
from deltaproduce.stages.aggregates.kind import Aggregate
from deltaproduce.stages.rekeyed.events.kind import EventsKind, History
from deltaproduce.stages.rekeyed.indexes.columns import IndexColumn
from deltaproduce.stages.rekeyed.indexes.kind import Index
from deltaproduce.types.columns import NO_KEY
from deltaproduce.types.ddl import identifier


def aggregate_arguments(stage: Producer) -> dict[str, Any]:
    """What `Pipeline.aggregate` is to be called with, beside name and feeder, to make a stage."""
    kind, names = stage.kind, stage.feeders[0].schema.names
    assert isinstance(kind, Aggregate)
    parts = [f"{one.text} AS {identifier(name)}" for name, one in kind.key]
    return {
        "key": "" if stage.schema.key == NO_KEY else ", ".join(parts),
        "values": {
            name: replace(
                call,
                arguments=tuple(identifier(a) if a in names else a for a in call.arguments),
            )
            for name, call in kind.values
        },
        "where": None if kind.where is None else kind.where.text,
        "window": kind.window,
    }


def index_arguments(stage: Producer) -> dict[str, Any]:
    """What `Pipeline.index` is to be called with, beside name and feeder, to make a stage."""
    kind = stage.kind
    assert isinstance(kind, Index)
    own = {c.name for c in stage.feeders[0].schema.key}
    included = [c for c in kind.value if c.expression.column != c.name or c.name not in own]
    return {
        "key": ", ".join(map(_listed, kind.key)),
        "include": ", ".join(map(_listed, included)) or None,
    }


def event_arguments(stage: Producer) -> dict[str, Any]:
    """What `Pipeline.latest` or `history` is to be called with, beside name and events."""
    kind = stage.kind
    assert isinstance(kind, EventsKind)
    own = kind.columns
    arguments: dict[str, Any] = {
        name: ", ".join(f"{one.text} AS {identifier(n)}" for n, one in part)
        for name, part in (("key", own.key), ("sequence", own.sequence), ("columns", own.values))
    }
    arguments["deleted"] = None if own.deleted is None else own.deleted.text
    if isinstance(kind, History):
        arguments["track"] = ", ".join(map(identifier, kind.track)) or None
    return arguments


def _listed(column: IndexColumn) -> str:
    if column.expression.column == column.name:
        return column.expression.text + (" desc" if column.descending else "")
    return f"{column.expression.text} AS {identifier(column.name)}"
