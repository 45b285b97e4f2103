"""``python -m benchmarks.forms``: the same stages as functions over rows, over Arrow, and in SQL.

A filter, a re-key and a sum, over W1's orders. Each form has its own store; all take the same load
and the same steps, in turn. Content is compared with the right answer, key mappings with those of
the functions over rows. The last output is a Markdown table.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import deltaproduce as dp
from benchmarks import policy, w1
from benchmarks.measures import Processes, measured
from benchmarks.policy import Effort
from benchmarks.runs import say
from benchmarks.tables import table
from benchmarks.workload import Batch, digest, source_rows

TABLES: Final = {"cheap": w1.ORDERS, "by_customer": w1.BY_CUSTOMER, "totals": w1.TOTALS}
LIMIT: Final = 500

CHEAP: Final = {"key": w1.ORDERS_KEY, "value": w1.ORDERS_VALUE}
BY_CUSTOMER: Final = {
    "key": "customer_id bigint",
    "value": "order_id bigint, amount decimal(12,2)",
}
TOTALS: Final = {"key": "customer_id bigint", "value": "total decimal(22,2)"}


def rows() -> dp.Pipeline:
    """Return the pipeline with functions of a key and its values."""
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
    """Return the pipeline with functions of tables of many keys."""
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
    """Return the pipeline with queries."""
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
    """Load, take steps, and check; return 1 if a form is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.forms", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the source")
    parser.add_argument("--changed", type=int, default=1_000, help="keys a step")
    parser.add_argument("--steps", type=int, default=5, help="measured, after those that warm up")
    parser.add_argument("--memory", default="8g", help="of the Java process")
    parser.add_argument("--directory", help="where to work; a temporary one if none")
    given = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(dir=given.directory) as directory,
        dp.local_session(memory=given.memory) as spark,
    ):
        place = Path(directory)
        forms(spark, place / "warm-up", max(1, given.rows // 10), given.changed, Effort(0, 1))
        effort = Effort(policy.MAIN.warm_up, given.steps)
        found = forms(spark, place / "measured", given.rows, given.changed, effort)
    say(f"\n{given.rows:,} orders loaded, then {given.changed:,} changed a step\n")
    say("\n".join(markdown(found, given.rows)))
    return int(not all(form.right for form in found))


@dataclass(slots=True)
class Form:
    """The figures of one form.

    Attributes:
        stages_seconds: seconds of the load's stages, computation only, without commits.
        steps: the seconds of each measured step.
        right: whether all tables are right.
    """

    name: str
    store: dp.Store
    place: Path
    load_seconds: float = 0.0
    stages_seconds: float = 0.0
    steps: list[float] = field(default_factory=list)
    right: bool = False

    def update(self, batch: DataFrame) -> float:
        """Return the seconds of an update; waits for remaining work, which does not count."""
        step = measured(lambda: self.store.update({"orders": batch}), self.place, Processes())
        self.store.wait()
        return step.seconds

    def digests(self) -> dict[str, tuple[int, int]]:
        """Return digests of the stages' rows, in the columns that all forms have."""
        return {
            stage: digest(self.store.content(stage).select(*table.columns))
            for stage, table in TABLES.items()
        }

    def mappings(self) -> dict[str, tuple[int, int]]:
        """Return digests of the stages' key mappings."""
        return {stage: digest(self.store.key_mappings(stage)) for stage in TABLES}


def forms(spark: SparkSession, place: Path, count: int, changed: int, effort: Effort) -> list[Form]:
    """Load, change and check each form's store with this many orders."""
    found = [
        Form(name, dp.Store(spark, str(place / name), make()), place / name)
        for name, make in FORMS.items()
    ]
    for form in found:
        form.load_seconds = form.update(w1.orders(spark, count))
        figures = form.store.head.stages
        form.stages_seconds = sum(figures[stage].seconds for stage in TABLES)
        say(f"{count:,} rows, {form.name}: load: {form.load_seconds:.2f} s")
    batches = [Batch(changed, number) for number in range(1, effort.warm_up + effort.steps + 1)]
    for batch in batches:
        for form in found:
            seconds = form.update(w1.changes(spark, count, changed, batch.step))
            say(f"{form.name}: {seconds:.2f} s")
            if batch.step > effort.warm_up:
                form.steps.append(seconds)
    orders = source_rows(w1.workload(), spark, count, batches)["orders"]
    right = {stage: digest(rows) for stage, rows in answers(orders).items()}
    mapped = found[0].mappings()
    for form in found:
        form.right = form.digests() == right and form.mappings() == mapped
    return found


def answers(orders: DataFrame) -> dict[str, DataFrame]:
    """Return the stages' rows, as queries over the orders."""
    kept = orders.where(f.col("amount") < LIMIT)
    return {
        "cheap": kept,
        "by_customer": w1.derived("orders_by_customer", kept),
        "totals": w1.derived("customer_totals", kept),
    }


def markdown(found: Sequence[Form], count: int) -> list[str]:
    """Return a row for each form, with its speed relative to functions over rows."""
    base = found[0]
    rows = [
        [
            form.name,
            f"{form.load_seconds:.1f}",
            f"{count / form.load_seconds:,.0f}",
            f"{count / form.stages_seconds:,.0f}",
            f"{base.stages_seconds / form.stages_seconds:.2f}",
            f"{statistics.median(form.steps):.2f}",
            "yes" if form.right else "NO",
        ]
        for form in found
    ]
    header = ["form", "load s", "rows/s of the load", "rows/s of the stages alone",
              "stages, times as fast as rows", "step s, median", "right"]  # fmt: skip
    return table(header, rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
