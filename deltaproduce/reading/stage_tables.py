"""Stage tables: the rows of one table of a stage in a version, as users get them.

The invariant: the columns are those that the stage had in that version.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from deltaproduce.model import arguments
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import (
    CONTENT,
    KEY_MAPPINGS,
    KINDS,
    RUNS,
    UPDATES,
    content_columns,
    pair_of,
    sources_of,
    updates_columns,
)
from deltaproduce.reading.opened import Opened
from deltaproduce.storage.versions import stage_at
from deltaproduce.types.columns import ORDINAL_COLUMN, POSITION_COLUMN


def content(store: Opened, stage: str | Stage, version: int | None, ordered: bool) -> DataFrame:
    """See `Store.content`."""
    arguments.flag(ordered, "ordered")
    known, wanted = store.stage(stage), store.version(version)
    found = stage_at(wanted, known)
    store.check_there(wanted, [found.name], CONTENT, RUNS)
    with store.noticing():
        rows = store.reader.content(wanted, found)
    sources = sources_of(found)
    in_order = (*found.schema.key, *sources, ORDINAL_COLUMN) if ordered else ()
    columns = content_columns(found.schema, sources)
    return store.frame(None if rows is None else rows.all(), columns, in_order)


def key_mappings(
    store: Opened, stage: str | Stage, version: int | None, ordered: bool
) -> DataFrame:
    """See `Store.key_mappings`."""
    arguments.flag(ordered, "ordered")
    known, wanted = store.producer(stage), store.version(version)
    found = stage_at(wanted, known)
    store.check_there(wanted, [found.name], KEY_MAPPINGS, RUNS)
    with store.noticing():
        rows = store.reader.key_mappings(wanted, found)
    pair = pair_of(found)
    return store.frame(None if rows is None else rows.all(), pair, pair if ordered else ())


def updates(store: Opened, stage: str | Stage, version: int | None, ordered: bool) -> DataFrame:
    """See `Store.updates`."""
    arguments.flag(ordered, "ordered")
    known, wanted = store.stage(stage), store.version(version)
    found = stage_at(wanted, known)
    store.check_there(wanted, [found.name], UPDATES)
    rows = store.reader.updates(wanted, found)
    in_order = (*found.schema.key, POSITION_COLUMN) if ordered else ()
    return store.frame(rows, updates_columns(found.schema), in_order)


def sql_name(store: Opened, stage: str | Stage, table: str) -> str:
    """See `Store.sql_name`."""
    location = store.tables.location
    if stage == location.log().name:
        return location.log().sql
    arguments.choice(table, "table", KINDS)
    found = store.producer(stage) if table == KEY_MAPPINGS else store.stage(stage)
    if found.kind.place is not None and table == CONTENT:
        return store.tables.existing(found.kind.place).sql
    return location.table(found.name, table).sql
