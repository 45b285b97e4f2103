"""Partitions as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import pyarrow as pa

from deltaproduce.engines.local.arrays import Numbers
from deltaproduce.shown.tasks import Values
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.data_types import DataType
from deltaproduce.types.python_values import python_tuples


def table_of(values: Iterable[Values], columns: Sequence[tuple[str, DataType]]) -> pa.Table:
    """Return partitions as a table, in their columns."""
    rows = list(values)
    arrays = {
        name: pa.array([row[place] for row in rows], arrow_type(kind))
        for place, (name, kind) in enumerate(columns)
    }
    return pa.table({"_": pa.nulls(len(rows)), **arrays})


def values_at(partitions: pa.Table, rows: Sequence[int] | Numbers) -> list[Values]:
    """Return the values of partitions, by position."""
    chosen = partitions.take(pa.array(rows, pa.int64()))
    values = [tuple(map(_plain, row)) for row in python_tuples(chosen)]
    return values if chosen.num_columns else [()] * len(rows)


def _plain(value: object) -> object:
    return value.astimezone(UTC) if isinstance(value, datetime) else value
