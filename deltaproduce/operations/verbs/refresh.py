"""Refreshing: stages are produced in full because someone asked."""

from __future__ import annotations

from functools import partial

from deltaproduce.errors import InvalidArgumentError
from deltaproduce.model.graph import Stage
from deltaproduce.operations.writer import Writer
from deltaproduce.stages.kind import arrivals
from deltaproduce.stages.partitioned.presence import presence_batches
from deltaproduce.storage.versions import Version


def refresh(writer: Writer, stage: str | Stage | None) -> Version:
    """See `Store.refresh`."""
    found = None if stage is None else writer.opened.stage(stage)
    return writer.published("refresh", partial(_refreshed, writer, found))


def _refreshed(writer: Writer, found: Stage | None) -> Version:
    store, executor = writer.opened, writer.executor
    head = store.log.head()
    if found is not None and found.kind.scheduled:
        raise InvalidArgumentError(
            f"stage {found.name!r} is made by tasks; store.backfill makes them again",
            argument="stage",
        )
    if found is None:
        producers = store.graph.producers
        names = [producer.name for producer in producers if not producer.kind.scheduled]
        return executor.update("refresh", head, refreshed=names)
    if found.kind.place is None:
        stage = store.producer(found.name)
        beside = [one.name for one in stage.auxiliary]
        return executor.update("refresh", head, refreshed=[stage.name, *beside])
    readers = [producer.name for producer in store.graph.readers_of(found.name)]
    news = arrivals(store.graph.sources, head, store.tables, anew=found.name)
    mine = {found.name: news[found.name]}
    there = presence_batches(store.graph.sources, {}, mine, {}, store.engines)
    return executor.update("refresh", head, batches=there, arrivals=mine, refreshed=readers)
