"""Copying: the rows of a stage for copies outside of the store, batch by batch.

The rows are either all rows of a version, or the current rows of each key that changed between two
versions. The invariant: a copy of the first version, in which the changed keys get these rows,
equals the second version.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.marks import DELETE
from deltaproduce.engines.spark.frames import streamed
from deltaproduce.errors import DefinitionError
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import CONTENT, RUNS, UPDATES, Layout
from deltaproduce.reading.opened import Opened
from deltaproduce.reading.readers import StageReader
from deltaproduce.storage.versions import Version, stage_at
from deltaproduce.types.columns import CHANGE_TYPE, CHANGE_TYPE_COLUMN, Column

_BATCH_ROWS: Final = 1 << 16
_BATCH_BYTES: Final = 16 << 20
"""The approximate limits of a batch, in rows and bytes; the lower one applies."""


def copied_stage(store: Opened, name: str) -> Stage:
    """Return a stage by its name.

    Raises:
        NotFoundError: there is none.
        DefinitionError: it is a source that forgets rows (``expire="forget"``).
    """
    stage = store.stage(name)
    kept = stage.kind.intake.retention
    if kept is not None and kept.forgets:
        raise DefinitionError(
            f"source {stage.name!r} forgets rows, of which no update tells, so a copy would keep "
            "them; copy what is made of it instead",
            stage=stage.name,
        )
    return stage


def copied_columns(stage: Stage) -> tuple[Column, ...]:
    """Return the columns of a stage's copy: the key and value columns that readers see."""
    layout = Layout.of(stage)
    return tuple(c for c in (*layout.key, *layout.value) if not c.is_hidden)


def all_rows(store: Opened, stage: Stage, version: Version) -> Iterator[pa.Table]:
    """Yield all rows of a stage in a version, in its `copied_columns` of that version."""
    stage = stage_at(version, stage)
    store.check_there(version, [stage.name], CONTENT, RUNS)
    with store.noticing():
        stored = StageReader(store.tables, from_files=True).content(version, stage)
        if stored is not None:
            rows = _batch_rows(stored.row_bytes)
            yield from stored.batches(copied_columns(stage), rows)


def changed_rows(store: Opened, stage: Stage, since: Version, until: Version) -> Iterator[pa.Table]:
    """Yield the current rows of the keys with updates after one version, up to another.

    Returns:
        `copied_columns` and ``_change_type``: all rows of a key, as ``upsert``; or one ``delete``
        row. Each key appears once, as of its last update.
    """
    stage = stage_at(until, stage)
    store.check_there(until, [stage.name], UPDATES)
    columns = (*copied_columns(stage), CHANGE_TYPE_COLUMN)
    with store.noticing():
        updates = store.reader.updates(until, stage, since.number)
        if updates is None:
            return
        latest = store.engines.of(updates).latest(updates, Layout.of(stage))
        parts = (
            _sliced(latest, columns) if isinstance(latest, pa.Table) else streamed(latest, columns)
        )
        for part in parts:
            gone = pc.equal(part.column(CHANGE_TYPE), DELETE)
            words = pc.if_else(gone, "delete", "upsert")
            yield part.drop_columns([CHANGE_TYPE]).append_column(CHANGE_TYPE, words)


def _sliced(rows: pa.Table, columns: tuple[Column, ...]) -> Iterator[pa.Table]:
    chunk = rows.select([c.name for c in columns])
    size = _batch_rows(chunk.nbytes // max(len(chunk), 1))
    for first in range(0, len(chunk), size):
        yield chunk.slice(first, size)


def _batch_rows(row_bytes: int) -> int:
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(row_bytes, 1)))
