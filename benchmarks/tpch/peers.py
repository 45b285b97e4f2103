"""Recomputing the queries: in DuckDB from Parquet to Parquet, and in Spark from Delta to Delta.

Each query runs once to warm up, and is timed the second time.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.tpch.rows import Files, Rows, connected
from examples.tpch import Answer


@dataclass(frozen=True, slots=True)
class Recomputed:
    """One query of one peer: seconds, columns, and rows."""

    seconds: float
    columns: list[str]
    rows: Answer


def in_duckdb(rows: Rows, queries: Mapping[str, str]) -> dict[str, Recomputed]:
    """Recompute the queries over the rows as they are now."""
    found = {}
    with connected(rows.now, rows.temporary) as connection:
        for name, text in queries.items():
            file = rows.temporary / f"{name}.parquet"
            copy = f"COPY ({text}) TO '{file}' (FORMAT parquet)"
            seconds = _second(lambda: connection.execute(copy))  # noqa: B023
            made = connection.execute(f"FROM '{file}'")
            columns = [column[0] for column in made.description or ()]
            found[name] = Recomputed(seconds, columns, made.fetchall())
    return found


def in_spark(
    spark: SparkSession, place: Path, rows: Files, queries: Mapping[str, str]
) -> dict[str, Recomputed]:
    """Recompute the queries over Delta tables of some rows."""
    shutil.rmtree(place, ignore_errors=True)
    for name, file in rows.items():
        table = str(place / "tables" / name)
        spark.read.parquet(str(file)).write.format("delta").save(table)
        spark.read.format("delta").load(table).createOrReplaceTempView(name)
    found = {}
    for name, text in queries.items():
        target = str(place / "queries" / name)

        def write() -> None:
            made = spark.sql(text)  # noqa: B023
            made.write.format("delta").mode("overwrite").save(target)  # noqa: B023

        seconds = _second(write)
        made = spark.read.format("delta").load(target)
        found[name] = Recomputed(seconds, made.columns, [tuple(row) for row in made.collect()])
    return found


def _second(call: Callable[[], object]) -> float:
    """Call a function twice; return the seconds of the second call."""
    call()
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
