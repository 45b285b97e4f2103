"""DISTINCT."""

from __future__ import annotations

import pyarrow as pa

from deltaproduce.engines.local import arrays
from deltaproduce.stages.sql.algebra.relations import Distinct
from deltaproduce.stages.sql.operators.changes.keys import LookupKeys
from deltaproduce.stages.sql.operators.changes.rules import RelationChanges, both, nothing
from deltaproduce.stages.sql.operators.changes.signed import Signed
from deltaproduce.stages.sql.operators.computing import Computing, normal


def whole(operator: Distinct, rows: pa.Table, computing: Computing) -> pa.Table:
    """Return each distinct row once."""
    del operator, computing
    return distinct(rows)


def change(operator: Distinct, changes: RelationChanges) -> Signed:
    """Return the change: of the rows that are touched, those that are there before and after."""
    touched = changes.change(operator.input)
    if not len(touched):
        return nothing(operator, changes)
    keys = LookupKeys.of(touched.rows, touched.rows.column_names)
    before, after = both(operator.input, keys, touched, changes)
    return Signed.between(distinct(before), distinct(after))


def looked_up(operator: Distinct, keys: LookupKeys, changes: RelationChanges) -> pa.Table:
    """Return the rows before that have one of the keys."""
    return distinct(changes.before(operator.input, keys))


def distinct(rows: pa.Table) -> pa.Table:
    """Return each distinct row once."""
    return arrays.distinct(normalized(rows))


def normalized(rows: pa.Table) -> pa.Table:
    """Return rows in which equal values are the same; see `normal`."""
    columns = [normal(column.combine_chunks()) for column in rows.columns]
    return pa.Table.from_arrays(columns, names=rows.column_names)
