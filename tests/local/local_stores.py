"""Stores without a session: what they are given, and held against the oracle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC
from typing import Any

import pyarrow as pa

from deltaproduce import Pipeline, Source, Store
from deltaproduce.model.layouts import Layout
from deltaproduce.testing import Change, Oracle, Upsert, plain_rows
from deltaproduce.types.columns import Columns
from deltaproduce.types.row_readers import row_reader


def as_rows(
    pipeline: Pipeline, batch: Mapping[str, Sequence[Change]], *, is_snapshot: bool = False
) -> dict[str, list[dict[str, Any]]]:
    """The oracle's changes as a store without a session takes them."""
    sources = {source.name: source for source in pipeline.graph().sources}
    return {
        name: [_row(sources[name], change, is_snapshot=is_snapshot) for change in changes]
        for name, changes in batch.items()
    }


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
    """Every table of every stage has the oracle's columns and rows at some versions, in order."""
    for version in versions:
        for stage in pipeline.graph().stages:
            layout = Layout.of(stage)
            for table in ("content", "key_mappings", "updates"):
                if table == "key_mappings" and not stage.feeders:
                    continue
                rows = getattr(store, table)(stage.name, version, ordered=True)
                assert isinstance(rows, pa.Table)
                assert tuple(rows.column_names) == oracle.columns(stage.name, table)
                expected = plain_rows(getattr(oracle, table)(stage.name, version))
                found = plain_rows(tuples(rows, Columns(tuple(layout.columns(table)))))
                assert found == expected, f"{table} of {stage.name} at version {version}"


def tuples(rows: pa.Table, columns: Columns) -> list[Any]:
    """The rows, as Python has them."""
    rows = rows.combine_chunks()
    if not len(rows):
        return []
    return list(row_reader(columns, UTC)([column.chunks[0] for column in rows.columns]))
