"""Stage tables: the rows of one table of a stage in a version, as users get them.

The invariant: the columns are those that the stage had in that version.
"""

from __future__ import annotations

from deltaproduce.engines.engine import Rows
from deltaproduce.model import arguments
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import CONTENT, KEY_MAPPINGS, KINDS, RUNS, UPDATES, Layout
from deltaproduce.reading.opened import Opened
from deltaproduce.stages.kind import needing
from deltaproduce.storage.versions import Version, stage_at


def content(
    store: Opened,
    stage: str | Stage,
    version: int | None,
    ordered: bool,
    *,
    internal: bool = True,
) -> Rows:
    """See `Store.content`; and `Reader.content` for ``internal``."""
    arguments.flag(internal, "internal")
    wanted, recorded = _recorded(store, store.stage(stage), version, ordered, CONTENT, RUNS)
    with store.noticing(), needing(recorded):
        rows = store.reader.content(wanted, recorded)
        read = None if rows is None else rows.read()
    table = _frame(store, read, recorded, CONTENT, ordered)
    return table if internal else store.without_internal(table, recorded)


def key_mappings(store: Opened, stage: str | Stage, version: int | None, ordered: bool) -> Rows:
    """See `Store.key_mappings`."""
    wanted, recorded = _recorded(store, store.mapped(stage), version, ordered, KEY_MAPPINGS, RUNS)
    with store.noticing():
        rows = store.reader.key_mappings(wanted, recorded)
    return _frame(store, None if rows is None else rows.read(), recorded, KEY_MAPPINGS, ordered)


def updates(store: Opened, stage: str | Stage, version: int | None, ordered: bool) -> Rows:
    """See `Store.updates`."""
    wanted, recorded = _recorded(store, store.stage(stage), version, ordered, UPDATES)
    return _frame(store, store.reader.updates(wanted, recorded), recorded, UPDATES, ordered)


def sql_name(store: Opened, stage: str | Stage, table: str) -> str:
    """See `Store.sql_name`."""
    location = store.tables.location
    if stage == location.log().name:
        return location.log().sql
    arguments.choice(table, "table", KINDS)
    target = store.mapped(stage) if table == KEY_MAPPINGS else store.stage(stage)
    if target.kind.intake.table is not None and table == CONTENT:
        return store.tables.access.existing(target.kind.intake.table).sql
    return location.table(target.name, table).sql


def _recorded(
    store: Opened, stage: Stage, version: int | None, ordered: bool, *kinds: str
) -> tuple[Version, Stage]:
    """Return the version, whose tables must exist, and the stage as it was in it."""
    arguments.flag(ordered, "ordered")
    wanted = store.version(version)
    recorded = stage_at(wanted, stage)
    store.check_there(wanted, [recorded.name], *kinds)
    return wanted, recorded


def _frame(store: Opened, rows: Rows | None, stage: Stage, kind: str, ordered: bool) -> Rows:
    layout = Layout.of(stage)
    columns = layout.shown if kind == CONTENT else layout.columns(kind)
    return store.frame(rows, columns, layout.order(kind) if ordered else ())
