"""Workloads: the competitors' job, as values that do not depend on any competitor.

A workload is a pipeline, its rows and changes, and the right answer as DataFrame queries. Every row
is a function of its number and the step's number, so all competitors get the same rows in whatever
order they run, and the right contents of tables can be computed without any competitor.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import deltaproduce as dp

Function = Callable[..., Iterator[Any]]
Rows = Callable[[SparkSession, int], DataFrame]


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a workload.

    Attributes:
        columns: all columns; all competitors store them.
        key: the stage's key columns; a feed lists changes by them.
        row: the columns that identify one row; tables are sorted by them.
    """

    columns: tuple[str, ...]
    key: tuple[str, ...]
    row: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """A pipeline with its data and its right answer.

    Attributes:
        what: its description, in a sentence for the report.
        pipeline: returns the definition; another edition counts as an edited function, and does the
            same.
        tables: the source that changes, the other sources, and the stages, in order.
        derived: a stage's rows as a query over the rows of its `feeders`, in their order: what a
            full recompute does.
        rows: the first load, of this number of source rows.
        changes: one step's changes: for a number of rows in all, a number of keys, and the step's
            number. Each step takes other keys. The source's columns and ``_change_type``.
        still: sources that are loaded once and do not change, and their rows.
        aggregated: returns a definition of the same tables with `Pipeline.aggregate` instead of
            functions, if the workload has one.
        queried: returns a definition of the same tables as SQL views, if the workload has one.
        checked: returns the definition with checks, if the workload has some.
        queries: the stages of `derived` in the SQL of DuckDB, over ``{feeder}``, if it takes part.
    """

    name: str
    what: str
    pipeline: Callable[[int], dp.Pipeline]
    tables: Mapping[str, Table]
    derived: Callable[..., DataFrame]
    rows: Rows
    changes: Callable[[SparkSession, int, int, int], DataFrame]
    still: Mapping[str, Rows] = field(default_factory=dict)
    aggregated: Callable[[], dp.Pipeline] | None = None
    queried: Callable[[], dp.Pipeline] | None = None
    checked: Callable[[], dp.Pipeline] | None = None
    queries: Mapping[str, str] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """The name of the source that changes."""
        return next(iter(self.tables))

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages' names, in order."""
        return tuple(self.tables)[1 + len(self.still) :]

    def feeders(self, stage: str) -> tuple[str, ...]:
        """Return a stage's feeders: all sources for the first one, the stage before for others."""
        place = self.stages.index(stage)
        return (self.stages[place - 1],) if place else (self.source, *self.still)

    def loaded(self, spark: SparkSession, count: int) -> dict[str, DataFrame]:
        """Return the first load: the rows of every source."""
        every = {self.source: self.rows, **self.still}
        return {
            name: rows(spark, count).select(*self.tables[name].columns)
            for name, rows in every.items()
        }


@dataclass(frozen=True, slots=True)
class Batch:
    """One step's changes by number: how many keys, and which step."""

    keys: int
    step: int


def edition(number: int) -> Callable[[Function], Function]:
    """Return a decorator that keeps a function, but marks it as edited for each number but 0."""

    def edited(function: Function) -> Function:
        if number == 0:
            return function

        @functools.wraps(function)
        def call(key: Any, *values: Iterator[Any], _edition: int = number) -> Iterator[Any]:  # noqa: ANN401
            return function(key, *values)

        return call

    return edited


def picked(spark: SparkSession, count: int, keys: int, step: int) -> DataFrame:
    """Return ``keys`` ids below ``count``, spread evenly, others each step, numbered as ``n``."""
    spread = max(1, count // keys)
    offset = (step * 7919) % spread
    return spark.range(keys).select(
        (f.col("id") * spread + offset).alias("id"), f.col("id").alias("n")
    )


def source_rows(
    workload: Workload, spark: SparkSession, count: int, batches: Sequence[Batch]
) -> dict[str, DataFrame]:
    """Return all sources' rows after some steps, from the definition of rows and changes alone."""
    table = workload.tables[workload.source]
    sources = workload.loaded(spark, count)
    if not batches:
        return sources
    steps = [
        workload.changes(spark, count, batch.keys, batch.step)
        .select(*table.columns, "_change_type")
        .withColumn("_step", f.lit(number))
        for number, batch in enumerate(batches)
    ]
    changes = functools.reduce(DataFrame.union, steps)
    last = changes.groupBy(*table.key).agg(f.max("_step").alias("_step"))
    upserts = changes.join(last, [*table.key, "_step"]).where("_change_type = 'upsert'")
    kept = sources[workload.source].join(last, list(table.key), "left_anti")
    now = kept.select(*table.columns).union(upserts.select(*table.columns))
    return {**sources, workload.source: now}


def answers(workload: Workload, sources: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Return the rows of every table, from the sources'."""
    found = dict(sources)
    for stage in workload.stages:
        feeders = workload.feeders(stage)
        found[stage] = workload.derived(stage, *(found[feeder] for feeder in feeders))
    return found


def truly_changed(
    workload: Workload, before: Mapping[str, DataFrame], after: Mapping[str, DataFrame]
) -> dict[str, int]:
    """Return how many keys and rows of the last stage differ, from the sources before and after."""
    last = workload.stages[-1]
    old, new = (answers(workload, sources)[last] for sources in (before, after))
    rows = old.exceptAll(new).union(new.exceptAll(old))
    return counted(workload, rows)


def counted(workload: Workload, rows: DataFrame) -> dict[str, int]:
    """Return how many rows the last stage has, and how many keys."""
    key = f.struct(*workload.tables[workload.stages[-1]].key)
    found = rows.agg(f.count("*").alias("rows"), f.countDistinct(key).alias("keys")).collect()[0]
    return {"rows": found["rows"], "keys": found["keys"]}


def digest(rows: DataFrame) -> tuple[int, int]:
    """Return the number of rows and a sum of their hashes: equal for equal multisets of rows."""
    hashed = rows.select(f.xxhash64(*rows.columns).cast("decimal(38,0)").alias("hash"))
    found = hashed.agg(f.count("*").alias("rows"), f.sum("hash").alias("hashes")).collect()[0]
    return found["rows"], int(found["hashes"] or 0)
