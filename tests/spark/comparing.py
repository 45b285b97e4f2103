"""Holding a store against the oracle, table by table."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC
from typing import Any

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


def as_snapshots(
    spark: SparkSession, pipeline: Pipeline, rows: Mapping[str, Sequence[Upsert]]
) -> dict[str, DataFrame]:
    """All rows of some sources, as the store takes them."""
    frames = as_frames(spark, pipeline, rows)
    return {name: frame.drop("_change_type") for name, frame in frames.items()}


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


def assert_changes(
    store: Store, oracle: Oracle, stage: str, since: int, until: int | None, mode: Any
) -> None:
    """The feed of a range has the oracle's rows, each with the time of its version."""
    frame = store.changes(stage, since, until, mode)
    found = plain_rows(frame.collect())
    published = {version.number: version.committed_at for version in store.versions()}
    for row in found:
        assert row[-1].astimezone(UTC) == published[row[-2]]
    rest = [row[:-1] for row in found]
    for row in plain_rows(oracle.changes(stage, since, until, mode)):
        assert row in rest, f"{mode} changes of {stage} from {since} to {until}"
        rest.remove(row)
    assert not rest, f"{mode} changes of {stage} from {since} to {until}"


def assert_same(store: Store, oracle: Oracle, pipeline: Pipeline, version: int) -> None:
    """Every table of every stage at a version has the oracle's columns and rows, in its order."""
    for name, stage in ((stage.name, stage) for stage in pipeline.stages):
        for table in TABLES if stage.feeders else ("content", "updates"):
            frame = getattr(store, table)(name, version, ordered=True)
            assert tuple(frame.columns) == oracle.columns(name, table)
            found, expected = plain_rows(frame.collect()), getattr(oracle, table)(name, version)
            assert found == plain_rows(expected), f"{table} of {name} at version {version}"
