"""States of groups: what changed rows make of them is what all rows make."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from delta_feeders import InMemory, bag

from deltaproduce.model.graph import Producer
from deltaproduce.model.layouts import Layout
from deltaproduce.pipeline import Pipeline
from deltaproduce.stages.sql.operators.computing import Computing, QueryError
from deltaproduce.stages.sql.operators.evaluation import rows_of
from deltaproduce.stages.sql.operators.following import Following
from deltaproduce.stages.sql.resolve import resolved
from deltaproduce.stages.views.grouped import GroupedQuery
from deltaproduce.types.columns import Columns, row_schema

UTC = Computing("UTC")
STAGES = {
    "t": row_schema(
        "k bigint", "a int, x double, y float, d decimal(9,2), b boolean, s string", stage="t"
    )
}
QUERIES = (
    "SELECT a, count(*) AS n, sum(x) AS s, avg(y) AS v, sum(d) AS e, avg(d) AS f FROM t GROUP BY a",
    "SELECT a, s, min(x) AS m, max(x) AS o, min(s) AS p, max(d) AS q FROM t GROUP BY a, s",
    "SELECT count(*) AS n, sum(a) AS s, stddev(x) AS d, var_pop(a) AS v, bool_or(b) AS o FROM t",
    "SELECT a % 2 AS m, count(s) AS n, count_if(b) AS i, avg(a) AS v FROM t GROUP BY a % 2",
    "SELECT a, sum(x) / 2 AS h, count(*) FILTER (WHERE b) AS n, sum(a) FILTER (WHERE a > 1) AS g, "
    "min(x) FILTER (WHERE b) AS m FROM t GROUP BY a",
    "SELECT l.a, sum(r.x) AS s, max(r.d) AS m FROM t l JOIN t r ON l.k = r.k GROUP BY l.a",
    "SELECT max(x) AS m, min(s) AS n FROM t",
    "SELECT a, 1 / min(k) AS q, count(*) AS n FROM t GROUP BY a",
)


def some(random: Random) -> pa.Table:
    size = random.choice((0, 1, 5, 12))
    floats = (None, 0.0, -0.0, math.nan, 0.1, 0.2, 1e308, -1e308, math.inf)
    columns = {
        "k": pa.array([random.choice((0, 1, 2, 3)) for _ in range(size)], pa.int64()),
        "a": pa.array([random.choice((None, 1, 2)) for _ in range(size)], pa.int32()),
        "x": pa.array([random.choice(floats) for _ in range(size)], pa.float64()),
        "y": pa.array([random.choice((None, 0.1, 2.5)) for _ in range(size)], pa.float32()),
        "d": pa.array(
            [random.choice((None, Decimal("1.10"), Decimal("-2.25"))) for _ in range(size)],
            pa.decimal128(9, 2),
        ),
        "b": pa.array([random.choice((None, True, False)) for _ in range(size)], pa.bool_()),
        "s": pa.array([random.choice((None, "", "x")) for _ in range(size)], pa.string()),
    }
    return pa.table(columns)


@pytest.mark.parametrize("text", QUERIES)
def test_states_of_changed_rows_are_those_of_all_rows(text: str, long_run: bool) -> None:
    """Bit by bit, states too, also where the states before are unknown."""
    random, query = Random(text), resolved(text, STAGES)
    assert query.grouped is not None
    grouped = GroupedQuery.of(query.relation, query.fields, query.grouped)
    assert grouped is not None
    layout = layout_of(text, grouped)
    rows, content = some(random), None
    for _ in range(300 if long_run else 15):
        kept = [n for n in range(len(rows)) if random.random() < random.choice((0, 0.8, 1))]
        after = pa.concat_tables([rows.take(pa.array(kept, pa.int64())), some(random)])
        wanted = made(grouped, after, layout)
        if content is None or wanted is None:
            rows, content = after, wanted
            continue
        if random.random() < 0.2:
            content = unknown(content, grouped)
        following = Following({"t": InMemory(rows, after, len(rows) // 3)}, UTC)
        content = applied(grouped, following, content, layout)
        if all(content.column(one.name).null_count == 0 for one in grouped.states[:1]):
            assert bag(content) == bag(wanted), text
        shown = [c.name for c in layout.shown]
        assert bag(content.select(shown)) == bag(wanted.select(shown)), text
        rows = after


def layout_of(text: str, grouped: GroupedQuery) -> Layout:
    """The layout of a view that keeps the states, even if it would recompute."""
    pipeline = Pipeline("p")
    schema = STAGES["t"]
    pipeline.source("t", key=schema.key.ddl, value=schema.value.ddl)
    stage = pipeline.sql("v", text)
    assert isinstance(stage, Producer)
    return Layout.of(replace(stage, schema=replace(stage.schema, states=Columns(grouped.states))))


def made(grouped: GroupedQuery, rows: pa.Table, layout: Layout) -> pa.Table | None:
    try:
        return grouped.compute(rows_of(grouped.aggregate.input, {"t": rows}, UTC), layout, UTC)
    except QueryError:
        return None


def unknown(content: pa.Table, grouped: GroupedQuery) -> pa.Table:
    """The rows as Spark makes them, without states."""
    for column in grouped.states:
        place = content.schema.get_field_index(column.name)
        field = content.schema.field(place)
        content = content.set_column(place, field, pa.nulls(len(content), field.type))
    return content


def applied(
    grouped: GroupedQuery, following: Following, content: pa.Table, layout: Layout
) -> pa.Table:
    """The content after the groups that change are replaced."""
    if not len(following.change(grouped.aggregate.input)):
        return content
    names = [column.name for column in layout.key]
    touched = Counter(tuple(row.values()) for row in grouped.keys(following, layout).to_pylist())
    is_touched = [tuple(row.values()) in touched for row in content.select(names).to_pylist()]
    known = content.filter(pa.array(is_touched, pa.bool_()))
    stays = content.filter(pa.array(~np.array(is_touched, bool)))
    new: Any = grouped.changed(known, following, layout)
    return pa.concat_tables([stays, new])
