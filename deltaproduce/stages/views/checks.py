"""Checks as stages: a view in a hidden stage, whose rows are those that break the check.

It follows changes as any view does. Nobody reads its history, so it has no updates.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from deltaproduce.errors import DefinitionError
from deltaproduce.model.graph import Producer, Stage
from deltaproduce.model.hidden import CHECK, Hidden, hidden_name
from deltaproduce.stages.sql.algebra.provenance import copied
from deltaproduce.stages.views.kind import View


def kept_of(name: str, query: str, stages: Iterable[Stage]) -> Producer:
    """Return the hidden stage of a check.

    Args:
        name: the name of the check.
        query: selects the rows that break it.
        stages: those that it may read.

    Raises:
        DefinitionError: the query is refused, or reads no stage; with `stage`, the check's name.
    """
    known = {stage.name: stage for stage in stages if not stage.kind.intake.all_columns}
    schemas = {one: stage.schema for one, stage in known.items()}
    kind = replace(View.defined(query, None, schemas, stage=name), has_updates=False)
    feeders = kind.over(schemas).feeders
    if not feeders:
        message = f"check {name!r} reads no stage; write a SELECT over stages"
        raise DefinitionError(message, stage=name)
    inputs = tuple((known[feeder],) for feeder in feeders)
    schema = kind.schema(schemas, stage=name)
    return Producer(
        hidden_name(CHECK, 1, name), inputs, schema, kind, hidden=Hidden(CHECK, (name,))
    )


def keys_in(kept: Producer) -> dict[str, dict[str, str]]:
    """Return the stages whose whole key the rows of a check have: each key column -> the check's.

    Args:
        kept: the hidden stage of the check.
    """
    assert isinstance(kept.kind, View)
    schemas = {stage.name: stage.schema for stage in kept.merged}
    query = kept.kind.over(schemas)
    origins, columns = copied(query.relation), dict[tuple[str, int], dict[str, str]]()
    for name, field in query.fields.items():
        if field in origins:
            scan, column = origins[field]
            columns.setdefault((scan.feeder, id(scan)), {}).setdefault(column, name)
    return {
        stage: {key: known[key] for key in schemas[stage].key.names}
        for (stage, _), known in columns.items()
        if {*schemas[stage].key.names} <= known.keys()
    }
