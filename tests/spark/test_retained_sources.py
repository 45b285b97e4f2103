"""Sources that keep some partitions, in Spark: the same laws as in `tests/local`."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any, Literal

import pyarrow as pa
import pytest
import test_local_retained_sources
from comparing import as_frames, assert_same
from forcing import WAYS, Way, forced
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from selecting import long
from test_local_retained_sources import kept
from test_local_windows import history
from travelling import travelling

import deltaproduce as dp
from deltaproduce.engines.spark.kernels.ranges import rows_outside, rows_within, without_mark
from deltaproduce.model.partitions import day_number, partitioning
from deltaproduce.testing import Oracle
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import (
    DateType,
    LongType,
    ShortType,
    TimestampNTZType,
    TimestampType,
)

SOURCES = ("times", "bare", "seqs", "late")
HISTORIES = (200, 202, 203, 204, 205, 207, 208)
"""Those in which rows leave within five versions."""


@long
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
@pytest.mark.parametrize("expire", ["forget", "delete"])
def test_versions_equal_the_oracle(
    spark: SparkSession, location: str, way: Way, expire: Literal["delete", "forget"]
) -> None:
    """Rows that left are deleted, or what was made of them stays; see `tests/local`."""
    pipeline = kept(expire, SOURCES)
    oracle = Oracle(pipeline)
    names = {source.name for source in pipeline.graph().sources}
    with travelling(test_local_retained_sources), forced(way):
        store = dp.Store(spark, location, pipeline, table_type=way.table_type)
        for batch, told in history(HISTORIES[WAYS.index(way) % len(HISTORIES)])[:5]:
            batch = {name: changes for name, changes in batch.items() if name in names}
            told = {name: given for name, given in told.items() if name != "partitions"}
            version = store.update(as_frames(spark, pipeline, batch), **told)
            assert version.number == oracle.update(batch, **told)
            assert_same(store, oracle, pipeline, version.number)
        assert sum(
            figures.rows_expired
            for version in store.versions()
            for figures in version.stages.values()
        )
        assert store.verify(recompute=True) == ()


def test_both_engines_find_the_rows_before_a_value(spark: SparkSession) -> None:
    """Nulls are outside, and the first moment of a day is not before it."""
    schema = "n long, day date, at timestamp, bare timestamp_ntz, small smallint, big bigint"
    moments = [
        *(datetime(2013, 3, 4), datetime(2013, 3, 3, 23, 59, 59, 999999)),
        *(datetime(1, 1, 1, 12), datetime(9999, 12, 30), datetime(1969, 12, 31)),
    ]
    number = day_number(date(2013, 3, 4))
    rows = [
        (n, at.date(), at.replace(tzinfo=UTC), at, k, k * 10**14)
        for n, (at, k) in enumerate(zip(moments, [number, -3, 0, 7, -30_000], strict=True))
    ]
    frame = spark.createDataFrame([*rows, (9, None, None, None, None, None)], schema)
    frame = frame.withColumn("mark", f.col("n") < 4)
    table = frame.toArrow()
    for name, data_type, first in (
        *(("day", DateType(), number), ("at", TimestampType(), number)),
        *(("bare", TimestampNTZType(), number), ("small", ShortType(), number)),
        *(("big", LongType(), 0), ("small", ShortType(), -40_000)),
    ):
        column = Column(name, data_type)
        partitions = partitioning(data_type.simpleString(), None)
        assert partitions is not None
        gone = partitions.values_before(first)
        inside = before(name, table, first)
        for found in (frame, table):
            assert numbers(rows_within(found, column, gone)) == inside, name
            assert numbers(rows_outside(found, column, gone)) == {*range(5), 9} - inside, name
            marked = without_mark(found, "mark", column, gone)
            still = marked.where("mark") if found is frame else marked.filter(marked["mark"])
            assert numbers(still) == {*range(4)} - inside, name


def before(name: str, table: pa.Table, first: int) -> set[int]:
    """The numbers of the rows whose value is before a day, or a whole number."""
    value = (
        first
        if name in ("small", "big")
        else date.fromordinal(date(1970, 1, 1).toordinal() + first)
    )
    found = set()
    for n, at in zip(table["n"].to_pylist(), table[name].to_pylist(), strict=True):
        if at is not None and (at.date() if isinstance(at, datetime) else at) < value:
            found.add(n)
    return found


def numbers(rows: Any) -> set[int]:
    if isinstance(rows, pa.Table):
        return set(rows["n"].to_pylist())
    return {row.n for row in rows.select("n").collect()}
