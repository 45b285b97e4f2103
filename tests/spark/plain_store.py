"""An independent reader of a store's tables at a version, without Spark or the library's readers.

It uses the format on disk only: a version's figures, the Delta tables at the delta versions that
they pin, and runs, which it applies to their base in a few lines. The invariant: for each table it
returns all rows, or None where only Spark can read the table.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from deltaproduce import Producer, Source
from deltaproduce.storage.figures import StageFigures
from deltaproduce.storage.locations import Location
from deltaproduce.storage.versions import Version
from deltaproduce.testing import plain_rows
from deltaproduce.testing.oracle import sort_key
from deltaproduce.types.atoms import arrow_schema
from deltaproduce.types.columns import Column, Columns
from deltaproduce.types.data_types import LongType, StructType
from deltaproduce.types.row_readers import row_reader

Rows = list[tuple[Any, ...]]

Read = Callable[..., Rows | None]
"""Reads columns of one of a stage's tables at the version, given its kind and their names."""


def rows_of(
    location: Location, version: Version, name: str, stage: Source | Producer, table: str
) -> Rows | None:
    """The rows of a table in normal form and in order; None if only Spark can read them.

    Args:
        name: what the stage is called in the store.
        stage: what has its columns, perhaps under another name.
        table: ``content``, ``key_mappings`` or ``updates``.
    """
    figures, number = version.stages.get(name), version.number
    if figures is None or not (figures.rows or table == "updates"):
        return []
    if figures.origin.table and (
        table == "content" or figures.past.begun == number
    ):  # others' rows
        return None

    def read(kind: str, *names: str) -> Rows | None:
        pinned = figures.delta_versions.get(kind)
        return [] if pinned is None else _rows(location.table(name, kind).address, pinned, names)

    put_together = _updates if table == "updates" else _overlaid
    found = put_together(read, figures, stage, number, table)
    if found is None:
        return None
    by, places = _order(stage, table)
    in_order = sorted(found, key=lambda row: sort_key([row[place] for place in places], by))
    hidden = {place for column, place in zip(by, places, strict=True) if column.is_hidden}
    return [tuple(v for place, v in enumerate(row) if place not in hidden) for row in in_order]


def fetched(address: str, delta_version: int | None) -> tuple[pa.Table, StructType] | None:
    """A Delta table's rows and types; None if it has times, of which Spark has more years."""
    found = DeltaTable(address, version=delta_version)
    fields = found.schema().to_json()
    if "timestamp" in fields:
        return None
    query = QueryBuilder().register("found", found).execute("SELECT * FROM found")
    struct = StructType.fromJson(json.loads(fields))
    columns = [Column(field.name, field.dataType) for field in struct]
    return pa.table(query.read_all()).cast(arrow_schema(columns)), struct


def _updates(
    read: Read, _: StageFigures, stage: Source | Producer, number: int, table: str
) -> Rows | None:
    key, value = stage.schema.key.names, stage.schema.value.names
    rows = read(table, "_version", "_change_type", *key, "_position", *value)
    return rows and [row for row in rows if row[0] == number]


def _overlaid(
    read: Read, figures: StageFigures, stage: Source | Producer, number: int, table: str
) -> Rows | None:
    """The rows of a base, but for pairs that runs have touched; those have their newest rows."""
    key, sources = stage.schema.key.names, [column.name for column in _sources(stage)]
    content = (*key, *sources, "_ordinal", *stage.schema.value.names)
    base = read(table, *(content if table == "content" else (*sources, *key)))
    runs = read("runs", "_version", "_is_alive", *content) if figures.base.runs else []
    if base is None or runs is None:
        return None
    pair = len(key) + len(sources)
    newest: dict[Any, int] = {}
    for row in runs:
        if figures.base.folded < row[0] <= number:
            newest[row[2 : 2 + pair]] = max(row[0], newest.get(row[2 : 2 + pair], 0))
    alive = [row[2:] for row in runs if row[1] and newest.get(row[2 : 2 + pair]) == row[0]]
    if table == "content":
        found = [row for row in base if row[:pair] not in newest] + alive
        own, library = slice(pair + 1, None), slice(len(key), pair + 1)
        return [(*row[: len(key)], *row[own], *row[library]) for row in found]
    turned = {(*row[len(key) : pair], *row[: len(key)]) for row in alive}
    touched = {(*old[len(key) :], *old[: len(key)]) for old in newest}
    return [row for row in base if row not in touched] + list(turned)


def _rows(address: str, delta_version: int, names: Iterable[str]) -> Rows | None:
    found = fetched(address, delta_version)
    if found is None:
        return None
    table, struct = found[0].combine_chunks(), found[1]
    columns = Columns(tuple(Column(name, struct[name].dataType) for name in names))
    read = row_reader(columns, UTC)
    chunks = (table.column(name).chunks for name in columns.names)
    return plain_rows(read([c[0] for c in chunks])) if len(table) else []


def _sources(stage: Source | Producer) -> Sequence[Column]:
    """The columns of a source key, sorted in the feeder's directions."""
    key = stage.source_key
    return [Column(f"_source_{c.name}", c.data_type, descending=c.descending) for c in key]


def _order(stage: Source | Producer, table: str) -> tuple[Sequence[Column], Sequence[int]]:
    """The columns that a table is sorted by, and where they are in its rows."""
    key, sources = tuple(stage.schema.key), tuple(_sources(stage))
    match table:
        case "content":
            by, width = (*key, *sources, Column("_ordinal", LongType())), len(key)
            first = width + len(stage.schema.value)
            return by, (*range(width), *range(first, first + len(by) - width))
        case "key_mappings":
            return (*sources, *key), range(len(sources) + len(key))
    return (*key, Column("_position", LongType())), range(2, len(key) + 3)
