"""Updates: versions of what is given, or asked for, of sources and stages.

Changes, or all rows, of sources; a key that is forgotten; stages that are produced anew. The
invariant: what is given is computed once, however often publishing it is tried.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Literal

from deltaproduce.engines.selections import Selection
from deltaproduce.errors import CorruptStoreError, InvalidArgumentError, InvalidChangesError
from deltaproduce.model import arguments
from deltaproduce.model.graph import Source, Stage
from deltaproduce.model.layouts import CONTENT
from deltaproduce.operations.mending import verify
from deltaproduce.operations.step.plan import Step
from deltaproduce.operations.writer import OnConflict, Writer
from deltaproduce.reading.opened import Opened
from deltaproduce.reading.remains import Forgotten, alive_in, remains
from deltaproduce.stages.batches import Batch
from deltaproduce.stages.kind import arrivals, source_kind
from deltaproduce.storage.versions import Version, unbroken
from deltaproduce.types.excerpts import shown


def update(
    writer: Writer,
    operation: Literal["update", "load"],
    given: Mapping[str, object],
    update_id: str | None,
    on_conflict: OnConflict | None,
) -> Version:
    """See `Store.update` and `Store.load`."""
    store, executor = writer.opened, writer.executor
    sources = _sources(store, given)
    name = None if update_id is None else arguments.text(update_id, "update_id")
    batches: dict[str, Batch] = {}

    def attempt() -> Version:
        versions, known = store.log.versions(), store.log.with_ids()
        if name is not None and name in known:
            return known[name]
        if not batches:
            all_rows = operation == "load"
            batches.update(
                (
                    source.name,
                    source_kind(source).taken(rows, source, store.engines, is_snapshot=all_rows),
                )
                for source, rows in sources
            )
        head = store.log.last_read
        news = arrivals(store.graph.sources, head, store.tables)
        try:
            with store.noticing():
                return executor.update(
                    operation, head, batches=batches, arrivals=news, update_id=name
                )
        except CorruptStoreError as error:
            lost = [store.tables.location.table(source, CONTENT).name for source in batches]
            if operation != "load" or error.table not in lost:
                raise
            found = verify(store)
            return executor.repair(versions, found, operation, batches=batches, update_id=name)

    return writer.published(attempt, on_conflict)


def plan(writer: Writer, given: Collection[str | Source]) -> tuple[Step, ...]:
    """See `Store.plan`."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        message = f"given is {shown(given)}; give a collection of sources, or of names"
        raise InvalidArgumentError(message, argument="given")
    store = writer.opened
    names = [store.source(source, "given").name for source in given]
    head = store.log.head()
    news = arrivals(store.graph.sources, head, store.tables)
    return writer.executor.plan(head, given=names, arrivals=news)


def refresh(writer: Writer, stage: str | Stage | None) -> Version:
    """See `Store.refresh`."""
    found = None if stage is None else writer.opened.stage(stage)
    return writer.published(partial(_refreshed, writer, found))


def _refreshed(writer: Writer, found: Stage | None) -> Version:
    store, executor = writer.opened, writer.executor
    head = store.log.head()
    if found is None:
        names = [producer.name for producer in store.graph.producers]
        return executor.update("refresh", head, refreshed=names)
    if found.kind.place is None:
        return executor.update("refresh", head, refreshed=[store.producer(found.name).name])
    readers = [producer.name for producer in store.graph.readers_of(found.name)]
    news = arrivals(store.graph.sources, head, store.tables, anew=found.name)
    mine = {found.name: news[found.name]}
    return executor.update("refresh", head, arrivals=mine, refreshed=readers)


def forget(writer: Writer, source: str | Source, key: object) -> Forgotten:
    """See `Store.forget`."""
    store = writer.opened
    found = store.source(source, "source")
    if not found.kind.takes_rows:
        raise InvalidArgumentError(
            f"source {found.name!r} is the Delta table {found.table!r}: delete the key there, "
            "and update",
            argument="source",
        )
    keys = Selection.one(key, found.schema.key, store.engines)
    batches = {found.name: Batch.deleting(keys, found)}
    version = writer.published(
        lambda: writer.executor.update("forget", store.log.head(), batches=batches)
    )
    versions = store.log.versions()
    if unbroken(versions, found.name):
        with store.noticing():
            alive = alive_in(versions, store.reader.history(version, found, keys))
    else:  # older updates are not at hand, so it may have been there at any time
        alive = frozenset(version.number for version in versions[:-1])
    stages = (found.name, *store.graph.downstream_of([found.name]))
    return Forgotten(version, remains(versions, stages, alive))


def _sources(store: Opened, changes: Mapping[str, object]) -> list[tuple[Source, object]]:
    """The sources that something is given for, with what is given."""
    known = {source.name: source for source in store.graph.sources}
    if not isinstance(changes, Mapping):
        raise InvalidChangesError(
            f"changes are a {type(changes).__name__}: give a mapping of source names to DataFrames"
        )
    for name in changes:
        if name not in known:
            raise InvalidChangesError(
                f"changes are given for {name!r}, which is no source; sources: {sorted(known)}",
                source=str(name),
            )
        if not known[name].kind.takes_rows:
            raise InvalidChangesError(
                f"changes are given for {name!r}, which is the Delta table "
                f"{known[name].table!r}: change that; an update takes what is new in it",
                source=name,
            )
    return [(known[name], given) for name, given in changes.items()]
