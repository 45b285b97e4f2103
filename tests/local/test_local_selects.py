"""SQL text of queries: DuckDB reads the store's rows with it, with its extension or without.

`tests/spark/test_selects.py` tests the text for Spark; most of the text is the same.
"""

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from local_stores import as_rows, assert_same_here, plain_table, update_both
from other_readers import of_text
from selecting import in_turn
from series import drawn
from test_local_series import HALVES, WAYS

from deltaproduce import (
    InvalidArgumentError,
    Limits,
    NotFoundError,
    Pipeline,
    Store,
    Version,
)
from deltaproduce.engines.local.arrays import in_order
from deltaproduce.model.layouts import Layout
from deltaproduce.testing import Oracle, strategies
from deltaproduce.types.atoms import arrow_schema

PIPELINES = int(os.environ.get("LOCAL_PIPELINES", "2"))
VERSIONS = 4


class ByDuckDb:
    """A store whose tables are read by DuckDB, with the store's texts."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def versions(self) -> list[Version]:
        return self._store.versions()

    def content(self, stage: str, version: int, *, ordered: bool) -> pa.Table:
        return self._read("content", stage, version, ordered=ordered)

    def key_mappings(self, stage: str, version: int, *, ordered: bool) -> pa.Table:
        return self._read("key_mappings", stage, version, ordered=ordered)

    def updates(self, stage: str, version: int, *, ordered: bool) -> pa.Table:
        return self._read("updates", stage, version, ordered=ordered)

    def _read(self, kind: str, stage: str, version: int, *, ordered: bool) -> pa.Table:
        """In the order and the types of the store's own rows."""
        assert ordered
        found = of_text(self._store.sql(stage, version, dialect="duckdb", table=kind))
        layout = Layout.of(self._store._opened.graph.stage(stage))
        shown = layout.shown if kind == "content" else layout.columns(kind)
        columns = [column for column in shown if not column.is_hidden]
        order = [column for column in layout.order(kind) if not column.is_hidden]
        return in_order(found.cast(arrow_schema(columns)), order)


def assert_read(store: Store, oracle: Oracle, pipeline: Pipeline, versions: Iterable[int]) -> None:
    assert_same_here(ByDuckDb(store), oracle, pipeline, versions)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("number", "way"),
    in_turn(PIPELINES, WAYS, 2, longer="LOCAL_PIPELINES" in os.environ, kept=HALVES[0]),
)
def test_duckdb_reads_every_table_at_every_version(
    location: str, number: int, way: str, long_run: bool
) -> None:
    """Whatever is updated, rolled back and folded; in a long run before it is folded, too."""
    number = 4_000 + number * len(WAYS) + list(WAYS).index(way)
    (pipeline,) = drawn(strategies.pipelines(), 1, number)
    versions = VERSIONS if long_run else 2
    histories = strategies.histories(pipeline, min_versions=versions, max_versions=versions)
    (history,) = drawn(histories, 1, number)
    oracle = Oracle(pipeline)
    with Store(None, location, pipeline, **WAYS[way]) as store:
        for batch in history:
            update_both(store, oracle, pipeline, batch)
        assert store.rollback(1).number == oracle.rollback(1)
        if long_run:
            assert_read(store, oracle, pipeline, range(oracle.head + 1))
        store.compact()
        store.update(as_rows(pipeline, history[0])), oracle.update(history[0])
        assert_read(store, oracle, pipeline, range(oracle.head + 1))


NESTED = "s struct<`a-b`: int NOT NULL, m: map<string, array<double>>>"
MOMENTS = "d decimal(12,2), t timestamp, n timestamp_ntz"


def odd() -> Pipeline:
    """Names that have to be quoted, and types of which DuckDB has others."""
    pipeline = Pipeline("odd")
    key = '`a-"b` string, `select` date'
    pipeline.source("odd", key=key, value=f"{NESTED}, {MOMENTS}, b binary")
    return pipeline


def test_names_and_types_are_spelled_as_duckdb_does(location: str) -> None:
    """Of no rows, too, and in a directory whose name says a partition to DuckDB."""
    with Store(None, f"{location}/k=7", odd()) as store:
        for version in range(3):
            found, own = of_text(store.sql("odd", dialect="duckdb")), store.content("odd")
            assert found.column_names == own.column_names
            assert found.to_pylist() == own.to_pylist()
            assert len(found) == min(version, 1)
            row = {"s": {"a-b": version, "m": {"x": [1.5]}}, "b": b"\0", "d": Decimal("1.25")}
            moments = {"t": datetime(2026, 1, 1, tzinfo=UTC), "n": datetime(2026, 1, 1)}
            store.update({"odd": [{'a-"b': None, "select": None, **row, **moments}]})


@pytest.mark.parametrize("folder", ["gr\u00f6\u00dfe", "k=7"])
def test_marked_rows_are_read_by_the_extension_s_scan(location: str, folder: str) -> None:
    """Of any column types and names, at each version, with partitions and without."""
    at = Limits(small_table_rows=0, group_rows=3, replaced_percent=900)
    pipeline = odd()
    pipeline.source("parted", key="id bigint", value="n int", stored={"partition": "id % 2 AS b"})
    with Store(None, f"{location}/{folder}", pipeline, limits=at) as store:
        moments = {"t": datetime(2026, 1, 1, tzinfo=UTC), "n": datetime(2026, 1, 1)}
        row = {"select": None, "b": b"\0", "d": Decimal("1.25"), **moments}
        for version in range(3):
            keys = range(20) if version == 0 else range(version, 20, 9)
            given = [{'a-"b': f"{k}", **row, "s": {"a-b": version, "m": {}}} for k in keys]
            parted = [{"id": k, "n": version} for k in keys]
            store.update({"odd": given, "parted": parted})
        for name in ("odd", "parted"):
            for version in range(1, 4):
                text, own = store.sql(name, version, dialect="duckdb"), store.content(name, version)
                assert ("delta_scan(" in text) == (version > 1)
                found = of_text(text)
                assert found.column_names == own.column_names
                rows = [sorted(plain_table(found), key=repr), sorted(plain_table(own), key=repr)]
                assert rows[0] == rows[1]


def test_what_is_not_there_is_refused(location: str) -> None:
    with Store(None, location, odd()) as store:
        store.update({"odd": [{'a-"b': "x", "select": None}]})
        for stage, table in (("nowhere", "content"), ("odd", "key_mappings")):
            with pytest.raises(NotFoundError):
                store.sql(stage, table=table)
        with pytest.raises(NotFoundError):
            store.sql("odd", 7)
        for wrong in ({"dialect": "trino"}, {"table": "runs"}):
            with pytest.raises(InvalidArgumentError):
                store.sql("odd", **wrong)  # type: ignore[arg-type]
