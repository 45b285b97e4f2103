"""Overviews: the printed form of a store.

The invariant: no Spark job. If reading the version log would cost one, the overview shows the
newest version that this store has read or published.
"""

from __future__ import annotations

from deltaproduce.engines.file_systems.choice import directory
from deltaproduce.reading.opened import Opened
from deltaproduce.shown.table import Table
from deltaproduce.storage.figures import StageFigures
from deltaproduce.storage.versions import Version

_NONE = StageFigures("skipped")


def overview(store: Opened, pipeline: str) -> Table:
    """Return the stages of a store, with their rows in the newest version.

    Args:
        pipeline: the name of the pipeline.
    """
    head = _newest(store)
    rows = []
    for stage in store.defined:
        figures = head.stages.get(stage.name, _NONE)
        reads = ", ".join(feeder.name for feeder in stage.merged)
        rows.append((stage.name, stage.kind.word, reads, figures.rows, figures.changed_keys))
    title = f"{store.tables.location.address}, pipeline {pipeline}, {head.headline}"
    return Table(title, ("stage", "kind", "reads", "rows", "keys changed last"), tuple(rows))


def _newest(store: Opened) -> Version:
    place = directory(store.tables.location.address)
    costs_job = store.tables.location.in_catalog or place is None or not place.is_taken
    return store.log.last_read if costs_job else store.log.head()
