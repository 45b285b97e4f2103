"""The command with the engine Spark reads and prints the same as without Spark."""

import json
from pathlib import Path
from typing import Any

import pytest
from file_cases import CASES, Case
from pyspark.sql import SparkSession
from selecting import long
from typer.testing import CliRunner

import deltaproduce as dp
from deltaproduce.cli.app import application
from deltaproduce.cli.inputs.files import digests, files_of
from deltaproduce.cli.inputs.given import RunInput
from deltaproduce.cli.inputs.given import rows as rows_of
from deltaproduce.projects.file import ProjectFile, read

FILE = """
[project]
name = "shop"
pipeline = "sessions_shop:shop"
store = "lake/shop"
engine = "spark"

[sources.orders]
format = "csv"
path = "orders"
mode = "changes"

[sources.customers]
format = "{form}"
path = "{path}"
mode = "snapshot"
"""
PIPELINE = """
import deltaproduce as dp

shop = dp.Pipeline("shop")
shop.source("orders", key="order_id bigint", value="customer_id bigint, amount decimal(12,2)")
shop.source("customers", key="customer_id bigint", value="name string, since date")


def named(customer_id, rows):
    for row in rows:
        yield customer_id, row.name


shop.producer("customers", key="customer_id bigint", value="name string")(named)
"""
CUSTOMERS = "name;customer_id;since\nAnn;1;2026-01-02\n-;2;-\n"


def asked(*args: str) -> Any:
    result = CliRunner().invoke(application(args), [*args, "--json"])
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


def test_snapshots_are_read_by_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    file = FILE.format(form="csv", path="customers.csv")
    Path("deltaproduce.toml").write_text(file + 'delimiter = ";"\nnull = "-"\n')
    Path("sessions_shop.py").write_text(PIPELINE)
    Path("customers.csv").write_text(CUSTOMERS)
    Path("orders").mkdir()
    Path("orders/1.csv").write_text("order_id,customer_id,amount\n1,1,2.50\n")
    assert asked("run")["version"]["number"] == 1
    expected = [(1, "Ann", "2026-01-02"), (2, None, None)]
    rows = asked("show", "customers")["rows"]
    assert [(row["customer_id"], row["name"], row["since"]) for row in rows] == expected
    assert asked("show", "named", "2")["rows"][0]["name"] is None
    assert asked("show", "named", "--limit", "1")["truncated"] is True
    assert asked("lineage", "named", "1")["upstream"]["customers"]["keys"] == [{"customer_id": 1}]
    customers = "SELECT 2L AS customer_id, 'Bob' AS name, DATE'2026-01-03' AS since"
    spark.sql(customers).write.format("delta").save(str(tmp_path / "table"))
    Path("deltaproduce.toml").write_text(FILE.format(form="delta", path="table"))
    assert asked("run")["version"]["number"] == 2
    (row,) = asked("show", "customers")["rows"]
    assert (row["name"], row["since"]) == ("Bob", "2026-01-03")
    found = {one["name"]: one["state"] for one in asked("doctor", "--session")}
    assert (found["Spark session"], found["Java"], found["pyspark"]) == ("ok", "ok", "ok")


def _project(folder: Path, cases: dict[str, Case], mode: str) -> ProjectFile:
    """Write a project with a source for each case, and its file."""
    module = f"files_{folder.name}"
    text = f'[project]\nname = "p"\npipeline = "{module}:p"\nlocation = "./lake"\n'
    text += 'engine = "spark"\n'
    declared = ["import deltaproduce as dp", 'p = dp.Pipeline("p")']
    for name, case in cases.items():
        declared.append(f"p.source({name!r}, key={case.key!r}, value={case.value!r})")
        (folder / name).write_bytes(case.data())
        text += f'[sources.{name}]\nformat = "{case.format}"\npath = "{name}"\nmode = "{mode}"\n'
    (folder / "deltaproduce.toml").write_text(text)
    (folder / f"{module}.py").write_text("\n".join(declared))
    return read(folder)


@long
@pytest.mark.parametrize("mode", ["snapshot", "changes"])
def test_files_mean_the_same_with_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The law of `tests/cli/test_files.py`, for the engine: good files, and each wrong one."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    good = {f"s{n}": case for n, case in enumerate(CASES) if case.rows is not None}
    _project(tmp_path, good, mode)
    assert asked("run")["version"]["number"] == 1
    for name, case in good.items():
        rows = asked("show", name)["rows"]
        assert [{k: row[k] for k in case.rows[0]} for row in rows] == case.rows
    wrong = {f"s{n}": case for n, case in enumerate(CASES) if case.rows is None}
    file = _project(tmp_path, wrong, mode)
    pipeline = dp.Pipeline("p")
    for name, case in wrong.items():
        pipeline.source(name, key=case.key, value=case.value)
    for name, case in wrong.items():
        digest = digests(files_of(file, file.inputs[name]))
        snapshots = (name,) if mode == "snapshot" else ()
        given = RunInput({name: digest} if mode == "changes" else {}, snapshots, None)
        with pytest.raises(dp.InvalidChangesError) as error:
            rows_of(file, pipeline, given, "UTC")
        found = error.value
        assert (found.source, found.line, found.column) == (name, case.line, case.column)
    assert "line" in CliRunner().invoke(application(["run"]), ["run"]).stderr
    assert asked("versions")[-1]["number"] == 1
