"""Stages in memory whose changes a query follows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa

from deltaproduce.engines.local.arrays import isin_rows
from deltaproduce.stages.sql.algebra.relations import Limit, Relation
from deltaproduce.stages.sql.algebra.windows import WindowRelation
from deltaproduce.stages.sql.operators.changes.signed import Signed, bag_difference
from deltaproduce.stages.sql.operators.computing import Computing, QueryError
from deltaproduce.stages.sql.operators.evaluation import rows_of
from deltaproduce.stages.sql.resolve import Resolved

UTC = Computing("UTC")


@dataclass
class InMemory:
    """A stage that was a bag of rows, and is another one.

    So many rows that stay are said to go and to come again, as in another key.
    """

    old: pa.Table
    new: pa.Table
    again: int = 0
    asked: list[tuple[tuple[str, ...], int | None]] = field(default_factory=list)

    def first(
        self, columns: Sequence[str], count: int, keys: pa.Table | None = None
    ) -> pa.Table | None:
        del columns, count, keys
        return None

    def change(self, columns: Sequence[str]) -> Signed:
        old, new = (rows.select(list(columns)) for rows in (self.old, self.new))
        net = Signed.between(old, new)
        stay = bag_difference(old, net.deleted)
        both = Signed.added(stay.slice(0, self.again if len(net) else 0))
        return Signed.concat([net, -both, both])

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
    return tuple(map(_bits, value)) if isinstance(value, list) else value


def are_same(relation: Relation, one: pa.Table, other: pa.Table) -> bool:
    """Whether bags are the same, bit by bit.

    0.0 and -0.0 are equal, so where an order chooses among rows either may come first.
    """
    chooses = any(isinstance(each, Limit | WindowRelation) for each in relation.walk())
    first, second = (_of_one_zero(rows) if chooses else rows for rows in (one, other))
    return bag(first) == bag(second)


def _of_one_zero(rows: pa.Table) -> pa.Table:
    columns = [
        pa.array([None if x is None else x + 0.0 for x in column.to_pylist()], column.type)
        if pa.types.is_floating(column.type)
        else column
        for column in rows.columns
    ]
    return pa.table(columns, schema=rows.schema)


def outcome(query: Resolved, rows: dict[str, pa.Table]) -> pa.Table | None:
    """What the query returns; None if it fails."""
    try:
        return rows_of(query.relation, rows, UTC)
    except QueryError:
        return None


def next_rows(random: Random, old: dict[str, pa.Table], fresh: dict[str, pa.Table]) -> Any:
    """Some stages stay as they are, some lose or get a few rows, some are other ones."""
    found = dict[str, pa.Table]()
    for name, rows in old.items():
        kept = [n for n in range(len(rows)) if random.random() < random.choice((0, 0.7, 1))]
        some = rows.take(pa.array(kept, pa.int64()))
        found[name] = random.choice(
            (rows, some, fresh[name], pa.concat_tables([some, fresh[name]]))
        )
    return found
