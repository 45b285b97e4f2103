"""Analysis: a graph whose columns all have types, found in a session where it does not say them.

A stage's kind finds them (`StageKind.resolved`): queries have the types that Spark finds, sources
that are read in place those of their tables. The invariant: what it returns can be planned and
carried out; whatever cannot is refused here.
"""

from __future__ import annotations

from collections.abc import Mapping

from deltaproduce.described.content import check_stored
from deltaproduce.errors import DefinitionError
from deltaproduce.model.declarations import check_stage
from deltaproduce.model.graph import Graph, Stage
from deltaproduce.stages.kind import stage_kind
from deltaproduce.storage.tables import Tables


def analysed(graph: Graph, tables: Tables) -> Graph:
    """The graph with the types of all columns; no row is read.

    Raises:
        DefinitionError: Spark refuses a query, a column has a type that cannot be stored, or a
            Delta table is not there or has other columns, or content cannot be stored as a
            definition says; with `stage`.
    """
    made: dict[str, Stage] = {}
    for stage in graph.stages:
        made[stage.name] = _resolved(stage, made, tables)
    return Graph(tuple(made.values()))


def refused(graph: Graph, tables: Tables) -> list[DefinitionError]:
    """Why stages are refused, each that reads none such; no row is read."""
    made, errors = dict[str, Stage](), list[DefinitionError]()
    for stage in graph.stages:
        if all(one.name in made for one in (*stage.feeders, *stage.auxiliary)):
            try:
                made[stage.name] = _resolved(stage, made, tables)
            except DefinitionError as error:
                errors.append(error)
    return errors


def _resolved(stage: Stage, made: Mapping[str, Stage], tables: Tables) -> Stage:
    """A stage with the types of its columns.

    Args:
        made: those before it, with theirs.
    """
    inputs = tuple(tuple(made[one.name] for one in merged) for merged in stage.inputs)
    fed = stage.fed_by(inputs, tuple(made[one.name] for one in stage.auxiliary))
    check_stage(fed)
    found = stage_kind(fed).resolved(fed, tables)
    check_stored(found)
    return found
