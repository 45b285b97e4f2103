"""Stores without a session: their batches, and the comparison with the oracle."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from typing import Any

import pyarrow as pa
import pytest

from deltaproduce import Limits, MissingPartitionsError, Pipeline, Source, Store
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local.handles import opened_at
from deltaproduce.model.layouts import Layout
from deltaproduce.testing import Change, Oracle, Upsert, plain_rows
from deltaproduce.types.columns import Columns
from deltaproduce.types.row_readers import row_reader

IN_PARTS = Limits(
    small_table_rows=0,
    replaced_percent=900,
    group_rows=2,
    local_rows=16,
    local_bytes=4096,
    seek_keys=2,
)
"""Under these, whatever has more than a few rows is worked on in parts, which lie in files."""

WAYS = {
    "small": Limits(),
    "runs": Limits(small_table_rows=0, replaced_percent=900, group_rows=2),
    "runs, often folded": Limits(
        small_table_rows=0,
        replaced_percent=900,
        group_rows=2,
        compaction_commits=2,
        compaction_rows=3,
        overlay_runs=3,
    ),
}
"""How tables of few rows are stored: whole, or with runs beside them."""


def shop() -> Pipeline:
    """Orders, by customer, and their totals."""
    pipeline = Pipeline("shop")
    orders = pipeline.source("orders", key="id bigint", value="customer string, amount bigint")

    @pipeline.producer(orders, key="customer string", value="amount bigint")
    def by_customer(key: int, values: Any) -> Any:
        yield from ((value.customer, value.amount) for value in values)

    @pipeline.producer(by_customer, key="customer string", value="total bigint")
    def totals(customer: str, amounts: Any) -> Any:
        yield customer, sum(amounts)

    return pipeline


def as_rows(
    pipeline: Pipeline, batch: Mapping[str, Sequence[Change]], *, is_snapshot: bool = False
) -> dict[str, list[dict[str, Any]]]:
    """The oracle's changes as a store without a session takes them."""
    sources = {source.name: source for source in pipeline.graph().sources}
    return {
        name: [_row(sources[name], change, is_snapshot=is_snapshot) for change in changes]
        for name, changes in batch.items()
    }


def update_both(
    store: Store,
    oracle: Oracle,
    pipeline: Pipeline,
    batch: Mapping[str, Sequence[Change]],
    update_id: str | None = None,
    **told: Any,
) -> None:
    """Do the same with a store and its oracle; what that refuses the store refuses.

    Args:
        told: what the update says of windows.
    """
    given = as_rows(pipeline, batch)
    try:
        number = oracle.update(batch, update_id, **told)
    except MissingPartitionsError:
        with pytest.raises(MissingPartitionsError):
            store.update(given, update_id, **told)
    else:
        assert store.update(given, update_id, **told).number == number
    assert store.head.number == oracle.head


def assert_versions(
    store: Store,
    oracle: Oracle,
    pipeline: Pipeline,
    batches: Iterable[Mapping[str, Sequence[Change]]],
) -> None:
    """Each batch makes the oracle's version, and nothing is wrong afterwards.

    All versions are read once, when the last is made: so each is right, and has stayed so.
    """
    for batch in batches:
        version = store.update(as_rows(pipeline, batch))
        assert version.number == oracle.update(batch)
    assert_same_here(store, oracle, pipeline, range(store.head.number + 1))
    assert store.verify(recompute=True) == ()


def assert_refreshed(store: Store, stages: Iterable[str], skipped: Container[str] = ()) -> None:
    """What stages have stored, states too, is what a refresh makes, which is one version.

    Args:
        skipped: those that no row has ever reached.
    """
    refreshed = store.refresh().stages
    for stage in stages:
        figures = refreshed[stage]
        mode = "skipped" if stage in skipped else "full"
        assert (figures.mode, figures.rows_added, figures.rows_removed) == (mode, 0, 0), stage


def _row(source: Source, change: Change, *, is_snapshot: bool) -> dict[str, Any]:
    row = dict(zip(source.schema.key.names, change.key, strict=True))
    if isinstance(change, Upsert):
        row |= dict(zip(source.schema.value.names, change.value, strict=True))
    if is_snapshot:
        return row
    return {**row, "_change_type": "upsert" if isinstance(change, Upsert) else "delete"}


def assert_same_here(
    store: Store, oracle: Oracle, pipeline: Pipeline, versions: Iterable[int]
) -> None:
    """Every table of every stage has the oracle's columns and rows at some versions, in order.

    Content and key mappings that several versions have at the same place are read once.
    """
    at = {version.number: version.stages for version in store.versions()}
    read: dict[tuple[str, str, str], list[Any]] = {}
    for version in versions:
        for stage in pipeline.stages:
            figures = at[version].get(stage.name) if version in at else None
            where = figures and (figures.delta_versions, figures.base, figures.origin)
            for table in ("content", "key_mappings", "updates"):
                if table == "key_mappings" and not stage.source_key:
                    continue
                place = (stage.name, table, f"{where}")
                if table == "updates" or place not in read:
                    read[place] = _read(store, oracle, stage, table, version)
                expected = plain_rows(getattr(oracle, table)(stage.name, version))
                assert read[place] == expected, f"{table} of {stage.name} at version {version}"


def _read(store: Store, oracle: Oracle, stage: Any, table: str, version: int) -> list[Any]:
    """A table as the store reads it, which has the oracle's columns."""
    rows = getattr(store, table)(stage.name, version, ordered=True)
    assert isinstance(rows, pa.Table)
    assert tuple(rows.column_names) == oracle.columns(stage.name, table)
    layout = Layout.of(stage)
    columns = layout.shown if table == "content" else layout.columns(table)
    shown = Columns(tuple(column for column in columns if not column.is_hidden))
    return plain_rows(tuples(rows, shown))


def assert_no_orphans_here(store: Store) -> None:
    """Each data file of a store is in one of its versions, or in the newest state of a table.

    And each table is in one of its versions.
    """
    tables = store._opened.tables
    root = tables.access.root.directory
    assert root is not None
    pinned = {(tables.location.log().name, None)}
    for version in store._opened.log.versions():
        for stage, figures in version.stages.items():
            for kind, number in figures.delta_versions.items():
                name = tables.location.table(stage, kind).name
                pinned |= {(name, number), (name, None)}
    named = {
        f"{name}/{path}"
        for name, number in pinned
        for path in opened_at(root.at(name), number).get_add_actions().column("path").to_pylist()
    }
    found = {path for path in files_below(root) if "/." not in path}
    data = {path for path in found if "_delta_log/" not in path and path.endswith(".parquet")}
    assert data == named
    logs = {path.partition("/_delta_log/")[0] for path in found if "/_delta_log/" in path}
    assert logs == {name for name, _ in pinned}


def files_below(directory: Directory) -> Iterator[str]:
    """The files in a directory, at any depth, by their paths from there."""
    for entry in directory.entries():
        if not entry.is_directory:
            yield entry.name
            continue
        for inside in files_below(directory.at(entry.name)):
            yield f"{entry.name}/{inside}"


def plain_table(rows: pa.Table) -> list[Any]:
    """The rows in normal form."""
    return plain_rows(tuple(row.values()) for row in rows.to_pylist())


def tuples(rows: pa.Table, columns: Columns) -> list[Any]:
    """The rows, as Python has them."""
    rows = rows.combine_chunks()
    if not len(rows):
        return []
    found = row_reader(columns, UTC)([column.chunks[0] for column in rows.columns])
    return list(found) if len(columns) > 1 else [(value,) for value in found]
