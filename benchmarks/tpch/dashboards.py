"""Dashboards: a version of a store with ten views of one kind, beside a store with one of them.

Each view groups the join of orders, lines and customers by another column.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

import deltaproduce as dp
from benchmarks.tpch.rows import REFRESH, Rows, connected, reader
from examples.tpch import SCHEMAS, agree

TABLES: Final = ("customer", "orders", "lineitem")
COLUMNS: Final = (
    *("l_returnflag", "l_linestatus", "l_shipmode", "l_shipinstruct", "l_shipdate"),
    *("o_orderpriority", "o_orderstatus", "o_orderdate", "c_mktsegment", "c_nationkey"),
)
VIEWS: Final = (1, len(COLUMNS))
VERSIONS: Final = 6
"""How many versions are measured, after as many as the batches."""


def view(column: str) -> str:
    """Return the text of a view."""
    return (
        f"SELECT {column}, count(*) AS line_count, sum(l_extendedprice * (1 - l_discount)) AS "
        "revenue FROM customer, orders, lineitem WHERE c_custkey = o_custkey AND o_orderkey = "
        f"l_orderkey GROUP BY {column}"
    )


def dashboards(
    rows: Rows, place: Path, wrong: list[str], *, refreshed: bool
) -> Iterator[tuple[int, list[float]]]:
    """Yield a number of views, and the seconds of each version.

    The versions add the orders of a refresh with their lines, and delete them, in turn.

    Args:
        wrong: gets the views that differ from DuckDB's.
        refreshed: whether the orders are among the rows now; then a version deletes them first.
    """
    batches = [_batch(rows, deletes=deletes) for deletes in (refreshed, not refreshed)]
    for number in VIEWS:
        columns = COLUMNS[:number]
        shutil.rmtree(place, ignore_errors=True)
        with closing(dp.Store(None, str(place), _pipeline(columns))) as store:
            store.update({name: reader(rows.now[name]) for name in TABLES})
            seconds = list[float]()
            for batch in islice(cycle(batches), len(batches) + VERSIONS):
                store.wait()
                started = time.perf_counter()
                store.update(batch)
                seconds.append(time.perf_counter() - started)
            wrong += [f"{one} of {number} views" for one in _differing(store, rows, columns)]
        yield number, seconds[len(batches) :]


def _pipeline(columns: Sequence[str]) -> dp.Pipeline:
    pipeline = dp.Pipeline("dashboards")
    for name in TABLES:
        key, value = SCHEMAS[name]
        pipeline.source(name, key=key, value=value)
    for column in columns:
        pipeline.sql(f"by_{column}", view(column))
    return pipeline


def _batch(rows: Rows, *, deletes: bool) -> Mapping[str, pa.Table]:
    """Return the rows of a refresh, or the batch that deletes them."""
    found = {name: pq.read_table(file) for name, file in rows.batch(REFRESH).items()}
    if not deletes:
        return found
    return {
        name: table.append_column("_change_type", pa.repeat("delete", len(table)))
        for name, table in found.items()
    }


def _differing(store: dp.Store, rows: Rows, columns: Sequence[str]) -> list[str]:
    """Return the views that differ from what DuckDB computes from the rows now."""
    found = []
    with connected(rows.now, rows.temporary) as connection:
        for column in columns:
            expected = connection.execute(view(column)).fetchall()
            kept: Any = store.content(f"by_{column}")
            names = (column, "line_count", "revenue")
            mine = list(zip(*(kept[name].to_pylist() for name in names), strict=True))
            if not agree(mine, expected):
                found.append(f"by_{column}")
    return found
