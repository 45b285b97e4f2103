"""The operators of one row at a time: scans, constants, projections and filters."""

from __future__ import annotations

import pyarrow as pa

from deltaproduce.stages.sql.algebra.relations import Filter, Project, Scan, Values
from deltaproduce.stages.sql.operators.computing import Computing
from deltaproduce.types.atoms import arrow_type


def scanned(scan: Scan, content: pa.Table) -> pa.Table:
    """Return the rows of a stage, by fields."""
    return content.select(list(scan.columns)).rename_columns([field.id for field in scan.fields])


def values(constants: Values, computing: Computing) -> pa.Table:
    """Return rows of constants."""
    one = pa.table({"row": pa.nulls(1, pa.bool_())})
    columns = []
    for place, field in enumerate(constants.fields):
        assert field.data_type is not None
        wanted = arrow_type(field.data_type)
        found = [computing.value(row[place], one, ()) for row in constants.rows]
        columns.append(pa.chunked_array([each.cast(wanted) for each in found], type=wanted))
    return pa.Table.from_arrays(columns, names=[field.id for field in constants.fields])


def projected(project: Project, rows: pa.Table, computing: Computing) -> pa.Table:
    """Return the expressions over each row."""
    fields = project.input.fields
    columns = [computing.value(one.scalar, rows, fields) for one in project.outputs]
    return pa.Table.from_arrays(columns, names=[field.id for field in project.fields])


def filtered(filter_: Filter, rows: pa.Table, computing: Computing) -> pa.Table:
    """Return the rows for which the condition is true."""
    marks = computing.holds(filter_.condition, rows, filter_.input.fields)
    return rows.filter(pa.array(marks))
