"""Stages in memory whose changes a query follows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from deltaproduce.engines.local.arrays import isin_rows


@dataclass
class InMemory:
    """A stage that was a bag of rows, and is another one."""

    old: pa.Table
    new: pa.Table
    asked: list[tuple[tuple[str, ...], int | None]] = field(default_factory=list)

    def moved(self, columns: Sequence[str]) -> tuple[pa.Table, pa.Table]:
        return self.old.select(list(columns)), self.new.select(list(columns))

    def before(self, columns: Sequence[str], keys: pa.Table | None) -> pa.Table:
        self.asked.append((tuple(columns), None if keys is None else len(keys)))
        if keys is None:
            return self.old.select(list(columns))
        found = self.old.filter(pa.array(isin_rows(self.old.select(keys.column_names), keys)))
        return found.select(list(columns))


def bag(table: pa.Table) -> Counter[Any]:
    """Rows by their values, bit by bit."""
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return Counter(tuple(map(_bits, row)) for row in rows)


def _bits(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else (value, math.copysign(1, value))
    if isinstance(value, list):
        return tuple(map(_bits, value))
    return value
