"""``python -m benchmarks.forms``: the same stages as functions over rows, over Arrow, and in SQL.

A filter, a re-key and a sum, over W1's orders. Each form has a store of its own; all take the same
load and the same steps, one after the other, and must make the same tables.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

import deltaproduce as dp
from benchmarks import w1
from benchmarks.measures import Processes, measured
from benchmarks.runs import say
from benchmarks.workload import digest

STAGES: Final = ("cheap", "by_customer", "totals")
LIMIT: Final = 500
WARM_UP: Final = 3
MEASURED: Final = 5

CHEAP: Final = {"key": w1.ORDERS_KEY, "value": w1.ORDERS_VALUE}
BY_CUSTOMER: Final = {
    "key": "customer_id bigint",
    "value": "order_id bigint, amount decimal(12,2)",
}
TOTALS: Final = {"key": "customer_id bigint", "value": "total decimal(22,2)"}


def rows() -> dp.Pipeline:
    """As functions of a key and its values."""
    shop = dp.Pipeline("rows")
    orders = shop.source("orders", **CHEAP)

    @shop.producer(orders, **CHEAP)
    def cheap(order_id: int, values: Iterator[Any]) -> Iterator[Any]:
        for value in values:
            if value.amount < LIMIT:
                yield order_id, value

    @shop.producer(cheap, **BY_CUSTOMER)
    def by_customer(order_id: int, values: Iterator[Any]) -> Iterator[Any]:
        for value in values:
            yield value.customer_id, (order_id, value.amount)

    @shop.producer(by_customer, **TOTALS)
    def totals(customer_id: int, values: Iterator[Any]) -> Iterator[Any]:
        yield customer_id, sum((value.amount for value in values), Decimal(0))

    return shop


def arrow() -> dp.Pipeline:
    """As functions of tables of many keys."""
    shop = dp.Pipeline("arrow")
    orders = shop.source("orders", **CHEAP)

    @shop.arrow_producer(orders, **CHEAP)
    def cheap(table: pa.Table) -> pa.Table:
        found = table.filter(pc.less(table["amount"], pa.scalar(Decimal(LIMIT))))
        return found.append_column("_source_order_id", found["order_id"])

    @shop.arrow_producer(cheap, **BY_CUSTOMER)
    def by_customer(table: pa.Table) -> pa.Table:
        return table.append_column("_source_order_id", table["order_id"])

    @shop.arrow_producer(by_customer, **TOTALS)
    def totals(table: pa.Table) -> pa.Table:
        found = table.group_by("customer_id").aggregate([("amount", "sum")])
        key = found["customer_id"]
        return pa.table(
            {"customer_id": key, "total": found["amount_sum"], "_source_customer_id": key}
        )

    return shop


def sql() -> dp.Pipeline:
    """As queries."""
    shop = dp.Pipeline("sql")
    shop.source("orders", **CHEAP)
    shop.sql("cheap", f"SELECT * FROM orders WHERE amount < {LIMIT}", key="order_id")
    shop.sql("by_customer", "SELECT customer_id, order_id, amount FROM cheap", key="customer_id")
    shop.sql(
        "totals",
        "SELECT customer_id, sum(amount) AS total FROM by_customer GROUP BY customer_id",
        key="customer_id",
    )
    return shop


FORMS: Final[dict[str, Callable[[], dp.Pipeline]]] = {"rows": rows, "arrow": arrow, "sql": sql}


def main(arguments: Sequence[str]) -> int:
    """Load, take steps, and compare; returns 1 if the forms make different tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.forms", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the source")
    parser.add_argument("--changed", type=int, default=1_000, help="keys a step")
    parser.add_argument("--directory", help="where to work; a temporary one if none")
    given = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(dir=given.directory) as directory,
        dp.local_session(memory="8g") as spark,
    ):
        places = {name: Path(directory, name) for name in FORMS}
        stores = {n: dp.Store(spark, str(places[n]), make()) for n, make in FORMS.items()}
        w1.orders(spark, given.rows).selectExpr("count(*)").collect()  # warms the session up
        loads = {}
        for name, store in stores.items():
            batch = w1.orders(spark, given.rows)
            update = _updating(store, batch)
            loads[name] = measured(update, places[name], Processes()).seconds
        figures = {name: store.head.stages for name, store in stores.items()}
        steps: dict[str, list[float]] = {name: [] for name in FORMS}
        for number in range(1, WARM_UP + MEASURED + 1):
            for name, store in stores.items():
                update = _updating(store, w1.changes(spark, given.rows, given.changed, number))
                steps[name].append(measured(update, places[name], Processes()).seconds)
        found = {
            name: [digest(_plain(store.content(stage))) for stage in STAGES]
            for name, store in stores.items()
        }
        right = all(tables == found["rows"] for tables in found.values())
        say("| form | load s | rows/s of the stages | rows/s with all commits | step s |")
        say("| --- | ---: | ---: | ---: | ---: |")
        for name, seconds in loads.items():
            stages = sum(figures[name][stage].seconds for stage in STAGES)
            step = statistics.median(steps[name][WARM_UP:])
            say(
                f"| {name} | {seconds:.1f} | {given.rows / stages:,.0f} | "
                f"{given.rows / seconds:,.0f} | {step:.2f} |"
            )
        say(f"\nThe tables are {'equal' if right else 'NOT equal'}.")
    return int(not right)


def _updating(store: dp.Store, batch: Any) -> Callable[[], object]:  # noqa: ANN401 a DataFrame
    return lambda: store.update({"orders": batch})


def _plain(content: Any) -> Any:  # noqa: ANN401 a DataFrame
    """Rows without their numbers, which depend on the order that a form emits in."""
    return content.drop("_ordinal")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
