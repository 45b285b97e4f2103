"""Keys, values and names that break literals and quoting, on every path that a key takes.

One store, at a location that needs quoting too, has a chain of stages (`odd_columns`). The oracle
checks the tables. A short run has it without a session (`tests/local`), and here the predicates
alone: random values of every type, selected from a Delta table.
"""

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from comparing import as_frames, assert_same
from forcing import WAYS, forced, setting
from odd_columns import NAMES, TYPES, batches, odd
from pyspark.sql import SparkSession
from selecting import long
from series import drawn

from deltaproduce import Store
from deltaproduce.engines.choice import Engines
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.data_types import frame_struct, in_spark
from deltaproduce.engines.spark.frames import fetched
from deltaproduce.engines.spark.predicates import HASH, hash_sql, literal, membership
from deltaproduce.model.limits import Limits
from deltaproduce.testing import Oracle, plain, strategies
from deltaproduce.types import data_types as t
from deltaproduce.types.columns import Column, Columns
from deltaproduce.types.data_types import type_of
from deltaproduce.types.ddl import identifier

(REPLACED,) = (way for way in WAYS if way.name == "replaced")


@long
@pytest.mark.parametrize("width", [1, 7])
def test_odd_keys_and_names_at_every_stage(spark: SparkSession, tmp_path: Path, width: int) -> None:
    """Types one by one, or by seven."""
    pipeline, oracle = odd(width), Oracle(odd(width))
    place = str(tmp_path / "a 'store' %20 größe {x} [1]*")
    store = Store(spark, place, pipeline, table_type=REPLACED.table_type)
    for number, batch in enumerate(batches(), start=1):
        with forced(REPLACED):
            version = store.update(as_frames(spark, pipeline, {NAMES[0]: batch}))
        assert version.number == oracle.update({NAMES[0]: batch}) == number
    assert {version.stages[stage.name].mode for stage in pipeline.stages} == {"seek"}
    for number in (1, 2):  # others misread the names
        assert_same(store, oracle, pipeline, number, in_spark=True)


# ---- predicates

DRAWN = [type_of(data_type) for data_type, _ in TYPES] + [
    *(t.DecimalType(38, 0), t.DecimalType(38, 38), t.DecimalType(9, 2), t.DecimalType(1, 1)),
]
COLUMNS = [Column(f"c.{i}", data_type) for i, data_type in enumerate(DRAWN)]


def test_predicates_select_their_keys_from_a_table(
    spark: SparkSession, location: str, long_run: bool
) -> None:
    """Keys of one column of each type and of all columns; in a long run also of each two."""
    rows = drawn(strategies.values(Columns(tuple(COLUMNS))), 60, 1)
    fields = [t.StructField("n", t.IntegerType())]
    fields += [t.StructField(c.name, c.data_type) for c in COLUMNS]
    frame = spark.createDataFrame(
        [(n, *row) for n, row in enumerate(rows)], in_spark(t.StructType(fields))
    )
    frame.repartitionByRange(4, identifier("c.0")).write.format("delta").save(location)
    table = spark.read.format("delta").load(location)

    groups = [(column,) for column in COLUMNS]
    if long_run:
        groups += [tuple(COLUMNS[i : i + 2]) for i in range(0, len(COLUMNS) - 1, 2)]
    groups += [tuple(reversed(COLUMNS))]
    hashes = [f"{hash_sql([c.name for c in g])} AS h{i}" for i, g in enumerate(groups)]
    keys = table.selectExpr("*", *hashes).toArrow()
    wanted = pc.equal(pc.bit_wise_and(keys.column("n"), 1), 0)
    even = keys.filter(wanted)
    query, expected = None, set()
    for i, group in enumerate(groups):
        names = [column.name for column in group]
        chosen = even.select(names).append_column(HASH, even.column(f"h{i}"))
        found = table.where(membership(group, chosen)).selectExpr(f"{i} AS i", "n")
        query = found if query is None else query.union(found)
        positions = [COLUMNS.index(column) for column in group]
        parts = [plain(tuple(row[p] for p in positions)) for row in rows]
        asked = {part for n, part in enumerate(parts) if n % 2 == 0}
        expected |= {(i, n) for n, part in enumerate(parts) if part in asked}
    found = {tuple(row) for row in query.collect()}
    assert expected <= found
    for i, n in found - expected:  # Spark's hash leaves nulls out, so it may be that of another key
        column = f"h{i}"
        assert keys.filter(pc.equal(keys.column("n"), n)).column(column)[0] in even.column(column)
    nothing = table.where(membership(COLUMNS[:1], even.slice(0, 0)))
    assert nothing.isEmpty()


@pytest.mark.parametrize(
    "data_type", [pytest.param(t.DateType(), marks=long), t.TimestampType()], ids=str
)
def test_days_between_two_calendars_are_found(
    spark: SparkSession, location: str, data_type: t.DataType, long_run: bool
) -> None:
    """Each is in a file of its own, which Spark itself leaves out when it looks for that day.

    A short run looks for every third.
    """
    column = Column("moment", data_type)
    first = (date(1582, 10, 1) - date(1970, 1, 1)).days
    moment = f"timestamp_seconds(({first} + id) * 86400)"
    rows = spark.range(0, 20, 1, 20).selectExpr(
        f"CAST({moment} AS {data_type.simpleString()}) AS moment"
    )
    with setting(spark, "spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS"):
        rows.write.parquet(location)
    table = spark.read.parquet(location)
    keys = fetched(table, [column])
    assert len(keys) == 20
    for n in range(0, 20, 1 if long_run else 3):
        sought = Selection((column,), keys.slice(n, 1), Engines(spark, Limits()))
        found = fetched(sought.rows_of(table), [column])
        assert found.to_pylist() == keys.slice(n, 1).to_pylist()


def test_literals_have_exactly_their_value_and_type(spark: SparkSession) -> None:
    rows = drawn(strategies.values(Columns(tuple(COLUMNS))), 200, 2)
    struct = in_spark(t.StructType([t.StructField(c.name, c.data_type) for c in COLUMNS]))
    given = spark.createDataFrame(rows, struct).toArrow()
    texts, expected = [], []
    for column in COLUMNS:
        values = given.column(column.name).drop_null().unique()
        literals = [literal(value, column.data_type) for value in values]
        kept = [i for i, text in enumerate(literals) if text is not None]
        assert len(kept) > 1
        expected.append(values.take(pa.array(kept)))
        texts.append(f"array({', '.join(text for text in literals if text)})")
    found = spark.range(1).selectExpr(*texts)
    assert [field.dataType.elementType for field in frame_struct(found)] == DRAWN
    for made, values in zip(found.toArrow().columns, expected, strict=True):
        assert made.combine_chunks().flatten().equals(values)
