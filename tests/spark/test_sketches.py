"""Sketches of both engines: each reads the other's sketches, and makes the same."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from comparing import as_frames, assert_same
from forcing import WAYS, Way, forced
from local_stores import assert_refreshed
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from selecting import long
from test_local_ordered import history
from test_local_sketches import STAGES, site

import deltaproduce as dp
from deltaproduce.stages.sql.states.functions.sketches.distinct import DistinctSketch
from deltaproduce.stages.sql.states.functions.sketches.quantiles import (
    QuantilesSketch,
    approx_percentile,
)
from deltaproduce.stages.sql.states.functions.sketches.sketch import Sketch
from deltaproduce.testing import Oracle
from deltaproduce.types import data_types as t
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.ddl import struct_from_ddl

SIZE = 1_000
START = datetime(1969, 12, 30, tzinfo=UTC)
VALUES: dict[str, list[Any]] = {
    "tinyint": [n % 256 - 128 for n in range(SIZE)],
    "int": [(n - 500) * 4_000_000 for n in range(SIZE)],
    "bigint": [(n - 500) * 2**53 for n in range(SIZE)],
    "boolean": [n % 2 == 0 for n in range(SIZE)],
    "decimal(4,1)": [Decimal(n - 500).scaleb(-1) for n in range(SIZE)],
    "decimal(18,18)": [Decimal(n - 500).scaleb(-18) for n in range(SIZE)],
    "date": [date(1968, 1, 1) + timedelta(days=n) for n in range(SIZE)],
    "timestamp": [START + timedelta(microseconds=n, hours=n) for n in range(SIZE)],
    "string": ["", *(f"ü{n}" for n in range(1, SIZE))],
    "binary": [b"", *(bytes([n % 256, 255, n // 256]) for n in range(1, SIZE))],
}
MOMENTS_AND_NUMBERS = [ddl for ddl in VALUES if ddl not in ("boolean", "string", "binary")]
FEW = 100


def data_type(ddl: str) -> t.DataType:
    return struct_from_ddl(f"x {ddl}")["x"].dataType


def here(measure: Sketch, values: list[Any]) -> bytes:
    """The sketch of some values as it is made on the driver."""
    array, size = pa.array(values, arrow_type(measure.of)), len(values)
    (state,) = measure.here(array, np.ones(size, np.int64), np.zeros(size, np.int64), 1)
    return bytes(state.as_py())


def in_spark(spark: SparkSession, measures: dict[str, Sketch], size: int) -> dict[str, bytes]:
    """The same of the first values of each type, and nulls among them, as Spark makes it."""
    columns = [VALUES[ddl][:size] for ddl in measures]
    names = [f"x{n}" for n in range(len(measures))]
    schema = ", ".join(f"{name} {ddl}" for name, ddl in zip(names, measures, strict=True))
    rows = spark.createDataFrame([*zip(*columns, strict=True), (None,) * len(names)], schema)
    found = (m.in_spark(f.col(x), f.lit(1)) for x, m in zip(names, measures.values(), strict=True))
    states = rows.agg(*(state for state in found if state is not None)).first()
    assert states is not None
    return dict(zip(measures, map(bytes, states), strict=True))


def merged_in_spark(
    spark: SparkSession, measures: dict[str, Sketch], *parts: dict[str, bytes]
) -> dict[str, bytes]:
    """What Spark makes of several states of each."""
    names = [f"x{n}" for n in range(len(measures))]
    rows = [tuple(bytearray(part[ddl]) for ddl in measures) for part in parts]
    states = spark.createDataFrame(rows, ", ".join(f"{name} binary" for name in names))
    some = zip(names, measures.values(), strict=True)
    found = states.agg(*(m.added_in_spark(f.col(x), f.lit(1)) for x, m in some)).first()
    assert found is not None
    return dict(zip(measures, map(bytes, found), strict=True))


@pytest.mark.parametrize("size", [5, SIZE])
def test_sketches_of_distinct_values_are_the_same(spark: SparkSession, size: int) -> None:
    """Small ones and large ones; and Spark merges those of the driver with its own."""
    measures: dict[str, Sketch] = {ddl: DistinctSketch(0, data_type(ddl), 12) for ddl in VALUES}
    mine = {ddl: here(measure, VALUES[ddl][:size]) for ddl, measure in measures.items()}
    sparks = in_spark(spark, measures, size)
    both = merged_in_spark(spark, measures, mine, sparks)
    for ddl, measure in measures.items():
        assert measure.merge([sparks[ddl]]) == mine[ddl], ddl
        assert measure.merge([both[ddl]]) == mine[ddl], ddl


def test_sketches_of_quantiles_are_the_same_where_they_are_exact(spark: SparkSession) -> None:
    """Spark merges those of the driver with its own."""
    measures: dict[str, Sketch] = {d: QuantilesSketch(0, data_type(d)) for d in MOMENTS_AND_NUMBERS}
    mine = {ddl: here(measure, VALUES[ddl][:FEW]) for ddl, measure in measures.items()}
    sparks = in_spark(spark, measures, FEW)
    both = merged_in_spark(spark, measures, mine, sparks)
    for ddl, measure in measures.items():
        assert measure.merge([sparks[ddl]]) == mine[ddl], ddl
        assert measure.merge([both[ddl]]) == measure.merge([mine[ddl]] * 2), ddl


def test_quantiles_of_many_values_in_spark_keep_to_their_error(spark: SparkSession) -> None:
    """Twice of what is stated, since 99 of 100 keep to that."""
    measures: dict[str, Sketch] = {d: QuantilesSketch(0, data_type(d)) for d in MOMENTS_AND_NUMBERS}
    for ddl, state in in_spark(spark, measures, SIZE).items():
        planned = approx_percentile(0.5)(0, measures[ddl].of)
        assert planned is not None
        (median,) = planned.finish([pa.array([state])]).to_pylist()
        values = sorted(VALUES[ddl])
        assert values[SIZE // 2 - 27] <= median <= values[SIZE // 2 + 27], ddl


@long
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_versions_equal_the_oracle(spark: SparkSession, location: str, way: Way) -> None:
    """What is stored, sketches too, is what a refresh makes."""
    pipeline = site(("n", "x", "day", "at", "t"))
    oracle = Oracle(pipeline)
    with forced(way):
        store = dp.Store(spark, location, pipeline, table_type=way.table_type)
        for batch in history(500 + WAYS.index(way))[:4]:
            version = store.update(as_frames(spark, pipeline, batch))
            assert version.number == oracle.update(batch)
            assert_same(store, oracle, pipeline, version.number)
        assert_refreshed(store, STAGES)
        assert store.verify(recompute=True) == ()
