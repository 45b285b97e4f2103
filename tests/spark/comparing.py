"""Comparison of a store with the oracle, table by table."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import UTC
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import plain_store
import pyarrow as pa
from deltalake import DeltaTable
from forcing import setting
from local_stores import as_rows, tuples
from pyspark.sql import DataFrame, SparkSession

from deltaproduce import Pipeline, Producer, Source, Store
from deltaproduce.engines.change_feed import feed_columns
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.spark.data_types import frame_struct, in_spark
from deltaproduce.engines.spark.frames import frame
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import Layout
from deltaproduce.reading.readers import StageReader
from deltaproduce.storage.locations import StoreTable
from deltaproduce.storage.tables.access import TableAccess
from deltaproduce.storage.tables.reader import TableReader
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.storage.versions import EMPTY
from deltaproduce.testing import Change, Oracle, Upsert, plain_rows
from deltaproduce.types.atoms import arrow_schema
from deltaproduce.types.columns import NO_KEY, Column, Columns
from deltaproduce.types.data_types import StringType, StructField, StructType

TABLES = ("content", "key_mappings", "updates")


def as_frames(
    spark: SparkSession | None, pipeline: Pipeline, batch: Mapping[str, Sequence[Change]]
) -> dict[str, Any]:
    """The oracle's changes as the store takes them: as DataFrames, or else as dicts."""
    if spark is None:
        return dict(as_rows(pipeline, batch))
    sources = {source.name: source for source in pipeline.graph().sources}
    return {name: as_frame(spark, sources[name], changes) for name, changes in batch.items()}


def as_snapshots(
    spark: SparkSession | None, pipeline: Pipeline, rows: Mapping[str, Sequence[Upsert]]
) -> dict[str, Any]:
    """All rows of some sources, as the store takes them."""
    if spark is None:
        return dict(as_rows(pipeline, rows, is_snapshot=True))
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
    return spark.createDataFrame(rows, in_spark(StructType(fields)))


def assert_changes(
    store: Store, oracle: Oracle, stage: str, since: int, until: int | None, mode: Any
) -> None:
    """The feed of a range has the oracle's rows, each with the time of its version."""
    has_spark = store._opened.engines.session is not None
    rows = (read_by_delta_rs(store) if has_spark else store).changes(stage, since, until, mode)
    columns = feed_columns(Layout.of(store._opened.graph.stage(stage)).fed)
    found = shown_rows(rows, [column for column in columns if not column.is_hidden])
    published = {version.number: version.committed_at for version in store.versions()}
    for row in found:
        assert row[-1].astimezone(UTC) == published[row[-2]]
    rest = [row[:-1] for row in found]
    for row in plain_rows(oracle.changes(stage, since, until, mode)):
        assert row in rest, f"{mode} changes of {stage} from {since} to {until}"
        rest.remove(row)
    assert not rest, f"{mode} changes of {stage} from {since} to {until}"


def assert_same(
    store: Store,
    oracle: Oracle,
    pipeline: Pipeline,
    version: int,
    *,
    in_spark: bool = False,
) -> None:
    """Every table of every stage at a version has the oracle's columns and rows, in its order.

    Args:
        in_spark: all are read as users do, a second each. Otherwise `plain_store` reads all, in
            milliseconds, and of each second version the store one of them, each time another one.
    """
    stages = {stage.name: stage for stage in pipeline.stages}
    if in_spark:
        assert_read(store, oracle, _tables(stages), version)
    else:
        assert_stages(store, oracle, stages, version)


