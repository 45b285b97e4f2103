"""Refreshing: produce stages in full at the caller's request."""

from __future__ import annotations

from functools import partial

from deltaproduce.errors import NotFoundError
from deltaproduce.model.graph import Stage, with_hidden
from deltaproduce.operations.making.request import Request
from deltaproduce.operations.verbs.tasks import marked_of, schedule_of_marked, scheduled
from deltaproduce.operations.writer import Writer
from deltaproduce.stages.kind import arrivals
from deltaproduce.stages.partitioned.presence import presence_batches
from deltaproduce.storage.versions import Version


def refresh(writer: Writer, stage: str | Stage | None) -> Version:
    """See `Store.refresh`."""
    target = None if stage is None else writer.opened.stage(stage)
    return writer.published("refresh", partial(_refreshed, writer, target))


def _refreshed(writer: Writer, target: Stage | None) -> Version:
    head = writer.opened.log.head()
    store, executor = writer.computing.now()
    if target is None or target.kind.tasks.make_rows:
        return _with_tasks(writer, head, target)
    if target.kind.intake.table is None:
        stages = [one.name for one in with_hidden(store.producer(target.name))]
        return executor.update(Request(operation="refresh", refreshed=stages), head)
    readers = [producer.name for producer in store.graph.readers_of(target.name)]
    news = arrivals(store.graph.sources, head, store.tables, from_start=target.name)
    mine = {target.name: news[target.name]}
    there = presence_batches(store.graph.sources, {}, mine, {}, store.engines)
    request = Request(operation="refresh", batches=there, arrivals=mine, refreshed=readers)
    return executor.update(request, head)


def _with_tasks(writer: Writer, head: Version, wanted_stage: Stage | None) -> Version:
    """Refresh all stages, or all tasks of a stage and of its downstream stages.

    Raises:
        NotFoundError: a stage is named, and none of its tasks was ever made.
    """
    store, executor = writer.computing.now()
    reached = (
        None
        if wanted_stage is None
        else {wanted_stage.name, *store.graph.downstream_of([wanted_stage.name])}
    )
    by_tasks = {stage.name for stage in scheduled(store)}
    marked = marked_of(store, head, by_tasks if reached is None else by_tasks & reached)
    if wanted_stage is not None and wanted_stage.name not in marked:
        raise NotFoundError(
            f"no task of {wanted_stage.name!r} was ever made; run them first: store.run(as_of=…)"
        )
    producers = store.graph.producers if wanted_stage is None else ()
    names = [producer.name for producer in producers if not producer.kind.tasks.make_rows]
    schedule = schedule_of_marked(store, head, marked) if marked else None
    return executor.update(Request(operation="refresh", refreshed=names, schedule=schedule), head)
