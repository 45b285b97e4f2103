"""A pipeline with a stage of every kind that the oracle knows, and batches for it.

Its functions are nested, so that they travel with their code; what `pricing` has is a module of the
user, which the executors must find.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce import Pipeline, agg, merge, window
from deltaproduce.testing import Change, Delete, Upsert

FIRST_DAY = date(2026, 3, 1)


def every_kind(squares: Any, *, with_query: bool) -> Pipeline:
    """Functions of rows and of tables, a join, a merge, queries, views, aggregates and an index.

    Args:
        squares: an aggregate of the user's own.
        with_query: whether a stage is a query of one key; the oracle has a function for it.
    """
    pipeline = Pipeline("every kind")
    orders = pipeline.source("orders", key="day date, id bigint", value="customer bigint, n bigint")
    returns = pipeline.source(
        "returns", key="day date, id bigint", value="customer bigint, n bigint"
    )
    names = pipeline.source("names", key="customer bigint", value="name string")

    @pipeline.producer(merge(orders, returns), key="customer bigint", value="n bigint")
    def by_customer(_: Any, rows: Iterator[Any]) -> Iterator[tuple[int, int]]:
        for row in rows:
            yield row.customer, row.n

    @pipeline.producer(names, by_customer, key="customer bigint", value="name string, n bigint")
    def named(customer: int, called: Iterator[str], numbers: Iterator[int]) -> Iterator[Any]:
        found = list(called) or [None]
        for number in numbers:
            for name in found:
                yield customer, (name, number)

    @pipeline.arrow_producer(orders, key="n bigint", value="id bigint")
    def by_number(table: pa.Table) -> pa.Table:
        rows = table.filter(pc.is_valid(table.column("n")))
        columns = {"n": rows.column("n"), "id": rows.column("id")}
        sources = {"_source_day": rows.column("day"), "_source_id": rows.column("id")}
        return pa.table({**columns, **sources})

    _large(pipeline, orders, with_query=with_query)
    pipeline.sql(
        "by_name",
        "SELECT p.name, sum(o.n) AS total, count(*) AS rows FROM orders o JOIN names p "
        "ON o.customer = p.customer GROUP BY p.name",
    )
    pipeline.sql(
        "ranks",
        "SELECT day, id, rank() OVER (PARTITION BY customer ORDER BY n DESC) AS place FROM orders",
    )
    values: dict[str, Any] = {
        "rows": agg.count(),
        "total": agg.sum("n"),
        "mean": agg.avg("n"),
        "most": agg.max("n"),
        "squares": agg.own(squares, "n"),
    }
    pipeline.aggregate("by_day", orders, key="day", values=values)
    recent = {"rows": agg.count(), "total": agg.sum("n")}
    pipeline.aggregate(
        "recent", orders, key="customer", values=recent, window=window("day", last=2)
    )
    pipeline.index("names_of", names, key="name")
    return pipeline


def _large(pipeline: Pipeline, orders: Any, *, with_query: bool) -> None:
    """The large orders, twice: by a query, or by a function that does the same."""
    if with_query:
        pipeline.sql("large", "SELECT day, id, n * 2 AS twice FROM orders WHERE n > 40", "day, id")
        return

    @pipeline.producer(orders, key="day date, id bigint", value="twice bigint")
    def large(key: Any, rows: Iterator[Any]) -> Iterator[Any]:
        for row in rows:
            if row.n is not None and row.n > 40:
                yield key, row.n * 2


def batch(number: int, rows: int = 12) -> dict[str, list[Change]]:
    """The changes of a version: new and changed rows, rows that move, and rows that go."""
    draw = random.Random(number)
    found: dict[str, list[Change]] = {"orders": [], "returns": [], "names": []}
    for source in ("orders", "returns"):
        for id in draw.sample(range(2 * rows), rows):
            day = FIRST_DAY + timedelta(days=id % 3 + (number if source == "orders" else 0))
            value = (draw.randrange(4), draw.choice((None, *range(0, 100, 7))))
            is_gone = draw.random() < 0.2
            found[source].append(Delete((day, id)) if is_gone else Upsert((day, id), value))
    for customer in draw.sample(range(5), 3):
        found["names"].append(Upsert((customer,), (f"c{draw.randrange(3)}",)))
    return found
