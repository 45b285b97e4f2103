"""Tasks on the driver, without Spark: queries, and user functions.

A query is resolved with the names of the scope as constants, and computed over the dependencies of
each task with its values. The invariant: it returns what Spark returns, or is left to Spark.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from deltaproduce.engines.choice import OPEN_IN_SESSION, Engines
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import (
    empty,
    factorize,
    in_order,
    isin_rows,
    places,
)
from deltaproduce.errors import DefinitionError, DeltaProduceError, ProducerError, SessionError
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import Layout
from deltaproduce.shown.tasks import Task, Values
from deltaproduce.stages.partitioned.entries import ExpectedTask
from deltaproduce.stages.partitioned.query import TaskQuery
from deltaproduce.stages.scheduled.kinds import ForeignFunction
from deltaproduce.stages.scheduled.outcomes import Fed
from deltaproduce.stages.sql.operators.computing import Computing, QueryError
from deltaproduce.stages.sql.operators.evaluation import rows_of
from deltaproduce.stages.sql.resolve import Resolved, resolved
from deltaproduce.stages.sql.scopes.tables import table_of
from deltaproduce.times.zones import zone_of
from deltaproduce.types.atoms import Misfit
from deltaproduce.types.columns import ORDINAL
from deltaproduce.types.conversions import conformed
from deltaproduce.types.data_types import DataType
from deltaproduce.types.excerpts import described, shown


def dependencies_of(
    stage: Stage, fed: Fed, rows: Rows | None, entry: ExpectedTask, engines: Engines
) -> pa.Table:
    """Return the rows of a feeder that a task depends on, on the driver."""
    columns = (*stage.schema.key, *stage.schema.value)
    fetched = empty(columns) if rows is None else engines.table(rows, columns)
    if not fed.columns:
        return fetched
    wanted: list[Values] = [values for of, values in entry.dependencies if of == fed.stage]
    names = [name for name, _ in fed.columns]
    keys = table_of(wanted, fed.columns).select(names)
    return fetched.filter(pa.array(isin_rows(fetched.select(names), keys)))


def resolved_for(
    query: TaskQuery, entry: ExpectedTask, feeders: Mapping[str, tuple[Fed, Stage, Rows | None]]
) -> Resolved:
    """Resolve a query with the values of a task's scope.

    Raises:
        SessionError: only Spark computes a part of it.
    """
    schemas = {name: stage.schema for name, (_, stage, _) in feeders.items()}
    try:
        resolved_query = resolved(query.text, schemas, entry.scope)
    except DefinitionError as error:  # what only Spark reads, as PIVOT, or what a view refuses
        raise _needs_spark(f"its query is computed by Spark only: {error}", entry) from None
    if resolved_query.only_in_spark is not None:
        raise _needs_spark(f"{resolved_query.only_in_spark!r} is computed by Spark only", entry)
    return resolved_query


def run_query(
    query: TaskQuery,
    resolved: Resolved,
    entry: ExpectedTask,
    feeders: Mapping[str, tuple[Fed, Stage, Rows | None]],
    engines: Engines,
) -> pa.Table:
    """Run a task's query over its dependencies.

    Args:
        resolved: the query, resolved for a scope that is like the task's (`Resolved.fits`).

    Raises:
        ProducerError: it fails for a row.
    """
    contents = {
        name: dependencies_of(stage, fed, rows, entry, engines)
        for name, (fed, stage, rows) in feeders.items()
    }
    try:
        computed = rows_of(resolved.relation, contents, Computing(engines.time_zone, entry.scope))
    except QueryError as error:
        name = entry.of.stage
        raise ProducerError(f"task {entry.of}: {error}", stage=name, key=entry.values) from error
    columns = [computed.column(one.field.id) for one in resolved.columns]
    return pa.table(columns, names=[name for name, _ in query.outputs])


def _needs_spark(reason: str, entry: ExpectedTask) -> SessionError:
    message = (
        f"task {entry.of}: {reason}; the store was opened without a session; {OPEN_IN_SESSION}"
    )
    return SessionError(message, stage=entry.of.stage)


def called(function: ForeignFunction, rows: pa.Table, task: Task, values: Values) -> pa.Table:
    """Call a user function with a task's rows.

    Raises:
        ProducerError: it failed, or did not return a Table.
    """
    try:
        returned = function(rows, task)
    except Exception as error:
        if isinstance(error, DeltaProduceError):
            raise
        raise ProducerError(
            f"task {task}: its function failed: {described(error)}", stage=task.stage, key=values
        ) from error
    if not isinstance(returned, pa.Table):
        raise ProducerError(
            f"task {task}: its function gave {shown(returned)}; return a pyarrow Table",
            stage=task.stage,
            key=values,
        )
    return returned


def conforming(returned: pa.Table, stage: Stage, entry: ExpectedTask, engines: Engines) -> pa.Table:
    """Return rows that a task made in the columns of the stage's content.

    ``_ordinal`` counts the rows of a key in the order of their values.

    Raises:
        ProducerError: a column is missing, not declared, or of another type.
    """
    layout, partition = Layout.of(stage), dict(entry.of.values)
    wanted = [c.name for c in (*layout.key, *layout.value) if c.name not in partition]
    if sorted(wanted) != sorted(returned.column_names):
        raise ProducerError(
            f"task {entry.of}: it has the columns {', '.join(returned.column_names)}; wanted: "
            f"{', '.join(wanted)}",
            stage=stage.name,
            key=entry.values,
        )
    arrays = dict[str, pa.Array]()
    clock = zone_of(engines.time_zone)
    for column in (*layout.key, *layout.value):
        if column.name in partition:
            one = table_of([entry.values], _types(entry, stage)).column(column.name)
            arrays[column.name] = pa.repeat(one[0], len(returned))
            continue
        try:
            array = returned.column(column.name).combine_chunks()
            arrays[column.name] = conformed(array, column.data_type, clock=clock)
        except Misfit as misfit:
            raise ProducerError(
                f"task {entry.of}: column {column.name!r} does not fit: {misfit}",
                stage=stage.name,
                key=entry.values,
            ) from None
    table = in_order(pa.table(arrays), (*layout.key, *layout.value))
    ordinals = places([factorize(table.column(c.name) for c in layout.key)])
    table = table.append_column(ORDINAL, pa.array(np.asarray(ordinals, np.int64)))
    return table.select([c.name for c in layout.content])


def _types(entry: ExpectedTask, stage: Stage) -> list[tuple[str, DataType]]:
    types = {c.name: c.data_type for c in stage.schema.key}
    return [(name, types[name]) for name, _ in entry.of.values]
