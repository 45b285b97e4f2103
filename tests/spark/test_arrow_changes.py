"""The driver and Spark describe the changes of a step the same way, row by row."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from forcing import setting
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from selecting import chosen
from series import drawn

from deltaproduce.engines.local.arrays import in_order
from deltaproduce.engines.local.engine import LocalEngine
from deltaproduce.engines.local.kernels import comparing as arrow_changes
from deltaproduce.engines.marks import AFTER, BEFORE, SIDE
from deltaproduce.engines.spark.data_types import in_spark
from deltaproduce.engines.spark.engine import SparkEngine
from deltaproduce.engines.spark.frames import fetched, frame
from deltaproduce.engines.spark.kernels import comparing as changes
from deltaproduce.engines.spark.kernels import in_tasks
from deltaproduce.model.layouts import Layout
from deltaproduce.model.limits import Limits
from deltaproduce.testing import plain_rows
from deltaproduce.testing.strategies import keys, values
from deltaproduce.types.atoms import arrow_schema
from deltaproduce.types.columns import POSITION_COLUMN, Column, row_schema
from deltaproduce.types.data_types import BooleanType, IntegerType, StructField, StructType

CASES = 60
KEY = "series int, d date desc, b binary"
VALUE = (
    "x double, y float, a decimal(38,10), t string, f boolean, moment timestamp, raw binary, "
    "tags map<string,array<string>>, s struct<i:int,t:string>"
)
SCHEMA = row_schema(KEY, VALUE, stage="made")
SOURCES = tuple(
    Column(f"_source_{c.name}", c.data_type, c.nullable, c.descending)
    for c in row_schema("n bigint desc, c string", "v int", stage="feeder").key
)


@st.composite
def cases(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Rows (key, source key, value, gone, side): some stay, some go, and some are new.

    Rows are new under source keys that are gone, and often those that were there before.
    """
    few = row_schema(KEY.partition(", ")[2], VALUE, stage="few")
    made = draw(st.lists(keys(few.key), min_size=1, max_size=3))
    origin = row_schema("n bigint, c string", "v int", stage="origin")
    origins = draw(st.lists(keys(origin.key), min_size=1, max_size=4, unique_by=repr))
    gone = draw(st.lists(st.booleans(), min_size=len(origins), max_size=len(origins)))
    row = st.tuples(
        st.sampled_from(made),
        st.sampled_from(range(len(origins))),
        draw(st.sampled_from([values(few.value), st.just(draw(values(few.value)))])),
    )
    before = draw(st.lists(row, max_size=8))
    new = [(k, o, v) for k, o, v in draw(st.lists(row, max_size=6)) if gone[o]]
    if draw(st.booleans()):
        new += [(k, o, v) for k, o, v in before if gone[o]]
    rows = [(k, origins[o], v, gone[o], BEFORE) for k, o, v in before]
    return rows + [(k, origins[o], v, True, AFTER) for k, o, v in new]


def packed(spark: SparkSession, *, with_sources: bool) -> DataFrame:
    columns = Layout(SCHEMA, SOURCES if with_sources else ()).content
    fields = [StructField(c.name, c.data_type) for c in columns]
    marks = [StructField("gone", BooleanType()), StructField(SIDE, IntegerType())]
    rows = []
    for number, case in enumerate(drawn(cases(), CASES, 0)):
        key_is_gone: dict[Any, bool] = {}
        for ordinal, (key, origin, value, gone, side) in enumerate(case):
            source = origin if with_sources else ()
            if not with_sources:  # the key itself is replaced or stays
                gone = key_is_gone.setdefault(key, gone)
                if side == AFTER and not gone:
                    continue
            rows.append((number, *key, *value, *source, ordinal, gone, side))
    return spark.createDataFrame(rows, in_spark(StructType([*fields, *marks])))


