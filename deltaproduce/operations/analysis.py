"""Analysis: finds the types of all columns; a session supplies those that the graph omits.

A stage's kind finds the types (`StageKind.resolved`): Spark gives those of a query, and a source
that is read in place has those of its table. The invariant: the returned graph can be planned and
carried out; anything else is refused here.
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
    """Return the graph with the types of all columns; read no row.

    Raises:
        DefinitionError: Spark refuses a query, a column has a type that cannot be stored, a Delta
            table does not exist or has other columns, or content cannot be stored as a definition
            says; with `stage`.
    """
    made: dict[str, Stage] = {}
    for stage in graph.stages:
        made[stage.name] = _resolved(stage, made, tables)
    return Graph(tuple(made.values()))


def refused(graph: Graph, tables: Tables) -> list[DefinitionError]:
    """Return the error of each refused stage whose feeders are all accepted; read no row."""
    made, errors = dict[str, Stage](), list[DefinitionError]()
    for stage in graph.stages:
        if all(one.name in made for one in (*stage.feeders, *stage.auxiliary)):
            try:
                made[stage.name] = _resolved(stage, made, tables)
            except DefinitionError as error:
                errors.append(error)
    return errors


def _resolved(stage: Stage, made: Mapping[str, Stage], tables: Tables) -> Stage:
    """Return a stage with the types of its columns.

    Args:
        made: the stages before it, with their types.
    """
    inputs = tuple(tuple(made[one.name] for one in merged) for merged in stage.inputs)
    fed = stage.fed_by(inputs, tuple(made[one.name] for one in stage.auxiliary))
    check_stage(fed)
    found = stage_kind(fed).resolved(fed, tables)
    check_stored(found)
    return found
