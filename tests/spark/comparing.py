"""Holding a store against the oracle, table by table."""

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from deltaproduce import Pipeline, Source, Store
from deltaproduce.testing import Change, Oracle, Upsert, plain_rows

TABLES = ("content", "key_mappings", "updates")


def as_frames(
    spark: SparkSession, pipeline: Pipeline, batch: Mapping[str, Sequence[Change]]
) -> dict[str, DataFrame]:
    """The oracle's changes as the store takes them."""
    sources = {source.name: source for source in pipeline.graph().sources}
    return {name: as_frame(spark, sources[name], changes) for name, changes in batch.items()}


def as_frame(spark: SparkSession, source: Source, changes: Iterable[Change]) -> DataFrame:
    schema = source.schema
    fields = [*schema.key.struct, *schema.value.struct, StructField("_change_type", StringType())]
    rows = [
        (*change.key, *change.value, "upsert")
        if isinstance(change, Upsert)
        else (*change.key, *(None for _ in schema.value), "delete")
        for change in changes
    ]
    return spark.createDataFrame(rows, StructType(fields))


def assert_same(store: Store, oracle: Oracle, pipeline: Pipeline, version: int) -> None:
    """Every table of every stage at a version has the oracle's columns and rows, in its order."""
    for name, stage in ((stage.name, stage) for stage in pipeline.stages):
        for table in TABLES if stage.feeders else ("content", "updates"):
            frame = getattr(store, table)(name, version, ordered=True)
            assert tuple(frame.columns) == oracle.columns(name, table)
            found, expected = plain_rows(frame.collect()), getattr(oracle, table)(name, version)
            assert found == plain_rows(expected), f"{table} of {name} at version {version}"
