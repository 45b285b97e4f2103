"""What the README and the examples say, run: their code is the code that is shown."""

import datetime
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

import deltaproduce as dp
from deltaproduce import limits

ROOT = Path(__file__).parents[2]


def example(name: str) -> ModuleType:
    """An example as a module that workers do not look for: its functions travel by value."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_readme_prints_what_it_shows(
    spark: SparkSession, location: str, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    shown = re.search(r"```\n(\+--.*?)```", readme, re.DOTALL)
    assert len(blocks) == 5
    assert shown is not None
    names = {"__name__": "__main__"}
    for block in blocks:
        exec(block.replace("lake/library", location), names)
    assert shown.group(1) in capsys.readouterr().out


def test_the_page_on_joins_says_what_they_do(spark: SparkSession, location: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "joins.md").read_text(), re.DOTALL)
    names = {"__name__": "__main__"}
    for block in blocks:
        exec(block, names)
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
        stage: [row[1:] for row in sorted(store.content(stage).drop("_ordinal").collect())]
        for stage in ("inner", "left_outer", "full_outer", "without_sales")
    }
    assert found == {
        "inner": [(1, "x", 15)],
        "left_outer": [(1, "x", 15), (2, "x", None)],
        "full_outer": [(1, "x", 15), (2, "x", None), (3, None, 8)],
        "without_sales": [(2, "x")],
    }


@pytest.mark.parametrize(
    "page",
    [
        "arrow",
        "batches",
        "surrogates",
        "consumers",
        "changed-definitions",
        "delta-sources",
        "streams",
        "retention",
        "verification",
    ],
)
def test_a_page_prints_what_it_shows(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], page: str
) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    names, printed = {"__name__": "__main__"}, ""
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        if language == "python":
            exec(block.replace("lake/", f"{tmp_path}/"), names)
            printed += capsys.readouterr().out
        else:
            _, found, printed = printed.partition(block)
            assert found == block, f"{page} shows {block!r}; then was printed: {printed!r}"


def test_the_word_count_is_the_readmes(
    spark: SparkSession, location: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = ROOT / "examples" / "02_word_count.py"
    text = path.read_text()
    assert len(text.splitlines()) < 40
    first_block = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    definitions = first_block.split("spark = ")[0].split("import deltaproduce as dp\n")[1]
    assert definitions.strip() in text
    example(path.name).main(spark, location)
    assert "|       2|      delete| let|" in capsys.readouterr().out


def test_the_flights_example_equals_its_recompute(spark: SparkSession, tmp_path: Path) -> None:
    flights = example("01_flights.py")
    recorded = flights.recorded_flights()
    day, first, last = pc.field("day"), datetime.date(2013, 11, 28), datetime.date(2013, 12, 20)
    some_weeks = recorded.filter((day >= first) & (day <= last))
    assert len(some_weeks) > limits.SMALL_TABLE_ROWS
    assert flights.run(spark, tmp_path, Console(quiet=True), some_weeks)
