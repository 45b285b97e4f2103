"""The operators of one row at a time: scans, constants, projections and filters."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Marks
from deltaproduce.stages.sql.algebra.provenance import bare
from deltaproduce.stages.sql.algebra.relations import Filter, Project, Scan, Values
from deltaproduce.stages.sql.operators.changes.keys import Keys
from deltaproduce.stages.sql.operators.changes.rules import Changes, nothing
from deltaproduce.stages.sql.operators.changes.signed import Signed, without
from deltaproduce.stages.sql.operators.computing import Computing, in_type
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
        columns.append(pa.chunked_array([in_type(each, wanted) for each in found], type=wanted))
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


def unchanged(constants: Values, changes: Changes) -> Signed:
    """Return that constants do not change."""
    return nothing(constants, changes)


def looked_up_values(constants: Values, keys: Keys, changes: Changes) -> pa.Table:
    """Return the constants that have one of the keys."""
    return keys.of_rows(values(constants, changes.computing))


def projected_change(project: Project, changes: Changes) -> Signed:
    """Return the expressions over each row of the change."""
    touched = changes.change(project.input)
    return Signed(projected(project, touched.rows, changes.computing), touched.counts).net()


def looked_up_project(project: Project, keys: Keys, changes: Changes) -> pa.Table:
    """Return the rows before that have one of the keys."""
    rows = changes.before(project.input, keys.named(copies(project)))
    return keys.of_rows(projected(project, rows, changes.computing))


def copies(project: Project) -> dict[str, str]:
    """Return the fields of a projection -> the fields of its input that they copy."""
    found = ((one.field.id, bare(one)) for one in project.outputs)
    return {field: copied for field, copied in found if copied is not None}


def filtered_change(filter_: Filter, changes: Changes) -> Signed:
    """Return the change of the rows for which the condition is true."""
    touched = changes.change(filter_.input)
    return touched.only(
        changes.computing.holds(filter_.condition, touched.rows, filter_.input.fields)
    )


def filtered_anew(filter_: Filter, before: pa.Table, change: Signed, changes: Changes) -> Signed:
    """Return the change of the rows for which a condition is true that names a constant.

    Args:
        before: the rows of its input before.
        change: the change of its input.
    """
    fields, stayed = filter_.input.fields, without(before, change.gone)

    def holds(rows: pa.Table, computing: Computing) -> Marks:
        return computing.holds(filter_.condition, rows, fields)

    was, now = holds(stayed, changes.computing), holds(stayed, changes.after)
    gone, come = change.gone, change.come
    return Signed.united(
        [
            Signed(stayed, now.astype(np.int64) - was).only(was != now),
            -gone.only(holds(gone.rows, changes.computing)),
            come.only(holds(come.rows, changes.after)),
        ]
    ).net()


def looked_up_filter(filter_: Filter, keys: Keys, changes: Changes) -> pa.Table:
    """Return the rows before that have one of the keys."""
    return filtered(filter_, changes.before(filter_.input, keys), changes.computing)
