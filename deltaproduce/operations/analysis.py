"""Analysis: a graph whose columns all have types, found in a session where it does not say them.

A stage's kind finds them (`StageKind.resolved`): queries have the types that Spark finds, sources
that are read in place those of their tables. The invariant: what it returns can be planned and
carried out; whatever cannot is refused here.
"""

from __future__ import annotations

from deltaproduce.model.declarations import check_stage
from deltaproduce.model.graph import Graph, Stage
from deltaproduce.stages.kind import stage_kind
from deltaproduce.storage.tables import Tables


def analysed(graph: Graph, tables: Tables) -> Graph:
    """The graph with the types of all columns; no row is read.

    Raises:
        DefinitionError: Spark refuses a query, a column has a type that cannot be stored, or a
            Delta table is not there or has other columns; with `stage`.
    """
    made: dict[str, Stage] = {}
    for stage in graph.stages:
        inputs = tuple(tuple(made[one.name] for one in merged) for merged in stage.inputs)
        fed = stage.fed_by(inputs, tuple(made[one.name] for one in stage.auxiliary))
        check_stage(fed)
        made[stage.name] = stage_kind(fed).resolved(fed, tables)
    return Graph(tuple(made.values()))
