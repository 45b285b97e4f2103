"""Plans of views over stages in memory: their tables follow, and so does what reads these."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from delta_feeders import UTC, InMemory, are_same, outcome
from view_queries import STAGES

from deltaproduce.engines.local.arrays import in_order
from deltaproduce.stages.sql.operators.changes.signed import changed
from deltaproduce.stages.sql.operators.evaluation import rows_of
from deltaproduce.stages.sql.operators.following import Following
from deltaproduce.stages.sql.resolve import Resolved
from deltaproduce.stages.views.kept import ORDERED, MaterializedRelation
from deltaproduce.stages.views.keys import key_of
from deltaproduce.stages.views.plan.planning import ViewPlan, planned


@dataclass
class InOrder(InMemory):
    """A table whose first rows are found in its order, and nothing else is read of it."""

    table: Any = None

    def first(self, columns: Any, count: int, keys: pa.Table | None = None) -> pa.Table | None:
        self.asked.append((tuple(columns), count))
        if self.table.role != ORDERED:
            return None
        rows = in_order(self.old, self.table.schema.key)
        if keys is None:
            return rows.slice(0, count).select(list(columns))
        names, taken = keys.column_names, Counter[Any]()
        assert names == list(self.table.schema.key.names)[: len(names)]
        wanted = {tuple(one.values()) for one in keys.to_pylist()}
        places = list[int]()
        for place, row in enumerate(rows.select(names).to_pylist()):
            partition = tuple(row.values())
            taken[partition] += 1
            if partition in wanted and taken[partition] <= count:
                places.append(place)
        return rows.take(pa.array(places, pa.int64())).select(list(columns))


def plan_of(query: Resolved) -> ViewPlan:
    return planned(query, key_of(query, STAGES), STAGES, stage="v")


def kept_rows(kept: MaterializedRelation, rows: dict[str, pa.Table]) -> pa.Table:
    return kept.columns_of(rows_of(kept.relation, rows, UTC))


def check(
    query: Resolved, plan: ViewPlan, old: dict[str, pa.Table], new: dict[str, pa.Table]
) -> bool:
    """Each table follows, and so does what reads it: the rows after are those of the query."""
    if outcome(query, old) is None or outcome(query, new) is None:
        return False
    feeders: dict[str, InMemory] = {
        name: InMemory(old[name], new[name], len(old[name]) // 3) for name in old
    }
    before, after = dict(old), dict(new)
    for table in plan.tables:
        following = Following(feeders, UTC)
        change = following.change(table.kept.relation)
        for rows in (before, after):
            rows[table.name] = kept_rows(table.kept, rows)
        names = table.scan.columns
        made = changed(before[table.name].select(names), follow_names(change, table))
        wanted = after[table.name].select(names)
        assert are_same(query.relation, made, wanted), query.text
        feeders[table.name] = InOrder(before[table.name], after[table.name], table=table)
    change = Following(feeders, UTC).change(plan.kept.relation)
    found = changed(rows_of(plan.kept.relation, before, UTC), change)
    names = list(query.fields.values())
    wanted = rows_of(query.relation, new, UTC).select(names)
    assert are_same(query.relation, found.select(names), wanted), query.text
    return bool(len(change))


def follow_names(change: Any, table: Any) -> Any:
    fields = [table.kept.fields[name] for name in table.scan.columns]
    return type(change)(
        change.rows.select(fields).rename_columns(list(table.scan.columns)), change.counts
    )
