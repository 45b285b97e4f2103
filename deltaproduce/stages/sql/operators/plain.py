"""The operators of one row at a time: scans, constants, projections and filters."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Marks
from deltaproduce.stages.sql.algebra.provenance import bare
from deltaproduce.stages.sql.algebra.relations import Filter, ProjectRelation, Scan, Values
from deltaproduce.stages.sql.operators.changes.keys import LookupKeys
from deltaproduce.stages.sql.operators.changes.rules import RelationChanges, nothing
from deltaproduce.stages.sql.operators.changes.signed import Signed, bag_difference
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
        arrays = [computing.value(row[place], one, ()) for row in constants.rows]
        columns.append(pa.chunked_array([in_type(each, wanted) for each in arrays], type=wanted))
    return pa.Table.from_arrays(columns, names=[field.id for field in constants.fields])


def projected(project: ProjectRelation, rows: pa.Table, computing: Computing) -> pa.Table:
    """Return the expressions over each row."""
    fields = project.input.fields
    columns = [computing.value(one.scalar, rows, fields) for one in project.outputs]
    return pa.Table.from_arrays(columns, names=[field.id for field in project.fields])


def filtered(filter_: Filter, rows: pa.Table, computing: Computing) -> pa.Table:
    """Return the rows for which the condition is true."""
    marks = computing.holds(filter_.condition, rows, filter_.input.fields)
    return rows.filter(pa.array(marks))


def unchanged(constants: Values, changes: RelationChanges) -> Signed:
    """Return that constants do not change."""
    return nothing(constants, changes)


def looked_up_values(constants: Values, keys: LookupKeys, changes: RelationChanges) -> pa.Table:
    """Return the constants that have one of the keys."""
    return keys.of_rows(values(constants, changes.computing))


def projected_change(project: ProjectRelation, changes: RelationChanges) -> Signed:
    """Return the expressions over each row of the change."""
    touched = changes.change(project.input)
    if not len(touched):
        return nothing(project, changes)
    return Signed(projected(project, touched.rows, changes.computing), touched.counts).net()


def looked_up_project(
    project: ProjectRelation, keys: LookupKeys, changes: RelationChanges
) -> pa.Table:
    """Return the rows before that have one of the keys."""
    rows = changes.before(project.input, keys.named(copies(project)))
    return keys.of_rows(projected(project, rows, changes.computing))


def copies(project: ProjectRelation) -> dict[str, str]:
    """Return the fields of a projection -> the fields of its input that they copy."""
    pairs = ((one.field.id, bare(one)) for one in project.outputs)
    return {field: copied for field, copied in pairs if copied is not None}


def filtered_change(filter_: Filter, changes: RelationChanges) -> Signed:
    """Return the change of the rows for which the condition is true."""
    touched = changes.change(filter_.input)
    if not len(touched):
        return nothing(filter_, changes)
    marks = changes.computing.holds(filter_.condition, touched.rows, filter_.input.fields)
    return touched.filter(marks) if marks.any() else nothing(filter_, changes)


def filtered_anew(
    filter_: Filter, before: pa.Table, change: Signed, changes: RelationChanges
) -> Signed:
    """Return the change of the rows for which a condition is true that names a constant.

    Args:
        before: the rows of its input before.
        change: the change of its input.
    """
    fields, stayed = filter_.input.fields, bag_difference(before, change.deleted)

    def holds(rows: pa.Table, computing: Computing) -> Marks:
        return computing.holds(filter_.condition, rows, fields)

    was, now = holds(stayed, changes.computing), holds(stayed, changes.after)
    gone, added = change.deleted, change.inserted
    return Signed.concat(
        [
            Signed(stayed, now.astype(np.int64) - was).filter(was != now),
            -gone.filter(holds(gone.rows, changes.computing)),
            added.filter(holds(added.rows, changes.after)),
        ]
    ).net()


def looked_up_filter(filter_: Filter, keys: LookupKeys, changes: RelationChanges) -> pa.Table:
    """Return the rows before that have one of the keys."""
    return filtered(filter_, changes.before(filter_.input, keys), changes.computing)
