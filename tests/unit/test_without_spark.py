"""Without PySpark, and with its client alone, stores without Spark work; and without pandas.

A separate process hides packages, so that no other environment is needed; `make newcomer`, and the
long run of `tests/examples/test_programs.py`, do the same with the packages that are really
installed.
"""

import re
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


NOT_INSTALLED = """
from importlib.machinery import PathFinder

found = PathFinder.find_spec
absent = {"delta", "google", "grpc", "pandas", "py4j", "pyspark"}


def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in absent else found(name, path, target)


PathFinder.find_spec = find_spec
"""
"""What Python runs first, in worker processes too; a package is then as if it were not there."""

ROOT = Path(__file__).parents[2]


def ran_alone(folder: Path, *command: str) -> str:
    """What a program prints where only what `pip install .` brings is installed."""
    (folder / "first").mkdir(exist_ok=True)
    (folder / "first" / "sitecustomize.py").write_text(NOT_INSTALLED)
    ran = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        cwd=folder,
        env={
            "PYTHONPATH": ":".join([str(folder / "first"), str(ROOT), *sys.path]),
            "PATH": "",
            "NO_COLOR": "1",
        },
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_packages_are_hidden(tmp_path):
    code = "import importlib.util as u; print(u.find_spec('pandas'), u.find_spec('pyspark'))"
    assert ran_alone(tmp_path, "-c", code) == "None None\n"


def test_the_quick_start_needs_no_package_of_spark_and_no_pandas(tmp_path):
    shown = re.search(
        r"^```\n(update be 2\n.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S
    )
    assert shown is not None
    assert ran_alone(tmp_path, str(ROOT / "examples" / "02_word_count.py")) == shown[1]


def test_the_command_needs_no_package_of_spark_and_no_pandas(tmp_path):
    def called(*verb: str) -> str:
        return ran_alone(tmp_path, "-m", "deltaproduce.cli", *verb)

    called("init", "shop")
    called("run", "--project-dir", "shop")
    rows = called("show", "customer_report", "--project-dir", "shop").splitlines()
    assert rows[2].split()[:3] == ["1", "Ann", "24.50"]
