"""The code of the pages and the examples, run as shown. `tests/examples` has the README's."""

import datetime
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pyarrow.compute as pc
import pytest
from conftest import QUICK_JAVA
from pyspark.sql import SparkSession
from rich.console import Console
from selecting import chosen, long

import deltaproduce as dp
from deltaproduce.model.limits import Limits

ROOT = Path(__file__).parents[2]


def example(name: str) -> ModuleType:
    """An example as a module that workers do not look for: its functions travel by value."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fences(page: Path) -> list[tuple[str, str]]:
    """The fenced blocks of a page, in order: what they are, and what is in them."""
    return re.findall(r"^```([^`\n]*)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def code(page: Path) -> str:
    """All the code of a page, unchanged, as one program."""
    return "\n".join(block for language, block in fences(page) if language == "python")


def check_shown(page: Path, printed: str) -> None:
    """What a page shows was printed, in that order."""
    for language, block in fences(page):
        if language == "":
            _, found, rest = printed.partition(block)
            assert found == block, f"{page.name} shows {block!r}; then was printed: {printed!r}"
            printed = rest


def run_in_new_process(page: Path, program: Path, folder: Path) -> str:
    """What the code of a page prints in a Python process of its own, in a folder."""
    program.write_text(code(page))
    ran = subprocess.run(
        [sys.executable, program],
        cwd=folder,
        env={**os.environ, **QUICK_JAVA, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert ran.returncode == 0, ran.stderr
    assert not ran.stderr
    return ran.stdout


README = ROOT / "README.md"
PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if code(page)]
IN_NEW_PROCESSES = {"streams"}
"""Pages that give relative paths to Spark itself, for which Java's current directory counts."""
WITH_A_SERVICE = {"object-stores", "postgres"}
"""Pages that need one of another process: tests/local/test_object_stores.py and tests/postgres have
these."""
SHORT = ("batches",)
"""The page that a short run has; that on joins is run below, and prints nothing."""


@pytest.mark.usefixtures("spark")  # which has fetched the jars
@pytest.mark.parametrize("name", chosen(sorted(IN_NEW_PROCESSES)))
def test_a_page_works_in_a_new_process(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    page = ROOT / "docs" / f"{name}.md"
    check_shown(page, run_in_new_process(page, tmp_path / "pasted.py", folder))


@pytest.mark.parametrize(
    "page",
    chosen((p.stem for p in PAGES if p.stem not in IN_NEW_PROCESSES | WITH_A_SERVICE), *SHORT),
)
def test_a_page_prints_what_it_shows(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    page: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    names, printed = {"__name__": "__main__"}, ""
    for language, block in fences(ROOT / "docs" / f"{page}.md"):
        if language == "python":
            exec(block, names)
            printed += capsys.readouterr().out
        elif language == "":
            _, found, printed = printed.partition(block)
            assert found == block, f"{page} shows {block!r}; then was printed: {printed!r}"
    assert {path.name for path in tmp_path.iterdir()} <= {"lake"}


def test_all_code_is_run() -> None:
    """What is in another language is not taken for what was printed, and is none of Python."""
    assert {page.stem for page in PAGES} >= IN_NEW_PROCESSES | WITH_A_SERVICE
    languages = {language for page in [README, *PAGES] for language, _ in fences(page)}
    titled = {'sql title="view"', 'sql title="refused"'}
    assert languages == {"", "console", "python", "py", "mermaid", "sql", "toml", *titled}
    everywhere = {language for page in (ROOT / "docs").glob("*.md") for language, _ in fences(page)}
    assert everywhere <= {  # no diagrams: the site would take what draws them from the network
        *("", "console", "py", "python", "sql", "toml", *titled)
    }


def test_the_page_on_joins_says_what_they_do(spark: SparkSession, location: str) -> None:
    names = {"__name__": "__main__"}
    exec(code(ROOT / "docs" / "joins.md"), names)
    store = dp.Store(spark, location, names["shop"])
    amounts = "SELECT * FROM VALUES (1L, 10L), (1L, 5L), (3L, 7L) AS t(customer_id, amount)"
    store.update(
        {
            "web": spark.sql(amounts),
            "till": spark.sql("SELECT 3L AS customer_id, 1L AS amount"),
            "customers": spark.sql("SELECT explode(array(1L, 2L)) AS customer_id, 'x' AS name"),
        }
    )
    found = {
        stage: [row[:-1] for row in sorted(store.content(stage).drop("_ordinal").collect())]
        for stage in ("inner", "left_outer", "full_outer", "without_sales")
    }
    assert found == {
        "inner": [(1, "x", 15)],
        "left_outer": [(1, "x", 15), (2, "x", None)],
        "full_outer": [(1, "x", 15), (2, "x", None), (3, None, 8)],
        "without_sales": [(2, "x")],
    }


@long
def test_the_flights_example_equals_its_recompute(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    flights = example("01_flights.py")
    recorded = flights.recorded_flights()
    day, first, last = pc.field("day"), datetime.date(2013, 11, 28), datetime.date(2013, 12, 20)
    some_weeks = recorded.filter((day >= first) & (day <= last))
    assert len(some_weeks) > Limits().small_table_rows
    assert flights.run(spark, Path("lake"), Console(quiet=True), some_weeks)
