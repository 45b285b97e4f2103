"""The states beside a view's rows, which are null where Spark has made the rows."""

from __future__ import annotations

import pyarrow as pa

from deltaproduce.engines.engine import Rows
from deltaproduce.engines.spark.data_types import in_spark
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.model.layouts import Layout
from deltaproduce.types.atoms import arrow_type


def has_all_states(rows: Rows, layout: Layout) -> bool:
    """Return whether it is known that each row has its states."""
    if not isinstance(rows, pa.Table):
        return False
    return all(rows.column(column.name).null_count == 0 for column in layout.states[:1])


def without_states(rows: Rows, layout: Layout) -> Rows:
    """Return the rows with null in place of their states."""
    for column in layout.states:
        if isinstance(rows, pa.Table):
            place = rows.schema.get_field_index(column.name)
            null = pa.nulls(len(rows), arrow_type(column.data_type))
            rows = rows.set_column(place, column.name, null)
        else:
            rows = rows.withColumn(column.name, f.lit(None).cast(in_spark(column.data_type)))
    return rows
