"""Explanations: a stage's definition, its state in the head, and its next version.

Uses definitions and figures alone; no rows are read.
"""

from __future__ import annotations

from typing import Any

from deltaproduce.errors import SessionError
from deltaproduce.model.graph import Graph
from deltaproduce.projects.pipelines import in_project
from deltaproduce.store import Store


def explanation(graph: Graph, stage: str, store: Store) -> dict[str, Any]:
    """Return the explanation of a stage, as JSON values.

    Raises:
        NotFoundError: there is no such stage.
        DefinitionError: as for an update.
    """
    of_stage = graph.stage(stage)
    head = store.head
    figures = head.stages.get(stage)
    try:
        planned = {step.stage.name: step for step in store.plan()}.get(stage)
        follows = None if planned is None else f"{planned.how}: {planned.reason}"
    except SessionError as error:
        follows = f"unknown: {in_project(error, None)}"
    readers = [one.name for one in graph.readers_of(stage) if one.hidden is None]
    seen = [column.label for column in of_stage.schema.key if not column.is_hidden]
    return {
        "stage": stage,
        "kind": of_stage.kind.word,
        "key": seen,
        "value": [column.label for column in of_stage.schema.value],
        "made_from": [feeder.name for feeder in of_stage.merged],
        "read_by": readers,
        "version": head.number,
        "figures": None if figures is None else figures.as_dict(),
        "without_new_rows": follows,
        "operators": [one.to_dict() for one in store.explain(stage).operators],
    }
