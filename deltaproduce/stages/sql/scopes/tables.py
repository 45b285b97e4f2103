"""Partitions as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyspark.sql.types import DataType

from deltaproduce.shown.tasks import Values
from deltaproduce.types.atoms import arrow_type


def table_of(values: Iterable[Values], columns: Sequence[tuple[str, DataType]]) -> pa.Table:
    """Return partitions as a table, in their columns."""
    rows = list(values)
    arrays = {
        name: pa.array([row[place] for row in rows], arrow_type(kind))
        for place, (name, kind) in enumerate(columns)
    }
    return pa.table({"_": pa.nulls(len(rows)), **arrays})