def assert_stages(
    store: Store, oracle: Oracle, stages: Mapping[str, Source | Producer], version: int
) -> None:
    """The same for some of the store's stages, of which each has a stage of the oracle."""
    location, tables = store._opened.tables.location, [*_tables(stages)]
    (at,) = (found for found in (EMPTY, *store.versions()) if found.number == version)
    through_the_store = [] if version % 2 else [tables[version // 2 % len(tables)]]
    for name, twin, table in tables:
        found = plain_store.rows_of(location, at, name, twin, table)
        if found is None:
            through_the_store.append((name, twin, table))
        else:
            expected = plain_rows(getattr(oracle, table)(twin.name, version))
            assert found == expected, f"{table} of {name} at version {version}"
    if through_the_store:
        assert_read(read_by_delta_rs(store), oracle, through_the_store, version)


StageTable = tuple[str, Source | Producer, str]
"""A stage's name in a store, the stage as the oracle has it, and the kind of a table."""


def _tables(stages: Mapping[str, Source | Producer]) -> Iterator[StageTable]:
    for name, twin in stages.items():
        for table in TABLES if twin.source_key else ("content", "updates"):
            yield name, twin, table


def assert_read(store: Store, oracle: Oracle, tables: Iterable[StageTable], version: int) -> None:
    """Some tables, as the store reads them, have the oracle's columns and rows, in its order."""
    with setting(
        store._opened.engines.spark, "spark.sql.shuffle.partitions", "1"
    ):  # to sort by one job, not two
        for name, twin, table in tables:
            rows = getattr(store, table)(name, version, ordered=True)
            assert tuple(rows.columns) == oracle.columns(twin.name, table)
            expected = plain_rows(getattr(oracle, table)(twin.name, version))
            found = plain_rows(rows.collect())
            assert found == expected, f"{table} of {name} at version {version}"


def on_disk(location: str) -> set[str]:
    """The data files and deletion vectors of a store, by name."""
    found = (path for path in Path(location).glob("**/*") if "_delta_log" not in path.parts)
    return {path.name for path in found if path.is_file() and path.name[0] not in "._"}


def assert_no_orphans(store: Store) -> None:
    """Each data file of a store is in one of its versions, or in the newest state of a table."""
    location = store._opened.tables.location.address
    read = {("_versions", None)}
    for version in store.versions():
        for stage, figures in version.stages.items():
            for kind, pinned in figures.delta_versions.items():
                read |= {(f"{stage}/{kind}", pinned), (f"{stage}/{kind}", None)}
    named = {
        file.split("/")[-1]
        for table, delta_version in read
        for file in DeltaTable(f"{location}/{table}", version=delta_version).file_uris()
    }
    assert {name for name in on_disk(location) if name.endswith(".parquet")} == named


def assert_lineage(
    store: Store, oracle: Oracle, pipeline: Pipeline, stage: str, key: Any, version: int
) -> None:
    """The keys that one was made from, and those made from it, are what the key mappings say."""
    names = pipeline.graph().stage(stage).schema.key.names
    parts = [key[name] for name in names] if isinstance(key, dict) else key
    (as_tuple,) = plain_rows([parts if isinstance(parts, list | tuple) else (parts,)])
    found = store.lineage(stage, key, version)
    assert (found.stage, found.key, found.version) == (stage, key, version)
    expected = _ways_of(oracle, pipeline, stage, as_tuple, version)
    for frames, ways in zip((found.upstream, found.downstream), expected, strict=True):
        assert frames.keys() == ways.keys() - {stage}
        for name, found_keys in frames.items():
            columns = pipeline.graph().stage(name).schema.key
            if columns == NO_KEY:
                continue
            keys = shown_rows(found_keys, columns)
            assert len(keys) == len(ways[name])
            assert set(keys) == ways[name], f"{name} on the way of {key!r} in {stage}"


def shown_rows(rows: Rows, columns: Iterable[Column]) -> list[Any]:
    """The rows that a user gets, in normal form, which are in these columns and of their types."""
    expected = [*columns]
    if isinstance(rows, pa.Table):
        assert rows.schema == arrow_schema(expected)
        return plain_rows(tuples(rows, Columns(tuple(expected))))
    assert rows.schema.names == [c.name for c in expected]
    assert [field.dataType for field in frame_struct(rows)] == [c.data_type for c in expected]
    return plain_rows(rows.collect())


def _ways_of(
    oracle: Oracle, pipeline: Pipeline, stage: str, key: Any, version: int
) -> tuple[dict[str, set[Any]], dict[str, set[Any]]]:
    """The keys of each stage upstream and downstream of one."""
    producers = [stage for stage in pipeline.stages if isinstance(stage, Producer)]

    def pairs(producer: Producer, feeder: Stage) -> set[Any]:
        return oracle.pairs(producer.name, feeder.name, version)

    up, down = {stage: {key}}, {stage: {key}}
    for producer in reversed(producers):
        if producer.name in up:
            for feeder in chain.from_iterable(producer.inputs):
                wanted = up[producer.name]
                made_from = {s for s, target in pairs(producer, feeder) if target in wanted}
                if feeder.schema.key != NO_KEY:  # else its one key is not shown
                    width = len(feeder.schema.key)
                    rows = plain_rows(oracle.content(feeder.name, version))
                    made_from &= {row[:width] for row in rows}
                up.setdefault(feeder.name, set()).update(made_from)
    for producer in producers:
        fed = chain.from_iterable(producer.inputs)
        reached = [feeder for feeder in fed if feeder.name in down]
        if reached:
            down[producer.name] = {
                target
                for feeder in reached
                for s, target in pairs(producer, feeder)
                if s in down[feeder.name]
            }
    return up, down


def read_by_delta_rs(store: Store) -> Store:
    """The store as of now, with other eyes: its tables are read without Spark.

    For each read Spark runs three jobs or more over Delta's log, and that is most of the time of a
    test that looks at every table. All that the library does with the rows is done as ever.
    """
    versions, other = store.versions(), copy(store)
    opened = store._opened
    tables = Tables(TableAccess(opened.engines, opened.tables.location))
    tables.reader = ReaderByDeltaRs(tables.access)
    log: Any = SimpleNamespace(versions=lambda: versions, last_read=[EMPTY, *versions][-1])
    other._opened = replace(opened, tables=tables, reader=StageReader(tables), log=log)
    return other


class ReaderByDeltaRs(TableReader):
    def read(self, table: StoreTable, delta_version: int | None = None) -> DataFrame:
        if not table.address.startswith(self._access.location.address):  # someone else's
            return super().read(table, delta_version)
        found = plain_store.fetched(table.address, delta_version)
        if found is None:
            return super().read(table, delta_version)
        rows, struct = found
        return frame(rows, self._access.spark, [Column(f.name, f.dataType) for f in struct])
