"""First loads of views in Spark: rows, their numbers and figures are those of the driver."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from counting import jobs
from pyspark.sql import SparkSession
from selecting import long

import deltaproduce as dp
from benchmarks.tpch import first_loads
from benchmarks.tpch.queries import queries
from benchmarks.tpch.report import markdown
from benchmarks.tpch.results import Run
from benchmarks.tpch.rows import Rows

IN_SPARK = dp.Limits(local_rows=0, local_bytes=0)
QUERIES = {
    "groups": "SELECT a, count(*) AS n, sum(b) AS s FROM t GROUP BY a ORDER BY a DESC",
    "some_groups": "SELECT a, max(b) AS m FROM t GROUP BY a HAVING count(*) > 1 ORDER BY m, a",
    "by_quotient": "SELECT a, count(*) AS n FROM t GROUP BY a ORDER BY count(*) % 2, a",
    "different": "SELECT DISTINCT a, b FROM t ORDER BY b",
    "all_rows": "SELECT a FROM t ORDER BY a",
    "in_order": "SELECT a, k FROM t ORDER BY b DESC, k",
    "whole": "SELECT count(*) AS n, sum(b) AS s FROM t",
    "levels": "SELECT a, count(*) AS n FROM t GROUP BY ROLLUP (a) ORDER BY a",
    "first_ones": "SELECT a, b FROM t ORDER BY b DESC, a LIMIT 4",
    "counts": "SELECT n, count(*) AS c FROM (SELECT a, count(*) AS n FROM t GROUP BY a) "
    "GROUP BY n ORDER BY n",
    "twice": "SELECT t.a, g.n FROM t JOIN (SELECT a, count(*) AS n FROM t GROUP BY a) g "
    "ON g.a = t.a ORDER BY g.n DESC",
}
KEYS = {"in_order": "a", "twice": "a"}
"""The queries whose key is named, and has several rows."""


def pipeline(queries: Mapping[str, str]) -> dp.Pipeline:
    made = dp.Pipeline("loads")
    made.source("t", key="k bigint", value="a bigint, b bigint")
    for name, text in queries.items():
        made.sql(name, text, KEYS.get(name))
    return made


def rows(random: Random) -> list[dict[str, Any]]:
    """Few values, and some nulls."""
    values = [None, 1, 2, 3]
    return [{"k": k, "a": random.choice(values), "b": random.choice(values)} for k in range(20)]


def listed(found: Any) -> list[str]:
    """Rows with the numbers of those of a key."""
    table = found.toArrow() if hasattr(found, "toArrow") else found
    names = sorted(table.column_names)
    return sorted(map(repr, table.select(names).to_pylist()))


def test_spark_loads_what_the_driver_loads(
    spark: SparkSession, tmp_path: Path, long_run: bool
) -> None:
    """The content with its numbers, the updates, the figures; later changes are found in both.

    A short run has a query of groups, of rows in an order, of a hidden table, and of one joined.
    """
    names = [*QUERIES] if long_run else ["some_groups", "in_order", "counts", "twice"]
    random, made = Random(3), pipeline({name: QUERIES[name] for name in names})
    first, more = rows(random), rows(random)[5:9]
    with (
        dp.Store(None, str(tmp_path / "driver"), made) as driver,
        dp.Store(spark, str(tmp_path / "spark"), made, limits=IN_SPARK) as in_spark,
    ):
        for changes in (first, more):
            figures = [one.update({"t": changes}).stages for one in (driver, in_spark)]
            for name in names:
                assert listed(in_spark.content(name)) == listed(driver.content(name)), name
                mine, theirs = (one[name] for one in figures)
                assert (mine.rows, mine.keys) == (theirs.rows, theirs.keys), name
                assert mine.changed_keys == theirs.changed_keys, name
                assert listed(in_spark.updates(name)) == listed(driver.updates(name)), name


@pytest.mark.parametrize(
    ("name", "most"),
    [("groups", 8), ("counts", 11)],
    ids=["without hidden tables", "with one"],
)
def test_jobs_of_a_first_load(spark: SparkSession, location: str, name: str, most: int) -> None:
    """Spark computes rows once, and writes each table; nothing is sorted or counted before.

    A view reads its hidden table, and not the rows that this is made of. Three of the jobs list the
    files of the source, which nobody has read in Spark before.
    """
    with dp.Store(None, location, pipeline({})) as store:
        store.update({"t": rows(Random(3))})
    with dp.Store(spark, location, pipeline({name: QUERIES[name]}), limits=IN_SPARK) as store:
        before = jobs(spark)
        store.refresh(name)
        assert jobs(spark) - before <= most


@long
def test_the_benchmark_checks_first_loads_and_counts_their_jobs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours have no more jobs than Spark's inserts, beside writing the updates of the view."""
    monkeypatch.setattr(first_loads, "LOADS", 1)
    rows, run = Rows(tmp_path / "rows", 0.001), Run("", 0.001, ("ours",), ("q01", "q16"))
    rows.prepare()
    texts = {name: queries(0.001)[name] for name in run.queries}
    place = tmp_path / "store"
    for name, found in first_loads.in_session(spark, rows, place, texts, run.wrong):
        run.first_loads[name] = found
        jobs_of_both = found.medians(lambda load: load.jobs)
        assert 0 < jobs_of_both[0] <= jobs_of_both[1] + 2, name
    assert run.wrong == []
    assert [one.hidden for one in run.first_loads.values()] == [0, 1]
    text = markdown(run)
    assert "\n## First loads in Spark\n" in text
    assert "| q16 | 1 |" in text
    assert "first loads in Spark over inserts" in text
