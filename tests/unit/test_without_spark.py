"""Without PySpark, and with its client alone, stores without Spark work.

A separate process hides what PySpark's client lacks, so that no other environment is needed;
`make newcomer` does the same with the packages that are really installed.
"""

import subprocess
import sys
from pathlib import Path

import pytest

HIDE = "import sys\nfor name in {names}: sys.modules[name] = None\n"
NOT_IN_THE_CLIENT = (
    "delta",
    "py4j",
    "pyspark.core",
    "pyspark.core.broadcast",
    "pyspark.core.context",
)


def said(code: str, hidden: tuple[str, ...], folder: Path) -> str:
    """What a program prints in a process of its own, from which packages are hidden."""
    ran = subprocess.run(
        [sys.executable, "-c", HIDE.format(names=hidden) + code],
        capture_output=True,
        text=True,
        cwd=folder,
        env={"PYTHONPATH": ":".join(sys.path), "PATH": "", "NO_COLOR": "1"},
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


NONE = pytest.param(("pyspark", "delta", "py4j"), id="none")


@pytest.mark.parametrize("absent", [pytest.param(NOT_IN_THE_CLIENT, id="client"), NONE])
def test_a_store_without_spark_needs_no_spark(absent, tmp_path):
    code = """
import deltaproduce as dp
shop = dp.Pipeline("shop")
orders = shop.source("orders", key="id bigint", value="customer string, amount decimal(8,2)")
@shop.producer(orders, key="customer string", value="amount decimal(8,2)")
def by_customer(_, values):
    for value in values:
        yield value.customer, value.amount
shop.aggregate("totals", by_customer, key="customer", values={"total": dp.agg.sum("amount")})
with dp.Store(None, "lake/shop", shop) as store:
    store.update({"orders": [{"id": n, "customer": "ab"[n % 2], "amount": n} for n in range(5)]})
    store.update({"orders": [{"id": 4, "_change_type": "delete"}]})
    rows = store.content("totals", ordered=True).to_pylist()
    print([(row["customer"], row["total"]) for row in rows])
try:
    dp.local_session()
except dp.SessionError as error:
    print(error)
"""
    rows, error = said(code, absent, tmp_path).splitlines()
    assert rows == "[('a', Decimal('2.00')), ('b', Decimal('4.00'))]"
    assert "pip install 'deltaproduce[spark]'" in error