@pytest.mark.parametrize("with_sources", chosen([True, False], True))
def test_rows_are_compared_as_in_spark(
    spark: SparkSession, with_sources: bool, long_run: bool
) -> None:
    """Here and in tasks of Spark; in a short run in tasks that hold little."""
    sources = SOURCES if with_sources else ()
    layout = Layout(SCHEMA, sources)
    columns = layout.content
    rows = packed(spark, with_sources=with_sources).localCheckpoint()
    before = rows.where(f.col(SIDE) == BEFORE)
    new = rows.where(f.col(SIDE) == AFTER)
    stays = before.where(~f.col("gone")).withColumn(SIDE, f.lit(AFTER))
    in_spark = changes.compare(
        before.union(stays).union(new).drop("gone"), layout
    ).localCheckpoint()
    gone = fetched(before, [*columns, Column("gone", BooleanType())])
    here = arrow_changes.compare(
        gone.drop_columns(["gone"]),
        ~np.asarray(gone.column("gone")),
        fetched(new, columns),
        layout,
    )
    assert here.num_rows > CASES
    assert sorted(here.column_names) == sorted(in_spark.columns)
    assert_same(frame(here, spark).select(*in_spark.columns), in_spark)
    for part_bytes in (0, 1 << 20)[: 1 + long_run]:
        sides = f.when(rows[SIDE] == AFTER, AFTER).when(rows["gone"], BEFORE)
        marked = rows.withColumn(SIDE, sides.otherwise(in_tasks.BOTH)).drop("gone")
        found = in_tasks.compare(marked, layout, part_bytes).localCheckpoint()
        assert in_tasks.left(found, layout).isEmpty()
        assert_same(in_tasks.compared(found).select(*in_spark.columns), in_spark)
    updates = changes.updates(in_spark, layout)
    assert_same(frame(arrow_changes.updates(here, layout), spark).select(*updates.columns), updates)
    placed = here.select([*SCHEMA.key.names, SIDE, changes.POSITION])
    order = [*SCHEMA.key, Column(SIDE, IntegerType()), POSITION_COLUMN]
    assert in_order(placed, order).equals(placed)


def test_keys_of_more_rows_than_a_task_holds_are_compared(spark: SparkSession) -> None:
    """Large keys and small ones, of which some change, some go, some come and some stay.

    A large key has several batches of Arrow, and is more than twice what a task holds.
    """
    schema = row_schema("k int", "n int", stage="made")
    layout = Layout(schema, (Column("_source_i", IntegerType(), True),))
    rows = [
        (key, source, row % 2, row)
        for key, size in enumerate((3, 2_500, 1_200, 0, 1, 2_500, 7))
        for row in range(size)
        for source in (row // 2,)
    ]
    before = pa.table(list(zip(*rows, strict=True)), schema=arrow_schema(layout.content))
    gone = pa.table({"_source_i": pa.array([0, 1_100, 5_000], pa.int32())})
    new = before.filter(pc.is_in(before["_source_i"], gone["_source_i"]))
    new = new.filter(pc.not_equal(new["k"], 5))
    changed = pc.if_else(
        pc.equal(new["k"], 1), pc.add(new["n"], pa.scalar(1, pa.int32())), new["n"]
    )
    new = new.set_column(new.schema.get_field_index("n"), "n", changed)
    here = LocalEngine().compare(before, gone, new, layout)
    with setting(spark, "spark.sql.execution.arrow.maxRecordsPerBatch", "500"):
        there = SparkEngine(spark, Limits(task_bytes=1 << 17)).compare(before, gone, new, layout)
    assert there.counts == replace(here.counts, bytes=there.counts.bytes)
    assert there.counts.keys_changed == 2
    columns = sorted(there.rows.columns)
    assert columns == sorted(here.rows.column_names)
    assert_same(frame(here.rows, spark).select(*columns), there.rows.select(*columns))


def assert_same(one: DataFrame, other: DataFrame) -> None:
    found, expected = (sorted(map(repr, plain_rows(rows.collect()))) for rows in (one, other))
    assert found == expected
