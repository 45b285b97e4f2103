"""Forgetting: delete a key of a source, and report where it can still be read."""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from deltaproduce.engines.selections import Selection
from deltaproduce.errors import InvalidArgumentError
from deltaproduce.model.graph import Source
from deltaproduce.operations.making.request import Request
from deltaproduce.operations.step.expiry import remembered
from deltaproduce.operations.writer import Writer
from deltaproduce.reading.remains import Forgotten, alive_in, remains
from deltaproduce.stages.batches import Batch
from deltaproduce.stages.kind import divided_batches
from deltaproduce.storage.versions import Version, unbroken
from deltaproduce.types.excerpts import shown


def forget(writer: Writer, source: str | Source, key: object) -> Forgotten:
    """See `Store.forget`."""
    store = writer.opened
    target = store.source(source, "source")
    if not target.kind.intake.takes_rows:
        advice = (
            "has the rows of another source that are set aside: forget the key of that one"
            if target.table is None
            else f"is the Delta table {target.table!r}: delete the key there, and update"
        )
        raise InvalidArgumentError(f"source {target.name!r} {advice}", argument="source")
    store.log.versions()
    there, _ = writer.computing.now()
    keys = Selection.one(key, target.schema.key, there.engines)
    known = remembered(keys.keys, target, store.log.head().windows, store.engines.time_zone)
    if isinstance(known, pa.Table) and not len(known):
        raise InvalidArgumentError(
            f"source {target.name!r} has forgotten the rows of partitions up to that of "
            f"{shown(key)}, and what was made of them stays",
            argument="key",
        )
    deleting = {target.name: Batch.deleting(keys, target)}

    def attempt() -> Version:
        head = store.log.head()
        content, number = partial(there.reader.content, head), head.number + 1
        batches = divided_batches(store.graph.sources, deleting, content, number)
        return writer.executor.update(Request(operation="forget", batches=batches), head)

    version = writer.published("forget", attempt)
    versions = store.log.versions()
    if unbroken(versions, target.name):
        with store.noticing():
            alive = alive_in(versions, store.reader.history(version, target, keys))
    else:  # older updates are gone, so any version may have the key
        alive = frozenset(version.number for version in versions[:-1])
    beside = [one.name for one in store.graph.sources if one.kind.intake.rows_of == target.name]
    stages = (target.name, *beside, *store.graph.downstream_of([target.name, *beside]))
    return Forgotten(version.shown(), remains(versions, stages, alive))
