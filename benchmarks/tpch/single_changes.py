"""One changed row: a version of a store that has one view, of one table or of a join of three.

The three tables have equally many rows: each line has an order of its own, and each order a
customer. The views group lines, or number all of them in one partition and take the first ones.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa

import deltaproduce as dp
from benchmarks.tpch.rows import SEED
from examples.tpch import agree

MOST_ROWS: Final = 10_000_000
VERSIONS: Final = 5
WARM_UP: Final = 1
_GROUPS: Final = 10_000
_STRIDE: Final = 7_919
_TABLES: Final = {
    "lines": ("line bigint", "order_id bigint, part bigint, amount bigint"),
    "orders": ("order_id bigint", "customer bigint, factor bigint"),
    "customers": ("customer bigint", "city bigint"),
}
_VIEWS: Final = {
    "one table": (
        ("lines",),
        "SELECT part, count(*) AS line_count, CAST(sum(amount) AS bigint) AS amount FROM lines "
        "GROUP BY part",
    ),
    "one partition": (
        ("lines",),
        "SELECT line, amount FROM lines "
        "QUALIFY row_number() OVER (ORDER BY amount DESC, line) <= 10",
    ),
    "join of three": (
        ("lines", "orders", "customers"),
        "SELECT city, count(*) AS line_count, CAST(sum(amount * factor) AS bigint) AS amount FROM "
        "lines JOIN orders USING (order_id) JOIN customers USING (customer) GROUP BY city",
    ),
}
_CHANGED: Final = {"lines": "amount", "customers": "city"}
"""The changed table -> its changed column."""

Columns = dict[str, dict[str, Any]]
"""The table -> column -> numbers."""


def single_changes(
    rows: int, place: Path, wrong: list[str]
) -> Iterator[tuple[tuple[str, str], list[float]]]:
    """Yield the view and the changed table, and the seconds of each version of one changed row.

    Args:
        rows: the number of rows of each table.
        wrong: gets the views that differ from DuckDB's.
    """
    for name, (tables, query) in _VIEWS.items():
        columns = _columns(rows)
        shutil.rmtree(place, ignore_errors=True)
        with closing(dp.Store(None, str(place), _pipeline(tables, query))) as store:
            store.update({table: _given(columns[table], slice(None)) for table in tables})
            for changed in (one for one in _CHANGED if one in tables):
                yield (name, f"a row of {changed}"), _versions(store, columns, changed)
            if not agree(_rows(store.content("view")), _expected(columns, tables, query)):
                wrong.append(f"view of {name}")


def _pipeline(tables: tuple[str, ...], query: str) -> dp.Pipeline:
    pipeline = dp.Pipeline("changes")
    for name in tables:
        key, value = _TABLES[name]
        pipeline.source(name, key=key, value=value)
    pipeline.sql("view", query)
    return pipeline


def _columns(rows: int) -> Columns:
    """Return the columns of all tables."""
    numbers = np.arange(rows)
    spread = numbers * _STRIDE % rows
    return {
        "lines": {
            "line": numbers,
            "order_id": spread,
            "part": spread % _GROUPS,
            "amount": numbers % 1_000,
        },
        "orders": {"order_id": numbers, "customer": spread, "factor": numbers % 7},
        "customers": {"customer": numbers, "city": spread % _GROUPS},
    }


def _versions(store: dp.Store, columns: Columns, changed: str) -> list[float]:
    """Change one row after the other; return the seconds of those after the first."""
    table, seconds = columns[changed], list[float]()
    places = np.random.default_rng(SEED).choice(len(table[_CHANGED[changed]]), WARM_UP + VERSIONS)
    for place in places:
        table[_CHANGED[changed]][place] += 1
        row = _given(table, slice(place, place + 1))
        store.wait()
        started = time.perf_counter()
        store.update({changed: row})
        seconds.append(time.perf_counter() - started)
    return seconds[WARM_UP:]


def _given(table: Mapping[str, Any], places: slice) -> pa.Table:
    """Return some rows: a copy, because a store may hold it while the numbers change."""
    return pa.table({name: values[places].copy() for name, values in table.items()})


def _expected(columns: Columns, tables: tuple[str, ...], query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        for name in tables:
            connection.register(name, pa.table(columns[name]))
        return connection.execute(query).fetchall()


def _rows(content: Any) -> list[tuple[Any, ...]]:  # noqa: ANN401 a table
    names = [name for name in content.column_names if not name.startswith("_")]
    columns: Mapping[str, list[Any]] = content.select(names).to_pydict()
    return list(zip(*columns.values(), strict=True))
