"""DISTINCT."""

from __future__ import annotations

import pyarrow as pa

from deltaproduce.engines.local import arrays
from deltaproduce.stages.sql.algebra.relations import Distinct
from deltaproduce.stages.sql.operators.computing import Computing, normal


def whole(operator: Distinct, rows: pa.Table, computing: Computing) -> pa.Table:
    """Return each distinct row once."""
    del operator, computing
    return distinct(rows)


def distinct(rows: pa.Table) -> pa.Table:
    """Return each distinct row once."""
    return arrays.distinct(normalized(rows))


def normalized(rows: pa.Table) -> pa.Table:
    """Return rows in which equal values are the same; see `normal`."""
    columns = [normal(column.combine_chunks()) for column in rows.columns]
    return pa.Table.from_arrays(columns, names=rows.column_names)
