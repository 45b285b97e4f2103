"""Structs of DataFrames are matched by the names of fields, as Arrow's are, at every depth."""

import random
from pathlib import Path
from typing import Any

import pytest
from deltalake import write_deltalake
from pyspark.sql import DataFrame, SparkSession
from selecting import long
from series import drawn

import deltaproduce as dp
from deltaproduce.engines.spark.data_types import in_spark
from deltaproduce.stages.sources.given.formats import table_of
from deltaproduce.testing import plain_rows, strategies
from deltaproduce.types import data_types as t
from deltaproduce.types.columns import row_schema
from deltaproduce.types.row_readers import UTC

VALUE = """
    s struct<`from`: int, t: string, `a.b`: struct<x: bigint, y: bigint>>,
    of_lists array<struct<p: string, q: string>>,
    of_maps map<struct<k: int, l: int>, struct<m: int, n: array<struct<u: int, v: int>>>>,
    plain map<string, array<int>>
"""
SCHEMA = row_schema("id bigint", VALUE, stage="s")


def shuffled(data_type: t.DataType, chance: random.Random) -> t.DataType:
    """The type with the fields of its structs in another order."""
    match data_type:
        case t.StructType():
            fields = [t.StructField(f.name, shuffled(f.dataType, chance)) for f in data_type]
            return t.StructType(chance.sample(fields, len(fields)))
        case t.ArrayType():
            return t.ArrayType(shuffled(data_type.elementType, chance))
        case t.MapType():
            parts = (data_type.keyType, data_type.valueType)
            return t.MapType(*(shuffled(part, chance) for part in parts))
    return data_type


def arranged(value: Any, before: t.DataType, after: t.DataType) -> Any:
    """A value of the first type as one of the second."""
    match before, after:
        case (_, _) if value is None:
            return None
        case t.StructType(), t.StructType():
            named = dict(zip(before.names, value, strict=True))
            return tuple(
                arranged(named[f.name], before[f.name].dataType, f.dataType) for f in after
            )
        case t.ArrayType(), t.ArrayType():
            return [arranged(one, before.elementType, after.elementType) for one in value]
        case t.MapType(), t.MapType():
            return {
                arranged(k, before.keyType, after.keyType): arranged(
                    v, before.valueType, after.valueType
                )
                for k, v in value.items()
            }
    return value


def in_any_order(spark: SparkSession, rows: list[Any], seed: int) -> DataFrame:
    """Rows as a DataFrame whose structs have their fields in a random order."""
    chance = random.Random(seed)
    declared = t.StructType([*SCHEMA.key.struct, *SCHEMA.value.struct])
    found = shuffled(declared, chance)
    assert isinstance(found, t.StructType)
    return spark.createDataFrame([arranged(row, declared, found) for row in rows], in_spark(found))


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({}, marks=long),
        {"small_table_rows": 0, "replaced_percent": 900, "local_rows": 0},
    ],
    ids=str,
)
def test_what_is_stored_is_what_an_arrow_table_gives(
    spark: SparkSession, tmp_path: Path, limits: dict[str, int]
) -> None:
    """Stores, snapshots, data sets and record indexes take the rows in every order of fields."""
    values = drawn(strategies.values(SCHEMA.value), 12, 42)
    rows = [(number, *value) for number, value in enumerate(values)]
    pipeline = dp.Pipeline("p")
    source = pipeline.source("s", key="id bigint", value=VALUE)
    store = dp.Store(spark, tmp_path / "store", pipeline, limits=dp.Limits(**limits))
    store.update({"s": in_any_order(spark, rows, 1)})
    names = ["id", *SCHEMA.value.names]
    stored = plain_rows(store.content("s").select(*(f"`{n}`" for n in names)).collect())
    assert stored == plain_rows(rows)
    assert store.load({"s": in_any_order(spark, rows, 2)}).number == 1
    table = table_of(in_any_order(spark, rows, 3).toArrow(), source, UTC, is_snapshot=True)
    assert store.load({"s": table}).number == 1
    if limits:
        return
    data = dp.Dataset.create(spark, tmp_path / "data", schema=f"id bigint, {VALUE}")
    with data.writer() as writer:
        writer.write(in_any_order(spark, rows, 4))
    assert plain_rows(data.read().select(*names).collect()) == plain_rows(rows)
    write_deltalake(tmp_path / "table", table.select(names).slice(0, 6))
    index = dp.RecordIndex(spark, str(tmp_path / "table"), "id", str(tmp_path / "index"))
    index.build()
    changed = index.upsert(in_any_order(spark, rows, 5))
    assert (changed.inserted, changed.updated) == (6, 0)
    found = spark.read.format("delta").load(str(tmp_path / "table")).select(*names)
    assert plain_rows(found.collect()) == plain_rows(rows)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("struct<x: int, y: int>", r"'s' has the fields \['x', 'y'\], not \['n', 't'\]"),
        ("struct<t: int, n: int>", r"'s' in field 't' has type int, not string; cast it"),
        ("int", r"'s' has type int, not struct"),
    ],
)
def test_what_does_not_fit_is_told_by_field(
    spark: SparkSession, tmp_path: Path, given: str, said: str
) -> None:
    """No advice is to cast a struct, which Spark does by position."""
    pipeline = dp.Pipeline("p")
    pipeline.source("s", key="id int", value="s struct<n: int, t: string>")
    store = dp.Store(spark, tmp_path / "store", pipeline)
    with pytest.raises(dp.InvalidChangesError, match=said):
        store.update({"s": spark.createDataFrame([], f"id int, s {given}")})
    lists = dp.Dataset.create(spark, tmp_path / "data", schema="s array<struct<n: int, t: string>>")
    with pytest.raises(dp.InvalidChangesError, match="in its elements"), lists.writer() as writer:
        writer.write(spark.createDataFrame([], f"s array<{given}>"))
