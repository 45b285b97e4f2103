"""Analysis: a graph whose columns all have types, found in a session where it does not say them.

Queries have the types that Spark finds, and sources that are read in place those of their tables.
The invariant: what it returns can be planned and carried out; whatever cannot is refused here.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from deltaproduce.model.declarations import check_inputs
from deltaproduce.model.graph import Graph, Source, Stage
from deltaproduce.stages.external.arrivals import resolved
from deltaproduce.stages.queries.running import query_schema
from deltaproduce.storage.tables import Tables


def analysed(graph: Graph, spark: SparkSession, tables: Tables) -> Graph:
    """The graph with the types of all columns; no row is read.

    Raises:
        DefinitionError: Spark refuses a query, a column has a type that cannot be stored, or a
            Delta table is not there or has other columns; with `stage`.
    """
    queries = any(producer.query for producer in graph.producers)
    if not queries and not any(source.is_in_place for source in graph.sources):
        return graph
    made: dict[str, Stage] = {}
    for stage in graph.stages:
        if isinstance(stage, Source):
            made[stage.name] = resolved(stage, tables)
            continue
        inputs = tuple(tuple(made[one.name] for one in merged) for merged in stage.inputs)
        check_inputs(inputs, stage=stage.name)
        found = replace(stage, inputs=inputs)
        if found.query is not None:
            found = replace(found, schema=query_schema(found, found.query, spark))
        made[stage.name] = found
    return Graph(tuple(made.values()))
